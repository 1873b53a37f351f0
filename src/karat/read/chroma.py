"""Results of Chroma's `collection.query()`: one for each query, or one of all queries in their order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeGuard

from karat.errors import InputError, shown
from karat.model.policy import parent_of
from karat.model.run import OrderedLists, Run
from karat.read.objects import check_query, text_id
from karat.read.problems import Problems

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.model.json_data import Json
    from karat.model.queries import Queries

    Result = Mapping[Any, Any]

IDS, METADATA, ORDER = "ids", "metadatas", "query_ids"
_DOC = ("doc_id", "hpo_id")
"""Fields of the metadata that name the doc of an entry; the first that is there counts."""
_TERM = "hpo_id"
"""The one that says that docs are terms."""
_TERM_ID = re.compile(r"(?:\S*[/#])?(?:[A-Za-z]+:|[A-Z]+_)[0-9]{4,}")
"""What ids of terms look like: HP:0001250, and other spellings of it."""


_BEGIN = re.compile(
    rb'\s*\{\s*(?:"(?:[^"\\]|\\.)*"\s*:\s*\{\s*)?"(?:ids|query_ids|distances|metadatas|documents|embeddings|uris|data|included)"'
)
_LISTS = re.compile(rb'"ids"\s*:\s*\[\s*\[')


def begins_results(head: bytes) -> bool:
    """Whether a file begins as JSON of results of Chroma does, for one query or for many."""
    return _BEGIN.match(head) is not None and _LISTS.search(head) is not None


def is_batch(data: Mapping[Any, Any]) -> bool:
    """Whether this is one result of Chroma, for one query or for many."""
    return isinstance(data.get(IDS), (list, tuple)) and any(n in data for n in (METADATA, "distances", ORDER))


def is_result(value: object) -> TypeGuard[Result]:
    """Whether this is what Chroma returned for one query."""
    return isinstance(value, Mapping) and IDS in value and not isinstance(value[IDS], (int, float))


def split_batch(data: Result, queries: Queries | None, source: str) -> tuple[dict[str, Result], str]:
    """A result for each query, and a note on whose order that is: `query_ids` beside the ids, or the table's."""
    lists = data[IDS]
    if not lists or not all(isinstance(each, (list, tuple)) for each in lists):
        raise InputError(
            f"{source}: looks like a result of Chroma, but its ids are not one list for each query, as those of "
            "collection.query() are"
        )
    listing = data.get(ORDER)
    if listing is not None and not isinstance(listing, (list, tuple)):
        raise InputError(f"{source}: {ORDER} must be a list of query ids, found {shown(listing)}")
    order = [text_id(each) for each in listing] if listing is not None else list(queries.fields) if queries else None
    if order is None:
        raise InputError(
            f"{source}: is a result of Chroma for {_queries(len(lists))} and does not name them; add their ids in the "
            f"same order ({{{ORDER}: […], ids: …}}), write {{query_id: result}}, or name a case file or a table of "
            "queries (--queries) that has them in this order"
        )
    whose = ORDER if listing is not None else queries.source if queries else ""
    if None in order or len(set(order)) < len(order):
        raise InputError(f"{source}: {ORDER} must be texts or integers, each once")
    if len(order) != len(lists):
        raise InputError(
            f"{source}: holds results for {_queries(len(lists))}, but {whose} has {len(order):,}; expected one result "
            f"for each, in the same order. To evaluate some of them, write their ids beside the results: {ORDER}"
        )
    columns = data.get(METADATA)
    if columns is not None and (not isinstance(columns, (list, tuple)) or len(columns) != len(lists)):
        raise InputError(f"{source}: metadatas must be one list for each of the {len(lists):,} queries")
    rows = zip(order, lists, columns or [None] * len(lists), strict=True)
    results: dict[str, Result] = {str(q): {IDS: [ids], METADATA: [mine] if mine else None} for q, ids, mine in rows}
    return results, f"one result of Chroma for {_queries(len(lists))}, in the order of {whose}"


