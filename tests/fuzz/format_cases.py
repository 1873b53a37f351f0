"""Case files."""

from __future__ import annotations

import re
from random import Random
from typing import Any

from references import Gold, expect, finite, id_of, parse_json, text_of
from samples import Case, Kind, damage_json


def _cases(rng: Random, kind: str) -> Case:
    cases: list[Any] = []
    for n in range(rng.randint(1, 5)):
        ids = rng.sample(["HP:0000118", "HP:0000001", "HP:0001250", "X:1"], rng.randint(1, 3))
        expected: Any = ids if rng.random() < 0.5 else {i: rng.choice([1, 2, 0.5]) for i in ids}
        case = {"case_id": f"c{n}", "text": rng.choice(["Kopfschmerz", "a", "ä"]), "expected_ids": expected}
        if rng.random() < 0.3:
            case["difficulty"] = rng.choice(["easy", "hard"])
        cases.append(case)
    tree: Any = cases if rng.random() < 0.4 else {"metadata": {"language": "de"}, "test_cases": cases}
    return damage_json(rng, kind, "cases.json", [tree])


def read_cases(data: bytes, kind: str) -> Gold:
    tree = parse_json(text_of(data))
    cases = tree.get("test_cases") if isinstance(tree, dict) else tree
    expect(isinstance(cases, list), "no cases")
    out: Gold = {}
    for n, case in enumerate(cases, start=1):
        expect(isinstance(case, dict), "not a case")
        id = id_of(case.get("case_id", n))
        expect(id not in out and isinstance(case.get("text"), str) and case["text"].strip(), "case")
        ids = next((case[name] for name in ("expected_ids", "expected_hpo_ids") if name in case), None)
        if isinstance(ids, list):
            ids = dict.fromkeys(map(id_of, ids), 1)
        expect(isinstance(ids, dict) and ids, "ids")
        out[id] = {id_of(i): finite(g) for i, g in ids.items()}
        expect(all(g > 0 for g in out[id].values()), "grades")
        for i in ids:
            expect(i.strip() and (not i.startswith("HP:") or re.fullmatch(r"HP:\d{7}", i)), "HPO")
    return out


KINDS = {"cases": Kind(_cases, read_cases)}
