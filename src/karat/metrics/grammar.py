"""Metric names: `name(param=value,…)@k`, `name_10`, aliases → one canonical form; see also `spellings.py`.

ndcg@10 · ndcg(gain=exp)@10 · ndcg:gain=exp@10 · nDCG(dcg='exp-log2')@10 · ndcg_cut_10 ·
ndcg_at_10 · P.10 · iprec_at_recall_0.10 · recall@{1,3,5} · latency.rerank.p90 · latency.{p50,p90} · cost.tokens.sum
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from karat.errors import MetricError, ResultError, nearest
from karat.metrics import registry
from karat.metrics.registry import LOG_FACTS, STATISTICS, Metric, Param, Params, ParamValue, is_known, resolve, unknown
from karat.metrics.spellings import respell, split_outside_brackets
from karat.model.policy import PRESETS
from karat.records import dataclass

if TYPE_CHECKING:
    from karat.model.rankings import Rankings, Values
    from karat.stats.aggregates import Aggregate

T = TypeVar("T")
DEFAULT_METRICS = ("hit@{1,3,5,10}", "recall@{1,3,5,10}", "precision@5", "ndcg@{5,10}", "mrr", "map@10")
LOG_METRICS = ("distinct_docs@5", "latency.p50", "latency.p90")
"""What joins the default metrics where all runs are run logs with latency."""
TERM_METRICS = ("max_ont_sim@{1,3,5,10}",)
"""What joins the default metrics where an ontology is named."""
CASE_METRICS = (
    "hit@{1,3,5,10}",
    "ndcg@{1,3,5,10}",
    "recall@{1,3,5,10}",
    "precision@{1,3,5,10}",
    "map(norm=min)@{1,3,5,10}",
    "mrr",
)
"""The default metrics of case files: short texts, each with a few expected terms."""
PRIMARY = "ndcg@10"
LARGEST = 10**9
"""The largest cutoff, and the largest number that a parameter takes: beyond it lies nothing but overflow."""
_known: dict[tuple[int, str], Measure] = {}
_known_lists: dict[Any, tuple[Measure, ...]] = {}

_NAME = re.compile(
    r"(?P<name>[A-Za-z0-9][\w-]*)(?P<dots>(?:\.[\w-]+)*)\s*(?:\((?P<args>.*)\)|:(?P<open>[^@]*))?\s*(?:@(?P<k>.*))?",
    re.DOTALL,
)
_WORD = re.compile(r"[\w-]+")
_SUFFIXED = re.compile(r"(?P<name>[A-Za-z0-9].*?)(?:_at_|[_.])(?P<k>\d+(?:\.\d+)?|\.\d+)")
_BRACES = re.compile(r"\{([^{}:=]*)\}\s*$")


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric with its parameters and cutoff. Two spellings of the same one are equal."""

    metric: Metric
    params: tuple[tuple[str, ParamValue], ...]
    k: float | None

    @property
    def name(self) -> str:
        """The canonical name: lower case, only what differs from the defaults."""
        cut = "" if self.k is None else f"@{_print(self.k)}"
        if not self.params:
            return self.metric.name + cut
        dotted = self.metric.dotted
        dots = "".join(f".{v}" for n, v in self.params if n in dotted)
        rest = ",".join(f"{n}={_print(v)}" for n, v in self.params if n not in dotted)
        return self.metric.name + dots + (f"({rest})" if rest else "") + cut

    def param(self, name: str) -> Any:
        """A parameter's value: explicit, or the default."""
        explicit = dict(self.params)
        return explicit[name] if name in explicit else next(p.default for p in self.metric.params if p.name == name)

    @property
    def needs(self) -> tuple[str, ...]:
        """What it reads with these parameters."""
        for (name, value), needs in self.metric.needs_when.items():
            if self.param(name) == value:
                return needs
        return self.metric.needs

    @property
    def no_results(self) -> float | None:
        """The value for a query without results; None where the formula gives it, NaN where it is undefined."""
        for (name, value), constant in self.metric.no_results_when.items():
            if self.param(name) == value:
                return constant
        return self.metric.no_results

    @property
    def over_whole_run(self) -> bool:
        """Whether it is over all queries of a run, with gold or without: it reads only what a run says itself."""
        return LOG_FACTS.issuperset(self.needs)

    @property
    def aggregate(self) -> Aggregate:
        """How the values of the queries become one: by `statistic` if it has one, else as declared."""
        return STATISTICS[self.param("statistic")][0] if "statistic" in self.metric.dotted else self.metric.aggregate

    @property
    def quantile(self) -> float:
        """Which quantile over queries, if the aggregate is one."""
        return STATISTICS[self.param("statistic")][1]

    def __str__(self) -> str:
        return self.name

    def __call__(self, rankings: Rankings) -> Values:
        params = {n: dict(v) if isinstance(v, tuple) else v for n, v in self.params}
        return self.metric(rankings, self.k, **params)


