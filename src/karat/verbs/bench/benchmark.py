"""bench(): datasets × retrievers → run logs (reused, resumed or made again: decided here) → comparison."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack, cast

from karat import __version__
from karat.config.options import Options, Settings, StatedOptions, takes_options
from karat.errors import InputError, UsageError, nearest, shown
from karat.metrics.grammar import CASE_METRICS, TERM_METRICS, Measure, parse_all
from karat.ontology.domains import DOMAIN, with_domains
from karat.read.sources import read_run
from karat.records import dataclass
from karat.results.document import BenchJson, DatasetJson, DocumentJson
from karat.results.figures import estimate_figure
from karat.results.result import FORMAT_VERSION, Result
from karat.results.sampling import split_groups
from karat.results.table import Documented, Table, Tabular
from karat.retrieve.corpus import Corpus, rechunk
from karat.retrieve.protocol import Retriever, everything_in
from karat.retrieve.registry import make_retriever
from karat.retrieve.spec import Spec, parse_spec
from karat.store.built import Store
from karat.store.codec import write_document
from karat.store.lock import folder_lock
from karat.verbs.bench.cases import entries_to_ask
from karat.verbs.bench.dataset import Dataset, datasets_of
from karat.verbs.bench.identity import Identity, identity_of
from karat.verbs.bench.languages import Languages, over_languages
from karat.verbs.bench.runner import PART, LogState, Progress, Task, TaskFacts, inspect_log, run, slug
from karat.verbs.bench.vectors import make_vectors
from karat.verbs.bench.warnings import list_warnings, unknown_ids
from karat.verbs.compare import Comparison, TestOptions, compare, overall_table
from karat.verbs.evaluate import evaluate
from karat.verbs.warn import gives_warnings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from karat.results.remarks import Remark

    Watch = Callable[[str, str, int, int], None]
    """Called with the run, the step (indexing, queries), how much of it is done, and how much there is."""

DEFAULT = ("bm25", "dense", "hybrid(bm25, dense)")
LANGUAGE = "language"
SEGMENTS = ("category", "difficulty", DOMAIN)
"""What cases are sliced by, where nothing else is asked for; a file of cases is in one language."""
OF_COMPARE = frozenset(TestOptions.__annotations__)
Chunks = tuple[int, int] | None
"""Words of a passage and of the overlap; None leaves the corpus as it is."""


class BenchOptions(StatedOptions, TestOptions, total=False):
    """The keyword arguments of `bench` that `evaluate` and `compare` have too."""


@dataclass(frozen=True)
class DatasetBench(Tabular):
    """What was found on one dataset: the result, the comparison where there was one, and the logs by run."""

    dataset: Dataset
    result: Result
    comparison: Comparison | None
    logs: Mapping[str, str]
    reused: Sequence[str] = ()
    """Runs whose logs were there already and whole."""
    own_notes: Sequence[str] = ()
    """What was rerun and replaced, and what to know of the data."""

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What every output says of the data behind the figures."""
        return self.result.remarks

    def table(self) -> Table:
        """Values of the runs, as those of a result; below, what differs from the baseline."""
        return replace(self.result.table(), notes=self.notes, more=self.compared())

    def compared(self, title: str = "") -> tuple[Table, ...]:
        """What differs from the baseline; nothing where there is one run."""
        return overall_table(self.comparison.rows, title=title) if self.comparison is not None else ()

    def __repr__(self) -> str:
        return f"DatasetBench({self.dataset.name}: {', '.join(run.name for run in self.result)})"

    @property
    def document(self) -> Result | Comparison:
        """What is saved and reported."""
        return self.comparison if self.comparison is not None else self.result


