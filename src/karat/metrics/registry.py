"""The registry: each metric is declared once, and names, help, docs and tooltips come from its declaration."""

from __future__ import annotations

import inspect
import re
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack

from karat.errors import MetricError, nearest
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from karat.model.rankings import Rankings, Values
    from karat.stats.aggregates import Aggregate

    Compute = Callable[..., Values]

ParamValue = bool | float | str | tuple[tuple[float, float], ...]
"""The value of a parameter; pairs are a map from grade to gain."""
Params: TypeAlias = "Mapping[str, ParamValue]"
CutoffKind = Literal["none", "optional", "required", "recall"]
STATISTICS: dict[str, tuple[Aggregate, float]] = {
    "mean": ("mean", 0.0),
    "sum": ("sum", 0.0),
    "p50": ("quantile", 0.5),
    "p90": ("quantile", 0.9),
    "p95": ("quantile", 0.95),
    "p99": ("quantile", 0.99),
}
"""The values of a parameter named `statistic`: the aggregate over queries, and which quantile."""
GOLD_ALONE = ("gold",)
ABOVE_ZERO: tuple[float | None, float | None] = (0.0, None)
"""The range of a parameter named `rel` unless a declaration states another: docs of grade 0 are not relevant."""
LOG_FACTS = frozenset(("latency", "cost", "items", "item_scores", "returned", "doc_version", "as_of"))
"""What is known of every query of a run, with gold or without."""


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a metric: its default and what it may be."""

    name: str
    default: Any
    choices: tuple[str, ...] = ()
    above: float | None = None
    below: float | None = None
    required: bool = False
    """Without a default: a name that lacks it is refused."""
    whole: bool = False
    """Annotated as int: a fraction is refused."""


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
    no_results: float | None = 0.0
    """The value for a query without results; None where the formula gives it, NaN where it is undefined."""
    empty_gold: float | None = 0.0
    """The value for a query without relevant docs in the gold; None and NaN as above."""
    needs: tuple[str, ...] = GOLD_ALONE
    """What it reads: gold, returned (how many docs), items (all docs returned), item_scores, doc_version, as_of,
    latency, cost, embeddings (of the items), gold_embeddings, texts, subtopics, ontology, route, …; nothing else."""
    needs_when: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """What it reads instead for a value of a parameter; the first match counts: {("kind", "subtopic"): ("gold", …)}."""
    no_results_when: Mapping[tuple[str, str], float | None] = field(default_factory=dict)
    """The value for a query without results where a parameter has this value: {("missing", "zero"): 0.0}."""
    variants: Mapping[str, str] = field(default_factory=dict)
    """What parameters that are not in the formula change: {"gain=graded": "…"}."""
    added: tuple[str, ...] = ()
    """Parameters that were added later: at its default, one leaves the fingerprints of saved results as they were."""
    spellings: Mapping[str, str] = field(default_factory=dict)
    """Parameters, or a parameter with its value, as other tools write them: {"max_rel": "max_grade"}."""
    refuses: Callable[[Params], str | None] | None = None
    """Returns what is wrong with a combination of parameters, or None."""
    complexity: str = "judged docs"
    params: tuple[Param, ...] = ()
    bands: Mapping[str, tuple[tuple[float, str], ...]] = field(default_factory=dict)
    targets: Mapping[str, float] = field(default_factory=dict)
    strict_targets: Mapping[str, float] = field(default_factory=dict)
    suits: Mapping[str, str] = field(default_factory=dict)
    """By purpose: the name to use, with its cutoff."""
    unit: str = ""
    dotted: tuple[str, ...] = ()
    """Parameters that follow the name with dots: `latency.rerank.p90`."""
    listed: bool = True
    """Whether lists of metrics show it; figures of components can only be named."""
    example: str = ""
    """The name as people usually write it, where that is not the name and a cutoff."""

    def __call__(self, rankings: Rankings, k: float | None = None, **params: Any) -> Values:
        return self.compute(rankings, k, **params) if self.cutoff != "none" else self.compute(rankings, **params)


class MetricOptions(TypedDict, total=False):
    """The fields of `Metric` that few declarations state, as type checkers see keyword arguments of `metric`."""

    higher_is_better: bool | None
    aggregate: Aggregate
    binary: bool
    monotone: bool
    no_results: float | None
    empty_gold: float | None
    needs: tuple[str, ...]
    needs_when: Mapping[tuple[str, str], tuple[str, ...]]
    no_results_when: Mapping[tuple[str, str], float | None]
    variants: Mapping[str, str]
    added: tuple[str, ...]
    spellings: Mapping[str, str]
    refuses: Callable[[Params], str | None]
    complexity: str
    bands: Mapping[str, tuple[tuple[float, str], ...]]
    targets: Mapping[str, float]
    strict_targets: Mapping[str, float]
    suits: Mapping[str, str]
    unit: str
    listed: bool
    example: str


def number_param(params: Params, name: str, default: float) -> float:
    """A parameter that is a number."""
    value = params.get(name, default)
    assert isinstance(value, (int, float))
    return value


_metrics: dict[str, Metric] = {}
_spellings: dict[str, tuple[str, str]] = {}
_entry_points_loaded = False
generation = 0
"""Increases with every change of the registry, so that caches derived from it can be dropped."""


def normalize(name: str) -> str:
    """A metric's name in the form used for look-ups: lower case, with underscores."""
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
    **more: Unpack[MetricOptions],
) -> Callable[[Compute], Compute]:
    """Declare a metric. The function takes rankings, the cutoff k (unless `cutoff="none"`), and its parameters.

    The function's signature is the parameter list of the name grammar. A parameter needs a default or is `dotted`;
    one that is `required` must be written in every name, and its default only shows its type.
    An alias may carry parameters: `"ndcg_burges(gain=exp)"`. A parameter named `statistic` chooses the aggregate.
    A value lies between the bounds of its `ranges` and is neither of them; `rel` is above 0 unless they say otherwise.
    One that is annotated as `int` takes no fractions.
    """

    def declare(compute: Compute) -> Compute:
        signature = list(inspect.signature(compute).parameters.values())
        _check_cutoff(name, cutoff, [p.name for p in signature])
        params = []
        for p in signature[1 if cutoff == "none" else 2 :]:
            no_default = p.default is inspect.Parameter.empty
            if no_default and p.name not in dotted:
                raise MetricError(f"metric {name!r}: parameter {p.name!r} needs a default value")
            above, below = (ranges or {}).get(p.name, ABOVE_ZERO if p.name == "rel" else (None, None))
            default = "" if no_default else p.default
            required_here = no_default or p.name in required
            own = (choices or {}).get(p.name, ())
            whole = p.annotation in (int, "int")
            params.append(Param(p.name, default, own, above, below, required_here, whole))
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
                **more,
            )
        )
        return compute

    return declare


