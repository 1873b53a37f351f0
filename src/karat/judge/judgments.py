"""The file of judgments: one line per judgment, by whom and when; lines are added and never changed."""

from __future__ import annotations

import hashlib
import json
import os
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct, field

from karat.errors import InputError, path_text, shown
from karat.judge.pairs import LISTED, Draw
from karat.judge.records import id_problem, read_records
from karat.judge.scale import MOST
from karat.model.json_data import Json
from karat.records import dataclass
from karat.results.words import plural
from karat.store.codec import encode
from karat.store.journal import append_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

JUDGMENT = (
    'expected one judgment per line: {"query_id": "…", "doc_id": "…", "grade": 2, "scale": "0-3", '
    '"by": {"kind": "person", "name": "…"}, "at": "…"}'
)


class Person(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="person"):
    """Somebody who judges."""

    name: str

    @property
    def label(self) -> str:
        return self.name


class ModelJudge(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="kind", tag="model"):
    """A language model that judges: another prompt, scale or parameter makes another judge."""

    model: str
    prompt: str
    """The first digits of the hash of the prompt, anchors and rules of the answer included."""
    parameters: dict[str, Json] = field(default_factory=dict)
    votes: int = 1
    """How often each pair is judged; the grade is the median."""

    @property
    def name(self) -> str:
        return self.model

    @property
    def label(self) -> str:
        return f"{self.model} (prompt {self.prompt[:8]})"


class Adjudicator(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="adjudicator"):
    """Somebody who settles a pair on which people disagree, having seen their labels: no label, but what counts."""

    name: str

    @property
    def label(self) -> str:
        return self.name


Judge = Person | ModelJudge | Adjudicator


class Judgment(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A grade for a pair. Later ones of the same judge replace earlier ones; null takes the earlier one back."""

    query_id: str
    doc_id: str
    grade: int | None
    scale: str
    by: Judge
    at: str
    """The moment, in ISO 8601."""
    reason: str = ""
    """Why, in the words of a model."""
    note: str = ""
    """A remark of a person."""
    votes: tuple[int, ...] = ()
    """The grades of all votes, where there are several."""
    drawn: Draw = LISTED

    @property
    def ids(self) -> tuple[str, str]:
        return self.query_id, self.doc_id


def fingerprint_judge(judge: Judge, scale: str) -> str:
    """What tells judges apart: the same name or model, prompt, parameters and scale have the same one."""
    text = json.dumps([json.loads(encode(judge)), scale], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class Judgments:
    """The judgments that count: the last one of each judge for each pair, in the order of the file."""

    rows: tuple[Judgment, ...]
    path: str
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        judges = len({(row.by, row.scale) for row in self.rows})
        return f"Judgments({self.path}: {len(self.rows):,} by {plural(judges, 'judge')})"

    @cached_property
    def by_judge(self) -> dict[str, dict[tuple[str, str], Judgment]]:
        """The judgments of each judge, by its fingerprint and the ids of the pair."""
        out: dict[str, dict[tuple[str, str], Judgment]] = {}
        for row in self.rows:
            out.setdefault(fingerprint_judge(row.by, row.scale), {})[row.ids] = row
        return out

    def of(self, judge: Judge, scale: str) -> dict[tuple[str, str], Judgment]:
        """The judgments of one judge on one scale, by the ids of the pair."""
        return self.by_judge.get(fingerprint_judge(judge, scale), {})


def read_judgments(path: str | os.PathLike[str], *, missing_ok: bool = False) -> Judgments:
    """The judgments of a file; of a file that is not there yet none, where that is allowed."""
    place = path_text(path, "judgments")
    return Judgments((), place) if missing_ok and not os.path.lexists(place) else read_all_judgments([place])


def read_all_judgments(files: Sequence[str | os.PathLike[str]]) -> Judgments:
    """The judgments of several files as if they were one, in this order."""
    paths = [path_text(each, "judgments") for each in files]
    tables = [read_records(path, Judgment, JUDGMENT, _problem) for path in paths]
    last: dict[tuple[str, str, str], Judgment] = {}
    for row in (row for file in tables for row in file.rows):
        key = (*row.ids, fingerprint_judge(row.by, row.scale))
        last.pop(key, None)
        if row.grade is not None:
            last[key] = row
    return Judgments(tuple(last.values()), ", ".join(paths), tuple(note for file in tables for note in file.notes))


def rows_of_model(judgments: Judgments, model: str | None = None) -> list[Judgment]:
    """The judgments of the one model in a file, or of the one that is named by its name or fingerprint."""
    rows = _rows_of_one(judgments, ModelJudge, model)
    if rows is None:
        what = "a model" if model is None else shown(model)
        raise InputError(f"{judgments.path}: holds no judgments by {what}; see: karat judge ask")
    return rows


def rows_of_judge(judgments: Judgments, name: str | None = None) -> list[Judgment]:
    """The judgments of the one model in a file, else of the one person, or of the judge that is named."""
    rows = _rows_of_one(judgments, ModelJudge, name) or _rows_of_one(judgments, Person, name)
    if rows is None:
        by = "" if name is None else f" by {shown(name)}"
        raise InputError(f"{judgments.path}: holds no judgments{by}; see: karat judge ask, karat judge label")
    return rows


def _rows_of_one(judgments: Judgments, kind: type[Judge], name: str | None) -> list[Judgment] | None:
    """The judgments of the one judge of this kind and name; None if there is none. Several are refused."""
    judges = {
        key: list(rows.values())
        for key, rows in judgments.by_judge.items()
        if isinstance(judge := next(iter(rows.values())).by, kind) and name in (None, judge.name, key)
    }
    labels = [f"{rows[0].by.label}, fingerprint {key}, {len(rows):,} pairs" for key, rows in judges.items()]
    if len(labels) > 1:
        raise InputError(
            f"{judgments.path}: holds judgments by several judges ({'; '.join(labels)}); name one by its fingerprint"
        )
    return next(iter(judges.values()), None)


def add_judgments(path: str, rows: Iterable[Judgment]) -> tuple[str, ...]:
    """Add judgments to a file, which is made if it is missing; notes on what an earlier crash left there.

    They are on disk when this returns, whoever else adds to the file at the same time.
    """
    torn = append_lines(path, [encode(row) for row in rows])
    if not torn:
        return ()
    return (f"{path}: the last line broke off after {shown(torn[-20:])} and was removed: a write was interrupted",)


def refuse_other_scales(judgments: Judgments, scale: str) -> None:
    """Refuse a file whose judgments are on another scale: the grades would not mean the same."""
    other = next((row for row in judgments.rows if row.scale != scale), None)
    if other is not None:
        raise InputError(
            f"{judgments.path}: query {shown(other.query_id)}, doc {shown(other.doc_id)} is judged on the scale "
            f"{other.scale}, expected {scale}; name another file, or the same scale"
        )


def _problem(row: Judgment) -> str | None:
    if problem := id_problem(row.query_id, row.doc_id) or row.drawn.problem:
        return problem
    top = row.scale.removeprefix("0-")
    if not row.scale.startswith("0-") or not top.isdecimal() or not 1 <= int(top) < MOST:
        return f"scale must be written as 0-3, found {shown(row.scale)}"
    for grade in (row.grade, *row.votes):
        if grade is not None and not 0 <= grade <= int(top):
            return f"grade must be a whole number of the scale {row.scale}, found {grade}"
    return None
