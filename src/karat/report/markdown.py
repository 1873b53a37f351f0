"""A check as a comment for a pull request: the verdict in the first line, and little else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from karat.gates.wording import advise, figure_of, label_gate, note_reference, value_text
from karat.metrics.grammar import PRIMARY, parse
from karat.report.terminal.check import grouped, scope, worst
from karat.report.terminal.components import short
from karat.report.words import ICONS, MARKS, NO_DECISION
from karat.results.figures import SAME, change_text, difference_figure, estimate_figure, figure, percent_text
from karat.results.words import plain, queries_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.gates.evidence import Judgement
    from karat.verbs.check import Check

BREAK = "\u200b"
"""A space of no width: what would be linked is not, and reads the same."""
METRICS, RUNS, GATES, SEGMENTS, QUERIES, NOTES = 5, 4, 10, 5, 3, 4
"""The most that a comment shows of each."""
NAME, SENTENCE, COMMENT = 60, 240, 4_900
"""The most characters of a name, of a sentence, and of the comment."""


def rendered(check: Check) -> str:
    """The comment."""
    first = [f"## {ICONS[check.verdict]} {check.verdict}: {text(check.why, SENTENCE)}", text(scope(check), SENTENCE)]
    if check.forced:
        told = "; ".join(map(str, check.forced))
        first.append(f"> **Forced**: compared although these differ: {text(told, SENTENCE)}")
    first += _remarks(check)
    parts = [_metrics(check), _gates(check), _segments(check), _falls(check), *_components(check), _queries(check)]
    if check.system:
        told = "; ".join(map(str, check.system))
        parts.append(f"Differs from the baseline: {text(told, SENTENCE)}")
    last = [f"[Full report]({link})"] if (link := _link(check.link)) else []
    return _fitted(first, [p for p in parts if p], last) + "\n"


def undecided(problems: Sequence[str]) -> str:
    """The comment where an error came before any verdict: nothing of an older one stays."""
    first, *rest = problems or ["an error"]
    listed = [f"- {text(line, SENTENCE)}" for line in rest[:GATES]]
    more = [f"- and {len(rest) - GATES} more"] if len(rest) > GATES else []
    parts = ["\n".join([*listed, *more])] if listed else []
    return _fitted([f"## {NO_DECISION} NOTHING WAS DECIDED: {text(first, SENTENCE)}"], parts, []) + "\n"


def _remarks(check: Check) -> list[str]:
    """What to know of the data before believing the verdict."""
    lines = [f"> note: {text(line, SENTENCE)}" for line, _ in check.remarks[:NOTES]]
    if len(check.remarks) > NOTES:
        lines.append(f"> and {len(check.remarks) - NOTES} more notes")
    return ["\n".join(lines)] if lines else []


def _fitted(first: list[str], parts: list[str], last: list[str]) -> str:
    """All parts, or as many of the first ones as a comment holds."""
    while True:
        whole = "\n\n".join([*first, *parts, *last])
        if len(whole) <= COMMENT or not parts:
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
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def code(words: str, most: int = NAME) -> str:
    """An id or a gate as code, whatever is in it."""
    flat = cut(words, most) or " "
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", flat)), default=0))
    gap = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{gap}{flat}{gap}{fence}"


def _link(link: str | None) -> str:
    """An address of the web that cannot end the link early; anything else is no link."""
    if link is None or not re.match(r"https?://", link, re.IGNORECASE):
        return ""
    return quote(link, safe="%/:?#@!$&'*+,;=~")


def _table(head: list[str], rows: list[list[str]]) -> str:
    aligned = [":---", *("---:" for _ in head[1:])]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, aligned, *rows))


def _metrics(check: Check) -> str:
    """At most five metrics, those of the gates first: each run's value, and what changed against the baseline."""
    open_ = [r.gate.metric for r in check.rows if r.judged.outcome != "pass" and r.gate.level == "error"]
    names = list(dict.fromkeys([*open_, *(r.gate.metric for r in check.rows), PRIMARY, *check.result.metrics]))
    names = [n for n in names if n in check.result.metrics][:METRICS]
    runs = check.candidates[:RUNS]
    level = percent_text(check.result.runs[0].sampling.confidence)
    base, rows = check.baseline, []
    for name in names:
        cells = [code(name)]
        if base is not None:
            cells.append(figure(name, base.mean[name]).text if name in base.values else "–")
        for run in runs:
            found = check.result[run].intervals[name]
            delta = next(
                (c for c in check.comparisons if c.candidate == run and c.metric == name and c.segment is None), None
            )
            value = estimate_figure(name, found)
            cells.append(value.text)
            if delta is None:
                cells.append(text(value.interval))
            else:
                cells.append(
                    text(str(difference_figure(name, delta.delta, delta.difference.low, delta.difference.high)))
                )
        rows.append(cells)
    what = "Δ" if check.comparisons else ""
    head = ["metric", *([text(check.baseline_name)] if base is not None else [])]
    for run in runs:
        head += [text(run), f"{what} [{level}]".strip()]
    more = f"\n\nand {len(check.candidates) - RUNS} more runs" if len(check.candidates) > RUNS else ""
    return _table(head, rows) + more


