"""What to know about data and runs before trusting the numbers of a benchmark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karat.errors import shown
from karat.model.docs import TEXT_FIELDS, Docs
from karat.model.run import OrderedLists, Run
from karat.verbs.data_notes import find_unmatched

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from karat.metrics.grammar import Measure
    from karat.retrieve.corpus import Corpus
    from karat.verbs.bench.dataset import Dataset


def list_warnings(
    dataset: Dataset, unknown: Mapping[str, Sequence[str]], measures: Sequence[Measure], k: int, ontology: Any = None
) -> list[str]:
    """All warnings, in words; `unknown` is what `unknown_ids` returns. With an `ontology`, docs are its terms."""
    return [
        *dataset.notes,
        *_gold(dataset, ontology),
        *_texts(dataset.corpus),
        *_unknown(unknown),
        *_cutoffs(measures, k),
    ]


def unknown_ids(runs: Mapping[str, Run], corpora: Mapping[str, Corpus]) -> dict[str, list[str]]:
    """By run: ids that it returned and that are not in the corpus."""
    unknown = {name: [id for id in ids_in(run) if id not in corpora[name].row] for name, run in runs.items()}
    return {name: ids for name, ids in unknown.items() if ids}


def ids_in(run: Run) -> dict[str, None]:
    """All ids that a run returned, each once."""
    assert isinstance(run.content, OrderedLists)
    return dict.fromkeys(id for ids in run.content.lists.values() for id in ids)


def _unknown(unknown: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for name, ids in unknown.items():
        count = "1 id that is" if len(ids) == 1 else f"{len(ids):,} ids that are"
        yield f"{name}: returned {count} not in the corpus: {_some(ids)}; is it the same corpus?"


def _gold(dataset: Dataset, ontology: Any) -> Iterator[str]:
    """Gold that no retriever can find."""
    if dataset.notes:  # they say it of terms
        return
    qrels, terms, docs = dataset.qrels, None, Docs({id: {} for id in dataset.corpus.ids}, dataset.corpus.parents)
    if ontology is not None:
        from karat.align.term_ids import gold_of_terms
        from karat.ontology.load import open_ontology

        terms = open_ontology(ontology)
        qrels = gold_of_terms(qrels, terms).qrels
    if unmatched := find_unmatched(qrels, docs, terms):
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


def _cutoffs(measures: Sequence[Measure], k: int) -> Iterator[str]:
    deeper = [m.name for m in measures if m.k is not None and k < m.k < float("inf")]
    if deeper:
        yield f"lists hold {k} docs, fewer than {', '.join(deeper)} can use; raise -k"


def _some(ids: Sequence[str]) -> str:
    return ", ".join(map(shown, ids[:3])) + (", …" if len(ids) > 3 else "")
