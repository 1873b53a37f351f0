"""Lines and tables of texts with styles: what rich shows on a terminal is laid out here for files and pipes.

Importing rich takes as long as evaluating a small run. What has to wrap or to be cut is left to it everywhere.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Literal

from karat.records import dataclass
from karat.results.words import without_controls

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

WIDE = "\u0300"
"""Every character before this one takes one cell of a line, once controls are replaced."""


class Line:
    """A text in parts, each with its style, and a style of the whole."""

    def __init__(self, style: str = "") -> None:
        self.parts: list[tuple[str, str]] = []
        self.style = style

    def append(self, other: Line) -> Line:
        """This line with another one after it."""
        self.parts += [(words, f"{other.style} {style}".strip()) for words, style in other.parts]
        return self

    def __str__(self) -> str:
        return "".join([words for words, _ in self.parts])

    def styled(self) -> Text:
        """The line for rich."""
        from rich.text import Text

        text = Text(style=self.style)
        for words, style in self.parts:
            text.append(words, style=style or None)
        return text

    __rich__ = styled


@dataclass
class GridColumn:
    """A column, and how its cells stand in it."""

    header: str | Line
    justify: Literal["left", "right"] = "left"
    style: str = ""
    no_wrap: bool = False
    overflow: Literal["ellipsis", "fold"] = "ellipsis"
    min_width: int | None = None
    max_width: int | None = None
    cells: list[str | Line] = field(default_factory=list)


class Grid:
    """A table without a frame; where it is ruled, with a line below its heads."""

    def __init__(self, gap: int, *, header: bool = True, ruled: bool = False) -> None:
        self.gap, self.header, self.ruled = gap, header, ruled
        self.title = ""
        self.columns: list[GridColumn] = []
        self.styles: list[str | None] = []
        """Of each row."""

    def add_column(
        self,
        header: str | Line = "",
        *,
        justify: Literal["left", "right"] = "left",
        style: str = "",
        no_wrap: bool = False,
        overflow: Literal["ellipsis", "fold"] = "ellipsis",
        min_width: int | None = None,
        max_width: int | None = None,
    ) -> None:
        """One more column at the right."""
        self.columns.append(GridColumn(header, justify, style, no_wrap, overflow, min_width, max_width))

    def add_row(self, *cells: str | Line, style: str | None = None) -> None:
        """One more row at the bottom; cells that are missing are empty."""
        for i, column in enumerate(self.columns):
            column.cells.append(cells[i] if i < len(cells) else "")
        self.styles.append(style)

    def __rich__(self) -> Table:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        box = SIMPLE_HEAD if self.ruled else None
        table = Table(box=box, pad_edge=False, padding=(0, self.gap, 0, 0), show_header=self.header)
        if self.title:
            table.title, table.title_justify = self.title, "left"
        for column in self.columns:
            table.add_column(
                _for_rich(column.header),
                justify=column.justify,
                style=column.style or None,
                no_wrap=column.no_wrap,
                overflow=column.overflow,
                min_width=column.min_width,
                max_width=column.max_width,
            )
        for i, style in enumerate(self.styles):
            table.add_row(*(_for_rich(column.cells[i]) for column in self.columns), style=style)
        return table


def _for_rich(cell: str | Line) -> str | Text:
    return cell.styled() if isinstance(cell, Line) else cell


def count_cells(text: str) -> int:
    """The characters of a terminal that a text takes."""
    if max(text, default="") < WIDE:
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def lay_out(shown: object, width: int) -> str | None:
    """The lines of a text or a table without styles; None if something has to be wrapped or cut.

    Lines of a text may be so wide, and a table is as wide as it needs to be.
    """
    if isinstance(shown, Grid):
        return _lay_out_grid(shown)
    if not isinstance(shown, (str, Line)):
        return None
    text = without_controls(str(shown))
    if "\t" in text or any(count_cells(row) > width for row in text.split("\n")):
        return None
    return f"{text}\n"


def _lay_out_grid(grid: Grid) -> str | None:
    if grid.ruled or grid.title or not grid.columns or not (grid.header or grid.styles):
        return None
    columns = []
    for i, column in enumerate(grid.columns):
        cells = [*([column.header] if grid.header else []), *column.cells]
        texts = [without_controls(str(cell)).split("\n") for cell in cells]
        natural = max((count_cells(row) for rows in texts for row in rows), default=0)
        if any("\t" in row for rows in texts for row in rows):
            return None
        if column.max_width is not None and natural > column.max_width:
            return None
        gap = grid.gap if i < len(grid.columns) - 1 else 0
        width = max(max(natural, column.min_width or 0) + gap, 1)
        columns.append((column.justify, width - gap, gap, texts))
    lines = []
    for number, rows in enumerate(zip(*(texts for *_, texts in columns), strict=True)):
        height = max(map(len, rows))
        for i in range(height):
            parts = []
            for (justify, width, gap, _), cell in zip(columns, rows, strict=True):
                above = height - len(cell) if grid.header and number == 0 else 0  # heads stand at the bottom
                text = cell[i - above] if 0 <= i - above < len(cell) else ""
                text = text.rstrip() if justify == "right" else text
                space = " " * (width - count_cells(text))
                parts.append((space + text if justify == "right" else text + space) + " " * gap)
            lines.append("".join(parts))
    return "".join(f"{line}\n" for line in lines)
