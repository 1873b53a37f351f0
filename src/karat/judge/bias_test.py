"""Does a judge grade by order and length? Docs whose content is the same, asked about again in another form."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from karat.judge.ask import Job, Ledger, recall_answers
from karat.model.policy import is_relevant
from karat.records import dataclass
from karat.stats.defaults import CONFIDENCE, SEED
from karat.stats.intervals import Interval, student
from karat.stats.resample import Units, mean_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.judge.assessor import Assessor, PairText
    from karat.judge.judgments import Judgment
    from karat.store.answers import AnswerStore

TextForm = Literal["unchanged", "second half first", "text twice"]
TEXT_FORMS: tuple[TextForm, ...] = ("unchanged", "second half first", "text twice")
"""The first shows how much the judge varies by itself, the second whether it matters where something stands, the
third whether length alone earns a grade. None of them adds or removes content."""
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s*(?=\S)|\n+")


@dataclass(frozen=True)
class FormChange:
    """What another form of the same docs changes in the judge's grades."""

    form: TextForm
    change: Interval
    """The mean change of the grade, by query."""
    flips: float
    """The share of pairs that turn relevant or irrelevant."""


def reform(text: str, form: TextForm) -> str:
    """The text in another form; the same where it cannot be divided."""
    if form == "text twice":
        return f"{text}\n{text}"
    if form == "unchanged":
        return text
    ends = [match.end() for match in _SENTENCE_END.finditer(text)] or [m.end() for m in re.finditer(r"\s+", text)]
    inner = [end for end in ends if 0 < end < len(text)]
    if not inner:
        return text
    middle = min(inner, key=lambda end: abs(end - len(text) / 2))
    return f"{text[middle:].strip()}\n{text[:middle].strip()}"


def choose_probes(texts: Sequence[PairText], judged: Mapping[tuple[str, str], Judgment], size: int) -> list[PairText]:
    """Pairs that the judge has graded, drawn at random: the same ones for the same file and number."""
    known = sorted((text for text in texts if text.pair.ids in judged), key=lambda text: text.pair.ids)
    order = np.random.default_rng(SEED).permutation(len(known))
    return [known[i] for i in order[:size]]


def open_probe(texts: Sequence[PairText], form: TextForm, assessor: Assessor, store: AnswerStore) -> Job:
    """What is to be asked about docs in one form; no file gets these grades."""
    # The judge reads the same part of a long doc, whatever its form.
    whole = replace(assessor, prompt=replace(assessor.prompt, doc_chars=None))
    first = assessor.votes + 1 if form == "unchanged" else 1
    ledger = Ledger([text.pair for text in texts], assessor, None, store)
    questions = [
        question
        for text in texts
        for question in whole.questions(text.pair, text.query, reform(assessor.prompt.cut(text.doc), form), first=first)
    ]
    pending, recalled = recall_answers(questions, ledger, store)
    return Job(ledger, pending, len(texts), (), recalled, ())


def measure_change(
    form: TextForm,
    rows: Sequence[Judgment],
    judged: Mapping[tuple[str, str], Judgment],
    *,
    confidence: float = CONFIDENCE,
) -> FormChange:
    """The grades of docs in one form beside the judge's own."""
    pairs = [(row.grade or 0, judged[row.ids].grade or 0) for row in rows]
    changes = np.array([float(new - old) for new, old in pairs])
    units = Units.of(len(rows), [row.query_id for row in rows])
    ends = student(changes, units, confidence) if len(rows) > 1 else (np.nan, np.nan)
    flips = [is_relevant(new) != is_relevant(old) for new, old in pairs]
    share = sum(map(bool, flips)) / len(flips) if flips else float("nan")
    return FormChange(form, Interval(mean_of(changes, units), *ends, "t", len(rows)), share)