@dataclass(frozen=True)
class Bench(Documented):
    """A benchmark: a part for each dataset, and how systems do over languages."""

    parts: tuple[DatasetBench, ...]
    facts: BenchJson
    over_languages: tuple[Languages, ...] = ()
    """Systems by language, a table for each metric; the primary one comes first."""

    def __getitem__(self, name: str) -> DatasetBench:
        for part in self.parts:
            if part.dataset.name == name:
                return part
        raise UsageError(f"no dataset {name!r}; there are: {', '.join(p.dataset.name for p in self.parts)}")

    @property
    def languages(self) -> Languages | None:
        """Systems by language, by the primary metric; None where there is one language."""
        return next(iter(self.over_languages), None)

    @property
    def result(self) -> Result:
        """The result, where there is one dataset."""
        return self.only.result

    @property
    def only(self) -> DatasetBench:
        """The part, where there is one dataset."""
        if len(self.parts) != 1:
            raise UsageError(f"{len(self.parts)} datasets were run; choose one: bench['{self.parts[0].dataset.name}']")
        return self.parts[0]

    @property
    def notes(self) -> tuple[str, ...]:
        """What the command line prints of each dataset, after its name."""
        return tuple(f"{part.dataset.name}: {text}" for part in self.parts for text in part.notes)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The notes on data that may make the figures misleading; each is a `karat.KaratWarning` too."""
        return tuple(f"{part.dataset.name}: {text}" for part in self.parts for text in part.warnings)

    def __repr__(self) -> str:
        parts = (f"{p.dataset.name}: {', '.join(run.name for run in p.result)}" for p in self.parts)
        return f"Bench({'; '.join(parts)})"

    def table(self) -> Table:
        """A row for each dataset, system and metric; a reader sees one for each system, and what differs."""
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
        more = tuple(table for p in self.parts for table in p.compared(p.dataset.name))
        return Table(columns, rows, ("dataset", "run", *metrics), cells, notes=self.notes, more=more)

    def document(self) -> DocumentJson:
        """The document that `--json` writes."""
        from msgspec import UNSET

        return DocumentJson(
            format_version=FORMAT_VERSION,
            kind="bench",
            bench=self.facts,
            datasets=[
                DatasetJson(p.dataset.name, p.dataset.version, dict(p.logs), list(p.own_notes), p.document.document())
                for p in self.parts
            ],
            languages=self.languages.document() if self.languages is not None else UNSET,
            languages_secondary=[table.document() for table in self.over_languages[1:]] or UNSET,
        )

    def save(self, path: str) -> None:
        """Write the full result of one dataset, from which reports and checks are made."""
        self.only.document.save(path)

    def write(self, path: str) -> None:
        """Write what `as_json` gives."""
        write_document(self.document(), path)


@gives_warnings
@takes_options
def bench(
    dataset: Any = None,
    retrievers: Sequence[object] | Mapping[str, object] | str | None = None,
    metrics: str | Iterable[str | Measure] | None = None,
    *,
    cases: Any = None,
    labels: Any = None,
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
    every retriever on each. `cases` are case files, or folders of them: retrievers search labels and synonyms of the
    terms of `ontology` (HPO by default), and runs hold terms, each at the rank of its best entry. With `labels`, files
    of babelon or of a text for each id, they search those in the language of the cases instead. The keyword arguments
    of `compare` for tests (`tests`, `alpha`, `margin`…) are taken too.
    """
    for name, number, least in (("k", k, 1), ("workers", workers, 1), ("warmup", warmup, 0)):
        if not isinstance(number, int) or isinstance(number, bool) or number < least:
            raise UsageError(f"{name} must be an integer from {least}, found {number!r}")
    tests = cast("TestOptions", {name: value for name, value in options.items() if name in OF_COMPARE})
    own = {name: value for name, value in options.items() if name not in OF_COMPARE}
    settings = Settings.of(cast("Options", {**own, "details": True}))
    specs = _specs(DEFAULT if retrievers is None else retrievers)
    if labels is not None and cases is None:
        raise UsageError("labels are for benchmarks of cases; name the case files too (cases=, --cases)")
    datasets = datasets_of(dataset, split) if dataset is not None or cases is None else ()
    if cases is not None:
        from karat.ontology.load import HPO
        from karat.verbs.bench.cases import case_datasets

        files, translations = (
            [each] if isinstance(each, (str, os.PathLike)) else each or () for each in (cases, labels)
        )
        datasets = (*datasets, *case_datasets(files, settings.data.ontology or HPO, translations))
    names = _names(specs, chunks)
    if baseline is not None and baseline not in names:
        near = nearest(baseline, names)
        raise UsageError(
            f"no run {baseline!r} to compare with"
            + (f" (did you mean {near!r}?)" if near else "")
            + f"; there will be: {', '.join(names)}"
        )
    measures = None if metrics is None else parse_all(metrics, like=settings.like)
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
        parts.append(job.run(measures, baseline, settings, tests))
    return Bench(tuple(parts), BenchJson(k, workers, warmup, __version__), over_languages(parts))


