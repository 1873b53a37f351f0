"""What the template writes before any script has run: title, headline sentence, tiles, remarks, gates, facts."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import compress, product
from typing import TYPE_CHECKING

import numpy as np

from karat.gates.groups import ORDER, GateGroup, group_gates
from karat.gates.wording import advise, figure_of, note_figures, note_pooling, threshold_text, value_text
from karat.metrics.grammar import parse
from karat.report.by_judge import describe_judged
from karat.report.html.clean_text import cut, link_to, name, plain
from karat.report.html.data import (
    DOC_TEXT,
    TOP,
    best_first,
    change,
    estimate,
    known,
    lack_answers,
    leading_metrics,
    opponent_of,
    primary_of,
    script_data,
    segment_name,
    typeset,
)
from karat.report.html.fragments import (
    diagnosis_text,
    difference_text,
    facts_by_run,
    facts_of,
    funnels_of,
    judged_table,
    judged_tables,
    parts_of,
    prints_of,
)
from karat.report.html.model import Change, Estimate, GateRow, MetricRow, Page, RunText, ScriptData, Strip, Tile
from karat.report.marks import mark_of
from karat.report.terminal.evaluate import best_runs
from karat.report.words import COMPARED_ONLY
from karat.results.decisions import Decision, describe_families
from karat.results.figures import estimate_figure, figure
from karat.results.reading import read_value, value_over
from karat.results.remarks import describe_size, few_cases
from karat.results.segment_changes import describe_shared_units
from karat.results.words import SharedLevels, plural, queries_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.gates.judge import JudgedGate
    from karat.model.docs import Docs
    from karat.report.html.source import Source
    from karat.results.result import RunResult

SENTENCE, WORD, SHORT = 400, 80, 24
"""Characters of the sentence under the verdict, of a name in it, and of one in a column."""
FEW = 3
"""Runs from which on there is a leaderboard."""
TILES = 3
SEGMENTS = 24
"""Segments up to which the chart of changes shows all."""


def page_of(source: Source, *, docs: Docs | None = None, k: int | None = None) -> Page:
    """The whole page; `docs` holds the texts of docs."""
    source = _in_order(source)
    result, runs = source.result, source.result.runs
    overall = {
        (c.candidate, c.metric): change(c, _shared_levels(c, source)) for c in source.comparisons if c.segment is None
    }
    change_runs = list(dict.fromkeys(run for run, _ in overall))
    parts = parts_of(runs)
    of_several = len({row.run for row in source.gates}) > 1
    texts = [_run_text(source, run, overall) for run in runs if run.name != source.base or len(runs) == 1]
    script = script_data(source, docs=docs, titles={t.name: _title(source, t.name) for t in texts}, k=k)
    gates = _gates(source, script.queries.fields)
    several, ranked, has_misses = len(runs) > 1, len(runs) >= FEW, bool(script.queries.gold)
    funnels, judged = funnels_of(runs), describe_judged(result, source.by_judge)
    heights = {
        "gates": 90 + sum(map(_height_of, gates)) if gates and not of_several else 0,
        "moved": 450 if several else 0,
        "change": 185 + 23 * _forest_rows(source) if script.changes else 0,
        "sweep": 460 if script.curves else 0,
        "funnel": 224 + 32 * min(len(runs), 6) + sum(32 + 33 * len(f.stages) for f in funnels)
        if script.rank_counts
        else 0,
    }
    sections = [
        ("verdict", "Verdict" if source.verdict else "Result", True),
        ("ranking", "Systems", ranked),
        ("gates", "Gates", gates),
        ("change", "Change", script.changes),
        ("moved", "Broken, fixed", several),
        ("sweep", "Cutoff", script.curves),
        ("metrics", "Metrics", True),
        ("judge", "Judge", judged),
        ("segments", "Segments", script.segments),
        ("components", "Components", parts),
        ("diagnosis", "Diagnosis", source.diagnoses),
        ("misses", "Misses", has_misses),
        ("queries", "Queries", True),
        ("facts", "Provenance", True),
    ]
    facts, run_facts = facts_of(source), facts_by_run(runs)
    return Page(
        title=_title(source, texts[0].name),
        verdict=source.verdict,
        verdict_of=_verdict_of(source) if source.verdict and several else "",
        icon=mark_of(source.verdict),
        why=_sentence(source) if source.why else "",
        scope=_scope(source),
        prints=prints_of(source)[:2],
        tally=_tally(group_gates(source.gates)),
        remarks=list(source.remarks),
        forced=[difference_text(d) for d in source.forced],
        sections=[(place, label) for place, label, there in sections if there],
        stacks=_stacks(heights),
        several=several,
        ranked=ranked,
        has_misses=has_misses,
        gates=gates,
        gates_of_several_runs=of_several,
        runs=texts,
        metrics=[_metric_row(m, runs, overall, change_runs) for m in result.metrics],
        change_runs=change_runs,
        family=_family(source),
        facts=facts + [(label, values[0]) for label, values in run_facts.items() if len(set(values)) == 1],
        run_names=[r.name for r in runs],
        run_facts=[(label, values) for label, values in run_facts.items() if len(set(values)) > 1],
        funnels=funnels,
        parts=parts,
        diagnoses=[diagnosis_text(d) for d in source.diagnoses],
        judged=judged_tables(judged) if judged is not None else [],
        calibration=judged_table(judged.calibration) if judged is not None and judged.calibration is not None else None,
        judged_lines=[plain(line) for line in judged.lines] if judged is not None else [],
        footer=_footer(script),
        script=script,
    )


def _shared_levels(decision: Decision, source: Source) -> SharedLevels | None:
    runs = {run.name: run for run in source.result.runs}
    base, run = runs.get(source.base or ""), runs.get(decision.candidate)
    if base is None or run is None or decision.metric not in base.values:
        return None
    return decision.shared_levels(base, run)


def _in_order(source: Source) -> Source:
    """The baseline first, then the candidates (the best first where nobody judged), then the others."""
    runs, base = source.result.runs, source.base
    names = [r.name for r in runs]
    candidates = [n for n in source.candidates if n in names and n != base]
    candidates = candidates or [n for n in names if n != base] or names
    if not source.verdict:
        candidates = [name for name in best_first(source) if name in candidates]
    order = {n: i for i, n in enumerate([*([base] if base is not None else []), *candidates])}
    runs = tuple(sorted(runs, key=lambda r: order.get(r.name, len(order))))
    return replace(source, result=replace(source.result, runs=runs), candidates=tuple(candidates))


def _stacks(heights: Mapping[str, int]) -> list[list[str]]:
    """The cards in two columns that end as near to each other as they can; the first card stays on the left."""
    cards = [card for card, height in heights.items() if height]
    total = sum(heights.values())
    sides = product((True, False), repeat=max(len(cards) - 1, 0))
    lefts = [[cards[0], *(c for c, left in zip(cards[1:], side, strict=True) if left)] for side in sides if cards]
    if not lefts:
        return []
    left = min(lefts, key=lambda some: abs(2 * sum(heights[c] for c in some) - total))
    return [left, [c for c in cards if c not in left]]


def _height_of(gate: GateRow) -> int:
    """What a gate takes in its card; segments are open where few of them fail."""
    rows = len(gate.rows) if gate.outcome == "fail" and len(gate.rows) <= 5 else 0
    return 58 + 36 * bool(gate.note) + 15 * bool(gate.rows) + 50 * rows


def _forest_rows(source: Source) -> int:
    rows = [c for c in source.comparisons if c.candidate == source.candidates[0] and c.metric == primary_of(source)]
    return min(len(rows), SEGMENTS + 1) if len(rows) > 1 else len(source.result.metrics)


# The first screen.


def _title(source: Source, run: str) -> str:
    """The title of the browser's window: the verdict, the run, the data."""
    about = cut(plain(source.dataset), WORD)
    headline = _pair(source, run) if source.base is not None else cut(plain(run), WORD)
    if source.verdict and run in source.candidates:
        headline = f"{source.verdict}: {headline}"
    elif source.verdict:
        headline = f"{headline} ({COMPARED_ONLY}; {_verdict_of(source)}: {source.verdict})"
    parts = (headline, about, "Karat")
    return " · ".join(filter(None, parts))


