"""The shape of `karat.yaml`, and its JSON Schema; which keys of a gate go together is in `gates/language.py`."""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    InstanceOf,
    PlainSerializer,
    Tag,
    create_model,
    field_validator,
)

from karat.config.options import all_options, stated_options
from karat.errors import KaratError
from karat.gates.gate import Gate
from karat.gates.kinds import KINDS
from karat.gates.language import parse_gate
from karat.judge.scale import PRESETS, Scale, read_scale
from karat.metrics.grammar import parse_all
from karat.model.json_data import JsonObject
from karat.stats.defaults import ALPHA

if TYPE_CHECKING:
    from karat.model.option import Kind, Option

    RunFormat = str
    ScaleName = str
else:
    RunFormat, ScaleName = Literal[all_options()["run_format"].choices], Literal[tuple(PRESETS)]


class Part(BaseModel):
    """A part of the file: unknown keys are errors, and nothing changes once it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, str_strip_whitespace=True)


def _expand(text: str) -> str:
    """The text with `~/` and, from the environment, `${NAME}` and `${NAME:-else}` replaced."""
    if bare := re.search(r"(?:^|/)\$(\w+)", text):
        raise ValueError(f"found ${bare[1]} in {text!r}; write ${{{bare[1]}}} for an environment variable")

    def value(match: re.Match[str]) -> str:
        name, other = match["name"], match["other"]
        if name in os.environ:
            return os.environ[name]
        if other is not None:
            return other
        raise ValueError(f"environment variable {name} is not set; set it, or write ${{{name}:-a default}}")

    replaced = re.sub(r"\$\{(?P<name>\w+)(?::-(?P<other>[^}]*))?\}", value, text)
    return os.path.expanduser(replaced) if replaced.startswith("~/") else replaced


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _size(memory: str | int) -> str | int:
    from karat.model.engine import bytes_of

    try:
        bytes_of(memory)
    except KaratError as error:
        raise ValueError(str(error)) from None
    return memory


def _shape(runs: Any) -> str:
    return "one" if isinstance(runs, str) else "listed" if isinstance(runs, list) else "named"


Place = Annotated[
    str, AfterValidator(_expand), Field(min_length=1, description="${NAME} and ~/ are replaced from the environment.")
]
"""A path or an address: the only texts in which environment variables are replaced."""


Runs = Annotated[
    Annotated[dict[str, Place], Tag("named")] | Annotated[list[Place], Tag("listed")] | Annotated[Place, Tag("one")],
    Discriminator(_shape),  # so that what is wrong is told of one shape, not of all
]


_TYPES: dict[Kind, Any] = {
    "address": Place,
    "fields": Annotated[list[str], BeforeValidator(_as_list, json_schema_input_type=str | list[str])],
    "number": Annotated[float, Field(allow_inf_nan=False)],
    "path": Place,
    "paths": Annotated[list[Place], BeforeValidator(_as_list, json_schema_input_type=str | list[str])],
    "share": Annotated[float, Field(gt=0, lt=1)],
    "size": Annotated[str | int, AfterValidator(_size)],
    "yes": bool,
}
"""What a key of the file takes, by what its option holds."""


def key_of(option: Option) -> tuple[Any, Any]:
    """The type and the field of an option's key."""
    if option.kind == "choice":
        kind: Any = Literal[option.choices]
    elif option.kind == "count":
        kind = Annotated[int, Field(ge=option.least)]
    elif option.kind == "text":
        kind = Annotated[str, Field(min_length=option.least)]
    else:
        kind = _TYPES[option.kind]
    return kind | None, Field(option.default, description=option.help)


def _block(name: str, base: type[Part]) -> Any:
    """A block of the file: the keys of `base`, and a key for each option that belongs there."""
    block = f"{name.lower()}."
    mine = {o.key.removeprefix(block): key_of(o) for o in stated_options() if o.key.startswith(block)}
    return create_model(name, __base__=base, __doc__=base.__doc__, **mine)  # type: ignore[call-overload]


class _Dataset(Part):
    """Gold, and what is known of queries and docs."""

    name: str = Field("", description="A name for reports.")
    qrels: Place = Field(description="Gold judgments, in any format that Karat reads.")


class _Segments(Part):
    """How the queries are sliced."""

    if TYPE_CHECKING:
        by: list[str] | None = None


class _Confidence(Part):
    """How sure: the choices behind intervals."""

    correction: Literal["none", "bonferroni"] = Field(
        "bonferroni", description="A fail of a gate for every segment is corrected for their number; none: it is not."
    )
    tests: bool = Field(True, description="Paired tests of every metric against the baseline.")


class RiskRates(Part):
    """The error rates of gates. Unless stated, each is half of what the intervals leave out: 2.5% of 95%."""

    ship: float = Field(ALPHA / 2, gt=0, lt=0.5, description="Of passing a gate whose true value is just not enough.")
    block: float = Field(ALPHA / 2, gt=0, lt=0.5, description="Of failing a gate whose true value is just enough.")


class _Conventions(Part):
    """Choices of alignment; see `karat evaluate --help`."""


