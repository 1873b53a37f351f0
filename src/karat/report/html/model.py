"""The page as plain data: `Page` is what the template writes, `ScriptData` in it what the scripts read.

Numbers come twice where a script draws them: as a value for charts and sorting, and as text, so that only
`report/figures.py` decides how a number is written. `Column` carries that rule to values of single queries.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from karat.report.marks import Tone  # noqa: TC001 - msgspec reads the annotations
from karat.results.remarks import Remark  # noqa: TC001 - msgspec reads the annotations

Outcome = Literal["pass", "fail", "undecided"]


class Estimate(Struct, frozen=True, array_like=True):
    """A metric of a run, over all queries or in a segment."""

    value: float | None
    low: float | None
    high: float | None
    text: str
    ends: str
    n: int


class Change(Struct, frozen=True):
    """A metric of a run against the baseline, over all queries or in a segment."""

    candidate: str
    metric: str
    segment: str | None
    delta: float | None
    neutral: float
    """The Δ of no change: 0, or 1 where Δ is a ratio."""
    low: float | None
    high: float | None
    text: str
    ends: str
    pooled: str
    """The pooled Δ of a segment; empty where there is none."""
    p: str
    """`p 0.012, adjusted 0.031`; empty where nothing was tested."""
    outcome: str
    """What was decided: `better`, `no significant difference`, `too few queries`, …"""
    statement: str
    more_queries: str
    """Over all queries: how many of them would detect a difference that is not significant."""
    tone: Tone
    n: int
    shared: str = ""
    """Both levels over the queries that the runs share, where their own levels are over more."""


class Column(Struct, frozen=True):
    """A metric as the scripts need it."""

    name: str
    value_name: str
    """What one query's value is called: `latency` for `latency.p90`."""
    higher: bool | None
    digits: int
    least: float
    """Smaller values get two significant digits instead."""
    unit: str
    scale: str
    """What values that may share an axis have in common: nothing to say of shares, a unit, or the metric itself."""
    by_gold: bool
    """Whether it looks at judgments, so that unjudged docs may have lowered it."""


class SegmentRow(Struct, frozen=True):
    """A segment with the estimates of all runs, by run and metric."""

    name: str
    fields: dict[str, str]
    n: int
    too_few: list[str]
    """The metrics that too few of its queries have a value of."""
    values: dict[str, dict[str, Estimate]]
    pooled: dict[str, dict[str, str]]
    """The pooled estimates, with their intervals."""


class CurveLine(Struct, frozen=True):
    """A metric of one run at growing cutoffs."""

    run: str
    metric: str
    k: list[int]
    mean: list[float | None]
    text: list[str]
    low: list[float | None]
    high: list[float | None]
    enough: int | None
    """The smallest cutoff that reaches 98% of the deepest value."""


class RankCounts(Struct, frozen=True):
    """How many of a run's relevant docs were found at which ranks; the last count is of those not returned."""

    run: str
    gold: int
    counts: list[int]


class QueryColumns(Struct, frozen=True):
    """All queries as columns; values by run, metric and query; lists by run and query."""

    ids: list[str]
    texts: list[str]
    fields: dict[str, list[str | list[str]]]
    """By field: the value of each query, or its values, as segments have them."""
    values: list[list[list[float | int | None]]]
    lists: list[list[tuple[list[int], str | list[float | int | None], list[float | int | None]]]]
    """Docs by number, grades (as one text where all have one digit, `-` for not judged) and scores."""
    gold: list[list[tuple[int, float | int, list[int | None], dict[int, str]]]]
    """Relevant docs by number, with grade, the rank at which each run has them, and by run where one got lost.

    Empty where there is no gold, or no run holds its lists.
    """
    unscored: list[int]
    """The places of queries that no metric of relevance counts."""
    lack: str
    """What these lack: an answer, or gold."""


class DocTexts(Struct, frozen=True):
    """Docs by number: their ids, and the texts of those that have one."""

    ids: list[str]
    texts: dict[str, str]


class ScriptData(Struct, frozen=True):
    """What the scripts read."""

    runs: list[str]
    base: str | None
    candidates: list[str]
    gated: bool
    """Whether gates judge the candidates."""
    leading: list[str]
    """The metrics that say most beside the leading one, one of each kind first."""
    opponents: dict[str, str]
    """By run: the run that it is shown against."""
    titles: dict[str, str]
    """By run: the title of the browser's window."""
    primary: str
    k: int
    metrics: list[Column]
    estimates: dict[str, dict[str, Estimate]]
    """By metric and run, over all queries."""
    best: dict[str, list[str]]
    """By metric: the runs that are best by it."""
    changes: list[Change]
    segments: list[SegmentRow]
    curves: list[CurveLine]
    rank_labels: list[str]
    rank_counts: list[RankCounts]
    listed: list[str]
    """The runs that hold their lists."""
    credited_once: bool
    """Whether a doc counts at its first chunk alone."""
    tradeoffs: list[str]
    queries: QueryColumns
    docs: DocTexts
    findings: dict[str, list[tuple[str, list[int]]]]
    """By run: each finding of its diagnosis, and the places of the queries that it concerns."""


