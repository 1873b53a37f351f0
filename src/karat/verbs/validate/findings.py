"""What the linter found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from karat.errors import UsageError, nearest
from karat.verbs.validate.checks import CHECKS, SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karat.verbs.validate.checks import Severity
    from karat.verbs.validate.roles import Role

FORMAT_VERSION = 1
SHOWN = 5
"""How many places of one finding are kept."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong or worth knowing in one file, however often it occurs there."""

    code: str
    severity: Severity
    file: str
    message: str
    where: tuple[str, ...]
    count: int
    fix: str

    def as_json(self) -> dict[str, Any]:
        """The finding as plain data."""
        return {
            "code": self.code,
            "severity": self.severity,
            "title": CHECKS[self.code].title,
            "file": self.file,
            "message": self.message,
            "where": list(self.where),
            "count": self.count,
            "fix": self.fix,
        }


@dataclass(frozen=True)
class Validation:
    """All findings, the gravest first in each file, and what each file was taken for."""

    findings: tuple[Finding, ...]
    roles: Mapping[str, str]

    @property
    def worst(self) -> Severity | None:
        """The gravest severity that was found, or None."""
        return next((s for s in SEVERITIES if any(f.severity == s for f in self.findings)), None)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong at the level of errors."""
        return self.worst != "error"

    @property
    def counts(self) -> dict[str, int]:
        """How many findings there are of each severity."""
        found = Counter(f.severity for f in self.findings)
        return {s: found[s] for s in SEVERITIES}

    def as_json(self) -> dict[str, Any]:
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
        """The findings whose codes start with one that is selected (all, if none is) and with none that is ignored."""
        chosen, left_out = known_codes(select), known_codes(ignore)
        kept = (f for f in self.findings if not chosen or f.code.startswith(chosen))
        return Validation(tuple(f for f in kept if not left_out or not f.code.startswith(left_out)), self.roles)


def known_codes(codes: Sequence[str]) -> tuple[str, ...]:
    """Codes or their beginnings, in capitals; one that fits no check is an error."""
    listed = [c.strip().upper() for text in ([codes] if isinstance(codes, str) else codes) for c in text.split(",")]
    for code in listed:
        if not code or not any(known.startswith(code) for known in CHECKS):
            near = nearest(code, CHECKS)
            hint = f"did you mean {near!r}? " if near else ""
            raise UsageError(f"no check has a code that starts with {code!r}; {hint}All codes: docs/validate.md")
    return tuple(listed)


def found(code: str, file: str, message: str, where: Iterable[str], count: int = 1, fix: str | None = None) -> Finding:
    """A finding of a declared check; of its places the first few are kept."""
    check = CHECKS[code]
    kept = tuple(dict.fromkeys(w for w, _ in zip(where, range(SHOWN), strict=False)))
    return Finding(code, check.severity, file, message, kept or (file,), count, fix or check.fix)


def twice(path: str, before: Role, role: Role, where: str) -> Finding:
    """The finding of a file that stands for two things."""
    from karat.verbs.validate.roles import ROLES

    return found("X520", path, f"the same file is given as {ROLES[before]} and as {ROLES[role]}", [where])


def in_order(findings: Iterable[Finding], files: Sequence[str]) -> tuple[Finding, ...]:
    """By file as given, then the gravest first, then by code."""
    place = {file: i for i, file in enumerate(files)}
    return tuple(sorted(findings, key=lambda f: (place.get(f.file, len(place)), SEVERITIES.index(f.severity), f.code)))


def many(count: int, one: str, several: str | None = None) -> str:
    """A number with its noun."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def such_as(values: Sequence[str], limit: int = 3) -> str:
    """The first few of some values, quoted where spaces or emptiness would mislead."""
    listed = [readable(v) for v in values[:limit]]
    return ", ".join(listed) + (", …" if len(values) > limit else "")


def readable(value: str, limit: int = 60) -> str:
    """An id or a text as a message shows it: invisible characters are spelled out."""
    text = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in value)
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    plain = text and text == value and not any(c.isspace() or c in ",;" for c in text)
    return text if plain else f'"{text}"'
