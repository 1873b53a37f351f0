"""JSON documents: how numbers are written, and files of typed documents, written and read."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Protocol, TypeVar

from karat.store.atomic import encoded, write_atomically

if TYPE_CHECKING:
    from msgspec import Struct

    from karat.model.json_data import Json, JsonObject

T = TypeVar("T")
PACKING = 4
"""How hard documents are packed: nearly as small as the hardest, in a sixth of the time."""


class Ends(Protocol):
    """Whatever has two ends, each NaN where it is unknown."""

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...


def rounded(value: float) -> float | None:
    """A number as it is written: 12 significant digits, null where there is none: undefined, or without a bound."""
    return float(f"{value:.12g}") if math.isfinite(value) else None


def ends_json(interval: Ends) -> list[float | None] | None:
    """The ends of an interval as they are written; null where there is neither."""
    low, high = rounded(interval.low), rounded(interval.high)
    return None if low is None and high is None else [low, high]


def as_plain(document: Struct) -> JsonObject:
    """A typed document as dicts and lists, as `json.dumps` takes them; a number that is not finite becomes null."""
    import msgspec

    plain: JsonObject = msgspec.to_builtins(document)
    return {key: _nulls(one) for key, one in plain.items()}


def encode(document: Struct) -> bytes:
    """A typed document as JSON on one line; a number that is not finite becomes null."""
    import msgspec

    try:
        return msgspec.json.encode(document)
    except UnicodeEncodeError:  # half a character, as a file's odd name may hold: JSON has an escape for it
        return encoded(json.dumps(as_plain(document), ensure_ascii=False, separators=(",", ":")))


def _nulls(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _nulls(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_nulls(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def decode(data: bytes, type: type[T]) -> T:
    """JSON as a typed document; raises ValueError where it is not JSON, or not of this type."""
    import msgspec

    try:
        return msgspec.json.decode(data, type=type)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return msgspec.convert(json.loads(data, parse_constant=_refuse_constant), type)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def write_document(document: Struct, path: str) -> None:
    """Write a typed document; packed if the name ends in .gz."""
    data = encode(document)
    if path.endswith(".gz"):
        import gzip

        data = gzip.compress(data, PACKING, mtime=0)
    write_atomically(path, data)
