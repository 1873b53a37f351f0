"""Align a file in one pass over blocks of whole queries, with bounded memory, on several threads."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from karat.align.columns import align_block, grouped, joined, parents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from karat.align.columns import Part
    from karat.align.found import Found
    from karat.align.gold import GoldIndex
    from karat.model.policy import Policy
    from karat.model.qrels import Qrels
    from karat.model.run import Rows, StreamedFile


def default_threads() -> int:
    """As many threads as this process may use cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def align_stream(
    qrels: Qrels,
    gold: GoldIndex,
    file: StreamedFile,
    policy: Policy,
    *,
    at_doc: bool,
    threads: int,
    keep_items: int,
    marked: list[bool],
) -> Found:
    """Read, check and align block by block. A run that is not grouped by query raises NotGrouped.

    `marked` is told of the first block that holds the mark between a doc and its chunks.
    """
    mark = policy.separator.encode()

    def work(block: Any) -> Part:
        if not marked and mark in block.buffer:
            marked.append(True)
        return align_block(with_parents(file.rows(block), policy, at_doc), gold, policy, keep_items)

    return joined(list(_in_order(work, file.blocks(), threads)), len(qrels))


def align_table(qrels: Qrels, gold: GoldIndex, rows: Rows, policy: Policy, *, at_doc: bool, keep_items: int) -> Found:
    """Align rows that are all in memory, in any order."""
    whole = with_parents(grouped(rows), policy, at_doc)
    return joined([align_block(whole, gold, policy, keep_items)], len(qrels))


def with_parents(rows: Rows, policy: Policy, at_doc: bool) -> Rows:
    """The rows with the docs that their chunks belong to, if these are to be matched, else without."""
    if not at_doc:
        return rows if rows.parent is None else replace(rows, parent=None)
    return rows if rows.parent is not None else replace(rows, parent=parents(rows.doc, policy.separator))


def _in_order(work: Callable[[Any], Part], blocks: Iterator[Any], threads: int) -> Iterator[Part]:
    """The work on each block, in the order of the blocks; few blocks are held at a time."""
    first = next(blocks, None)
    second = next(blocks, None) if first is not None else None
    if threads <= 1 or second is None:
        for block in (first, second):
            if block is not None:
                yield work(block)
        for block in blocks:
            yield work(block)
        return
    from concurrent.futures import ThreadPoolExecutor

    pending: deque[Future[Part]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="karat") as pool:
        try:
            pending.extend((pool.submit(work, first), pool.submit(work, second)))
            for block in blocks:
                pending.append(pool.submit(work, block))
                if len(pending) > threads + 2:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
