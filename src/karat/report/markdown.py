"""A view as Markdown: a verdict as a short comment for a pull request, anything else as tables with all figures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from karat.gates.basis import WORDS
from karat.gates.wording import advise, figure_of, label_gate, note_pooling, notes_of, value_text
from karat.metrics.grammar import PRIMARY, choose_primary, parse
from karat.report.by_judge import JudgedSection, describe_judged
from karat.report.marks import NO_DECISION, emoji_of, mark_of
from karat.report.sweep import LEGEND, curve_table, headline
from karat.report.terminal.components import short
from karat.report.terminal.evaluate import best_runs
from karat.results.decisions import Decision, describe_families
from karat.results.figures import estimate_figure, figure
from karat.results.reading import readings_text
from karat.results.remarks import Remark
from karat.results.words import (
    FEW_MARK,
    TOO_FEW,
    SharedLevels,
    describe_few,
    plain,
    plural,
    queries_text,
    segment_text,
    tally_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karat.gates.groups import GateGroup
    from karat.gates.judge import JudgedGate
    from karat.report.formats import Problem
    from karat.report.view import View
    from karat.stats.intervals import Interval

BREAK = "\u200b"
"""A space of no width: what would be linked is not, and reads the same."""
METRICS, RUNS, GATES, SEGMENTS = 5, 4, 10, 5
"""The most that a comment shows of each."""
NOTES = 2_400
"""Characters of notes from which on those are counted that are not serious and not about a gate."""
ROWS = 200
"""The most segments that a table shows."""
NAME, SENTENCE, HEADLINE, STATEMENT, COMMENT, PAGE = 60, 240, 480, 640, 4_900, 60_000
"""The most characters of a name, a sentence, a verdict with its reason, a decision, a comment, and tables alone."""


def render(view: View) -> str:
    """A verdict with what decided it, and little else; without one, every figure that was asked for."""
    if view.plan is not None:
        return _render_plan(view)
    if view.reliability is not None:
        return _render_reliability(view)
    head = f"{emoji_of(view.verdict)} {view.verdict}: {text(view.why, HEADLINE)}" if view.verdict else _headline(view)
    first = [f"## {head}", text(view.scope, SENTENCE)]
    if view.forced:
        forced = "; ".join(map(str, view.forced))
        first.append(f"> **Forced**: compared although these differ: {text(forced, SENTENCE)}")
    first += _remarks(view)
    if view.verdict:
        parts = [_metrics(view), _gates(view), *_judged(view), _segments(view), _falls(view)]
    else:
        parts = [
            *_curves(view),
            _systems(view),
            *_judged(view),
            *_changes(view),
            *_statements(view),
            *_values_by_segment(view),
        ]
    parts += [*_components(view), _queries(view) if view.verdict else "", _readings(view)]
    if view.differences:
        differences = "; ".join(map(str, view.differences))
        parts.append(f"Differs from the baseline: {text(differences, SENTENCE)}")
    last = [f"[Full report]({link})"] if (link := _link(view.link)) else []
    return _fitted(first, [p for p in parts if p], last, COMMENT if view.verdict else PAGE) + "\n"


def render_error(problem: Problem) -> str:
    """The comment where an error came before any verdict: nothing of an older one stays."""
    first, *rest = problem.messages or ["an error"]
    lines = [f"- {text(line, STATEMENT)}" for line in rest[:GATES]]
    more = [f"- and {len(rest) - GATES} more"] if len(rest) > GATES else []
    parts = ["\n".join([*lines, *more])] if lines else []
    return _fitted([f"## {NO_DECISION} NOTHING WAS DECIDED: {text(first, STATEMENT)}"], parts, [], COMMENT) + "\n"


def _render_plan(view: View) -> str:
    """What gates will say: the conclusion, chances against n for each truth, and the work that is left."""
    from karat.report.plan import legend, sections

    source = view.plan
    assert source is not None
    first = [f"## {text(source.conclusion, SENTENCE)}", text(view.scope, SENTENCE), *_remarks(view)]
    parts = []
    for section in sections(source):
        table = lay_table(
            [text(head) for head in section.heads], [[text(c, SENTENCE) for c in row] for row in section.rows]
        )
        parts += [
            "\n\n".join(
                [f"**{text(section.title, SENTENCE)}**", table, *(f"{text(line, SENTENCE)}." for line in section.lines)]
            )
        ]
    last = ["\n".join(f"- {text(words, 2 * SENTENCE)}" for words in legend(source))]
    return _fitted(first, parts, last, COMMENT) + "\n"


def _render_reliability(view: View) -> str:
    """How far the collection can be trusted: the conclusion, one row per metric, and how it grows with queries."""
    from karat.report.reliability import legend, sections

    source = view.reliability
    assert source is not None
    first = [f"## {text(source.conclusion, SENTENCE)}", text(view.scope, SENTENCE), *_remarks(view)]
    parts = []
    for section in sections(source):
        title = [f"**{text(section.title)}**"] if section.title else []
        table = lay_table([text(head) for head in section.heads], [[text(c) for c in row] for row in section.rows])
        parts += ["\n\n".join([*title, table])]
    last = ["\n".join(f"- {text(words, 2 * SENTENCE)}" for words in legend(source))]
    return _fitted(first, [*parts, f"{text(source.best_statement, SENTENCE)}."], last, COMMENT) + "\n"


def _headline(view: View) -> str:
    """What is significantly better, and what is highest, by the primary metric."""
    if view.sweep is not None:
        return text(headline(view.sweep), SENTENCE)
    metric = _leading(view)
    rows = [d for d in view.decisions if d.segment is None and d.metric == metric]
    if len(rows) == 1:
        return text(rows[0].statement, STATEMENT)
    there = [s for s in view.systems if metric in s.run.values]
    best = best_runs(metric, [s.run for s in there])
    systems = [there[i] for i in sorted(best)] or there
    values = "; ".join(f"{s.name} {estimate_figure(metric, s.run.intervals[metric])}" for s in systems[:RUNS])
    direction = parse(metric).metric.higher_is_better
    lead = "" if not best else "highest is " if direction else "lowest is "
    if rows and direction is not None:
        better = [d.candidate for d in rows if d.outcome == "better"]
        names = ", ".join(better[:RUNS]) + (f" and {len(better) - RUNS} more" if len(better) > RUNS else "")
        verb = "are" if len(better) > 1 else "is"
        who = f"{names} {verb}" if better else "no run is significantly"
        lead = f"{who} better than {rows[0].baseline}; {lead}"
    return text(f"{metric}: {lead}{values}", HEADLINE)


def _leading(view: View) -> str:
    return next((d.metric for d in view.decisions if d.primary), choose_primary(view.metrics))


def _curves(view: View) -> list[str]:
    """The area, the knee and the end of the rise of each curve of a sweep."""
    if view.sweep is None:
        return []
    heads, rows = curve_table(view.sweep)
    table = lay_table(list(heads), [[code(first), *map(text, cells)] for first, *cells in rows[:ROWS]])
    more = f"\n\nand {plural(len(rows) - ROWS, 'more curve')}" if len(rows) > ROWS else ""
    return [f"{table}{more}\n\n{text(LEGEND, SENTENCE)}"]


def _systems(view: View) -> str:
    """Every metric of every system with its interval, the best in bold; many metrics are rows, few are columns."""
    columns = []
    for m in view.metrics:
        best = best_runs(m, [s.run for s in view.systems])
        cells = [
            _value(m, s.run.intervals[m], bold=i in best) if m in s.run.values else "–"
            for i, s in enumerate(view.systems)
        ]
        columns.append([code(m), *cells])
    if len(columns) > METRICS:
        return lay_table(["metric", *(text(s.label) for s in view.systems)], columns)
    head, *rows = zip(["system", *(text(s.label) for s in view.systems)], *columns, strict=True)
    return lay_table(list(head), [list(row) for row in rows])


def _judged(view: View) -> list[str]:
    """Figures by the gold alone, with a judge's grades, and corrected, side by side."""
    judged = describe_judged(view.result, {"none": view.decisions, **view.decisions_by_judge})
    if judged is None:
        return []
    last = [_judged_table(judged.calibration, text)] if judged.calibration is not None else []
    return [*(_judged_table(section, code) for section in judged.sections), _bullets(judged.lines), *last]