def _queries(count: int) -> str:
    return "1 query" if count == 1 else f"{count:,} queries"


def run_of_results(data: Mapping[Any, Result], name: str, source: str, *, separator: str) -> Run:
    """{query: Chroma's result} as a run: ids in order, and the docs that the metadata name."""
    problems = Problems(source)
    rows = {}
    for query, result in data.items():
        if (q := check_query(query, problems)) is not None and (row := _row(q, result, problems)) is not None:
            rows[q] = row
    problems.check()
    metadata = [m for _, mine in rows.values() for m in mine if m]
    field, notes = _doc_field(metadata)
    names = _DOC if field is None else (field,)

    def doc_of(id: str, fields: Mapping[str, Json] | None) -> str:
        return next((str(fields[n]) for n in names if fields and n in fields), parent_of(id, separator))

    return Run(
        name,
        OrderedLists(
            {q: ids for q, (ids, _) in rows.items()},
            {q: [doc_of(i, m) for i, m in zip(ids, mine, strict=True)] for q, (ids, mine) in rows.items()},
        ),
        notes=notes,
        entries=field is not None or any(_TERM in m and _DOC[0] not in m for m in metadata),
        doc_fields=_values(metadata) if field is None else {},
    )


def _values(metadata: Sequence[Mapping[str, Json]]) -> dict[str, set[str]]:
    """The values of each field of the metadata that may be ids."""
    values: dict[str, set[str]] = {}
    for fields in metadata:
        for name, value in fields.items():
            mine = values.setdefault(str(name), set())
            if (id := text_id(value)) is not None:
                mine.add(id)
    return values


def _row(q: str, result: Result, problems: Problems) -> tuple[list[str], Sequence[Mapping[str, Json] | None]] | None:
    """The ids of one query, and the metadata of each; None where something is wrong with them."""
    ids, metadata = result[IDS], result.get(METADATA)
    if isinstance(ids, (list, tuple)) and ids and isinstance(ids[0], (list, tuple)):
        if len(ids) > 1:  # Chroma nests one level for its list of queries
            problems.add(None, f"query {shown(q)}: holds the results of {len(ids)} queries, expected those of one")
            return None
        ids = ids[0]
        metadata = metadata[0] if isinstance(metadata, (list, tuple)) and metadata else metadata
    texts = [text_id(i) for i in ids] if isinstance(ids, (list, tuple)) else [None]
    if None in texts:
        problems.add(None, f"query {shown(q)}: ids must be a list of texts or integers, found {shown(ids)}")
        return None
    metadata = [None] * len(texts) if metadata is None or metadata == [] else metadata
    columns = isinstance(metadata, (list, tuple)) and len(metadata) == len(texts)
    if not columns or not all(m is None or isinstance(m, Mapping) for m in metadata):
        problems.add(None, f"query {shown(q)}: metadatas must be a dict or None for each of the {len(texts)} ids")
        return None
    return [i for i in texts if i is not None], metadata


def _doc_field(metadata: Sequence[Mapping[str, Json]]) -> tuple[str | None, tuple[str, ...]]:
    """Where no field has a known name: the only one that holds ids of terms throughout; and what to say of it.

    Of the known names `hpo_id` is such a field where `doc_id` names the entry.
    """
    names = dict.fromkeys(chain.from_iterable(metadata))
    of_terms = [name for name in names if all(_TERM_ID.fullmatch(str(m.get(name, ""))) for m in metadata)]
    if _DOC[0] in names and _TERM in of_terms and _DOC[0] not in of_terms:
        of_terms = [_TERM]
    elif not names or any(name in names for name in _DOC):
        return None, ()
    if len(of_terms) == 1:
        return of_terms[0], (f"terms are read from {of_terms[0]!r} in the metadata of Chroma's results",)
    others = of_terms or [name for name in names if str(name).lower().endswith("id")]
    if not others:
        return None, ()
    return None, (
        f"docs are named by Chroma's ids; the metadata also hold {', '.join(sorted(map(repr, others)))}: if the gold "
        "names docs by it, call it 'doc_id'",
    )
