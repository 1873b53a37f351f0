"""How good: runs × gold × metrics → a result."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

from karat.align import align, find, find_queries
from karat.align.gold import unjudged_queries
from karat.align.hits import Aligned, without_judgments
from karat.align.mismatch import check_common_queries, describe_mismatch
from karat.align.stream import default_threads
from karat.config.options import Data, Options, Settings, takes_options
from karat.errors import InputError, UsageError, path_text, shown
from karat.metrics.grammar import CASE_METRICS, DEFAULT_METRICS, TERM_METRICS, Measure, parse_all
from karat.metrics.registry import GOLD_ALONE
from karat.model.policy import Policy, is_relevant
from karat.model.run import RemoteRows, Run, Table
from karat.read.files import is_packed, is_repeatable
from karat.read.frames import is_frame, is_spark_frame
from karat.read.queries import read_queries_of_gold
from karat.read.sources import describe_repeats, read_run, run_files
from karat.read.textfile import TextFile
from karat.results.asked import find_idle
from karat.results.figures import change_of, change_text
from karat.results.gold import Gold
from karat.results.pairing import follows_lists, have_same_rankings
from karat.results.remarks import CASES
from karat.results.result import Result, RunResult
from karat.results.sampling import Sampling, refuse_undated, refuse_weightless, sampling
from karat.results.top_lists import DEPTH, build_top_lists, find_gold_ranks
from karat.results.values import measure_rankings
from karat.store.cache import Cache, Entry, StoredRun
from karat.verbs.data_notes import find_unmatched, note_lacking, note_marked_with_gold, note_measures
from karat.verbs.log_metrics import describe_routes, log_panel
from karat.verbs.remote import fetch_tables, keeps_some_lists, open_source, plans_of_log, session_of
from karat.verbs.warn import gives_warnings

if TYPE_CHECKING:
    from karat.align.needs import Needs
    from karat.judge.by_judge import JudgeGrades
    from karat.model.docs import Docs
    from karat.model.engine import Watch
    from karat.model.queries import Queries
    from karat.ontology.terms import Ontology


@gives_warnings
@takes_options
def evaluate(
    qrels: Any,
    run: Any,
    metrics: str | Iterable[str | Measure] | None = None,
    *,
    ks: Sequence[int] | None = None,
    **options: Unpack[Options],
) -> Result:
    """Score one run, or several, against gold.

    `qrels` and `run` are each a path, a dict, a data frame, or a `karat.Qrels` / `karat.Run`; several
    runs are a dict of names to any of these, or a list of paths. Without `metrics` the default ones
    are computed. Without gold (`qrels` is None) runs are evaluated by what they say themselves: latency, cost, distinct
    docs, empty results, routes. Every metric has an interval (`result.ci`), computed when it is first asked for. The
    fields `weight`
    and `conversation` of `queries` are honoured. Some metrics need `embeddings` of the docs (a .npy matrix with its
    ids beside it, .npz, Parquet or a dict) or their texts (`docs`).
    """
    settings = Settings.of(options)
    session = session_of(settings.engine.engine, qrels, run)
    brought = ""
    if session is not None:
        from karat.verbs.summed import evaluate_by_sums

        chosen = list(metrics) if metrics is not None and not isinstance(metrics, str) else metrics
        whole, brought = evaluate_by_sums(session, qrels, named_runs(run), chosen, ks, settings, evaluate)
        if whole is not None:
            return whole
        metrics = chosen
        settings, qrels = fetch_tables(session, settings, qrels)
    data = settings.data
    cases = read_queries_of_gold(qrels, data.qrels_format)
    table = _table(data.queries) if data.queries is not None else cases
    ontology = _ontology(data.ontology) if data.ontology is not None else None
    job = _Job(qrels, settings, table, ontology, of_terms=cases is not None)
    job.session = session
    if cases is not None and ontology is not None and table is not None:
        from karat.ontology.domains import with_domains

        assert job.gold is not None
        table = job.queries = with_domains(table, job.gold.qrels, ontology)
    sources = named_runs(run)
    if brought:
        job.notes = (*job.notes, brought)
    if table is not None and table.written:
        if job.gold is None:
            sources = [(name, job.read(name, source)) for name, source in sources]
            named = [find_queries(source, settings.policy)[0] for _, source in sources]
        else:
            named = [job.gold.qrels]
        table = job.queries = table.with_ids_of(q for queries in named for q in queries.query_ids)
    if _are_files(run) and (repeats := describe_repeats([os.fspath(r) for r in run])) is not None:
        job.notes = (*job.notes, repeats)
    if qrels is None and metrics is None:
        from karat.verbs.log_metrics import default_log_metrics

        sources = [(name, job.read(name, source)) for name, source in sources]
        metrics = default_log_metrics([source for _, source in sources], table, ks)
    if metrics is None:
        names = (*(DEFAULT_METRICS if cases is None else CASE_METRICS), *(TERM_METRICS if data.ontology else ()))
        metrics = _default_metrics(names, ks, [source for _, source in sources] if settings.like is None else ())
    measures = parse_all(metrics, ks, settings.like)
    if ks and not {m.k for m in measures} & set(ks):
        job.notes = (*job.notes, "ks is not used: every metric has a cutoff of its own, or takes none")
    job.notes = (*job.notes, *note_marked_with_gold(job.gold, job.queries))
    job.needs_gold = any("gold" in m.needs for m in measures)
    if qrels is None:
        _check_needs_no_gold(measures)
    docs_table = _docs(data.docs, settings.policy) if data.docs is not None else None
    if docs_table is not None:
        job.parents, job.corpus = docs_table.parents, docs_table.fields.keys()
        unmatched = find_unmatched(job.gold.qrels, docs_table, ontology) if job.gold is not None else None
        job.notes = (*job.notes, *([unmatched.note] if unmatched else []))
        job.mismatches = (unmatched.note,) if unmatched is not None and unmatched.most else ()
    if cases is not None:
        job.counts = {CASES: len(cases)}
    if any(m.needs != GOLD_ALONE for m in measures):
        from karat.align.needs import Needs

        job.needs = Needs.of(
            measures,
            table,
            settings.policy,
            embeddings=data.embeddings,
            model=data.embedding_model,
            docs=docs_table,
            ontology=ontology,
        )
    job.sampling = sampling(table, settings.intervals, docs=docs_table, relevant=job.relevant)
    grading = _grading(data, job.gold)
    if grading is not None:
        job.notes = (*job.notes, *grading.notes)
    if grading is None:
        runs = [job.run(name, source, measures) for name, source in sources]
    else:
        read = [(name, job.read(name, source)) for name, source in sources]
        runs = job.judge([job.run(name, source, measures) for name, source in read], read, measures, grading)
        sources = list(read)
    runs = job.with_digests(runs, sources, measures)
    if table is not None:
        query_ids = dict.fromkeys(q for run in runs for q in run.query_ids)
        _check_table(table, query_ids)
        refuse_weightless(table, query_ids, job.sampling.weights)
        if job.sampling.added is not None:
            refuse_undated(table, query_ids, job.sampling.added)
    conventions = settings.conventions()
    if job.models:
        conventions["embedding_model"] = next(iter(job.models.values()))
    terms = job.needs.terms if job.needs is not None else None
    if ontology is not None:
        conventions["ontology"] = ontology.release
    corpus = os.fspath(data.docs) if isinstance(data.docs, (str, os.PathLike)) else None
    return Result(
        tuple(runs),
        conventions,
        table,
        corpus,
        job.models,
        terms.basis if terms is not None else {},
        grading.identity if grading is not None else None,
    )


def _grading(data: Data, gold: Gold | None) -> JudgeGrades | None:
    """The judge of what the gold lacks, where judgments are named."""
    if not data.judgments:
        if lone := next((name for name in ("calibration", "judge") if getattr(data, name) is not None), None):
            raise UsageError(f"{lone} is about a judge; name what it judged too: --judgments FILE")
        return None
    if gold is None:
        raise UsageError(
            "judgments complete gold, and there is none; a file of judgments by one judge is gold as it is"
        )
    from karat.judge.by_judge import read_grading

    paths = data.judgments if isinstance(data.judgments, (list, tuple)) else [data.judgments]
    source = os.fspath(gold.source) if isinstance(gold.source, (str, os.PathLike)) else None
    return read_grading(
        [path_text(path, "judgments") for path in paths],
        judge=data.judge,
        calibration=data.calibration,
        gold=source if source is not None and os.path.exists(source) else None,
    )


def _check_table(table: Queries, query_ids: Collection[str]) -> None:
    """Refuse a table of queries that knows none of those evaluated: weights and segments would vanish unseen."""
    if query_ids and len(table) and not table.no_answer and not any(q in table.fields for q in query_ids):
        none = "its only query was not" if len(table) == 1 else f"none of its {len(table):,} queries was"
        raise InputError(
            f"{table.source}: {none} evaluated: it has ids such as "
            f"{shown(next(iter(table.fields)))}, gold and runs have ids such as {shown(next(iter(query_ids)))}; "
            "name the table of these queries"
        )


def _default_metrics(names: Sequence[str], ks: Sequence[int] | None, runs: Sequence[Any]) -> Iterable[str]:
    """The metrics where none is named; with cutoffs of the caller's own, the same ones without theirs."""
    if ks is not None:
        names = list(dict.fromkeys(replace(m, k=None).name for m in parse_all(names)))
    return [*names, *log_panel(runs, ks)]


