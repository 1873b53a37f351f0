"""A first `karat.yaml` for the data that is there."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from karat.errors import InputError, KaratError
from karat.evaluation import evaluate
from karat.ingest.layout import head_of
from karat.ingest.queries import read_queries
from karat.ingest.read import run_files
from karat.validation.roles import role_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karat.result import Result

DEPTH, MOST = 3, 500
ENDINGS = (".txt", ".tsv", ".csv", ".jsonl", ".json", ".parquet", ".run", ".trec", ".qrels", ".res", ".gz", ".zst")
SKIPPED = {"node_modules", "__pycache__", "venv", "site-packages", "dist", "build"}
SEGMENTS = ("language", "lang", "locale", "topic", "category", "domain", "intent", "difficulty", "source", "type")
RUNS = 10
BASELINES = ("baseline", "base", "prod", "main", "old", "current")
"""Words in the name of a run that the others are compared with."""
GATED = ("recall@10", "ndcg@10")


@dataclass(frozen=True)
class Found:
    """The files of a folder by what they are for."""

    qrels: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    corpus: list[str] = field(default_factory=list)
    run: list[str] = field(default_factory=list)


def init(folder: str = ".") -> str:
    """The text of a commented `karat.yaml` for the gold, queries and runs in a folder.

    Thresholds are what the best run reaches today, so that the first check passes and a later loss blocks.
    """
    if not os.path.isdir(folder):
        raise InputError(f"{folder}: is no folder; expected the one that holds your gold and runs")
    found = _found(folder)
    result = _measured(found)
    return "\n".join(_lines(found, folder, result)) + "\n"


def _found(folder: str) -> Found:
    out = Found()
    for path in _files(folder):
        try:
            role = role_of(path, head_of(path))
        except (KaratError, OSError):
            continue
        listed = getattr(out, role, None) if role else None
        if listed is not None:
            listed.append(path)
    if out.qrels:  # BEIR keeps several splits: test is the one to measure on
        out.qrels.sort(key=lambda p: (not os.path.basename(p).startswith("test"), p))
    return out


def _files(folder: str) -> Iterator[str]:
    count = 0
    for place, folders, names in os.walk(folder):
        deep = os.path.relpath(place, folder).count(os.sep) + (place != folder)
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in SKIPPED) if deep < DEPTH else []
        for name in sorted(names):
            if name.lower().endswith(ENDINGS) and not name.startswith("."):
                count += 1
                if count > MOST:
                    return
                yield os.path.join(place, name)


def _measured(found: Found) -> Result | None:
    """What the runs reach; nothing where they cannot be evaluated."""
    if not found.qrels or not found.run:
        return None
    try:
        return evaluate(found.qrels[0], run_files(found.run[:RUNS]), GATED)
    except KaratError:
        return None


def _roles(names: list[str], result: Result | None) -> tuple[str | None, str | None]:
    """The run that the others are compared with, and the one to judge: by their names, else the lowest and the best."""
    if len(names) < 2:
        return None, names[0] if names else None
    ranked = sorted((r.mean["ndcg@10"], r.name) for r in result.runs) if result is not None else []
    order = [name for _, name in ranked] or names
    base = next((n for n in names if any(word in n.lower() for word in BASELINES)), order[0])
    return base, next(n for n in reversed(order) if n != base)


def _lines(found: Found, folder: str, result: Result | None) -> Iterator[str]:
    def told(path: str) -> str:
        return _quoted(os.path.relpath(path, folder))

    yield "# What to measure, what to ask of it, and what to write. Run it with: karat check"
    yield "# All keys: karat init --schema (also for your editor)"
    yield ""
    yield "dataset:"
    yield f"  qrels: {told(found.qrels[0])}" if found.qrels else "  qrels: qrels.tsv        # your gold judgments"
    for path in found.qrels[1:4]:
        yield f"  # qrels: {told(path)}"
    yield (
        f"  queries: {told(found.queries[0])}"
        if found.queries
        else "  # queries: queries.jsonl  # text, and fields to slice by"
    )
    yield f"  corpus: {told(found.corpus[0])}" if found.corpus else "  # corpus: corpus.jsonl"
    yield ""
    yield "runs:"
    names = run_files(found.run) if found.run else {}
    for name, path in names.items():
        yield f"  {_quoted(name)}: {told(path)}"
    if not names:
        yield "  main: runs/main.jsonl   # what your system returned"
    yield ""
    base, judged = _roles(list(names), result)
    if base is not None and judged is not None:
        yield "# The run that the gates judge; all but the baseline unless named."
        yield f"candidate: {_quoted(judged)}"
        yield "# The run that the others are compared with; or a file that `karat bless` wrote."
        yield f"baseline: {_quoted(base)}"
    else:
        yield "# Once a result is good, make it the baseline with `karat bless`, commit the file, and name it here."
        yield "# baseline: karat.baseline.json"
    yield ""
    yield "metrics: [ndcg@10, 'recall@{1,3,5,10}', precision@5, mrr]"
    yield ""
    fields = _fields(found)
    if fields:
        yield f"segments: [{', '.join(map(_quoted, fields))}]"
    else:
        yield "# segments: [language]    # fields of the queries"
    yield ""
    yield "# A gate compares the end of the confidence interval with a threshold: it passes, fails or is undecided."
    yield "gates:"
    yield from _gates(result, judged, base is not None, fields)
    yield ""
    yield "outputs:"
    yield "  json: karat-out/check.json"
    yield "  markdown: karat-out/comment.md   # for a pull request"
    yield "  junit: karat-out/gates.xml"


def _gates(result: Result | None, judged: str | None, compared: bool, fields: list[str]) -> Iterator[str]:
    run = next((r for r in result.runs if r.name == judged), None) if result is not None else None
    if run is None:
        yield "  - recall@10 >= 0.80"
        yield "  - warn: ndcg@10 >= 0.60"
    else:
        for metric in GATED:
            low = run.intervals[metric].low
            floor = math.floor((low if low == low else 0.0) * 100) / 100
            yield f"  - {metric} >= {floor:.2f}   # {run.name} reaches {run.mean[metric]:.3f} today"
    if compared:
        yield "  - ndcg@10 no worse than baseline by 0.02"
    else:
        yield "  # - ndcg@10 no worse than baseline by 0.02"
    if fields:
        yield f"  - warn: recall@10 >= 0.50 for every {fields[0]} of at least 10"


def _fields(found: Found) -> list[str]:
    """Fields of the queries that slice them into few parts."""
    if not found.queries:
        return []
    try:
        queries = read_queries(found.queries[0])
    except KaratError:
        return []
    values: dict[str, set[str]] = {}
    for fields in queries.fields.values():
        for name, value in fields.items():
            if isinstance(value, (str, bool)):
                values.setdefault(name, set()).add(str(value))
    few = [n for n, seen in values.items() if 2 <= len(seen) <= 20 and n.lower() in SEGMENTS]
    return sorted(few, key=lambda n: SEGMENTS.index(n.lower()))[:2]


def _quoted(text: str) -> str:
    """A text as YAML can hold it."""
    import json
    import re

    return text if re.fullmatch(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*", text) else json.dumps(text, ensure_ascii=False)
