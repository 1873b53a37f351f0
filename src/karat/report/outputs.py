"""All files that a check was asked for, each written whole or not at all."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from karat.errors import InputError
from karat.output import write_atomically
from karat.report import files

if TYPE_CHECKING:
    from karat.checking import Check
    from karat.config.reading import Read


@dataclass(frozen=True)
class Files:
    """Where each output goes; None for those that nobody wants."""

    json: str | None = None
    markdown: str | None = None
    junit: str | None = None
    latex: str | None = None
    per_query: str | None = None
    save: str | None = None

    @staticmethod
    def of(read: Read, **asked: str | None) -> Files:
        """What the command line asks for, and else what the config does; folders are made."""
        told = read.config.outputs.model_dump(by_alias=True)
        chosen = {}
        for name, path in asked.items():
            place = path if path is not None else read.place(told[name]) if told[name] else None
            if place is not None and place != "-":
                _make_folder(place)
            chosen[name] = place
        if chosen["per_query"] is not None:
            files.check_table_name(chosen["per_query"])
        return Files(**chosen)


def _make_folder(path: str) -> None:
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder or ".", exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: its folder cannot be made ({error.strerror}); choose another place") from None


def write(check: Check, to: Files) -> None:
    """Write every output; on GitHub the comment also goes to the summary of the step."""
    from karat.report import junit, latex, markdown

    if to.per_query is not None:
        files.write_per_query(check.result, to.per_query)
    if to.save is not None:
        check.result.save(to.save)
    if to.junit is not None:
        write_atomically(to.junit, junit.rendered(check))
    if to.latex is not None:
        write_atomically(to.latex, latex.rendered(check).encode())
    if to.markdown is not None:
        files.write_text(markdown.rendered(check), to.markdown)
    if to.json is not None:
        files.write_json(check, to.json)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with open(summary, "a", encoding="utf-8") as file:  # shared by all steps: it grows
            file.write(markdown.rendered(check) + "\n")