def _check_needs_no_gold(measures: Sequence[Measure]) -> None:
    """Refuse metrics of relevance where there is no gold."""
    if wrong := [m.name for m in measures if "gold" in m.needs]:
        verb = "needs" if len(wrong) == 1 else "need"
        raise InputError(
            f"{', '.join(wrong)} {verb} gold, and there is none; name the gold too, or choose metrics of what a run "
            "says itself, such as latency.p50, cost.tokens, distinct_docs@10 or empty_results"
        )


def _table(queries: Any) -> Queries:
    from karat.read.queries import read_queries

    return read_queries(queries)


def _ontology(source: Any) -> Ontology:
    from karat.ontology.load import open_ontology

    return open_ontology(source)


def _docs(docs: Any, policy: Policy) -> Docs:
    from karat.read.docs import read_docs

    return read_docs(docs, separator=policy.separator)


def named_runs(run: Any) -> list[tuple[str | None, Any]]:
    """The runs by name; None stands for the name that a single run brings itself."""
    if _are_files(run):
        return list(run_files([os.fspath(r) for r in run]).items())
    if isinstance(run, str) and run != "-" and not os.path.exists(run) and any(c in run for c in "*?["):
        return list(run_files([run]).items())
    if isinstance(run, Mapping) and _holds_runs(run):
        return [(str(name), source) for name, source in run.items()]
    return [(None, run)]


