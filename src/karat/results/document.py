"""The JSON document of all verbs, as types: it is written, read and described by a schema from these alone.

Parts that do not apply are left out (UNSET). Numbers have 12 significant digits; null means undefined.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from karat.model.json_data import JsonObject
from karat.results.by_judge import Basis
from karat.results.by_judge_document import JudgeJson, RunByJudgeJson
from karat.results.components import ComponentTables, QueryCell
from karat.results.decision_document import ComparisonJson, PooledJson
from karat.results.json_numbers import EFFECTIVE, Ends, Number
from karat.results.plan_document import PlanJson
from karat.results.record import Provenance, RecordJson, RunRecordJson, SamplingJson
from karat.results.reliability_document import ReliabilityJson

Kind = Literal["evaluation", "comparison", "sweep", "plan", "reliability", "check", "baseline", "stress", "bench"]


class HeadJson(Struct, frozen=True):
    """What any document says of itself; the rest is not looked at."""

    format_version: Any = None
    kind: Any = None
    runs: Any = None


class ErrorJson(Struct, frozen=True):
    """What stands in the place of a result after an error."""

    error: list[str]
    format_version: int
    kind: str = "error"


class ReadingJson(Struct, forbid_unknown_fields=True, frozen=True):
    """The band and the target of a value, and the best value that the gold allows where it is below the target."""

    text: str
    band: str | UnsetType = UNSET
    target: float | UnsetType = UNSET
    strict_target: float | UnsetType = UNSET
    attainable: float | UnsetType = UNSET


class EstimateJson(Struct, forbid_unknown_fields=True, frozen=True):
    """A metric over queries: a mean unless `aggregate` says otherwise."""

    mean: Number
    ci: Ends
    ci_method: str
    n: int
    aggregate: Literal["sum", "geometric mean", "quantile"] | UnsetType = UNSET
    reading: Annotated[
        ReadingJson | UnsetType, Meta(description="What the field makes of the value; rules of thumb, never gates.")
    ] = UNSET
    n_eff: Annotated[Number | UnsetType, Meta(description=EFFECTIVE)] = UNSET
    small: Annotated[
        Literal[True] | UnsetType, Meta(description="In a segment: too few queries have a value for it to be judged.")
    ] = UNSET
    pooled: Annotated[
        PooledJson | UnsetType,
        Meta(description="In a segment: the mean drawn towards those of the field's other segments."),
    ] = UNSET


class SegmentJson(Struct, forbid_unknown_fields=True, frozen=True):
    """A slice of the queries; `small` where no metric has queries enough to be judged in it."""

    by: dict[str, str]
    n: int
    small: bool
    judged_at_10: Annotated[
        Number, Meta(description="The share of judged docs in the top 10, as the metric of that name has it.")
    ] = field(name="judged@10")
    metrics: dict[str, EstimateJson]


class AcrossJson(Struct, forbid_unknown_fields=True, frozen=True):
    """How the means of segments vary, and their unweighted (macro) average."""

    segments: int
    macro_average: Number
    variance: Number


class GateJson(Struct, forbid_unknown_fields=True, frozen=True):
    """One gate for one run, over all queries or in one segment."""

    gate: str
    name: str | None
    level: Literal["error", "warn"]
    run: str
    metric: str
    segment: dict[str, str] | None
    outcome: Literal["pass", "fail", "undecided"]
    why: str
    value: Annotated[Number, Meta(description="The metric, or its difference from `against`.")]
    ci: Ends
    op: Annotated[str, Meta(pattern="^[<>]=?$")]
    threshold: Number
    n: int
    confidence: Annotated[
        Number, Meta(description="Of the interval, which decides: a fail may be judged by another than a pass.")
    ]
    more_queries: Annotated[
        int | None,
        Meta(
            description="How many more would decide an undecided gate with probability .8 if the truth is as observed."
        ),
    ]
    n_eff: Annotated[Number | UnsetType, Meta(description=EFFECTIVE)] = UNSET
    ci_method: str | UnsetType = UNSET
    identical_lists: Annotated[
        bool | UnsetType, Meta(description="Whether both runs return the same lists, which then decides.")
    ] = UNSET
    not_pooled: Annotated[str | UnsetType, Meta(description="Why a segment of a pooled gate is judged by itself.")] = (
        UNSET
    )
    more_queries_range: Annotated[
        list[int | None] | UnsetType,
        Meta(
            description="The same at both ends of the interval that holds the truth with a chance of one half; "
            "null where that reaches the threshold, and no number would be enough."
        ),
    ] = UNSET
    unsteady: Annotated[
        bool | UnsetType,
        Meta(description="Whether another seed of the random draws behind the interval may decide otherwise."),
    ] = UNSET
    against: str | UnsetType = UNSET
    margin: Number | UnsetType = UNSET
    relative: bool | UnsetType = UNSET
    scale: Annotated[
        Literal["ratio"] | UnsetType,
        Meta(
            description="`ratio` where `value`, `ci` and `threshold` are value / that of `against` (geometric means)."
        ),
    ] = UNSET
    judged: Annotated[
        Literal["none", "raw", "corrected"] | UnsetType,
        Meta(description="Where judgments were named: what the figure rests on beside the gold."),
    ] = UNSET


class PartJson(Struct, forbid_unknown_fields=True, frozen=True):
    """A part of the pipeline: measured, or with the field that is missing."""

    measured: bool
    missing: str | UnsetType = UNSET
    figures: dict[str, EstimateJson] | UnsetType = UNSET
    changes: Annotated[
        dict[str, ComparisonJson] | UnsetType, Meta(description="After − before, on the same queries.")
    ] = UNSET
    counts: dict[str, int] | UnsetType = UNSET
    tables: ComponentTables | UnsetType = UNSET
    per_query: dict[str, dict[str, QueryCell]] | UnsetType = UNSET
    notes: list[str] | UnsetType = UNSET


class ComponentsJson(Struct, forbid_unknown_fields=True, frozen=True):
    """The parts of a pipeline, from its run log."""

    k: int
    retriever: PartJson
    reranker: PartJson
    funnel: PartJson
    router: PartJson
    gate: PartJson
    rewriting: PartJson
    no_answer: PartJson
    entities: PartJson
    levels: PartJson


class RunJson(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One run: its metrics by canonical name, what was counted, and its segments."""

    name: str
    facts: JsonObject | UnsetType = UNSET
    gold_level: Annotated[
        Literal["chunk"] | UnsetType, Meta(description="The gold names chunks; left out where it names docs.")
    ] = UNSET
    metrics: dict[str, EstimateJson]
    counts: dict[str, int]
    segments: list[SegmentJson] | UnsetType = UNSET
    across: Annotated[
        dict[str, dict[str, AcrossJson]] | UnsetType, Meta(description="By field of the queries and metric.")
    ] = UNSET
    components: ComponentsJson | UnsetType = UNSET
    by_judge: Annotated[
        RunByJudgeJson | UnsetType, Meta(description="Where judgments were named: the run by gold + judge.")
    ] = UNSET
    notes: list[str] | UnsetType = UNSET
    mismatches: Annotated[
        list[str] | UnsetType, Meta(description="The notes that say why run and gold may not belong together.")
    ] = UNSET
    ranked_lists: Annotated[
        str | UnsetType,
        Meta(description="In a baseline, or a saved result without lists: a digest of all ranked lists."),
    ] = UNSET
    sampling: Annotated[SamplingJson | UnsetType, Meta(description="In a baseline whose queries have weights.")] = UNSET
    record: Annotated[RunRecordJson | UnsetType, Meta(description="In a saved result.")] = UNSET


