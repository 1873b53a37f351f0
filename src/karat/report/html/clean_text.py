"""Strings made safe for a page: cut to a length, control characters made visible."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NAME, LONGEST = 160, 1000
"""Characters of an id or a name, and of anything else that is not cut to less."""
_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
_PICTURES = {**{i: chr(0x2400 + i) for i in range(32)}, 0x7F: "␡"}


def clean(text: str) -> str:
    """Control characters as their pictures (␀), and halves of surrogate pairs, which no file can hold, as �."""
    return _UNSEEN.sub(lambda match: _PICTURES.get(ord(match[0]), "�"), text)


def plain(text: str) -> str:
    """Without the marks that turn the direction of what follows: for names inside our own sentences."""
    return _TURNING.sub("", text)


def cut(text: str, most: int) -> str:
    """The beginning of a text, clean."""
    return clean(text if len(text) <= most else text[: most - 1] + "…")


def cut_all(texts: Sequence[str], most: int) -> list[str]:
    """The beginnings of many texts, clean: nearly always they are so already, which one look at them all tells."""
    if max(map(len, texts), default=0) <= most and _UNSEEN.search("\n".join(texts)) is None:
        return list(texts)
    return [cut(text, most) for text in texts]


def name(text: str) -> str:
    """An id or a name, clean; one that is too long keeps its ends and a mark of its own, so that it stays unique."""
    if len(text) <= NAME:
        return clean(text)
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return clean(f"{text[: NAME - 30]}…{text[-18:]} [{mark}]")


def link_to(entries: Iterable[tuple[str, str]]) -> str:
    """What a link within the page chooses: `field.language=de&section=queries`."""
    return "&".join(f"{quote(key, safe='.')}={quote(value, safe='')}" for key, value in entries)
