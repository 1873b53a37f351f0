"""The options of every verb that evaluates: data, conventions, intervals and engine, each declared once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypedDict, TypeVar, Unpack, cast

from karat.errors import UsageError, nearest
from karat.model.engine import Engine, EngineOptions, Watch
from karat.model.intervals import IntervalOptions, Intervals
from karat.model.option import Option, OptionGroup, option, options_of
from karat.model.policy import PRESETS, Policy, PolicyOptions, policy
from karat.read.formats import format_names
from karat.records import dataclass

if TYPE_CHECKING:
    from karat.model.json_data import JsonObject


Verb = TypeVar("Verb", bound=Callable[..., Any])


class DataOptions(TypedDict, total=False):
    """The fields of `Data`, as type checkers see keyword arguments."""

    queries: Any
    docs: Any
    embeddings: Any
    embedding_model: str | None
    ontology: Any
    subtopics: bool | None
    qrels_format: str | None
    run_format: str | None
    judgments: Any
    judge: str | None
    calibration: Any


@dataclass(frozen=True, slots=True)
class Data(OptionGroup):
    """What is known beside gold and runs, and how files are read."""

    PANEL: ClassVar[str] = "Data"
    BLOCK: ClassVar[str] = "dataset"

    queries: Any = option(None, "Table of queries: text, and fields such as language, as_of, no_answer.", kind="path")
    docs: Any = option(
        None, "Table of docs: texts, and fields to slice by (--by gold.source).", kind="path", key="dataset.corpus"
    )
    embeddings: Any = option(
        None, "Vectors of docs: .npy with its ids beside it (x.ids.txt), .npz (ids, vectors) or Parquet.", kind="path"
    )
    embedding_model: str | None = option(
        None, "The model that made the vectors; by default the name in the file, or its fingerprint.", metavar="NAME"
    )
    ontology: Any = option(
        None,
        "Ontology whose terms gold and runs name: hpo, or an OBO file (max_ont_sim).",
        kind="path",
        metavar="hpo|FILE.obo",
        names=("hpo",),
    )
    subtopics: bool | None = option(None, "Read the second column of TREC qrels as a subtopic.")
    qrels_format: str | None = option(
        None, "Format of the gold; detected by default.", choices=format_names("qrels"), metavar="FORMAT"
    )
    run_format: str | None = option(
        None,
        "Format of the runs; detected by default.",
        choices=format_names("run"),
        metavar="FORMAT",
        key="run_format",
    )
    judgments: Any = option(
        None,
        "Judgments of pairs that the gold lacks, and labels of people (repeatable); see karat judge.",
        kind="paths",
        key="judgments",
    )
    judge: str | None = option(
        None, "The judge among several in --judgments: its model, name or fingerprint.", key="judge", metavar="NAME"
    )
    calibration: Any = option(
        None,
        "What karat judge calibrate saved for this judge: corrects figures by the labels of people.",
        kind="path",
        key="calibration",
    )


def doc_texts(data: Data) -> Any:
    """Where the texts of docs are: the table of docs, else the labels of the ontology's terms; None for neither."""
    if data.docs is not None or data.ontology is None:
        return data.docs
    from karat.ontology.load import open_ontology

    return open_ontology(data.ontology).labels()


class StatedOptions(DataOptions, PolicyOptions, IntervalOptions, EngineOptions, total=False):
    """The options that Python, the command line and karat.yaml can state; None leaves one at its default."""

    like: str | None
    settings: Settings | None


class Options(StatedOptions, total=False):
    """The keyword arguments of every verb that evaluates."""

    details: bool | None
    watch: Watch | None


@dataclass(frozen=True, slots=True)
class Settings:
    """All options as one value, which verbs hand on to each other."""

    data: Data = Data()
    policy: Policy = Policy()
    intervals: Intervals = Intervals()
    engine: Engine = Engine()
    like: str | None = None
    """The tool whose conventions were taken."""

    @staticmethod
    def of(options: Options) -> Settings:
        """The options of a call as one value: those of `settings`, changed by the others."""
        stated = dict(options)
        base = stated.pop("settings", None)
        declarations = all_options()
        for name in stated:
            if name not in declarations:
                _refuse(name, declarations)
        return (base if isinstance(base, Settings) else Settings()).change(**cast("Options", stated))

    def change(self, **options: Unpack[Options]) -> Settings:
        """A copy with these options changed; None changes nothing."""
        stated = {name: value for name, value in options.items() if value is not None}
        if not stated:
            return self
        like = LIKE.check(stated.pop("like", None))
        data, intervals, engine = (
            replace(getattr(self, name), **{o.name: stated[o.name] for o in options_of(kind) if o.name in stated})
            for name, kind in GROUPS.items()
            if kind is not Policy
        )
        conventions = policy(like, self.policy, **{o.name: stated.get(o.name) for o in options_of(Policy)})
        return Settings(data, conventions, intervals, engine, like or self.like)

    def conventions(self) -> JsonObject:
        """The choices that differ from the defaults: what a report must name."""
        differences = {each.name: value for each, value in self.policy.changes()}
        return {**({"like": self.like} if self.like else {}), **differences}


GROUPS: dict[str, type[OptionGroup]] = {"data": Data, "intervals": Intervals, "policy": Policy, "engine": Engine}
"""The groups by their names in `Settings`, in the order of `--help`."""
LIKE = Option(
    "like",
    None,
    "choice",
    "Take the conventions of another tool, and its names of metrics; other options change them.",
    Policy.PANEL,
    f"{Policy.BLOCK}.like",
    tuple(PRESETS),
    metavar="TOOL",
)


@cache
def all_options() -> dict[str, Option]:
    """Every option by name, in the order of `--help`."""
    groups = (((LIKE,) if kind is Policy else ()) + options_of(kind) for kind in GROUPS.values())
    return {each.name: each for group in groups for each in group}


def stated_options() -> tuple[Option, ...]:
    """The options that flags and keys of karat.yaml can hold."""
    return tuple(each for each in all_options().values() if each.kind != "object")


def takes_options(verb: Verb) -> Verb:
    """Show the options of a verb, which are its `**options`, in its signature and its documentation."""
    signature = inspect.signature(verb)
    own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    for each in stated_options():
        if each.name in signature.parameters:
            raise ValueError(
                f"the option {each.name!r} and a parameter of karat.{verb.__name__} share a name; rename one"
            )
    others = [each for each in all_options().values() if each.name not in signature.parameters]
    more = [inspect.Parameter(o.name, inspect.Parameter.KEYWORD_ONLY, default=o.default) for o in others]
    names = [p.name for p in own if p.kind is inspect.Parameter.KEYWORD_ONLY] + [o.name for o in others]

    @wraps(verb)
    def call(*arguments: Any, **keywords: Any) -> Any:
        for name in keywords:
            if name not in signature.parameters and name not in names and name != "settings":
                _refuse(name, names)
        return verb(*arguments, **keywords)

    call.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
    lines = "\n".join(f"    {o.name}: {o.help}" + _allowed(o) for o in others)
    call.__doc__ = f"{inspect.cleandoc(verb.__doc__ or '')}\n\nOptions:\n{lines}\n"
    return cast("Verb", call)


def _refuse(name: str, names: Collection[str]) -> NoReturn:
    """Refuse an option that nobody knows, with those that there are."""
    near = nearest(name, names)
    hint = f"did you mean {near!r}?" if near else f"expected some of {', '.join(names)}"
    raise UsageError(f"unknown option {name!r}; {hint}")


def _allowed(each: Option) -> str:
    return f" One of {', '.join(each.choices)}." if each.choices else ""
