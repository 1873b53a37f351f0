"""Parquet, and data frames."""

from __future__ import annotations

import io
import json
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mutations import mutate_tree
from references import (
    DOC,
    GRADE,
    QUERY,
    SCORE,
    Gold,
    Refusal,
    Run,
    Scored,
    check_rivals,
    expect,
    finite,
    first_of,
    id_of,
    of_role,
)
from samples import SPACED, Case, Kind, as_number, damage, dump, some_rows


def _parquet(rng: Random, kind: str) -> Case:
    """Columns of odd types, or a file with damaged bytes."""
    rows = some_rows(rng, SPACED)
    value = "grade" if kind.endswith("gold") else "score"
    columns: dict[str, list[Any]] = {
        "query_id": [r[0] for r in rows],
        "doc_id": [r[1] for r in rows],
        value: [as_number(rng, r[2]) for r in rows],
    }
    columns[value] = [float(v) for v in columns[value]]
    if rng.random() < 0.5:
        name = rng.choice(list(columns))
        odd: list[Any] = [None, "", True, 7, 1.5, float("nan"), float("inf"), "a\x00b", b"x", [1]]
        replacement = rng.choice(odd)
        if rng.random() < 0.5:
            columns[name] = [replacement] * len(rows)
        else:
            columns[name][rng.randrange(len(rows))] = replacement
    try:
        table = pa.table(columns)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        table = pa.table({name: [str(v) for v in values] for name, values in columns.items()})
    if rng.random() < 0.2:
        table = table.rename_columns(
            [rng.choice([n, n.upper(), n + " ", 'a"b', "query_id"]) for n in table.column_names]
        )
    out = io.BytesIO()
    pq.write_table(table, out, compression=rng.choice(["none", "snappy", "zstd"]), use_dictionary=rng.random() < 0.5)
    data = out.getvalue()
    if rng.random() < 0.3:
        data, _ = damage(rng, data, lines=False)
    return Case(kind, "data.parquet", data)


def _frame(rng: Random, kind: str) -> Case:
    """Columns for a data frame, as JSON."""
    rows = some_rows(rng, SPACED)
    value = "grade" if kind.endswith("gold") else "score"
    tree: Any = {"query_id": [r[0] for r in rows], "doc_id": [r[1] for r in rows], value: [float(r[2]) for r in rows]}
    for _ in range(rng.choice([0, 1, 1, 2])):
        tree = mutate_tree(rng, tree)
    return Case(kind, "frame.json", dump(rng, tree))


def read_parquet(data: bytes, kind: str) -> Run | Gold | None:
    """None where pyarrow cannot read the file: another reader may, and nobody knows what is right."""
    try:
        table = pq.read_table(io.BytesIO(data), use_threads=False)
        columns = table.to_pydict()
    except Exception:
        return None
    if len(columns) < table.num_columns:
        return None  # a name twice
    return read_columns(columns, {n: table.schema.field(n).type for n in columns}, kind)


def frame_of(data: bytes) -> pa.Table:
    """The frame that a case describes; refused where its columns are not columns."""
    try:
        tree = json.loads(data)
        expect(isinstance(tree, dict) and tree and all(isinstance(v, list) for v in tree.values()), "not columns")
        return pa.table(tree)
    except (ValueError, TypeError, KeyError, OverflowError, pa.ArrowException) as error:
        raise Refusal(str(error)) from None


def read_frame(data: bytes, kind: str) -> Run | Gold:
    table = frame_of(data)
    return read_columns(table.to_pydict(), {n: table.schema.field(n).type for n in table.column_names}, kind)


def read_columns(columns: dict[str, list[Any]], types: dict[str, pa.DataType], kind: str) -> Run | Gold:
    names = [name.lower() for name in columns]
    roles = (QUERY, DOC, GRADE if kind.endswith("gold") else SCORE)
    query, doc, value = (first_of(names, wanted) for wanted in roles)
    if kind.endswith("run") and "chunk_id" in names:
        doc = names.index("chunk_id")
    original = list(columns)
    for place in (query, doc):
        type_ = types[original[place]]
        expect(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_integer(type_), "ids")
    type_ = types[original[value]]
    expect(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_), "numbers")
    rows: Scored = []
    for cells in zip(*columns.values(), strict=True):
        check_rivals(dict(zip(names, cells, strict=True)), kind)
        rows.append((id_of(cells[query]), id_of(cells[doc]), finite(cells[value])))
    return of_role(kind, rows)


KINDS = {
    "parquet run": Kind(_parquet, read_parquet),
    "parquet gold": Kind(_parquet, read_parquet),
    "frame run": Kind(_frame, read_frame),
    "frame gold": Kind(_frame, read_frame),
}
