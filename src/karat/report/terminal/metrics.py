"""What the declarations of the metrics say, for a person."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from karat.errors import UsageError, nearest
from karat.metrics import DEFAULT_METRICS, Metric, all_metrics, parse, parse_all
from karat.metrics.registry import resolve
from karat.report.terminal.console import console, line
from karat.report.terminal.layout import Grid

if TYPE_CHECKING:
    from karat.model.json_data import JsonObject


def _declaration_json(metric: Metric) -> JsonObject:
    low, high = metric.bounds
    return {
        "name": metric.name,
        "title": metric.title,
        "family": metric.family,
        "formula": metric.formula,
        "variants": dict(metric.variants),
        "tells": metric.tells,
        "use_when": metric.use_when,
        "caution": metric.caution,
        "aliases": list(metric.aliases),
        "cutoff": metric.cutoff,
        "params": {p.name: dict(p.default) if isinstance(p.default, tuple) else p.default for p in metric.params},
        "bounds": [None if low == -math.inf else low, high],
        "unit": metric.unit,
        "higher_is_better": metric.higher_is_better,
        "aggregate": metric.aggregate,
        "binary": metric.binary,
        "monotone": metric.monotone,
        "no_results": constant(metric.no_results),
        "no_results_when": {f"{n}={v}": constant(value) for (n, v), value in metric.no_results_when.items()},
        "empty_gold": constant(metric.empty_gold),
        "needs": list(metric.needs),
        "needs_when": {f"{param}={value}": list(needs) for (param, value), needs in metric.needs_when.items()},
        "complexity": metric.complexity,
        "bands": {name: [[at, word] for at, word in bands] for name, bands in metric.bands.items()},
        "targets": dict(metric.targets),
        "strict_targets": dict(metric.strict_targets),
        "suits": dict(metric.suits),
        "cites": metric.cites,
    }


def constant(value: float | None) -> float | str:
    """A value for a special case: a number, undefined, or whatever the formula gives."""
    return "as computed" if value is None else "undefined" if value != value else value


def as_json(name: str | None) -> str:
    """One declaration, or all of them, as JSON."""
    metrics = [_metric(name)] if name is not None else list(all_metrics())
    return json.dumps([_declaration_json(m) for m in metrics], indent=2, ensure_ascii=False)


def _metric(name: str) -> Metric:
    """The metric of a name, which may lack its cutoff and what else a measure needs, or of a whole measure's."""
    known = resolve(name)
    metrics = [known[0]] if known is not None else list(dict.fromkeys(m.metric for m in parse_all(name)))
    return metrics[0] if len(metrics) == 1 else parse(name).metric


def show_all(purpose: str | None) -> None:
    """All metrics by family, or those that suit a purpose."""
    metrics = all_metrics()
    names: dict[str, str] = {}
    if purpose is not None:
        purposes = sorted({s for m in metrics for s in m.suits})
        name = purpose.strip().lower()
        if name not in purposes:
            near = nearest(name, purposes)
            hint = f"did you mean {near!r}?" if near else f"expected one of {', '.join(purposes)}"
            raise UsageError(f"unknown purpose {purpose!r}; {hint}")
        metrics = tuple(m for m in metrics if name in m.suits)
        names = {m.name: m.suits[name] for m in metrics}
    out = console()
    for family in dict.fromkeys(m.family for m in metrics):
        table = Grid(2, header=False)
        table.add_column(no_wrap=True, style="bold", min_width=14)
        table.add_column()
        for metric in (m for m in metrics if m.family == family):
            table.add_row(names.get(metric.name) or example(metric), metric.tells)
        out.print(line(family, style="dim"))
        out.print(table)
        out.print()
    out.print(line(f"more on one: karat metrics ndcg · used by default: {', '.join(DEFAULT_METRICS)}", style="dim"))


def example(metric: Metric) -> str:
    """The metric's name as it is mostly written."""
    return (
        metric.example or metric.name + {"required": "@k", "optional": "@k", "recall": "@r", "none": ""}[metric.cutoff]
    )


def value_range(metric: Metric) -> str:
    """The bounds of a metric's values with their unit, and which end is better."""
    low, high = metric.bounds
    ends = f"{'−∞' if low == -math.inf else f'{low:g}'} to {'∞' if high is None else f'{high:g}'}"
    unit = f" {metric.unit}" if metric.unit else ""
    return ends + unit + {True: ", higher is better", False: ", lower is better", None: ""}[metric.higher_is_better]


def over_queries(metric: Metric) -> str:
    """How the queries' values become one."""
    choices = next((p.choices for p in metric.params if p.name == "statistic"), ())
    return f"by its statistic: {', '.join(choices)}" if choices else metric.aggregate


def show_one(name: str) -> None:
    """Everything that is declared of one metric."""
    metric = _metric(name)
    params = ", ".join(
        p.name + (f"={p.default}" if not p.required else "") + (f" ({' | '.join(p.choices)})" if p.choices else "")
        for p in metric.params
        if not isinstance(p.default, tuple)
    )
    params += ", gains={grade:gain,…}" if any(isinstance(p.default, tuple) for p in metric.params) else ""
    rows = {
        "what it tells": metric.tells,
        "formula": metric.formula,
        **metric.variants,
        "use when": metric.use_when,
        "beware": metric.caution,
        "range": value_range(metric),
        "cutoff": {
            "none": "none",
            "optional": "@k, or none for the whole list",
            "required": "@k",
            "recall": "@r, 0 to 1",
        }[metric.cutoff],
        "parameters": params,
        "over queries": over_queries(metric),
        "other names": ", ".join(metric.aliases),
        "reading": "; ".join(
            f"{n}: " + ", ".join(f"{word} from {at:g}" for at, word in bands) for n, bands in metric.bands.items()
        ),
        "targets": ", ".join(
            f"{n} {t:g}" + (f" (strict {metric.strict_targets[n]:g})" if n in metric.strict_targets else "")
            for n, t in metric.targets.items()
        ),
        "source": metric.cites,
    }
    table = Grid(2, header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for label, text in rows.items():
        if text:
            table.add_row(label, text)
    out = console()
    out.print(line((metric.name, "bold"), f"  {metric.title}\n"))
    out.print(table)