def _judged_table(section: JudgedSection, name: Callable[[str], str]) -> str:
    rows = [[name(first), *(text(str(cell)) for cell in cells)] for first, cells in section.rows]
    return f"**{text(section.title)}**\n\n{lay_table(list(section.heads), rows)}\n\n{_bullets(section.lines)}".strip()


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {text(words, 2 * SENTENCE)}" for words in lines)


def _value(metric: str, interval: Interval, *, bold: bool = False) -> str:
    one = estimate_figure(metric, interval)
    value = f"**{text(one.text)}**" if bold else text(one.text)
    return f"{value} {text(one.interval)}".rstrip()


def _changes(view: View) -> list[str]:
    """Every difference of each candidate, significant or not: over all queries, then by segment."""
    out = []
    for candidate in dict.fromkeys(d.candidate for d in view.decisions):
        rows = [d for d in view.decisions if d.candidate == candidate]
        title = f"**{text(candidate)} against {text(rows[0].baseline)}**"
        whole = [[code(d.metric), *_change_cells(d, view.shared_levels(d))] for d in rows if d.segment is None]
        out.append(f"{title}\n\n" + lay_table(["metric", *_CHANGE], whole))
        parts = [d for d in rows if d.segment]
        if parts:
            more = f"\n\nand {len(parts) - ROWS} more rows" if len(parts) > ROWS else ""
            pooled, contrasts = (any(one(d) for d in parts[:ROWS]) for one in (_pooled, _contrast))
            table = [
                [
                    *(text(segment_text(d.segment)), code(d.metric), *_change_cells(d)),
                    *([_pooled(d)] if pooled else []),
                    *([_contrast(d)] if contrasts else []),
                ]
                for d in parts[:ROWS]
            ]
            head = ["segment", "metric", *_CHANGE]
            head += [name for name, there in (("pooled Δ", pooled), ("against the other segments", contrasts)) if there]
            out.append(f"{title}, by segment\n\n" + lay_table(head, table) + more)
    return out


