"""Every rule, declared once: when it holds, what it means, what to try, and how much it explains.

A rule holds when all its bounds do; one without bounds counts queries, and holds where it counts any. A bound is a
statement about an interval: low means that its upper end is below the threshold, high that its lower end is above it.
Rules apply in the order of the table; queries that a rule with `claims` explains are left out of the rules after it,
and a rule is skipped once one of `unless` holds, since that explains the same loss. `loss` is what each query loses by
it, in points of recall@5 unless said otherwise: its mean over all queries is the weight, and the queries that lose most
are listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from karat.config.reading import read_config
from karat.errors import InputError, UsageError, nearest
from karat.records import dataclass
from karat.stats.intervals import ALL_EQUAL
from karat.stats.resample import mean_of
from karat.verbs.diagnose.findings import SEGMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from karat.stats.intervals import Interval
    from karat.verbs.diagnose.view import View

    Floats = NDArray[np.float64]
    from collections.abc import Iterable


THIN_GOLD = "thin-gold"
TIME = 0.5
"""What all of the time weighs beside all of the recall."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A limit that users can change, and what it is for."""

    value: float
    about: str
    scale: tuple[float, float] = (0.0, 1.0)
    """The values that what is compared with it can have."""


_CHANGE = (-1.0, 1.0)
_GAP = "recall(cap=true)@5, or @50 of the pool where that shows the gap more clearly,"
THRESHOLDS: dict[str, Threshold] = {
    "recall@5.low": Threshold(0.75, "recall(cap=true)@5 of what the pool holds, below this, is low"),
    "recall@5.all": Threshold(0.70, "recall(cap=true)@5 of all that is relevant, below this, is low"),
    "recall@10.high": Threshold(0.75, "recall(cap=true)@10 of what the pool holds, above this, is high"),
    "recall@50.low": Threshold(0.90, "recall@50 of the pool below this is low"),
    "docs.gap": Threshold(
        0.05, "recall@50 by doc that exceeds that by chunk by more than this is the chunker's", _CHANGE
    ),
    "rerank.gain": Threshold(-0.01, "a change of ndcg@10 by the reranker below this is harm", _CHANGE),
    "precision.low": Threshold(0.75, "precision at R below this is low, R the number of relevant docs of the query"),
    "mrr.high": Threshold(0.60, "mrr above this: the first relevant doc stands near the top"),
    "mrr.low": Threshold(0.60, "mrr below this is low"),
    "segment.gap": Threshold(-0.05, f"{_GAP} of a segment minus that of the rest, below this, is a gap", _CHANGE),
    "skipped.high": Threshold(0.05, "a share of queries with a relevant doc that skip retrieval above this is high"),
    "misrouted.high": Threshold(0.05, "a share of queries at the wrong source above this is high"),
    "misrouted.gap": Threshold(
        -0.05, f"{_GAP} of misrouted queries minus that of the rest, below this, is a cost", _CHANGE
    ),
    "fresh@5.low": Threshold(0.99, "fresh@5 below this: docs newer than as_of come back"),
    "judged@10.low": Threshold(0.60, "a share of judged docs in the top 10 below this is low"),
    "stage.share": Threshold(0.80, "a stage that takes more than this share of the time dominates"),
    "stage.tail": Threshold(4.0, "a stage whose p95 is more than this many medians has a heavy tail", (0.0, np.inf)),
    "tail.time": Threshold(0.05, "a tail that takes more than this share of the time matters"),
}


