"""What to know of data and runs before believing the numbers of a benchmark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karat.errors import shown
from karat.model.docs import TEXT_FIELDS, Docs
from karat.model.ids import unmatched_gold

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from karat.metrics.grammar import Measure
    from karat.retrieve.corpus import Corpus
    from karat.verbs.bench.dataset import Dataset


def remarks(dataset: Dataset, strange: Mapping[str, Sequence[str]], measures: Sequence[Measure], k: int) -> list[str]:
    """All of them, in words; `strange` is what `unknown_ids` found."""
    return [*_gold(dataset), *_texts(dataset.corpus), *_strangers(strange), *_cut(measures, k)]


def unknown_ids(logs: Mapping[str, str], corpora: Mapping[str, Corpus]) -> dict[str, list[str]]:
    """By run: ids that were returned and that the corpus lacks."""
    found: dict[str, list[str]] = {}
    for name, path in logs.items():
        known = corpora[name].row
        with open(path, "rb") as file:
            lists = (msgspec.json.decode(line)["topk"] for line in file)
            ids = dict.fromkeys(i.get("chunk_id") or i["doc_id"] for items in lists for i in items)
        if strange := [id for id in ids if id not in known]:
            found[name] = strange
    return found


def _strangers(strange: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for name, ids in strange.items():
        count = "1 id that is" if len(ids) == 1 else f"{len(ids):,} ids that are"
        yield f"{name}: returned {count} not in the corpus: {_some(ids)}; is that the same corpus?"


def _gold(dataset: Dataset) -> Iterator[str]:
    """Gold that nothing could find."""
    corpus = dataset.corpus
    if unmatched := unmatched_gold(dataset.qrels, Docs({id: {} for id in corpus.ids}, corpus.parents)):
        yield f"gold: {unmatched.note}. See: karat validate"


def _texts(corpus: Corpus) -> Iterator[str]:
    empty = [id for id, text in zip(corpus.ids, corpus.texts, strict=True) if not text.strip()]
    if empty:
        yield f"corpus: {len(empty):,} of {len(corpus):,} docs have neither title nor text: {_some(empty)}"
    elif corpus.titles_only:
        yield (
            f"corpus: {corpus.titles_only:,} of {len(corpus):,} docs have a title and no text; "
            f"a text is read from a field named {', '.join(TEXT_FIELDS)}"
        )


def _cut(measures: Sequence[Measure], k: int) -> Iterator[str]:
    deeper = [m.name for m in measures if m.k is not None and k < m.k < float("inf")]
    if deeper:
        yield f"lists hold {k} docs, fewer than {', '.join(deeper)} could look at; ask for more with -k"


def _some(ids: Sequence[str]) -> str:
    return ", ".join(map(shown, ids[:3])) + (", …" if len(ids) > 3 else "")