_CHANGE = ["Δ", "p adj.", "won/tied/lost", "n"]


def _change_cells(row: Decision, shared: SharedLevels | None = None) -> list[str]:
    p = TOO_FEW if row.small else text(row.p_adjusted_text)
    return [_change(row, shared), p, f"{row.wins}/{row.ties}/{row.losses}", f"{row.n:,}"]


def _change(row: Decision, shared: SharedLevels | None) -> str:
    """Δ, with the levels that it is the difference of where the table shows others."""
    return "; ".join(text(str(part)) for part in (row.figure, shared) if part is not None)


def _pooled(row: Decision) -> str:
    return "" if row.pooled is None else text(str(row.pooled_figure))


def _contrast(row: Decision) -> str:
    return text(row.contrast)


def _values_by_segment(view: View) -> list[str]:
    """The values in every segment: all metrics of a single system, the leading one of several."""
    segments = view.systems[0].run.segments
    if not segments:
        return []
    metric = _leading(view)
    columns = (
        [(m, view.systems[0]) for m in view.metrics] if len(view.systems) == 1 else [(metric, s) for s in view.systems]
    )
    rows = []
    pooled = len(view.systems) == 1 and any(metric in s.pooled for s in segments[:ROWS])
    for i, segment in enumerate(segments[:ROWS]):
        own = [(m, s.run.segments[i].metrics if i < len(s.run.segments) else {}) for m, s in columns]
        cells = [_value(m, metrics[m]) if m in metrics else "–" for m, metrics in own]
        if pooled:
            cells.append(_value(metric, segment.pooled[metric]) if metric in segment.pooled else "")
        mark = f" {FEW_MARK}" if metric in segment.too_few else ""
        rows.append([text(segment_text(segment.by)) + mark, f"{segment.metrics[metric].n:,}", *cells])
    head = [code(m) for m, _ in columns] if len(view.systems) == 1 else [text(s.label) for _, s in columns]
    head += [f"{code(metric)}, pooled"] if pooled else []
    title = "**By segment**" if len(view.systems) == 1 else f"**{code(metric)} by segment**"
    more = f"\n\nand {len(segments) - ROWS} more segments" if len(segments) > ROWS else ""
    few = any(metric in s.too_few for s in segments[:ROWS])
    legend = f"\n\n{describe_few(view.systems[0].run.sampling.minimum)}" if few else ""
    return [f"{title}\n\n" + lay_table(["segment", "n", *head], rows) + more + legend]