def _are_files(run: Any) -> bool:
    """Whether it is a list of paths and patterns."""
    return isinstance(run, (list, tuple)) and len(run) > 0 and all(isinstance(r, (str, os.PathLike)) for r in run)


def _holds_runs(data: Mapping[Any, Any]) -> bool:
    """Whether a mapping is of runs by name rather than one run by query."""
    for value in data.values():
        if isinstance(value, (str, os.PathLike, Run)) or is_spark_frame(value) or is_frame(value):
            return True
        if not isinstance(value, Mapping):
            return False
        if "ids" in value:
            from karat.read.chroma import is_batch

            # a result of Chroma: of one query, or a whole run
            return is_batch(value) and len(value["ids"]) > 1
        inner = next(iter(value.values()), None)
        if inner is not None:
            return isinstance(inner, (Mapping, list, tuple))
    return False


class _Job:
    """The gold and the choices that all runs share; the gold is read when it is first needed."""

    def __init__(
        self, qrels: Any, settings: Settings, queries: Queries | None, ontology: Ontology | None, *, of_terms: bool
    ) -> None:
        self.settings, self.queries, self.ontology = settings, queries, ontology
        self.of_terms = of_terms or ontology is not None
        """Whether gold and runs name terms, which may have several entries."""
        self.policy, self.engine = settings.policy, settings.engine
        data = settings.data
        choices = (data.qrels_format, data.subtopics, self.policy, ontology)
        self.gold = Gold(qrels, *choices) if qrels is not None else None
        self.cache = Cache() if self.engine.cache and not self.engine.details else None
        self.session: Any = None
        """Of the cluster that holds the runs, where one does."""
        self.sampling = Sampling()
        self.needs: Needs | None = None
        self.needs_gold = True
        """Whether some metric looks at judgments."""
        self.parents: Mapping[str, str] = {}
        self.corpus: Collection[str] = ()
        """The ids of all docs, where a corpus names them."""
        self.notes: tuple[str, ...] = ()
        self.mismatches: tuple[str, ...] = ()
        """Those of the notes that say why gold and corpus may not belong together."""
        self.counts: Mapping[str, int] = {}
        """What is counted beside what every run has."""

    @property
    def models(self) -> dict[str, str]:
        """The model of the embeddings that each metric looks at, for those that do."""
        return self.needs.models if self.needs is not None else {}

    def relevant(self) -> dict[str, list[str]]:
        """The relevant docs of each query."""
        if self.gold is None:
            raise UsageError("segments by a field of the gold's docs need gold, and there is none; name the gold too")
        qrels = self.gold.qrels
        judged = (qrels.for_query(q) for q in qrels.query_ids)
        return {
            q: [d for d, g in graded.items() if is_relevant(g)]
            for q, graded in zip(qrels.query_ids, judged, strict=True)
        }

    def run(self, name: str | None, source: Any, measures: list[Measure]) -> RunResult:
        """One run's result, from the cache where its files are unchanged."""
        entry = self._entry(source)
        logged = run = aligned = None
        stored = entry.load() if entry is not None else None
        if stored is None:
            logged = self.read(name, source)
            run, aligned, stored = self._align(logged, source, entry, self.policy)
        rankings = stored.rankings
        query_ids, values = measure_rankings(measures, rankings)
        notes = [*self.notes, *stored.notes, *note_lacking(self.queries, query_ids, self.sampling.weights)]
        notes += note_measures(measures, values, rankings, self.queries, self.gold, self.needs, self.policy.stage)
        details = aligned if self.engine.details else None
        if details is not None and run is not None and keeps_some_lists(run.content, self.gold):
            from karat.cluster.kept_lists import keep_some

            details, note = keep_some(details, run, run.content, self.policy, values, DEPTH)
            notes.append(note)
        result = RunResult(
            name or stored.name,
            query_ids,
            values,
            {**stored.counts, **self.counts},
            stored.facts,
            tuple(notes),
            self.sampling,
            self.policy,
            stored.gold_level,
            self.gold,
            rankings,
            find_gold_ranks(details) if details is not None and self.gold is not None else None,
            build_top_lists(details) if details is not None else None,
            run.log if run is not None and self.engine.details else None,
            threads=self.engine.threads or default_threads(),
            mismatches=(*stored.mismatches, *self.mismatches),
            idle={m.name: idle for m in measures if (idle := find_idle(m, rankings))},
        )
        if self.policy.as_of_filter and logged is not None:
            made = self._made_by_filter(logged, measures, result)
            result = replace(result, data_notes=(*result.data_notes, *made))
        return result

    def with_digests(
        self, runs: Sequence[RunResult], sources: Sequence[tuple[str | None, Any]], measures: Sequence[Measure]
    ) -> list[RunResult]:
        """The runs with digests of their ranked lists, where another run has its judged docs at the same ranks.

        Reading lists costs more than reading judged docs alone, so it is done only where lists may be identical.
        """
        followed = [m for m in measures if follows_lists(m)]
        if self.engine.details or self.gold is None or not followed:
            return list(runs)
        other = copy(self)
        other.engine, other.cache, other.needs = replace(self.engine, details=True, watch=None), None, None
        out = []
        for run, (_, source) in zip(runs, sources, strict=True):
            alike = any(one is not run and have_same_rankings(one, run) for one in runs)
            known = alike and is_repeatable(source)
            digest = other.run(run.name, source, followed[:1]).ranked_lists if known else None
            out.append(replace(run, lists_digest=digest))
        return out

    def judge(
        self,
        runs: Sequence[RunResult],
        sources: Sequence[tuple[str | None, Run]],
        measures: Sequence[Measure],
        grading: JudgeGrades,
    ) -> list[RunResult]:
        """The same runs with what a judge's grades make of them: each is aligned again with the completed gold."""
        from karat.judge.by_judge import complete, measure_by_judge
        from karat.judge.completed_gold import rank_unanswerable
        from karat.judge.whole_queries import RankingsByPeople, complete_by_people

        assert self.gold is not None
        no_answer = self.needs.pipeline.no_answer if self.needs is not None else ()
        completed = complete(self.gold.qrels, grading, self.policy, no_answer=no_answer)
        by_people = complete_by_people(self.gold.qrels, grading.rows, grading.whole, self.policy, no_answer=no_answer)
        other = copy(self)
        other.gold, other.needs = Gold(completed.qrels), None
        third = copy(other)
        out = []
        for run, (_, source) in zip(runs, sources, strict=True):
            assert run.rankings is not None
            own, aligned, _ = other._align(source, source, None, self.policy)
            people = None
            if by_people is not None:
                third.gold = Gold(by_people.qrels)
                own, again, _ = third._align(source, source, None, self.policy)
                empty = rank_unanswerable(by_people, own, self.policy, no_answer)
                people = RankingsByPeople(again.rankings, empty.both if empty is not None else None)
            by_judge = measure_by_judge(
                measures,
                run.rankings,
                run.query_ids,
                aligned,
                completed,
                grading,
                self.sampling,
                self.policy,
                rank_unanswerable(completed, own, self.policy, no_answer),
                people,
            )
            out.append(replace(run, by_judge=by_judge, completed_gold=other.gold))
        return out

    def _entry(self, source: Any) -> Entry | None:
        beyond = self.policy.as_of_filter or self.needs is not None or self.corpus
        if self.cache is None or self.gold is None or self.session is not None or beyond:
            return None  # an entry holds judged docs alone, found with nothing but the gold and the run
        unanswerable = self.queries and sorted(self.queries.no_answer)
        release = self.ontology.fingerprint if self.ontology is not None else None
        data, order = self.settings.data, list(self.queries.fields) if self.queries else None
        choices = [
            self.policy,
            self.gold.format,
            data.run_format,
            unanswerable,
            data.subtopics,
            release,
            self.of_terms,
            order,
        ]
        return self.cache.entry(self.gold.source, source, choices)

    def read(self, name: str | None, source: Any, policy: Policy | None = None) -> Run:
        """A run as a policy chooses its lists."""
        return read_run(
            open_source(self.session, source, name, self.settings, policy or self.policy),
            name=name,
            format=self.settings.data.run_format,
            policy=policy or self.policy,
            as_of=self._as_of,
            with_days=self.needs is not None and "doc_version" in self.needs.parts,
            queries=self.queries,
            log_parts=self.log_parts,
        )

    @property
    def log_parts(self) -> Collection[str] | None:
        """What matters of run logs beside final lists in which every doc counts, by its place; None for all of it."""
        policy, data = self.policy, self.settings.data
        by_place = not policy.selects and not policy.as_of_filter and policy.stage is None
        beyond = self.of_terms or self.engine.details or self.parents or data.judgments
        if self.gold is None or not by_place or policy.duplicates != "first" or beyond:
            return None
        return self.needs.log_parts if self.needs is not None else ()

    def _align(self, run: Run, source: Any, entry: Entry | None, chosen: Policy) -> tuple[Run, Aligned, StoredRun]:
        """The run as it was aligned, of terms with each once; its rankings, and what else is kept of it."""
        needs, engine = self.needs, self.engine
        if self.parents or run.parents:
            run = replace(run, parents=self.parents)
        remote = run.content if isinstance(run.content, RemoteRows) else None
        if remote is not None and (self.of_terms or run.entries):
            run = replace(run, content=Table(remote.bring()))
        counts: dict[str, int] = {}
        if self.of_terms or run.entries:
            from karat.align.term_ids import run_of_terms

            judgments = self.gold.qrels if self.gold is not None else None
            terms = run_of_terms(run, chosen, gold=judgments, ontology=self.ontology)
            run, counts = terms.run, {**(self.gold.term_counts if self.gold is not None else {}), **terms.counts}
        if self.gold is None:
            gold, chosen = find_queries(run, chosen, threads=engine.threads, memory=engine.memory_bytes)
        else:
            gold = self.gold.qrels  # read before the next step: what is wrong with it is the better news
            _check_not_gold(source, self.gold.source)
        if needs is not None:
            from karat.align.needs import check_gold, check_run

            check_gold(gold, needs)
            check_run(run, needs, chosen)
        aligned, notes = align(
            gold,
            _watched(run, entry, engine.watch, engine.batch),
            chosen,
            no_answer=self.queries.no_answer if self.queries and self.gold is not None else (),
            threads=engine.threads,
            memory=engine.memory_bytes,
            keep_items=max(
                DEPTH if engine.details and not keeps_some_lists(remote, self.gold) else 0, needs.depth if needs else 0
            ),
        )
        if self.gold is None:
            aligned = without_judgments(aligned, no_answer=self.queries.no_answer if self.queries else ())
            notes = (*notes, *describe_routes(run))
        if needs is not None:
            from karat.align.needs import note_cut_ids, with_parts

            notes = (*notes, *note_cut_ids(gold, run, aligned.hits, needs, chosen))
            others = None
            if needs.over_whole_run and aligned.hits.without_gold:
                unjudged = unjudged_queries(aligned.hits.without_gold)
                how = replace(chosen.without_gold(), level="chunk")
                others, _ = find(
                    unjudged, run, how, threads=engine.threads, memory=engine.memory_bytes, keep_items=needs.depth
                )
            aligned = replace(aligned, rankings=with_parts(aligned, run, needs, chosen, others=others))
        hits = aligned.hits
        mismatches: tuple[str, ...] = ()
        if self.gold is not None:
            if self.needs_gold:
                where = self.gold.source
                check_common_queries(
                    gold,
                    run,
                    hits,
                    gold=os.fspath(where) if isinstance(where, (str, os.PathLike)) else "the gold",
                    no_answer=self.queries.no_answer if self.queries else (),
                )
            mismatches = describe_mismatch(gold, run, hits, chosen, corpus=self.corpus)
        plans = remote.plans if remote is not None else plans_of_log(self.session, run)
        notes = (*gold.notes, *mismatches, *notes, *plans)
        counts = {**aligned.counts, **counts}
        stored = StoredRun(aligned.rankings, run.name, counts, run.facts, notes, mismatches, hits.gold_level)
        if entry is not None:
            entry.store(stored)
        return run, aligned, stored

    @cached_property
    def _as_of(self) -> Mapping[str, float]:
        """The day of each query's as_of, where newer docs are dropped."""
        if not self.policy.as_of_filter or self.queries is None:
            return {}
        from karat.read.query_fields import day_field

        return day_field(self.queries, "as_of")

    def _made_by_filter(self, run: Run, measures: list[Measure], filtered: RunResult) -> list[str]:
        """What dropping items that are too new does to each metric."""
        without_filter = replace(self.policy, as_of_filter=False)
        _, aligned, _ = self._align(self.read(None, run, without_filter), run, None, without_filter)
        query_ids, values = measure_rankings(measures, aligned.rankings)
        unfiltered = replace(filtered, query_ids=query_ids, values=values)
        notes = []
        for name in values:
            before, after = unfiltered.mean[name], filtered.mean[name]
            change = change_of(name, before, after).text
            notes.append(f"as_of_filter: {name} {change_text(name, before, after)} ({change})")
        return notes


