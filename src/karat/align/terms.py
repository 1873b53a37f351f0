"""Terms of an ontology: those that were returned beside those that the gold expects, and how similar they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import InputError, UsageError, shown
from karat.model.items import TermPairs
from karat.model.policy import earns_gain
from karat.ontology.load import HPO, load_content, open_ontology
from karat.ontology.similarity import content_name, similarities

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from karat.align.hits import Aligned
    from karat.metrics.grammar import Measure
    from karat.ontology.information import InformationContent
    from karat.ontology.terms import Ontology, Resolution

    Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class TermNeeds:
    """The ontology that metrics look at, their similarities with the information content of each, and the depth."""

    ontology: Ontology
    contents: Mapping[str, InformationContent]
    similarities: tuple[tuple[str, str], ...]
    """Similarity and information content, as parameters of metrics name them."""
    basis: Mapping[str, str]
    """By metric: the release that it looks at, with fingerprints of what was read."""

    @staticmethod
    def of(measures: Sequence[Measure], source: Ontology | str | None) -> TermNeeds:
        """What these measures look at in an ontology, which is read here."""
        first = measures[0].name
        if source is None:
            raise UsageError(
                f"{first} needs an ontology; name it with ontology= (--ontology {HPO}|FILE.obo, dataset.ontology in "
                "karat.yaml)"
            ).about(first)
        ontology = open_ontology(source)
        choices = {m.name: (m.param("sim"), content_name(m.param("sim"), m.param("ic"))) for m in measures}
        contents = {name: load_content(ontology, name) for name in dict.fromkeys(ic for _, ic in choices.values())}
        basis = {
            name: " ".join(filter(None, (ontology.release, ontology.fingerprint, contents[ic].fingerprint)))
            for name, (_, ic) in choices.items()
        }
        return TermNeeds(ontology, contents, tuple(dict.fromkeys(choices.values())), basis)


def pair_terms(aligned: Aligned, needs: TermNeeds, *, depth: int, run: str) -> TermPairs:
    """Each expected term of a query beside each term in its top `depth`."""
    ontology = needs.ontology
    gold_query, gold_term, gold_grade, gold = _expected_terms(aligned, ontology)
    query, rank, term, returned = _returned_terms(aligned, ontology, depth)
    if len(returned.ids) and not (returned.term >= 0).any():
        raise InputError(
            f"run {run!r}: none of the {len(returned.ids):,} ids that it returned is a term of {ontology.release} "
            f"({shown(returned.ids[0])}); check the ids, and that the ontology is theirs"
        )
    start = np.searchsorted(query, np.arange(len(aligned.rankings) + 1))
    counts = np.diff(start)[gold_query]
    expected = np.repeat(np.arange(len(gold_query)), counts)
    item = np.arange(len(expected)) + np.repeat(start[gold_query] - np.cumsum(counts) + counts, counts)
    one, other = gold_term[expected], term[item]
    values = {}
    for ic, content in needs.contents.items():
        names = [sim for sim, its in needs.similarities if its == ic]
        mine = similarities(ontology, content, names, one, other)
        values.update({(sim, ic): mine[sim] for sim in names})
    unknown = len(aligned.rankings) - len(np.unique(gold_query))
    notes = [
        *_describe("expected terms", gold, ontology),
        *(
            [f"{unknown:,} of {len(aligned.rankings):,} queries have no known expected term, and no similarity"]
            if unknown
            else []
        ),
        *_describe("returned terms", returned, ontology),
        *_describe_contents(needs, np.unique(np.concatenate((gold_term, term)))),
    ]
    return TermPairs(gold_query, gold_grade, expected, rank[item], values, tuple(notes))


def _expected_terms(aligned: Aligned, ontology: Ontology) -> tuple[Numbers, Numbers, NDArray[np.float64], Resolution]:
    """Query, term and grade of the gold, each term of a query once with its largest grade; and what its ids mean."""
    qrels = aligned.qrels
    place = np.full(len(qrels), -1, dtype=np.int64)
    place[aligned.queries] = np.arange(len(aligned.queries))
    query = place[qrels.query_of]
    rows = np.flatnonzero(earns_gain(qrels.grades) & (query >= 0))
    ids = [qrels.docs[i] for i in rows.tolist()]
    resolution = ontology.resolve(dict.fromkeys(ids))
    if len(ids) and not (resolution.term >= 0).any():
        raise InputError(
            f"{qrels.source}: none of its {len(resolution.ids):,} expected ids is a term of {ontology.release} "
            f"({shown(ids[0])}); check the ids, and that the ontology is theirs"
        )
    number = dict(zip(resolution.ids, resolution.term.tolist(), strict=True))
    term = np.array([number[each] for each in ids], dtype=np.int64)
    known = term >= 0
    query, term, grade = query[rows][known], term[known], qrels.grades[rows][known]
    order = np.lexsort((-grade, term, query))
    query, term, grade = query[order], term[order], grade[order]
    first = np.ones(len(query), dtype=bool)
    first[1:] = (query[1:] != query[:-1]) | (term[1:] != term[:-1])
    return query[first], term[first], grade[first], resolution


def _returned_terms(aligned: Aligned, ontology: Ontology, depth: int) -> tuple[Numbers, Numbers, Numbers, Resolution]:
    """Query, rank and term of the docs in the top `depth` that name one, sorted by query; and what all ids mean."""
    hits = aligned.hits
    rows = [
        (number, place, item.parent if hits.at_doc else item.doc)
        for number, q in enumerate(aligned.queries.tolist())
        for place, item in enumerate(hits.items.get(q, ())[:depth], start=1)
    ]
    resolution = ontology.resolve(dict.fromkeys(each for _, _, each in rows))
    number = dict(zip(resolution.ids, resolution.term.tolist(), strict=True))
    columns = np.array([(q, place, number[each]) for q, place, each in rows], dtype=np.int64).reshape(-1, 3)
    known = columns[columns[:, 2] >= 0]
    return known[:, 0], known[:, 1], known[:, 2], resolution


def _describe(what: str, resolution: Resolution, ontology: Ontology) -> list[str]:
    text = resolution.describe(ontology.release)
    return [f"{what} ({len(resolution.ids):,} ids): {text}"] if text else []


def _describe_contents(needs: TermNeeds, terms: Numbers) -> list[str]:
    """How many terms take another information content than the one that was chosen."""
    counts = {name: int(content.without[terms].sum()) for name, content in needs.contents.items()}
    return [
        f"ic={name}: {n:,} of {len(terms):,} terms have no annotated disease, and take the structural value"
        for name, n in counts.items()
        if n
    ]
