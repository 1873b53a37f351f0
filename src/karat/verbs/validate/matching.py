"""Whether ids look right and match across gold, queries, runs and corpus, and how runs and gold relate."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import numpy as np

from karat.model.ids import find_twins, is_decimal, is_stray
from karat.model.queries import TopicNumber
from karat.verbs.validate.findings import LintFinding, list_some, make_finding, many, quote_id
from karat.verbs.validate.tables import FileSet, GoldFile, RunFile, place

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence


TOP = 10
MOST_UNJUDGED = 0.5
OWN_GOLD = 0.95
"""The share of queries whose gold is the top of a run from which the gold counts as that run's own."""
FEWEST_QUERIES, FEWEST_DOCS = 5, 3
"""What it takes to distinguish a run's own gold from a good retriever."""
DEEPEST = 200
SAME_LENGTH = 0.8
"""The share of lists that end at one length from which the run counts as cut there."""


def check_matching(data: FileSet) -> Iterator[LintFinding]:
    """Ids across files, and runs against gold and against each other."""
    yield from _docs_of_gold(data)
    yield from _ids_of_queries(data)
    for run in data.runs:
        yield from _docs_of_run(data, run)
        if data.gold:
            yield from _run_and_gold(data, run)
    yield from _runs(data)


def _docs_of_gold(data: FileSet) -> Iterator[LintFinding]:
    if not data.corpus_is_whole or not data.doc_ids:
        return
    for gold in data.gold:
        row_of = dict(zip(reversed(gold.docs), range(len(gold.docs) - 1, -1, -1), strict=True))
        lacking = sorted((d for d in row_of if not data.in_corpus(d)), key=row_of.__getitem__)
        pairs = find_twins(lacking, data.doc_ids)
        yield from _differ(gold.path, "doc", pairs, _corpora(data), lambda d, g=gold, r=row_of: g.at(r[d]))  # type: ignore[misc]
        lacking = [d for d in lacking if d not in dict(pairs)]
        if lacking:
            yield make_finding(
                "X501",
                gold.path,
                f"{len(lacking):,} of {many(len(row_of), 'judged doc')} {_are(lacking)} not in the corpus: "
                f"{list_some(lacking)}; ids of the corpus look like {quote_id(data.corpus[0].ids[0])}",
                (gold.at(row_of[d]) for d in lacking),
                len(lacking),
            )


def _corpora(data: FileSet) -> str:
    return ", ".join(sorted(corpus.path for corpus in data.corpus))


def _are(values: Collection[object]) -> str:
    return "is" if len(values) == 1 else "are"


def _differ(
    path: str, kind: str, pairs: list[tuple[str, str]], other: str, at: Callable[[str], str]
) -> Iterator[LintFinding]:
    if pairs:
        a, b = pairs[0]
        yield make_finding(
            "X509",
            path,
            f"{many(len(pairs), f'{kind} id is', f'{kind} ids are')} written differently in {other}: {quote_id(a)} "
            f"here, {quote_id(b)} there{_as_written(b)}",
            (at(a) for a, _ in pairs),
            len(pairs),
        )


def _as_written(id: str) -> str:
    """How a file of topics writes a number that is read without its zeros."""
    return f" (written {id.written})" if isinstance(id, TopicNumber) and id.written != id else ""


def _ids_of_queries(data: FileSet) -> Iterator[LintFinding]:
    """Query ids that the gold writes differently from the table of queries."""
    if not data.queries or not data.gold:
        return
    lonely = [q for q in data.grades if q not in data.fields]
    pairs = find_twins(lonely, (q for q in data.fields if q not in data.grades))
    yield from _differ(_gold_file(data, pairs).path, "query", pairs, data.queries[0].path, lambda q: data.gold_at[q])


def _gold_file(data: FileSet, pairs: list[tuple[str, str]]) -> GoldFile:
    return next((g for g in data.gold if pairs and pairs[0][0] in g.queries), data.gold[0])


def _docs_of_run(data: FileSet, run: RunFile) -> Iterator[LintFinding]:
    if not data.corpus_is_whole or not data.doc_ids:
        return
    lacking = [d for d in run.docs if not data.in_corpus(d, run)]
    if not lacking:
        return
    at = _doc_places(run, lacking)
    pairs = find_twins(lacking, data.doc_ids)
    yield from _differ(run.path, "doc", pairs, _corpora(data), at)
    lacking = [d for d in lacking if d not in dict(pairs)]
    if lacking:
        yield make_finding(
            "X502",
            run.path,
            f"{len(lacking):,} of {many(len(run.docs), 'returned doc')} {_are(lacking)} not in the corpus: "
            f"{list_some(lacking)}",
            map(at, lacking),
            len(lacking),
        )


def _doc_places(run: RunFile, docs: Iterable[str]) -> Callable[[str], str]:
    numbers = {d: i for i, d in enumerate(run.docs)} if docs else {}
    return lambda d: run.at(int(np.argmax(run.doc == numbers[d])))


