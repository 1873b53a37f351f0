"""The values of JSON, as types: for what users and other systems write, and Karat passes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
else:
    Json = Any
"""Any value that JSON has; msgspec decodes and describes it as Any."""
JsonObject: TypeAlias = dict[str, Json]
"""An object of JSON whose keys no type of ours states."""
