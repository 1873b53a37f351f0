"""Every metric is declared once, here: from the declaration come names, help, docs and tooltips."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from karat.errors import MetricError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from karat.model.rankings import Rankings, Values

    Compute = Callable[..., Values]

Aggregate = Literal["mean", "sum", "geometric mean", "quantile"]
CutoffKind = Literal["none", "optional", "required", "recall"]
STATISTICS: dict[str, tuple[Aggregate, float]] = {
    "mean": ("mean", 0.0),
    "sum": ("sum", 0.0),
    "p50": ("quantile", 0.5),
    "p90": ("quantile", 0.9),
    "p95": ("quantile", 0.95),
    "p99": ("quantile", 0.99),
}
"""What a parameter named `statistic` may say: the aggregate over queries, and which quantile."""
GOLD_ALONE = ("gold",)


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a metric: its default and what it may be."""

    name: str
    default: Any
    choices: tuple[str, ...] = ()
    above: float | None = None
    below: float | None = None
    required: bool = False
    """Has no default: a name without it is refused."""


@dataclass(frozen=True, eq=False)
class Metric:
    """The declaration of one metric."""

    name: str
    compute: Compute
    title: str
    formula: str
    tells: str
    use_when: str
    caution: str
    family: str
    bounds: tuple[float, float | None]
    cutoff: CutoffKind
    cites: str
    aliases: tuple[str, ...] = ()
    higher_is_better: bool | None = True
    aggregate: Aggregate = "mean"
    binary: bool = False
    monotone: bool = False
    no_results: float = 0.0
    empty_gold: float = 0.0
    needs: tuple[str, ...] = GOLD_ALONE
    """Of gold, items (all docs returned), doc_version, as_of, latency, cost, embeddings (of the items),
    gold_embeddings, texts, subtopics, route, …; only what is asked for is read."""
    needs_when: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """Other needs where a parameter has a value, the first that holds: {("kind", "subtopic"): ("gold", …)}."""
    refuses: Callable[[Mapping[str, Any]], str | None] | None = None
    """Says what is wrong with parameters that differ from their defaults, beyond what each may be by itself."""
    complexity: str = "judged docs"
    params: tuple[Param, ...] = ()
    bands: Mapping[str, tuple[tuple[float, str], ...]] = field(default_factory=dict)
    targets: Mapping[str, float] = field(default_factory=dict)
    suits: tuple[str, ...] = ()
    unit: str = ""
    dotted: tuple[str, ...] = ()
    """Parameters that are written after the name, with dots: `latency.rerank.p90`."""
    example: str = ""
    """The name as it is mostly written, where that is not the name and a cutoff."""

    def __call__(self, rankings: Rankings, k: float | None = None, **params: Any) -> Values:
        return self.compute(rankings, k, **params) if self.cutoff != "none" else self.compute(rankings, **params)


_metrics: dict[str, Metric] = {}
_spellings: dict[str, tuple[str, str]] = {}
_entry_points_loaded = False
generation = 0
"""Grows with every change of the registry, so that what was derived from it can be dropped."""


def spelled(name: str) -> str:
    """A metric's name as it is looked up: lower case, with underscores."""
    return name.strip().lower().replace("-", "_")


