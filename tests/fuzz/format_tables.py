"""Tables of queries and docs, and topics."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from random import Random
from typing import Any

from references import DOC, QUERY, Refusal, expect, header_of, id_of, json_lines, split_csv, text_of
from samples import Case, Kind, damage_json, finish

QUERY_IDS = ("_id", "id", *QUERY)


DOC_IDS = ("_id", "id", "chunk_id", *(n for n in DOC if n != "chunk_id"))


Table = dict[str, dict[str, Any]]


def _queries(rng: Random, kind: str) -> Case:
    ids = rng.sample(["q1", "q2", "q3", "10", "ü", "a b"], rng.randint(1, 5))
    texts = ["what is love", 'say "hi"', '"quoted', "a, b", "tab\there", "", "5'", "ä ö", "#tag", "a\nb", "x" * 80]
    name = rng.choice(["_id", "query_id", "id"] if kind.startswith("queries") else ["_id", "doc_id", "id"])
    rows = [
        {
            name: i,
            "text": rng.choice(texts),
            "language": rng.choice(["de", "en", ""]),
            "n": rng.choice(["1", "no", "x"]),
        }
        for i in ids
    ]
    if kind.endswith("jsonl"):
        trees: list[Any] = [{k: v for k, v in row.items() if rng.random() < 0.9 or k == name} for row in rows]
        return damage_json(rng, kind, "data.jsonl", trees)
    if kind.endswith("tsv"):
        flat = [
            [str(v).replace("\t", " ").replace("\n", " ") for v in row.values()]
            for row in [dict(zip(rows[0], rows[0], strict=True)), *rows]
        ]
        return finish(rng, kind, "data.tsv", "".join("\t".join(cells) + "\n" for cells in flat).encode())
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator=rng.choice(["\n", "\r\n"]))
    writer.writeheader()
    writer.writerows(rows)
    return finish(rng, kind, "data.csv", out.getvalue().encode())


def _topics(rng: Random, kind: str) -> Case:
    lines = [
        f"{q}\t{text}\n" for q, text in (("1", "what is love"), ("2", 'a "b" c'), ("3", '"open'), ("4", "last, one"))
    ]
    return finish(rng, kind, "topics.tsv", "".join(lines).encode())


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


KINDS = {
    "queries jsonl": Kind(_queries, read_table_jsonl),
    "queries csv": Kind(_queries, read_table_text),
    "queries tsv": Kind(_queries, read_table_text),
    "queries topics": Kind(_topics, read_topics),
    "corpus jsonl": Kind(_queries, read_table_jsonl),
    "corpus csv": Kind(_queries, read_table_text),
    "corpus tsv": Kind(_queries, read_table_text),
}
