"""What the template writes itself, so that the page says what matters before any script has run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from karat.gates.language import parse_gate
from karat.metrics.grammar import PRIMARY, parse
from karat.model.policy import RELEVANT
from karat.report.html.data import DOC_TEXT, TOP, segment_name
from karat.report.html.fragments import findings, parts_of, stages_of
from karat.report.html.texts import cut, plain
from karat.report.terminal.evaluate import best_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ICONS = {"SHIP": "✓", "BLOCK": "✗", "INCONCLUSIVE": "?"}
MARKS = {"pass": "✓", "fail": "✗", "undecided": "?"}
ORDER = ("fail", "undecided", "pass")
TOLD = {"pass": "passes", "fail": "fails", "undecided": "is undecided"}
SENTENCE, WORD = 400, 80
"""Characters of the sentence under the verdict, and of a name in it."""
FEW = 3
"""Runs that stand side by side; of more, those that nobody chose are dimmed."""


COUNTED = {
    "missing": "queries without results",
    "without_gold": "queries without gold",
    "no_answer": "queries without answer",
    "empty_gold": "queries without relevant gold",
    "duplicates": "docs returned twice",
    "unjudged_at_10": "not judged in the top 10",
}


def shown(v: Mapping[str, Any]) -> dict[str, Any]:
    """Every part of the page that is not a chart or a list of queries."""
    compared = [c for c in v["comparisons"] if c["segment"] is None]
    deltas = list(dict.fromkeys(c["candidate"] for c in compared))
    gates, parts, told = _gates(v), parts_of(v["components"]), findings(v["diagnosis"])
    several = len(v["runs"]) > 1
    listed = bool(v["queries"]["lists"])
    sections = [
        ("verdict", "Verdict" if v["verdict"] else "Result", True),
        ("gates", "Gates", gates),
        ("change", "Change", v["comparisons"]),
        ("sweep", "Cutoff k", v["curves"]),
        ("metrics", "Metrics", True),
        ("segments", "Segments", v["segments"]),
        ("components", "Components", parts),
        ("diagnosis", "Diagnosis", told),
        ("misses", "Misses", listed),
        ("queries", "Queries", True),
    ]
    return {
        "title": _title(v),
        "tone": v["verdict"] or "plain",
        "icon": ICONS.get(v["verdict"], ""),
        "sections": [(place, label) for place, label, there in sections if there],
        "headline": _headline(v),
        "sentence": _sentence(v, compared),
        "scope": _scope(v),
        "figures": _figures(v),
        "tally": _tally(gates),
        "gates": gates,
        "many": len({g["run"] for g in v["gates"]}) > 1,
        "several": several,
        "listed": listed,
        "crowd": len(v["runs"]) > FEW,
        "facts": _facts(v),
        "deltas": deltas,
        "run_facts": [(name, values) for name, values in _of_runs(v).items() if len(set(values)) > 1],
        "metrics": [_metric(m, v, compared, deltas) for m in v["metrics"]],
        "stages": stages_of(v["components"]),
        "parts": parts,
        "findings": told,
        "footer": _footer(v),
    }


def _title(v: Mapping[str, Any]) -> str:
    about = cut(plain(v["dataset"]), WORD) or "retrieval"
    return f"{v['verdict']}: {about} · Karat" if v["verdict"] else f"{about} · Karat"


def number(name: str, value: float | None, *, sign: bool = False) -> str:
    """A value as a reader wants it, with its unit."""
    if value is None:
        return "–"
    unit = parse(name).metric.unit
    text = f"{abs(value):.{1 if unit else 4}f}{' ' + unit if unit else ''}"
    return f"{'−' if value < 0 else '+' if sign else ''}{text}"


def span(name: str, ends: Any, *, sign: bool = False) -> str:
    """The ends of an interval."""
    return " to ".join(number(name, e, sign=sign) for e in ends) if ends else ""


def exact(value: float | None) -> str:
    """A number with all its digits, as the JSON document has it."""
    return "" if value is None else repr(value)


def _headline(v: Mapping[str, Any]) -> str:
    names = [plain(r["name"]) for r in v["runs"]]
    if v["base"] is not None:
        chosen = [plain(n) for n in v["candidates"]]
        return f"{_listed(chosen)} against {cut(plain(v['base']), WORD)}"
    return _listed(names)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(cut(n, WORD) for n in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _sentence(v: Mapping[str, Any], compared: list[Mapping[str, Any]]) -> str:
    if v["why"]:
        why = cut(plain(v["why"]), SENTENCE)
        named = any(why.startswith(plain(r["name"])) for r in v["runs"])
        return (why[:1] if named else why[:1].upper()) + why[1:] + ("" if why.endswith((".", "…")) else ".")
    name = v["primary"]
    rows = {c["candidate"]: c for c in compared if c["metric"] == name and c["delta"] is not None}
    row = next((rows[run] for run in v["candidates"] if run in rows), None)  # of the run that the figures are of
    if row is None:
        values = next(m for m in v["metrics"] if m["name"] == name)["values"]
        return (
            "; ".join(
                f"{plain(run)} reaches {name} {number(name, x['mean'])}"
                + (f" ({span(name, x['ci'])})" if x["ci"] else "")
                for run, x in list(values.items())[:FEW]
            )
            + "."
        )
    rises = parse(name).metric.higher_is_better is not False
    word = "better" if (row["delta"] > 0) == rises else "worse"
    base, run = plain(v["base"] or "the baseline"), plain(row["candidate"])
    ends = f" ({span(name, row['ci'], sign=True)})" if row["ci"] else ""
    change = f"{name} {number(name, row['delta'], sign=True)}{ends}"
    queries = "1 query" if row["n"] == 1 else f"{row['n']:,} queries"
    if row["significant"]:
        return f"{run} is {word} than {base}: {change}."
    return f"{run} and {base} cannot be told apart with {queries}: {change}."


def _scope(v: Mapping[str, Any]) -> str:
    queries = max((r["counts"]["queries"] for r in v["runs"]), default=0)
    runs = f"{len(v['runs'])} runs" if len(v["runs"]) > 2 else ""
    about = _headline(v) if v["verdict"] else ""
    sure = f"{v['confidence']:.0%} intervals"
    return " · ".join(
        filter(
            None,
            (cut(plain(v["dataset"]), WORD), about, "1 query" if queries == 1 else f"{queries:,} queries", runs, sure),
        )
    )


def _figures(v: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The figures that matter most, of the run that is judged, each with its change."""
    run = v["candidates"][0]
    gated = [g["metric"] for g in v["gates"]]
    names = list(dict.fromkeys([v["primary"], *gated, PRIMARY, *(m["name"] for m in v["metrics"])]))
    known = {m["name"]: m for m in v["metrics"]}
    out = []
    for name in [n for n in names if n in known][:3]:
        value = known[name]["values"].get(run)
        row = next(
            (c for c in v["comparisons"] if c["segment"] is None and c["metric"] == name and c["candidate"] == run),
            None,
        )
        if value:
            change = {"delta": number(name, row["delta"], sign=True), "tone": _tone(row)} if row else {"delta": ""}
            out.append(
                {
                    "name": name,
                    "run": run,
                    "value": number(name, value["mean"]),
                    "range": span(name, value["ci"]),
                    "tells": known[name]["tells"],
                    "gate": _missed(v, name, run),
                    **change,
                }
            )
    return out


