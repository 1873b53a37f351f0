"""All files that a check was asked for, each written whole or not at all."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from karat.config.checks import config_options
from karat.errors import InputError, KaratError, UsageError
from karat.report import files
from karat.results.result import FORMAT_VERSION
from karat.store.atomic import encoded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karat.config.reading import Read
    from karat.verbs.check import Check

SUMMARY = "GITHUB_STEP_SUMMARY"
"""Names the file that GitHub shows beside a step."""


@dataclass(frozen=True)
class Files:
    """Where each output goes; None for those that nobody wants."""

    json: str | None = None
    markdown: str | None = None
    junit: str | None = None
    latex: str | None = None
    per_query: str | None = None
    save: str | None = None
    html: str | None = None

    @staticmethod
    def of(read: Read, **asked: str | None) -> Files:
        """What the command line asks for, and else what the config does; folders are made."""
        told = read.config.outputs.model_dump(by_alias=True)
        chosen = {}
        for name, path in asked.items():
            place = path if path is not None else read.place(told[name]) if told[name] else None
            if place is not None and place != "-":
                make_folder(place)
            chosen[name] = place
        printed = [f"--{name}" for name, place in chosen.items() if place == "-"]
        if wrong := {"--per_query", "--save", "--html"}.intersection(printed):
            raise UsageError(f"{wrong.pop().replace('_', '-')}: takes the name of a file, found '-'")
        if len(printed) > 1:
            raise UsageError(f"only one output can go to standard output ('-'), found {' and '.join(printed)}")
        if chosen["per_query"] is not None:
            files.check_table_name(chosen["per_query"])
        return Files(**chosen)

    @property
    def printed(self) -> bool:
        """Whether one of them goes to standard output, which then holds nothing else."""
        return "-" in (self.json, self.markdown, self.junit, self.latex)


def make_folder(path: str) -> None:
    """Make the folder of a file that is to be written."""
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder or ".", exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: its folder cannot be made ({error.strerror}); choose another place") from None


def texts(read: Read) -> dict[str, str | None]:
    """The tables of queries and docs that a config names."""
    stated = config_options(read)
    return {"queries": stated.get("queries"), "docs": stated.get("docs")}


def write(check: Check, to: Files, texts: Mapping[str, str | None] | None = None) -> list[str]:
    """Write every output, and name the files; on GitHub the comment also goes to the summary of the step.

    `texts` names the tables of queries and docs whose texts the report shows.
    """
    from karat.report import junit, latex, markdown

    if to.per_query is not None:
        files.write_per_query(check.result, to.per_query)
    if to.save is not None:
        check.save(to.save)
    if to.html is not None:
        from karat.report.html.write import write_report

        write_report(check, to.html, **(texts or {}))
    if to.junit is not None:
        files.write_text(junit.rendered(check).decode(), to.junit)
    if to.latex is not None:
        files.write_text(latex.rendered(check), to.latex)
    if to.markdown is not None:
        files.write_text(markdown.rendered(check), to.markdown)
    if to.json is not None:
        files.write_json(check, to.json)
    if os.environ.get(SUMMARY):
        _summarise(markdown.rendered(check))
    places = (to.json, to.markdown, to.junit, to.latex, to.per_query, to.save, to.html)
    return [place for place in places if place is not None and place != "-"]


def write_error(error: Exception, to: Files, name: str = "") -> None:
    """Replace what an earlier check wrote: a verdict of other data must not stand where this one decided nothing.

    Only files that exist are replaced, and none that hold data: `save`, `per_query` and `latex` stay as they are.
    What cannot be written is left, since the error itself is what the caller has to tell.
    """
    from karat.report import junit, markdown

    ours = isinstance(error, KaratError)
    problems = (str(error) if ours else f"a fault of Karat: {type(error).__name__}: {error}").splitlines()
    told = {"format_version": FORMAT_VERSION, "kind": "check", "verdict": None, "error": problems}
    comment = markdown.undecided(problems)
    document = json.dumps(told, ensure_ascii=False, indent=2) + "\n"
    suite = junit.undecided(problems, name).decode()
    for place, text in ((to.junit, suite), (to.markdown, comment), (to.json, document)):
        if place is not None and os.path.isfile(place):
            with suppress(KaratError):
                files.write_text(text, place)
    with suppress(KaratError):
        _summarise(comment)


def _summarise(comment: str) -> None:
    """Add a comment to the summary of a GitHub step."""
    if summary := os.environ.get(SUMMARY):
        try:
            with open(summary, "ab") as file:  # shared by all steps: it grows
                file.write(encoded(comment + "\n"))
        except OSError as error:
            raise InputError(
                f"{summary}: the summary of the step ({SUMMARY}) cannot be written ({error.strerror}); "
                "unset it, or name a file that can be"
            ) from None