def _specs(sources: object) -> dict[str, object]:
    """By name: a spec, or an object that is a retriever."""
    each = sources if isinstance(sources, (dict, list, tuple)) else [sources]
    out: dict[str, object] = {}
    for name, one in each.items() if isinstance(each, dict) else ((None, one) for one in each):
        spec = parse_spec(one) if isinstance(one, (str, dict, Spec)) else one
        label = name or (spec.name if isinstance(spec, Spec) else name_of(spec))
        if label in out:
            raise UsageError(f"two retrievers are called {label!r}; give one a name: NAME={label}")
        out[label] = spec
    if not out:
        raise UsageError("no retriever; name one, such as bm25")
    files = [slug(label) for label in out]
    if twice := next((f for f in files if files.count(f) > 1), None):
        raise UsageError(f"two retrievers would write {twice}.jsonl; give one a name: NAME=…")
    return out


def name_of(one: object) -> str:
    """The name of an object that the caller did not name."""
    return str(getattr(one, "name", "") or getattr(one, "__name__", "") or type(one).__name__)


def _names(specs: Iterable[str], chunks: Sequence[Chunks]) -> list[str]:
    return [_name(label, chunk) for chunk in chunks or (None,) for label in specs]


def _name(label: str, chunk: Chunks) -> str:
    return label if chunk is None else f"{label} {chunk[0]}:{chunk[1]}"


