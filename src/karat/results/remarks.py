"""What a reader must know of the data behind a result before believing its numbers."""

from __future__ import annotations

import math
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from karat.metrics.grammar import choose_primary, parse
from karat.model.policy import RELEVANT, earns_gain, is_relevant
from karat.read.cases import PUBLISHABLE
from karat.records import dataclass
from karat.results.asked import describe_undefined, find_unequal_answers
from karat.results.depths import describe_depths
from karat.results.figures import figure
from karat.results.words import independent_text, plural, queries_text, unequal_text, units_text
from karat.stats.power import detectable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.results.result import RunResult
    from karat.stats.resample import Units

CASES = "cases"
"""Among the counts of a run: the cases of the file that is its gold."""


@dataclass(frozen=True)
class Remark:
    """What to know of the data before believing the figures; serious ones are warnings."""

    text: str
    serious: bool
    of_gate: bool = False
    """Whether it is about a gate: such a one is in every output."""


FEW = 25
"""Of fewer queries every output says that they show little."""
BY_GOLD = "figures and comparisons are by the gold only unless they say otherwise; gates name the figure they use"


def remarks_of(
    runs: Sequence[RunResult], *, beside: Sequence[RunResult] = (), of_more: bool = False
) -> tuple[Remark, ...]:
    """What outputs say of the data behind the figures of these runs: what is odd about it, and what nobody judged."""
    return (
        *data_remarks(runs, beside=beside, of_more=of_more),
        *(Remark(text, False) for text in describe_unjudged(runs)),
    )


def serious_remarks(
    runs: Sequence[RunResult], *, beside: Sequence[RunResult] = (), of_more: bool = False
) -> tuple[Remark, ...]:
    """The warnings among what is said of the data of these runs."""
    remarks = {run.name: warnings(run) for run in runs}
    return (
        *(Remark(text, True) for text in _few_cases(runs)),
        *(Remark(text, True) for text in _say_once(remarks, of_all=None if of_more else "all runs: ")),
        *(Remark(text, True) for text in _say_once({run.name: _gold_warnings(run) for run in runs}, of_all="")),
        *(Remark(text, True) for text in describe_depths([*beside, *runs])),
        *(Remark(text, True) for text in _by_metrics(find_unequal_answers([*beside, *runs]))),
    )


def data_remarks(
    runs: Sequence[RunResult], *, beside: Sequence[RunResult] = (), of_more: bool = False
) -> tuple[Remark, ...]:
    """What is odd about the data of these runs, and how their figures came to be.

    A text that holds for several runs is said once; a note that all of them have is about what they share: the gold.
    `beside` are runs that they are compared with, of which nothing but the depth of their lists is said; `of_more`
    says that the outputs show further runs, so that what holds for these does not hold for each.
    """
    mismatches = {text for run in runs for text in run.mismatches}
    unequal = find_unequal_answers([*beside, *runs])
    notes = {
        run.name: [
            text for text in run.data_notes if text not in {*mismatches, *(describe_undefined(run, m) for m in unequal)}
        ]
        for run in runs
    }
    return (
        *serious_remarks(runs, beside=beside, of_more=of_more),
        *(Remark(text, False) for text in [BY_GOLD] if any(run.by_judge is not None for run in runs)),
        *(Remark(text, False) for text in dict.fromkeys(map(describe_units, runs)) if text),
        *(Remark(text, False) for text in few_queries(runs)),
        *(Remark(text, False) for text in dict.fromkeys(map(describe_days, runs)) if text),
        *(Remark(text, False) for text in _say_once(notes, of_all="")),
    )


def describe_size(runs: Sequence[RunResult]) -> str:
    """Over how many queries the figures are: those that count, or of metrics that need no gold those with a value."""
    sizes = {run.counts.get("queries", len(run.query_ids)) for run in runs}
    names = {name for run in runs for name in run.values}
    if names and all(parse(name).over_whole_run for name in names):
        sizes = {n for run in runs for n in run.n.values()}
    least, most = min(sizes, default=0), max(sizes, default=0)
    return queries_text(most) if least == most else f"{least:,}–{most:,} queries"


def _by_metrics(statements: Mapping[str, str]) -> list[str]:
    """Each statement with the metrics that it holds for before it."""
    metrics: dict[str, list[str]] = {}
    for metric, statement in statements.items():
        metrics.setdefault(statement, []).append(metric)
    return [f"{', '.join(names)}: {statement}" for statement, names in metrics.items()]


