"""Gates: conditions to ship, as a small language, and the pure functions that judge them."""

from karat.gates.gate import Gate
from karat.gates.judge import GateEvidence, Ruling, judge, verdict_of
from karat.gates.language import parse_gate

__all__ = ["Gate", "GateEvidence", "Ruling", "judge", "parse_gate", "verdict_of"]
