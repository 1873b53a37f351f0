"""Strict readers of what is not rows of text: Parquet, frames, vectors, tables of queries and docs, cases, OBO."""

from __future__ import annotations

import ast
import io
import json
import re
import struct
import zipfile
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

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
    header_of,
    id_of,
    json_lines,
    of_role,
    parse_json,
    read_json,
    read_jsonl,
    read_log,
    read_rows_table,
    read_trec,
    split_csv,
    text_of,
)

# --- Parquet, frames, vectors -------------------------------------------------------------------------


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


def read_vectors(data: bytes, kind: str) -> dict[str, list[float]] | None:
    """The vectors by id; None where the file is odd in a way that numpy decides."""
    try:
        case = json.loads(data)
        raw = bytes.fromhex(case["data"])
    except (ValueError, KeyError, TypeError) as error:
        raise Refusal(str(error)) from None
    if not kind.endswith("npz"):
        return dict(zip(case["ids"], _npy(raw, len(case["ids"])), strict=True))
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as parts:
            return dict(zip(case["ids"], _npy(parts.read("vectors.npy"), len(case["ids"])), strict=True))
    except Exception as error:
        raise Refusal(str(error)) from None


def _npy(raw: bytes, rows: int) -> list[list[float]]:
    expect(raw[:8] == b"\x93NUMPY\x01\x00" and len(raw) > 10, "not .npy")
    size = struct.unpack("<H", raw[8:10])[0]
    try:
        head = ast.literal_eval(raw[10 : 10 + size].decode("latin-1").strip())
        shape, order, kind = head["shape"], head["fortran_order"], head["descr"]
        assert len(shape) == 2
    except Exception as error:
        raise Refusal(str(error)) from None
    expect(shape[0] == rows and shape[1] > 0, "as many rows as ids")
    codes = {
        "f2": "e",
        "f4": "f",
        "f8": "d",
        "u1": "B",
        "i1": "b",
        "i2": "h",
        "i4": "i",
        "i8": "q",
        "u2": "H",
        "u4": "I",
        "u8": "Q",
    }
    expect(kind[1:] in codes, "numbers")
    count = shape[0] * shape[1]
    try:
        mark = ">" if kind[0] == ">" else "<"
        values = struct.unpack_from(f"{mark}{count}{codes[kind[1:]]}", raw, 10 + size)
    except struct.error as error:
        raise Refusal(str(error)) from None
    if order:
        return [list(map(float, values[i :: shape[0]])) for i in range(shape[0])]
    return [list(map(float, values[i : i + shape[1]])) for i in range(0, count, shape[1])]


# --- tables of queries and docs, cases, ontologies ----------------------------------------------------

QUERY_IDS = ("_id", "id", *QUERY)
DOC_IDS = ("_id", "id", "chunk_id", *(n for n in DOC if n != "chunk_id"))
Table = dict[str, dict[str, Any]]


def table_of(rows: Iterable[dict[str, Any]], kind: str) -> Table:
    wanted = DOC_IDS if kind.startswith("corpus") else QUERY_IDS
    out: Table = {}
    for row in rows:
        name = next((n for n in wanted if n in row), None)
        expect(name is not None, "no id")
        id = id_of(row[name])
        expect(id not in out, "an id twice")
        out[id] = {n: v for n, v in row.items() if n not in (name, "metadata")}
    return out


def read_table_jsonl(data: bytes, kind: str) -> Table:
    rows = json_lines(data)
    expect(rows, "no rows")
    return table_of(
        ({**row["metadata"], **row} if isinstance(row.get("metadata"), dict) else row for row in rows), kind
    )


def read_table_text(data: bytes, kind: str) -> Table | None:
    """A table with a header; None without one, where an id and a text on each line is a matter of taste."""
    text = text_of(data)
    expect(text.strip(), "nothing")
    first = next(line for line in text.split("\n") if line.strip())
    wanted = DOC_IDS if kind.startswith("corpus") else QUERY_IDS
    try:
        mark = header_of(first, "\t,;", wanted)
    except Refusal:
        return None
    quoted = mark != "\t" or all(re.fullmatch(r'"[\w -]+"', name) for name in first.rstrip("\r").split("\t"))
    if quoted:
        records = [cells for cells in split_csv(text, mark) if any(cells)]
    else:
        records = [line.removesuffix("\r").split("\t") for line in text.split("\n") if line.strip()]
    names = [name.strip().lower() for name in records[0]]
    expect(len({n for n in names if n}) == len([n for n in names if n]), "a column twice")
    for cells in records:
        expect(len(cells) == len(names), "columns")
    rows = ({n: c for n, c in zip(names, cells, strict=True) if c != ""} for cells in records[1:])
    return table_of(rows, kind)