def _missed(v: Mapping[str, Any], name: str, run: str) -> str:
    """The gate over all queries that this figure fails: `✗ >= 0.65`; empty where there is none."""
    for g in v["gates"]:
        mine = g["metric"] == name and g["run"] == run and not g["segment"] and "against" not in g
        if mine and g["outcome"] == "fail" and g["level"] != "warn":
            return f"✗ {g['gate'].removeprefix(name).strip()}"
    return ""


def _tone(row: Mapping[str, Any]) -> str:
    """Which way a significant change goes; nothing else has a colour."""
    return {"better": "up", "worse": "down"}.get(row["outcome"], "")


def _tally(gates: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """How many gates fail, are undecided and pass."""
    words = {
        "fail": ("gate fails", "gates fail"),
        "undecided": ("is undecided", "are undecided"),
        "pass": ("passes", "pass"),
    }
    counts = {o: sum(g["outcome"] == o and g["level"] != "warn" for g in gates) for o in ORDER}
    warned = sum(g["level"] == "warn" and g["outcome"] != "pass" for g in gates)
    told = [(o, f"{n} {words[o][n != 1]}") for o, n in counts.items() if n]
    return told + ([("undecided", f"{warned} warning{'s' if warned > 1 else ''}")] if warned else [])


def _gates(v: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Gates, the worst first; one for every segment is one row that folds out."""
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for g in v["gates"]:
        groups.setdefault((g["run"], g["gate"], g["name"]), []).append(g)
    out = []
    for rows in groups.values():
        rows = sorted(rows, key=lambda g: ORDER.index(g["outcome"]))
        if len(rows) == 1:
            out.append(_gate(rows[0]))
            continue
        counts = [(o, sum(g["outcome"] == o for g in rows)) for o in ORDER]
        said = ", ".join(f"{n} {o if o == 'undecided' else TOLD[o] if n == 1 else o}" for o, n in counts if n)
        out.append(
            {
                **_gate(rows[0]),
                "where": "",
                "told": f"Of {len(rows)} segments: {said}.",
                "rows": [_gate(g) for g in rows],
            }
        )
    return sorted(out, key=lambda g: (g["level"] == "warn", ORDER.index(g["outcome"])))


def _gate(g: Mapping[str, Any]) -> dict[str, Any]:
    name = g["metric"]
    compared = "against" in g
    told = {"fail": "Fails: the whole interval is on the wrong side."}.get(g["outcome"], "")
    if g["outcome"] == "undecided":
        few = "not judged alone" in g["why"]
        said = (
            "At least {:,} more queries before it can be judged."
            if few
            else "About {:,} more queries like these would decide it."
        )
        more = " " + said.format(g["more_queries"]) if g["more_queries"] else ""
        told = f"Undecided: {g['why']}.{more}"
    elif "mean" in g["why"]:
        told = f"{'Passes' if g['outcome'] == 'pass' else 'Fails'}: {g['why']}."
    every = g["segment"] and parse_gate(g["gate"]).every
    return {
        **g,
        "mark": MARKS[g["outcome"]],
        "where": segment_name(g["segment"]) if every else "",
        "exact": exact(g["value"]),
        "told": told,
        "bar": _bar(g),
        "rows": [],
        "value": ("Δ " if compared else "") + number(name, g["value"], sign=compared),
        "range": span(name, g["ci"], sign=compared),
        "limit": f"{g['threshold']:g}".replace("-", "−"),
    }


def _bar(g: Mapping[str, Any]) -> dict[str, Any] | None:
    """The interval and the threshold on one line: places on a strip that is 180 wide."""
    if not g["ci"] or g["value"] is None or None in g["ci"]:
        return None
    low, high, at = g["ci"][0], g["ci"][1], g["threshold"]
    left, right = min(low, at), max(high, at)
    pad = (right - left) * 0.12 or 0.01

    def x(value: float) -> float:
        return float(round(4 + 172 * (value - left + pad) / (right - left + 2 * pad), 1))

    start, end = (x(at), 176.0) if g["op"].startswith(">") else (4.0, x(at))
    return {
        "low": x(low),
        "high": x(high),
        "value": x(g["value"]),
        "at": x(at),
        "start": start,
        "width": round(max(end - start, 0), 1),
    }


def _metric(m: Mapping[str, Any], v: Mapping[str, Any], compared: list[Mapping[str, Any]], deltas: list[str]) -> Any:
    name = m["name"]
    values = [m["values"].get(r["name"]) for r in v["runs"]]
    points = [x["mean"] if x and x["mean"] is not None else float("nan") for x in values]
    best = best_of(name, points) if len(points) > 1 else set()
    most = max((x["n"] for x in values if x), default=0)
    cells = [
        {
            "run": r["name"],
            "value": number(name, x["mean"]) if x else "–",
            "exact": exact(x["mean"]) if x else "",
            "range": span(name, x["ci"]) + _fewer(x["n"], most) if x else "",
            "best": i in best,
        }
        for i, (r, x) in enumerate(zip(v["runs"], values, strict=True))
    ]
    changed = []
    for run in deltas:
        c = next((c for c in compared if c["candidate"] == run and c["metric"] == name), None)
        changed.append(
            {
                "run": run,
                "value": number(name, c["delta"], sign=True) if c else "–",
                "exact": exact(c["delta"]) if c else "",
                "range": span(name, c["ci"], sign=True) + _fewer(c["n"], most) if c else "",
                "tone": _tone(c) if c and c["delta"] is not None else "",
            }
        )
    return {**m, "cells": cells, "deltas": changed, "n": most}


def _fewer(n: int, most: int) -> str:
    """Said where a difference is over fewer queries than a run has values for."""
    return f", n = {n:,}" if n < most else ""


def _facts(v: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Fingerprints, conventions, counts, and what is known of the systems."""
    out = [(f"fingerprint of {name}", value) for name, value in v["fingerprints"].items()]
    out += [(name.replace("_", " "), str(value)) for name, value in v["conventions"].items()]
    out.append(("ties", "by doc id, falling"))
    out.append(("relevant", f"grade {RELEVANT:g} and above, where a metric's name says no other (rel=2)"))
    if told := v["intervals"]:
        resamples = f"{told['resamples']:,} resamples, seed {told['seed']}"
        out.append(("intervals", f"{told['confidence']:.0%}, {told['method']}, {resamples}"))
    out += [(name, values[0]) for name, values in _of_runs(v).items() if len(set(values)) == 1]
    out += [("note", str(note)) for note in v["notes"]]
    out += [(f"differs: {d['what']}", f"{d['here']} here, {d['baseline']} in the baseline") for d in v["differences"]]
    return out


def _of_runs(v: Mapping[str, Any]) -> dict[str, list[str]]:
    """What is known of the systems, by name: a value for each run."""
    each: list[dict[str, str]] = []
    lacking = {k for run in v["runs"] for k, c in run["counts"].items() if c and k != "queries"}
    for run in v["runs"]:
        mine = {name.replace("_", " "): _fact(name, value) for name, value in run["facts"].items()}
        mine |= {COUNTED.get(k, k.replace("_", " ")): f"{c:,}" for k, c in run["counts"].items() if k in lacking}
        if run["notes"]:
            mine["notes"] = "; ".join(run["notes"])
        each.append(mine)
    names = dict.fromkeys(name for mine in each for name in mine)
    return {name: [mine.get(name, "") for mine in each] for name in names}


def _fact(name: str, value: Any) -> str:
    if name == "index_storage" and isinstance(value, (int, float)):
        return f"{value / 1e6:,.1f} MB" if value >= 1e5 else f"{value / 1e3:,.0f} kB"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _footer(v: Mapping[str, Any]) -> str:
    from karat import __version__

    held = len(v["docs"]["texts"])
    texts = f" Texts of {held:,} docs, cut to {DOC_TEXT} characters each." if held else ""
    lists = f" The first {TOP} docs of each list." if v["queries"]["lists"] else ""
    return f"Made by Karat {__version__}. One file that makes no requests and works offline.{lists}{texts}"
