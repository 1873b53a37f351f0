"""The table of `karat diagnose --misses`: terminal, CSV, Markdown (the page's Top misses: `overview.js`)."""

from __future__ import annotations

import csv
import io
import os
from typing import TYPE_CHECKING

from karat.errors import UsageError
from karat.report.files import safe_cell, write_text
from karat.report.markdown import code, text
from karat.report.terminal.console import console, line

if TYPE_CHECKING:
    from karat.verbs.diagnose.misses import Listed, Misses

KINDS = (".csv", ".md")
GOLD = 8
"""Gold docs of a miss that a terminal shows."""
SHORT = 80
"""Characters of a text that are shown."""
COLUMNS = (
    "query_id",
    "query",
    "gold",
    "rank",
    "doc",
    "grade",
    "doc_text",
    "baseline_doc",
    "baseline_grade",
    "baseline_text",
)


def check_name(path: str) -> None:
    """Refuse an unknown kind of table before any work is done."""
    if os.path.splitext(path)[1].lower() not in KINDS:
        raise UsageError(f"{path}: the table of misses must end in one of {', '.join(KINDS)}")


def write(misses: Misses, path: str, top: int | None = None) -> None:
    """The table as a file; its ending chooses the kind."""
    check_name(path)
    kind = os.path.splitext(path)[1].lower()
    write_text(as_csv(misses, top) if kind == ".csv" else as_markdown(misses, top), path)


def as_csv(misses: Misses, top: int | None = None) -> str:
    """A row for each rank of each query, the baseline's doc beside; cells that a spreadsheet would run are quoted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for miss in misses.rows[:top]:
        gold = " ".join(f"{g.doc} ({_grade(g)}{f', {g.loss}' if g.loss else ''})" for g in miss.gold)
        beside = miss.baseline or ()
        for i in range(max(len(miss.top), len(beside), 1)):
            mine, other = (docs[i] if i < len(docs) else None for docs in (miss.top, beside))
            cells = [miss.query_id, _flat(miss.text, 0), gold, str(i + 1)]
            for doc in (mine, other):
                cells += [doc.doc, _grade(doc), _flat(doc.text, SHORT)] if doc is not None else ["", "", ""]
            writer.writerow(safe_cell(c) for c in cells)
    return out.getvalue()


def as_markdown(misses: Misses, top: int | None = None) -> str:
    """A small table for each query."""
    parts = [f"# Misses of {text(misses.run)}", _summary(misses, top)]
    for miss in misses.rows[:top]:
        about = f": {text(_flat(miss.text, 0))}" if miss.text else ""
        gold = [f"- gold {code(g.doc)}, grade {_grade(g)}, {_rank_text(g)}{_words(g, ': ')}" for g in miss.gold]
        head = ["rank", text(misses.run)] + ([text(misses.baseline)] if misses.baseline is not None else [])
        rows = [head, ["---:", *("---" for _ in head[1:])]]
        beside = miss.baseline or ()
        for i in range(max(len(miss.top), len(beside))):
            cells = [str(i + 1), _cell(miss.top, i)]
            rows.append(cells + ([_cell(beside, i)] if misses.baseline is not None else []))
        parts.append(f"## {code(miss.query_id)}{about}")
        parts.append("\n".join(gold))
        parts.append("\n".join("| " + " | ".join(cells) + " |" for cells in rows))
    return "\n\n".join(parts) + "\n"


def show(misses: Misses, top: int = 5) -> None:
    """The first few misses, each with its gold and the lists side by side."""
    from rich.table import Table
    from rich.text import Text

    out = console()
    out.print(Text(_summary(misses, top), style="bold"), soft_wrap=True)
    for miss in misses.rows[:top]:
        out.print()
        out.print(Text(f"{_flat(miss.query_id, 0)}  {_flat(miss.text, 0)}", style="bold cyan"), soft_wrap=True)
        for g in miss.gold[:GOLD]:
            out.print(
                Text(f"  gold {_flat(g.doc, 0)} (grade {_grade(g)}, {_rank_text(g)})  {_flat(g.text, SHORT)}"),
                soft_wrap=True,
            )
        if len(miss.gold) > GOLD:
            out.print(line(f"  and {len(miss.gold) - GOLD} more; files hold all", style="dim"))
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2))
        table.add_column("rank", justify="right")
        table.add_column(Text(_flat(misses.run, 0)), overflow="fold")
        if misses.baseline is not None:
            table.add_column(Text(_flat(misses.baseline, 0)), overflow="fold")
        beside = miss.baseline or ()
        for i in range(max(len(miss.top), len(beside))):
            columns = [miss.top] + ([beside] if misses.baseline is not None else [])
            table.add_row(str(i + 1), *(Text(_line(column, i)) for column in columns))
        out.print(table)


def _summary(misses: Misses, top: int | None) -> str:
    count = len(misses)
    text = f"{count:,} of {misses.queries:,} queries {'has' if count == 1 else 'have'} no relevant doc in the top 10"
    if misses.absent:
        text += f" ({misses.absent:,} without a line in the run)"
    if misses.without_gold:
        text += f"; the gold of {misses.without_gold:,} more has no relevant doc"
    return text + (f"; the first {top} are shown" if top is not None and top < count else "")


def _line(docs: tuple[Listed, ...], i: int) -> str:
    if i >= len(docs):
        return ""
    doc = docs[i]
    words = f"  {_flat(doc.text, SHORT)}" if doc.text else ""
    return f"{_flat(doc.doc, 0)} ({_grade(doc)}){words}"


def _cell(docs: tuple[Listed, ...], i: int) -> str:
    return f"{code(_flat(docs[i].doc, 0))} ({_grade(docs[i])}){_words(docs[i], ' ')}" if i < len(docs) else ""


def _words(doc: Listed, before: str) -> str:
    return f"{before}{text(_flat(doc.text, SHORT))}" if doc.text else ""


def _rank_text(doc: Listed) -> str:
    if doc.rank:
        return f"found at {doc.rank}"
    return "not found" if doc.loss is None else str(doc.loss)


def _grade(doc: Listed) -> str:
    return "not judged" if doc.grade is None or doc.grade < 0 else f"{doc.grade:g}"


def _flat(words: str, limit: int) -> str:
    """Text on one line, without characters that a terminal obeys, and short where a limit is given."""
    line = " ".join("".join(c if c.isprintable() else " " for c in words).split())
    return line if not limit or len(line) <= limit else line[: limit - 1] + "…"