def thresholds(changes: Mapping[str, float] | None = None) -> dict[str, float]:
    """All thresholds, with those that were changed; an unknown name or a value that is no number is an error."""
    out = {name: t.value for name, t in THRESHOLDS.items()}
    for name, value in (changes or {}).items():
        if name not in out:
            near = nearest(name, out)
            hint = f"did you mean {near!r}?" if near else f"expected one of {', '.join(out)}"
            raise UsageError(f"no threshold {name!r}; {hint}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not np.isfinite(value):
            raise UsageError(f"threshold {name!r} must be a finite number, found {value!r}")
        low, high = THRESHOLDS[name].scale
        if not low <= value <= high:
            scope = f"from {low:g} to {high:g}" if high < np.inf else f"{low:g} or more"
            hint = f"; did you mean {value / 100:g}?" if low < value / 100 <= high == 1 < value else ""
            raise UsageError(f"threshold {name!r} must be {scope}, found {value!r}{hint}")
        out[name] = float(value)
    return out


def _ends(interval: Interval) -> tuple[float, float]:
    """The ends that a rule looks at; values that are all equal have none, and count as they are."""
    equal = interval.method == ALL_EQUAL
    return (interval.estimate, interval.estimate) if equal else (interval.low, interval.high)


@dataclass(frozen=True, slots=True)
class Bound:
    """A value that is low or high beyond doubt: the whole interval lies on one side of the threshold."""

    value: str
    side: Literal["low", "high"]
    threshold: str

    def holds(self, interval: Interval, limit: float) -> bool:
        low, high = _ends(interval)
        return high < limit if self.side == "low" else low > limit

    def refuted(self, interval: Interval, limit: float) -> bool:
        """Whether the whole interval lies on the other side."""
        low, high = _ends(interval)
        return low >= limit if self.side == "low" else high <= limit


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table."""

    code: str
    title: str
    when: tuple[Bound, ...]
    loss: Callable[[View], Floats]
    cause: str
    advice: tuple[str, ...]
    unless: tuple[str, ...] = ()
    over: Literal["", "segments", "stages"] = ""
    claims: bool = False
    """Whether the queries in question are left out of the rules after it."""
    refilters: bool = False
    """Whether the rules after it look at the final list without docs newer than as_of."""
    shows: tuple[str, ...] = ()
    """More values that belong to the evidence."""
    shows_inside: tuple[str, ...] = ()
    """More values of the queries in question alone."""
    ranked_low: str = ""
    """Advice that comes first where most of what these queries miss in the top 5 is in the pool."""
    before_gate: bool = False
    """Whether it is asked of the queries that the retrieval gate skips, too."""
    concerns: Callable[[View], Floats] | None = None
    """Above 0 for the queries that it concerns, where these are more than those that lose by it."""
    needs_loss: bool = False
    """Whether it is no finding where no query loses anything by it."""
    by_judge: bool = False
    """Whether a judge's grades count beside the gold, in the values that they feed; other rules stay on the gold."""

    def advice_on(self, view: View) -> tuple[str, ...]:
        """What to try about the queries of this view, the likeliest first."""
        return (self.ranked_low, *self.advice) if self.ranked_low and _ranked_low(view) else self.advice


def _ranked_low(view: View) -> bool:
    """Whether the pool holds most of what the queries in question miss in the top 5."""
    inside, top = view.inside, view.values["recall@5"]
    if "reachable" not in view.values:
        return False
    below = np.maximum(view.values["reachable"] - top, 0.0)[inside]
    units = view.units.take(inside)
    return mean_of(below, units) > mean_of(1.0 - top[inside], units) / 2


def _of_rows(view: View, loss: Floats) -> Floats:
    """A loss on the queries in view; elsewhere, and where it is undefined, none."""
    return np.where(view.rows & ~np.isnan(loss), loss, 0.0)


def _in_question(view: View) -> Floats:
    """What misrouted queries or those of a segment lose beside the rest."""
    return np.where(view.inside, view.rest - np.nan_to_num(view.values[view.gap_in]), 0.0)


def _not_in_pool(view: View) -> Floats:
    """What the top 5 lack even if the pool is in perfect order."""
    return _of_rows(view, 1.0 - view.values.get("reachable of docs", view.values["reachable"]))


def _missed_by_pool(view: View) -> Floats:
    """The share of a query's relevant docs that are not in the pool, also where the others fill the top 5."""
    return _of_rows(view, 1.0 - view.values.get("pool of docs", view.values["pool"]))


def _lost_by_reranking(view: View) -> Floats:
    """In points of ndcg@10."""
    return _of_rows(view, np.maximum(-view.values["rerank gain"], 0.0))


def _lost_after_pool(view: View) -> Floats:
    """What the top 5 lack beside the pool in perfect order."""
    return _of_rows(view, np.maximum(view.values["reachable"] - view.values["recall@5"], 0.0))


def _taken_places(view: View) -> Floats:
    filled = view.values.get("filled@10 of pool", view.values["recall@10 of pool"])
    return _of_rows(view, filled - view.values["rprec of pool"])


def _unjudged(view: View) -> Floats:
    """What the unjudged docs of the top 5 would add to precision if they were relevant as often as the judged ones."""
    judged, relevant = view.values["judged@5"], view.values["relevant@5"]
    count, good = (float(np.nansum(np.where(view.rows, x, 0.0))) for x in (judged * 5, relevant))
    share = min(1.0, (good + 1) / (count + 2))  # where next to nothing is judged, one in two
    return _of_rows(view, (1.0 - judged) * share)


def _share_of_time(view: View) -> Floats:
    return TIME * view.share_of_all_time(view.stage_time)


def _tail_of_time(view: View) -> Floats:
    return TIME * view.share_of_all_time(view.time_in_tail)


RULES: tuple[Rule, ...] = (
    Rule(
        "missing-queries",
        "Queries have no line in the run",
        (),
        lambda v: np.array([float(q in v.signals.absent) for q in v.query_ids]),
        "The run stopped early, or was made for other queries. Each of these queries counts as 0.",
        (
            "run these queries too, then diagnose again",
            'if they are left out on purpose, say so: --missing skip (in Python missing="skip")',
        ),
        claims=True,
    ),
    Rule(
        "gate",
        "The retrieval gate skips queries that need retrieval",
        (Bound("skipped", "high", "skipped.high"),),
        lambda v: _of_rows(v, v.values["skipped"] * (1.0 - v.values["recall@5"])),
        "The gate takes these queries for ones that can be answered without retrieval.",
        (
            "change the gate's threshold so that it skips only what it is surer of",
            "give the gate examples of these queries",
            "if they need no retrieval, say so: `needs_retrieval: false` in the table of queries",
        ),
        before_gate=True,
    ),
    Rule(
        "router",
        "Queries are sent to the wrong source, and miss docs that it lacks",
        (Bound("misrouted", "high", "misrouted.high"), Bound("gap", "low", "misrouted.gap")),
        _in_question,
        "The router picks the wrong source for these queries.",
        (
            "look at which sources are confused, and give the router examples of them",
            "search the second-best source too when the router is unsure",
        ),
        claims=True,
    ),
    Rule(
        SEGMENT,
        "One group of queries has a much lower recall than the rest",
        (Bound("gap", "low", "segment.gap"),),
        _in_question,
        "The index or the queries do not suit this group: words that the docs do not use, stop words, accents or"
        " tokenisation of its language, synonyms of its domain, or an embedding model that barely covers it.",
        (
            "read some of these queries next to their results: if the words differ, try another embedding or synonyms",
            "if it is a language: check stop words, accents, stemming and tokenisation in index and queries",
            "check that the docs of this group are in the index",
        ),
        over="segments",
        claims=True,
        shows_inside=("pool",),
        ranked_low="rerank the pool, or raise k: most of what these queries miss in the top 5 is in the top 50",
    ),
    Rule(
        "time-filter",
        "The run returns docs newer than the query's date (as_of)",
        (Bound("fresh@5", "low", "fresh@5.low"),),
        lambda v: _of_rows(v, 1.0 - v.values["fresh@5"]),
        "as_of is ignored somewhere in the pipeline, or the labels are outdated: newer versions are right today.",
        (
            "filter by doc_version ≤ as_of in the index, before the top k is cut",
            "if the newer docs are the right answers today, update the gold and its as_of",
        ),
        refilters=True,
    ),
    Rule(
        "chunker",
        "The right docs are retrieved, but not the right chunks",
        (Bound("pool", "low", "recall@50.low"), Bound("gap to docs", "high", "docs.gap")),
        lambda v: _of_rows(v, v.values["gap to docs"]),
        "The chunker: passages that answer the query are split, or lost among chunks of the same doc.",
        (
            "split at sentences or headings, with more overlap or larger chunks, and index again",
            "add the title or a summary of the doc to each chunk",
            "check that the ids of the gold are those of this chunking",
        ),
        shows=("pool of docs",),
    ),
    Rule(
        "retriever",
        "Relevant docs are not retrieved at all",
        (Bound("pool of docs", "low", "recall@50.low"),),
        _not_in_pool,
        "The index or the embedding: docs are missing or outdated, or queries and docs are embedded differently.",
        (
            "check that the gold docs of these queries are in the index",
            "check model, prefixes and normalisation of embeddings on both sides",
            "add a lexical retriever beside the dense one (or the other way round) and fuse them",
            "raise the raw k",
        ),
        shows=("pool",),
        concerns=_missed_by_pool,
        needs_loss=True,
    ),
    Rule(
        "pool",
        "Relevant docs are missing from the top 50",
        (Bound("pool", "low", "recall@50.low"),),
        _not_in_pool,
        "The index, the embedding or the chunking; chunk-level gold would show whether it is the chunking.",
        (
            "check that the gold docs of these queries are in the index",
            "check model, prefixes and normalisation of embeddings on both sides",
            "read some of these docs: if the chunker splits or drops what answers the query, fix it first",
        ),
        unless=("chunker", "retriever"),
        concerns=_missed_by_pool,
        needs_loss=True,
    ),
    Rule(
        "reranker",
        "The reranker makes its input worse",
        (Bound("rerank gain", "low", "rerank.gain"),),
        _lost_by_reranking,
        "The reranker: wrong model or language, inverted scores, truncated texts, or mixed-up ids.",
        (
            "evaluate without it: its input alone is better",
            "check the direction of its scores and the texts that it receives",
            "try another cross-encoder on the same pool",
        ),
        shows=("recall@5", "pool"),
        by_judge=True,
    ),
    Rule(
        THIN_GOLD,
        "Many docs in the top 10 are not judged",
        (Bound("judged@10", "low", "judged@10.low"),),
        _unjudged,
        "The gold is too thin for this system: unjudged docs count as not relevant, so precision is a lower bound, and"
        " so are mrr and ndcg where they are below 1.",
        (
            "judge the top 10 of this run before comparing it with others",
            "until then, compare with --condensed (in Python condensed=True), and look at recall and hit rates first",
        ),
        shows=("judged@5",),
        by_judge=True,
    ),
    Rule(
        "distractors",
        "Relevant docs are found, but irrelevant ones rank between them",
        (
            Bound("recall@10 of pool", "high", "recall@10.high"),
            Bound("rprec of pool", "low", "precision.low"),
            Bound("mrr of pool", "high", "mrr.high"),
        ),
        _taken_places,
        "Distractors: near-duplicates and docs that share words or topic with the query take places near the top.",
        (
            "rerank with a cross-encoder",
            "require the query's rare words (lexical constraints)",
            "favour distinct docs, and remove near-duplicates from the index",
        ),
        unless=("reranker", THIN_GOLD),
        shows=("precision@5",),
        by_judge=True,
    ),
    Rule(
        "reranker-or-k",
        "Relevant docs are retrieved but ranked too low",
        (Bound("recall@5 of pool", "low", "recall@5.low"),),
        _lost_after_pool,
        "The reranker (or the lack of one), or a k that is too small.",
        ("try reranking alone on a larger pool", "raise k if the reader can take more"),
        unless=("reranker", "distractors"),
        shows=("recall@5", "pool"),
    ),
    Rule(
        "order",
        "Relevant docs are found, in the wrong order",
        (Bound("recall@10 of pool", "high", "recall@10.high"), Bound("mrr of pool", "low", "mrr.low")),
        lambda v: _of_rows(v, v.values["recall@10"] - v.values["ndcg@10"]),
        "The order of the top: scores of several sources that are not comparable, or no reranking.",
        ("check how scores are fused and normalised", "rerank the top N", "try query expansion"),
        unless=("reranker", THIN_GOLD, "reranker-or-k"),
        shows=("ndcg@10",),
    ),
    Rule(
        "low-recall",
        "Many relevant docs are not delivered, and nothing shows where they are lost",
        (Bound("recall@5", "low", "recall@5.all"),),
        lambda v: _of_rows(v, 1.0 - v.values["recall@5"]),
        "The index, the embedding, the chunking, the reranker and a small k may each play a part.",
        (
            "log the stages (stages.retrieve with 50 docs or more, stages.rerank), and diagnose again",
            "retrieve deeper: if recall grows with k, it is the order, otherwise the index",
        ),
        unless=("chunker", "retriever", "pool", "reranker", "distractors", "reranker-or-k", "order"),
        shows=("hit@10",),
    ),
    Rule(
        "slow-stage",
        "One stage takes nearly all of the time",
        (Bound("share of time", "high", "stage.share"),),
        _share_of_time,
        "Queries wait for this stage.",
        ("cap the raw k that it receives", "cache frequent queries", "batch it, or run it on faster hardware"),
        over="stages",
    ),
    Rule(
        "slow-tail",
        "One stage is many times slower for some queries",
        (Bound("tail", "high", "stage.tail"), Bound("time in the tail", "high", "tail.time")),
        _tail_of_time,
        "Some queries wait in this stage: long queries or docs, cold caches, timeouts and retries.",
        (
            "look at the slowest queries, which are listed",
            "set a timeout with a cheaper fallback",
            "cache frequent queries, and keep the index warm",
        ),
        over="stages",
        unless=("slow-stage",),
    ),
)

BY_CODE: dict[str, Rule] = {rule.code: rule for rule in RULES}


def read_thresholds(lines: Iterable[str], config: str | None = None) -> dict[str, float]:
    """The thresholds of a config, and `NAME=X` from the command line over them."""
    out: dict[str, float] = {}
    if config is not None:
        read = read_config(config)
        for name, value in read.config.diagnosis.thresholds.items():
            try:
                thresholds({name: value})
            except UsageError as error:
                raise InputError(read.problem(error, "diagnosis", "thresholds", name)) from None
            out[name] = value
    for text in lines:
        name, equals, number = text.rpartition("=")
        try:
            out[name.strip()] = float(number)
        except ValueError:
            equals = ""
        if not equals:
            raise UsageError(f"--threshold must be NAME=X, such as recall@5.low=0.6, found {text!r}")
    return out