class _Engine(Part):
    """How the work is done; nothing here changes a result."""


if TYPE_CHECKING:  # what other modules read of these blocks by name; options are read by `config_options`
    Dataset = _Dataset
    Segments = _Segments
    Confidence = _Confidence
    Conventions = _Conventions
    Engine = _Engine
else:
    Dataset = _block("Dataset", _Dataset)
    Segments = _block("Segments", _Segments)
    Confidence = _block("Confidence", _Confidence)
    Conventions = _block("Conventions", _Conventions)
    Engine = _block("Engine", _Engine)


class OutputPlaces(Part):
    """Files to write; folders are made where they are missing."""

    report_url: Place | None = Field(None, description="Where the report can be read; linked from the comment.")

    def places(self) -> dict[str, str]:
        """The files by the names of their formats."""
        names = {field.alias or name: name for name, field in type(self).model_fields.items() if name != "report_url"}
        return {key: place for key, name in names.items() if (place := getattr(self, name)) is not None}


def _outputs() -> type[OutputPlaces]:
    """A key for each output format; they are found by name, since reports are made above this room."""
    formats = import_module("karat.report.formats").all_formats().values()
    keys = {f"{one.name}_": (Place | None, Field(None, alias=one.name, description=one.help)) for one in formats}
    return create_model("Outputs", __base__=OutputPlaces, __doc__=OutputPlaces.__doc__, **keys)  # type: ignore[call-overload, no-any-return]


if TYPE_CHECKING:
    Outputs = OutputPlaces
else:
    Outputs = _outputs()


class Diagnosis(Part):
    """What counts as low or high in `karat diagnose`."""

    thresholds: dict[str, float] = Field(
        default_factory=dict, description="Such as recall@5.low: 0.6; all of them are in docs/diagnosis.md."
    )


class Bench(Part):
    """What `karat bench` runs over the dataset."""

    retrievers: list[str | JsonObject] | dict[str, str | JsonObject] = Field(
        description="Such as bm25, dense(model=…), or {kind: http, name: ours, url: …}; a mapping names them."
    )
    k: int = Field(100, ge=1, description="How many docs each query asks for.")
    out: Place = Field("runs", description="The folder of the run logs.")
    baseline: str | None = Field(None, description="The run that others are compared with; the first unless named.")
    chunks: list[str] = Field(default_factory=list, description="Cut the corpus anew: WORDS:OVERLAP, or asis.")
    workers: int = Field(1, ge=1, description="Queries asked at once.")
    warmup: int = Field(5, ge=0, description="Queries asked before time is taken.")


class Components(Part):
    """How the parts of the pipeline are measured; `components: true` takes the defaults."""

    k: int = Field(5, ge=1, description="How many docs the pipeline delivers.")
    threshold: float | None = Field(None, description="From this score an item counts as evidence.")


class StatisticalAnalysis(Part):
    """The part of `retrieval_metrics` on how sure the figures are."""

    confidence_intervals: bool = True
    significance_testing: bool = True
    alpha_level: float = Field(ALPHA, gt=0, lt=1)


class Performance(Part):
    """The part of `retrieval_metrics` on how the work is done."""

    batch_size: int = Field(100, ge=1)
    caching_enabled: bool = True
    parallel_processing: bool = True


class RetrievalMetrics(Part):
    """The same choices as other tools write them."""

    enabled_metrics: list[str] = Field(default_factory=list)
    graded_relevance: bool = Field(False, description="false: grades are binary.")
    statistical_analysis: StatisticalAnalysis = Field(default_factory=StatisticalAnalysis)
    performance: Performance = Field(default_factory=Performance)

    @field_validator("enabled_metrics")
    @classmethod
    def _known(cls, names: list[str]) -> list[str]:
        return [name for name in names if _measures(name)]


def _measures(names: Any) -> Any:
    try:
        return parse_all(names)
    except KaratError as error:
        raise ValueError(str(error)) from None


def _gate(source: Any) -> Gate:
    try:
        return parse_gate(source)
    except KaratError as error:
        raise ValueError(str(error)) from None


def _scale(source: Any) -> Scale:
    try:
        return read_scale(source)
    except KaratError as error:
        raise ValueError(str(error)) from None


def _segments(value: Any) -> Any:
    return {"by": [value] if isinstance(value, str) else value} if isinstance(value, (str, list)) else value


def _components(value: Any) -> Any:
    return ({} if value else None) if isinstance(value, bool) else value


def _confidence(value: Any) -> Any:
    return {"level": value} if isinstance(value, (int, float)) and not isinstance(value, bool) else value


