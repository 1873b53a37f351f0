"""One case judged: Karat refuses it with a clear error, or reads what the reference reads. Anything else is wrong."""

from __future__ import annotations

import json
import math
import re
import signal
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import karat
from format_parquet import frame_of
from karat.align import align
from karat.model.policy import Policy
from karat.ontology.obo import parse_obo
from karat.ontology.terms import build_ontology
from karat.read.docs import read_docs
from karat.read.embeddings import embeddings_of, vectors_of
from karat.read.files import open_input
from karat.read.formats import all_formats
from karat.read.queries import read_queries
from kinds import KINDS
from references import Refusal
from samples import Case

SECONDS = 20
"""How long a case may take before it counts as a hang."""
UNCLEAR = re.compile(
    r"Traceback|\b(Key|Type|Index|Attribute|Assertion|Recursion|Overflow|Unicode\w*)Error\b|NoneType|object at 0x"
)
NOWHERE = "\x01"


@dataclass(frozen=True)
class Verdict:
    """What came of a case, and for a wrong one why."""

    outcome: Literal["equal", "refused", "unknown", "wrong"]
    why: str = ""


class Hang(BaseException):
    """A case takes too long."""


@contextmanager
def alarm(seconds: int) -> Any:
    def ring(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def judge(case: Case, folder: Path) -> Verdict:
    """Read a case with Karat and with the reference, and compare."""
    path = folder / case.name
    path.write_bytes(case.data)
    try:
        reference = KINDS[case.kind].read(case.data, case.kind)
        refusal = ""
    except Refusal as error:
        reference, refusal = None, str(error) or "refused"
    try:
        with alarm(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("error")
            actual = reader_for(case.kind)(case, path, reference)
    except karat.KaratError as error:
        if (why := unclear(str(error), path)) is not None:
            return Verdict("wrong", why)
        if not case.damaged and not refusal:
            return Verdict("wrong", f"whole data is refused: {error}")
        return Verdict("refused")
    except Refusal:
        return Verdict("unknown")  # what the case describes cannot be made
    except Hang:
        return Verdict("wrong", f"takes longer than {SECONDS} s")
    except Exception as error:
        return Verdict("wrong", f"{type(error).__name__}: {error}")
    if refusal:
        return Verdict("wrong", f"is read, although the reference refuses it ({refusal}): {short(actual)}")
    if reference is None:
        return Verdict("unknown")
    if not same(actual, reference):
        return Verdict("wrong", f"read {short(actual)}, expected {short(reference)}")
    return Verdict("equal")


def short(value: object) -> str:
    return repr(value)[:300]


def unclear(message: str, path: Path) -> str | None:
    """What is wrong with an error message."""
    if not message.strip():
        return "an empty error"
    if UNCLEAR.search(message):
        return f"an error in words of Python: {message}"
    if any(len(line) > 2000 for line in message.splitlines()):
        return f"a long error: {message[:200]}"
    name = path.name if path.name != "frame.json" else ""
    if name and name not in message and path.stem not in message:
        return f"an error without the file: {message}"
    for line in re.findall(re.escape(path.name) + r":(\d+): ", message):
        if not 1 <= int(line) <= path.read_bytes().count(b"\n") + 1 and path.read_bytes()[:2] not in (
            b"\x1f\x8b",
            b"\x28\xb5",
        ):
            return f"a line that the file does not have: {message}"
    return None


def same(one: Any, other: Any) -> bool:
    """Whether two pieces of plain data are equal; numbers are, whatever their type."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    return type(one) is type(other) and bool(one == other)


def stated_format(case: Case) -> str | None:
    """The format by name for a third of the cases; the others are recognised."""
    name = KINDS[case.kind].format or case.kind.split()[0]
    return name if name in all_formats() and len(case.data) % 3 == 0 else None


def read_run(case: Case, path: Path, reference: Any) -> dict[str, list[str]]:
    """The lists as they are ranked against gold that judges every doc of the reference."""
    source = frame_of(case.data) if case.kind.startswith("frame") else str(path)
    run = karat.read_run(source, format=stated_format(case), policy=Policy(level="chunk"))
    judged = {q: dict.fromkeys(docs, 1.0) or {NOWHERE: 1.0} for q, docs in (reference or {"q1": ["d1"]}).items()}
    qrels = karat.read_qrels(judged)
    memory = 1 if case.kind.startswith(("trec", "csv")) and len(case.data) % 29 == 0 else None
    aligned, _ = align(qrels, run, Policy(level="chunk"), threads=1, memory=memory)
    hits = aligned.hits
    out: dict[str, list[str]] = {}
    for query, count in zip(qrels.query_ids, hits.returned.tolist(), strict=True):
        if count >= 0:
            out[query] = [f"a doc that the reference lacks at {n + 1}" for n in range(count)]
    for place, rank in zip(hits.gold.tolist(), hits.rank.tolist(), strict=True):
        out[qrels.query_ids[qrels.query_of[place]]][rank - 1] = qrels.docs[place]
    return out | {query: ["a query that the reference lacks"] for query in hits.without_gold}


def read_gold(case: Case, path: Path, reference: Any) -> dict[str, dict[str, float]]:
    source = frame_of(case.data) if case.kind.startswith("frame") else str(path)
    qrels = karat.read_qrels(source, format=stated_format(case))
    out: dict[str, dict[str, float]] = {query: {} for query in qrels.query_ids}
    for query, doc, grade in zip(qrels.query_of.tolist(), qrels.docs, qrels.grades.tolist(), strict=True):
        out[qrels.query_ids[query]][doc] = grade
    return out


def read_table(case: Case, path: Path, reference: Any) -> dict[str, dict[str, Any]]:
    table = read_docs(str(path)) if "corpus" in case.kind.split() else read_queries(str(path))
    return {id: dict(fields) for id, fields in table.fields.items()}


def read_vectors(case: Case, path: Path, reference: Any) -> dict[str, list[float]]:
    content = json.loads(case.data)
    path.write_bytes(bytes.fromhex(content["data"]))
    path.with_suffix(".ids.txt").write_text("".join(f"{id}\n" for id in content["ids"]), "utf-8")
    vectors = vectors_of(embeddings_of(str(path)), content["ids"])
    if reference is not None and not all(any(v) and all(map(math.isfinite, v)) for v in reference.values()):
        raise AssertionError("a vector without a direction is read")
    if reference is not None:  # only directions count: very long and very short vectors are scaled
        reference.update({id: scaled(vector) for id, vector in reference.items()})
    rows = vectors.matrix[vectors.row].astype(float).tolist()
    return {id: scaled(row) for id, row in zip(content["ids"], rows, strict=True)}


def scaled(vector: list[float]) -> list[float]:
    """A vector whose largest number is 1, rounded."""
    largest = max(map(abs, vector)) or 1.0
    return [round(value / largest, 6) for value in vector]


def read_terms(case: Case, path: Path, reference: Any) -> dict[str, Any]:
    data = open_input(str(path)).all_bytes()
    obo = parse_obo(data, str(path))
    build_ontology(obo, path=str(path), fingerprint="")
    return {s.id: (s.name, [p for p, _ in s.parents], list(s.synonyms), list(s.alt_ids)) for s in obo.stanzas}


def reader_for(kind: str) -> Callable[[Case, Path, Any], Any]:
    if kind.endswith("run"):
        return read_run
    if kind.endswith("gold") or kind == "cases":
        return read_gold
    return {"embeddings": read_vectors, "obo": read_terms}.get(kind.split()[0], read_table)
