"""What retrievers of LangChain and LlamaIndex have in common: objects by name, and the ids of what they return."""

from __future__ import annotations

import inspect
import uuid
from typing import TYPE_CHECKING, Any

from karat.errors import InputError, KaratError, UsageError, nearest, shown
from karat.read.objects import text_id
from karat.retrieve.registry import imported

if TYPE_CHECKING:
    from collections.abc import Mapping

ID_FIELDS = ("chunk_id", "doc_id", "id", "_id")


def object_of(given: Any, kind: str) -> Any:
    """The object itself; `module:name` is imported, and a function without arguments is called to make it."""
    if given is None or given == "":
        raise UsageError(f"{kind}: retriever is missing; pass the object, or write {kind}(retriever=my_module:name)")
    if not isinstance(given, str):
        return given
    if ":" not in given:
        raise UsageError(f"{kind}: retriever must be module:name, found {shown(given)}")
    found = imported(given)
    if inspect.isfunction(found):
        try:
            found = found()
        except KaratError:
            raise
        except Exception as error:
            raise UsageError(
                f"{kind}: {given} was called without arguments to make the retriever, and failed "
                f"({type(error).__name__}: {error})"
            ) from error
    return found


def id_of(own: Any, about: Mapping[str, Any], id_field: str | None, where: str, also: tuple[Any, ...] = ()) -> str:
    """The id of something returned: a field that was named, else what looks most like an id that a person gave.

    Frameworks give a random UUID to what has no id; it counts only where nothing else does.
    """
    if id_field is not None:
        found = text_id(about.get(id_field))
        if found is None:
            near = nearest(id_field, about)
            raise InputError(
                f"{where}: a result has no usable id in {id_field!r}, found {shown(about.get(id_field))}; "
                f"its fields: {_names(about)}" + (f"; did you mean {near!r}?" if near else "")
            )
        return found
    first, *rest = (about.get(name) for name in ID_FIELDS)
    given = None if _random(own) else own
    for value in (first, given, *rest, *also, own):
        found = text_id(value)
        if found is not None:
            return found
    raise InputError(
        f"{where}: a result has no id: its own is {shown(own)}, and its fields are {_names(about)}; "
        f"give docs an id or one of the fields {', '.join(ID_FIELDS)}, or name the field by id_field="
    )


def _random(value: Any) -> bool:
    """Whether this is a UUID of the random kind."""
    if not isinstance(value, str) or len(value) != 36:
        return False
    try:
        return uuid.UUID(value).version == 4
    except ValueError:
        return False


def _names(about: Mapping[str, Any]) -> str:
    return ", ".join(map(str, about)) or "none"
