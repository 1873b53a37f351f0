"""What a result shows of itself: a table of rows for notebooks and data frames, and what to know of its data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karat.errors import missing_package
from karat.records import dataclass
from karat.store.codec import as_plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.model.json_data import JsonObject
    from karat.results.document import DocumentJson
    from karat.results.remarks import Remark

Cell = str | int | float | bool | None


@dataclass(frozen=True)
class Table:
    """Columns of plain values for a data frame, and the cells that a reader sees."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    heads: Sequence[str]
    cells: Sequence[Sequence[str]]
    caption: str = ""
    notes: Sequence[str] = ()
    """What to know before believing the figures."""
    more: Sequence[Table] = ()
    """What a reader sees below the cells, such as the differences from a baseline."""

    def to_html(self) -> str:
        """Caption, cells and notes as HTML, in which every name is text."""
        from html import escape

        head = "".join(f"<th>{escape(text)}</th>" for text in self.heads)
        body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in self.cells)
        caption = f"<p>{escape(self.caption)}</p>" if self.caption else ""
        notes = "".join(f"<li>{escape(text)}</li>" for text in self.notes)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        more = "".join(below.to_html() for below in self.more)
        return f"{caption}{table}{more}{f'<ul>{notes}</ul>' if notes else ''}"

    def to_text(self) -> str:
        """The cells in columns, then the tables below them."""
        lines = [self.heads, *self.cells]
        widths = [max(len(row[i]) for row in lines) for i in range(len(self.heads))]
        rows = ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in lines)
        below = (text for table in self.more for text in ("", *filter(None, (table.caption,)), table.to_text()))
        return "\n".join((*rows, *below))

    def to_dict(self) -> dict[str, list[Cell]]:
        """Each column's values."""
        return {name: [row[i] for row in self.rows] for i, name in enumerate(self.columns)}


class Tabular:
    """A result that holds rows: it shows itself in notebooks, gives data frames, and says what to know of its data."""

    @property
    def own_notes(self) -> Sequence[str]:
        """What the verb itself noted, beside the remarks on the data; the command line marks it with "!"."""
        return ()

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What the command line prints of the data behind the figures."""
        return ()

    @property
    def serious_remarks(self) -> tuple[Remark, ...]:
        """The remarks that the command line marks with "!"."""
        return tuple(remark for remark in self.remarks if remark.serious)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know before believing the figures: the sentences that the command line prints."""
        return tuple(dict.fromkeys((*(remark.text for remark in self.remarks), *self.own_notes)))

    @property
    def warnings(self) -> tuple[str, ...]:
        """The notes on data that may make the figures misleading; each is a `karat.KaratWarning` too."""
        return tuple(dict.fromkeys((*(remark.text for remark in self.serious_remarks), *self.own_notes)))

    def table(self) -> Table:
        """All rows, as values and as a reader sees them."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame."""
        try:
            from pandas import DataFrame  # type: ignore[import-untyped]
        except ImportError:
            raise missing_package("to_pandas", "pandas") from None
        return DataFrame(self.table().to_dict())

    def to_polars(self) -> Any:
        """The rows as a Polars DataFrame."""
        try:
            import polars
        except ImportError:
            raise missing_package("to_polars", "polars") from None
        return polars.DataFrame(self.table().to_dict(), strict=False)

    def _repr_html_(self) -> str:
        return self.table().to_html()


class Documented(Tabular):
    """A result with a document, which JSON files hold and schemas describe."""

    def document(self) -> DocumentJson:
        """The document that `--json` writes."""
        raise NotImplementedError

    def as_json(self) -> JsonObject:
        """The document that `--json` writes, as plain data."""
        return as_plain(self.document())