def parse(text: str) -> Measure:
    """The one measure with this name."""
    if not isinstance(text, str):
        raise MetricError(f"a metric is named by text such as 'ndcg@10', found {text!r}")
    known = _known.get((registry.generation, text))
    if known is not None:
        return known
    measures = parse_all([text])
    if len(measures) != 1:
        names = ", ".join(m.name for m in measures)
        raise MetricError(f"expected one metric, found {len(measures)} in {text!r}: {names}")
    _known[registry.generation, text] = measures[0]
    return measures[0]


def choose_primary(metrics: Sequence[str], *, wish: str | None = None) -> str:
    """The metric that decides which run is better: the one wished for, ndcg@10, or the first asked for."""
    if wish is not None:
        name = parse(wish).name
        if name not in metrics:
            raise MetricError(f"primary metric {wish!r} is not among the metrics: {', '.join(metrics)}; add it to them")
        return name
    return PRIMARY if PRIMARY in metrics else metrics[0]


def parse_all(
    texts: str | Measure | Iterable[str | Measure], ks: Sequence[int] | None = None, like: str | None = None
) -> list[Measure]:
    """All measures with these names, in order, each once. Commas outside brackets separate names.

    With `ks`, a metric that takes a cutoff and is named without one is expanded over them. With `like`, names that
    this tool writes mean what they mean there.
    """
    names = (texts,) if isinstance(texts, str) else tuple(texts) if isinstance(texts, (list, tuple)) else ()
    key = (registry.generation, like, *names)
    if ks is None and key in _known_lists:
        return list(_known_lists[key])
    measures = _parse_list(texts, ks, like)
    if ks is None and names and all(isinstance(name, str) for name in names):
        _known_lists[key] = tuple(measures)
    return measures


def _parse_list(
    texts: str | Measure | Iterable[str | Measure], ks: Sequence[int] | None, like: str | None
) -> list[Measure]:
    if not isinstance(texts, (str, Measure, Iterable)):
        raise MetricError(f"metrics are named by text such as 'ndcg@10', found {texts!r}")
    entries = [texts] if isinstance(texts, (str, Measure)) else list(texts)
    _check_ks(ks)
    measures: dict[Measure, None] = {}
    for text in entries:
        if isinstance(text, Measure):
            measures[text] = None
            continue
        if not isinstance(text, str):
            raise MetricError(f"a metric is named by text such as 'ndcg@10', found {text!r}")
        for part in split_outside_brackets(text):
            for one in (name for each in _expand(part) for name in respell(each, like, need_cutoff=ks is None)):
                measure = _parse_one(one, ks is None)
                cuts = ks if ks is not None and measure.k is None and measure.metric.cutoff != "none" else None
                for k in cuts if cuts is not None else (measure.k,):
                    measures[Measure(measure.metric, measure.params, _cutoff(measure.metric, k, one))] = None
    if not measures:
        raise MetricError("no metric was named; expected a name such as 'ndcg@10'. See: karat metrics")
    return list(measures)


def _expand(text: str) -> list[str]:
    """`recall@{1,3,5}` → `recall@1`, `recall@3`, `recall@5`; `latency.{p50,p90}` likewise."""
    braces = _BRACES.search(text)
    if braces is None or ("@" not in text[: braces.start()] and text[braces.start() - 1] != "."):
        return [text]
    return [text[: braces.start()] + k.strip() for k in braces.group(1).split(",")]