def _verdict_of(source: Source) -> str:
    """What the verdict is of: one run by its name, several by their number."""
    names = source.candidates
    return cut(plain(names[0]), WORD) if len(names) == 1 else f"{len(names)} runs"


def _pair(source: Source, run: str) -> str:
    """The run and what it is shown against; without a baseline nothing was compared."""
    other = opponent_of(source, run) if source.base in (None, run) else source.base
    name, other = (cut(plain(text), WORD) for text in (run, other or ""))
    against = "against" if source.base is not None else "shown against"
    return f"{name} {against} {other}" if other else name


def _run_text(source: Source, run: RunResult, overall: Mapping[tuple[str, str], Change]) -> RunText:
    tiles = _tiles(source, run, overall)
    return RunText(run.name, _pair(source, run.name), _run_sentence(source, run), tiles, _what_to_fix(source, run))


def _what_to_fix(source: Source, run: RunResult) -> str:
    """The weightiest finding of a run that a gate blocks."""
    blocked = any(g.run == run.name and g.outcome == "fail" and g.gate.level != "warn" for g in source.gates)
    findings = [f for d in source.diagnoses if d.run == run.name for f in d.findings]
    return cut(plain(findings[0].heading), SENTENCE) if blocked and findings else ""


def _run_sentence(source: Source, run: RunResult) -> str:
    """The primary metric of a run: the decision against the baseline where there is one."""
    metric = primary_of(source)
    rows = (d for d in source.comparisons if d.candidate == run.name and d.metric == metric and d.segment is None)
    row = next(rows, None)
    name = cut(plain(run.name), WORD)
    judged = not source.verdict or run.name in source.candidates
    note = "" if judged else f" The gates and the verdict are for {_verdict_of(source)}; {name} has none."
    if row is None or row.delta != row.delta:
        text = f"{name}: {metric} {typeset(str(estimate_figure(metric, run.intervals[metric])))}"
    else:
        text = typeset(cut(plain(row.full_statement), SENTENCE))
    return f"{text}.{_untested_segments(source, run, row)}{_place(source, run)}{note}"


