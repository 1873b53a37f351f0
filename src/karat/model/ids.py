"""Ids that name one thing in two spellings, and gold that no run can match."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from karat.errors import shown
from karat.model.policy import is_relevant
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karat.model.docs import Docs
    from karat.model.qrels import Qrels

_JOINERS = "\u200c\u200d"
"""Part of the spelling of some languages; stray only at the ends of an id."""
_DECIMAL = re.compile(r"\d+\.0+", re.ASCII)
_LEADING_ZEROS = re.compile(r"0(?<![0-9.]0)0*(?=[0-9])")
"""Begins with a literal, which is searched for ten times as fast as what is not before it."""


def is_stray(id: str) -> bool:
    """Whether an id begins or ends with white space, or holds invisible characters."""
    if id.isascii() and id.isprintable():
        return id != id.strip()
    return id != id.strip().strip(_JOINERS) or any(_is_invisible(c) for c in id)


def is_decimal(id: str) -> bool:
    """Whether an id is an integer written as a decimal: 12.0."""
    return _DECIMAL.fullmatch(id) is not None


def _is_invisible(c: str) -> bool:
    return c not in _JOINERS and (unicodedata.category(c) in ("Cf", "Cc", "Zl", "Zp") or (c.isspace() and c != " "))


def fold_id(id: str) -> str:
    """An id without what spellings differ in: case, Unicode form, white space, leading zeros of numbers, a `.0`."""
    if not id.isascii():
        id = unicodedata.normalize("NFKC", id)
        id = "".join(c for c in id if not _is_invisible(c) and c not in _JOINERS)
    id = "".join(id.split()).casefold()
    if is_decimal(id):
        id = id.partition(".")[0]
    return _LEADING_ZEROS.sub("", id)


def are_plain(ids: Sequence[str]) -> bool:
    """Whether folding changes none of these ids, as far as a look at all of them at once can tell."""
    text = "\n".join(ids)
    one_spelling = text.isascii() and len(text.split()) == len(ids) and text == text.lower() and ".0" not in text
    return one_spelling and _LEADING_ZEROS.search(text) is None


def find_twins(lonely: Iterable[str], others: Iterable[str]) -> list[tuple[str, str]]:
    """The ids without a match that have one among the others once both are folded."""
    alone = {id: fold_id(id) for id in lonely}
    if not alone:
        return []
    keys = set(alone.values())
    spellings: dict[str, str] = {}
    for id in others:
        key = fold_id(id)
        if key in keys and id not in alone:
            spellings.setdefault(key, id)
    return [(id, spellings[key]) for id, key in alone.items() if key in spellings]


@dataclass(frozen=True)
class UnmatchedGold:
    """Relevant docs that a corpus lacks, so that no run can find them."""

    docs: tuple[str, ...]
    relevant: int
    """How many docs are relevant in all."""
    twins: tuple[tuple[str, str], ...]
    """Those that the corpus holds in another spelling, and that spelling."""
    example: str
    """An id of the corpus."""

    @property
    def most(self) -> bool:
        """Whether the gold as a whole seems to be of another corpus, or to write its ids in another way."""
        return 2 * len(self.docs) > self.relevant

    @property
    def note(self) -> str:
        """What a reader of results must know."""
        some = ", ".join(map(shown, self.docs[:3])) + (", …" if len(self.docs) > 3 else "")
        text = f"{len(self.docs):,} of {self.relevant:,} distinct relevant docs are not in the corpus ({some})"
        if self.twins:
            gold, corpus = self.twins[0]
            return (
                f"{text}; the corpus writes {len(self.twins):,} of them differently: {shown(corpus)} for {shown(gold)}"
            )
        return f"{text}, whose ids look like {shown(self.example)}"


def unmatched_gold(qrels: Qrels, docs: Docs) -> UnmatchedGold | None:
    """The relevant docs that a corpus lacks, as docs or as chunks; None if it has all."""
    if not docs.fields:
        return None
    pairs = zip(qrels.docs, qrels.grades.tolist(), strict=True)
    relevant = dict.fromkeys(doc for doc, grade in pairs if is_relevant(grade))
    missing = [doc for doc in relevant if doc not in docs.fields]
    if missing:
        ids = {docs.parent(doc) for doc in docs.fields} | docs.fields.keys()
        missing = [doc for doc in missing if doc not in ids and docs.parent(doc) not in ids]
    if not missing:
        return None
    twins = find_twins(missing, docs.fields)
    return UnmatchedGold(tuple(missing), len(relevant), tuple(twins), next(iter(docs.fields)))