def _statements(view: View) -> list[str]:
    """What a comparison decides over all queries, the primary metric first, and what p was adjusted over."""
    rows = [d for d in view.decisions if d.segment is None]
    if view.verdict or not rows:
        return []
    leading = [d for d in rows if d.primary]
    rows = leading + [d for d in rows if not d.primary]
    most = max(GATES, len(leading))
    lines = [f"- {text(d.statement if len(leading) == 1 else d.full_statement, STATEMENT)}" for d in rows[:most]]
    more = [f"- and {len(rows) - most} more, in the tables above"] if len(rows) > most else []
    return ["\n".join(lines + more), text(describe_families(view.decisions), STATEMENT)]


def _remarks(view: View) -> list[str]:
    """What to know of the data before believing the figures, one item per note: quoted lines would flow together."""
    lines: list[str] = []
    rest = room = 0
    for remark in [*view.remarks, *(() if view.verdict else (Remark(note, False) for note in view.notes))]:
        line = f"> - {text(remark.text, SENTENCE)}"
        room += len(line)
        if room <= NOTES or remark.serious or remark.of_gate:
            lines.append(line)
        else:
            rest += 1
    return ["\n".join([*lines, *([f"> - and {plural(rest, 'more note')}"] if rest else [])])] if lines else []


def _fitted(first: list[str], parts: list[str], last: list[str], most: int) -> str:
    """All parts, or as many of the first ones as fit into so many characters."""
    while True:
        whole = "\n\n".join([*first, *parts, *last])
        if len(whole) <= most or not parts:
            return whole
        parts = parts[:-1]


def text(words: str, most: int = NAME) -> str:
    """Words that Markdown shows as they are: no markup, no HTML, no mention, no link, on one line."""
    flat = cut(words, most).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("$", "&#36;")
    flat = re.sub(r"([\\`*_{}\[\]|~])", r"\\\1", flat)
    flat = re.sub(r"^([-+=])", r"\\\1", re.sub(r"^(\d+)([.)])(?=\s|$)", r"\1\\\2", flat))
    # What GitHub links although it is no markup: mentions and addresses (but not ndcg@10), issues, pages.
    flat = re.sub(r"(?<!\w)@|@(?!\d+(?![\w.]))", f"@{BREAK}", flat)
    flat = re.sub(r"(?<!&)#", f"\\\\#{BREAK}", flat)
    return re.sub(r"\b(www)(?=\.)|:(?=//)", lambda m: m[0] + BREAK, flat, flags=re.IGNORECASE)


