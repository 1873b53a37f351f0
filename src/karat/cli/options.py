"""Flags: those of every verb that evaluates come from the options' declarations, others that verbs share are here."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from karat.config.options import Options as Options
from karat.config.options import all_options, stated_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from karat.model.option import Option

WHAT, OUTPUTS = "What to compute", "Outputs"
_TYPES: dict[str, type] = {"count": int, "fields": list[str], "number": float, "paths": list[str]}
_TYPES |= {"share": float, "yes": bool}


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command a flag for each option; it receives those that were written as `options`."""
    signature = inspect.signature(command, eval_str=True)
    own = [p for p in signature.parameters.values() if p.name != "options"]
    options = {_parameter(o): o for o in stated_options()}
    for parameter in own:
        _refuse_rivals(command.__name__, parameter)

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        values = {option.name: _value(option, arguments.pop(name)) for name, option in options.items()}
        stated = {name: value for name, value in values.items() if value is not None}
        command(**arguments, options=cast(Options, stated))

    keyword = inspect.Parameter.KEYWORD_ONLY
    flags = [
        inspect.Parameter(name, keyword, default=False if option.kind == "yes" else None, annotation=_flag(option))
        for name, option in options.items()
    ]
    parameters = [*(p.replace(kind=keyword) for p in own), *flags]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def takes_verbose(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command that has no more to print take --verbose too, which shows the details of an internal error."""
    signature = inspect.signature(command, eval_str=True)
    if "verbose" in signature.parameters:
        return command

    @functools.wraps(command)
    def run(verbose: bool, **arguments: Any) -> None:
        command(**arguments)

    keyword = inspect.Parameter.KEYWORD_ONLY
    verbose = inspect.Parameter("verbose", keyword, default=False, annotation=Verbose)
    parameters = [*(p.replace(kind=keyword) for p in signature.parameters.values()), verbose]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _refuse_rivals(command: str, parameter: inspect.Parameter) -> None:
    """Refuse an option with the name of a command's own parameter, or with its flag: one of the two would be lost."""
    written = [n for about in getattr(parameter.annotation, "__metadata__", ()) for n in _names(about)]
    flags = written or [f"--{parameter.name.replace('_', '-')}"]
    for each in stated_options():
        if each.name == parameter.name or each.flag in flags:
            raise ValueError(
                f"the option {each.name!r} ({each.flag}) and the parameter {parameter.name!r} ({', '.join(flags)}) of "
                f"karat {command} share a name; rename one of them"
            )


def _names(about: Any) -> list[str]:
    """The flags that a declaration of typer states; in `Annotated` the first of them takes the place of the default."""
    return [n for n in (about.default, *(about.param_decls or ())) if isinstance(n, str) and n.startswith("-")]


def _parameter(option: Option) -> str:
    return option.flag.removeprefix("--").replace("-", "_")


def _value(option: Option, value: Any) -> Any:
    """The value of an option; None where its flag was not given."""
    if option.kind == "yes":
        return (option.default is not True) if value else None
    return value or None if option.kind in ("fields", "paths") else value


@functools.cache
def _flag(option: Option) -> Any:
    kind = _TYPES.get(option.kind, str)
    short = "|".join(option.choices)
    metavar = option.metavar or (short if option.choices else "FILE" if option.kind in ("path", "paths") else None)
    about = typer.Option(option.flag, metavar=metavar, help=_help(option, metavar), rich_help_panel=option.panel)
    return Annotated[bool if kind is bool else kind | None, about]


def _help(option: Option, metavar: str | None) -> str:
    """One line: what the option does, what it takes, and its default."""
    if option.off:
        return option.off
    text = option.help.removesuffix(".")
    if option.choices and "|" not in (metavar or ""):
        text += f": {', '.join(option.choices)}"
    if option.default is not None and not isinstance(option.default, bool):
        text += f" (default {option.default})"
    return f"{text}."


def option(help: str, *names: str, panel: str | None = None, metavar: str | None = None, **more: Any) -> Any:
    """A flag of one command."""
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel, **{"show_default": False, **more})


_QRELS = "Gold: TREC qrels, BEIR tsv, CSV, JSONL, JSON or Parquet; - is stdin."
_RUNS = "Runs: TREC, run log, CSV, JSON or Parquet; globs and NAME=FILE work."
Qrels = Annotated[str, typer.Argument(metavar="QRELS", help=_QRELS)]
Runs = Annotated[list[str], typer.Argument(metavar="RUN...", help=_RUNS)]
OptionalQrels = Annotated[str | None, typer.Argument(metavar="QRELS", help=_QRELS)]
OptionalRuns = Annotated[list[str] | None, typer.Argument(metavar="RUN...", help=_RUNS)]
Metrics = Annotated[
    list[str] | None,
    option(
        "Such as ndcg@10 or map,recall@{10,100}. See: karat metrics", "-m", "--metric", panel=WHAT, metavar="METRIC"
    ),
]
Ks = Annotated[
    str | None,
    option(
        "Cutoffs for the default metrics and those named without one: 1,3,5.", "-k", "--ks", panel=WHAT, metavar="K,K"
    ),
]
JsonFile = Annotated[
    str | None, option("Write the result as JSON; - is stdout.", "--json", panel=OUTPUTS, metavar="FILE|-")
]
PerQuery = Annotated[
    str | None,
    option("Write every query's values (.csv, .jsonl, .parquet).", "--per-query", panel=OUTPUTS, metavar="FILE"),
]
NoGold = Annotated[
    bool, option("All files are runs: measure what needs no gold (latency, cost, …).", "--no-gold", panel=WHAT)
]
Force = Annotated[
    bool, option("Compare results that rest on different gold or definitions; the output says so.", "--force")
]
Quiet = Annotated[bool, option("Print errors only.", "-q", "--quiet")]
Verbose = Annotated[bool, option("Print more.", "-v", "--verbose")]
Separator = Annotated[str | None, option(_help(all_options()["separator"], None), "--separator", metavar="TEXT")]