def _gates(check: Check) -> str:
    """What does not pass, one line each; what passes in one line."""
    groups = grouped(check)
    passed = [g for g in groups if worst(g[2]) == "pass"]
    open_ = [g for g in groups if worst(g[2]) != "pass"]
    lines = []
    for gate, run, rows in open_[:GATES]:
        outcome = worst(rows)
        warning = gate.level == "warn"
        level = " *(warning)*" if warning else ""
        first = next(r for r in rows if r.judged.outcome == outcome)
        count = sum(r.judged.outcome == outcome for r in rows)
        some = f": {count} of {len(rows)} segments {'fail' if outcome == 'fail' else 'undecided'}"
        detail = some if len(rows) > 1 else f": {_found(first)}"
        lines.append(
            f"- {'!' if warning else MARKS[outcome]} {text(run)}: {code(label_gate(gate), 100)}{level}{detail}"
        )
    if len(open_) > GATES:
        lines.append(f"- and {len(open_) - GATES} more that do not pass")
    if passed:
        texts = list(dict.fromkeys(label_gate(g[0]) for g in passed))
        named = ", ".join(map(code, texts[:GATES])) + (", …" if len(texts) > GATES else "")
        lines.append(f"- {MARKS['pass']} {len(passed)} pass: {named}")
    return "**Gates**\n\n" + "\n".join(lines)


def _segments(check: Check) -> str:
    """The first segments that fail."""
    failed = [r for r in check.rows if r.segment and r.judged.outcome == "fail"]
    listed = [f"- {_row(r)}" for r in failed[:SEGMENTS]]
    more = [f"- and {len(failed) - SEGMENTS} more"] if len(failed) > SEGMENTS else []
    return "**Segments that fail**\n\n" + "\n".join(listed + more) if listed else ""


def _falls(check: Check) -> str:
    """What got significantly worse, gated or not: metrics over all queries first, then segments."""
    rows = sorted(check.falls, key=lambda d: d.segment is not None)
    lines = [f"- {text(row.statement, SENTENCE)}" for row in rows[:SEGMENTS]]
    more = [f"- and {len(rows) - SEGMENTS} more"] if len(rows) > SEGMENTS else []
    return "**Significantly worse than the baseline**\n\n" + "\n".join(lines + more) if lines else ""


def _row(row: Judgement) -> str:
    return f"{text(row.run)}, {text(row.where)}: {code(row.gate.metric)} {_found(row)}"


def _found(row: Judgement) -> str:
    """What was found, and what would decide it."""
    value = row.found.estimate
    if value != value:
        return text(row.judged.why, SENTENCE)
    told = f"{text(value_text(row))} {text(figure_of(row).interval)}, {queries_text(row.found.n)}"
    return "; ".join([told, *(text(note, SENTENCE) for note in (note_reference(row), advise(row)) if note)])


def _components(check: Check) -> list[str]:
    """The parts of each run's pipeline, folded away: one line each."""
    out = []
    for name in check.candidates[:RUNS]:
        if told := short(check.result[name].components):
            lines = "\n".join(f"- {text(line, SENTENCE)}" for line in told)
            title = f"Components of {text(name)}" if len(check.candidates) > 1 else "Components"
            out.append(f"<details><summary>{title}</summary>\n\n{lines}\n\n</details>")
    return out


def _queries(check: Check) -> str:
    """The three queries that lost most against the baseline, or that score lowest without one."""
    run = check.result[check.candidates[0]]
    metric = PRIMARY if PRIMARY in run.values else check.rows[0].gate.metric
    rises = parse(metric).metric.higher_is_better is not False
    mine = run.per_query(metric)
    base = check.baseline.per_query(metric) if check.baseline and metric in check.baseline.values else None
    moved = {q: v - base[q] for q, v in mine.items() if q in base} if base is not None else mine
    defined = [(q, v) for q, v in moved.items() if v == v and (base is None or ((v < 0) == rises and abs(v) > SAME))]
    lowest = sorted(defined, key=lambda x: (x[1] if rises else -x[1], x[0]))[:QUERIES]
    if not lowest:
        return ""
    title = f"**Queries that lost most in {code(metric)}**" if base else f"**Lowest {code(metric)}**"
    who = f", {text(run.name)}" if len(check.candidates) > 1 else ""
    lines = []
    for q, v in lowest:
        words = check.result.texts.get(q, "")
        quoted = f" {text(words, 100)}" if words else ""
        change = change_text(metric, base[q], mine[q], short=True) if base is not None else figure(metric, v).short
        lines.append(f"- {code(q)}{quoted}: {change}")
    return f"{title}{who}\n\n" + "\n".join(lines)
