"""How often the diagnosis names the planted fault: `make bench-diagnosis`.

python bench/diagnosis.py            # the report seeds; writes the tables into docs/diagnosis.md
python bench/diagnosis.py --tuning   # the tuning seeds, on which thresholds and rules were chosen; prints only
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from multiprocessing import Pool
from pathlib import Path

if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # two processes, one core each
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from pipelines import CLEAR, FAULTS, Pipeline, pipeline

TUNING, REPORT = range(100), range(1000, 1100)
STRENGTHS = (0.1, 0.2, 0.4, 0.7, 1.0)
PAGE = Path(__file__).parents[1] / "docs" / "diagnosis.md"
BEGIN, END = "<!-- measured by bench/diagnosis.py -->", "<!-- end of what was measured -->"

Named = tuple[tuple[str, str], ...]
Job = tuple[str, Mapping[str, float], int, str]
"""What the job is for, the faults, the seed, and the level of the gold."""


def names(fault: str, made: Pipeline, code: str, subject: str) -> bool:
    """Whether a finding names a planted fault, with the right language or stage."""
    if fault == "language":
        return (code, subject) == ("segment", f"language={made.details['language']}")
    if fault == "slow stage":
        return code in ("slow-stage", "slow-tail") and subject == made.details["stage"]
    expected = {"time filter": ("time-filter",), "thin gold": ("thin-gold",), "retriever": ("retriever", "pool")}
    return code in expected.get(fault, (fault,))


def diagnosed(made: Pipeline, level: str = "chunk") -> Named:
    """The findings for a pipeline, in order."""
    from karat import diagnose

    with tempfile.TemporaryDirectory() as folder:
        files = made.write(Path(folder))
        gold = files["gold_chunks" if level == "chunk" else "gold_docs"]
        found = diagnose(str(gold), str(files["run"]), queries=str(files["queries"]))
    return tuple((f.code, f.subject) for f in found.findings)


def places(faults: Mapping[str, float], made: Pipeline, found: Named) -> list[int]:
    """The place at which each fault is named, from 1; 0 where it is not."""
    return [next((i for i, f in enumerate(found, start=1) if names(fault, made, *f)), 0) for fault in faults]


def work(job: Job) -> tuple[Job, list[int], Named]:
    _, faults, seed, level = job
    made = pipeline(seed, faults)
    found = diagnosed(made, level)
    return job, places(faults, made, found), found


def jobs(seeds: range, level: str, strengths: tuple[float, ...]) -> list[Job]:
    """Healthy pipelines, each fault at each strength (a quarter of the seeds but at the clear one), pairs in turn."""
    out: list[Job] = [("healthy", {}, seed, level) for seed in seeds]
    single = [f for f in FAULTS if level == "chunk" or f != "chunker"]
    for strength in strengths:
        chosen = seeds if strength == CLEAR else seeds[: len(seeds) // 4]
        out += [("single", {f: strength}, seed, level) for f in single for seed in chosen]
    pairs = list(itertools.combinations(single, 2))
    order = np.random.default_rng(0).permutation(len(pairs))
    sampled = [pairs[order[i % len(pairs)]] for i in range(len(seeds))]
    out += [("pair", {a: CLEAR, b: CLEAR}, seed, level) for (a, b), seed in zip(sampled, seeds, strict=True)]
    return out


def tables(done: list[tuple[Job, list[int], Named]], seeds: range, seconds: float) -> str:
    """The page's part, as it was seen."""
    lines = [
        f"Seeds {seeds[0]} to {seeds[-1]}, gold by chunk; {seconds:.0f} s in all.",
        "",
        "How often the planted fault is named **first**, by strength:",
        "",
        "| fault | " + " | ".join(f"{s:g}" for s in STRENGTHS) + f" | at {CLEAR:g}, the clear strength |",
        "|---|" + "---:|" * len(STRENGTHS) + "---|",
    ]
    single = [(next(iter(job[1].items())), found) for job, found, _ in done if job[0] == "single"]
    for fault, about in FAULTS.items():
        cells = [[p == [1] for (f, s), p in single if (f, s) == (fault, strength)] for strength in STRENGTHS]
        if any(cells):
            rates = (f"{sum(cell)}/{len(cell)}" if cell else "" for cell in cells)
            lines.append(f"| {fault} | " + " | ".join(rates) + f" | {about} |")
    healthy = [found for job, _, found in done if job[0] == "healthy"]
    said = Counter(code for found in healthy for code, _ in found)
    silent = sum(not found for found in healthy)
    told = ", ".join(f"{code} {count}×" for code, count in said.most_common())
    pairs = [(job, p, found) for job, p, found in done if job[0] == "pair"]
    both = sum(all(0 < place <= 3 for place in p) for _, p, _ in pairs)
    missed = Counter(" + ".join(job[1]) for job, p, _ in pairs if not all(0 < place <= 3 for place in p))
    unseen = ", ".join(f"{pair} {count}×" for pair, count in missed.most_common())
    lines += [
        "",
        f"Healthy pipelines of which it says that nothing is wrong: **{silent} of {len(healthy)}**"
        + (f" (said of the others: {told})." if told else "."),
        "",
        f"Two faults at once, both of clear strength, all pairs in turn: both are among the first three findings in "
        f"**{both} of {len(pairs)}**" + (f" (missed: {unseen})." if unseen else "."),
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tuning", action="store_true", help="the tuning seeds; prints, writes nothing")
    parser.add_argument("--level", choices=("chunk", "doc"), default="chunk", help="of the gold; doc only prints")
    parser.add_argument("--clear", action="store_true", help="at clear strength alone; prints, writes nothing")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    asked = parser.parse_args()
    seeds = (TUNING if asked.tuning else REPORT)[: asked.seeds]
    begun = time.monotonic()
    with Pool(2) as pool:
        done = list(
            pool.imap_unordered(work, jobs(seeds, asked.level, (CLEAR,) if asked.clear else STRENGTHS), chunksize=8)
        )
    done.sort(key=lambda d: (d[0][0], str(d[0][1]), d[0][2]))
    text = tables(done, seeds, time.monotonic() - begun)
    print(text)
    if asked.tuning:
        for (kind, faults, seed, _), place, found in done:
            clear = all(s == CLEAR for s in faults.values())
            good = all(0 < p <= 3 for p in place) if kind == "pair" else place == [1] if faults else not found
            if clear and not good:
                print(kind, dict(faults), seed, place, found)
    elif asked.level == "chunk" and not asked.clear and len(seeds) == len(REPORT):
        page = PAGE.read_text("utf-8")
        head, _, rest = page.partition(BEGIN)
        _, _, tail = rest.partition(END)
        PAGE.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}", "utf-8")


if __name__ == "__main__":
    main()