class Strip(Struct, frozen=True):
    """An interval and a threshold on one line: places on a strip of 180 units."""

    low: float
    high: float
    value: float
    threshold: float
    start: float
    width: float


class GateRow(Struct, frozen=True, kw_only=True):
    """A gate for one run, over all queries or in one segment."""

    gate: str
    text_parts: tuple[str, str, str]
    """The gate before its condition, the condition, and what follows."""
    name: str
    level: str
    run: str
    where: str
    link: str
    """The queries of the segment that it is judged in; empty where the page cannot list them."""
    outcome: Outcome
    mark: str
    note: str
    value: float | None
    text: str
    ends: str
    limit: str
    n: int
    n_note: str
    """Which queries these are, where they are more than those with gold."""
    baseline: str
    """Of a gate on a value: the baseline's name and its value."""
    strip: Strip | None
    rows: list[GateRow] = []
    """The segments of a gate for every segment."""


class MetricRow(Struct, frozen=True):
    """A metric with its meaning, the estimates of all runs and the changes of all candidates."""

    name: str
    title: str
    tells: str
    formula: str
    use: str
    caution: str
    cites: str
    params: str
    n: int
    estimates: list[tuple[str, Estimate, bool, str]]
    """Run, estimate, whether it is the best, and what the field makes of it."""
    changes: list[tuple[str, Change | None]]


class Tile(Struct, frozen=True):
    """One of the few figures on the first screen."""

    metric: str
    tells: str
    text: str
    ends: str
    change: Change | None
    gate: str
    """The gate that it fails."""
    reading: str = ""
    """What the field makes of the value."""


class FindingText(Struct, frozen=True):
    """A finding of the diagnosis."""

    title: str
    subject: str
    evidence: list[str]
    cause: str
    advice: list[str]
    queries: list[tuple[str, str]]
    """The first of them, each with its link."""
    count: int
    link: str
    """All of them in the table of queries."""


class DiagnosisText(Struct, frozen=True):
    """The diagnosis of one run: what was found, and which rules could not say anything."""

    run: str
    lead: str
    """What to check first, and how many findings there are."""
    findings: list[FindingText]
    undecided: list[tuple[str, list[str]]]
    """Why, and the rules that the queries do not decide."""
    skipped: list[tuple[str, list[str]]]
    """What is missing, and the rules that need it."""
    notes: list[str]
    """Which values rest on a judge's grades."""


class RunText(Struct, frozen=True):
    """What the first screen says of one run."""

    name: str
    headline: str
    sentence: str
    tiles: list[Tile]
    fix: str
    """The first finding of its diagnosis, where a gate blocks the run."""


class FunnelStage(Struct, frozen=True):
    """How many relevant docs ended at a stage."""

    label: str
    count: int
    share: float
    good: bool


class Funnel(Struct, frozen=True):
    """Where the relevant docs of one run went, stage by stage."""

    run: str
    stages: list[FunnelStage]


class PartRow(Struct, frozen=True):
    """A figure of a component."""

    name: str
    value: float | None
    text: str
    ends: str
    n: str


class PartChange(Struct, frozen=True):
    """What a component changes: before and after on the same queries."""

    name: str
    before: str
    after: str
    delta: float | None
    text: str
    ends: str
    p: str
    tone: Tone


class PartText(Struct, frozen=True):
    """One component of one run."""

    run: str
    title: str
    rows: list[PartRow]
    changes: list[PartChange]
    notes: list[str]
    missing: str
    counts: str
    sides: tuple[str, str] = ("before", "after")
    """What the two values of a change are."""


class JudgedTable(Struct, frozen=True):
    """Figures of one run, or its differences, by the gold alone, with a judge's grades, and corrected."""

    run: str
    title: str
    heads: list[str]
    rows: list[tuple[str, list[tuple[str, str]]]]
    """Metric, and for each head but the first the text and its interval."""
    lines: list[str]


class Page(Struct, frozen=True, kw_only=True):
    """Everything that the template writes."""

    title: str
    verdict: str
    verdict_of: str
    """What the verdict is of, where the page shows several runs."""
    icon: str
    why: str
    scope: str
    prints: list[tuple[str, str]]
    """The fingerprints on the first screen."""
    tally: list[tuple[str, str]]
    forced: list[str]
    remarks: list[Remark]
    """What to know of the data before believing the figures."""
    sections: list[tuple[str, str]]
    stacks: list[list[str]]
    """The cards of the overview, in two columns of about the same height."""
    several: bool
    ranked: bool
    """Whether there are enough runs for a leaderboard."""
    has_misses: bool
    """Whether there is gold that ranked lists can miss."""
    gates: list[GateRow]
    gates_of_several_runs: bool
    runs: list[RunText]
    metrics: list[MetricRow]
    change_runs: list[str]
    family: str
    """What p was adjusted over."""
    facts: list[tuple[str, str]]
    run_names: list[str]
    run_facts: list[tuple[str, list[str]]]
    funnels: list[Funnel]
    parts: list[PartText]
    diagnoses: list[DiagnosisText]
    judged: list[JudgedTable]
    """Empty where nobody judged what the gold lacks."""
    judged_lines: list[str]
    calibration: JudgedTable | None
    """What the judge is worth beside people."""
    footer: str
    script: ScriptData
