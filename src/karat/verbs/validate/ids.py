"""Ids that look like others and match none."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from karat.verbs.validate.findings import found, many, such_as

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from karat.verbs.validate.findings import Finding

_JOINERS = "\u200c\u200d"
"""Part of the spelling of some languages, and stray only at the ends of an id."""
_DECIMAL = re.compile(r"\d+\.0+", re.ASCII)
_FRACTION = re.compile(r"\d+\.\d*[1-9]\d*", re.ASCII)


def is_stray(text: str) -> bool:
    """Whether an id begins or ends with white space, or holds characters that nobody sees."""
    if text.isascii() and text.isprintable():
        return text != text.strip()
    return text != text.strip().strip(_JOINERS) or any(_invisible(c) for c in text)


def _invisible(c: str) -> bool:
    return c not in _JOINERS and (unicodedata.category(c) in ("Cf", "Cc", "Zl", "Zp") or (c.isspace() and c != " "))


def folded(text: str) -> str:
    """An id without what ids of the same thing differ in: case, Unicode form, white space, leading zeros, a `.0`."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        text = "".join(c for c in text if not _invisible(c) and c not in _JOINERS)
    text = "".join(text.split()).casefold()
    if _DECIMAL.fullmatch(text):
        text = text.partition(".")[0]
    return text.lstrip("0") or "0" if text.isdecimal() else text


def check_ids(path: str, kind: str, ids: Sequence[str], at: Callable[[int], str]) -> Iterator[Finding]:
    """The ids of one kind in one file; `at` tells where the i-th of them stands."""
    unique = dict(zip(reversed(ids), range(len(ids) - 1, -1, -1), strict=True))
    ordered = sorted(unique.items(), key=lambda pair: pair[1])
    stray = [(text, i) for text, i in ordered if is_stray(text)]
    if stray:
        yield found(
            "F005",
            path,
            f"{many(len(stray), f'{kind} id has', f'{kind} ids have')} stray white space or invisible characters: "
            f"{such_as([s for s, _ in stray])}",
            (at(i) for _, i in stray),
            len(stray),
        )
    decimal = [(text, i) for text, i in ordered if _DECIMAL.fullmatch(text)]
    # Numbers of sections or versions (1.0, 1.1) are no integers gone wrong.
    if decimal and not any(_FRACTION.fullmatch(text) for text in unique):
        yield found(
            "F006",
            path,
            f"{many(len(decimal), f'{kind} id looks', f'{kind} ids look')} like integers that became decimals: "
            f"{such_as([s for s, _ in decimal])}",
            (at(i) for _, i in decimal),
            len(decimal),
        )


def twins(lonely: Iterable[str], others: Iterable[str]) -> list[tuple[str, str]]:
    """The ids without a match that have one among the others once both are folded."""
    alone = {text: folded(text) for text in lonely}
    if not alone:
        return []
    keys = set(alone.values())
    known: dict[str, str] = {}
    for text in others:
        key = folded(text)
        if key in keys and text not in alone:
            known.setdefault(key, text)
    return [(text, known[key]) for text, key in alone.items() if key in known]
