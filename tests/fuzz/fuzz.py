"""The fuzzer: makes cases from seeds, judges them, and keeps the wrong ones as small as they get.

`python tests/fuzz/fuzz.py --cases 50000 --seed 1` writes wrong cases to `crashes/`, which the tests replay for ever;
`--kind "trec run"` makes cases of that kind alone.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import itertools
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

HERE = Path(__file__).resolve().parent
sys.path[:0] = [path for path in (str(HERE), str(HERE.parent / "support")) if path not in sys.path]

from commands import COMMANDS  # noqa: E402
from judge import SECONDS, Hang, Verdict, alarm, judge  # noqa: E402
from kinds import KINDS, make_case  # noqa: E402
from samples import Case  # noqa: E402

CRASHES = HERE / "crashes"
ALL_KINDS = (*KINDS, *COMMANDS)
SLOW = ("parquet", "frame", "config", "saved", "baseline", "cache", "options", "outputs")
"""Kinds that start a database or a command for each case: they take turns more seldom."""
EVERY = 8
TRIES = 150
"""Judgments that making a wrong case smaller may take."""


def cases(count: int, seed: int, only: str | None = None) -> Iterator[Case]:
    """So many cases, all kinds in turn or this one alone; another seed makes other cases."""
    kinds = ALL_KINDS if only is None else (only,)
    made = 0
    for turn in itertools.count():
        for kind in kinds:
            if len(kinds) > 1 and kind.startswith(SLOW) and (turn + kinds.index(kind)) % EVERY:
                continue
            if made == count:
                return
            made += 1
            number = seed * 10_000_000 + turn
            yield make_case(kind, number) if kind in KINDS else COMMANDS[kind][0](Random(f"{kind}:{number}"), kind)


def judge_case(case: Case, folder: Path) -> Verdict:
    """The verdict of a case of any kind; whatever else happens is wrong."""
    if case.kind in KINDS:
        return judge(case, folder)
    try:
        with alarm(SECONDS):
            return COMMANDS[case.kind][1](case, folder)
    except Hang:
        return Verdict("wrong", f"takes longer than {SECONDS} s")
    except Exception as error:
        return Verdict("wrong", f"{type(error).__name__}: {error}")


def shrink(case: Case, why: str, folder: Path) -> Case:
    """The case without the lines, and then the bytes, that it is wrong without, for the same reason."""
    tries = itertools.count()
    for mark in (b"\n", b""):
        parts = case.data.split(b"\n") if mark else [bytes([b]) for b in case.data]
        size = max(1, len(parts) // 2)
        while size and len(parts) > 1:
            begin = 0
            while begin < len(parts) and next(tries) < TRIES:
                fewer = parts[:begin] + parts[begin + size :]
                smaller = replace(case, data=mark.join(fewer), damaged=True)
                verdict = judge_case(smaller, folder)
                if verdict.outcome == "wrong" and verdict.why[:20] == why[:20]:
                    parts, case = fewer, smaller
                else:
                    begin += size
            size //= 2
    return case


def write_crash(case: Case, why: str) -> Path:
    """Keep a case for the tests."""
    document = {"kind": case.kind, "name": case.name, "why": why[:300], "damaged": case.damaged}
    try:
        document |= {"text": case.data.decode()}
    except UnicodeDecodeError:
        document |= {"base64": base64.b64encode(case.data).decode()}
    CRASHES.mkdir(exist_ok=True)
    path = CRASHES / f"{case.kind.replace(' ', '-')}-{hashlib.sha256(case.data).hexdigest()[:10]}.json"
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return path


def read_crash(path: Path) -> Case:
    """A case that was kept."""
    document = json.loads(path.read_text("utf-8"))
    data = document["text"].encode() if "text" in document else base64.b64decode(document["base64"])
    return Case(document["kind"], document["name"], data, document["damaged"])


def main() -> int:
    """Judge cases, print how many came out how, and keep the wrong ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=ALL_KINDS, metavar="KIND", help=f"this kind alone: {', '.join(ALL_KINDS)}")
    chosen = parser.parse_args()
    table: dict[str, Counter[str]] = {}
    start, wrong = time.process_time(), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["KARAT_CACHE_DIR"] = str(folder / "cache")
        for number, case in enumerate(cases(chosen.cases, chosen.seed, chosen.kind), start=1):
            verdict = judge_case(case, folder)
            table.setdefault(case.kind, Counter())[verdict.outcome] += 1
            if verdict.outcome == "wrong":
                wrong += 1
                print(
                    f"wrong: {write_crash(shrink(case, verdict.why, folder), verdict.why)}: {verdict.why}", flush=True
                )
            if number % 5000 == 0:
                print(f"{number:,} cases, {wrong} wrong, {time.process_time() - start:.0f} s CPU", flush=True)
    outcomes = ("equal", "refused", "unknown", "wrong")
    print(f"| kind | cases | {' | '.join(outcomes)} |\n|---|---|{'---|' * len(outcomes)}")
    for kind, counts in [*table.items(), ("all", sum(table.values(), Counter()))]:
        print(f"| {kind} | {counts.total():,} | {' | '.join(f'{counts[each]:,}' for each in outcomes)} |")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
