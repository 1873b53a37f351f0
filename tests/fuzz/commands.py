"""Cases of whole commands: configs, saved results, entries of the cache, options, and what outputs hold.

A command ends with a code that means something, says what is wrong in its own words, and prints no figure but that of
the whole data.
"""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock
from xml.etree import ElementTree

from markdown_it import MarkdownIt

import karat
from command import run_karat
from judge import UNCLEAR, Verdict
from karat.judge.calibration_document import read_calibration
from karat.judge.judgments import read_judgments
from karat.store.codec import encode
from mutations import VALUES, mutate_bytes, mutate_lines, mutate_tree
from planted_judge import Planted
from references import Refusal, json_lines
from samples import SPACED, Case

GOLD = "".join(f"q{i} 0 d{j} {j % 3}\n" for i in range(12) for j in range(4))
RUN = "".join(f"q{i} Q0 d{(i * j) % 7} {j} {9 - j} t\n" for i in range(12) for j in range(1, 7))
METRICS = "mrr,ndcg@5,recall@5"
CONFIG: dict[str, Any] = {
    "dataset": {"qrels": "gold.txt"},
    "runs": {"new": "run.txt"},
    "metrics": ["mrr", "ndcg@5"],
    "gates": ["mrr >= 0.1", {"metric": "ndcg@5", "min": 0.05}],
    "confidence": {"level": 0.9, "seed": 3},
}


def write_data(folder: Path) -> None:
    for name, text in (("gold.txt", GOLD), ("run.txt", RUN)):
        if not (folder / name).exists():
            (folder / name).write_text(text)


def refusal(done: Any, codes: tuple[int, ...]) -> Verdict | None:
    """What to say of a command that did not do its work; None for one that did."""
    if UNCLEAR.search(done.stderr) or "internal error" in done.stderr:
        return Verdict("wrong", done.stderr[:400])
    if not all(c.isprintable() or c in "\n" for c in done.stderr):
        return Verdict("wrong", f"control characters in an error: {done.stderr[:300]!r}")
    if done.returncode == 2:
        return (
            Verdict("refused")
            if "karat: " in done.stderr or "rror" in done.stderr
            else Verdict("wrong", "a silent error")
        )
    return None if done.returncode in codes else Verdict("wrong", f"exit {done.returncode}: {done.stderr[:300]}")


def refusal_in(message: str, case: Case) -> Verdict:
    """What to say of an error of a function: it names the file, in words."""
    clear = case.name in message and not UNCLEAR.search(message)
    return Verdict("refused") if clear else Verdict("wrong", message[:400])


# --- configs ------------------------------------------------------------------------------------------


def make_config(rng: Random, kind: str) -> Case:
    tree = CONFIG
    for _ in range(rng.choice([0, 1, 1, 2])):
        tree = mutate_tree(rng, tree)
    if not isinstance(tree, dict) or rng.random() < 0.5:
        text = json.dumps(tree)
    else:
        text = "".join(f"{json.dumps(str(key))}: {json.dumps(value)}\n" for key, value in tree.items())
    data = text.encode("utf-8", "surrogatepass")
    for _ in range(rng.choice([0, 0, 1, 2])):
        data = (mutate_lines if rng.random() < 0.5 else mutate_bytes)(rng, data)
    return Case(kind, "karat.yaml", data)


def judge_config(case: Case, folder: Path) -> Verdict:
    """A config is refused, or every gate that it states is judged."""
    write_data(folder)
    (folder / case.name).write_bytes(case.data)
    done = run_karat("check", "--no-cache", "--json", "-", cwd=folder)
    verdict = refusal(done, (0, 1, 3))
    if verdict is not None:
        return verdict
    document = json.loads(done.stdout)
    try:
        stated = json.loads(case.data)["gates"]
    except (ValueError, UnicodeDecodeError, TypeError, KeyError):
        return Verdict("unknown")
    if len(document["gates"]) < len(stated):
        return Verdict("wrong", f"{len(document['gates'])} gates are judged of {len(stated)}")
    return Verdict("equal")


# --- saved results ------------------------------------------------------------------------------------


@cache
def saved_bytes(kind: str) -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        gold, run, path = (os.path.join(folder, name) for name in ("gold.txt", "run.txt", "saved.json"))
        Path(gold).write_text(GOLD)
        Path(run).write_text(RUN)
        result = karat.evaluate(gold, run, METRICS, cache=False, details=True, resamples=100)
        if kind == "baseline":
            karat.bless(result, path)
        else:
            result.save(path)
        return Path(path).read_bytes()


