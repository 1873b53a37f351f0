"""The gold that a result rests on: read when somebody asks for it, and once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from karat.model.policy import Policy
from karat.read.sources import read_qrels
from karat.results.fingerprints import fingerprint_gold

if TYPE_CHECKING:
    from karat.model.qrels import Qrels
    from karat.results.fingerprints import GoldFingerprint


@dataclass(frozen=True, eq=False)
class Gold:
    """What the gold is read from: judgments, or where they are. Rankings from the cache do not need them."""

    source: Any
    format: str | None = None
    subtopics: bool | None = None
    policy: Policy = Policy()

    @cached_property
    def qrels(self) -> Qrels:
        """The judgments."""
        qrels = read_qrels(self.source, format=self.format, subtopics=self.subtopics)
        grades = self.policy.regrade(qrels.grades)
        return qrels if grades is qrels.grades else replace(qrels, grades=grades)

    @cached_property
    def fingerprint(self) -> GoldFingerprint:
        return fingerprint_gold(self.qrels)
