"""OBO files → stanzas of terms. Every error has its line.

Read are the tags that names and similarities need, of `[Term]` stanzas alone; everything else in a file is passed over.
Of the relations only `is_a` counts: similarities are over what a term is, not over what it is part of.
"""

from __future__ import annotations

import re

from karat.errors import MAX_PROBLEMS, InputError, Problem, shown
from karat.read.problems import describe_bad_bytes
from karat.records import dataclass

TRUNCATED = "is the file truncated?"
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "W": " "}


@dataclass(slots=True)
class Stanza:
    """A term as its file has it."""

    line: int
    id: str = ""
    name: str = ""
    parents: tuple[tuple[str, int], ...] = ()
    """The ids that `is_a` names, and the line of each."""
    synonyms: tuple[str, ...] = ()
    alt_ids: tuple[str, ...] = ()
    replaced_by: tuple[str, ...] = ()
    obsolete: bool = False


@dataclass(frozen=True, slots=True)
class OboFile:
    """The terms of a file, and what its header says of them."""

    source: str
    header: dict[str, str]
    stanzas: list[Stanza]

    @property
    def release(self) -> str:
        """The release that the header names; empty where it names none."""
        return self.header.get("data-version") or self.header.get("date", "")


def parse_obo(data: bytes, source: str) -> OboFile:
    """The terms of an OBO file; what is wrong with it is an error with its line."""
    lines = _decode(data, source).split("\n")
    header: dict[str, str] = {}
    stanzas: list[Stanza] = []
    problems: list[str] = []
    stanza: Stanza | None = None
    in_header = True
    for number, line in enumerate(lines, start=1):
        problem = ""
        read = _read_id if line.startswith("id:") else _TAGS.get(line[:_KEY])
        if read is not None and stanza is not None:
            tag, _, value = line.partition(":")
            if ":" not in line:
                problem = f"expected tag: value, found {shown(line)}; {TRUNCATED}"
            elif tag in _NAMES:
                problem = read(stanza, value.strip(), number)
        elif line.startswith("["):
            in_header, stanza = False, None
            if line.startswith("[Term]"):
                stanza = Stanza(number)
                stanzas.append(stanza)
            elif not line.rstrip().endswith("]"):
                problem = f"{shown(line)} is not the head of a stanza; {TRUNCATED}"
        elif ":" not in line:
            if line.strip() and not line.startswith("!"):
                problem = f"expected tag: value, found {shown(line)}; {TRUNCATED}"
        elif in_header and not line.startswith("!"):
            tag, _, value = line.partition(":")
            header.setdefault(tag, value.strip())
        if problem:
            problems.append(Problem(source, number, problem))
            if len(problems) > MAX_PROBLEMS:
                break
    problems += [Problem(source, each.line, f"this [Term] has no id; {TRUNCATED}") for each in stanzas if not each.id]
    if problems:
        raise InputError(problems)
    if not stanzas:
        problem = "the file is empty" if not data.strip() else "no [Term] in it"
        raise InputError(f"{source}: {problem}, expected an ontology in OBO format; download its .obo file again")
    return OboFile(source, header, stanzas)


def _decode(data: bytes, source: str) -> str:
    try:
        return data.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(Problem(source, line, describe_bad_bytes(error))) from None


def _first_word(value: str) -> str:
    """An id, without the comment and the qualifiers that may follow it."""
    return value.split(None, 1)[0] if value else ""


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), text) if "\\" in text else text


def _read_id(stanza: Stanza, value: str, line: int) -> str:
    if stanza.id:
        return f"a second id {shown(value)} in the stanza of {stanza.id}, expected [Term] before it"
    stanza.id = _first_word(value)
    return "" if value else f"id without a value; {TRUNCATED}"


def _read_name(stanza: Stanza, value: str, line: int) -> str:
    stanza.name = _unescape(value)
    return ""


def _read_parent(stanza: Stanza, value: str, line: int) -> str:
    stanza.parents += ((_first_word(value), line),)
    return "" if value else f"is_a without an id; {TRUNCATED}"


def _read_synonym(stanza: Stanza, value: str, line: int) -> str:
    if (match := _QUOTED.match(value)) is None:
        return f"expected a synonym in quotes, found {shown(value)}; {TRUNCATED}"
    stanza.synonyms += (_unescape(match[1]),)
    return ""


def _read_alt_id(stanza: Stanza, value: str, line: int) -> str:
    stanza.alt_ids += (_first_word(value),)
    return ""


def _read_replaced_by(stanza: Stanza, value: str, line: int) -> str:
    stanza.replaced_by += (_first_word(value),)
    return ""


def _read_obsolete(stanza: Stanza, value: str, line: int) -> str:
    stanza.obsolete = _first_word(value) == "true"
    return ""


_NAMES = {
    "id": _read_id,
    "name": _read_name,
    "is_a": _read_parent,
    "synonym": _read_synonym,
    "alt_id": _read_alt_id,
    "replaced_by": _read_replaced_by,
    "is_obsolete": _read_obsolete,
}
"""What each tag does to its stanza; the answer is what is wrong with it, or nothing."""
_KEY = 4
_TAGS = {(name + ": ")[:_KEY]: read for name, read in _NAMES.items()}
"""The same by the first characters of a line: most lines have other tags, and need no more than this look."""
