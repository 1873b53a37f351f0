"""Text files as DuckDB reads them: for runs that are too large and too disordered for memory."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

from karat.read.files import BROKEN_PACKING, open_bytes, unpacking_error
from karat.store.database import Database, DatabaseError, Selection, as_pattern

if TYPE_CHECKING:
    from karat.read.textfile import TextFile


def clean_source(file: TextFile) -> tuple[Selection, list[str]] | None:
    """Rows of query, doc, score (and parent), and the queries that there are.

    None where DuckDB cannot read the file, or where a row lacks its ids or a finite score.
    """
    if file.stdin is not None:
        return None
    marks = (file.layout.delimiter,) if file.layout.delimiter is not None else (_single_mark(file), None)
    for mark in dict.fromkeys(marks):
        try:
            source = _source(file, mark)
            queries = _queries_if_clean(file, source)
        except DatabaseError:
            continue
        if queries is not None:
            return source, queries
    return None


def _source(file: TextFile, mark: str | None) -> Selection:
    """Rows cut at one mark, or at any white space."""
    layout = file.layout
    options = "header = $header, auto_detect = false, compression = $packing"
    values: dict[str, object] = {
        "file": as_pattern(file.path),
        "header": bool(layout.header),
        "packing": _packing(file.path),
    }
    if mark is None:
        lines = f"read_csv($file, columns = {{'line': 'VARCHAR'}}, delim = chr(31), quote = '', escape = '', {options})"
        cells = (
            f"SELECT string_split_regex(trim(line, chr(32) || chr(9) || chr(13)), '[ \\t\\r]+') AS cell FROM {lines}"
        )
        aliases = [f"cell[{i + 1}] AS c{i}" for i in range(layout.width)]
        source = f"SELECT {', '.join(aliases)} FROM ({cells}) WHERE len(cell) = {layout.width}"
    else:
        columns = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(layout.width))
        values |= {"mark": mark, "quote": '"' if layout.delimiter is not None else ""}
        source = (
            f"SELECT * FROM read_csv($file, columns = {{{columns}}}, delim = $mark, quote = $quote, escape = $quote, "
            f"null_padding = false, {options})"
        )
    clean = "trim(c{}, chr(32) || chr(9))" if layout.delimiter is not None else "c{}"
    parent = f", {clean.format(layout.parent)} AS parent" if layout.parent is not None else ""
    sql = (
        f"SELECT {clean.format(layout.query)} AS query, {clean.format(layout.doc)} AS doc, "
        f"CASE WHEN NOT contains(c{layout.value}, '_') THEN TRY_CAST(c{layout.value} AS DOUBLE) END AS score{parent} "
        f"FROM ({source})"
    )
    return Selection(sql, values, (file.path,))


def _queries_if_clean(file: TextFile, source: Selection) -> list[str] | None:
    """The queries of the run; None if a row lacks its ids or a finite score.

    DuckDB itself lets `1e999`, NaN and `1_000` pass.
    """
    inside = " OR ".join(f"contains({c}, chr({mark}))" for c in ("query", "doc") for mark in (32, 9, 13))
    parted = f"OR {inside}" if file.layout.delimiter is None else ""
    counts = (
        f"count(*) FILTER (score IS NULL OR NOT isfinite(score) OR query IS NULL OR query = '' "
        f"OR doc IS NULL OR doc = '' OR query LIKE '#%' {parted}), count(*), list(DISTINCT query)"
    )
    ((bad, rows, queries),) = Database(source.files).fetch(source.select(counts))
    return list(queries or ()) if bad == 0 and rows == _line_count(file) else None


def _line_count(file: TextFile) -> int:
    """The lines below the header; −1 where the file is not UTF-8: DuckDB looks at the columns that it reads alone."""
    count, last, decoder = 0, b"\n", codecs.getincrementaldecoder("utf-8")()
    try:
        with open_bytes(file.path) as stream:
            while piece := stream.read(1 << 20):
                if not piece.isascii() or decoder.getstate()[0]:
                    decoder.decode(piece)
                count += piece.count(b"\n")
                last = piece[-1:]
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return -1
    except BROKEN_PACKING as error:
        raise unpacking_error(file.path, error) from None
    return count + (last != b"\n") - bool(file.layout.header)


def _single_mark(file: TextFile) -> str | None:
    """The one character between the fields of the first lines, if it is always the same one."""
    with open_bytes(file.path) as stream:
        lines = stream.read(1 << 16).split(b"\n")[:-1][:500]
    for mark in (b" ", b"\t"):
        if lines and all(line.rstrip(b"\r").split(mark) == line.split() for line in lines):
            return mark.decode()
    return None


def _packing(path: str) -> str:
    with open(path, "rb") as file:
        magic = file.read(4)
    return "gzip" if magic[:2] == b"\x1f\x8b" else "zstd" if magic == b"\x28\xb5\x2f\xfd" else "none"