def _split_name(text: str) -> tuple[str, list[str], str, str | None] | None:
    """The name, the parts after dots, the parameters and the cutoff; None if the text does not fit the grammar."""
    suffixed = _SUFFIXED.fullmatch(text)
    if suffixed and not is_known(text) and (known := resolve(suffixed["name"])) and not known[0].dotted:
        return suffixed["name"], [], "", suffixed["k"]
    whole = _NAME.fullmatch(text)
    if whole is None:
        return None
    return whole["name"], whole["dots"].split(".")[1:], whole["args"] or whole["open"] or "", whole["k"]


def _parse_one(text: str, need_cutoff: bool) -> Measure:
    split = _split_name(text)
    if split is None:
        raise _unreadable(text)
    name, dots, args, k = split
    known = resolve(name)
    if known is None:
        raise unknown(name, text)
    metric, preset = known
    params = {**_params(metric, preset, text), **_params(metric, args, text)}
    if dots or metric.dotted:
        params = {**_dotted_params(metric, dots, params, text), **params}
    for p in metric.params:
        if p.required and p.name not in params:
            raise MetricError(f"metric {text!r} needs a {p.name}, such as {metric.example!r}")
    explicit = [p for p in metric.params if p.name in params and (p.required or params[p.name] != p.default)]
    ordered = tuple((p.name, params[p.name]) for p in explicit)
    if metric.refuses is not None and (wrong := metric.refuses(dict(ordered))) is not None:
        raise MetricError(f"metric {text!r}: {wrong}")
    if k is None and metric.cutoff == "required" and need_cutoff:
        raise MetricError(f"metric {text!r} needs a cutoff, such as '{metric.name}@10'")
    cut = _number(k) if k is not None else None
    if k is not None and cut is None:
        raise MetricError(f"metric {text!r}: the cutoff must be an integer from 1, found {k!r}")
    return Measure(metric, ordered, cut)


def _unreadable(text: str) -> MetricError:
    return MetricError(f"cannot read metric {text!r}; expected a name such as 'ndcg@10' or 'recall(rel=2)@100'")


def _dotted_params(metric: Metric, parts: list[str], others: Params, text: str) -> dict[str, ParamValue]:
    """The parameters written with dots. With fewer parts than parameters, those with a default are omitted."""
    known = [p for p in metric.params if p.name in metric.dotted]
    if len(parts) > len(known):
        raise (
            _unreadable(text)
            if not known
            else MetricError(
                f"metric {text!r}: expected at most {len(known)} parts after {metric.name!r}, "
                f"{' and '.join(p.name for p in known)}, found {len(parts)}"
            )
        )
    required = [p for p in known if p.required]
    named = required if len(parts) == len(required) else known[: len(parts)]
    out = {p.name: _value(p, part, text) for p, part in zip(named, parts, strict=True)}
    for p in known:
        if p.name in out and p.name in others:
            raise MetricError(f"metric {text!r}: {p.name} appears twice; expected it once")
        if p.required and p.name not in out and p.name not in others:
            raise MetricError(f"metric {text!r} needs a {p.name}, such as {metric.example!r}")
    return out


def _check_ks(ks: Any) -> None:
    """Cutoffs passed separately from the names."""
    if ks is None:
        return
    if isinstance(ks, str) or not isinstance(ks, Iterable):
        raise MetricError(f"ks must be a list of cutoffs such as [1, 3, 5], found {ks!r}")
    for k in ks:
        if isinstance(k, bool) or not isinstance(k, (int, float)) or not 1 <= k <= LARGEST or k != int(k):
            raise MetricError(f"ks must be integers from 1, found {k!r}")


def _cutoff(metric: Metric, k: float | None, written: str) -> float | None:
    if k is None:
        return None
    if metric.cutoff == "none":
        raise MetricError(f"metric {written!r}: {metric.name} takes no cutoff; write {metric.example or metric.name!r}")
    if metric.cutoff == "recall":
        if not 0 <= k <= 1:
            raise MetricError(f"metric {written!r}: the recall level must be from 0 to 1, found {_print(k)}")
        return float(k)
    if not 1 <= k <= LARGEST or k != int(k):
        raise MetricError(f"metric {written!r}: the cutoff must be an integer from 1, found {_print(k)}")
    return int(k)