def read_topics(data: bytes, kind: str) -> Table | None:
    """An id, a tab and a text on each line; None where the first line is something else."""
    text = text_of(data)
    lines = [line.removesuffix("\r") for line in text.split("\n") if line.strip()]
    if not lines or lines[0].count("\t") != 1 or not lines[0][0].isdigit():
        return None
    out: Table = {}
    for line in lines:
        cells = line.split("\t")
        expect(len(cells) == 2, "an id and a text")
        id = id_of(cells[0].strip())
        expect(id not in out, "an id twice")
        out[id] = {"text": cells[1].strip()}
    return out


def read_cases(data: bytes, kind: str) -> Gold:
    tree = parse_json(text_of(data))
    cases = tree.get("test_cases") if isinstance(tree, dict) else tree
    expect(isinstance(cases, list), "no cases")
    out: Gold = {}
    for n, case in enumerate(cases, start=1):
        expect(isinstance(case, dict), "not a case")
        id = id_of(case.get("case_id", n))
        expect(id not in out and isinstance(case.get("text"), str) and case["text"].strip(), "case")
        ids = next((case[name] for name in ("expected_ids", "expected_hpo_ids") if name in case), None)
        if isinstance(ids, list):
            ids = dict.fromkeys(map(id_of, ids), 1)
        expect(isinstance(ids, dict) and ids, "ids")
        out[id] = {id_of(i): finite(g) for i, g in ids.items()}
        expect(all(g > 0 for g in out[id].values()), "grades")
        for i in ids:
            expect(i.strip() and (not i.startswith("HP:") or re.fullmatch(r"HP:\d{7}", i)), "HPO")
    return out


def read_obo(data: bytes, kind: str) -> dict[str, tuple[str, list[str], list[str], list[str]]]:
    """{id: (name, parents, synonyms, other ids)} of the terms."""
    out: dict[str, tuple[str, list[str], list[str], list[str]]] = {}
    term: dict[str, list[str]] | None = None
    terms: list[dict[str, list[str]]] = []
    for line in text_of(data).replace("\r\n", "\n").split("\n"):
        if line.startswith("["):
            expect(line.rstrip().endswith("]") or line.startswith("[Term]"), "a head")
            term = {} if line.startswith("[Term]") else None
            if term is not None:
                terms.append(term)
        elif line.strip() and not line.startswith("!"):
            tag, colon, value = line.partition(":")
            expect(colon, "a line without a tag")
            if term is not None:
                term.setdefault(tag, []).append(value.strip())
    expect(terms, "no terms")
    for term in terms:
        expect(len(term.get("id", [])) == 1 and term["id"][0], "an id")
        id = term["id"][0].split()[0]
        synonyms = []
        for text in term.get("synonym", []):
            match = re.match(r'"((?:[^"\\]|\\.)*)"', text)
            expect(match, "a synonym in quotes")
            synonyms.append(unescape(match[1] if match else ""))
        expect(all(term.get("is_a", [])), "a parent")
        parents = [p.split()[0] for p in term.get("is_a", [])]
        others = [a.split()[0] if a else "" for a in term.get("alt_id", [])]
        expect(id not in out, "an id twice")
        out[id] = (unescape(term.get("name", [""])[-1]), parents, synonyms, others)
    return out


def unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t", "W": " "}.get(m[1], m[1]), text)


READERS: dict[str, Callable[[bytes, str], Any]] = {
    "trec": read_trec,
    "csv": read_rows_table,
    "tsv": read_rows_table,
    "jsonl": read_jsonl,
    "json": read_json,
    "chroma": read_json,
    "log": read_log,
    "parquet": read_parquet,
    "frame": read_frame,
    "embeddings": read_vectors,
    "queries jsonl": read_table_jsonl,
    "queries csv": read_table_text,
    "queries tsv": read_table_text,
    "queries topics": read_topics,
    "corpus jsonl": read_table_jsonl,
    "corpus csv": read_table_text,
    "corpus tsv": read_table_text,
    "cases": read_cases,
    "obo": read_obo,
}


def reference_for(kind: str) -> Callable[[bytes, str], Any]:
    return READERS.get(kind) or READERS[kind.split()[0]]