def _check_not_gold(run: Any, qrels: Any) -> None:
    """Refuse the gold as a run: it would score perfectly against itself."""
    if not isinstance(run, (str, os.PathLike)):
        return
    paths = [os.fspath(p) for p in (run, qrels) if isinstance(p, (str, os.PathLike)) and p != "-"]
    if len(paths) == 2 and all(map(os.path.exists, paths)) and os.path.samefile(*paths):
        raise InputError(f"{paths[0]}: is the gold itself, expected a run: name what a system returned")


def _watched(run: Run, entry: Entry | None, watch: Watch | None, batch: int | None) -> Run:
    """The run as a file that tells how far it was read, to the cache and to whoever watches."""
    if not isinstance(run.content, TextFile):
        return run
    if run.path is None:
        return replace(run, content=replace(run.content, batch=batch))
    watchers = []
    if entry is not None and not is_packed(run.path):
        watchers.append(entry.hasher().update)
    if watch is not None and not is_packed(run.path):
        total, done = os.path.getsize(run.path), 0

        def report(piece: memoryview) -> None:
            nonlocal done
            done += len(piece)
            watch(run.path or "", done, total)

        watchers.append(report)
    file: TextFile = run.content
    return replace(run, content=replace(file, watchers=tuple(watchers), batch=batch))