def metric(
    name: str,
    *,
    title: str,
    tells: str,
    formula: str = "",
    use_when: str = "",
    caution: str = "",
    family: str = "user",
    bounds: tuple[float, float | None] = (0.0, 1.0),
    cutoff: CutoffKind = "optional",
    cites: str = "",
    aliases: tuple[str, ...] = (),
    choices: Mapping[str, tuple[str, ...]] | None = None,
    ranges: Mapping[str, tuple[float | None, float | None]] | None = None,
    dotted: tuple[str, ...] = (),
    required: tuple[str, ...] = (),
    **declared: Any,
) -> Callable[[Compute], Compute]:
    """Declare a metric. The function takes rankings, the cutoff k (unless `cutoff="none"`), and its parameters.

    The function's signature is the parameter list of the name grammar; a parameter needs a default, or is `dotted`;
    one that is `required` must be said all the same, and its default only tells what it is.
    An alias may carry parameters: `"ndcg_burges(gain=exp)"`. A parameter named `statistic` chooses the aggregate.
    """

    def declare(compute: Compute) -> Compute:
        signature = list(inspect.signature(compute).parameters.values())
        params = []
        for p in signature[1 if cutoff == "none" else 2 :]:
            lacking = p.default is inspect.Parameter.empty
            if lacking and p.name not in dotted:
                raise MetricError(f"metric {name!r}: parameter {p.name!r} needs a default value")
            above, below = (ranges or {}).get(p.name, (None, None))
            default = "" if lacking else p.default
            must = lacking or p.name in required
            params.append(Param(p.name, default, (choices or {}).get(p.name, ()), above, below, must))
        register(
            Metric(
                name=name,
                compute=compute,
                title=title,
                formula=formula,
                tells=tells,
                use_when=use_when,
                caution=caution,
                family=family,
                bounds=bounds,
                cutoff=cutoff,
                cites=cites,
                aliases=aliases,
                params=tuple(params),
                dotted=dotted,
                **declared,
            )
        )
        return compute

    return declare


def register(declared: Metric) -> None:
    """Add a metric to the registry. A name or alias that is taken already is an error."""
    if declared.name != spelled(declared.name) or not declared.name.replace("_", "").isalnum():
        raise MetricError(f"metric name {declared.name!r} must be lower-case letters, digits and underscores")
    entries = {spelled(declared.name): (declared.name, "")}
    for alias in declared.aliases:
        base, _, args = alias.partition("(")
        entries[spelled(base)] = (declared.name, args.rstrip(")"))
    for spelling in entries:
        if spelling in _spellings:
            raise MetricError(
                f"metric name {spelling!r} is taken by {_spellings[spelling][0]!r}; choose another name or alias"
            )
    global generation
    generation += 1
    _metrics[declared.name] = declared
    _spellings.update(entries)


def unregister(name: str) -> None:
    """Take a registered metric out again, with its aliases."""
    global generation
    generation += 1
    _metrics.pop(name)
    for spelling in [s for s, (owner, _) in _spellings.items() if owner == name]:
        del _spellings[spelling]


def resolve(name: str) -> tuple[Metric, str] | None:
    """The metric of this name or alias, and the parameters that the alias carries; None if unknown."""
    found = _spellings.get(spelled(name))
    if found is None and not _entry_points_loaded:
        _load_entry_points()
        found = _spellings.get(spelled(name))
    return (_metrics[found[0]], found[1]) if found else None


def is_known(name: str) -> bool:
    """Whether a metric that is loaded already has this name or alias."""
    return spelled(name) in _spellings


def lookup(name: str) -> Metric:
    """The metric of this name or alias, or an error with the nearest known name."""
    found = resolve(name) if isinstance(name, str) else None
    if found is None:
        raise unknown(str(name), str(name))
    return found[0]


def unknown(name: str, written: str) -> MetricError:
    """The error for a name that no metric has, with the nearest name that one has."""
    near = nearest(spelled(name), list(_spellings))
    hint = f"; did you mean {written.lower().replace(spelled(name), near, 1)!r}?" if near else "."
    return MetricError(f"unknown metric {written!r}{hint} See: karat metrics")


def all_metrics() -> tuple[Metric, ...]:
    """All metrics, in the order of their declaration."""
    _load_entry_points()
    return tuple(_metrics.values())


def _load_entry_points() -> None:
    """Import what installed packages declare under the entry point `karat.metrics`."""
    global _entry_points_loaded
    if _entry_points_loaded:
        return
    _entry_points_loaded = True
    from importlib.metadata import entry_points

    for point in entry_points(group="karat.metrics"):
        try:
            loaded = point.load()
            if callable(loaded) and not inspect.ismodule(loaded):
                loaded()
        except Exception as error:
            raise MetricError(
                f"the metrics of the installed package behind {point.value!r} cannot be loaded: {error}. "
                "Update or remove that package"
            ) from error
