"""Findings of the linter: what each holds, and how ids are written in their messages (`quote_id`)."""

from __future__ import annotations

import unicodedata
from collections import Counter
from typing import TYPE_CHECKING

from karat.errors import UsageError, nearest
from karat.records import dataclass
from karat.results.table import Table, Tabular
from karat.results.words import plural
from karat.verbs.validate.lint_rule import SEVERITIES, Severity
from karat.verbs.validate.rules import LINT_RULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karat.model.json_data import JsonObject
    from karat.verbs.validate.roles import FileRole

FORMAT_VERSION = 1
PLACES = 5
"""How many places of one finding are kept."""


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One thing that is wrong, or worth knowing, in one file; `count` says how often."""

    code: str
    severity: Severity
    file: str
    message: str
    where: tuple[str, ...]
    count: int
    fix: str

    def as_json(self) -> JsonObject:
        """The finding as plain data."""
        return {
            "code": self.code,
            "severity": self.severity,
            "title": LINT_RULES[self.code].title,
            "file": self.file,
            "message": self.message,
            "where": list(self.where),
            "count": self.count,
            "fix": self.fix,
        }


@dataclass(frozen=True)
class Validation(Tabular):
    """All findings, the gravest first in each file, and the role of each file."""

    findings: tuple[LintFinding, ...]
    roles: Mapping[str, str]

    def __repr__(self) -> str:
        counts = ", ".join(f"{n:,} {severity}" for severity, n in self.counts.items() if n)
        return f"Validation({counts or 'no findings'}; {plural(len(self.roles), 'file')})"

    @property
    def worst(self) -> Severity | None:
        """The gravest severity among the findings, or None."""
        return next((s for s in SEVERITIES if any(f.severity == s for f in self.findings)), None)

    @property
    def ok(self) -> bool:
        """Whether no finding is an error."""
        return self.worst != "error"

    @property
    def counts(self) -> dict[str, int]:
        """How many findings there are of each severity."""
        counts = Counter(f.severity for f in self.findings)
        return {s: counts[s] for s in SEVERITIES}

    def table(self) -> Table:
        """A row for each finding."""
        columns = ("file", "severity", "code", "message", "count", "where", "fix")
        rows = [(f.file, f.severity, f.code, f.message, f.count, "; ".join(f.where), f.fix) for f in self.findings]
        cells = [(f.file, f.severity, f.code, f.message, f"{f.count:,}", f.fix) for f in self.findings]
        return Table(columns, rows, ("file", "severity", "code", "message", "count", "fix"), cells)

    def as_json(self) -> JsonObject:
        """The JSON document that docs/schemas/validation.schema.json describes."""
        return {
            "format_version": FORMAT_VERSION,
            "kind": "validation",
            "ok": self.ok,
            "counts": self.counts,
            "files": [{"file": file, "role": role} for file, role in self.roles.items()],
            "findings": [f.as_json() for f in self.findings],
        }

    def only(self, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> Validation:
        """The findings whose codes start with a selected one (all, if none is selected) and with no ignored one."""
        selection, exclusion = parse_codes(select), parse_codes(ignore)
        findings = (f for f in self.findings if not selection or f.code.startswith(selection))
        return Validation(tuple(f for f in findings if not exclusion or not f.code.startswith(exclusion)), self.roles)


def parse_codes(codes: Sequence[str]) -> tuple[str, ...]:
    """Codes or their beginnings, in capitals; one that fits no rule is an error."""
    texts = [codes] if isinstance(codes, str) else codes
    capitals = tuple(c.strip().upper() for text in texts for c in text.split(","))
    for code in capitals:
        if not code or not any(rule.startswith(code) for rule in LINT_RULES):
            near = nearest(code, LINT_RULES)
            hint = f"; did you mean {near!r}?" if near else "."
            raise UsageError(f"no rule has a code that starts with {code!r}{hint} All codes: docs/validate.md")
    return capitals


def make_finding(
    code: str, file: str, message: str, where: Iterable[str], count: int = 1, fix: str | None = None
) -> LintFinding:
    """A finding of a rule; the first few of its places are kept."""
    rule = LINT_RULES[code]
    places = tuple(dict.fromkeys(w for w, _ in zip(where, range(PLACES), strict=False)))
    return LintFinding(code, rule.severity, file, message, places or (file,), count, fix or rule.fix)


def make_role_conflict(path: str, before: FileRole, role: FileRole, where: str) -> LintFinding:
    """The finding for one file in two roles."""
    from karat.verbs.validate.roles import ROLES

    return make_finding("X520", path, f"the same file is given as {ROLES[before]} and as {ROLES[role]}", [where])


def sort_findings(findings: Iterable[LintFinding], files: Sequence[str]) -> tuple[LintFinding, ...]:
    """By file in the order of the arguments, then the gravest first, then by code."""
    place = {file: i for i, file in enumerate(files)}
    return tuple(sorted(findings, key=lambda f: (place.get(f.file, len(place)), SEVERITIES.index(f.severity), f.code)))


def many(count: int, one: str, several: str | None = None) -> str:
    """A number with its noun."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def list_some(values: Sequence[str], limit: int = 3) -> str:
    """The first few of some values, quoted where spaces or emptiness would mislead."""
    return ", ".join(map(quote_id, values[:limit])) + (", …" if len(values) > limit else "")


def quote_id(value: str, limit: int = 60) -> str:
    """An id or a text as a message shows it: invisible characters are spelled out, and accents that stand apart."""
    apart = unicodedata.normalize("NFC", value) != value
    spelled = (not c.isprintable() or (apart and unicodedata.combining(c)) for c in value)
    text = "".join(f"\\u{ord(c):04x}" if spell else c for c, spell in zip(value, spelled, strict=True))
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    plain = text and text == value and not any(c.isspace() or c in ",;" for c in text)
    return text if plain else f'"{text}"'
