"""bench(): datasets × retrievers → run logs → comparison."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack, cast

from karat import __version__
from karat.errors import UsageError, nearest, shown
from karat.metrics.grammar import parse_all
from karat.model.options import Settings, StatedOptions, takes_options
from karat.read.sources import read_run
from karat.results.figures import estimate_figure
from karat.results.result import FORMAT_VERSION
from karat.results.table import Table, Tabular
from karat.retrieve.corpus import rechunk
from karat.retrieve.protocol import everything_in
from karat.retrieve.registry import make_retriever
from karat.retrieve.spec import Spec, parse_spec
from karat.retrieve.store import Store
from karat.store.codec import as_plain, write_document
from karat.verbs.bench.dataset import datasets_of
from karat.verbs.bench.identity import identity_of
from karat.verbs.bench.languages import over_languages
from karat.verbs.bench.runner import PART, Task, Unfinished, finished, run, slug
from karat.verbs.bench.vectors import vectors_for
from karat.verbs.bench.warnings import remarks, unknown_ids
from karat.verbs.compare import TestOptions, compare
from karat.verbs.evaluate import evaluate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from karat.metrics.grammar import Measure
    from karat.model.options import Options
    from karat.results.document import DocumentJson
    from karat.results.result import Result
    from karat.retrieve.corpus import Corpus
    from karat.verbs.bench.dataset import Dataset
    from karat.verbs.bench.identity import Identity
    from karat.verbs.bench.languages import Languages
    from karat.verbs.compare import Comparison

    Watch = Callable[[str, str, int, int], None]
    """Told the run, what is done (indexing, queries), how much of it, and how much there is."""

DEFAULT = ("bm25", "dense", "hybrid(bm25, dense)")
LANGUAGE = "language"
OF_COMPARE = frozenset(TestOptions.__annotations__)
Chunks = tuple[int, int] | None
"""Words of a passage and of the overlap; None leaves the corpus as it is."""


class BenchOptions(StatedOptions, TestOptions, total=False):
    """The keyword arguments of `bench` that `evaluate` and `compare` have too."""


@dataclass(frozen=True)
class Benched:
    """What was found on one dataset: the result, the comparison where there was one, and the logs by run."""

    dataset: Dataset
    result: Result
    comparison: Comparison | None
    logs: Mapping[str, str]
    again: Sequence[str] = ()
    """Runs whose logs were there already and whole."""
    notes: Sequence[str] = ()
    """What to know before believing the numbers."""

    @property
    def document(self) -> Result | Comparison:
        """What is saved and reported."""
        return self.comparison if self.comparison is not None else self.result


@dataclass(frozen=True)
class Bench(Tabular):
    """A benchmark: a part for each dataset, and how systems do over languages."""

    parts: tuple[Benched, ...]
    languages: Languages | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Benched:
        for part in self.parts:
            if part.dataset.name == name:
                return part
        raise UsageError(f"no dataset {name!r}; there are: {', '.join(p.dataset.name for p in self.parts)}")

    @property
    def result(self) -> Result:
        """The result, where there is one dataset."""
        return self.only.result

    @property
    def only(self) -> Benched:
        """The part, where there is one dataset."""
        if len(self.parts) != 1:
            raise UsageError(f"{len(self.parts)} datasets were run; choose one: bench['{self.parts[0].dataset.name}']")
        return self.parts[0]

    def __repr__(self) -> str:
        parts = (f"{p.dataset.name}: {', '.join(run.name for run in p.result)}" for p in self.parts)
        return f"Bench({'; '.join(parts)})"

    def table(self) -> Table:
        """A row for each dataset, system and metric; a reader sees a row for each dataset and system."""
        systems = [(p.dataset.name, run) for p in self.parts for run in p.result]
        rows = [
            (name, run.name, m, one.estimate, one.low, one.high, one.n)
            for name, run in systems
            for m, one in run.intervals.items()
        ]
        metrics = list(dict.fromkeys(m for _, run in systems for m in run.values))
        cells = [
            (name, run.name, *(str(estimate_figure(m, run.intervals[m])) if m in run.values else "" for m in metrics))
            for name, run in systems
        ]
        columns = ("dataset", "run", "metric", "value", "low", "high", "n")
        return Table(columns, rows, ("dataset", "run", *metrics), cells)

    def document(self) -> DocumentJson:
        """The document that `--json` writes."""
        from msgspec import UNSET

        from karat.results.document import DatasetJson, DocumentJson

        return DocumentJson(
            format_version=FORMAT_VERSION,
            kind="bench",
            bench=dict(self.facts),
            datasets=[
                DatasetJson(p.dataset.name, p.dataset.version, dict(p.logs), list(p.notes), p.document.document())
                for p in self.parts
            ],
            languages=self.languages.as_json() if self.languages is not None else UNSET,
        )

    def as_json(self) -> dict[str, Any]:
        """The document that `--json` writes, as plain data."""
        return as_plain(self.document())

    def save(self, path: str) -> None:
        """Write the full result of one dataset, from which reports and checks are made."""
        self.only.document.save(path)

    def write(self, path: str) -> None:
        """Write what `as_json` gives."""
        write_document(self.document(), path)


@takes_options
def bench(
    dataset: Any,
    retrievers: Sequence[Any] | Mapping[str, Any] | str | None = None,
    metrics: str | Iterable[str | Measure] | None = None,
    *,
    k: int = 100,
    out: str = "runs",
    baseline: str | None = None,
    chunks: Sequence[Chunks] = (),
    split: str | None = None,
    workers: int = 1,
    warmup: int = 5,
    fresh: bool = False,
    watch: Watch | None = None,
    **options: Unpack[BenchOptions],
) -> Bench:
    """Run retrievers over one dataset or several, and compare them.

    A retriever is written as `bm25`, `dense(model=…)`, `name=hybrid(bm25, dense)` or `module:function`, or is an
    object with `index` and `retrieve`; a mapping names them. Run logs go to the folder `out`, line by line: a
    benchmark that was stopped resumes where it stopped. `chunks` cuts the corpus anew (words, overlap), and runs
    every retriever on each. The keyword arguments of `compare` for tests (`tests`, `alpha`, `margin`…) are taken too.
    """
    for name, number, least in (("k", k, 1), ("workers", workers, 1), ("warmup", warmup, 0)):
        if not isinstance(number, int) or isinstance(number, bool) or number < least:
            raise UsageError(f"{name} must be an integer from {least}, found {number!r}")
    tests = cast("TestOptions", {name: value for name, value in options.items() if name in OF_COMPARE})
    stated = {name: value for name, value in options.items() if name not in OF_COMPARE}
    settings = Settings.of(cast("Options", {**stated, "details": True}))
    specs = _specs(DEFAULT if retrievers is None else retrievers)
    datasets = datasets_of(dataset, split)
    names = _names(specs, chunks)
    if baseline is not None and baseline not in names:
        near = nearest(baseline, names)
        raise UsageError(
            f"no run {baseline!r} to compare with"
            + (f" (did you mean {near!r}?)" if near else "")
            + f"; there will be: {', '.join(names)}"
        )
    measures = None if metrics is None else parse_all(metrics)
    parts = []
    for one in datasets:
        folder = out if len(datasets) == 1 else os.path.join(out, slug(one.name))
        job = _Job(
            one,
            specs,
            k,
            folder,
            tuple(chunks),
            workers,
            warmup,
            Store() if settings.engine.cache else None,
            fresh,
            watch,
        )
        parts.append(job.done(measures, baseline, settings, tests))
    facts = {"k": k, "workers": workers, "warmup": warmup, "karat": __version__}
    return Bench(tuple(parts), over_languages(parts), facts)


def _specs(given: Any) -> dict[str, Any]:
    """By name: a spec, or an object that is a retriever."""
    if isinstance(given, str) or not isinstance(given, (dict, list, tuple)):
        given = [given]
    pairs = given.items() if isinstance(given, dict) else ((None, one) for one in given)
    out: dict[str, Any] = {}
    for name, one in pairs:
        spec: Any = one
        if isinstance(one, (str, dict, Spec)):
            spec = parse_spec(one)
            label = name or spec.name
        else:
            label = name or called(one)
        if label in out:
            raise UsageError(f"two retrievers are called {label!r}; give one a name: NAME={label}")
        out[label] = spec
    if not out:
        raise UsageError("no retriever; name one, such as bm25")
    files = [slug(label) for label in out]
    if twice := next((f for f in files if files.count(f) > 1), None):
        raise UsageError(f"two retrievers would write {twice}.jsonl; give one a name: NAME=…")
    return out


def called(one: Any) -> str:
    """What an object is called where nobody named it."""
    return str(getattr(one, "name", "") or getattr(one, "__name__", "") or type(one).__name__)


def _names(specs: Mapping[str, Any], chunks: Sequence[Chunks]) -> list[str]:
    return [_name(label, cut) for cut in chunks or (None,) for label in specs]


def _name(label: str, cut: Chunks) -> str:
    return label if cut is None else f"{label} {cut[0]}+{cut[1]}"


@dataclass
class _Job:
    """One dataset, with everything that was asked for."""

    dataset: Dataset
    specs: Mapping[str, Any]
    k: int
    folder: str
    chunks: tuple[Chunks, ...]
    workers: int
    warmup: int
    store: Store | None
    fresh: bool
    watch: Watch | None

    def done(self, measures: Any, baseline: str | None, settings: Settings, tests: TestOptions) -> Benched:
        """Run everything, then evaluate and compare."""
        self._check_chunks()
        made: dict[str, Any] = {}
        corpora: dict[str, Corpus] = {}
        specs: dict[str, Any] = {}
        try:
            for cut in self.chunks or (None,):  # all are made before one runs: a slip is told at once
                corpus = self.dataset.corpus if cut is None else rechunk(self.dataset.corpus, *cut)
                known: dict[str, Any] = {}
                for label, spec in self.specs.items():
                    name = _name(label, cut)
                    known[label] = made[name] = make_retriever(spec, known)
                    corpora[name], specs[name] = corpus, spec
            logs, again, notes = self._run_all(specs, made, corpora)
            return self._measured(measures, baseline, settings, tests, _Ran(logs, again, notes, made, corpora))
        finally:
            for retriever in made.values():
                for one in everything_in(retriever):
                    if callable(getattr(one, "close", None)):
                        one.close()

    def _run_all(
        self, specs: Mapping[str, Any], made: Mapping[str, Any], corpora: Mapping[str, Corpus]
    ) -> tuple[dict[str, str], list[str], list[str]]:
        """The logs by run, which of them were there already, and what is to be said of the others."""
        logs: dict[str, str] = {}
        again: list[str] = []
        notes: list[str] = []
        unfinished = Unfinished(self.folder)
        identities = {name: identity_of(retriever) for name, retriever in made.items()}  # tells what is missing
        for name, spec in specs.items():
            identity = identities[name]
            facts = self._facts(name, spec, corpora[name], identity)
            path = os.path.join(self.folder, slug(name) + ".jsonl")
            task = Task(
                name,
                made[name],
                corpora[name],
                self.dataset.queries,
                self.k,
                path,
                facts,
                self.workers,
                self.warmup,
                identity.apart,
            )
            whole, why = finished(task)
            if whole and not self.fresh and (identity.lasting or (identity.apart and name in unfinished.names)):
                again.append(name)
            else:
                if why:
                    notes.append(f"{name}: run again, since {why}")
                if (self.fresh or not identity.apart) and os.path.exists(path + PART):
                    os.unlink(path + PART)
                index(made[name], corpora[name], self.store, self._telling(name, "indexing"))
                more = made[name].facts() if hasattr(made[name], "facts") else {}
                run(replace(task, facts={**facts, **more}), self._telling(name, "queries"))
            logs[name] = path
            unfinished.add(name)
        unfinished.done()
        return logs, again, notes

    def _check_chunks(self) -> None:
        gold, corpus = self.dataset.qrels.docs, self.dataset.corpus
        passages = [doc for doc in gold if corpus.parent(doc) != doc] if any(self.chunks) else []
        if passages:
            raise UsageError(
                f"{self.dataset.name}: its gold names passages, such as {shown(passages[0])}, which other chunks do "
                "not have; only gold by document can be used where the corpus is cut anew"
            )

    def _telling(self, name: str, what: str) -> Callable[[int, int], None] | None:
        watch = self.watch
        return None if watch is None else lambda done, total: watch(name, what, done, total)

    def _facts(self, name: str, spec: Any, corpus: Corpus, identity: Identity) -> dict[str, Any]:
        """What is known of a run before it is made: a log is gone on with only where it says the same."""
        written = str(spec) if isinstance(spec, Spec) else called(spec)
        told = {
            "system": name,
            "retriever": written,
            "k_raw": self.k,
            "workers": self.workers,
            "dataset_version": self.dataset.version,
            "code_version": f"{identity.told} (karat {__version__})",
        }
        return told | ({"chunker": dict(corpus.chunker)} if corpus.chunker else {})

    def _measured(
        self, measures: Any, baseline: str | None, settings: Settings, tests: TestOptions, ran: _Ran
    ) -> Benched:
        chosen: list[Any] = list(measures) if measures is not None else self._default_metrics()
        table = self.dataset.table
        if settings.data.queries is None:
            settings = settings.change(queries=table)
        if settings.intervals.by is None and len({f.get(LANGUAGE) for f in table.fields.values()} - {None}) > 1:
            settings = settings.change(by=LANGUAGE)
        runs = {name: read_run(path, name=name) for name, path in ran.logs.items()}
        strange = unknown_ids(runs, ran.corpora)
        notes = [*ran.notes, *remarks(self.dataset, strange, parse_all(chosen), self.k)]
        needs = {need for m in parse_all(chosen) for need in m.needs}
        if needs & {"embeddings", "gold_embeddings"} and settings.data.embeddings is None:
            settings = settings.change(**vectors_for(self.dataset, runs, ran.made, ran.corpora, self.store))
        if "texts" in needs and settings.data.docs is None:
            settings = settings.change(docs=self.dataset.docs)
        if measures is None and (settings.data.embeddings is None or strange):
            chosen = [m for m in chosen if not m.startswith("ild")]
        if (tell := self._telling(self.dataset.name, "comparing")) is not None:
            tell(0, len(ran.logs))
        if len(ran.logs) == 1:
            found = evaluate(self.dataset.gold, runs, chosen, settings=settings)
            return Benched(self.dataset, found, None, ran.logs, ran.again, tuple(notes))
        compared = compare(self.dataset.gold, runs, chosen, baseline=baseline, settings=settings, **tests)
        return Benched(self.dataset, compared.result, compared, ran.logs, ran.again, tuple(notes))

    def _default_metrics(self) -> list[str]:
        k, top = self.k, min(10, self.k)
        deep = [f"recall@{k}"] if k > top else []
        return [
            f"mrr@{k}",
            f"ndcg@{top}",
            f"recall@{top}",
            *deep,
            f"map@{k}",
            f"ild@{top}",
            "latency.p50",
            "latency.p90",
        ]


@dataclass(frozen=True)
class _Ran:
    """What running gave: logs by run, those that were there, what to say, the retrievers and their corpora."""

    logs: Mapping[str, str]
    again: Sequence[str]
    notes: Sequence[str]
    made: Mapping[str, Any]
    corpora: Mapping[str, Corpus]


def index(
    retriever: Any, corpus: Corpus, store: Store | None = None, watch: Callable[[int, int], None] | None = None
) -> None:
    """Let a retriever index a corpus; its parts keep and find what they build in the store."""
    for one in everything_in(retriever):
        if hasattr(one, "store"):
            one.store = store
        if watch is not None and hasattr(one, "watch"):
            one.watch = watch
    if watch is not None:
        watch(0, len(corpus))
    if callable(getattr(retriever, "index", None)):
        retriever.index(corpus)
    if watch is not None:
        watch(len(corpus), len(corpus))