def _say_once(texts: Mapping[str, Sequence[str]], *, of_all: str | None) -> list[str]:
    """Each text with the names of its runs before it, or `of_all` where all have it; a single run has no name.

    Without `of_all` every text has names: there are other runs that it may not hold for.
    """
    runs: dict[str, list[str]] = {}
    for run, mine in texts.items():
        for text in dict.fromkeys(mine):
            runs.setdefault(text, []).append(run)
    if len(texts) == 1 and of_all is not None:
        return list(runs)
    return [
        (of_all if of_all is not None and len(some) == len(texts) else f"{', '.join(some)}: ") + text
        for text, some in runs.items()
    ]


def describe_units(run: RunResult) -> str:
    """How many independent queries say as much as those of the primary metric, by conversations or weights."""
    units = _primary_units(run)
    if units.plain or not len(units):
        return ""
    count = len(units.unit)
    causes = (len(units) < count, bool((units.weight != units.weight[0]).any()))
    words = ("queries of one conversation may be alike", "weights differ")
    cause = " and ".join(word for word, holds in zip(words, causes, strict=True) if holds)
    # Kish's number takes all queries of a conversation for one.
    members = f" in {units_text(len(units), 'conversation')} count as at least" if causes[0] else " count as"
    return f"{cause}: {queries_text(count)}{members} {independent_text(units.effective)}"


def _primary(run: RunResult) -> str:
    return choose_primary([n for n in run.values if "gold" in parse(n).needs] or list(run.values))


def _primary_units(run: RunResult) -> Units:
    """The units of the queries that the primary metric has a value for."""
    defined = ~np.isnan(run.values[_primary(run)]) if run.values else np.ones(len(run.query_ids), dtype=bool)
    return run.sampling.units(list(compress(run.query_ids, defined)))


def describe_days(run: RunResult) -> str:
    """That intervals hold at every look, where they do, and over how many days of queries; else why none does."""
    days = run.sampling.added
    if days is None:
        return ""
    if not (units := _primary_units(run)).alike:
        return f"sequential: with {unequal_text(units)}, intervals hold for one look only"
    count = plural(len({days[q] for q in run.query_ids if q in days}), "day")
    return (
        f"sequential: intervals of bounded means hold however often you look (anytime-valid: betting confidence "
        f"sequences over {count} of queries); other intervals hold for one look"
    )


def warnings(run: RunResult) -> list[str]:
    """What a reader of the means must know of the run before believing them."""
    c = run.counts
    out = [text] if (text := _nothing_found(run)) else []
    out += run.mismatches
    if c.get("no_answer") and not c.get("queries"):
        out.append("all queries are marked no_answer, and metrics that need gold leave them out")
    if c.get("missing"):
        scope = ": left out" if run.policy.missing == "skip" else ""
        out.append(f"{plural(c['missing'], 'query', 'queries')} of the gold without results{scope}")
    out += _describe_empty(run)
    if c.get("without_gold") and (scope := _left_out(run)):
        out.append(f"{plural(c['without_gold'], 'query', 'queries')} without gold: {scope}")
    if c.get("duplicates"):
        out.append(f"{plural(c['duplicates'], 'repeated doc', 'repeated docs')}: only the best place counts")
    return out


def _gold_warnings(run: RunResult) -> list[str]:
    empty = run.counts.get("empty_gold", 0)
    scope = ": left out" if run.policy.empty_gold == "skip" else ""
    out = [f"{plural(empty, 'query', 'queries')} without any relevant doc in the gold{scope}"] if empty else []
    for grade, names in _out_of_reach(run).items():
        text = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        out.append(f"no doc of the gold has a grade {grade}, so {text} can only be 0: check the grades")
    return out


def _out_of_reach(run: RunResult) -> dict[str, list[str]]:
    """Metrics that are 0 whatever is returned, by the grade that they count and the gold does not have."""
    grades = run.rankings.gold_grade if run.rankings is not None else np.zeros(0)
    best = float(grades.max(initial=-math.inf))
    out: dict[str, list[str]] = {}
    for name in run.values if len(grades) else ():
        measure = parse(name)
        if not _of_relevance(name):
            continue
        rel = measure.param("rel") if any(p.name == "rel" for p in measure.metric.params) else None
        if rel is None and not earns_gain(best):
            out.setdefault("above 0", []).append(name)
        elif rel is not None and not is_relevant(best, rel):
            out.setdefault(f"of {rel:g} or more", []).append(name)
    return out


def few_cases(run: RunResult) -> int | None:
    """How many cases a run was measured with, where these are too few for a publication."""
    count = run.counts.get(CASES)
    return count if count is not None and count < PUBLISHABLE else None


def _few_cases(runs: Sequence[RunResult]) -> list[str]:
    """That there are too few cases to publish; of a single run, which difference from a target they can detect."""
    count = next((n for run in runs if (n := few_cases(run)) is not None), None)
    if count is None:
        return []
    text = f"{plural(count, 'case')}, not for publication: at least {PUBLISHABLE} are needed"
    least = _detectable_level(runs[0]) if len(runs) == 1 else ""
    return [f"{text}{least}"]