def _untested_segments(source: Source, run: RunResult, row: Decision | None) -> str:
    """Which segments are not among those that the statement is about, since they share queries or conversations."""
    base = next((r for r in source.result.runs if r.name == source.base), None)
    if row is None or not row.interactions or base is None:
        return ""
    return "".join(f" {text[:1].upper()}{text[1:]}." for text in describe_shared_units(base, run, row.metric))


def _place(source: Source, run: RunResult) -> str:
    """That a run is the best by the leading metric, where several are shown and nobody judged."""
    metric, names = primary_of(source), source.candidates
    if source.verdict or len(names) < 2 or run.name not in names:
        return ""
    best = best_runs(metric, [source.result[name] for name in names])
    what = "runs" if source.base is None else "candidates"
    return f" Best of {len(names)} {what} by {metric}." if names.index(run.name) in best else ""


def _sentence(source: Source) -> str:
    """Why the verdict is as it is; names of runs, metrics and gates are written as they are."""
    text = cut(plain(source.why), SENTENCE)
    runs, gates = [r.name for r in source.result.runs], [row.gate for row in source.gates]
    names = [*runs, *source.result.metrics, *(n for g in gates for n in (g.metric, g.name) if n)]
    start = text[:1] if text.startswith(tuple(map(plain, names))) else text[:1].upper()
    return start + text[1:] + ("" if text.endswith((".", "…")) else ".")


def _scope(source: Source) -> str:
    runs = source.result.runs
    return " · ".join(
        filter(
            None,
            (
                cut(plain(source.dataset), WORD),
                describe_size(runs),
                f"{len(runs)} runs" if len(runs) > 2 else "",
                f"{runs[0].sampling.level or 'no'} intervals",
                "not for publication" if any(few_cases(r) is not None for r in runs) else "",
            ),
        )
    )


def _reading(run: RunResult, metric: str) -> str:
    reading = read_value(run, metric) if metric in run.values else None
    return reading.text if reading is not None else ""


def _tiles(source: Source, run: RunResult, overall: Mapping[tuple[str, str], Change]) -> list[Tile]:
    """The figures that matter most, each with its change."""
    tiles = []
    for metric in [n for n in leading_metrics(source) if n in run.values][:TILES]:
        value = estimate(metric, run.intervals[metric])
        delta = overall.get((run.name, metric))
        tells = parse(metric).metric.tells
        failure = _failure(source, metric, run.name)
        tiles.append(Tile(metric, tells, value.text, value.ends, delta, failure, _reading(run, metric)))
    return tiles


