"""What a benchmark runs on: a corpus, queries and gold, from a folder, a config or `ir_datasets:NAME`."""

from __future__ import annotations

import json
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

from karat.config.checks import config_options
from karat.config.reading import DEFAULT_NAMES, read_config
from karat.errors import InputError, UsageError, missing_package, nearest, shown
from karat.model.docs import Fields, text_of
from karat.read.queries import read_queries
from karat.read.sources import read_qrels
from karat.records import dataclass
from karat.retrieve.corpus import Corpus, fingerprint, read_corpus
from karat.retrieve.protocol import Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karat.model.qrels import Qrels
    from karat.model.queries import Queries

SPLITS = ("test", "dev", "validation", "train")
ENDINGS = {
    "corpus": (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet", ".csv", ".tsv", ".json"),
    "queries": (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet", ".csv", ".tsv", ".json"),
    "qrels": (".tsv", ".txt", ".jsonl", ".csv", ".parquet", ".json", ".tsv.gz", ".txt.gz"),
}
IR_DATASETS = "ir_datasets:"
EXPECTED = "corpus.jsonl, queries.jsonl and qrels/test.tsv, as BEIR has them"


@dataclass(frozen=True)
class Dataset:
    """Gold, queries and corpus under one name; files are read when they are first asked for."""

    name: str
    gold: Any
    query_table: Any
    docs: Any
    embeddings: Any = None
    embedding_model: str | None = None
    ontology: Any = None
    entries: bool = False
    """Whether docs are entries of terms: runs hold terms, each at the rank of its best entry."""
    notes: tuple[str, ...] = ()
    """What to know of the index before trusting any number."""

    @cached_property
    def corpus(self) -> Corpus:
        return read_corpus(self.docs)

    @cached_property
    def table(self) -> Queries:
        """The queries with all their fields."""
        return read_queries(self.query_table).with_ids_of(self.qrels.query_ids)

    @cached_property
    def qrels(self) -> Qrels:
        return read_qrels(self.gold)

    @cached_property
    def queries(self) -> Sequence[Query]:
        """The queries to run: those with gold, and those without an answer; by id."""
        ids = set(self.qrels.query_ids)
        ids |= set(self.table.no_answer)
        if missing := sorted(ids - set(self.table.fields)):
            raise InputError(
                f"{self.table.source}: {len(missing)} queries of the gold are not in it: {_some(missing)}; "
                "add them, or name other gold"
            )
        texts = {q: text_of(self.table.fields[q]) for q in ids}
        if without := sorted(q for q, text in texts.items() if not text.strip()):
            raise InputError(
                f"{self.table.source}: no text for {len(without)} queries: {_some(without)}; expected a field text"
            )
        return [Query(texts[q], q, self.table.fields[q]) for q in sorted(ids, key=lambda q: q.encode())]

    @cached_property
    def version(self) -> str:
        """A hash of all that a retriever can see: ids, texts and fields of corpus and queries."""
        passages = [_canonical(fields) for fields in self.corpus.fields]
        queries = (
            [q.id for q in self.queries],
            [str(q) for q in self.queries],
            [_canonical(q.fields) for q in self.queries],
        )
        return fingerprint([self.corpus.fingerprint], passages, *queries)[:16]


def _canonical(fields: Fields) -> str:
    return json.dumps(dict(fields), sort_keys=True, ensure_ascii=False, default=str)


def _some(ids: Sequence[str]) -> str:
    return ", ".join(map(shown, ids[:5])) + (", …" if len(ids) > 5 else "")


def datasets_of(sources: Any, split: str | None = None) -> tuple[Dataset, ...]:
    """One dataset or several: folders, configs, `ir_datasets:NAME`; `NAME=…` names one."""
    if isinstance(sources, (str, os.PathLike, Dataset)):
        sources = [sources]
    if not isinstance(sources, (list, tuple)) or not all(isinstance(s, (str, os.PathLike, Dataset)) for s in sources):
        raise UsageError(f"a dataset must be a folder, a config or a karat.Dataset, found {shown(sources)}")
    if not sources:
        raise UsageError(f"no dataset; name a folder with {EXPECTED}")
    datasets = [_dataset(source, split) for source in sources]
    names: dict[str, int] = {}
    for one in datasets:
        names[one.name] = names.get(one.name, 0) + 1
    if twice := [name for name, count in names.items() if count > 1]:
        raise UsageError(f"two datasets are called {twice[0]!r}; give them names: NAME=FOLDER")
    return tuple(datasets)


def _dataset(source: Any, split: str | None) -> Dataset:
    if isinstance(source, Dataset):
        return source
    text = os.fspath(source)
    name, path = "", text
    if not os.path.exists(text) and "=" in text:
        name, path = (part.strip() for part in text.split("=", 1))
    if path.startswith(IR_DATASETS):
        return _from_ir_datasets(name, path.removeprefix(IR_DATASETS))
    if os.path.isfile(path) and path.endswith((".yaml", ".yml")):
        return _from_config(name, path)
    if config := config_in(path):
        return _from_config(name, config)
    if not os.path.isdir(path):
        raise InputError(f"{path}: no such folder; expected one with {EXPECTED}, a karat.yaml, or {IR_DATASETS}NAME")
    return _from_folder(name, path, split)


def config_in(folder: str) -> str | None:
    """The karat.yaml of a folder that has one and no corpus of its own."""
    return None if os.path.isdir(folder) and _file(folder, "corpus") is not None else find_folder_config(folder)


def find_folder_config(folder: str) -> str | None:
    """The karat.yaml of a folder."""
    return next((p for n in DEFAULT_NAMES if os.path.isfile(p := os.path.join(folder, n))), None)


def own_files(folder: str) -> list[str]:
    """The gold, queries and corpus that lie in a folder under the names of a dataset."""
    return [p for kind in ("qrels", "queries", "corpus") if (p := _file(folder, kind)) is not None]


def _from_folder(name: str, folder: str, split: str | None) -> Dataset:
    corpus, queries = (_file(folder, kind) for kind in ("corpus", "queries"))
    gold = _gold(folder, split)
    problems = [
        f"{folder}: has no {kind}; expected {EXPECTED}"
        for kind, path in (("corpus.jsonl", corpus), ("queries.jsonl", queries), ("qrels", gold))
        if path is None
    ]
    if problems:
        problems[-1] += "; files of other names are named in a karat.yaml, which karat init writes"
        raise InputError(problems)
    return Dataset(name or os.path.basename(os.path.abspath(folder)), gold, queries, corpus)


def _file(folder: str, kind: str) -> str | None:
    places = (os.path.join(folder, kind + ending) for ending in ENDINGS[kind])
    return next((place for place in places if os.path.isfile(place)), None)


def _gold(folder: str, split: str | None) -> str | None:
    """The gold of this split, else of the first one there is."""
    inside = os.path.join(folder, "qrels")
    if not os.path.isdir(inside):
        if split is not None:
            raise InputError(f"{inside}: no such folder, so there is no split {split!r}; leave the split out")
        return _file(folder, "qrels")
    for name in (split,) if split is not None else SPLITS:
        path = next((p for e in ENDINGS["qrels"] if os.path.isfile(p := os.path.join(inside, name + e))), None)
        if path:
            return path
    there = sorted({n.split(".")[0] for n in os.listdir(inside)})
    if split is None and len(there) == 1:
        return os.path.join(inside, os.listdir(inside)[0])
    near = nearest(split, there) if split else None
    raise InputError(
        f"{inside}: no gold of split {split or SPLITS[0]!r}"
        + (f"; did you mean {near!r}?" if near else "")
        + f"; there are: {', '.join(there) or 'none'}"
    )


def _from_config(name: str, path: str) -> Dataset:
    read = read_config(path)
    data = read.config.dataset
    options = config_options(read)
    missing = [k for k, name in (("queries", "queries"), ("corpus", "docs")) if options.get(name) is None]
    if data is None or missing:
        lacking = " and no ".join(missing) if data is not None else "dataset"
        detail = f"a benchmark needs dataset: with qrels, queries and corpus; found no {lacking}"
        raise InputError(read.problem(detail, "dataset"))
    label = name or data.name or os.path.basename(os.path.dirname(os.path.abspath(path)))
    return Dataset(
        label,
        read.place(data.qrels),
        options["queries"],
        options["docs"],
        options.get("embeddings"),
        options.get("embedding_model"),
        options.get("ontology"),
    )


def _from_ir_datasets(name: str, id: str) -> Dataset:
    try:
        import ir_datasets
    except ImportError:
        raise missing_package(f"{IR_DATASETS}{id}", "ir_datasets") from None
    try:
        source = ir_datasets.load(id)
    except KeyError:
        near = nearest(id, ir_datasets.registry._registered)
        hint = f"; did you mean {near!r}?" if near else ""
        raise UsageError(f"{IR_DATASETS}{id}: there is no such dataset{hint}") from None
    if without := [part for part in ("docs", "queries", "qrels") if not source.has(part)]:
        raise UsageError(f"{IR_DATASETS}{id}: has no {', '.join(without)}; name a part that does, such as {id}/test")
    try:
        gold: dict[str, dict[str, float]] = {}
        for judgment in source.qrels_iter():
            gold.setdefault(judgment.query_id, {})[judgment.doc_id] = float(judgment.relevance)
        queries = {q.query_id: {"text": _text(q)} for q in source.queries_iter()}
        docs = {d.doc_id: {"text": _text(d)} for d in source.docs_iter()}
    except Exception as error:
        raise InputError(f"{IR_DATASETS}{id}: cannot be read ({type(error).__name__}: {error})") from error
    return Dataset(name or id.replace("/", "-"), gold, queries, docs)


def _text(item: Any) -> str:
    """The text of a doc or query of ir_datasets; older ones have fields instead."""
    if callable(getattr(item, "default_text", None)):
        return str(item.default_text())
    parts: Iterable[Any] = (getattr(item, name, None) for name in ("title", "text"))
    return " ".join(str(part) for part in parts if part)
