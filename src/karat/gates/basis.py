"""Which figure a gate looks at: that of the gold alone, of gold + judge, or the corrected one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.errors import InputError
from karat.results.pairing import lack_of_common_judge

if TYPE_CHECKING:
    from karat.gates.gate import Gate
    from karat.results.by_judge import Basis, RunByJudge
    from karat.results.result import RunResult

WORDS: dict[Basis, str] = {"none": "gold only", "raw": "gold + judge", "corrected": "gold + judge, corrected"}
"""How outputs name the figure of a gate."""
TOGETHER = "evaluate both runs together to compare them by a judge"


def choose_basis(gate: Gate, run: RunResult, base: RunResult | None = None) -> Basis | None:
    """What a gate's figure rests on: as it says, else corrected where that can be had, else the gold alone.

    None where the run was evaluated without a judge. What the gate asks for and the run lacks is an error.
    """
    judged = run.by_judge
    if judged is None:
        if gate.judged in ("raw", "corrected"):
            raise _problem(gate, "the result holds no judgments; name them (judgments: in karat.yaml, or --judgments)")
        return None
    lack = _lack_of_correction(gate, run, judged, base)
    if gate.judged is None:
        return "none" if lack else "corrected"
    if gate.judged == "corrected" and lack:
        raise _problem(gate, f"the corrected figure is missing: {lack}; choose judged raw or judged none")
    if gate.judged == "raw":
        if gate.metric not in judged.raw:
            raise _problem(gate, judged.not_raw.get(gate.metric, f"judged grades do not feed {gate.metric}"))
        if base is not None and (apart := lack_of_common_judge(base, run)):
            raise _problem(gate, f"{apart}; {TOGETHER}")
    return gate.judged


def _lack_of_correction(gate: Gate, run: RunResult, judged: RunByJudge, base: RunResult | None) -> str:
    """Why a gate cannot look at a corrected figure; empty if it can.

    Labels are drawn from all queries: a segment may have none of them, and then nothing would be corrected there.
    """
    if gate.metric not in judged.corrected:
        return judged.not_corrected.get(gate.metric, f"judged grades do not feed {gate.metric}")
    if gate.fields:
        return "figures of segments are not corrected"
    if base is not None and (apart := lack_of_common_judge(base, run)):
        return f"{apart} ({TOGETHER})"
    return "intervals that hold at every look are not corrected" if run.sampling.sequential else ""


def _problem(gate: Gate, reason: str) -> InputError:
    return InputError(f"gate '{gate}': {reason}").about(gate)
