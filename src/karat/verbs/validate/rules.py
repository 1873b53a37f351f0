"""Every rule of the linter, by its code."""

from __future__ import annotations

from karat.verbs.validate.rules_of_files import RULES_OF_FILES
from karat.verbs.validate.rules_of_sets import RULES_OF_CASES, RULES_OF_SETS

RULE_GROUPS = {
    "F": "Any file",
    "G": "Gold",
    "Q": "Queries",
    "R": "Runs",
    "C": "Corpus",
    "X": "Files together",
    "K": "Configurations",
    "T": "Case files",
}
"""What a rule looks at, by the first letter of its code."""
LINT_RULES = {rule.code: rule for rule in (*RULES_OF_FILES, *RULES_OF_SETS, *RULES_OF_CASES)}
