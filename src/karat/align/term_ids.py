"""Gold and runs of terms, before they are aligned: each term by its own id, and once, at the rank of its best entry."""

from __future__ import annotations

import re
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from karat.align.lists import add_parents
from karat.errors import InputError, shown
from karat.model.decimals import exact_decimals
from karat.model.policy import earns_gain, parent_of
from karat.model.run import OrderedLists, ScoredLists, Table
from karat.model.strings import Strings
from karat.read.objects import check_scores
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from karat.model.docs import Docs, Fields
    from karat.model.policy import Policy
    from karat.model.qrels import Qrels
    from karat.model.run import Rows, Run
    from karat.model.run_log import LogItem, RunLog, Trace
    from karat.ontology.terms import Ontology, Resolution

    Numbers = NDArray[np.int64]
    Entry = tuple[str, str]
    """An id that was returned, and the doc that it belongs to."""

T = TypeVar("T")
COLLAPSED = "entries_collapsed"
"""Among the counts of a run: results that are further entries of a term above them."""


@dataclass(frozen=True)
class TermGold:
    """Gold by the ids of an ontology, and how many of its expected ids were changed, or are unknown."""

    qrels: Qrels
    counts: Mapping[str, int] = field(default_factory=dict)


def gold_of_terms(qrels: Qrels, ontology: Ontology) -> TermGold:
    """The gold with the current id of each term; a term that is judged twice then keeps its largest grade."""
    expected = dict.fromkeys(
        doc for doc, earns in zip(qrels.docs, earns_gain(qrels.grades).tolist(), strict=True) if earns
    )
    resolution = ontology.resolve(expected)
    if expected and not (resolution.term >= 0).any():
        raise InputError(
            f"{qrels.source}: none of its {len(expected):,} expected ids is a term of {ontology.release} "
            f"({shown(resolution.ids[0])}); check the ids, and that the ontology is theirs"
        )
    text = resolution.describe(ontology.release)
    advice = "; see: karat validate" if resolution.unknown else ""
    notes = (*qrels.notes, *([f"expected terms ({_ids(resolution)}): {text}{advice}"] if text else []))
    counts = _count("expected", resolution)
    names = _current_ids(ontology.resolve(dict.fromkeys(qrels.docs)), ontology)
    if all(name == doc for doc, name in names.items()):
        return TermGold(replace(qrels, notes=notes), counts)
    rows: dict[tuple[int, str], int] = {}
    place = [
        rows.setdefault((query, names[doc]), len(rows))
        for query, doc in zip(qrels.query_of.tolist(), qrels.docs, strict=True)
    ]
    grades = np.full(len(rows), -np.inf)
    np.maximum.at(grades, place, qrels.grades)
    sizes = np.bincount([query for query, _ in rows], minlength=len(qrels))
    subtopics = qrels.subtopics
    if subtopics is not None:
        subtopics = replace(subtopics, judgment=np.array(place, dtype=np.int64)[subtopics.judgment])
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    docs = [term for _, term in rows]
    return TermGold(replace(qrels, offsets=offsets, docs=docs, grades=grades, subtopics=subtopics, notes=notes), counts)


def docs_of_terms(docs: Docs, ontology: Ontology) -> Docs:
    """A corpus with the current id of the term that each doc, or the doc that it is an entry of, names."""
    columns = [list(docs.fields), [docs.parent(each) for each in docs.fields]]
    own, parent = (ontology.resolve(column) for column in columns)
    terms = zip(columns[0], own.term.tolist(), parent.term.tolist(), docs.fields.values(), strict=True)
    fields: dict[str, Fields] = {}
    for doc, term, of_entry, values in terms:
        number = term if term >= 0 else of_entry
        fields.setdefault(ontology.ids[number] if number >= 0 else doc, values)
    return replace(docs, fields=fields)


@dataclass(frozen=True)
class TermRun:
    """A run that returned terms, each once, and how many of its ids were changed, unknown, or of a term above."""

    run: Run
    counts: Mapping[str, int]


def run_of_terms(run: Run, policy: Policy, *, gold: Qrels | None, ontology: Ontology | None) -> TermRun:
    """The run with terms in place of entries, such as labels and synonyms, and with the current id of each term.

    Whether the ids themselves name terms, or the docs that they belong to, is what the ontology knows more of; without
    one, what more of the gold is. A policy may state it (`level`).
    """
    separator = run.separator(policy)
    content = _load_lists(run, replace(policy, separator=separator))
    entries = dict.fromkeys(_entries(content, separator, run.parents))
    names, resolution = _name_terms(entries, run, policy, gold, ontology)
    lists = _collapse(content, names, separator, run.parents)
    further = _size(content) - _size(lists)
    notes = []
    if further:
        notes.append(
            f"ranks count terms, each at its best entry: {further:,} of {_size(content):,} results are further "
            f"entries of a term above them{_describe_lengths(lists)}"
        )
    if resolution is not None and ontology is not None and (text := resolution.describe(ontology.release)):
        notes.append(f"returned terms ({_ids(resolution)}): {text}")
    log = _collapse_log(run.log, names, policy) if run.log is not None else None
    terms = replace(run, content=lists, notes=(*run.notes, *notes), log=log, parents={}, names_docs=True, entries=False)
    return TermRun(terms, {**(_count("returned", resolution) if resolution is not None else {}), COLLAPSED: further})


