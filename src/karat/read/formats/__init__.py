"""Input formats: one module each, found by its declaration `FORMAT`.

Detection, the choices of `--qrels-format` and `--run-format`, what errors say about formats, and the table in
docs/data.md follow from the declaration: to add a format, add a module. Modules are imported to print help: what is
slow to import belongs in the functions.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Literal, TypeAlias

from karat.errors import InputError, UsageError, nearest
from karat.read.problems import check_ids
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from karat.model.json_data import JsonObject
    from karat.model.run_log import RunLog
    from karat.read.column_stream import ColumnStream
    from karat.read.columns import FieldRow, Role, TableKind
    from karat.read.files import InputFile
    from karat.read.problems import Problems, Row
    from karat.read.textfile import TextFile


@dataclass(frozen=True, slots=True)
class LineRows:
    """Rows that know their lines, and notes on how they were read."""

    rows: Sequence[Row]
    notes: tuple[str, ...] = ()
    names_docs: bool = False
    """Whether no row has a chunk id."""


Use: TypeAlias = Literal["qrels", "run", "table"]
_USES: dict[Use, str] = {"qrels": "gold", "run": "runs", "table": "tables of queries and docs"}
Content: TypeAlias = "TextFile | LineRows | ColumnStream | JsonObject | RunLog"
"""What a file of gold or a run holds; an object is {query: {doc: value}} or {query: docs}."""


@dataclass(frozen=True)
class InputFormat:
    """One way in which files hold gold, runs, or tables of queries and docs."""

    name: str
    title: str
    """What people call it."""
    recognises: Callable[[InputFile], bool]
    """Whether a file has this format, by its first bytes."""
    guess: bool = False
    """Whether that is a guess: such formats are tried last."""
    endings: tuple[str, ...] = ()
    """Endings of file names, which are not part of a run's name."""
    gold: str = ""
    """How gold looks in it, in Markdown; empty where it cannot hold any."""
    runs: str = ""
    tables: str = ""
    read: Callable[[InputFile, Role, Problems], Content] | None = None
    """Read gold or a run."""
    read_table: Callable[[InputFile, Problems, TableKind], Iterable[FieldRow]] | None = None
    """Read a table of queries or docs."""
    holds_queries: bool = False
    """Whether a file of gold is a table of its queries too."""
    ranks: Callable[[InputFile], Mapping[int, float]] | None = None
    """The rank on each line, where the file states ranks beside its scores: the linter compares them."""

    def holds(self, role: Use) -> bool:
        """Whether files of this format can hold gold, runs, or tables of queries and docs."""
        return bool({"qrels": self.gold, "run": self.runs, "table": self.tables}[role])


@cache
def all_formats() -> dict[str, InputFormat]:
    """Every format by its name."""
    modules = sorted(module.name for module in pkgutil.iter_modules(__path__))
    formats = [import_module(f"{__name__}.{module}").FORMAT for module in modules]
    return {one.name: one for one in formats}


def format_names(role: Role) -> tuple[str, ...]:
    """The formats that can hold gold, or a run."""
    return tuple(one.name for one in all_formats().values() if one.holds(role))


def describe_formats(role: Role) -> str:
    """The formats that can hold gold, or a run, as an error names them."""
    trec = "TREC qrels (query iter doc grade)" if role == "qrels" else "a TREC run (query Q0 doc rank score tag)"
    others = [all_formats()[name].title for name in format_names(role) if name != "trec"]
    return f"{', '.join([trec, *others[:-1]])} or {others[-1]}"


def read_content(file: InputFile, role: Role, problems: Problems, *, name: str | None = None) -> Content:
    """What a file of gold or a run holds. A format that is stated by name is not questioned."""
    names = format_names(role)
    if name is not None and name not in names:
        near = nearest(name, names)
        hint = f"; did you mean {near!r}?" if near else ""
        raise UsageError(f"{file.path}: the format must be one of {', '.join(names)}, found {name!r}{hint}")
    if not file.head:
        raise InputError(f"{file.path}: is empty, expected {describe_formats(role)}")
    form = all_formats()[name] if name else recognise_format(file, role)
    if form.guess and name is None:
        _refuse_other_use(file, role, describe_formats(role))
    assert form.read is not None
    content = form.read(file, role, problems)
    if isinstance(content, LineRows):
        check_ids(content.rows, problems)
    return content


def read_table_rows(file: InputFile, problems: Problems, kind: TableKind) -> Iterator[FieldRow]:
    """The rows of a file of queries or docs, each with its line and its fields."""
    if not file.head.strip():
        raise InputError(f"{file.path}: is empty, expected a table of {kind.plural}")
    form = recognise_format(file, "table")
    if form.guess:
        _refuse_other_use(file, "table", f"a table of {kind.plural}")
    assert form.read_table is not None
    yield from form.read_table(file, problems, kind)


def _refuse_other_use(file: InputFile, use: Use, expected: str) -> None:
    """Refuse a file whose format is known and holds something else, before it is guessed to be a text of columns."""
    for form in all_formats().values():
        if not form.guess and not form.holds(use) and form.recognises(file):
            uses = " and ".join(plural for other, plural in _USES.items() if form.holds(other))
            raise InputError(f"{file.path}: looks like {form.title}, a format of {uses} alone; expected {expected}")


def recognise_format(file: InputFile, role: Use | None = None) -> InputFormat:
    """The format that a file has, among those that can hold this; what nothing else fits is guessed to be TREC."""
    formats = sorted(all_formats().values(), key=lambda one: one.guess)
    return next(one for one in formats if (role is None or one.holds(role)) and one.recognises(file))