def _is_gold(data: FileSet, run: RunFile) -> Iterator[LintFinding]:
    """A run that holds the judgments of a file of gold, with their grades as scores."""
    for gold in data.gold:
        if len(run.query) != len(gold.queries) or not run.has_scores:
            continue
        rows = zip(run.query.tolist(), run.doc.tolist(), run.score.tolist(), strict=True)
        mine = {(run.queries[q], run.docs[d], s) for q, d, s in rows}
        if mine == set(zip(gold.queries, gold.docs, gold.grades.tolist(), strict=True)):
            yield make_finding("X520", run.path, f"its rows and scores are the judgments of {gold.path}", [run.path])


def _run_and_gold(data: FileSet, run: RunFile) -> Iterator[LintFinding]:
    yield from _is_gold(data, run)
    mine = {q: i for i, q in enumerate(run.queries)}
    common = [q for q in data.grades if q in mine]
    missing = [q for q in data.grades if q not in mine]
    pairs = find_twins(missing, (q for q in run.queries if q not in data.grades))
    yield from _differ(
        run.path, "query", [(b, a) for a, b in pairs], _gold_file(data, pairs).path, lambda q: run.at_query(mine[q])
    )
    if not common:
        ids = f"the run has {list_some(run.queries)}; the gold has {list_some(list(data.grades))}"
        yield make_finding(
            "X507", run.path, f"no query of the gold is in this run: {ids}", [run.at_query(0)] if mine else []
        )
        return
    without = [q for q in run.queries if q not in data.grades and q not in data.unanswerable]
    if without:
        yield make_finding(
            "X505",
            run.path,
            f"{len(without):,} of {many(len(run.queries), 'query', 'queries')} {_are(without)} without gold: "
            f"{list_some(without)}",
            (run.at_query(mine[q]) for q in without),
            len(without),
        )
    if missing and run.whole:
        yield make_finding(
            "X506",
            run.path,
            f"{len(missing):,} of {many(len(data.grades), 'query', 'queries')} of the gold {_are(missing)} not in this "
            f"run: {list_some(missing)}",
            (data.gold_at[q] for q in missing),
            len(missing),
        )
    at_doc, hits = _level(data, run, mine)
    yield from _twin_docs(data, run, at_doc, common)
    if not hits:
        q = common[0]
        docs = f"{list_some(run.tops(1)[q])} in the run, {list_some(list(data.grades[q]))} in the gold"
        if len(run.query):
            yield make_finding(
                "X508",
                run.path,
                f"none of the returned docs is judged: query {quote_id(q)} has {docs}",
                [run.at_query(mine[q])],
            )
        return
    yield from _top(data, run, at_doc, common, mine)


def _level(data: FileSet, run: RunFile, mine: dict[str, int]) -> tuple[bool, int]:
    """Whether gold is matched with the docs of chunks, and how many docs of the gold are returned."""

    def hits(names: list[str], codes: np.ndarray) -> int:
        number = {name: i for i, name in enumerate(names)}
        in_gold = np.zeros(len(number), dtype=bool)
        in_gold[[number[d] for d in data.gold_docs if d in number]] = True
        rows = np.flatnonzero(in_gold[codes[run.doc]])
        pairs = set((run.query[rows] * len(number) + codes[run.doc[rows]]).tolist())
        return sum(
            mine[q] * len(number) + number[d] in pairs
            for q, docs in data.grades.items()
            if q in mine
            for d in docs
            if d in number
        )

    chunks = hits(list(run.docs), np.arange(len(run.docs)))
    parents = [data.parent(run, d) for d in run.docs]
    if parents == list(run.docs):
        return False, chunks
    number = {name: i for i, name in enumerate(dict.fromkeys(parents))}
    docs = hits(list(number), np.array([number[p] for p in parents], dtype=np.int64))
    return docs > chunks, max(docs, chunks)


def _twin_docs(data: FileSet, run: RunFile, at_doc: bool, common: list[str]) -> Iterator[LintFinding]:
    """Gold docs that a run returns under another spelling; a corpus that knows both spellings makes them two docs."""
    docs = {data.parent(run, d): d for d in run.docs} if at_doc else dict.fromkeys(run.docs)
    lonely = {d for q in common for d in data.grades[q] if d not in docs}
    pairs = [
        (d, other)
        for d, other in find_twins(lonely, (d for d in docs if d not in data.gold_docs))
        if not (d in data.doc_ids and other in data.doc_ids)
    ]
    names = [((docs[other] or other) if at_doc else other, d) for d, other in sorted(pairs)]
    at = _doc_places(run, [d for d, _ in names])
    yield from _differ(run.path, "doc", names, data.gold[0].path, at)