def make_saved(rng: Random, kind: str) -> Case:
    data = saved_bytes(kind)
    if rng.random() < 0.8:
        tree = json.loads(data)
        for _ in range(rng.choice([1, 1, 2])):
            tree = mutate_tree(rng, tree)
        data = json.dumps(tree).encode("utf-8", "surrogatepass")
    else:
        data = mutate_bytes(rng, data)
    return Case(kind, "saved.json", data)


def judge_saved(case: Case, folder: Path) -> Verdict:
    """A saved result is refused, or its values are possible and give the means that the file states."""
    write_data(folder)
    path = folder / case.name
    path.write_bytes(case.data)
    config = CONFIG | {"baseline": "saved.json", "gates": ["mrr no worse than baseline by 0.1"]}
    (folder / "karat.yaml").unlink(missing_ok=True)
    result = ["--result", "saved.json", "-g", "mrr >= 0.1"]
    if case.kind == "baseline":
        (folder / "karat.yaml").write_text(json.dumps(config))
        result = []
    done = run_karat("check", "--no-cache", "--json", "-", *result, cwd=folder)
    verdict = refusal(done, (0, 1, 3))
    if verdict is not None:
        return verdict
    if case.kind == "baseline":
        return Verdict("equal")
    stated = json.loads(case.data)["runs"]
    for run, head in zip(karat.load(str(path)).runs, stated, strict=True):
        for name, values in run.values.items():
            numbers = [v for v in values.tolist() if not math.isnan(v)]
            mean = head["metrics"][name]["mean"]
            if any(not 0 <= v <= 1 for v in numbers) and name.startswith(("mrr", "ndcg", "recall")):
                return Verdict("wrong", f"{name} outside of 0 to 1")
            if abs(sum(numbers) / len(numbers) - mean) > 1e-6:
                return Verdict("wrong", f"{name}: {mean} does not follow from its values")
    return Verdict("equal")


# --- the cache ----------------------------------------------------------------------------------------


def make_entry(rng: Random, kind: str) -> Case:
    """Where to damage an entry of the cache, and how: a seed, since entries depend on the folder."""
    return Case(kind, "entry.json", json.dumps({"seed": rng.randrange(1 << 30), "zeros": rng.random() < 0.3}).encode())


def judge_entry(case: Case, folder: Path) -> Verdict:
    """A damaged entry changes no figure."""
    write_data(folder)
    plan = json.loads(case.data)
    rng = Random(plan["seed"])
    store = folder / "cache"
    with mock.patch.dict(os.environ, {"KARAT_CACHE_DIR": str(store)}), mock.patch("karat.store.cache.SMALLEST", 0):
        files = str(folder / "gold.txt"), str(folder / "run.txt")
        before = karat.evaluate(*files, METRICS, resamples=100)
        for entry in store.rglob("*.karat"):
            data = entry.read_bytes()
            begin = rng.randrange(len(data))
            data = (
                data[:begin] + bytes(min(64, len(data) - begin)) + data[begin + 64 :]
                if plan["zeros"]
                else mutate_bytes(rng, data)
            )
            entry.write_bytes(data)
        with mock.patch("sys.stderr"):
            after = karat.evaluate(*files, METRICS, resamples=100)
    return Verdict("equal") if before.mean == after.mean else Verdict("wrong", f"{before.mean} became {after.mean}")


# --- options ------------------------------------------------------------------------------------------

OPTIONS: dict[str, list[str]] = {
    "-m": [
        *("mrr", "ndcg@5", "recall@{1,5}", "ndcg(gain=exp)@3", "P_5"),
        *("mrr@0", "x", "ndcg@-1", "recall@1e9", "f1(beta=nan)@5", "@5", "ndcg("),
    ],
    "--ks": ["1,3", "0", "a", "1,,2", "99999999999999999999"],
    "--confidence": ["0.9", "1", "0", "nan", "95%", "-1", "1e-300"],
    "--method": ["t", "bca", "auto", "nope"],
    "--resamples": ["0", "10", "-5", "1e3", "x"],
    "--seed": ["0", "-1", "7", "18446744073709551616", "x"],
    "--min-segment": ["0", "3", "-1", "x"],
    "--threads": ["1", "0", "-1", "x"],
    "--memory": ["1KB", "2GB", "0", "-1", "lots", "1e400GB"],
    "--batch": ["1", "0", "-2"],
    "--level": ["chunk", "doc", "auto", "word"],
    "--separator": ["#", "", "  ", "d", "\x00", "é"],
    "--duplicates": ["first", "error", "no"],
    "--missing": ["zero", "skip"],
    "--like": ["trec_eval", "ranx", "ir_measures", "beir", "nobody"],
    "--by": ["language", "x:4", "a,b", "", "gold.source", "language in ("],
    "--run-format": ["trec", "csv", "json", "parquet", "nope"],
    "--queries": ["none.jsonl", "run.txt", ".", "/dev/null"],
    "--stage": ["retrieve", ""],
    "--binary": [],
    "--condensed": [],
    "--ignore-self": [],
    "--subtopics": [],
    "--as-of-filter": [],
    "--components": [],
    "--no-gold": [],
    "--nonsense": ["1"],
}


