"""Mutated blocks of text for the compiled kernel: what it aligns is, to the bit, what numpy aligns.

`python tests/fuzz/blocks.py --cases 1000000 --seed 1` compares so many; `make test-kernel` runs it with a kernel that
AddressSanitizer and UndefinedBehaviorSanitizer watch.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import astuple
from pathlib import Path
from random import Random
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [path for path in (str(HERE),) if path not in sys.path]

import numpy as np  # noqa: E402

from karat.align.columns import NotGrouped, align_block, refine_scores  # noqa: E402
from karat.align.compiled import NumberedRows, TextKernel  # noqa: E402
from karat.align.gold import GoldIndex  # noqa: E402
from karat.model import kernel  # noqa: E402
from karat.model.policy import Policy  # noqa: E402
from karat.model.strings import PAD  # noqa: E402
from karat.read.layout import Layout  # noqa: E402
from karat.read.objects import build_qrels  # noqa: E402
from karat.read.textfile import FRONT, Block, Irregular, TextFile  # noqa: E402
from mutations import mutate_bytes, mutate_lines  # noqa: E402

LAYOUTS = (Layout(None, 6, 0, 2, 4), Layout(None, 5, 0, 2, 4), Layout(None, 3, 2, 0, 1), Layout(None, 4, 1, 3, 0))
DOCS = (
    *(
        "a",
        "b",
        "ab",
        "d12",
        "12345678",
        "123456789",
        "sixteen-bytes-id",
        "seventeen-bytes-i",
        "é",
        "日本語の文書",
        "𝔸",
    ),
    *("same-prefix-of-more-than-24-bytes-a", "same-prefix-of-more-than-24-bytes-b", "x" * 140, "x" * 139 + "y"),
    *(f"doc-{i}" for i in range(12)),
)
QUERIES = ("q1", "q2", "q10", "7", "1000123", "a-query-with-a-long-name", "ß", "other", "longer-than-16-bytes-")
SCORES = (
    *("0", "-0.0", "1", "1.5", ".5", "5.", "-7", "1e3", "1000", "+2.5", "1E-7", "-1e+2", "00012.50", "0.50", "0.5"),
    *("0.12345678901234567", "0.12345678901234568", "9007199254740993", "9007199254740992.5", "0.016393442622950821"),
    *("1.2345678901234567e-05", "12345678.12345678", "123456789012345678901", "3.4e38", "1e-30", "16777217", "1e23"),
)
BATCH = 200
"""Blocks that share a gold."""
PROGRESS = 50_000
"""Blocks after which it is said how far it is."""


class Different(AssertionError):
    """The kernel and numpy do not agree."""


def make_lines(rng: Random, layout: Layout) -> bytes:
    """Rows of a few queries, mostly in order and mostly plain."""
    mark = rng.choice((" ", " ", " ", "\t", "  ", " \t"))
    end = rng.choice(("\n", "\n", "\n", "\r\n", " \n"))
    style = rng.randrange(6)
    lines = []
    for query in rng.sample(QUERIES, rng.randint(1, 4)):
        docs = rng.sample(DOCS, rng.randint(1, 12)) if style else rng.choices(DOCS, k=rng.randint(1, 12))
        scores = [rng.choice(SCORES) if style < 2 else f"{rng.uniform(-3, 30):.{2 * style}f}" for _ in docs]
        if style == 3:
            scores = [str(rng.randint(0, 2))] * len(docs) if rng.random() < 0.5 else [str(n) for n in range(len(docs))]
        elif rng.random() < 0.7:
            scores.sort(key=float, reverse=True)
        for doc, score in zip(docs, scores, strict=True):
            cells = ["Q0"] * layout.width
            cells[layout.query], cells[layout.doc], cells[layout.value] = query, doc, score
            lines.append(mark.join(cells) + end)
    return "".join(lines).encode()


def make_gold(rng: Random) -> Any:
    """Judgments of some of the queries."""
    some = rng.sample(QUERIES, rng.randint(1, 7))
    return build_qrels({q: dict.fromkeys(rng.sample(DOCS, rng.randint(1, 9)), 1.0) for q in some}, "gold")


def as_block(data: bytes) -> Block:
    """The data as files hand it out: with free bytes around it, and ending in a newline."""
    data = data if data.endswith(b"\n") else data + b"\n"
    return Block(bytearray(FRONT + data + bytes(1 + PAD)), PAD + len(data))


def fields_of(hits: Any) -> list[Any]:
    """The hits as something that compares."""
    return [(v.dtype.str, v.tolist()) if isinstance(v, np.ndarray) else v for v in astuple(hits)]


def compare(
    compiled: TextKernel, gold: GoldIndex, file: TextFile, policy: Policy, data: bytes, *, values: bool = True
) -> bool:
    """Whether the kernel aligned the data itself; an error if it did so in another way than numpy.

    Without `values` the kernel runs, and nothing is compared with numpy.
    """
    block = as_block(data)
    before = bytes(block.buffer)
    mine = compiled.align(block)
    numbered = compiled.number(block, keys=True)
    if not values:
        if bytes(block.buffer) != before:
            raise Different(f"the kernel wrote into {data!r}")
        return mine is not None
    by_rows, reference, refusal = None, None, ""
    try:
        rows = file.rows(block)
        if numbered is not None:
            compare_numbers(numbered, rows, gold, policy, data)
            numbered = None
        by_rows = compiled.align_rows(rows)
        reference = align_block(rows, gold, policy, False)
    except (Irregular, NotGrouped) as error:
        refusal = type(error).__name__
    if numbered is not None:
        raise Different(f"numpy refuses ({refusal}) {data!r}")
    if bytes(block.buffer) != before:
        raise Different(f"the kernel wrote into {data!r}")
    for hits in (mine, by_rows):
        if hits is not None and reference is None:
            raise Different(f"numpy refuses ({refusal}) {data!r}")
        if hits is not None and fields_of(hits) != fields_of(reference):
            raise Different(f"{data!r}: the kernel says {fields_of(hits)}, numpy {fields_of(reference)}")
    return mine is not None


def compare_numbers(numbered: NumberedRows, rows: Any, gold: GoldIndex, policy: Policy, data: bytes) -> None:
    """An error if rows in any order are not what numpy makes of them."""
    query = gold.number_queries(rows.query)
    without = tuple(dict.fromkeys(rows.query.take(query < 0).bytes()))
    rows, query = rows.take(np.flatnonzero(query >= 0)), query[query >= 0]
    scores = rows.score if rows.near is None else refine_scores(rows, rows.score, np.flatnonzero(rows.near))
    words = rows.doc.words()
    keys = gold.keys(words, query)
    judgments = np.full(len(rows), -1)
    hits, which = gold.find(keys, words, query)
    judgments[hits] = which
    theirs = (query, keys, judgments, scores, without, rows.doc.bytes())
    own = (*numbered[1:4], numbered.rows.score, numbered.without_gold, numbered.rows.doc.bytes())
    for mine, other in zip(own, theirs, strict=True):
        if list(mine) != list(other):
            raise Different(f"{data!r}: the kernel reads {own}, numpy {theirs}")


def run(cases: int, seed: int, every: int = 1) -> Counter[str]:
    """Align so many blocks, three in four of them damaged; what became of them.

    Of `every` so many blocks, one is compared with numpy; of the others it is only watched what the kernel does.
    """
    assert kernel.text is not None, "the kernel is not compiled: python hatch_build.py"
    outcomes: Counter[str] = Counter()
    for batch in range(-(-cases // BATCH)):
        rng = Random(f"{seed}:{batch}")
        layout = LAYOUTS[0] if rng.random() < 0.6 else rng.choice(LAYOUTS)
        policy = Policy(score_precision=rng.choice(("float64", "float64", "float32")))
        qrels = make_gold(rng)
        gold = GoldIndex(qrels)
        compiled = TextKernel(kernel.text, qrels, policy, layout, gold.salt)
        file = TextFile("run", layout, "run")
        data = b""
        for number in range(min(BATCH, cases - batch * BATCH)):
            data = rng.choice((mutate_bytes, mutate_lines))(rng, data) if number % 4 else make_lines(rng, layout)
            if not data.strip():
                outcomes["empty"] += 1
                continue  # files hand out no such block
            values = rng.randrange(every) == 0
            aligned = compare(compiled, gold, file, policy, data, values=values)
            outcomes["aligned" if aligned else "handed back"] += 1
            outcomes["compared"] += values
        if (batch + 1) * BATCH % PROGRESS == 0:
            print(f"{(batch + 1) * BATCH:,} blocks", flush=True)
    return outcomes


def main() -> None:
    """Compare blocks, and say how many."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=int, default=1, help="compare one of so many blocks with numpy")
    arguments = parser.parse_args()
    start = time.monotonic()
    outcomes = run(arguments.cases, arguments.seed, arguments.every)
    told = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(outcomes.items()))
    print(f"{arguments.cases:,} blocks in {time.monotonic() - start:.0f} s, none of them wrong: {told}")


if __name__ == "__main__":
    main()