class IntervalsJson(Struct, forbid_unknown_fields=True, frozen=True):
    """How intervals are found; `auto` widens BCa for few queries (Hesterberg 2015), by name it is plain."""

    confidence: float
    method: str
    resamples: int
    seed: int
    bca: Literal["expanded", "plain"]
    sequential: Annotated[
        bool | UnsetType, Meta(description="Intervals whose ci_method is betting hold at every look.")
    ] = UNSET


class GoldPrintJson(Struct, forbid_unknown_fields=True, frozen=True):
    """The judgments; the counts are missing where an older version wrote the hash alone."""

    hash: str
    queries: int | UnsetType = UNSET
    judgments: int | UnsetType = UNSET


class QueriesPrintJson(Struct, forbid_unknown_fields=True, frozen=True):
    """The queries, with a hash of each field that can change a result."""

    hash: str
    queries: int | UnsetType = UNSET
    fields: dict[str, str] | UnsetType = UNSET


class FingerprintsJson(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What the result rests on, by content."""

    gold: Annotated[GoldPrintJson | UnsetType, Meta(description="Left out where there was no gold.")] = UNSET
    queries: QueriesPrintJson | UnsetType = UNSET
    corpus: Annotated[str | UnsetType, Meta(description="Where gold is by chunk.")] = UNSET
    embeddings: Annotated[
        dict[str, str] | UnsetType, Meta(description="By metric: the model of the embeddings that it looks at.")
    ] = UNSET
    ontologies: Annotated[
        dict[str, str] | UnsetType, Meta(description="By metric: the release of the ontology that it looks at.")
    ] = UNSET
    judge: Annotated[str | UnsetType, Meta(description="Of the judge of what the gold lacks.")] = UNSET
    metrics: dict[str, str]


class BaselineJson(Struct, forbid_unknown_fields=True, frozen=True):
    """The run that others are compared with, and its file if it comes from one."""

    name: str
    file: str | None
    run: Annotated[
        RunJson | UnsetType, Meta(description="In a saved check: the baseline as it was, where it is none of `runs`.")
    ] = UNSET


class DifferenceJson(Struct, forbid_unknown_fields=True, frozen=True):
    """One thing in which two results differ."""

    what: str
    here: str
    baseline: str
    run: Annotated[str | UnsetType, Meta(description="Of several candidates those that differ so.")] = UNSET


class PairsJson(Struct, forbid_unknown_fields=True, frozen=True):
    """The p of every pair of runs by randomised HSD, and the number of draws."""

    draws: int
    p: dict[str, dict[str, Number]]


class CurveJson(Struct, forbid_unknown_fields=True, frozen=True):
    """A metric over the cutoffs k, for all queries or in one segment."""

    run: str
    metric: str
    segment: dict[str, str] | None
    k: list[int]
    mean: list[Number]
    ci: list[Ends]
    n: int
    area: Number
    knee: int | None
    k98: int | None
    judged: Annotated[Basis | UnsetType, Meta(description="What it rests on, where that is not the gold alone.")] = (
        UNSET
    )


class StressQueryJson(Struct, forbid_unknown_fields=True, frozen=True):
    """One query without and with hard negatives."""

    query_id: str
    negatives: list[str]
    negatives_in_top: int
    without: Number
    with_: Number = field(name="with")
    drop: Number


class StressJson(Struct, forbid_unknown_fields=True, frozen=True):
    """A reranker with hard negatives at the top of its input; `drop` is without − with them."""

    metric: str
    drop: Number
    ci: Ends
    ci_method: str
    p: dict[str, Number]
    n: int
    reranker: str
    negatives: str
    negatives_in_top: int
    left_out: Annotated[int, Meta(description="Queries that could be used and were not drawn.")]
    per_query: list[StressQueryJson]


class BenchJson(Struct, forbid_unknown_fields=True, frozen=True):
    """How a benchmark was run: docs per query, queries at once, queries before timing, and the version of Karat."""

    k: int
    workers: int
    warmup: int
    karat: str


class LanguageJson(Struct, forbid_unknown_fields=True, frozen=True):
    """One system in one language, and its difference from the baseline."""

    mean: Number
    ci: Ends
    n: int
    delta: Number | UnsetType = UNSET
    p_adjusted: Number | UnsetType = UNSET
    significant: bool | UnsetType = UNSET


class SystemJson(Struct, forbid_unknown_fields=True, frozen=True):
    """One system over all languages, and the difference of its average from the baseline."""

    system: str
    languages: dict[str, LanguageJson]
    variance: Number
    lowest: str
    average: Annotated[Number | UnsetType, Meta(description="Of the languages' means; case files have none.")] = UNSET
    delta: Number | UnsetType = UNSET
    ci: Ends | UnsetType = UNSET
    p: Number | UnsetType = UNSET
    significant: bool | UnsetType = UNSET


class LanguagesJson(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One metric by system and language."""

    metric: str
    baseline: str | None
    alpha: float
    average: str | UnsetType = UNSET
    scale: Literal["ratio"] | UnsetType = UNSET
    family: Annotated[str | UnsetType, Meta(description="What p of the languages was adjusted over.")] = UNSET
    systems: list[SystemJson]


class DatasetJson(Struct, forbid_unknown_fields=True, frozen=True):
    """One dataset of a benchmark, with the run logs and the evaluation or comparison of its runs."""

    name: str
    version: str
    logs: dict[str, str]
    notes: list[str]
    result: DocumentJson


class DocumentJson(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What --json and --save write. Numbers have 12 significant digits; null means undefined."""

    format_version: Literal[2]
    kind: Kind
    karat: Annotated[str | UnsetType, Meta(description="In a baseline: the version that wrote it.")] = UNSET
    provenance: Annotated[Provenance | UnsetType, Meta(description="In a saved result.")] = UNSET
    error: Annotated[
        list[str] | UnsetType, Meta(description="Why nothing was decided; the document then holds nothing else.")
    ] = UNSET
    conventions: Annotated[JsonObject | UnsetType, Meta(description="The choices that differ from the defaults.")] = (
        UNSET
    )
    intervals: IntervalsJson | UnsetType = UNSET
    runs: list[RunJson] | UnsetType = UNSET
    fingerprints: FingerprintsJson | UnsetType = UNSET
    judge: Annotated[JudgeJson | UnsetType, Meta(description="Where judgments were named.")] = UNSET
    verdict: Annotated[
        Literal["SHIP", "BLOCK", "INCONCLUSIVE"] | UnsetType | None,
        Meta(description="Over the gates at level error; null where an error came before any verdict."),
    ] = UNSET
    why: Annotated[str | UnsetType, Meta(description="One sentence for the verdict.")] = UNSET
    dataset: str | UnsetType = UNSET
    candidates: Annotated[list[str] | UnsetType, Meta(description="The runs that the gates judged.")] = UNSET
    gates: list[GateJson] | UnsetType = UNSET
    baseline: BaselineJson | UnsetType = UNSET
    comparisons: list[ComparisonJson] | UnsetType = UNSET
    comparisons_by_judge: Annotated[
        dict[Basis, list[ComparisonJson]] | UnsetType,
        Meta(description="Over all queries, by gold + judge (raw) and corrected, where judgments were named."),
    ] = UNSET
    pairs: Annotated[dict[str, PairsJson] | UnsetType, Meta(description="By metric.")] = UNSET
    notes: list[str] | UnsetType = UNSET
    warnings: Annotated[
        list[str] | UnsetType, Meta(description="What to know of the data before believing the figures.")
    ] = UNSET
    forced: Annotated[
        list[DifferenceJson] | UnsetType,
        Meta(description="What differs between the results and was overridden by force."),
    ] = UNSET
    differences: Annotated[
        list[DifferenceJson] | UnsetType, Meta(description="What differs between the systems under test.")
    ] = UNSET
    stress: StressJson | UnsetType = UNSET
    curves: list[CurveJson] | UnsetType = UNSET
    plan: PlanJson | UnsetType = UNSET
    reliability: ReliabilityJson | UnsetType = UNSET
    bench: Annotated[BenchJson | UnsetType, Meta(description="How a benchmark was run.")] = UNSET
    datasets: list[DatasetJson] | UnsetType = UNSET
    languages: Annotated[
        LanguagesJson | UnsetType,
        Meta(description="Of a benchmark over several languages or datasets: one metric by system and language."),
    ] = UNSET
    languages_secondary: Annotated[
        list[LanguagesJson] | UnsetType, Meta(description="The same for each other metric, without tests.")
    ] = UNSET
    values: Annotated[
        dict[str, list[Number]] | UnsetType,
        Meta(description="In a baseline: by query, the values in the order of the run's metrics."),
    ] = UNSET
    record: Annotated[RecordJson | UnsetType, Meta(description="In a saved result: what its runs share.")] = UNSET
