"""The page: a template, a style, a script, the chart library and the data, all in one file."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from karat.cache import cache_folder
from karat.errors import MissingPackage
from karat.gates.language import parse_gate
from karat.metrics.grammar import PRIMARY, parse
from karat.output import write_atomically
from karat.report.html.view import view_of

if TYPE_CHECKING:
    from collections.abc import Mapping

ASSETS = os.path.join(os.path.dirname(__file__), "assets")
ICONS = {"SHIP": "✓", "BLOCK": "✗", "INCONCLUSIVE": "?"}
MARKS = {"pass": "✓", "fail": "✗", "undecided": "?"}
ORDER = ("fail", "undecided", "pass")
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; script-src "
)


def write_page(document: Mapping[str, Any], path: str, *, docs: Mapping[str, str] | None = None) -> None:
    """Write the report of a saved document as one HTML file."""
    write_atomically(path, rendered(document, docs=docs).encode("utf-8", "replace"))


def rendered(document: Mapping[str, Any], *, docs: Mapping[str, str] | None = None) -> str:
    """The page as text."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise MissingPackage("a report needs jinja2; install it with: pip install 'karat[report]'") from None
    view = view_of(document, docs=docs)
    library, script = _library(), _asset("page.js")
    data = _embedded(view)
    # Scripts are allowed by their hash alone: nothing that slips into the page could run.
    hashes = " ".join(f"'sha256-{_hash(text)}'" for text in (data, library, script))
    environment = Environment(loader=FileSystemLoader(ASSETS), autoescape=True, undefined=StrictUndefined)
    return environment.get_template("page.html").render(
        v=view, policy=POLICY + hashes, style=Markup(_asset("page.css")), data=Markup(data), library=Markup(library),
        script=Markup(script), **_shown(view),
    )  # fmt: skip


def _asset(name: str) -> str:
    with open(os.path.join(ASSETS, name), encoding="utf-8") as file:
        return file.read()


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8", "replace")).digest()).decode()


