"""A corpus: passages with ids, texts and fields; the same corpus in other chunks."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict

from karat.errors import InputError, UsageError
from karat.model.docs import TITLE, text_field, title_and_text
from karat.model.policy import SEPARATOR, parent_of
from karat.read.docs import read_docs
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.model.docs import Fields

_WORD = re.compile(r"\S+\s*")


class Chunker(TypedDict):
    """How passages were cut, as a run log states it."""

    algo: str
    size: int
    overlap: int


@dataclass(frozen=True)
class Corpus:
    """Passages in the order of their file; `texts` hold title and text as one."""

    ids: Sequence[str]
    texts: Sequence[str]
    fields: Sequence[Fields] = ()
    source: str = "corpus"
    chunker: Chunker | None = None
    """How passages were cut, where that was done here."""
    titles_only: int = 0
    """Passages that have a title and no text, where others may have been meant to."""

    parents: Mapping[str, str] = field(default_factory=dict)
    """The doc of each passage for which the corpus names one."""

    def __len__(self) -> int:
        return len(self.ids)

    def parent(self, id: str) -> str:
        """The doc that a passage belongs to."""
        return parent_of(id, SEPARATOR, self.parents)

    @cached_property
    def row(self) -> dict[str, int]:
        """Where each id stands."""
        return {id: i for i, id in enumerate(self.ids)}

    @cached_property
    def fingerprint(self) -> str:
        """A hash of ids and texts: equal content has an equal one, wherever it is."""
        return fingerprint(self.ids, self.texts)

    def about(self, id: str) -> Fields:
        """The fields of a passage: language, source, doc_version, …"""
        place = self.row.get(id)
        return self.fields[place] if place is not None and self.fields else {}

    def language(self, i: int) -> str | None:
        """The language that a passage is labelled with."""
        label = self.fields[i].get("language") if self.fields else None
        return str(label) if label else None


def fingerprint(*columns: Sequence[str]) -> str:
    """A hash of the texts, and of where each begins and ends."""
    hasher = hashlib.sha256()
    for column in columns:
        hasher.update(b"%d;" % len(column))
        for text in column:
            data = text.encode("utf-8", "surrogatepass")
            hasher.update(b"%d:" % len(data))
            hasher.update(data)
    return hasher.hexdigest()[:32]


def read_corpus(source: Any) -> Corpus:
    """A corpus from a path (BEIR's corpus.jsonl, CSV, Parquet), a frame, or a dict of texts or fields by id."""
    if isinstance(source, Corpus):
        return source
    name = os.fspath(source) if isinstance(source, (str, os.PathLike)) else "corpus"
    table = read_docs(source)
    ids, texts, fields, empty, bare = [], [], [], [], 0
    for id, about in table.fields.items():
        body, text = text_field(about), title_and_text(about)
        if not text:
            empty.append(id)
        bare += body is None and bool(text)
        ids.append(id)
        texts.append(text)
        fields.append({n: v for n, v in about.items() if n not in (TITLE, body)})
    if not ids:
        raise InputError(f"{name}: has no docs; expected one per line, with _id and text")
    if len(empty) == len(ids):
        raise InputError(f"{name}: no doc has a title or a text; expected fields named title and text")
    return Corpus(ids, texts, fields, name, titles_only=bare, parents=table.parents)


def rechunk(corpus: Corpus, size: int, overlap: int = 0) -> Corpus:
    """The docs of a corpus cut into passages of `size` words, each with the last `overlap` words of the one before.

    Passages of one doc are joined first. New ids are `doc#100-20-1`, …
    """
    if size < 1 or not 0 <= overlap < size:
        raise UsageError(f"a chunk has at least 1 word and a smaller overlap; found {size} and {overlap}")
    docs: dict[str, list[int]] = {}
    for i, id in enumerate(corpus.ids):
        docs.setdefault(corpus.parent(id), []).append(i)
    ids, texts, fields = [], [], []
    for doc, rows in docs.items():
        words = _WORD.findall("\n".join(corpus.texts[i] for i in rows))
        for number, start in enumerate(_starts(len(words), size, overlap), start=1):
            ids.append(f"{doc}{SEPARATOR}{size}-{overlap}-{number}")
            texts.append("".join(words[start : start + size]).strip())
            fields.append(corpus.fields[rows[0]] if corpus.fields else {})
    chunker: Chunker = {"algo": "words", "size": size, "overlap": overlap}
    return Corpus(ids, texts, fields if corpus.fields else (), corpus.source, chunker)


def _starts(words: int, size: int, overlap: int) -> range:
    """Where passages begin; no passage holds only words that the one before had."""
    return range(0, max(words - overlap, 1), size - overlap)