def _top(data: FileSet, run: RunFile, at_doc: bool, common: list[str], mine: dict[str, int]) -> Iterator[LintFinding]:
    """How the first results relate to the gold: mostly unjudged, or exactly the same."""
    lists = run.tops(DEEPEST)
    if at_doc:
        lists = {q: list(dict.fromkeys(data.parent(run, d) for d in docs)) for q, docs in lists.items()}
    yield from _gaps_in_gold(data, run, {q: lists[q][:TOP] for q in common}, mine)
    sets: dict[str, Mapping[str, Collection[str]]] = {"relevant": data.relevant, "judged": data.judged}
    for what, gold in sets.items():
        wide = [q for q in common if FEWEST_DOCS <= len(gold[q]) <= DEEPEST]
        own = [q for q in wide if set(lists[q][: len(gold[q])]) == set(gold[q])]
        if len(wide) >= max(FEWEST_QUERIES, len(common) / 2) and len(own) >= OWN_GOLD * len(wide):
            yield make_finding(
                "X512",
                run.path,
                f"the {what} docs are exactly the first results of this run in {len(own):,} of "
                f"{many(len(wide), 'query', 'queries')}: {list_some(own)}",
                (run.at_query(mine[q]) for q in own),
                len(own),
            )
            return


def _gaps_in_gold(
    data: FileSet, run: RunFile, tops: dict[str, list[str]], mine: dict[str, int]
) -> Iterator[LintFinding]:
    total = sum(map(len, tops.values()))
    counts = {q: sum(d not in data.judged[q] for d in docs) for q, docs in tops.items()}
    count = sum(counts.values())
    if total and count > MOST_UNJUDGED * total:
        pooled = any(len(data.relevant[q]) < len(docs) for q, docs in data.judged.items())
        most = sorted(counts, key=lambda q: -counts[q])
        yield make_finding(
            "X515" if pooled else "X516",
            run.path,
            f"{count / total:.0%} of the top {TOP} has no judgment ({count:,} of {many(total, 'result')})",
            (run.at_query(mine[q]) for q in most),
            count,
        )


def _runs(data: FileSet) -> Iterator[LintFinding]:
    """Runs against each other."""
    prints: dict[tuple[int, int, int], list[RunFile]] = {}
    for run in data.runs:
        prints.setdefault((len(run.query), len(run.queries), len(run.docs)), []).append(run)
    for alike in prints.values():
        firsts: dict[bytes, RunFile] = {}
        for run in alike if len(alike) > 1 else ():
            first = firsts.setdefault(_print(run), run)
            if first is not run and len(run.query):
                yield make_finding(
                    "X517",
                    run.path,
                    f"has the same results in the same order as {first.path}",
                    [place(run.path, None), first.path],
                )
    deepest = max(data.runs, key=_depth, default=None)
    for run in data.runs:
        full = _depth(run)
        # Lists of one length were cut there; lists of many lengths ended because nothing more was found.
        is_cut = np.count_nonzero(run.depths == full) >= SAME_LENGTH * np.count_nonzero(run.depths)
        if deepest is not None and is_cut and 0 < full < _depth(deepest):
            yield make_finding(
                "X518",
                run.path,
                f"is cut after {many(full, 'result')}; {deepest.path} has up to {_depth(deepest):,}",
                [run.path, deepest.path],
            )


def _depth(run: RunFile) -> int:
    """The length of the longest list, as metrics are said to end there."""
    return int(run.depths.max(initial=0))


def _print(run: RunFile) -> bytes:
    """A fingerprint of what a run returned in which order, whatever its format."""
    digest = hashlib.blake2b()
    order = run.order
    queries, docs = run.query[order], run.doc[order]
    start = np.searchsorted(queries, np.arange(len(run.queries)))
    for number in sorted(range(len(run.queries)), key=lambda i: run.queries[i]):
        a = int(start[number])
        ids = [run.docs[d] for d in docs[a : a + int(run.sizes[number])].tolist()]
        digest.update("\x00".join([run.queries[number], *ids, "\x01"]).encode())
    return digest.digest()


_FRACTION = re.compile(r"\d+\.\d*[1-9]\d*", re.ASCII)


def check_ids(path: str, kind: str, ids: Sequence[str], at: Callable[[int], str]) -> Iterator[LintFinding]:
    """The ids of one kind in one file; `at` gives the place of the i-th."""
    unique = dict(zip(reversed(ids), range(len(ids) - 1, -1, -1), strict=True))
    by_row = sorted(unique.items(), key=lambda pair: pair[1])
    stray = [(text, i) for text, i in by_row if is_stray(text)]
    if stray:
        yield make_finding(
            "F005",
            path,
            f"{many(len(stray), f'{kind} id has', f'{kind} ids have')} stray white space or invisible characters: "
            f"{list_some([s for s, _ in stray])}",
            (at(i) for _, i in stray),
            len(stray),
        )
    decimal = [(text, i) for text, i in by_row if is_decimal(text)]
    # Numbers of sections or versions (1.0, 1.1) are not integers gone wrong.
    if decimal and not any(_FRACTION.fullmatch(text) for text in unique):
        yield make_finding(
            "F006",
            path,
            f"{many(len(decimal), f'{kind} id looks', f'{kind} ids look')} like integers that became decimals: "
            f"{list_some([s for s, _ in decimal])}",
            (at(i) for _, i in decimal),
            len(decimal),
        )
