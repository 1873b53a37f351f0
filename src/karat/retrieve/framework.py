"""What retrievers of LangChain and LlamaIndex have in common: objects by name, and the ids of what they return."""

from __future__ import annotations

import inspect
import uuid
from typing import TYPE_CHECKING, Any

from karat.errors import InputError, KaratError, UsageError, nearest, shown
from karat.read.objects import text_id
from karat.retrieve.registry import import_object

if TYPE_CHECKING:
    from karat.model.docs import Fields

ID_FIELDS = ("chunk_id", "doc_id", "id", "_id")


def object_of(reference: Any, kind: str) -> Any:
    """The object itself; `module:name` is imported, and a function without arguments is called to make it."""
    if reference is None or reference == "":
        raise UsageError(f"{kind}: retriever is missing; pass the object, or write {kind}(retriever=my_module:name)")
    if not isinstance(reference, str):
        return reference
    if ":" not in reference:
        raise UsageError(f"{kind}: retriever must be module:name, found {shown(reference)}")
    value = import_object(reference)
    if inspect.isfunction(value):
        try:
            value = value()
        except KaratError:
            raise
        except Exception as error:
            raise UsageError(
                f"{kind}: {reference} was called without arguments to make the retriever, and failed "
                f"({type(error).__name__}: {error})"
            ) from error
    return value


def id_of(own: Any, about: Fields, id_field: str | None, where: str, also: tuple[Any, ...] = ()) -> str:
    """The id of something returned: a field that was named, else what looks most like an id that a person gave.

    Frameworks give a random UUID to what has no id; it counts only where nothing else does.
    """
    if id_field is not None:
        id = text_id(about.get(id_field))
        if id is None:
            near = nearest(id_field, about)
            raise InputError(
                f"{where}: a result has no usable id in {id_field!r}, found {shown(about.get(id_field))}; "
                f"its fields: {_names(about)}" + (f"; did you mean {near!r}?" if near else "")
            )
        return id
    first, *rest = (about.get(name) for name in ID_FIELDS)
    own_id = None if _random(own) else own
    for value in (first, own_id, *rest, *also, own):
        id = text_id(value)
        if id is not None:
            return id
    raise InputError(
        f"{where}: a result has no id: its own is {shown(own)}, and its fields are {_names(about)}; "
        f"give docs an id or one of the fields {', '.join(ID_FIELDS)}, or name the field with id_field="
    )


def _random(value: Any) -> bool:
    """Whether this is a UUID of the random kind."""
    if not isinstance(value, str) or len(value) != 36:
        return False
    try:
        return uuid.UUID(value).version == 4
    except ValueError:
        return False


def _names(about: Fields) -> str:
    return ", ".join(map(str, about)) or "none"