class _GateKeys(Part):
    """The keys of a gate, for the JSON Schema alone: `gates/language.py` reads them, and knows which go together."""

    gate: str | None = Field(
        None, description="The gate's text; only level, name, depth and judged may stand beside it."
    )
    metric: str | None = None
    by: float | str | None = Field(None, description="The margin; a percentage is of the baseline's value.")
    where: dict[str, str | int | float | bool | list[str]] | None = None
    for_every: str | list[str] | None = None
    at_least_queries: int | None = Field(None, ge=1, description="With for_every: leave smaller segments out.")
    pooled: bool = Field(False, description="With for_every: judge the partially pooled estimates of the segments.")
    at: Literal["bound", "mean"] | None = None
    depth: Literal["as_is"] | None = Field(
        None, description="Judge lists that end above the cutoff, or at another depth than the baseline's, as they are."
    )
    judged: Literal["none", "raw", "corrected"] | None = Field(
        None,
        description="The figure by the gold alone, by gold + judge, or corrected; corrected unless stated, "
        "where a calibration allows it.",
    )
    run: str | None = None
    level: Literal["error", "warn"] = "error"
    name: str | None = None
    error: str | None = Field(None, description="A gate's text at level error; stands alone.")
    warn: str | None = Field(None, description="A gate's text at level warn; stands alone.")


def _conditions() -> dict[str, tuple[Any, Any]]:
    """The keys of every kind of gate, and of the words in it."""
    keys: dict[str, tuple[Any, Any]] = {}
    for kind in KINDS:
        for slot in kind.slots:
            help = f"Goes with {kind.key}." if slot.word else kind.help
            allowed = str | None if slot.name == "run" else float | str | None
            keys.setdefault(slot.word or kind.key, (allowed, Field(None, description=help)))
    return {key: field for key, field in keys.items() if key not in _GateKeys.model_fields}


GateKeys = create_model("GateKeys", __base__=_GateKeys, **_conditions())  # type: ignore[call-overload]


GateText = Annotated[
    InstanceOf[Gate],
    BeforeValidator(_gate, json_schema_input_type=str | GateKeys),
    PlainSerializer(str, return_type=str),
]


ScaleText = Annotated[
    InstanceOf[Scale],
    BeforeValidator(_scale, json_schema_input_type=ScaleName | dict[str, str]),
    PlainSerializer(lambda scale: dict(enumerate(scale.anchors)), return_type=dict[int, str]),
]


class Config(Part):
    """`karat.yaml`."""

    model_config = ConfigDict(title="karat.yaml", arbitrary_types_allowed=True)

    version: Literal[1] = 1
    dataset: Dataset | None = None
    runs: Runs | None = Field(None, description="Runs by name; or paths and globs, whose names are their files' stems.")
    run_format: RunFormat | None = Field(None, description=all_options()["run_format"].help)
    result: Place | None = Field(None, description="A saved result to judge, instead of dataset and runs.")
    candidate: Annotated[list[str], BeforeValidator(_as_list, json_schema_input_type=str | list[str])] = Field(
        default_factory=list, description="The runs that the gates judge; all but the baseline unless named."
    )
    baseline: Place | None = Field(None, description="The name of a run, or a file that `karat bless` wrote.")
    metrics: Annotated[list[str], BeforeValidator(_as_list, json_schema_input_type=str | list[str])] = Field(
        default_factory=list, description="Those of the gates are added. See: karat metrics"
    )
    segments: Annotated[Segments, BeforeValidator(_segments, json_schema_input_type=str | list[str] | Segments)] = (
        Field(default_factory=Segments)
    )
    primary: str | None = Field(
        None, description="The metric that decides which run is better: ndcg@10, or the first, unless stated."
    )
    risk: RiskRates | None = Field(None, description="How often a gate may decide wrongly with the truth at it.")
    confidence: Annotated[Confidence, BeforeValidator(_confidence, json_schema_input_type=float | Confidence)] = Field(
        default_factory=Confidence
    )
    looks: Place | None = Field(
        None, description="A file, to be committed, in which `karat check` records each gold that it judged on."
    )
    conventions: Conventions = Field(default_factory=Conventions)
    gates: list[GateText] = Field(default_factory=list, description="Such as: recall@5 >= 0.90 where language = pt-BR")
    components: Annotated[
        Components | None, BeforeValidator(_components, json_schema_input_type=bool | Components | None)
    ] = Field(None, description="Measure every part of the pipeline that the run logs hold.")
    scale: ScaleText | None = Field(
        None, description="The grades that judges give: 0-3 (the default), or every grade from 0 with its anchor."
    )
    judgments: Annotated[list[Place], BeforeValidator(_as_list, json_schema_input_type=str | list[str])] | None = Field(
        None, description=all_options()["judgments"].help
    )
    judge: str | None = Field(None, min_length=1, description=all_options()["judge"].help)
    calibration: Place | None = Field(None, description=all_options()["calibration"].help)
    bench: Bench | None = Field(None, description="Retrievers that `karat bench` runs.")
    outputs: Outputs = Field(default_factory=Outputs)
    diagnosis: Diagnosis = Field(default_factory=Diagnosis)
    engine: Engine = Field(default_factory=Engine)
    retrieval_metrics: RetrievalMetrics | None = None

    @field_validator("metrics")
    @classmethod
    def _known(cls, names: list[str]) -> list[str]:
        return names if names and _measures(names) else []


def schema() -> JsonObject:
    """The JSON Schema of `karat.yaml`, for editors."""
    out = Config.model_json_schema(by_alias=True, mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **out}
