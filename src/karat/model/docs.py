"""The table of docs: which fields hold the text of a doc, and the doc that each chunk belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cached_property

from karat.model.policy import SEPARATOR, parent_of
from karat.records import dataclass

Fields = Mapping[str, object]
"""The fields of a doc or a query by name, as its table has them."""
TITLE = "title"
TEXT_FIELDS = ("text", "contents", "content", "body", "passage", "query_text", "query", "question")
"""Fields that may hold the text of a doc or a query; the first one with a value counts."""

SENTENCE_ENDS = (".", "!", "?", "…", "。")


def text_field(fields: Fields) -> str | None:
    """The name of the field that holds the text."""
    return next((name for name in TEXT_FIELDS if fields.get(name) not in (None, "")), None)


def text_of(fields: Fields) -> str:
    """The text among the fields of a doc or a query; empty if there is none."""
    name = text_field(fields)
    return "" if name is None else str(fields[name])


def title_and_text(fields: Fields, joint: str = " ") -> str:
    """Title and text as one; empty if there is neither. A title that ends a sentence needs a space alone."""
    title = fields.get(TITLE)
    parts = ("" if title is None else str(title).strip(), text_of(fields).strip())
    return (" " if parts[0].endswith(SENTENCE_ENDS) else joint).join(part for part in parts if part)


@dataclass(frozen=True, eq=False)
class Docs:
    """The fields of each doc by its id. Known ones: title, text (see `TEXT_FIELDS`), doc_version, source, …"""

    fields: Mapping[str, Fields]
    parents: Mapping[str, str] = field(default_factory=dict)
    """The doc of each chunk for which the table names one."""
    source: str = "docs"
    separator: str = SEPARATOR

    def __len__(self) -> int:
        return len(self.fields)

    def field(self, name: str) -> dict[str, object]:
        """One field of all the docs that have it."""
        return {doc: fields[name] for doc, fields in self.fields.items() if fields.get(name) is not None}

    def parent(self, doc: str) -> str:
        """The doc that a chunk belongs to."""
        return parent_of(doc, self.separator, self.parents)

    def value(self, doc: str, name: str) -> object:
        """A field of a doc; where it has none, of the doc it is a chunk of, or of its first chunk that has it."""
        return next((fields[name] for fields in self._related(doc) if fields.get(name) is not None), None)

    def text(self, doc: str) -> str | None:
        """Title and text of a doc; None if the table has neither for it."""
        fields = self.fields.get(doc)
        if fields is None or all(fields.get(name) is None for name in (TITLE, *TEXT_FIELDS)):
            return None
        return title_and_text(fields)

    def whole_text(self, doc: str) -> str:
        """Title and text of a doc, or all of its chunks one after the other; empty if the table has none."""
        return self.text(doc) or "\n".join(filter(None, (self.text(chunk) for chunk in self._chunks.get(doc, ()))))

    def caption(self, doc: str) -> str:
        """Title and text as a report shows them; of the whole doc or its first chunk if the doc itself has none."""
        return next((text for fields in self._related(doc) if (text := title_and_text(fields, ". "))), "")

    def _related(self, doc: str) -> Iterator[Fields]:
        """The fields of a doc, of the doc it is a chunk of, and of its chunks."""
        for related in dict.fromkeys((doc, self.parent(doc))):
            if related in self.fields:
                yield self.fields[related]
        for chunk in self._chunks.get(doc, ()):
            yield self.fields[chunk]

    @cached_property
    def _chunks(self) -> dict[str, list[str]]:
        """The chunks of each doc, in the order of the table."""
        out: dict[str, list[str]] = {}
        for doc in self.fields:
            if (parent := self.parent(doc)) != doc:
                out.setdefault(parent, []).append(doc)
        return out