def _embedded(view: Mapping[str, Any]) -> str:
    """JSON that cannot end its script element, nor open a comment in it."""
    text = json.dumps(view, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


@lru_cache(maxsize=1)
def _library() -> str:
    """Vega-Lite with Vega and vega-embed, as the installed package bundles them; kept, since that takes seconds."""
    try:
        import vl_convert
    except ImportError:
        raise MissingPackage("charts need vl-convert-python; install it with: pip install 'karat[report]'") from None
    from importlib.metadata import version

    kept = os.path.join(cache_folder(), f"vega-{version('vl-convert-python')}.js")
    if os.path.exists(kept):
        with open(kept, encoding="utf-8") as file:
            return file.read()
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed=vegaEmbed;")
    bundle = bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    bundle = "(()=>{" + bundle + "\n})();"
    try:
        os.makedirs(cache_folder(), exist_ok=True)
        write_atomically(kept, bundle.encode())
    except (OSError, ValueError):
        pass
    return bundle


def _shown(v: Mapping[str, Any]) -> dict[str, Any]:
    """What the template writes itself, so that the page says what matters without a script."""
    gates = sorted(v["gates"], key=lambda g: (g["level"] == "warn", ORDER.index(g["outcome"])))
    compared = [c for c in v["comparisons"] if c["segment"] is None]
    deltas = list(dict.fromkeys(c["candidate"] for c in compared))
    sections = [
        ("verdict", "Verdict" if v["verdict"] else "Result"), *([("gates", "Gates")] if gates else []),
        *([("sweep", "k")] if v["curves"] else []), ("metrics", "Metrics"),
        *([("segments", "Segments")] if v["segments"] else []),
        *([("diagnosis", "Diagnosis")] if v["diagnosis"] else []), ("queries", "Queries"),
    ]  # fmt: skip
    return {
        "title": f"{v['verdict'] + ': ' if v['verdict'] else ''}{v['dataset'] or 'retrieval'} · Karat",
        "tone": v["verdict"] or "plain", "icon": ICONS.get(v["verdict"], ""), "sections": sections,
        "headline": _headline(v), "sentence": _sentence(v, compared), "scope": _scope(v), "figures": _figures(v),
        "gates": [_gate(g) for g in gates], "many": len({g["run"] for g in gates}) > 1,
        "forest": bool(v["comparisons"]), "movers": len(v["runs"]) > 1, "facts": _facts(v), "deltas": deltas,
        "metrics": [_metric(m, v, compared, deltas) for m in v["metrics"]], "funnels": _funnels(v),
        "footer": _footer(v),
    }  # fmt: skip


def number(name: str, value: float | None, *, sign: bool = False) -> str:
    """A value as a reader wants it, with its unit."""
    if value is None:
        return "–"
    unit = parse(name).metric.unit
    text = f"{abs(value):.{1 if unit else 4}f}{' ' + unit if unit else ''}"
    return f"{'−' if value < 0 else '+' if sign else ''}{text}"


def span(name: str, ends: Any, *, sign: bool = False) -> str:
    """The ends of an interval."""
    if not ends:
        return ""
    return " to ".join(number(name, e, sign=sign) for e in ends)


def _headline(v: Mapping[str, Any]) -> str:
    names = [r["name"] for r in v["runs"]]
    if v["base"] is not None:
        return f"{', '.join(n for n in v['candidates'] if n != v['base'])} against {v['base']}"
    return " · ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _sentence(v: Mapping[str, Any], compared: list[Mapping[str, Any]]) -> str:
    if v["why"]:
        return str(v["why"])[:1].upper() + str(v["why"])[1:] + "."
    primary = next((c for c in compared if c["metric"] == v["primary"]), None)
    if primary is None:
        value = next(m for m in v["metrics"] if m["name"] == v["primary"])["values"]
        best = max(value, key=lambda r: value[r]["mean"] if value[r]["mean"] is not None else -1)
        return f"{best} reaches {v['primary']} {number(v['primary'], value[best]['mean'])}."
    rises = parse(v["primary"]).metric.higher_is_better is not False
    word = "better" if (primary["delta"] > 0) == rises else "worse"
    name = v["primary"]
    change = f"{name} {number(name, primary['delta'], sign=True)} ({span(name, primary['ci'], sign=True)})"
    if primary["significant"]:
        return f"{primary['candidate']} is {word} than {v['base']}: {change}."
    return f"{primary['candidate']} and {v['base']} cannot be told apart with {primary['n']} queries: {change}."


def _scope(v: Mapping[str, Any]) -> str:
    queries = max((r["counts"]["queries"] for r in v["runs"]), default=0)
    runs = f"{len(v['runs'])} runs" if len(v["runs"]) > 1 else v["runs"][0]["name"]
    return " · ".join(filter(None, (v["dataset"], f"{queries:,} queries", runs, f"{v['confidence']:.0%} intervals")))


def _figures(v: Mapping[str, Any]) -> list[dict[str, str]]:
    """The three figures that matter most, of the run that is judged."""
    run = next((c for c in v["candidates"] if c != v["base"]), v["runs"][0]["name"])
    gated = [g["metric"] for g in v["gates"]]
    names = list(dict.fromkeys([v["primary"], *gated, PRIMARY, *(m["name"] for m in v["metrics"])]))
    out = []
    for name in [n for n in names if any(m["name"] == n for m in v["metrics"])][:3]:
        value = next(m for m in v["metrics"] if m["name"] == name)["values"].get(run)
        if value:
            out.append(
                {"label": f"{name}, {run}", "value": number(name, value["mean"]), "range": span(name, value["ci"])}
            )
    return out


def _gate(g: Mapping[str, Any]) -> dict[str, Any]:
    name = g["metric"]
    gate = parse_gate(g["gate"])
    compared = "against" in g
    told = {"pass": "Passes.", "fail": "Fails: the whole interval is on the wrong side."}.get(g["outcome"], "")
    if g["outcome"] == "undecided":
        more = f" About {g['more_queries']:,} more queries would decide it." if g["more_queries"] else ""
        told = f"Undecided: {g['why']}.{more}"
    elif "mean" in g["why"]:
        told = f"{'Passes' if g['outcome'] == 'pass' else 'Fails'}: {g['why']}."
    where = ", ".join(f"{f} = {v}" for f, v in g["segment"].items()) if g["segment"] and gate.every else ""
    return {
        **g, "mark": MARKS[g["outcome"]], "where": where, "exact": g["value"],
        "value": ("Δ " if compared else "") + number(name, g["value"], sign=compared),
        "range": span(name, g["ci"], sign=compared), "told": told, "bar": _bar(g),
    }  # fmt: skip


def _bar(g: Mapping[str, Any]) -> Any:
    """The interval and the threshold on one line, drawn."""
    from markupsafe import Markup

    if not g["ci"] or g["value"] is None or None in g["ci"]:
        return ""
    low, high, at = g["ci"][0], g["ci"][1], g["threshold"]
    left, right = min(low, at), max(high, at)
    pad = (right - left) * 0.12 or 0.01
    left, right = left - pad, right + pad

    def x(value: float) -> float:
        return float(round(4 + 172 * (value - left) / (right - left), 1))

    colour = {"pass": "var(--good)", "fail": "var(--bad)", "undecided": "var(--warn)"}[g["outcome"]]
    right_side = (x(at), 176 - x(at)) if g["op"].startswith(">") else (4, x(at) - 4)
    return Markup(
        '<svg width="180" height="22" viewBox="0 0 180 22" aria-hidden="true">'
        f'<rect x="{right_side[0]}" y="3" width="{max(right_side[1], 0)}" height="16" rx="3" fill="var(--shade)"/>'
        f'<line x1="{x(low)}" x2="{x(high)}" y1="11" y2="11" stroke="{colour}" stroke-width="4"/>'
        f'<circle cx="{x(g["value"])}" cy="11" r="5" fill="{colour}"/>'
        f'<line x1="{x(at)}" x2="{x(at)}" y1="1" y2="21" stroke="var(--ink)" stroke-width="2"/></svg>'
    )


def _metric(m: Mapping[str, Any], v: Mapping[str, Any], compared: list[Mapping[str, Any]], deltas: list[str]) -> Any:
    from karat.report.terminal import best_of

    name = m["name"]
    values = [m["values"].get(r["name"]) for r in v["runs"]]
    points = [x["mean"] if x and x["mean"] is not None else float("nan") for x in values]
    best = best_of(name, points) if len(points) > 1 else set()
    cells = [
        {"run": r["name"], "value": number(name, x["mean"]) if x else "–", "exact": x["mean"] if x else "",
         "range": span(name, x["ci"]) if x else "", "best": i in best}
        for i, (r, x) in enumerate(zip(v["runs"], values, strict=True))
    ]  # fmt: skip
    rises = m["higher"] is not False
    changed = []
    for run in deltas:
        c = next((c for c in compared if c["candidate"] == run and c["metric"] == name), None)
        sure = c is not None and c["ci"] and None not in c["ci"] and (c["ci"][0] > 0 or c["ci"][1] < 0)
        tone = ("up" if (c["delta"] > 0) == rises else "down") if c is not None and sure else ""
        changed.append(
            {"run": run, "value": number(name, c["delta"], sign=True) if c else "–", "exact": c["delta"] if c else "",
             "range": span(name, c["ci"], sign=True) if c else "", "tone": tone}
        )  # fmt: skip
    n = max((x["n"] for x in values if x), default=0)
    return {**m, "cells": cells, "deltas": changed, "n": n}


def _funnels(v: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The stage funnel of each run whose log has stages."""
    out = []
    for run, components in v["components"].items():
        parts = (components.get("funnel") or {}).get("parts") if isinstance(components, dict) else None
        if parts:
            total = sum(p["count"] for p in parts) or 1
            stages = [
                {"label": p["label"], "count": p["count"], "share": round(100 * p["count"] / total, 1)} for p in parts
            ]
            out.append({"run": run, "stages": stages})
    return out


def _facts(v: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Fingerprints, conventions, counts, and what is known of the systems."""
    out: list[tuple[str, str]] = []
    for name, told in v["fingerprints"].items():
        value = told.get("hash") if isinstance(told, dict) else told
        if isinstance(value, str):
            out.append((f"fingerprint of {name}", value))
    out += [(name, str(value)) for name, value in v["conventions"].items()]
    out.append(("ties", "by doc id, falling"))
    if told := v["intervals"]:
        out.append(
            (
                "intervals",
                f"{told['confidence']:.0%}, {told['method']}, {told['resamples']:,} resamples, seed {told['seed']}",
            )
        )
    for run in v["runs"]:
        for name, value in run["facts"].items():
            out.append(
                (f"{name}, {run['name']}", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
            )
        lacking = {k: c for k, c in run["counts"].items() if c and k != "queries"}
        if lacking:
            out.append((f"counted, {run['name']}", ", ".join(f"{k} {c:,}" for k, c in lacking.items())))
        out += [(f"note, {run['name']}", note) for note in run["notes"]]
    out += [(f"differs: {d['what']}", f"{d['here']} here, {d['baseline']} in the baseline") for d in v["differences"]]
    return out


def _footer(v: Mapping[str, Any]) -> str:
    from karat import __version__

    held = len(v["docs"])
    texts = f" Texts of {held:,} docs are held, cut to 400 characters each." if held else ""
    return f"Made by Karat {__version__}. One file, no requests: it works offline.{texts}"