def _failure(source: Source, metric: str, run: str) -> str:
    """The gate over all queries that this figure fails: `✗ >= 0.65`; empty where there is none."""
    for g in source.gates:
        mine = g.gate.metric == metric and g.run == run and not g.segment and g.against is None
        if mine and g.outcome == "fail" and g.gate.level != "warn":
            return f"✗ {g.gate.op} {threshold_text(g.gate)}"
    return ""


def _tally(gates: Sequence[GateGroup]) -> list[tuple[str, str]]:
    """How many gates fail, are undecided and pass."""
    words = {"fail": ("gate fails", "gates fail"), "undecided": ("undecided",) * 2, "pass": ("passes", "pass")}
    counts = {o: sum(g.outcome == o and g.gate.level != "warn" for g in gates) for o in ORDER}
    warnings = sum(g.warning for g in gates)
    tally: list[tuple[str, str]] = [(o, f"{n} {words[o][n != 1]}") for o, n in counts.items() if n]
    return tally + ([("undecided", plural(warnings, "warning"))] if warnings else [])


# Gates.


def _gates(source: Source, fields: Mapping[str, Sequence[str | list[str]]]) -> list[GateRow]:
    """Gates, the worst first; one for every segment is one row that folds out."""
    values = {
        f: {v for one in column for v in ([one] if isinstance(one, str) else one)} for f, column in fields.items()
    }
    out = []
    for group in group_gates(source.gates):
        members = [_gate(row, source, values, in_group=len(group.rows) > 1) for row in group.rows]
        members.sort(key=lambda g: ORDER.index(g.outcome))
        if len(members) == 1:
            out.append(members[0])
            continue
        counts = [(o, sum(g.outcome == o for g in members)) for o in ORDER]
        words = {"fail": ("fails", "fail"), "undecided": ("undecided",) * 2, "pass": ("passes", "pass")}
        note = ", ".join(f"{n} {words[o][n != 1]}" for o, n in counts if n)
        first = members[0]
        reason = f"fails where {first.where}: {first.text} {first.ends}".rstrip() if first.outcome == "fail" else ""
        out.append(
            GateRow(
                gate=first.gate,
                text_parts=(first.gate, "", ""),
                name=first.name,
                level=first.level,
                run=first.run,
                where="",
                link="",
                outcome=first.outcome,
                mark=first.mark,
                note=_sentences(f"{len(members)} segments: {note}", reason, note_pooling(group.rows)),
                value=None,
                text="",
                ends="",
                limit=first.limit,
                n=0,
                n_note="",
                baseline="",
                strip=None,
                rows=members,
            )
        )
    return out


def _gate(row: JudgedGate, source: Source, values: Mapping[str, set[str]], *, in_group: bool) -> GateRow:
    gate, it = row.gate, figure_of(row)
    before, condition, after = str(gate).partition(gate.condition) if gate.condition else (str(gate), "", "")
    reason = {"fail": f"Fails: {row.judged.why}", "undecided": f"Undecided: {advise(row)}"}.get(
        row.outcome, advise(row)
    )
    return GateRow(
        gate=str(gate),
        text_parts=(before, condition, after),
        name=gate.name,
        level=gate.level,
        run=row.run,
        where=segment_name(row.segment) if row.segment and gate.every else "",
        link=_link_to_segment(row.segment, values),
        outcome=row.judged.outcome,
        mark=mark_of(row.outcome),
        note=typeset(_sentences(reason, *note_figures(row), "" if in_group else note_pooling([row]))),
        value=known(it.value),
        text=typeset(value_text(row)),
        ends=typeset(it.interval),
        limit=typeset(f"{gate.op} {threshold_text(gate)}"),
        n=row.found.n,
        n_note=_n_note(row, source),
        baseline=_baseline_text(row, source),
        strip=_strip(row),
    )


def _link_to_segment(segment: Mapping[str, str] | None, values: Mapping[str, set[str]]) -> str:
    """The queries of a segment, where each of its fields can be filtered by."""
    fields = [(name(f), name(str(v))) for f, v in (segment or {}).items()]
    if not fields or not all(value in values.get(field, ()) for field, value in fields):
        return ""
    return link_to([*((f"field.{field}", value) for field, value in fields), ("section", "queries")])