def cut(words: str, most: int) -> str:
    """The words on one line, and not more of them than a reader reads."""
    flat = plain(words)
    if len(flat) <= most:
        return flat
    head, _, last = flat[:most].rpartition(" ")  # between words, unless one is very long
    return (head.rstrip(",;:") if head and len(last) <= most // 2 else flat[: most - 1]) + "…"


def code(words: str, most: int = NAME) -> str:
    """An id or a gate as code, whatever is in it."""
    flat = cut(words, most) or " "
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", flat)), default=0))
    gap = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{gap}{flat}{gap}{fence}"


def _link(link: str | None) -> str:
    """An address of the web that cannot end the link early; empty for anything else."""
    if link is None or not re.match(r"https?://", link, re.IGNORECASE):
        return ""
    return quote(link, safe="%/:?#@!$&'*+,;=~")


def lay_table(head: list[str], rows: list[list[str]]) -> str:
    """A table whose first column holds names, and the others figures."""
    aligned = [":---", *("---:" for _ in head[1:])]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, aligned, *rows))


def _metrics(view: View) -> str:
    """At most five metrics, those of the gates first: each run's value, and what changed against the baseline."""
    first = [r.gate.metric for r in view.gate_rows if r.judged.outcome != "pass" and r.gate.level == "error"]
    names = list(dict.fromkeys([*first, *(r.gate.metric for r in view.gate_rows), PRIMARY, *view.metrics]))
    names = [n for n in names if n in view.metrics]
    others = len(names) - METRICS
    systems, base = view.candidates[:RUNS], view.baseline
    rows = []
    for name in names[:METRICS]:
        cells = [code(name)]
        if base is not None:
            cells.append(figure(name, base.run.mean[name]).text if name in base.run.values else "–")
        for system in systems:
            value, decision = estimate_figure(name, system.run.intervals[name]), view.decision(system.name, name)
            delta = _change(decision, view.shared_levels(decision)) if decision is not None else text(value.interval)
            cells += [value.text, delta]
        rows.append(cells)
    level = view.result.runs[0].sampling.level
    what = "Δ" if view.decisions else ""
    head = ["metric", *([text(base.label)] if base is not None else [])]
    for system in systems:
        head += [text(system.name), f"{what} [{level}]".strip() if level else what]
    hidden = [plural(others, "more metric")] if others > 0 else []
    if len(view.candidates) > RUNS:
        hidden.append(plural(len(view.candidates) - RUNS, "more run"))
    return lay_table(head, rows) + (f"\n\nand {' and '.join(hidden)}" if hidden else "")


def _readings(view: View) -> str:
    """What the field makes of the values."""
    systems = view.candidates or view.systems
    lines = [(s.name, readings_text(s.run)) for s in systems[:RUNS]]
    name = "" if len(systems) == 1 else ", {}"
    parts = [f"Rules of thumb{name.format(text(run))}: {text(words, 2 * SENTENCE)}" for run, words in lines if words]
    rest = len(systems) - RUNS
    more = [f"Rules of thumb of {plural(rest, 'more run')} are not shown."] if parts and rest > 0 else []
    return "\n\n".join([*parts, *more])


def _gates(view: View) -> str:
    """What does not pass, one line each; what passes in one line."""
    if not view.gates:
        return ""
    good = [g for g in view.gates if g.outcome == "pass"]
    bad = [g for g in view.gates if g.outcome != "pass"]
    lines = []
    for group in bad[:GATES]:
        first = next(r for r in group.rows if r.judged.outcome == group.outcome)
        count = sum(r.judged.outcome == group.outcome for r in group.rows)
        several = len(group.rows) > 1
        detail = f": {tally_text(count, len(group.rows), group.outcome) if several else _evidence(first)}"
        detail += "".join(f"; {text(note, SENTENCE)}" for note in [note_pooling(group.rows)] if note)
        mark = "!" if group.warning else mark_of(group.outcome)
        lines.append(
            f"- {mark} {text(group.run)}: {code(label_gate(group.gate), 100)}{_level(warning=group.warning)}{detail}"
        )
    if len(bad) > GATES:
        lines.append(f"- and {len(bad) - GATES} more that do not pass")
    several = len({g.run for g in view.gates}) > 1
    for run in dict.fromkeys(g.run if several else "" for g in good):
        mine = [g for g in good if g.run == run or not several]
        names = ", ".join(map(_passed, mine[:GATES])) + (", …" if len(mine) > GATES else "")
        warn = sum(g.gate.level == "warn" for g in mine)
        who = f"{text(run)}: " if several else ""
        lines.append(f"- {mark_of('pass')} {who}{len(mine)} pass{f' ({warn} at level warn)' if warn else ''}: {names}")
    return "**Gates**\n\n" + "\n".join(lines)


