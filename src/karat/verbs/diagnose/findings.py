"""What a diagnosis says."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from karat.records import dataclass
from karat.results.figures import share_figure
from karat.results.table import Table, Tabular
from karat.results.words import plural
from karat.stats.intervals import ALL_EQUAL
from karat.store.codec import rounded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karat.model.json_data import JsonObject
    from karat.results.by_judge import JudgeIdentity
    from karat.results.remarks import Remark
    from karat.stats.intervals import Interval

FORMAT_VERSION = 1
FEW = 25
"""With fewer queries, that nothing is found says nothing."""
OF_REST = " here − that of the rest"
"""Ends the name of a difference between the queries in question and the others."""
SEGMENT = "segment"
"""The rule that compares segments."""
LINKED = 20
"""How many queries of a finding the JSON names."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A measured value with its interval, and the threshold that it lies beyond, if it is a condition of the rule."""

    value: str
    interval: Interval
    side: str = ""
    threshold: float | None = None
    name: str = ""
    """The name of the threshold."""
    judge: str = ""
    """Whose grades count beside the gold; empty where the gold alone does."""
    sides: tuple[float, float] | None = None
    """Of a difference from the rest: the value here, and there."""

    def __str__(self) -> str:
        interval = self.interval
        if self.value.endswith(OF_REST) and interval.estimate < 0 and self.threshold is not None:
            return self._fall_text(self.threshold)
        beyond = {"low": "<", "high": ">"}.get(self.side, "")
        figure = share_figure(interval.estimate, interval.low, interval.high).sentence
        limit = f" {beyond} {self.threshold:g}" if beyond else ""
        grades = f" with grades by {self.judge}" if self.judge else ""
        equal = "; all values are equal, which gives no interval" if interval.method == ALL_EQUAL else ""
        return f"{self.value}{grades} {figure}{limit} (n={interval.n:,}{equal})"

    def _fall_text(self, threshold: float) -> str:
        """How much lower a value is than elsewhere, and both: `recall@5 is 0.21 [0.14, 0.28] lower here than …`."""
        one = share_figure(self.interval.estimate, self.interval.low, self.interval.high, difference=True)
        fall, name = f"{one.size} {one.size_interval}".rstrip(), self.value.removesuffix(OF_REST)
        limit = f"from {-threshold:g}" if threshold < 0 else "any"
        here, rest = (share_figure(side).short for side in self.sides or (math.nan, math.nan))
        both = f"{here} here, {rest} in the rest; " if self.sides else ""
        return f"{name} is {fall} lower here than in the rest ({both}a gap: {limit}; n={self.interval.n:,})"

    def as_json(self) -> JsonObject:
        interval = self.interval
        out: JsonObject = {
            "value": self.value,
            "estimate": rounded(interval.estimate),
            "n": interval.n,
            "ci": [rounded(interval.low), rounded(interval.high)],
            "method": interval.method,
        }
        bound: JsonObject = {"side": self.side, "threshold": self.threshold, "name": self.name} if self.side else {}
        sides: JsonObject = dict(zip(("here", "rest"), map(rounded, self.sides), strict=True)) if self.sides else {}
        return {**out, **bound, **sides, **({"judge": self.judge} if self.judge else {})}


@dataclass(frozen=True, slots=True)
class Finding:
    """One likely cause, how much it explains, and the queries that it concerns, worst first.

    A rule that only counts queries has no evidence; its subject is the count.
    """

    code: str
    title: str
    subject: str
    weight: float
    evidence: tuple[Evidence, ...]
    scope: str
    """The queries and lists that the evidence is over."""
    cause: str
    advice: tuple[str, ...]
    queries: tuple[str, ...]

    @property
    def heading(self) -> str:
        """The title with what it is about: `One group of queries has lower recall (wording=other)`."""
        return f"{self.title} ({self.subject})" if self.subject else self.title

    def as_json(self) -> JsonObject:
        return {
            "code": self.code,
            "title": self.title,
            "subject": self.subject,
            "weight": rounded(self.weight),
            "evidence": [e.as_json() for e in self.evidence],
            "scope": self.scope,
            "cause": self.cause,
            "try": list(self.advice),
            "queries": list(self.queries[:LINKED]),
            "count": len(self.queries),
        }


