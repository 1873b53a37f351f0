"""The one way to a terminal: no name of a run, a segment or a query ever becomes markup or a control sequence."""

from __future__ import annotations

import io
import os
import sys
import time
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from karat.errors import UsageError
from karat.report.marks import tone_of
from karat.report.terminal.layout import Grid, Line, count_cells, lay_out
from karat.results.words import plain, without_controls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console, RenderableType
    from rich.progress import TaskID
    from rich.text import Text

    from karat.model.engine import Watch

HEAD = 24
"""The characters of a run's name that head a column on a terminal."""
LABEL = 24
"""The characters that names of segments and metrics have at least, before they wrap."""
PIPE = 160
"""The width of what is piped; a table that needs more has it, so that no figure is cut."""
COLOURS = {"up": "green", "down": "red", "open": "yellow", "": ""}


class Output:
    """Standard output or error for a person: rich on a terminal; elsewhere texts as they are, where they fit."""

    def __init__(self, stderr: bool = False) -> None:
        self.stderr = stderr
        self.file: TextIO = sys.stderr if stderr else sys.stdout
        self._on_screen = self.file.isatty()
        self._styled = self._on_screen or bool(os.environ.get("FORCE_COLOR")) or os.environ.get("TTY_COMPATIBLE") == "1"

    @cached_property
    def rich(self) -> Console:
        """A console that reads no markup, and has colours only on a terminal."""
        return _rich_console(self.stderr, None if self._on_screen else PIPE)

    @property
    def width(self) -> int:
        """The characters of a line."""
        return self.rich.width if self._on_screen else PIPE

    def print(self, *objects: Line | Grid | RenderableType, soft_wrap: bool = False, **options: Any) -> None:
        """Print a line, a table, or whatever rich can print."""
        text = None
        if not self._styled and not options and len(objects) < 2:
            text = lay_out(objects[0] if objects else "", sys.maxsize if soft_wrap else self.width)
        if text is None and self._styled:
            self.rich.print(*objects, soft_wrap=soft_wrap, **options)
            return
        if text is None:
            with self.rich.capture() as capture:
                self.rich.print(*objects, soft_wrap=soft_wrap, **options)
            text = capture.get()
        self.file.write(text)
        self.file.flush()

    @contextmanager
    def capture(self) -> Iterator[Capture]:
        """Keep what is printed meanwhile."""
        file, capture = self.file, Capture()
        self.file = capture
        try:
            if not self._styled:
                yield capture
                return
            with self.rich.capture() as styled:
                yield capture
            capture.write(styled.get())
        finally:
            self.file = file


class Capture(io.StringIO):
    """What was printed meanwhile."""

    def get(self) -> str:
        """All of it."""
        return self.getvalue()


def console(stderr: bool = False) -> Output:
    """Where a person reads."""
    return Output(stderr)


def _rich_console(stderr: bool, width: int | None) -> Console:
    from rich.console import Console
    from rich.table import Table

    class PlainConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            options["markup"] = options["emoji"] = False
            return super().render_str(without_controls(text), **options)

        def print(self, *objects: Any, **options: Any) -> None:
            given = self.width
            if width is not None and any(isinstance(one, (Table, Grid)) for one in objects):
                self.width = sys.maxsize  # as wide as the table: it does not fill the line
            super().print(*objects, **options)
            self.width = given

    return PlainConsole(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=False, width=width)


def line(*parts: str | tuple[str, str], style: str = "") -> Line:
    """One line of parts, each a text or a text with its style."""
    out = Line(style)
    for part in parts:
        words, how = (part, "") if isinstance(part, str) else part
        out.parts.append((without_controls(words), how))
    return out


def colour_of(outcome: str) -> str:
    """The colour of an outcome or a verdict; none for what is not decided of a comparison."""
    return COLOURS[tone_of(outcome)]


def note(text: str, *, serious: bool) -> Line:
    """A remark below the figures: a warning stands out."""
    return line(("!", "yellow"), f" {text}") if serious else line(f"· {text}", style="dim")


def grid(*heads: str | Line, gap: int = 2, ruled: bool = False, header: bool = True) -> Grid:
    """A table without a frame: the first column at the left, the others at the right."""
    rule = ruled and sys.stdout.isatty()
    table = Grid(1 if rule else gap, header=header, ruled=rule)
    for i, head in enumerate(heads):
        table.add_column(head, justify="right" if i else "left", no_wrap=True)
    return table


def head_of(name: str) -> str:
    """A name that heads a column: a file holds it whole, on a screen a long one loses its middle."""
    text = plain(name)
    if not sys.stdout.isatty() or len(text) <= HEAD:
        return text
    end = (HEAD - 1) // 2
    return f"{text[: HEAD - 1 - end]}…{text[-end:]}"


def wrapped(table: Grid) -> Grid:
    """The table with a first column that wraps at spaces, and gives way to the figures beside it."""
    table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"
    return table


def least_width(table: Grid) -> int:
    """The characters that a table needs so that no figure is cut: what wraps needs its longest word, and some room."""
    total = 0
    for column in table.columns:
        lines = [text for cell in (column.header, *column.cells) for text in str(cell).split("\n")]
        needs = [column.min_width or 0, *(count_cells(word) for text in lines for word in text.split())]
        longest = max(map(count_cells, lines))
        total += longest if column.no_wrap else max(*needs, min(longest, LABEL))
    gaps = len(table.columns) * table.gap
    return total + (gaps + len(table.columns) + 1 if table.ruled else gaps - table.gap)


Item = TypeVar("Item")


def lay_runs(
    out: Output, runs: Sequence[Item], build: Callable[[Sequence[Item], int], Grid], details: int
) -> tuple[list[Grid], int]:
    """Tables of runs that fit, and their level of detail: first detail is left out, then runs are divided.

    A file is as wide as it needs to be, so that runs stay together there.
    """
    for detail in range(details, -1, -1):
        table = build(runs, detail)
        if least_width(table) <= out.width:
            return [table], detail
    if not sys.stdout.isatty():
        return [build(runs, 0)], 0
    tables, chunk = [], list(runs[:1])
    for run in runs[1:]:
        if least_width(build([*chunk, run], 0)) > out.width:
            tables.append(build(chunk, 0))
            chunk = []
        chunk.append(run)
    return [*tables, build(chunk, 0)], 0


def note_without_intervals(out: Output) -> Line:
    """That a screen was too narrow for intervals."""
    return line(f"intervals left out: {out.width} characters are too few for them", style="dim")


def cutoffs(text: str | None) -> list[int] | None:
    """`1,3,5` → cutoffs."""
    if text is None:
        return None
    try:
        return [int(part) for part in text.strip("{}[] ").split(",")]
    except ValueError:
        raise UsageError(f"cutoffs must be integers such as 1,3,5, found {text!r}") from None


@contextmanager
def progress(quiet: bool, after: float = 1.0) -> Iterator[Watch | None]:
    """A bar on standard error for work that takes longer than a second; none where nobody looks."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("reading {task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console(stderr=True).rich,
        transient=True,
    )
    tasks: dict[str, TaskID] = {}
    start = time.monotonic()

    def watch(path: str, position: int, total: int) -> None:
        if not tasks and time.monotonic() - start < after:
            return
        if path not in tasks:
            bar.start()
            tasks[path] = bar.add_task(without_controls(os.path.basename(path)), total=total)
        bar.update(tasks[path], completed=position, total=total)

    try:
        yield watch
    finally:
        bar.stop()