def _check_cutoff(name: str, cutoff: CutoffKind, names: list[str]) -> None:
    """Refuse a function that would take the cutoff for another parameter, or a parameter for the cutoff."""
    if cutoff == "none":
        if "k" in names:
            raise MetricError(f'metric {name!r}: its function takes k, but cutoff="none" says that it has no cutoff')
        return
    expected, found = "level" if cutoff == "recall" else "k", repr(names[1]) if len(names) > 1 else "nothing"
    if names[1:2] != [expected]:
        raise MetricError(
            f"metric {name!r}: the second parameter of its function must be {expected}, the cutoff, found {found}; "
            'a metric without a cutoff says cutoff="none"'
        )


def register(new: Metric) -> None:
    """Add a metric to the registry. A name or alias that is already taken is an error."""
    if new.name != normalize(new.name) or not new.name.replace("_", "").isalnum():
        raise MetricError(f"metric name {new.name!r} must be lower-case letters, digits and underscores")
    entries = {normalize(new.name): (new.name, "")}
    for alias in new.aliases:
        base, _, args = alias.partition("(")
        entries[normalize(base)] = (new.name, args.rstrip(")"))
    for spelling in entries:
        if spelling in _spellings:
            raise MetricError(
                f"metric name {spelling!r} is taken by {_spellings[spelling][0]!r}; choose another name or alias"
            )
    global generation
    generation += 1
    _metrics[new.name] = new
    _spellings.update(entries)


def unregister(name: str) -> None:
    """Remove a metric and its aliases from the registry."""
    global generation
    generation += 1
    _metrics.pop(name)
    for spelling in [s for s, (owner, _) in _spellings.items() if owner == name]:
        del _spellings[spelling]


def resolve(name: str) -> tuple[Metric, str] | None:
    """The metric with this name or alias, and the parameters that the alias carries; None if unknown."""
    entry = _spellings.get(normalize(name))
    if entry is None and not _entry_points_loaded:
        _load_entry_points()
        entry = _spellings.get(normalize(name))
    return (_metrics[entry[0]], entry[1]) if entry else None


def is_known(name: str) -> bool:
    """Whether a loaded metric has this name or alias."""
    return normalize(name) in _spellings


def lookup(name: str) -> Metric:
    """The metric with this name or alias, or an error with the nearest known name."""
    match = resolve(name) if isinstance(name, str) else None
    if match is None:
        raise unknown(str(name), str(name))
    return match[0]


_LEVEL = re.compile(r"(?P<name>.+)-l(?P<rel>\d+)(?P<cut>@.+)", re.IGNORECASE)


def unknown(name: str, written: str) -> MetricError:
    """The error for an unknown name, with the nearest known one."""
    after = written.partition(".")[2].strip()
    if is_known(re.split(r"[@(.]", after)[0]):  # a metric behind a prefix that it does not take
        return MetricError(f"unknown metric {written!r}; did you mean {after!r}? See: karat metrics")
    if level := _LEVEL.fullmatch(written):  # ranx writes the level last
        metric = resolve(level["name"])
        if metric is not None and any(p.name == "rel" for p in metric[0].params):
            meant = f"{level['name']}{level['cut']}-l{level['rel']}"
            return MetricError(f"unknown metric {written!r}; did you mean {meant!r}? See: karat metrics")
        if metric is not None:
            return MetricError(f"unknown metric {written!r}: {metric[0].name} takes no level of relevance (rel)")
    near = nearest(normalize(name), list(_spellings))
    hint = f"; did you mean {written.lower().replace(name.lower(), near, 1)!r}?" if near else "."
    return MetricError(f"unknown metric {written!r}{hint} See: karat metrics")


def all_metrics() -> tuple[Metric, ...]:
    """All metrics, in order of declaration."""
    _load_entry_points()
    return tuple(m for m in _metrics.values() if m.listed)


def _load_entry_points() -> None:
    """Import the metrics that installed packages declare under the entry point `karat.metrics`."""
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
                f"cannot load the metrics of the installed package behind {point.value!r}: {error}. "
                "Update or remove that package"
            ) from error