@dataclass(frozen=True)
class Diagnosis(Tabular):
    """All findings of one run, the weightiest first, and the rules that could not be applied or decided."""

    run: str
    queries: int
    in_scope: int
    """The queries with a relevant doc in the gold, but for those that rightly skip retrieval: rules speak of these."""
    findings: tuple[Finding, ...]
    unchecked: Mapping[str, str]
    """By code of a rule that could not be applied: why."""
    undecided: Mapping[str, str]
    """By code of a rule that these queries do not decide: why."""
    measured: tuple[Evidence, ...]
    """The main values, to show when nothing is wrong."""
    thresholds: Mapping[str, float]
    mismatches: tuple[str, ...] = ()
    """Why run and gold may not belong together, or scores may not be what ranks docs: findings rest on both."""
    judge: JudgeIdentity | None = None
    """Whose grades count where the gold has none, for values that judged grades feed."""
    own_notes: tuple[str, ...] = ()
    """Which values rest on a judge's grades, and why others do not."""
    remarks: tuple[Remark, ...] = ()
    """What else is odd about the data, as an evaluation says it."""
    undecided_segments: tuple[str, ...] = ()
    """Segments with a gap that may be small, although it is surely one and looks large."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know before believing the findings: the sentences that the command line prints."""
        return tuple(dict.fromkeys((*self.mismatches, *super().notes)))

    @property
    def warnings(self) -> tuple[str, ...]:
        """The notes on data that may make the findings misleading; each is a `karat.KaratWarning` too."""
        return (*self.mismatches, *(remark.text for remark in self.remarks if remark.serious))

    @property
    def skipped(self) -> dict[str, list[str]]:
        """The rules that could not be applied, by the reason."""
        return _by_reason(self.unchecked)

    @property
    def open_questions(self) -> dict[str, list[str]]:
        """The rules that these queries do not decide, by the reason; one with the segments that it is open for."""
        names = f" ({'; '.join(self.undecided_segments)})"
        return _by_reason({c + names if c == SEGMENT else c: reason for c, reason in self.undecided.items()})

    @property
    def healthy(self) -> bool:
        """Whether no rule holds, enough queries say so, and run and gold belong together."""
        return not self.findings and not self.mismatches and self.in_scope >= FEW

    @property
    def summary(self) -> str:
        """The diagnosis in one sentence, after what has to be checked first."""
        return (
            f"First check the data: {'; '.join(self.mismatches)}. {self._result}" if self.mismatches else self._result
        )

    @property
    def lead(self) -> str:
        """The summary where all findings follow: their number stands for the first of them."""
        count = plural(len(self.findings), "finding")
        result = (
            f"{count}{', the weightiest first' if len(self.findings) > 1 else ''}." if self.findings else self._result
        )
        return f"First check the data: {'; '.join(self.mismatches)}. {result}" if self.mismatches else result

    @property
    def _result(self) -> str:
        """What the rules find, in one sentence."""
        if self.findings:
            more = len(self.findings) - 1
            tail = f"; and {plural(more, 'more finding')}" if more else ""
            return f"{self.findings[0].heading}{tail}."
        if self.in_scope < FEW:
            return f"No problems found, but {self.in_scope:,} queries are too few to rule them out."
        return f"No problems that these {self.in_scope:,} queries can show."

    def table(self) -> Table:
        """A row for every finding."""
        rows = [
            (f.code, f.title, f.subject, f.weight, "; ".join(map(str, f.evidence)), f.cause, len(f.queries))
            for f in self.findings
        ]
        cells = [
            (f.heading, share_figure(weight).short, evidence, cause, f"{queries:,}")
            for f, (_, _, _, weight, evidence, cause, queries) in zip(self.findings, rows, strict=True)
        ]
        columns = ("code", "finding", "subject", "weight", "evidence", "cause", "queries")
        heads = ("finding", "weight", "evidence", "likely cause", "queries")
        return Table(columns, rows, heads, cells, f"{self.run}: {self.summary}", self.notes)

    def __repr__(self) -> str:
        return f"Diagnosis({self.run}: {self.summary})"

    def as_json(self) -> JsonObject:
        """The JSON document that docs/schemas/diagnosis.schema.json describes."""
        return {
            "format_version": FORMAT_VERSION,
            "kind": "diagnosis",
            "run": self.run,
            "queries": self.queries,
            "in_scope": self.in_scope,
            "healthy": self.healthy,
            "summary": self.summary,
            "warnings": list(self.mismatches),
            "remarks": [remark.text for remark in self.remarks],
            "findings": [f.as_json() for f in self.findings],
            "unchecked": dict(self.unchecked),
            "undecided": list(self.undecided),
            **({"undecided_segments": list(self.undecided_segments)} if self.undecided_segments else {}),
            "measured": [e.as_json() for e in self.measured],
            "thresholds": dict(self.thresholds),
            **(self._judge_json() if self.judge is not None else {}),
        }

    def _judge_json(self) -> JsonObject:
        """Who judged what the gold lacks, and what rests on it."""
        assert self.judge is not None
        judge: JsonObject = {
            "label": self.judge.label,
            "fingerprint": self.judge.fingerprint,
            "scale": self.judge.scale,
        }
        return {"judge": judge, "notes": list(self.own_notes)}


def _by_reason(rules: Mapping[str, str]) -> dict[str, list[str]]:
    """The codes of rules by the reason of each."""
    reasons: dict[str, list[str]] = {}
    for code, reason in rules.items():
        reasons.setdefault(reason, []).append(code)
    return reasons