def _load_lists(run: Run, policy: Policy) -> ScoredLists | OrderedLists | Table:
    """What the run returned, in memory, with scores that are numbers."""
    content = add_parents(run.content, run.parents, policy)
    if isinstance(content, ScoredLists):
        return replace(content, lists=check_scores(content.lists, content.source))
    if isinstance(content, (OrderedLists, Table)):
        return content
    rows = content.everything()
    if len(rows) == 0:
        raise InputError(f"{content.path}: holds no results, expected at least one")
    return Table(rows)


def _entries(content: ScoredLists | OrderedLists | Table, separator: str, corpus: Mapping[str, str]) -> Iterable[Entry]:
    """Every result of lists in order, every distinct one of a table: its id, and the doc that it belongs to."""
    if isinstance(content, Table):
        yield from _entries_of_rows(content.rows, separator, corpus)[0]
        return
    for query, ids in content.lists.items():
        docs = content.parents.get(query) if isinstance(content, OrderedLists) and content.parents else None
        yield from zip(ids, docs if docs is not None else (parent_of(i, separator, corpus) for i in ids), strict=True)


def _entries_of_rows(rows: Rows, separator: str, corpus: Mapping[str, str]) -> tuple[list[Entry], Numbers]:
    """The distinct entries of a table, and the number of the one in each row."""
    ids, id_of = _number(rows.doc)
    if rows.parent is None:
        return [(id, parent_of(id, separator, corpus)) for id in ids], id_of
    docs, doc_of = _number(rows.parent)
    pairs, entry_of = np.unique(id_of * len(docs) + doc_of, return_inverse=True)
    entries = [(ids[pair // len(docs)], docs[pair % len(docs)]) for pair in pairs.tolist()]
    return [(id, doc or parent_of(id, separator, corpus)) for id, doc in entries], entry_of.astype(np.int64)


def _number(column: Strings) -> tuple[list[str], Numbers]:
    """The distinct texts of a column, and the number of the one in each row."""
    number: dict[bytes, int] = {}
    codes = [number.setdefault(text, len(number)) for text in column.bytes()]
    return [text.decode() for text in number], np.array(codes, dtype=np.int64)


def _name_terms(
    entries: Mapping[Entry, None], run: Run, policy: Policy, gold: Qrels | None, ontology: Ontology | None
) -> tuple[Mapping[Entry, str], Resolution | None]:
    """The id that each entry counts as, and what these ids mean in the ontology."""
    columns = [dict.fromkeys(entry[side] for entry in entries) for side in (0, 1)]
    if ontology is None:
        gold_docs = dict.fromkeys(gold.docs, True) if gold is not None else {}
        matches = [sum(gold_docs.get(entry[side], False) for entry in entries) for side in (0, 1)]
        side = _side(matches, policy)
        return {entry: entry[side] for entry in entries}, None
    resolutions = [ontology.resolve(column) for column in columns]
    tables = [dict(zip(each.ids, each.is_known, strict=True)) for each in resolutions]
    matches = [sum(tables[side][entry[side]] for entry in entries) for side in (0, 1)]
    side = _side(matches, policy)
    resolution = resolutions[side]
    if entries and not (resolution.term >= 0).any():
        raise InputError(
            f"run {run.name!r}: none of the {len(resolution.ids):,} ids that it returned is a term of "
            f"{ontology.release} ({shown(resolution.ids[0])}); {_advise(resolution.ids, run, ontology)}"
        )
    names = _current_ids(resolution, ontology)
    return {entry: names[entry[side]] for entry in entries}, resolution


def _side(matches: Sequence[int], policy: Policy) -> int:
    """0 where ids name terms, 1 where the docs do that they belong to."""
    return {"chunk": 0, "doc": 1}.get(policy.level, int(matches[1] > matches[0]))


def _advise(ids: Sequence[str], run: Run, ontology: Ontology) -> str:
    """What to do about ids none of which is a term: they may begin with one, or another field may hold it."""
    for each in ids:
        for mark in re.finditer(r"[^0-9A-Za-z:]", each):
            if ontology.resolve((each[: mark.start()],)).is_known[0]:
                return f"if the part before {shown(mark[0])} is the term: --separator {shown(mark[0])}"
    if run.doc_fields:
        names = ", ".join(map(repr, run.doc_fields))
        return f"the metadata hold {names}: if one of these names the term, call it 'doc_id'"
    return "check the ids, and that the ontology is theirs"


def _current_ids(resolution: Resolution, ontology: Ontology) -> dict[str, str]:
    """Each id, and the one that its term has today; an id that names no live term stays as it is."""
    return {
        each: ontology.ids[term] if term >= 0 else each
        for each, term in zip(resolution.ids, resolution.term.tolist(), strict=True)
    }


def _collapse(
    content: ScoredLists | OrderedLists | Table, names: Mapping[Entry, str], separator: str, corpus: Mapping[str, str]
) -> ScoredLists | OrderedLists | Table:
    """The best entry of each term alone, under the id of the term; one that is returned twice stays a repeated doc."""
    if isinstance(content, Table):
        return Table(_collapse_rows(content.rows, names, separator, corpus))
    terms = iter([names[entry] for entry in _entries(content, separator, corpus)])
    if isinstance(content, ScoredLists):
        best: dict[str, dict[str, float]] = {}
        for query, docs in content.lists.items():
            mine = best[query] = dict[str, float]()
            for score in docs.values():
                term = next(terms)
                mine[term] = max(score, mine.get(term, score))
        return ScoredLists(best, content.source)
    lists: dict[str, list[str]] = {}
    places: dict[str, list[int]] = {}
    for query, ids in content.lists.items():
        own = [next(terms) for _ in ids]
        places[query] = _best_places(ids, own)
        lists[query] = [own[place] for place in places[query]]

    def pick(column: Mapping[str, Sequence[T]] | None) -> dict[str, list[T]] | None:
        return None if column is None else {q: [column[q][place] for place in places[q]] for q in column}

    return OrderedLists(lists, None, pick(content.scores), pick(content.versions))


def _best_places(ids: Sequence[str], terms: Sequence[str]) -> list[int]:
    """Where the first entry of each term stands in a list, in order, with its repeats."""
    first: dict[str, str] = {}
    return [place for place, (id, term) in enumerate(zip(ids, terms, strict=True)) if first.setdefault(term, id) == id]


def _collapse_rows(rows: Rows, names: Mapping[Entry, str], separator: str, corpus: Mapping[str, str]) -> Rows:
    entries, entry = _entries_of_rows(rows, separator, corpus)
    number: dict[str, int] = {}
    term = np.array([number.setdefault(names[each], len(number)) for each in entries], dtype=np.int64)[entry]
    _, query = _number(rows.query)
    exact = rows.score_text if rows.near is not None else None
    scores = rows.score if exact is None else exact_decimals(exact)[0]
    group = np.unique(query * len(number) + term, return_inverse=True)[1]
    order = np.lexsort((entry, -scores, group))
    best = order[np.searchsorted(group[order], np.arange(int(group.max(initial=-1)) + 1))]
    keep = np.flatnonzero(entry == entry[best][group])
    return replace(replace(rows, parent=None).take(keep), doc=Strings.of(number).take(term[keep]))


def _collapse_log(log: RunLog, names: Mapping[Entry, str], policy: Policy) -> RunLog:
    """The log with terms in its lists and stages, so that all that is said of it is about terms."""
    import msgspec

    from karat.model.run_log import ordered_items

    own = {id: term for (id, _), term in names.items()}
    by_doc = {doc: term for (_, doc), term in names.items()}

    def name_of(id: str) -> str:
        doc = log.doc_of(id, policy.separator)
        return own.get(id) or by_doc.get(doc, doc)

    def items(topk: tuple[LogItem, ...] | None) -> tuple[LogItem, ...] | None:
        if topk is None:
            return None
        order = ordered_items(topk, policy)
        terms = [name_of(item.id) for item in order]
        places = _best_places([item.id for item in order], terms)
        return tuple(
            msgspec.structs.replace(order[place], chunk_id=None, doc_id=terms[place], rank=rank)
            for rank, place in enumerate(places, start=1)
        )

    def terms_of(trace: Trace) -> Trace:
        stages = {stage: tuple(dict.fromkeys(map(name_of, ids))) for stage, ids in trace.stages.items()}
        return msgspec.structs.replace(
            trace, topk=items(trace.topk), stages=stages, topk_original=items(trace.topk_original)
        )

    return replace(log, traces={query: terms_of(trace) for query, trace in log.traces.items()})


def _size(content: ScoredLists | OrderedLists | Table) -> int:
    return len(content.rows) if isinstance(content, Table) else sum(map(len, content.lists.values()))


def _describe_lengths(content: ScoredLists | OrderedLists | Table) -> str:
    """How many terms the lists hold: a list of ten entries may hold three."""
    if isinstance(content, Table):
        sizes = np.bincount(_number(content.rows.query)[1]).tolist()
    else:
        sizes = [len(terms) for terms in content.lists.values() if terms]
    least, most = min(sizes), max(sizes)
    return f"; lists hold {f'{least:,} to {most:,}' if least < most else f'{most:,}'} terms"


def _ids(resolution: Resolution) -> str:
    return "1 id" if len(resolution.ids) == 1 else f"{len(resolution.ids):,} ids"


def _count(whose: str, resolution: Resolution) -> dict[str, int]:
    """How many ids of the gold, or of a run, were resolved, and how many the release does not know."""
    return {f"{whose}_ids_resolved": resolution.resolved, f"{whose}_ids_unknown": resolution.unknown}