def _params(metric: Metric, args: str, written: str) -> dict[str, ParamValue]:
    """The parameters written as `name=value,…`, validated against the declaration."""
    out: dict[str, ParamValue] = {}
    known = {p.name: p for p in metric.params}
    for part in split_outside_brackets(args):
        name, equals, value = (s.strip() for s in part.partition("="))
        name, value = name.lower(), value.strip("'\"")
        if (pair := f"{name}={value}") in metric.spellings:
            name, _, value = metric.spellings[pair].partition("=")
        name = metric.spellings.get(name, name)
        if not equals or not value:
            raise MetricError(f"metric {written!r}: expected parameters as name=value, found {part!r}")
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near!r}?" if near else f"it takes {', '.join(known) or 'none'}"
            raise MetricError(f"metric {written!r}: {metric.name} has no parameter {name!r}; {hint}")
        if name in out:
            raise MetricError(f"metric {written!r}: {name} appears twice; expected it once")
        out[name] = _value(known[name], value, written)
    return out


def _value(param: Param, value: str, written: str) -> ParamValue:
    def wrong(expected: str) -> MetricError:
        return MetricError(f"metric {written!r}: {param.name} must be {expected}, found {value!r}")

    if param.choices:
        if value.lower() not in param.choices:
            raise wrong("one of " + ", ".join(param.choices))
        return value.lower()
    if isinstance(param.default, bool):
        if value.lower() not in ("true", "false"):
            raise wrong("true or false")
        return value.lower() == "true"
    if isinstance(param.default, tuple):
        pairs = _mapping(value)
        if pairs is None:
            raise wrong("a map from grade to gain, none below 0, such as {1:1,2:5}")
        return pairs
    if isinstance(param.default, str):
        if _WORD.fullmatch(value) is None:
            raise wrong("letters, digits, _ and -")
        return value.lower()
    number = _number(value)
    if number is None or (param.whole and number != int(number)):
        raise wrong("an integer" if param.whole else "a number")
    if abs(number) > LARGEST:
        raise wrong(f"a number of at most {LARGEST:g} in size")
    if (param.above is not None and number <= param.above) or (param.below is not None and number >= param.below):
        low = f"above {_print(param.above)}" if param.above is not None else ""
        high = f"below {_print(param.below)}" if param.below is not None else ""
        raise wrong(" and ".join(filter(None, (low, high))))
    return number


def _mapping(value: str) -> tuple[tuple[float, float], ...] | None:
    """`{1: 1, 2: 5}` → ((1, 1), (2, 5)), sorted by grade; None if the text is not such a map."""
    pairs = {}
    for part in value.strip("{} ").split(","):
        grade, gain = (_number(n) for n in (part.partition(":")[0], part.partition(":")[2]))
        if grade is None or gain is None or gain < 0 or max(abs(grade), gain) > LARGEST:
            return None
        pairs[grade] = gain
    return tuple(sorted(pairs.items()))


def _number(text: str) -> float | None:
    """The finite number in this text, as an integer if it is whole; None if there is none."""
    try:
        value = float(text) if "_" not in text else float("nan")
    except ValueError:
        return None
    if value != value or value in (float("inf"), float("-inf")):
        return None
    return int(value) if value == int(value) else value


def _print(value: ParamValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(int(value)) if abs(value) < 2**53 and value == int(value) else repr(value)
    if isinstance(value, tuple):
        return "{" + ",".join(f"{_print(g)}:{_print(v)}" for g, v in value) + "}"
    return str(value)


class ByMeasure(Mapping[str, T]):
    """A mapping from canonical metric names that any spelling of a name can be looked up in."""

    def __init__(self, values: Mapping[str, T]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> T:
        if name in self._values:
            return self._values[name]
        canonical = self._spell(name)
        if canonical is None:
            raise ResultError(f"{parse(name).name} was not asked for; this result holds {', '.join(self._values)}")
        return self._values[canonical]

    def _spell(self, name: str) -> str | None:
        """The canonical name that this one has, or that it has in another tool, if there is a value for it."""
        for like in (None, *PRESETS):
            with suppress(MetricError):
                measures = parse_all(name, like=like)
                if len(measures) == 1 and measures[0].name in self._values:
                    return measures[0].name
        return None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._values or self._spell(name) is not None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self._values)
