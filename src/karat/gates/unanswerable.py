"""Gates on relevance in a segment whose queries have no gold: why nothing can be measured there, and what can."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from karat.gates.judge import GateEvidence, Ruling
from karat.metrics.grammar import parse
from karat.model.field_group import read_group
from karat.results.words import queries_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.gates.evidence import Judgment
    from karat.gates.language import Gate
    from karat.results.result import Result
    from karat.results.sampling import Sampling


def explain_lack_of_gold(rows: Sequence[Judgment], result: Result) -> tuple[Judgment, ...]:
    """The same judgments; those of a segment where no query has gold say so, and how many queries there are."""
    return tuple(_explain(row, result) for row in rows)


def _explain(row: Judgment, result: Result) -> Judgment:
    gate = row.gate
    if not gate.where or not math.isnan(row.found.estimate) or "gold" not in parse(gate.metric).needs:
        return row
    run = result[row.run]
    members = _find_members(gate, run.sampling)
    if not members or run.rankings is None or not members.isdisjoint(run.rankings.query_ids):
        return row
    marked = result.queries is not None and members.issubset(result.queries.no_answer)
    lack, others = ("all marked no_answer", "false_evidence or latency") if marked else ("none with gold", "latency")
    sought = f"{queries_text(len(members))} with {_where_text(gate)}, {lack}"
    why = f"{sought}: {gate.metric} has no value there; gate {others} instead"
    return replace(row, found=GateEvidence(math.nan, missing=why), judged=Ruling("undecided", why))


def _find_members(gate: Gate, sampling: Sampling) -> set[str]:
    """The queries of the table that a gate speaks of; a value is first looked up as it is written, then in any case."""
    for fold in (str, str.casefold):
        parts = [
            {
                q
                for q, v in sampling.fields.get(f, {}).items()
                if fold(value) in map(fold, (v,) if isinstance(v, str) else v)
            }
            for f, value in gate.where
        ]
        if members := set.intersection(*parts):
            return members
    return set()


def _where_text(gate: Gate) -> str:
    return " and ".join(f if read_group(f) else f"{f} = {value}" for f, value in gate.where)