def _level(*, warning: bool) -> str:
    """What marks a gate that decides nothing of the verdict."""
    return " *(warning)*" if warning else ""


def _passed(group: GateGroup) -> str:
    """A gate that passes, with what its figures rest on where they do not show it."""
    notes = dict.fromkeys((note_pooling(group.rows), _basis(group), *map(advise, group.rows)))
    note = "; ".join(filter(None, notes))
    return code(label_gate(group.gate), 100) + (f" ({text(note, SENTENCE)})" if note else "")


def _basis(group: GateGroup) -> str:
    """What the figure of a gate rests on, where there is a judge."""
    basis = group.rows[0].basis
    return WORDS[basis] if basis is not None else ""


def _segments(view: View) -> str:
    """The first segments that fail a gate."""
    rows = [r for r in view.gate_rows if r.segment and r.judged.outcome == "fail"]
    lines = [
        f"- {text(r.run)}, {text(r.where)}: {code(label_gate(r.gate), 100)}{_level(warning=r.gate.level == 'warn')}: "
        f"{_evidence(r)}"
        for r in rows[:SEGMENTS]
    ]
    more = [f"- and {len(rows) - SEGMENTS} more"] if len(rows) > SEGMENTS else []
    return "**Segments that fail**\n\n" + "\n".join(lines + more) if lines else ""


def _falls(view: View) -> str:
    """What got significantly worse, gated or not."""
    rows = view.falls if view.verdict else ()
    lines = [f"- {text(row.statement, STATEMENT)}" for row in rows[:SEGMENTS]]
    more = [f"- and {len(rows) - SEGMENTS} more"] if len(rows) > SEGMENTS else []
    return "**Significantly worse than the baseline**\n\n" + "\n".join(lines + more) if lines else ""


def _evidence(row: JudgedGate) -> str:
    """What was measured, and what would settle it."""
    one = figure_of(row)
    if not one.defined:
        return text(row.judged.why, SENTENCE)
    value = f"{text(value_text(row))} {text(one.interval)}".rstrip()
    return "; ".join([f"{value}, {queries_text(row.found.n)}", *(text(note, SENTENCE) for note in notes_of(row))])


def _components(view: View) -> list[str]:
    """The parts of each run's pipeline, folded away: one line each."""
    out = []
    systems = view.candidates or view.systems
    for system in systems[:RUNS]:
        if system.run.components is not None and (parts := short(system.run.components)):
            lines = "\n".join(f"- {text(line, SENTENCE)}" for line in parts)
            title = f"Components of {text(system.name)}" if len(systems) > 1 else "Components"
            out.append(f"<details><summary>{title}</summary>\n\n{lines}\n\n</details>")
    return out


def _queries(view: View) -> str:
    """The queries that lost most against the baseline, or that score lowest without one."""
    worst = view.worst_queries
    if worst is None:
        return ""
    what = "Queries that lost most in" if worst.compared else "Lowest"
    title = f"**{what} {code(worst.metric)}**"
    who = f", {text(worst.run)}" if len(view.candidates or view.systems) > 1 else ""
    if worst.left_out:
        who += f", leaving out {queries_text(worst.left_out)} without a relevant doc in the gold"
    lines = [f"- {code(q.query_id)}{f' {text(q.text, 100)}' if q.text else ''}: {q.change}" for q in worst.rows]
    return f"{title}{who}\n\n" + "\n".join(lines)
