"""The scale of grades: which there are, what each means in words, and which one an answer names."""

from __future__ import annotations

from collections.abc import Mapping

from karat.errors import UsageError, shown
from karat.records import dataclass

PRESETS: dict[str, tuple[str, ...]] = {
    "0-1": ("not relevant", "relevant"),
    "0-2": ("not relevant", "partly relevant", "complete answer"),
    "0-3": ("not relevant", "partly relevant", "very relevant, but incomplete", "complete answer"),
    "0-4": (
        "not relevant",
        "on the topic, but no help",
        "partly relevant",
        "very relevant, but incomplete",
        "complete answer",
    ),
}
"""The anchors of each scale that has a name, from grade 0."""
DEFAULT = "0-3"
MOST = 10
"""How many grades a scale may have: each is one key."""


@dataclass(frozen=True)
class Scale:
    """Grades from 0 on, each with its anchor: what a doc must do for the query to earn it."""

    anchors: tuple[str, ...]

    @property
    def name(self) -> str:
        """The first and the last grade, as files state them: `0-3`."""
        return f"0-{len(self.anchors) - 1}"

    @property
    def grades(self) -> range:
        return range(len(self.anchors))

    def read_grade(self, value: object) -> int | None:
        """The grade that a value is: a whole number of this scale, or its digits; None for anything else."""
        if isinstance(value, str) and value.strip().isascii() and value.strip().isdecimal():
            value = int(value) if len(value) < MOST else None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value not in self.grades:
            return None
        return int(value)

    @property
    def text(self) -> str:
        """One line per grade, the best first."""
        return "\n".join(f"{grade}: {self.anchors[grade]}" for grade in reversed(self.grades))


def read_scale(source: object = None) -> Scale:
    """A scale from the name of a preset (`0-3` by default), or from a mapping of every grade to its anchor."""
    if isinstance(source, Scale):
        return source
    if source is None:
        source = DEFAULT
    if isinstance(source, str):
        anchors = PRESETS.get(source.strip().replace("–", "-"))
        if anchors is None:
            names = ", ".join(PRESETS)
            raise UsageError(
                f"scale must be one of {names}, or a mapping of grades to anchors, found {shown(source)}; "
                "write your own under scale: in karat.yaml"
            )
        return Scale(anchors)
    if not isinstance(source, Mapping):
        raise UsageError(f"scale must be a name such as {DEFAULT}, or grades with anchors, found {shown(source)}")
    source = {int(key) if isinstance(key, str) and key.isdecimal() else key: text for key, text in source.items()}
    grades = sorted(source, key=str)
    if not 2 <= len(grades) <= MOST or grades != list(range(len(grades))):
        names = ", ".join(map(str, grades))
        raise UsageError(
            f"scale must have the grades 0, 1, … without a gap, from 2 to {MOST} of them, found {names or 'none'}"
        )
    anchors = tuple(" ".join(str(source[grade] or "").split()) for grade in grades)
    if "" in anchors:
        raise UsageError(f"scale: grade {anchors.index('')} has no anchor; say in words what earns it")
    return Scale(anchors)
