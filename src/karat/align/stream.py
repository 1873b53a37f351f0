"""Align a file in one pass over blocks of whole queries, on several threads; `fill_parents`: the doc of each chunk."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from karat.align.columns import align_block, derive_parents, group_rows, join_blocks
from karat.align.compiled import text_kernel
from karat.model.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from karat.align.columns import BlockHits
    from karat.align.gold import GoldIndex
    from karat.align.hits import Hits
    from karat.model.policy import Policy
    from karat.model.qrels import Qrels
    from karat.model.run import Rows, StreamedFile


Part = TypeVar("Part")
SPARE = 24 << 20
"""Bytes that the arrays of a block, and those made on the way to them, do not reach."""


def default_threads() -> int:
    """As many threads as this process may use cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def align_stream(
    qrels: Qrels,
    gold: Callable[[], GoldIndex],
    file: StreamedFile,
    policy: Policy,
    *,
    at_doc: bool,
    threads: int,
    keep_items: int,
    separator: bytes,
    separators: list[bool],
    parents: Mapping[str, str],
) -> Hits:
    """Read, check and align block by block. A run that is not grouped by query raises NotGrouped.

    `separators` gets an entry once a block holds the `separator`, which may divide docs from their chunks.
    """
    compiled = text_kernel(qrels, file, policy, at_doc=at_doc, keep_items=keep_items)
    spare: list[bytearray] = []
    if compiled is None:
        _keep_spare_memory()

    def work(block: Any) -> BlockHits:
        hits = None
        if compiled is not None:
            hits = compiled.align(block, separator, separators)
        elif separator and not separators and block.holds(separator):
            separators.append(True)
        if hits is None:
            rows = fill_parents(file.rows(block), policy, parents, needed=at_doc or keep_items > 0)
            hits = compiled.align_rows(rows) if compiled is not None else None
            hits = hits or align_block(rows, gold(), policy, at_doc, keep_items)
        spare.extend(block.buffers)
        return hits

    with closing(file.blocks(spare=spare)) as blocks:  # a failure may hold on to them, and a database to its files
        return join_blocks(in_order(work, blocks, threads), len(qrels))


@cache
def _keep_spare_memory() -> None:
    """Have the memory of a block's arrays used again for the next block.

    glibc gives memory back to the system once more than twice the largest piece is free that it ever got back; to have
    it again, cleared page by page, takes half as long as aligning. So it gets a large piece back, which nobody wrote to
    and which was therefore no memory yet.
    """
    np.empty(SPARE, dtype=np.uint8)


def align_table(
    qrels: Qrels,
    gold: GoldIndex,
    rows: Rows,
    policy: Policy,
    *,
    at_doc: bool,
    keep_items: int,
    parents: Mapping[str, str],
) -> Hits:
    """Align rows that are all in memory, in any order."""
    whole = fill_parents(group_rows(rows), policy, parents, needed=at_doc or keep_items > 0)
    return join_blocks([align_block(whole, gold, policy, at_doc, keep_items)], len(qrels))


def fill_parents(rows: Rows, policy: Policy, corpus: Mapping[str, str], *, needed: bool) -> Rows:
    """The rows with the docs that their chunks belong to, if these are needed, else without.

    The doc is the one that the row names, else the one in the corpus, else the part of the id before the separator.
    """
    if not needed:
        return rows if rows.parent is None else replace(rows, parent=None)
    derived = derive_parents(rows.doc, policy.separator)
    if corpus:
        pairs = zip(rows.doc.texts(), derived.texts(), strict=True)
        derived = Strings.of(corpus.get(chunk, before) for chunk, before in pairs)
    if rows.parent is None:
        return replace(rows, parent=derived)
    unnamed = rows.parent.start >= rows.parent.end
    if not unnamed.any():
        return rows
    pairs = zip(rows.parent.texts(), derived.texts(), strict=True)
    return replace(rows, parent=Strings.of(own or before for own, before in pairs))


def in_order(work: Callable[[Any], Part], blocks: Iterator[Any], threads: int) -> list[Part]:
    """The work on each block, in the order of the blocks. Each thread holds one block at a time."""
    first = next(blocks, None)
    second = next(blocks, None) if first is not None else None
    if threads <= 1 or second is None:
        return [work(block) for block in chain((first, second), blocks) if block is not None]
    numbered = enumerate(chain((first, second), blocks))
    parts: dict[int, Part] = {}
    failures: list[BaseException] = []
    turn = threading.Lock()

    def go_on() -> None:
        try:
            while not failures:
                with turn:  # reading takes turns; what was read is worked on side by side
                    number, block = next(numbered, (-1, None))
                if block is None:
                    return
                parts[number] = work(block)
        except BaseException as failure:
            failures.append(failure)

    others = [threading.Thread(target=go_on, name="karat", daemon=True) for _ in range(threads - 1)]
    for thread in others:
        thread.start()
    try:
        go_on()
    finally:
        for thread in others:
            thread.join()
    if failures:
        raise failures[0]
    return [parts[i] for i in range(len(parts))]
