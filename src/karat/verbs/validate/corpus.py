"""Checks of one corpus."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from karat.verbs.validate.findings import LintFinding, list_some, make_finding, many
from karat.verbs.validate.matching import check_ids
from karat.verbs.validate.tables import CorpusFile, place

if TYPE_CHECKING:
    from collections.abc import Iterator


def check_corpus(corpus: CorpusFile) -> Iterator[LintFinding]:
    """All checks that need nothing but this file."""
    path = corpus.path
    yield from check_ids(path, "doc", corpus.ids, lambda i: place(path, corpus.lines[i]))
    first: dict[str, int] = {}
    twice = [i for i, doc in enumerate(corpus.ids) if first.setdefault(doc, i) != i]
    if twice:
        yield make_finding(
            "C401",
            path,
            f"{many(len(twice), 'doc has', 'docs have')} an id that another doc has: "
            f"{corpus.ids[twice[0]]} is first at line {corpus.lines[first[corpus.ids[twice[0]]]]}",
            (place(path, corpus.lines[i]) for i in twice),
            len(twice),
        )
    if any(corpus.prints):
        empty = [i for i, text in enumerate(corpus.prints) if not text]
        if empty:
            yield make_finding(
                "C402",
                path,
                f"{many(len(empty), 'doc has', 'docs have')} no text: {list_some([corpus.ids[i] for i in empty])}",
                (place(path, corpus.lines[i]) for i in empty),
                len(empty),
            )
    copies = copies_in(corpus)
    if copies:
        a, b, *_ = copies[0]
        extra = sum(len(group) - 1 for group in copies)
        yield make_finding(
            "C403",
            path,
            f"{many(extra, 'doc is', 'docs are')} word for word the same as another: "
            f"{corpus.ids[b]} as {corpus.ids[a]}",
            (place(path, corpus.lines[i]) for group in copies for i in group),
            extra,
        )
    if corpus.bad_dates:
        yield make_finding(
            "C404",
            path,
            f"{many(len(corpus.bad_dates), 'doc_version is', 'values of doc_version are')} not a date: "
            f"{list_some([v for _, v in corpus.bad_dates])}",
            (place(path, line) for line, _ in corpus.bad_dates),
            len(corpus.bad_dates),
        )


def copies_in(corpus: CorpusFile) -> list[list[int]]:
    """Groups of docs with the same text under several ids."""
    groups: dict[bytes, list[int]] = defaultdict(list)
    for i, text in enumerate(corpus.prints):
        if text:
            groups[text].append(i)
    return [g for g in groups.values() if len({corpus.ids[i] for i in g}) > 1]
