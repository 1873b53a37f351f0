"""Requests with placeholders, {query}, {k}, {language} and {field.NAME}, in JSON and in addresses."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from karat.errors import InputError, UsageError, shown
from karat.retrieve.protocol import name_query

if TYPE_CHECKING:
    from karat.retrieve.protocol import Query

_PLACE = re.compile(r"(?<!\$)\{(?P<name>query|k|language|field\.[^{}:]+)(?::-(?P<other>[^{}]*))?\}")


def read_json(source: Any, what: str) -> Any:
    """JSON from a structure (unchanged), a text (parsed) or `@file` (read and parsed)."""
    if not isinstance(source, str):
        return source
    text, where = source, what
    if source.startswith("@"):
        where = source[1:]
        try:
            with open(os.path.expanduser(where), encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{where}: cannot be read ({error}); {what} names it") from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{where}:{error.lineno}:{error.colno}: expected JSON ({error.msg}), "
            f"found {shown(text[error.pos : error.pos + 40])}"
        ) from None


def places(template: Any) -> set[str]:
    """The names of all placeholders in a text or a structure."""
    if isinstance(template, str):
        return {place["name"] for place in _PLACE.finditer(template)}
    if isinstance(template, Mapping):
        return {name for pair in template.items() for part in pair for name in places(part)}
    if isinstance(template, (list, tuple)):
        return {name for part in template for name in places(part)}
    return set()


def fill(template: Any, query: Query | str, k: int) -> Any:
    """A structure with its placeholders filled; a text that is just one placeholder takes the value unchanged.

    Values are never parsed, so that no query can break the JSON around it.
    """
    if isinstance(template, str):
        whole = _PLACE.fullmatch(template)
        if whole:
            return _value(whole, query, k)
        return _PLACE.sub(lambda place: _text(_value(place, query, k)), template)
    if isinstance(template, Mapping):
        return {fill(name, query, k): fill(part, query, k) for name, part in template.items()}
    if isinstance(template, (list, tuple)):
        return [fill(part, query, k) for part in template]
    return template


def fill_url(template: str, query: Query | str, k: int) -> str:
    """An address with its placeholders filled, percent-encoded."""
    return _PLACE.sub(lambda place: quote(_text(_value(place, query, k)).encode("utf-8", "replace"), safe=""), template)


def _value(place: re.Match[str], query: Query | str, k: int) -> Any:
    name, other = place["name"], place["other"]
    if name == "query":
        return str(query)
    if name == "k":
        return k
    fields = getattr(query, "fields", {})
    value = fields.get(name.removeprefix("field."))
    if value is not None:
        return value
    if other is not None:
        return other
    raise InputError(
        f"{name_query(query)}: the request needs {place[0]}, and the query has "
        f"no such field; its fields: {', '.join(fields) or 'none'}. Write {{{name}:-something}} for those without"
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
