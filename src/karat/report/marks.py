"""The tone of outcomes and verdicts (for the better, the worse, open), and the mark of each. Colours stand where they
are shown: `terminal/console.py`, `html/assets/page.css` and `charts.js`, `verbs/plot.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Tone = Literal["up", "down", "open", ""]
"""For the better, for the worse, not decided; empty for what has no colour."""
TONES: Mapping[str, Tone] = {
    "SHIP": "up",
    "BLOCK": "down",
    "INCONCLUSIVE": "open",
    "pass": "up",
    "fail": "down",
    "undecided": "open",
    "better": "up",
    "worse": "down",
    "stable": "up",
    "not stable": "down",
}
"""Of verdicts, gates, comparisons and collections; only what is decided of a comparison has a colour."""
_MARKS: Mapping[Tone, str] = {"up": "✓", "down": "✗", "open": "?"}
_EMOJI: Mapping[Tone, str] = {"up": "✅", "down": "⛔", "open": "⚠️"}
NO_DECISION = "❗"
"""The emoji of an error, after which there is no verdict."""


def tone_of(outcome: str) -> Tone:
    """The tone of an outcome or a verdict."""
    return TONES.get(outcome, "")


def mark_of(outcome: str) -> str:
    """One character for an outcome or a verdict; none where there is no verdict."""
    return _MARKS.get(tone_of(outcome), "")


def emoji_of(outcome: str) -> str:
    """The same, for a heading in a comment on a pull request."""
    return _EMOJI.get(tone_of(outcome), "")
