"""Flags of output files: one for each format of a verb. No output, `-o` of `bless` too, may replace an input."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from karat.cli.options import OUTPUTS
from karat.report.formats import all_formats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Set

Asked = Mapping[str, str | None]
"""The files that were asked for, by the name of their format."""


def takes_outputs(verb: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command a flag for each of its output formats; it receives them as `outputs`."""

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        names = [name for name, one in all_formats().items() if verb in one.verbs]

        @functools.wraps(command)
        def run(**arguments: Any) -> None:
            outputs = {name: arguments.pop(name) for name in names}
            command(**arguments, outputs=outputs)

        keyword = inspect.Parameter.KEYWORD_ONLY
        own = [p.replace(kind=keyword) for p in signature.parameters.values() if p.name != "outputs"]
        flags = [inspect.Parameter(name, keyword, default=None, annotation=_flag(name)) for name in names]
        run.__signature__ = signature.replace(parameters=[*own, *flags])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in (*own, *flags)}
        return run

    return wrap


def _flag(name: str) -> Any:
    one = all_formats()[name]
    metavar = "FILE|-" if one.prints else "FILE"
    option = typer.Option(f"--{name.replace('_', '-')}", metavar=metavar, help=one.help, rich_help_panel=OUTPUTS)
    return Annotated[str | None, option]


REPLACES_BASELINE = frozenset(("bless",))
"""The commands for which the baseline that a config names is not an input: they replace it."""


def keeps_inputs(command: Callable[..., None]) -> Callable[..., None]:
    """Refuse outputs that would replace an input or another output, before the command does anything."""

    baseline = command.__name__ not in REPLACES_BASELINE

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        written = {*all_formats(), "output", "plot", "misses", "batch_out"}
        outputs = {name: arguments[name] for name in arguments if name in written and isinstance(arguments[name], str)}
        if outputs:
            from karat.report.outputs import flag_of, refuse_overwriting

            inputs = _input_files(arguments, written, baseline=baseline)
            refuse_overwriting({flag_of(name): outputs[name] for name in outputs}, inputs)
        command(**arguments)

    return run


def _input_files(arguments: Mapping[str, object], written: Set[str], *, baseline: bool) -> list[str]:
    """The files that arguments name: as paths, patterns or `NAME=file`, and the config that is read by default."""
    from karat.config.reading import DEFAULT_NAMES

    words = [word for name, value in arguments.items() if name not in written for word in _texts(value)]
    if "config" in arguments:
        words += DEFAULT_NAMES
    paths = [path for word in words for path in _named_files(word) if os.path.isfile(path)]
    configs = [path for path in paths if path.endswith((".yaml", ".yml"))]
    return paths + [named for path in configs for named in _files_in_config(path, baseline=baseline)]


def _files_in_config(path: str, *, baseline: bool) -> list[str]:
    """The files that a config names; of one that cannot be read, every word that is the name of a file."""
    from karat.config.checks import config_files
    from karat.config.reading import read_config
    from karat.errors import KaratError

    try:
        return config_files(read_config(path), baseline=baseline)
    except KaratError:
        with open(path, encoding="utf-8", errors="replace") as file:
            words = re.findall(r"[^\s'\",\[\]{}]+", file.read())
        places = [os.path.join(os.path.dirname(path), word) for word in words if "\0" not in word]
        return [named for place in places for named in _named_files(place)]


def _texts(value: object) -> list[str]:
    words = value if isinstance(value, list) else [value]
    return [word for word in words if isinstance(word, str)]


def _named_files(word: str) -> Iterable[str]:
    from karat.errors import InputError
    from karat.read.sources import run_files

    try:
        return run_files([word]).values()
    except (InputError, ValueError):
        return ()
