"""demo_judge(): gold that lacks what a new search returns, a scripted judge, and labels that say what it is worth."""

from __future__ import annotations

import hashlib
import json
import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from karat.errors import missing_package
from karat.judge.judgments import Judgment, ModelJudge, Person
from karat.judge.pool import Pool, find_best_ranks
from karat.judge.records import write_lines
from karat.judge.scale import DEFAULT
from karat.model.dates import utc_now
from karat.model.policy import Policy
from karat.read.sources import read_qrels, read_run
from karat.records import dataclass
from karat.store.atomic import encoded, write_atomically
from karat.store.codec import encode
from karat.verbs.bench import bench
from karat.verbs.demo import DATA, EXAMPLE, write_project
from karat.verbs.evaluate import evaluate
from karat.verbs.judge.calibrate import calibrate_judge
from karat.verbs.judge.label import sample_pairs
from karat.verbs.judge.pool import pool_pairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from karat.judge.calibration import Calibration
    from karat.judge.pairs import Pair
    from karat.results.result import Result
    from karat.verbs.bench.benchmark import Watch

JUDGE_FOLDER = "karat-demo-judge"
OLD, NEW = "bm25", "hybrid"
RETRIEVERS = (OLD, f"{NEW}=hybrid(bm25, dense, fusion=minmax)")
METRICS = ("ndcg@5", "precision@5")
DEPTH, LABELS = 5, 200
MARK = "# The demo of Karat's judges:"
CONFIG = f"""\
{MARK} gold that lacks what a new search returns.
# The judge and the people are a script: see judged.jsonl and labels.jsonl, and put your own in their place.

dataset:
  name: Larkbox handbook
  qrels: gold.tsv              # what {OLD} returned, judged; data/qrels.tsv knows more
  queries: data/queries.jsonl
  corpus: data/corpus.jsonl
runs:
  {OLD}: runs/{OLD}.jsonl
  {NEW}: runs/{NEW}.jsonl
metrics: [{", ".join(METRICS)}]

judgments: [judged.jsonl, labels.jsonl]
calibration: calibration.json
"""
RULE = "the grade of the handbook's gold, one more for 20% of the pairs, one less for 5%"
JUDGE = ModelJudge("scripted judge", hashlib.sha256(RULE.encode()).hexdigest()[:16])
PEOPLE = Person("scripted people")


@dataclass(frozen=True)
class JudgeDemo:
    """What the demo made, step by step."""

    folder: str
    pool: Pool
    judged: int
    labels: int
    calibration: Calibration
    result: Result
    """By the gold that a team would have, the judge's grades, and people's labels."""
    truth: Result
    """By all of the handbook's gold for the same queries; it judges every pair of the pool."""
    enough: Pool
    """What is open once people's labels are known."""


def demo_judge(folder: str = JUDGE_FOLDER, *, watch: Watch | None = None) -> JudgeDemo:
    """Pool, judge, sample, label and calibrate with a script in place of a model and of people.

    Needs no network and no key. The gold is what BM25 returns in its top 5; the handbook's full gold stands in for
    people, and is the truth that the figures are held against.
    """
    if missing := [p for p in ("bm25s", "Stemmer", "wordllama") if not find_spec(p)]:
        raise missing_package("the demo of judges", *missing)
    _make_folder(folder)

    def place(*names: str) -> str:
        return os.path.join(folder, *names)

    bench(place("data"), RETRIEVERS, k=50, out=place("runs"), baseline=OLD, watch=watch)
    runs = {name: place("runs", f"{name}.jsonl") for name in (OLD, NEW)}
    full = read_qrels(place("data", "qrels.tsv"))
    truth = {(query, doc): int(grade) for query in full.query_ids for doc, grade in full.for_query(query).items()}
    known = find_best_ranks(read_run(runs[OLD], name=OLD), None, DEPTH, Policy())[0]
    _write_gold(sorted(known), truth, place("gold.tsv"))

    def pool_by_value(name: str, *judgments: str) -> Pool:
        return pool_pairs(
            list(runs.values()),
            place(name),
            gold=place("gold.tsv"),
            judgments=judgments,
            depth=DEPTH,
            order="value",
            scale=DEFAULT,
        )

    pool = pool_by_value("pairs.jsonl")
    _write(pool.pairs, {pair.ids: _script_grade(pair, truth) for pair in pool.pairs}, JUDGE, place("judged.jsonl"))
    sample, judged = sample_pairs(LABELS, place("judged.jsonl"), place("sample.jsonl"))
    _write(sample, truth, PEOPLE, place("labels.jsonl"))
    calibration = calibrate_judge(place("judged.jsonl"), place("labels.jsonl"))
    calibration.save(place("calibration.json"))
    result = evaluate(
        place("gold.tsv"),
        runs,
        METRICS,
        judgments=[place("judged.jsonl"), place("labels.jsonl")],
        calibration=place("calibration.json"),
    )
    complete = {query: full.for_query(query) for query in result.runs[0].query_ids}
    enough = pool_by_value("next.jsonl", place("labels.jsonl"))
    reference = evaluate(complete, runs, METRICS)
    return JudgeDemo(folder, pool, judged, len(sample), calibration, result, reference, enough)


def _write_gold(pairs: Iterable[tuple[str, str]], grades: Mapping[tuple[str, str], int], path: str) -> None:
    rows = (f"{query}\t{doc}\t{grades[query, doc]}\n" for query, doc in pairs)
    write_atomically(path, encoded("query-id\tcorpus-id\tscore\n" + "".join(rows)))


def _script_grade(pair: Pair, truth: Mapping[tuple[str, str], int]) -> int:
    """What the scripted judge says: the same of the same pair, whoever asks."""
    draw = int(hashlib.sha256("\t".join(pair.ids).encode()).hexdigest()[:8], 16) / 16**8
    return min(max(truth[pair.ids] + (draw < 0.2) - (draw >= 0.95), 0), 3)


def _write(pairs: Iterable[Pair], grades: Mapping[tuple[str, str], int], by: ModelJudge | Person, path: str) -> None:
    moment, text = utc_now(), "a script gave this grade"
    reason, note = (text, "") if isinstance(by, ModelJudge) else ("", text)
    rows = (
        Judgment(*pair.ids, grades[pair.ids], DEFAULT, by, moment, reason, note, drawn=pair.drawn) for pair in pairs
    )
    write_lines(map(encode, rows), path)


def _answerable_data() -> dict[str, str]:
    """The handbook without the questions that it does not answer."""
    texts = {name: (EXAMPLE / name).read_text(encoding="utf-8").splitlines(keepends=True) for name in DATA}
    rows = [json.loads(row) for row in texts["queries.jsonl"]]
    out = {row["_id"] for row in rows if row.get("no_answer")}
    texts["queries.jsonl"] = [
        text for text, row in zip(texts["queries.jsonl"], rows, strict=True) if row["_id"] not in out
    ]
    texts["qrels.tsv"] = [text for text in texts["qrels.tsv"] if text.partition("\t")[0] not in out]
    return {name: "".join(lines) for name, lines in texts.items()}


def _make_folder(folder: str) -> None:
    """The folder with its data and config."""
    files = {"karat.yaml": encoded(CONFIG)}
    files |= {os.path.join("data", name): encoded(text) for name, text in _answerable_data().items()}
    write_project(folder, files, mark=MARK, command="karat demo --judge")