def make_options(rng: Random, kind: str) -> Case:
    words: list[str] = []
    for option in rng.sample(list(OPTIONS), rng.randint(1, 4)):
        words.append(option)
        if OPTIONS[option] and rng.random() < 0.95:
            words.append(rng.choice(OPTIONS[option] if rng.random() < 0.8 else [str(v) for v in VALUES if v != "\x00"]))
    return Case(kind, "options.json", json.dumps(words).encode())


def judge_options(case: Case, folder: Path) -> Verdict:
    """Options are refused, or the answer is JSON whose means lie within the bounds of their metrics."""
    write_data(folder)
    words = [word.replace("\x00", "") for word in json.loads(case.data)]
    done = run_karat("evaluate", "gold.txt", "run.txt", "--no-cache", "--json", "-", *words, cwd=folder)
    verdict = refusal(done, (0,))
    if verdict is not None:
        return verdict if done.stdout == "" or verdict.outcome == "wrong" else Verdict("wrong", "an error with output")
    for run in json.loads(done.stdout)["runs"]:
        for name, estimate in run["metrics"].items():
            if name.startswith(("mrr", "ndcg", "recall", "map")) and not -1e-9 <= (estimate["mean"] or 0) <= 1 + 1e-9:
                return Verdict("wrong", f"{name} is {estimate['mean']}")
    return Verdict("equal")


# --- outputs ------------------------------------------------------------------------------------------

HOSTILE = [
    *SPACED,
    "<script>alert(1)</script>",
    "|",
    "`",
    "]]>",
    "&amp;",
    "\\textbf{x}",
    "$",
    "%",
    "@x",
    "\u202e",
    "a\nb",
    "=cmd|x",
]


def make_outputs(rng: Random, kind: str) -> Case:
    queries = rng.sample(HOSTILE, rng.randint(1, 6))
    gold = {q: {d: rng.randint(0, 2) for d in rng.sample(HOSTILE, 3)} for q in queries}
    run = {q: rng.sample(HOSTILE, 4) for q in queries}
    return Case(kind, "data.json", json.dumps([gold, run]).encode())


def judge_outputs(case: Case, folder: Path) -> Verdict:
    """Every output can be parsed again, and holds the queries and values of the result."""
    gold, run = json.loads(case.data)
    (folder / "g.json").write_text(json.dumps(gold))
    (folder / "r.json").write_text(json.dumps(run))
    names = {"--json": "o.json", "--per-query": "o.csv", "--markdown": "o.md", "--latex": "o.tex", "--junit": "o.xml"}
    flags = [word for pair in names.items() for word in pair]
    config = {"dataset": {"qrels": "g.json"}, "runs": {"new": "r.json"}, "metrics": ["mrr"], "gates": ["mrr >= 0.5"]}
    (folder / "karat.yaml").write_text(json.dumps(config))
    done = run_karat("check", "--no-cache", "-q", *flags, cwd=folder)
    verdict = refusal(done, (0, 1, 3))
    if verdict is not None:
        return verdict
    expected = karat.evaluate(gold, run, "mrr", resamples=100).per_query("mrr")
    with open(folder / "o.csv", newline="", encoding="utf-8") as file:
        rows = {row["query_id"]: float(row["value"]) for row in csv.DictReader(file) if row["metric"] == "mrr"}
    plain = {query.removeprefix("'") if query not in expected else query: value for query, value in rows.items()}
    if plain.keys() != expected.keys() or any(abs(value - expected[q]) > 1e-9 for q, value in plain.items()):
        return Verdict("wrong", f"per-query CSV holds {plain}, expected {expected}")
    ElementTree.parse(folder / "o.xml")
    json.loads((folder / "o.json").read_text("utf-8"))
    if "<script>" in MarkdownIt("commonmark", {"html": True}).render((folder / "o.md").read_text("utf-8")):
        return Verdict("wrong", "a script in Markdown")
    return Verdict("equal")


# --- judgments ----------------------------------------------------------------------------------------