@dataclass
class _Job:
    """One dataset, with everything that was asked for."""

    dataset: Dataset
    specs: Mapping[str, object]
    k: int
    folder: str
    chunks: tuple[Chunks, ...]
    workers: int
    warmup: int
    store: Store | None
    fresh: bool
    watch: Watch | None

    def run(
        self, measures: Sequence[Measure] | None, baseline: str | None, settings: Settings, tests: TestOptions
    ) -> DatasetBench:
        """Run everything, then evaluate and compare."""
        self._check_chunks()
        retrievers: dict[str, Retriever] = {}
        corpora: dict[str, Corpus] = {}
        specs: dict[str, object] = {}
        try:
            for chunk in self.chunks or (None,):  # all are made before any runs, so that mistakes are reported first
                corpus = self.dataset.corpus if chunk is None else rechunk(self.dataset.corpus, *chunk)
                others: dict[str, Retriever] = {}
                for label, spec in self.specs.items():
                    name = _name(label, chunk)
                    others[label] = retrievers[name] = make_retriever(spec, others)
                    corpora[name], specs[name] = corpus, spec
            with folder_lock(self.folder, "benchmark", "choose another folder with --out"):
                runs = self._run_all(specs, retrievers, corpora)
                return self._evaluate(measures, baseline, settings, tests, runs)
        finally:
            for retriever in retrievers.values():
                for one in everything_in(retriever):
                    if callable(getattr(one, "close", None)):
                        one.close()

    def _run_all(
        self, specs: Mapping[str, object], retrievers: Mapping[str, Retriever], corpora: Mapping[str, Corpus]
    ) -> _Runs:
        """Make the log of every run, but for those that are complete already."""
        identities = {name: identity_of(retriever) for name, retriever in retrievers.items()}
        tasks = {
            name: Task(
                name,
                retrievers[name],
                corpora[name],
                self.dataset.queries,
                self.k,
                os.path.join(self.folder, slug(name) + ".jsonl"),
                self._facts(name, spec, corpora[name], identities[name]),
                self.workers,
                self.warmup,
                identities[name].complete,
                entries_to_ask(corpora[name], self.k) if self.dataset.entries else None,
            )
            for name, spec in specs.items()
        }
        states = {name: self._inspect(task) for name, task in tasks.items()}  # all, before any of them is replaced
        progress = Progress(self.folder)
        reused: list[str] = []
        notes: list[str] = []
        for name, task in tasks.items():
            identity, state = identities[name], states[name]
            lasting = identity.lasting or (identity.complete and name in progress.names)
            if state.complete and lasting and not self.fresh:
                reused.append(name)
            else:
                if state.other:
                    notes.append(f"{name}: replaces the run of {state.other} in {task.path}")
                elif state.change:
                    notes.append(f"{name}: rerun because {state.change}")
                if (self.fresh or not identity.complete) and os.path.exists(task.path + PART):
                    os.unlink(task.path + PART)
                index(task.retriever, task.corpus, self.store, self._watcher(name, "indexing"))
                more = task.retriever.facts() if hasattr(task.retriever, "facts") else {}
                run(replace(task, facts={**task.facts, **more}), self._watcher(name, "queries"))
            progress.add(name)
        progress.end()
        return _Runs({name: task.path for name, task in tasks.items()}, reused, notes, retrievers, corpora)

    def _inspect(self, task: Task) -> LogState:
        """The state of a log; that of another retriever is replaced only if the caller says so."""
        state = inspect_log(task)
        if state.other and not self.fresh:
            raise InputError(
                f"{task.path}: holds the run of another retriever ({state.other}; this one is "
                f"{task.facts['retriever']}), so it is not replaced; give this one another name, choose another folder "
                "with --out, or replace it with --fresh"
            )
        return state

    def _check_chunks(self) -> None:
        gold, corpus = self.dataset.qrels.docs, self.dataset.corpus
        passages = [doc for doc in gold if corpus.parent(doc) != doc] if any(self.chunks) else []
        if passages:
            raise UsageError(
                f"{self.dataset.name}: its gold names passages ({shown(passages[0])}), which other chunks do "
                "not have; to cut the corpus into other chunks, use gold by document"
            )

    def _watcher(self, name: str, what: str) -> Callable[[int, int], None] | None:
        watch = self.watch
        return None if watch is None else lambda count, total: watch(name, what, count, total)

    def _facts(self, name: str, spec: object, corpus: Corpus, identity: Identity) -> TaskFacts:
        """What is known of a run before it starts: a log is resumed only if it has the same facts."""
        facts: TaskFacts = {
            "system": name,
            "retriever": str(spec) if isinstance(spec, Spec) else name_of(spec),
            "k_raw": self.k,
            "workers": self.workers,
            "dataset_version": self.dataset.version,
            "code_version": f"{identity.digest} (karat {__version__})",
        }
        return facts if corpus.chunker is None else {**facts, "chunker": corpus.chunker}

    def _evaluate(
        self,
        measures: Sequence[Measure] | None,
        baseline: str | None,
        settings: Settings,
        tests: TestOptions,
        runs: _Runs,
    ) -> DatasetBench:
        metrics = measures if measures is not None else parse_all(self._default_metrics(), like=settings.like)
        table = self.dataset.table
        if self.dataset.entries:
            table = with_domains(table, self.dataset.qrels, self.dataset.ontology)
        if settings.data.queries is None:
            settings = settings.change(queries=table)
        by = settings.intervals.by
        if self.dataset.entries:
            if by is None:
                settings = settings.change(by=[name for name in SEGMENTS if len(set(table.field(name).values())) > 1])
        elif len({f.get(LANGUAGE) for f in table.fields.values()} - {None}) > 1:
            settings = settings.change(by=list(dict.fromkeys((*split_groups(by), (LANGUAGE,)))))
        if settings.data.ontology is None:
            settings = settings.change(ontology=self.dataset.ontology)
        logs = {name: read_run(path, name=name) for name, path in runs.logs.items()}
        unknown = {} if self.dataset.entries else unknown_ids(logs, runs.corpora)
        notes = [*runs.notes, *list_warnings(self.dataset, unknown, metrics, self.k, settings.data.ontology)]
        needs = {need for m in metrics for need in m.needs}
        if needs & {"embeddings", "gold_embeddings"} and settings.data.embeddings is None:
            settings = settings.change(**make_vectors(self.dataset, logs, runs.retrievers, runs.corpora, self.store))
        if "texts" in needs and settings.data.docs is None:
            settings = settings.change(docs=self.dataset.docs)
        if measures is None and (settings.data.embeddings is None or unknown):
            metrics = [m for m in metrics if m.metric.name != "ild"]
        if (watch := self._watcher(self.dataset.name, "comparing")) is not None:
            watch(0, len(logs))
        if len(logs) == 1:
            result = evaluate(self.dataset.gold, logs, metrics, settings=settings)
            return DatasetBench(self.dataset, result, None, runs.logs, runs.reused, tuple(notes))
        comparison = compare(self.dataset.gold, logs, metrics, baseline=baseline, settings=settings, **tests)
        return DatasetBench(self.dataset, comparison.result, comparison, runs.logs, runs.reused, tuple(notes))

    def _default_metrics(self) -> list[str]:
        if self.dataset.entries:
            return [*CASE_METRICS, *TERM_METRICS, "latency.p50", "latency.p90"]
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
class _Runs:
    """The logs by run, the names of those that were reused, notes for the reader, and retrievers and corpora by run."""

    logs: Mapping[str, str]
    reused: Sequence[str]
    notes: Sequence[str]
    retrievers: Mapping[str, Retriever]
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
