"""What a rule of the linter states.

error    numbers would be wrong, or the file is refused
warning  probably wrong: look at it
info     worth knowing
"""

from __future__ import annotations

from typing import Literal

from karat.records import dataclass

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


@dataclass(frozen=True, slots=True)
class LintRule:
    """One thing that the linter looks for."""

    code: str
    severity: Severity
    title: str
    why: str
    fix: str
