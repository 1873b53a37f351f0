"""TREC: runs and gold."""

from __future__ import annotations

import re
from random import Random

from references import Gold, Run, Scored, expect, id_of, number, of_role, text_of
from samples import IDS, Case, Kind, finish, some_rows


def _trec(rng: Random, kind: str) -> Case:
    mark = rng.choice([" ", " ", "\t", "  "])
    lines = []
    for n, (q, d, v) in enumerate(some_rows(rng, IDS), start=1):
        cells = (q, "0", d, v) if kind.endswith("gold") else (q, "Q0", d, str(n), v, "tag")
        lines.append(mark.join(cells) + "\n")
    return finish(rng, kind, "data.txt", "".join(lines).encode())


def read_trec(data: bytes, kind: str) -> Run | Gold:
    rows: Scored = []
    width = 0
    for line in text_of(data).split("\n"):
        cells = re.split(r"[ \t\r\x0b\x0c]+", line.strip(" \t\r\x0b\x0c"))
        if cells == [""] or line.startswith("#"):
            continue
        width = width or len(cells)
        expect(len(cells) == width and width in ((4,) if kind.endswith("gold") else (5, 6)), "columns")
        value = number(cells[3] if kind.endswith("gold") else cells[4])
        rows.append((id_of(cells[0]), id_of(cells[2]), value))
    return of_role(kind, rows)


KINDS = {"trec run": Kind(_trec, read_trec), "trec gold": Kind(_trec, read_trec)}