def make_judgments(rng: Random, kind: str) -> Case:
    """Lines by two people and a model; some replace earlier ones, some take them back."""
    judges: list[dict[str, Any]] = [
        {"kind": "person", "name": "ana"},
        {"kind": "person", "name": "ben"},
        {"kind": "model", "model": "m", "prompt": "ab12"},
    ]
    rows: list[Any] = []
    for _ in range(rng.randint(1, 8)):
        row: dict[str, Any] = {
            "query_id": f"q{rng.randrange(2)}",
            "doc_id": f"d{rng.randrange(3)}",
            "grade": rng.choice([0, 1, 2, 3, 3, None]),
            "scale": "0-3",
            "by": rng.choice(judges),
            "at": "2026-11-16T12:00:00+00:00",
        }
        if rng.random() < 0.3:
            row |= {"note": "é", "drawn": {"how": "random", "probability": 0.5}}
        rows.append(row)
    for _ in range(rng.choice([0, 1, 1])):
        place = rng.randrange(len(rows))
        rows[place] = mutate_tree(rng, rows[place])
    data = "".join(json.dumps(row) + "\n" for row in rows).encode("utf-8", "surrogatepass")
    for _ in range(rng.choice([0, 0, 1, 2])):
        data = (mutate_lines if rng.random() < 0.5 else mutate_bytes)(rng, data)
    return Case(kind, "judged.jsonl", data)


def judge_judgments(case: Case, folder: Path) -> Verdict:
    """A file is refused, or each judge's last grade of each pair counts, and nothing else."""
    path = folder / case.name
    path.write_bytes(case.data)
    try:
        rows = read_judgments(str(path)).rows
    except karat.InputError as error:
        return refusal_in(str(error), case)
    data = case.data
    if data and not data.endswith(b"\n"):  # half a line at the end may be what a crash left
        whole, _, rest = data.rpartition(b"\n")
        try:
            json.loads(rest)
        except ValueError:
            data = whole + b"\n" if whole else b""
    last: dict[str, Any] = {}
    try:
        for row in json_lines(data):
            key = json.dumps([row["query_id"], row["doc_id"], row["scale"], row["by"]], sort_keys=True)
            last.pop(key, None)
            last |= {key: row["grade"]} if row["grade"] is not None else {}
    except (Refusal, KeyError) as error:
        return Verdict("wrong", f"is read, though {error}")
    found = {
        json.dumps([r.query_id, r.doc_id, r.scale, json.loads(encode(r.by))], sort_keys=True): r.grade for r in rows
    }
    plain = {"parameters": {}, "votes": 1}  # what a judge has unless it is stated
    for key in [key for key in last if key not in found]:
        *ids, by = json.loads(key)
        bare = json.dumps([*ids, {n: v for n, v in by.items() if plain.get(n, ...) != v}], sort_keys=True)
        last[bare] = last.pop(key)
    return Verdict("equal") if found == last else Verdict("wrong", f"{found} instead of {last}")


@cache
def calibration_bytes() -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        return Path(Planted(Path(folder), 100).calibration).read_bytes()


def make_calibration(rng: Random, kind: str) -> Case:
    data = calibration_bytes()
    if rng.random() < 0.8:
        data = json.dumps(mutate_tree(rng, json.loads(data))).encode("utf-8", "surrogatepass")
    else:
        data = mutate_bytes(rng, data)
    return Case(kind, "calibration.json", data)


def judge_calibration(case: Case, folder: Path) -> Verdict:
    """A calibration is refused, or read as it stands."""
    path = folder / case.name
    path.write_bytes(case.data)
    try:
        calibration = read_calibration(str(path))
    except karat.InputError as error:
        return refusal_in(str(error), case)
    stated, found = json.loads(case.data), json.loads(encode(calibration))
    for name in ("judge", "fingerprint", "scale", "usable", "counts", "skill"):
        if name in stated and name in found and not is_part(found[name], stated[name]):
            return Verdict("wrong", f"{name} is {found[name]} instead of {stated[name]}")
    return Verdict("equal")


def is_part(found: Any, stated: Any) -> bool:
    """Whether all that was read stands in the file; what is unknown there may be left out."""
    if isinstance(found, dict) and isinstance(stated, dict):
        return all(is_part(value, stated[key]) for key, value in found.items() if key in stated)
    return bool(found == stated)


Make = Callable[[Random, str], Case]
Judge = Callable[[Case, Path], Verdict]
COMMANDS: dict[str, tuple[Make, Judge]] = {
    "config": (make_config, judge_config),
    "saved result": (make_saved, judge_saved),
    "baseline": (make_saved, judge_saved),
    "cache entry": (make_entry, judge_entry),
    "options": (make_options, judge_options),
    "outputs": (make_outputs, judge_outputs),
    "judgments": (make_judgments, judge_judgments),
    "calibration": (make_calibration, judge_calibration),
}
