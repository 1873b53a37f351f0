"""Incomplete gold, a judge whose errors are known, and labels of people."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from karat.judge.calibration import calibrate
from karat.judge.judgments import Judgment, Judgments, ModelJudge, Person, add_judgments
from karat.judge.pairs import draw_queries, draw_sample

NOON = "2026-11-16T12:00:00+00:00"
MODEL = ModelJudge("m", "p")


class Planted:
    """Gold on a third of 30 docs for each of 80 queries, a judge that is too generous, and labels on a sample.

    With `whole`, the labels are on all pairs of so many queries.
    """

    def __init__(self, folder: Path, labels: int, *, seed: int = 5, whole: bool = False) -> None:
        rng = np.random.default_rng(seed)
        self.truth = {(f"q{q:02}", f"d{d:02}"): int(rng.random() < 0.3) for q in range(80) for d in range(30)}
        gold = {pair for pair in self.truth if int(pair[1][1:]) % 3 == 0}
        self.qrels: dict[str, dict[str, int]] = {}
        for query, doc in sorted(gold):
            self.qrels.setdefault(query, {})[doc] = self.truth[query, doc]
        self.run = {q: [f"d{d:02}" for d in range(30)] for q in self.qrels}
        rows = [
            Judgment(*pair, value if rng.random() < 0.75 else 1, "0-1", MODEL, NOON)
            for pair, value in self.truth.items()
            if pair not in gold
        ]
        people = [
            Judgment(*pair.ids, self.truth[pair.ids], "0-1", Person("ana"), NOON, drawn=pair.drawn)
            for pair in (draw_queries if whole else draw_sample)(rows, labels, seed=seed)
        ]
        self.folder = folder
        self.files = [str(folder / name) for name in ("judged.jsonl", "labels.jsonl")]
        for path, judgments in zip(self.files, (rows, people), strict=True):
            add_judgments(path, judgments)
        self.calibration = str(folder / "calibration.json")
        calibrate(rows, Judgments(tuple(people), "labels.jsonl"), range(2)).save(self.calibration)

    @property
    def precision(self) -> float:
        return float(np.mean([[self.truth[q, d] for d in docs[:10]] for q, docs in self.run.items()]))

    @property
    def full_qrels(self) -> dict[str, dict[str, int]]:
        """What people say of every pair."""
        out: dict[str, dict[str, int]] = {}
        for (query, doc), grade in self.truth.items():
            out.setdefault(query, {})[doc] = grade
        return out

    def write_inputs(self) -> tuple[str, str]:
        """The gold and the run as files."""
        lines = [f"{q} 0 {d} {g}\n" for q, docs in self.qrels.items() for d, g in docs.items()]
        run = {q: {d: 30 - i for i, d in enumerate(docs)} for q, docs in self.run.items()}
        (self.folder / "qrels.txt").write_text("".join(lines))
        (self.folder / "run.json").write_text(json.dumps(run))
        return str(self.folder / "qrels.txt"), str(self.folder / "run.json")
