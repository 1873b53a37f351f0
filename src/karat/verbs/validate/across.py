"""Checks of files against each other."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from karat.model.dates import day_of
from karat.model.docs import text_of
from karat.verbs.validate.corpus import copies_in
from karat.verbs.validate.findings import LintFinding, list_some, make_finding, many, quote_id
from karat.verbs.validate.matching import check_matching
from karat.verbs.validate.overlap import quoted_words
from karat.verbs.validate.tables import FileSet, place

if TYPE_CHECKING:
    from collections.abc import Iterator


MOST_RELEVANT = 100
"""Relevant docs of a query that are searched for quotations of it."""


def check_together(data: FileSet) -> Iterator[LintFinding]:
    """All checks that need more than one file."""
    yield from check_matching(data)
    yield from _queries_and_gold(data)
    yield from _no_answer(data)
    yield from _negatives(data)
    yield from _quotations(data)
    yield from _copies(data)
    yield from _newer(data)


def _queries_and_gold(data: FileSet) -> Iterator[LintFinding]:
    if not data.gold or not data.queries:
        return
    for table in data.queries:
        without = [(q, line) for line, q, _ in table.rows if q not in data.grades and q not in data.unanswerable]
        if without and len(without) < len(table.rows):
            yield make_finding(
                "X503",
                table.path,
                f"{len(without):,} of {many(len(table.rows), 'query', 'queries')} "
                f"{'has' if len(without) == 1 else 'have'} no gold: {list_some([q for q, _ in without])}",
                (place(table.path, line) for _, line in without),
                len(without),
            )
    for gold in data.gold:
        gold_ids = dict.fromkeys(gold.queries)
        unknown = [q for q in gold_ids if q not in data.fields]
        if unknown:
            yield make_finding(
                "X504",
                gold.path,
                f"{len(unknown):,} of {many(len(gold_ids), 'query', 'queries')} "
                f"{'is' if len(unknown) == 1 else 'are'} missing from the table of queries: {list_some(unknown)}",
                (data.gold_at[q] for q in unknown),
                len(unknown),
            )


def _no_answer(data: FileSet) -> Iterator[LintFinding]:
    contradictions = [q for q in data.fields if q in data.unanswerable and data.relevant.get(q)]
    if contradictions:
        path = data.query_at[contradictions[0]][0]
        yield make_finding(
            "X514",
            path,
            f"{many(len(contradictions), 'query is', 'queries are')} marked no_answer and "
            f"{'has' if len(contradictions) == 1 else 'have'} relevant gold: {list_some(contradictions)}",
            (place(*data.query_at[q]) for q in contradictions),
            len(contradictions),
        )


def _negatives(data: FileSet) -> Iterator[LintFinding]:
    wrong = []
    for q, fields in data.fields.items():
        negatives = fields.get("negatives")
        relevant = set(data.relevant.get(q, ()))
        wrong += (
            [(q, str(d)) for d in negatives if str(d) in relevant] if isinstance(negatives, list) and relevant else []
        )
    if wrong:
        q, doc = wrong[0]
        yield make_finding(
            "X519",
            data.query_at[q][0],
            f"{many(len(wrong), 'negative is', 'negatives are')} relevant in the gold: query {quote_id(q)}, doc "
            f"{quote_id(doc)}",
            (place(*data.query_at[q]) for q, _ in wrong),
            len(wrong),
        )


def _quotations(data: FileSet) -> Iterator[LintFinding]:
    """Queries that stand word for word in a doc that is relevant for them."""
    texts: dict[str, str] = {}
    for corpus in sorted(data.corpus, key=lambda c: c.path):  # a doc of two corpora has both texts, in any order
        texts |= {d: f"{texts[d]}\n{text}" if d in texts else text for d, text in corpus.texts.items()}
    if not texts:
        return
    quoting = []
    with_text = 0
    for q, relevant in data.relevant.items():
        text = text_of(data.fields.get(q, {}))
        docs = [d for d in relevant[:MOST_RELEVANT] if d in texts]
        with_text += bool(text and docs)
        for d in docs if text else ():
            words = quoted_words(text, texts[d])
            if words:
                quoting.append((q, d, words))
                break
    if quoting:
        q, d, words = max(quoting, key=lambda quotation: len(quotation[2]))
        path = data.query_at[q][0]
        yield make_finding(
            "X511",
            path,
            f"{len(quoting):,} of {many(with_text, 'query', 'queries')} {'quotes' if len(quoting) == 1 else 'quote'} a "
            f"relevant doc word for word: {quote_id(q)} shares {quote_id(' '.join(words), 90)} with {quote_id(d)}",
            (place(*data.query_at[q]) for q, _, _ in quoting),
            len(quoting),
        )


def _copies(data: FileSet) -> Iterator[LintFinding]:
    """Copies of relevant docs that are not judged for the same query."""
    queries_of: dict[str, list[str]] = {}
    for q, docs in data.relevant.items():
        for d in docs:
            queries_of.setdefault(d, []).append(q)
    for corpus in data.corpus:
        pairs = []
        for group in copies_in(corpus):
            ids = dict.fromkeys(corpus.ids[i] for i in group)
            for d in ids:
                for q in queries_of.get(d, ()):
                    pairs += [(q, d, i) for i in group if corpus.ids[i] not in data.judged[q]]
        if pairs:
            q, d, i = pairs[0]
            copies = list(dict.fromkeys(i for _, _, i in pairs))
            yield make_finding(
                "X510",
                corpus.path,
                f"{many(len(copies), 'doc is', 'docs are')} an unjudged copy of a relevant doc: "
                f"{quote_id(corpus.ids[i])} is {quote_id(d)}, which is relevant for query {quote_id(q)}",
                (place(corpus.path, corpus.lines[i]) for i in copies),
                len(copies),
            )


def _newer(data: FileSet) -> Iterator[LintFinding]:
    limits = {q: day for q, f in data.fields.items() if (day := day_of(f.get("as_of"))) is not None}
    for run in data.runs:
        newer = [
            (e, doc, day, limits[e.query])
            for e in run.log
            if e.query in limits
            for doc, version in e.versions
            if (day := day_of(version)) is not None and day > limits[e.query]
        ]
        if newer:
            e, doc, *days = newer[0]
            version, limit = (date.fromordinal(int(n)) for n in days)
            yield make_finding(
                "X513",
                run.path,
                f"{many(len(newer), 'result is', 'results are')} newer than the query's as_of: query "
                f"{quote_id(e.query)} is of {limit}, doc {quote_id(doc)} of {version}",
                (place(run.path, e.line) for e, _, _, _ in newer),
                len(newer),
            )
