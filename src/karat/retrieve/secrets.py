"""Keys and passwords: taken from the environment alone, and hidden in whatever a server repeats of them."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, quote_plus, urlsplit

from karat.errors import UsageError, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HIDDEN = "***"
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_NAME = re.compile(
    r"(?i)authorization|cookie|(^|[-_.])(x[-_]?auth|auth|((api|access|auth|session|subscription|client)[-_]?)?"
    r"(key|token|secret|password|passwd|pwd|credentials?|signature|sig))$"
)
_SHORTEST = 4
"""Characters from which a spelling is hidden: a shorter one could be part of any word."""


def is_secret_name(name: str) -> bool:
    """Whether a header, a parameter or a field of this name usually holds a secret."""
    return _NAME.search(name) is not None


def variable_of(name: str, where: str) -> str:
    """The value of an environment variable, without surrounding white space."""
    value = os.environ.get(name, "").strip()
    if not value:
        raise UsageError(f"{where}: environment variable {name} is not set; set it to what {where} needs")
    if not value.isprintable() or not value.isascii():
        raise UsageError(f"{where}: environment variable {name} has characters that no request can hold; set it again")
    return value


def with_secrets(headers: Mapping[str, object], where: str) -> tuple[dict[str, str], list[str]]:
    """Headers with `${NAME}` replaced from the environment, and the values that must never be printed."""
    out: dict[str, str] = {}
    secrets: list[str] = []
    for name, text in headers.items():
        if not isinstance(text, (str, int, float)):
            raise UsageError(f"{where}: header {name} must be a text, found {shown(text)}")
        if is_secret_name(name) and not _VARIABLE.search(str(text)):
            raise _written_out(where, f"header {name}", f'{name}: "${{NAME}}"')
        out[str(name)], values = expand(str(text), where)
        secrets += values
    return out, secrets


def expand(template: Any, where: str) -> tuple[Any, list[str]]:
    """A text, or a structure of them, with `${NAME}` replaced from the environment, and the values that it took."""
    secrets: list[str] = []

    def walk(part: Any) -> Any:
        if isinstance(part, str):
            return _VARIABLE.sub(lambda place: take(place[1]), part)
        if isinstance(part, Mapping):
            return {walk(name): walk(value) for name, value in part.items()}
        return [walk(value) for value in part] if isinstance(part, (list, tuple)) else part

    def take(name: str) -> str:
        secrets.append(variable_of(name, where))
        return secrets[-1]

    return walk(template), secrets


def expand_url(url: str, where: str) -> tuple[str, list[str]]:
    """An address with `${NAME}` replaced from the environment, percent-encoded, and the values that it took."""
    secrets = [variable_of(name, where) for name in _VARIABLE.findall(url)]
    return _VARIABLE.sub(lambda place: quote(variable_of(place[1], where), safe=""), url), secrets


def refuse_written_out(url: str, body: object, where: str) -> None:
    """Refuse a key that stands in an address or a body: both are part of every run log. The key is not shown."""
    for name, value in parse_qsl(urlsplit(url).query):
        if is_secret_name(name) and not _VARIABLE.search(value):
            raise _written_out(where, f"{name}= in url", f"{name}=${{NAME}}")
    for name, value in _fields(body):
        if is_secret_name(name) and not _VARIABLE.search(value):
            raise _written_out(where, f"{name} in body", f'"{name}": "${{NAME}}"')


def _fields(body: object) -> Iterator[tuple[str, str]]:
    """The texts in a structure by the name of their field; a placeholder such as {query} is not a secret."""
    if isinstance(body, Mapping):
        for name, value in body.items():
            if isinstance(value, str) and not value.startswith("{"):
                yield str(name), value
            yield from _fields(value)
    elif isinstance(body, (list, tuple)):
        for value in body:
            yield from _fields(value)


def _written_out(where: str, what: str, form: str) -> UsageError:
    return UsageError(
        f"{where}: {what} is written out; put it into an environment variable and write {form}, so that it appears in "
        "no file, run or log"
    )


def without_query(url: str) -> str:
    """An address for a message that comes before its parameters are known to be harmless."""
    return url.partition("?")[0]


def spellings(secrets: Iterable[str]) -> tuple[str, ...]:
    """All ways in which a server may repeat these texts: plain, quoted, percent-encoded, base64; longest first."""
    out: set[str] = set()
    for secret in filter(None, secrets):
        data = secret.encode()
        out |= {secret, json.dumps(secret)[1:-1], quote(secret, safe=""), quote(secret), quote_plus(secret), data.hex()}
        for shift in range(3):  # where it begins in the text that was encoded
            encoded = base64.b64encode(b"\0" * shift + data).decode()
            # The characters that depend on nothing but the secret.
            first, last = -(-shift * 8 // 6), (shift + len(data)) * 8 // 6
            out |= {encoded[first:last], encoded[first:last].replace("+", "-").replace("/", "_")}
        out |= {quote(one, safe="") for one in set(out)}
    return tuple(sorted((one for one in out if len(one) >= _SHORTEST), key=len, reverse=True))


def conceal(text: str, hidden: Iterable[str]) -> str:
    """A text without these spellings of secrets."""
    for one in hidden:
        text = text.replace(one, HIDDEN)
    return text
