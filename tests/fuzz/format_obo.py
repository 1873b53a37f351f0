"""Ontologies in OBO."""

from __future__ import annotations

import re
from random import Random

from references import expect, text_of
from samples import Case, Kind, finish


def _obo(rng: Random, kind: str) -> Case:
    out = ["format-version: 1.2\ndata-version: 2025-01-01\n"]
    for n in range(rng.randint(1, 6)):
        lines = [f"[Term]\nid: X:{n}\nname: term {n}\n"]
        if n:
            lines.append(f"is_a: X:{rng.randrange(n)} ! a parent\n")
        for line in ('synonym: "a \\"b\\" c" EXACT []\n', f"alt_id: X:9{n}\n", "xref: Y:1\n", "comment: a: b\n"):
            if rng.random() < 0.3:
                lines.append(line)
        out.append("".join(lines))
    if rng.random() < 0.3:
        out.append("[Typedef]\nid: part_of\nname: part of\n")
    return finish(rng, kind, "data.obo", "\n".join(out).encode())


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


KINDS = {"obo": Kind(_obo, read_obo)}
