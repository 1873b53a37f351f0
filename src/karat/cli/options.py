"""Options that several verbs share: a name, a type, and its help, once."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from karat.stats.defaults import CONFIDENCE

_WHAT, _SURE, _FILES, _CONVENTIONS = "What to compute", "How sure", "Files", "Conventions"


def _option(panel: str | None, meta: str | None, help: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, metavar=meta, help=help, rich_help_panel=panel, **more)


Qrels = Annotated[
    str, typer.Argument(metavar="QRELS", help="Gold: TREC qrels, BEIR tsv, CSV, JSONL, JSON or Parquet; - is stdin.")
]
Runs = Annotated[
    list[str], typer.Argument(metavar="RUN...", help="Runs: TREC, run log, CSV, JSON or Parquet; globs work.")
]
Metrics = Annotated[
    list[str] | None,
    _option(_WHAT, "METRIC", "Such as ndcg@10 or map,recall@{10,100}. See: karat metrics", "-m", "--metric"),
]
Ks = Annotated[str | None, _option(_WHAT, "K,K", "Cutoffs for metrics named without one: 1,3,5.", "-k", "--ks")]
QueryTable = Annotated[str | None, _option(_WHAT, "FILE", "Table of queries (as_of, no_answer, …).", "--queries")]
DocTable = Annotated[
    str | None,
    _option(_WHAT, "FILE", "Table of docs: texts (novelty), fields to slice by (--by gold.source).", "--docs"),
]
EmbeddingFile = Annotated[
    str | None,
    _option(_WHAT, "FILE", "Vectors of docs for ild, alpha_ndcg: .npy beside .ids.txt, .npz, Parquet.", "--embeddings"),
]
EmbeddingModel = Annotated[
    str | None, _option(_WHAT, "NAME", "What made the vectors; the file's name by default.", "--embedding-model")
]
By = Annotated[
    list[str] | None, _option(_WHAT, "FIELD", "Slice the queries: a field, a cross (a,b), quantiles (a:4).", "--by")
]
Components = Annotated[
    bool, _option(_WHAT, None, "Also measure every part of the pipeline that the run log holds.", "--components")
]
Cut = Annotated[int, _option(_WHAT, "K", "With --components: how many docs are delivered; 5.", "--cut", min=1)]
Threshold = Annotated[
    float | None, _option(_WHAT, "SCORE", "With --components: from this score an item is evidence.", "--threshold")
]
Confidence = Annotated[float, _option(_SURE, "SHARE", f"Of the intervals; {CONFIDENCE} by default.", "--confidence")]
Method = Annotated[
    str, _option(_SURE, "NAME", "auto, bca, percentile, studentized, t, wilson, clopper-pearson.", "--method")
]
Resamples = Annotated[int, _option(_SURE, "N", "Of the bootstrap.", "--resamples")]
Seed = Annotated[int, _option(_SURE, "N", "The same seed gives the same output.", "--seed")]
JsonFile = Annotated[str | None, _option(_FILES, "FILE|-", "Write the result as JSON; - is stdout.", "--json")]
PerQuery = Annotated[
    str | None, _option(_FILES, "FILE", "Write every query's values (.csv, .jsonl, .parquet).", "--per-query")
]
SaveFile = Annotated[
    str | None, _option(_FILES, "FILE", "Write the full result, with lists, for later verbs.", "--save")
]
HtmlFile = Annotated[str | None, _option(_FILES, "FILE", "Write the report, one HTML file.", "--html")]
QrelsFormat = Annotated[
    str | None, _option(_FILES, "FORMAT", "trec, csv, tsv, jsonl, json or parquet; else detected.", "--qrels-format")
]
Subtopics = Annotated[
    bool, _option(_FILES, None, "The second column of TREC qrels is a subtopic (kind=subtopic).", "--subtopics")
]
RunFormat = Annotated[str | None, _option(_FILES, "FORMAT", "The same for the runs.", "--run-format")]
Like = Annotated[
    str | None, _option(_CONVENTIONS, "TOOL", "Conventions of trec_eval, ir_measures, ranx or beir.", "--like")
]
ScorePrecision = Annotated[
    str | None, _option(_CONVENTIONS, "TYPE", "float64, or float32 as trec_eval 9 rounds scores.", "--score-precision")
]
Duplicates = Annotated[
    str | None, _option(_CONVENTIONS, "RULE", "A doc returned twice: first (best counts) or error.", "--duplicates")
]
Missing = Annotated[str | None, _option(_CONVENTIONS, "RULE", "Query that a run lacks: zero or skip.", "--missing")]
EmptyGold = Annotated[
    str | None, _option(_CONVENTIONS, "RULE", "Query without relevant docs: zero or skip.", "--empty-gold")
]
Level = Annotated[
    str | None, _option(_CONVENTIONS, "LEVEL", "Match gold with chunk or doc ids; auto finds out.", "--level")
]
ChunkCredit = Annotated[
    str | None,
    _option(_CONVENTIONS, "RULE", "Later chunks of a gold doc: first (none), all (precision).", "--chunk-credit"),
]
Separator = Annotated[
    str | None, _option(_CONVENTIONS, "MARK", "Between doc and chunk in an id; # by default.", "--separator")
]
Stage = Annotated[
    str | None, _option(_CONVENTIONS, "NAME", "Evaluate a stage of a run log, such as retrieve.", "--stage")
]
AsOfFilter = Annotated[bool, _option(_CONVENTIONS, None, "Drop items newer than the query's as_of.", "--as-of-filter")]
Condensed = Annotated[bool, _option(_CONVENTIONS, None, "Drop unjudged docs before ranking.", "--condensed")]
IgnoreSelf = Annotated[bool, _option(_CONVENTIONS, None, "Drop docs whose id is the query's.", "--ignore-self")]
Threads = Annotated[int | None, _option(None, "N", "Threads; all cores by default.", "--threads", min=1)]
Memory = Annotated[str | None, _option(None, "SIZE", "Bound for runs that are out of order, such as 2GB.", "--memory")]
NoCache = Annotated[bool, _option(None, None, "Neither read nor write the cache.", "--no-cache")]
Quiet = Annotated[bool, _option(None, None, "Print no table, only errors.", "-q", "--quiet")]
Verbose = Annotated[bool, _option(None, None, "Say more.", "-v", "--verbose")]
