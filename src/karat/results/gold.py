"""The gold that a result rests on: read when somebody asks for it, and once."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from karat.model.policy import Policy
from karat.read.sources import read_qrels
from karat.records import dataclass
from karat.results.fingerprints import GoldFingerprint, fingerprint_gold

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karat.align.term_ids import TermGold
    from karat.model.qrels import Qrels
    from karat.ontology.terms import Ontology


@dataclass(frozen=True, eq=False)
class Gold:
    """What the gold is read from: judgments, or where they are. Rankings from the cache do not need them."""

    source: Any
    format: str | None = None
    subtopics: bool | None = None
    policy: Policy = Policy()
    ontology: Ontology | None = None
    """The ontology whose terms the docs are."""

    @cached_property
    def qrels(self) -> Qrels:
        """The judgments; of terms, by their current ids."""
        return self._terms.qrels if self._terms is not None else self._judgments

    @property
    def term_counts(self) -> Mapping[str, int]:
        """How many ids of terms were changed, or are unknown, where docs are terms of an ontology."""
        return self._terms.counts if self._terms is not None else {}

    @cached_property
    def _judgments(self) -> Qrels:
        qrels = read_qrels(self.source, format=self.format, subtopics=self.subtopics)
        grades = self.policy.regrade(qrels.grades)
        return qrels if grades is qrels.grades else replace(qrels, grades=grades)

    @cached_property
    def _terms(self) -> TermGold | None:
        if self.ontology is None:
            return None
        from karat.align.term_ids import gold_of_terms

        return gold_of_terms(self._judgments, self.ontology)

    @cached_property
    def fingerprint(self) -> GoldFingerprint:
        return fingerprint_gold(self.qrels)
