"""CSV and TSV: runs and gold as tables with a header."""

from __future__ import annotations

import csv
import io
from random import Random

from references import (
    DOC,
    GRADE,
    QUERY,
    SCORE,
    Gold,
    Run,
    Scored,
    check_rivals,
    expect,
    first_of,
    header_of,
    id_of,
    number,
    of_role,
    split_csv,
    text_of,
)
from samples import SPACED, Case, Kind, finish, some_rows


def _table(rng: Random, kind: str) -> Case:
    mark = "\t" if "tsv" in kind else rng.choice([",", ",", ";", "|"])
    value = rng.choice(["grade", "relevance", "rel"] if kind.endswith("gold") else ["score", "sim"])
    names = [
        rng.choice(["query_id", "query-id", "qid", "Query_ID"]),
        rng.choice(["doc_id", "corpus-id", "docno"]),
        value,
    ]
    more = rng.random() < 0.3
    order = rng.sample(range(4 if more else 3), 4 if more else 3)
    out = io.StringIO()
    writer = csv.writer(
        out, delimiter=mark, lineterminator=rng.choice(["\n", "\n", "\r\n"]), quoting=rng.choice([0, 0, 1])
    )
    for row in [tuple(names), *some_rows(rng, [i for i in SPACED if i == i.strip()])]:
        cells = (*row, rng.choice(["note", "", "a note"]))
        writer.writerow([cells[i] for i in order])
    return finish(rng, kind, "data.tsv" if mark == "\t" else "data.csv", out.getvalue().encode())


def read_rows_table(data: bytes, kind: str) -> Run | Gold:
    text = text_of(data)
    lines = text.split("\n")
    while lines and (not lines[0].strip() or lines[0].startswith("#")):
        lines.pop(0)
    expect(lines, "no rows")
    mark = header_of(lines[0], "\t,;|", QUERY + DOC)
    records = split_csv("\n".join(lines), mark)
    return rows_by_name(records[0], records[1:], kind)


def rows_by_name(header: list[str], records: list[list[str]], kind: str) -> Run | Gold:
    names = [name.strip().strip('"').lower() for name in header]
    roles = (QUERY, DOC, GRADE if kind.endswith("gold") else SCORE)
    query, doc, value = (first_of(names, wanted) for wanted in roles)
    if kind.endswith("run") and "chunk_id" in names:
        doc = first_of(names, ("chunk_id",))
    rows: Scored = []
    for cells in records:
        expect(len(cells) == len(names), "columns")
        cells = [cell.strip(" \t") for cell in cells]
        check_rivals(dict(zip(names, cells, strict=True)), kind)
        rows.append((id_of(cells[query]), id_of(cells[doc]), number(cells[value].strip(" \t\r\n\x0b\x0c"))))
    return of_role(kind, rows)


KINDS = {kind: Kind(_table, read_rows_table) for kind in ("csv run", "csv gold", "tsv run", "tsv gold")}
