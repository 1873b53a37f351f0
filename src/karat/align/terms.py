"""Terms of an ontology: those that were returned beside those that the gold expects, and how similar they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karat.errors import UsageError
from karat.model.items import TermPairs
from karat.model.policy import earns_gain
from karat.ontology.load import HPO, load_content, open_ontology
from karat.ontology.similarity import content_name, similarities
from karat.ontology.terms import EXAMPLES
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from karat.align.hits import Aligned
    from karat.metrics.grammar import Measure
    from karat.ontology.information import InformationContent
    from karat.ontology.terms import Ontology

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


def pair_terms(aligned: Aligned, needs: TermNeeds, *, depth: int) -> TermPairs:
    """Each expected term of a query beside each term in its top `depth`."""
    ontology = needs.ontology
    gold_query, gold_term, gold_grade = _expected_terms(aligned, ontology)
    query, rank, term = _returned_terms(aligned, ontology, depth)
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
    notes = [
        *_describe_unknown(aligned, gold_query, needs),
        *_describe_contents(needs, np.unique(np.concatenate((gold_term, term)))),
    ]
    return TermPairs(gold_query, gold_grade, expected, rank[item], values, tuple(notes))


def _expected_terms(aligned: Aligned, ontology: Ontology) -> tuple[Numbers, Numbers, NDArray[np.float64]]:
    """Query, term and grade of the gold that the release knows, sorted by query and term."""
    qrels = aligned.qrels
    place = np.full(len(qrels), -1, dtype=np.int64)
    place[aligned.queries] = np.arange(len(aligned.queries))
    query = place[qrels.query_of]
    rows = np.flatnonzero(earns_gain(qrels.grades) & (query >= 0))
    term = _numbers([qrels.docs[i] for i in rows.tolist()], ontology)
    known = term >= 0
    query, term, grade = query[rows][known], term[known], qrels.grades[rows][known]
    order = np.lexsort((term, query))
    return query[order], term[order], grade[order]


def _returned_terms(aligned: Aligned, ontology: Ontology, depth: int) -> tuple[Numbers, Numbers, Numbers]:
    """Query, rank and term of the docs in the top `depth` that name one, sorted by query."""
    hits = aligned.hits
    rows = [
        (number, place, item.doc)
        for number, q in enumerate(aligned.queries.tolist())
        for place, item in enumerate(hits.items.get(q, ())[:depth], start=1)
    ]
    term = _numbers([each for _, _, each in rows], ontology)
    columns = np.array([(q, place) for q, place, _ in rows], dtype=np.int64).reshape(-1, 2)
    known = term >= 0
    return columns[known, 0], columns[known, 1], term[known]


def _numbers(ids: Sequence[str], ontology: Ontology) -> Numbers:
    """The number of the term that each id names; ids are those of terms already, or of none."""
    resolution = ontology.resolve(dict.fromkeys(ids))
    number = dict(zip(resolution.ids, resolution.term.tolist(), strict=True))
    return np.array([number[each] for each in ids], dtype=np.int64)


def _describe_unknown(aligned: Aligned, gold_query: Numbers, needs: TermNeeds) -> list[str]:
    """That similarities are over fewer queries than other metrics, where the release knows no expected term of some."""
    total = len(aligned.rankings)
    absent = np.setdiff1d(np.arange(total), gold_query)
    if not len(absent):
        return []
    names = ", ".join(aligned.rankings.query_ids[i] for i in absent[:EXAMPLES].tolist())
    more = ", …" if len(absent) > EXAMPLES else ""
    metrics = ", ".join(dict.fromkeys(name.partition("(")[0].partition("@")[0] for name in needs.basis))
    return [
        f"{metrics}: over {total - len(absent):,} of {total:,} queries; of the others ({names}{more}) no expected term "
        f"is in {needs.ontology.release}. Other metrics count them too"
    ]


def _describe_contents(needs: TermNeeds, terms: Numbers) -> list[str]:
    """How many terms take another information content than the one that was chosen."""
    counts = {name: int(content.without[terms].sum()) for name, content in needs.contents.items()}
    return [
        f"ic={name}: {n:,} of {len(terms):,} terms have no annotated disease, and take the structural value"
        for name, n in counts.items()
        if n
    ]
