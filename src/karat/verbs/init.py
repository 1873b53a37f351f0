"""A first `karat.yaml` for the data that is there."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from karat.errors import InputError, KaratError
from karat.gates.evidence import judge_gates
from karat.gates.language import parse_gate
from karat.read.layout import head_of
from karat.read.queries import read_queries
from karat.read.sources import read_qrels, read_run, run_files
from karat.results.figures import figure
from karat.verbs.evaluate import evaluate
from karat.verbs.validate.configs import explain_shortage
from karat.verbs.validate.roles import detect_role, role_by_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karat.results.result import Result, RunResult

DEPTH, MOST = 3, 500
ENDINGS = (".txt", ".tsv", ".csv", ".jsonl", ".json", ".parquet", ".run", ".trec", ".qrels", ".res", ".gz", ".zst")
SKIPPED = {"node_modules", "__pycache__", "venv", "site-packages", "dist", "build"}
SEGMENTS = ("language", "lang", "locale", "topic", "category", "domain", "intent", "difficulty", "source", "type")
RUNS = 10
BASELINES = ("baseline", "base", "prod", "main", "old", "current")
"""Words in the name of a run that the others are compared with."""
GATED = ("recall@10", "ndcg@10")
LATENCIES = ("latency.p90", "latency.p50")
MARGINS = (0.02, 0.05, 0.1)


@dataclass(frozen=True)
class Found:
    """The files of a folder by what they are for."""

    qrels: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    corpus: list[str] = field(default_factory=list)
    run: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Starter:
    """A first config, and in one line what it was made from."""

    text: str
    told: str


def init(folder: str = ".") -> str:
    """The text of a commented `karat.yaml` for the gold, queries and runs in a folder.

    Thresholds are what the best run reaches today, so that the first check passes and a later loss blocks.
    """
    return starter(folder).text


def starter(folder: str = ".") -> Starter:
    """A commented `karat.yaml` for a folder, and what was found there."""
    if not os.path.isdir(folder):
        raise InputError(f"{folder}: is no folder; expected the one that holds your gold and runs")
    found = _found(folder)
    fields = _fields(found)
    return Starter("\n".join(_lines(found, folder, _measured(found, fields), fields)) + "\n", _told(found, folder))


def _told(found: Found, folder: str) -> str:
    def named(path: str) -> str:
        return os.path.relpath(path, folder)

    parts = [
        f"{what} {named(paths[0])}"
        for what, paths in (("gold", found.qrels), ("queries", found.queries), ("corpus", found.corpus))
        if paths
    ]
    if found.run:
        parts.append(f"run {named(found.run[0])}" if len(found.run) == 1 else f"{len(found.run)} runs")
    lacking = [what for what, paths in (("gold (dataset.qrels)", found.qrels), ("runs", found.run)) if not paths]
    told = f"found {', '.join(parts)}" if parts else "found neither gold nor runs here"
    return told + (f"; fill in {' and '.join(lacking)}" if lacking else "")


def _found(folder: str) -> Found:
    out = Found()
    for path in _files(folder):
        try:
            role = detect_role(path, head_of(path))
            if role in ("qrels", "run") and path.lower().endswith(".json"):  # any JSON object may look like one
                role = role_by_name(path, ("qrels", "run"))
                (read_qrels if role == "qrels" else read_run)(path)
        except (KaratError, OSError):
            continue
        listed = getattr(out, role, None) if role else None
        if listed is not None:
            listed.append(path)
    # BEIR keeps several splits: test is the one to measure on. One JSON object is the least sure to be gold.
    out.qrels.sort(key=lambda p: (p.lower().endswith(".json"), not os.path.basename(p).startswith("test"), p))
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


def _measured(found: Found, fields: list[str]) -> Result | None:
    """What the runs reach, over all queries and in the segments of the first field; nothing where that fails."""
    if not found.qrels or not found.run:
        return None
    runs = run_files(found.run[:RUNS])
    try:
        if fields:
            return evaluate(found.qrels[0], runs, GATED, queries=found.queries[0], by=fields[:1])
        return evaluate(found.qrels[0], runs, GATED)
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


def _lines(found: Found, folder: str, result: Result | None, fields: list[str]) -> Iterator[str]:
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
    if fields:
        yield f"segments: [{', '.join(map(_quoted, fields))}]"
    else:
        yield "# segments: [language]    # fields of the queries"
    yield ""
    yield "# A gate compares the end of the confidence interval with a threshold: it passes, fails or is undecided."
    yield "gates:"
    gates = list(_gates(found, result, judged, base, fields))
    if not any(line.startswith("  - ") and not line.startswith("  - warn:") for line in gates):
        yield "  - recall@10 >= 0.80   # what you ask of a run"
    yield from gates
    yield ""
    yield "outputs:"
    yield "  json: karat-out/check.json"
    yield "  markdown: karat-out/comment.md   # for a pull request"
    yield "  junit: karat-out/gates.xml"


def _gates(
    found: Found, result: Result | None, judged: str | None, base: str | None, fields: list[str]
) -> Iterator[str]:
    """Gates that the run passes today, and that as many queries can decide."""
    run = next((r for r in result.runs if r.name == judged), None) if result is not None else None
    other = next((r for r in result.runs if r.name == base), None) if result is not None else None
    if result is None or run is None:
        yield "  # - warn: ndcg@10 >= 0.60"
        yield "  # - ndcg@10 no worse than baseline by 0.02"
        return
    for metric in GATED:
        gate = _floor(metric, run.intervals[metric].low)
        if gate and _passes(gate, result, run, None):
            yield f"  - {gate}   # {run.name} reaches {figure(metric, run.mean[metric]).short} today"
    margins = (f"ndcg@10 no worse than baseline by {m}" for m in MARGINS)
    against = next((g for g in margins if other is not None and _passes(g, result, run, other)), None)
    yield f"  - {against}" if against else "  # - ndcg@10 no worse than baseline by 0.02"
    if fields:
        large = [s for s in run.segments if s.n >= run.sampling.minimum]
        lowest = min((s.metrics[GATED[0]].low for s in large), default=math.nan)
        gate = _floor(GATED[0], lowest, f" for every {_name(fields[0])} of at least {run.sampling.minimum}")
        if gate and _passes(gate, result, run, None):
            yield f"  - warn: {_quoted(gate)}" if '"' in gate else f"  - warn: {gate}"
    yield from _latency(found, run.name)


def _floor(metric: str, low: float, where: str = "") -> str:
    """A gate at the lower bound of today, rounded down; nothing where that is no bound at all."""
    floor = math.floor(low * 100) / 100 if low == low else 0.0
    return f"{metric} >= {floor:.2f}{where}" if floor > 0 else ""


def _passes(text: str, result: Result, run: RunResult, base: RunResult | None) -> bool:
    """Whether a gate passes today, with queries enough to be decided."""
    gate = parse_gate(text)
    rows = judge_gates([gate], result, [run.name], baseline=base)
    return all(row.outcome == "pass" for row in rows) and not explain_shortage(gate, run, base)


def _latency(found: Found, name: str) -> Iterator[str]:
    """A bound on the latency where the run log has latencies: the next round number above today's upper bound."""
    path = run_files(found.run[:RUNS])[name]
    for metric in LATENCIES:
        try:
            result = evaluate(found.qrels[0], {name: path}, metric)
        except KaratError:
            return
        high = result.intervals[metric].high
        if not high > 0:
            continue
        step = 10 ** math.floor(math.log10(high)) / 2
        gate = f"{metric} <= {math.ceil(high / step) * step:g}ms"
        if _passes(gate, result, result.runs[0], None):
            yield f"  - {gate}   # {figure(metric, result.mean[metric]).short} today"
            return


def _name(field: str) -> str:
    """A field as a gate can hold it."""
    return field if re.fullmatch(r"[\w.-]+", field) else f'"{field}"'


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

    return text if re.fullmatch(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*", text) else json.dumps(text, ensure_ascii=False)