def _n_note(row: JudgedGate, source: Source) -> str:
    """How many queries have no gold, where a metric that needs none counts these too."""
    run = source.result[row.run]
    if row.against is not None or row.segment or row.gate.metric not in run.values or run.rankings is None:
        return ""
    with_gold = set(run.rankings.query_ids)
    valued = compress(run.query_ids, (~np.isnan(run.values[row.gate.metric])).tolist())
    without = sum(q not in with_gold for q in valued)
    if not without:
        return ""
    what = "without an answer" if lack_answers(run, without) else "without gold"
    return f"{queries_text(row.found.n)}, {without:,} {what} among them"


def _baseline_text(row: JudgedGate, source: Source) -> str:
    """The value of the baseline beside that of a gate: `bm25 0.0625`."""
    gate, base = row.gate, next((r for r in source.result.runs if r.name == source.base), None)
    if base is None or base.name == row.run or row.against is not None or row.basis or gate.metric not in base.values:
        return ""
    rows = None
    if row.segment:
        slices = [s for s in base.sampling.segments(base.query_ids) if s.by == row.segment]
        if not slices:
            return ""
        rows = slices[0].rows
    value = value_over(base, gate.metric, rows)
    return f"{cut(plain(base.name), SHORT)} {typeset(figure(gate.metric, value).text)}" if value == value else ""


def _sentences(*parts: str) -> str:
    """Notes as sentences; those that are empty are left out."""
    return " ".join(f"{part[:1].upper()}{part[1:]}." for part in parts if part)


def _strip(row: JudgedGate) -> Strip | None:
    """The interval and the threshold on one line."""
    interval, threshold = row.interval, row.gate.threshold
    whole = row.gate if row.gate.relative else replace(row.gate, end=None)  # margins in percent move the baseline
    region = whole.region
    low, high, value = interval.low, interval.high, row.found.estimate
    if any(x != x for x in (low, high, value)):
        return None
    left, right = min(low, *region.bounds), max(high, *region.bounds)
    pad = (right - left) * 0.12 or 0.01

    def x(at: float) -> float:
        return float(round(4 + 172 * (at - left + pad) / (right - left + 2 * pad), 1))

    start = x(region.low) if math.isfinite(region.low) else 4.0
    end = x(region.high) if math.isfinite(region.high) else 176.0
    return Strip(x(low), x(high), x(value), x(threshold), start, round(max(end - start, 0), 1))


# Metrics.


def _metric_row(
    metric: str, runs: Sequence[RunResult], overall: Mapping[tuple[str, str], Change], change_runs: Sequence[str]
) -> MetricRow:
    m = parse(metric).metric
    nothing = Estimate(None, None, None, "–", "", 0)
    cells = [estimate(metric, r.intervals[metric]) if metric in r.values else nothing for r in runs]
    best = best_runs(metric, runs)
    return MetricRow(
        name=metric,
        title=m.title,
        tells=m.tells,
        formula=m.formula,
        use=m.use_when,
        caution=m.caution,
        cites=m.cites,
        params=_params(metric),
        n=max(c.n for c in cells),
        estimates=[
            (r.name, c, i in best, _reading(r, metric)) for i, (r, c) in enumerate(zip(runs, cells, strict=True))
        ],
        changes=[(run, overall.get((run, metric))) for run in change_runs],
    )


def _params(metric: str) -> str:
    """What a metric was given, and its defaults where it was given nothing: `gain = linear`."""
    measure = parse(metric)
    values = [("k", measure.k), *((p.name, measure.param(p.name)) for p in measure.metric.params)]
    return ", ".join(
        f"{n} = {value:g}" if isinstance(value, float) else f"{n} = {value}"
        for n, value in values
        if value not in (None, (), "", False) and not (n == "unlisted" and not measure.param("gains"))
    )


def _family(source: Source) -> str:
    """What p was adjusted over."""
    others = dict.fromkeys(
        d.candidate for d in source.comparisons if source.verdict and d.candidate not in source.candidates
    )
    family = describe_families([d for d in source.comparisons if d.candidate not in others])
    names = " and ".join(cut(plain(name), WORD) for name in others)
    return f"{family}. Apart from these: {names}, which no gate judges" if family and others else family


# Provenance.


def _footer(script: ScriptData) -> str:
    from karat import __version__

    texts = (
        f" Texts of {len(script.docs.texts):,} docs, cut to {DOC_TEXT} characters each." if script.docs.texts else ""
    )
    lists = f" The first {TOP} docs of each list." if script.queries.lists else ""
    return f"Made by Karat {__version__}. One file that makes no requests and works offline.{lists}{texts}"
