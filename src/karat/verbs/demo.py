"""demo(): a project made from the handbook that ships with Karat, run from retrievers to a verdict."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from karat.config.reading import read_config
from karat.errors import InputError, missing_package
from karat.records import dataclass
from karat.store.atomic import encoded, write_atomically
from karat.verbs.bench import Bench, bench
from karat.verbs.bench.languages import over_languages
from karat.verbs.check import Check, check
from karat.verbs.diagnose import Diagnosis, diagnose

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karat.verbs.bench.benchmark import Watch
    from karat.verbs.bench.languages import Languages

FOLDER = "karat-demo"
EXAMPLE = Path(__file__).parents[1] / "example"
DATA = ("corpus.jsonl", "queries.jsonl", "qrels.tsv")
CANDIDATE = "hybrid"
MARK = "# The demo of Karat:"
CONFIG = f"""\
{MARK} the support handbook of a made-up parcel box, and four ways to search it.
# Change anything and run it again:  karat bench && karat check

dataset:
  name: Larkbox handbook
  qrels: data/qrels.tsv        # gold: which passage answers which question, graded 0 to 3; in its own language alone
  queries: data/queries.jsonl  # 232 questions in four languages, with fields to slice by
  corpus: data/corpus.jsonl    # 180 passages, with version, date and source
  embeddings: runs/vectors.npz # what `karat bench` made of them: how alike passages are (ild)
  embedding_model: wordllama

# `karat bench` runs these over the corpus and writes a run log for each. Try others: karat bench --list
bench:
  k: 50
  out: runs
  baseline: bm25
  retrievers:
    - bm25                                                        # words
    - dense                                                       # meaning: a small static model, no network
    - hybrid=hybrid(bm25, dense, fusion=minmax)                   # both
    - dartboard=dartboard(dense, sigma=0.15)                      # meaning, and less of the same

# `karat check` judges the candidate: may it replace the baseline?
runs:
  bm25: runs/bm25.jsonl
  dense: runs/dense.jsonl
  hybrid: runs/hybrid.jsonl
  dartboard: runs/dartboard.jsonl
baseline: bm25
candidate: {CANDIDATE}

metrics: [ndcg@10, "recall@{{5,10}}", hit@1, mrr, ild@10, latency.p90]
segments: [language, wording, difficulty, topic]

gates:
  - ndcg@10 better than baseline
  - ndcg@10 no worse than baseline by 0.06 for every language
  - recall@5 >= 0.85 where wording = same
  - recall@5 >= 0.40 where wording = other    # the questions that share no word with their answer
  - latency.p90 <= 50ms

outputs:
  html: report.html
  save: result.json.gz
"""
SEARCH = '''\
"""A search of your own: change it, and see what it is worth.

    karat bench -r bm25 -r my_search:find -o mine
"""

import json
from pathlib import Path

CORPUS = Path(__file__).parent / "data/corpus.jsonl"
PASSAGES = [json.loads(line) for line in CORPUS.open(encoding="utf-8")]


def find(query, k):
    """The k passages that share the most words with the query: ids and scores, best first."""
    words = set(query.lower().split())
    scores = {p["_id"]: len(words & set(p["text"].lower().split())) for p in PASSAGES}
    return sorted(((id, score) for id, score in scores.items() if score), key=lambda hit: -hit[1])[:k]
'''


@dataclass(frozen=True)
class Demo:
    """What the demo made: the benchmark, the verdict on the candidate, and what is likely wrong with it."""

    folder: str
    bench: Bench
    check: Check
    diagnosis: Diagnosis

    @property
    def languages(self) -> Languages:
        """By language, with what the check decides: the page says the same."""
        return over_languages(self.bench.parts, (*self.check.comparisons, *self.check.others))[0]

    @property
    def report(self) -> str:
        """The page to look at."""
        return os.path.join(self.folder, "report.html")


def demo(folder: str = FOLDER, *, watch: Watch | None = None) -> Demo:
    """Make a project in a folder, run BM25, dense, hybrid and Dartboard over it, and judge the gates.

    Needs no network and no key. In a folder that an earlier demo made, what is there is kept and used.
    """
    if missing := [p for p in ("bm25s", "Stemmer", "wordllama", "jinja2", "vl_convert") if not find_spec(p)]:
        raise missing_package("the demo", *missing)
    place = _make_project(folder)
    read = read_config(os.path.join(place, "karat.yaml"))
    settings = read.config.bench
    if settings is None:
        raise InputError(
            f"{read.path}: has no bench: any more; remove the folder, and run the demo again to recreate it"
        )
    benchmark = bench(
        read.path,
        settings.retrievers,
        k=settings.k,
        out=read.place(settings.out),
        baseline=settings.baseline,
        watch=watch,
        by=["language", "wording"],
    )
    verdict = check(read, details=True)
    data = {name: os.path.join(place, "data", name) for name in DATA}
    log = benchmark.only.logs.get(CANDIDATE) or list(benchmark.only.logs.values())[-1]
    return Demo(place, benchmark, verdict, diagnose(data["qrels.tsv"], log, queries=data["queries.jsonl"]))


def _make_project(folder: str) -> str:
    """The folder with its data and config."""
    # The config comes first: a folder that has it is ours, even if the rest is missing.
    files = {"karat.yaml": encoded(CONFIG), "my_search.py": encoded(SEARCH)}
    files |= {os.path.join("data", name): (EXAMPLE / name).read_bytes() for name in DATA}
    write_project(folder, files, mark=MARK, command="karat demo")
    return folder


def write_project(folder: str, files: Mapping[str, bytes], *, mark: str, command: str) -> None:
    """Write what a demo begins with, the config first; what an earlier demo left is kept.

    A folder that holds anything else, and no config that begins with the mark, is left alone.
    """
    config = os.path.join(folder, "karat.yaml")
    if os.path.isdir(folder) and any(not n.startswith(".") for n in os.listdir(folder)) and not _begins(config, mark):
        raise InputError(f"{folder}: exists and is not a demo of Karat's; name another folder: {command} FOLDER")
    for name, data in files.items():
        place = os.path.join(folder, name)
        try:
            os.makedirs(os.path.dirname(place), exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: cannot be made ({error.strerror}); name another: {command} FOLDER") from None
        if not os.path.exists(place):
            write_atomically(place, data)


def _begins(config: str, mark: str) -> bool:
    try:
        with open(config, encoding="utf-8") as file:
            return file.readline().startswith(mark)
    except (OSError, UnicodeDecodeError):
        return False
