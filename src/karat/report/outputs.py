"""All files that a verb is asked for, each written whole or not at all."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import contextmanager, suppress
from dataclasses import field
from typing import TYPE_CHECKING

from karat.errors import InputError, KaratError, UsageError
from karat.records import dataclass
from karat.report.formats import Format, Problem, all_formats
from karat.store.atomic import encoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from karat.config.reading import Read
    from karat.report.view import View

SUMMARY = "GITHUB_STEP_SUMMARY"
"""Names the file that GitHub shows beside a step."""


@dataclass(frozen=True)
class Files:
    """Where each output goes, by the name of its format."""

    places: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(places_wanted: Mapping[str, str | None], read: Read | None = None) -> Files:
        """What the command line asks for, and else what the config does; names are checked, and folders made."""
        config = read.config.outputs.places() if read is not None else {}
        places = {}
        for name in all_formats():
            place = places_wanted.get(name)
            if place is None and read is not None and name in config:
                place = read.place(config[name])
            if place is not None:
                places[name] = place
        _check(places)
        if read is not None:
            from karat.config.checks import config_files

            own = {name: f"outputs.{name}" if places_wanted.get(name) is None else flag_of(name) for name in places}
            refuse_overwriting({own[name]: place for name, place in places.items()}, config_files(read))
        for place in places.values():
            if place != "-":
                make_folder(place)
        return Files(places)

    @property
    def printed(self) -> bool:
        """Whether one of them goes to standard output, which then holds nothing else."""
        return "-" in self.places.values()

    @property
    def details(self) -> bool:
        """Whether one of them needs the ranked lists."""
        return any(all_formats()[name].details for name in self.places)


@contextmanager
def open_outputs(places: Mapping[str, str | None]) -> Iterator[Files]:
    """The files that the command line asks for; after an error inside, those that exist are replaced."""
    try:
        yield Files.of(places)
    except BrokenPipeError:
        raise
    except Exception as error:
        write_error(error, Files({name: place for name, place in places.items() if place is not None}))
        raise


class Overwrites(UsageError):
    """An output that would replace an input or another output: nothing is written at all, not even the error."""


def refuse_overwriting(outputs: Mapping[str, str], inputs: Iterable[str]) -> None:
    """Refuse outputs, by what asks for them, that are inputs or each other; links and other spellings count."""
    taken = {key: "" for path in inputs for key in _keys(path)}
    for name, place in outputs.items():
        for key in _keys(place):
            if taken.get(key) == "":
                raise Overwrites(f"{name}: {place} is an input and would be overwritten; choose another name")
            if taken.get(key, name) != name:
                raise Overwrites(f"{name}: {place} is also what {taken[key]} writes; give each its own file")
            taken[key] = name


def _keys(path: str) -> list[object]:
    """What identifies a file: its path without links and, where it exists, its place on the disk."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return [os.path.realpath(path)] if path != "-" and "\0" not in path else []
    if not stat.S_ISREG(status.st_mode):
        return []  # a device or a pipe is never replaced
    return [os.path.realpath(path), (status.st_dev, status.st_ino)]


def flag_of(name: str) -> str:
    """The flag of an output format."""
    return f"--{name.replace('_', '-')}"


def _check(places: Mapping[str, str]) -> None:
    printed = []
    for name, place in places.items():
        form, flag = all_formats()[name], flag_of(name)
        if place == "-":
            if not form.prints:
                raise UsageError(f"{flag}: takes the name of a file, found '-'")
            printed.append(flag)
        elif form.endings and os.path.splitext(place)[1].lower() not in form.endings:
            raise UsageError(f"{place}: {flag} must end in one of {', '.join(form.endings)}")
    if len(printed) > 1:
        raise UsageError(f"only one output can go to standard output ('-'), found {' and '.join(printed)}")


def make_folder(path: str) -> None:
    """Make the folder of a file that is to be written."""
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder or ".", exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: its folder cannot be made ({error.strerror}); choose another place") from None


def texts(read: Read) -> dict[str, str | None]:
    """The tables of queries and docs that a config names."""
    from karat.config.checks import config_options

    options = config_options(read)
    return {"queries": options.get("queries"), "docs": options.get("docs")}


def write(view: View, files: Files) -> list[str]:
    """Write every output, and name the files; what goes to standard output comes last."""
    paths = []
    for name, place in sorted(files.places.items(), key=lambda item: item[1] == "-"):
        form = all_formats()[name]
        try:
            form.write(view, place)
        except Exception as error:
            if view.verdict is None or not form.expendable:
                raise
            _say_missing(form, place, error)
            continue
        if place != "-":
            paths.append(place)
    return paths


def _say_missing(form: Format, place: str, error: Exception) -> None:
    """Say that an output was not made, and replace the one of an earlier run."""
    problem = _problem(error)
    print(f"karat: {place} was not written, and the verdict stands: {problem.messages[0]}", file=sys.stderr)
    if os.path.isfile(place):
        with suppress(Exception):  # the verdict is what the caller has to hear
            form.write_error(problem, place)


def _problem(error: Exception, title: str = "") -> Problem:
    expected = isinstance(error, KaratError)
    text = str(error) if expected else f"internal error (a bug in Karat): {type(error).__name__}: {error}"
    return Problem(text.splitlines() or [""], title)


def write_error(error: Exception, files: Files, title: str = "") -> None:
    """Replace what an earlier run wrote: a verdict of other data must not stand where this one decided nothing.

    Only files that exist are replaced. What cannot be written is left, since the error itself is what the caller has
    to tell.
    """
    if isinstance(error, Overwrites):
        return
    problem = _problem(error, title)
    for name, place in files.places.items():
        if place != "-" and os.path.isfile(place):
            with suppress(Exception):  # whatever happens here, the caller has to hear of the first error
                all_formats()[name].write_error(problem, place)
    with suppress(KaratError):
        summarise_error(problem)


def summarise(view: View) -> None:
    """Add the comment to the summary of a GitHub step, where there is one."""
    from karat.report import markdown

    if os.environ.get(SUMMARY):
        _append(markdown.render(view))


def summarise_error(problem: Problem) -> None:
    """Add the comment of an error to the summary of a GitHub step, where there is one."""
    from karat.report import markdown

    if os.environ.get(SUMMARY):
        _append(markdown.render_error(problem))


def _append(comment: str) -> None:
    summary = os.environ[SUMMARY]
    try:
        with open(summary, "ab") as file:  # shared by all steps: it grows
            file.write(encoded(comment + "\n"))
    except OSError as error:
        raise InputError(
            f"{summary}: the summary of the step ({SUMMARY}) cannot be written ({error.strerror}); "
            "unset it, or name a file that can be"
        ) from None