def few_queries(runs: Sequence[RunResult]) -> list[str]:
    """That there are too few queries to show more than large differences; of cases more is said."""
    run = min(runs, key=lambda run: _primary_units(run).effective, default=None)
    if run is None or any(few_cases(run) is not None for run in runs):
        return []
    units = _primary_units(run)
    few = round(units.effective)
    if not 0 < few < FEW:
        return []
    text = queries_text(few) if units.plain else plural(few, "independent query", "independent queries")
    if units.plain and few < len(run.query_ids):
        text += f" with a value of {_primary(run)}"
    return [f"only {text}: so few can only show large differences"]


def _detectable_level(run: RunResult) -> str:
    """How far from a target the mean of the primary metric must be for these queries to show it."""
    metric = choose_primary(list(run.values))
    values = run.values[metric][~np.isnan(run.values[metric])]
    least = detectable(len(values), float(values.std(ddof=1))) if len(values) > 1 else 0.0
    if not least > 0.0 or parse(metric).aggregate != "mean":
        return ""
    low, high = parse(metric).metric.bounds
    if high is not None and least > high - low:
        return f"; they can tell {metric} from no target, however far away"
    return f"; they can tell {metric} from a target that is {figure(metric, least).short} away"


def _describe_empty(run: RunResult) -> list[str]:
    """For how many queries the run has an empty list, and of how many conventions left nothing."""
    judged = "" if run.is_without_gold else "judged "
    empty, by = _empty_lists(run), _after_selection(run)
    own = run.counts.get("empty_before", 0) if by else empty
    counts = (("", own), (by, empty - own))
    return [
        f"nothing was returned for {plural(n, f'{judged}query', f'{judged}queries')}{cause}"
        for cause, n in counts
        if n > 0
    ]


def _empty_lists(run: RunResult) -> int:
    """Queries with gold that are in the run and returned nothing."""
    if run.rankings is None or not run.counts.get("queries"):
        return 0
    missing = run.counts.get("missing", 0) if run.policy.missing == "zero" else 0
    return max(0, int((run.rankings.returned == 0).sum()) - missing)


def _after_selection(run: RunResult) -> str:
    """The conventions that leave docs out, and so may have emptied a list."""
    names = [each.name for each, _ in run.policy.changes() if each.selects]
    return f" by the {'convention' if len(names) == 1 else 'conventions'} {' and '.join(names)}" if names else ""


def _left_out(run: RunResult) -> str:
    """Which metrics leave out queries without gold; nothing where none does."""
    whole = [parse(name).over_whole_run for name in run.values]
    return "" if all(whole) else "left out of metrics that need gold" if any(whole) else "left out"


def _nothing_found(run: RunResult) -> str:
    """Ids of two kinds make every value 0, and so do cutoffs above all relevant docs, which are in order.

    A run that shares no query with the gold says so itself.
    """
    if run.rankings is not None and run.rankings.hits(RELEVANT).any():
        return ""
    hopeless = {n for names in _out_of_reach(run).values() for n in names}
    names = [n for n in run.values if _of_relevance(n) and n not in hopeless]
    answered = run.counts.get("queries", 0) > run.counts.get("missing", 0)
    returned = run.rankings is None or bool((run.rankings.returned > 0).any())
    if not names or not answered or not returned or any(np.nan_to_num(run.values[n]).any() for n in names):
        return ""
    if run.judged is not None and not np.nan_to_num(run.judged).any():
        return "no judged doc was returned for any query: check the ids"
    text = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return f"no relevant doc was found for any query ({text}: 0 throughout): check the ids"


def _of_relevance(name: str) -> bool:
    metric = parse(name).metric
    return metric.higher_is_better is True and metric.bounds == (0.0, 1.0) and metric.empty_gold == 0.0


def describe_unjudged(runs: Sequence[RunResult]) -> list[str]:
    """How many of the top docs nobody judged: they count as not relevant, and not for all runs alike."""
    if not any(run.counts.get("unjudged_at_10") for run in runs):
        return []
    text = ", ".join(f"{run.name} {run.counts.get('unjudged_at_10', 0):,}{_of_top(run)}" for run in runs)
    return [f"docs in the top 10 that nobody judged (counted as not relevant): {text}"]


def _of_top(run: RunResult) -> str:
    """How many docs the lists hold in their top 10; nothing where a file does not say."""
    return f" of {int(np.minimum(run.rankings.returned, 10).sum()):,}" if run.rankings is not None else ""
