"""Arguments and flags that subcommands of `karat judge` share."""

from __future__ import annotations

from typing import Annotated

import typer

from karat.cli import options as o

_TEXTS = "What to judge"
Pairs = Annotated[str, typer.Argument(metavar="PAIRS", help="A file of pairs, as karat judge pool writes it.")]
Queries = Annotated[str, o.option("The texts of the queries.", "--queries", metavar="FILE", panel=_TEXTS)]
Corpus = Annotated[str, o.option("The texts of the docs.", "--corpus", "--docs", metavar="FILE", panel=_TEXTS)]
Judgments = Annotated[
    str, o.option("The file that judgments are added to.", "-j", "--judgments", metavar="FILE", panel=_TEXTS)
]
ScaleName = Annotated[
    str | None, o.option("0-1, 0-2, 0-3 or 0-4; by default scale: of karat.yaml, else 0-3.", "--scale", metavar="SCALE")
]
ConfigFile = Annotated[
    str | None, o.option("A karat.yaml with scale:; by default the one here.", "-c", "--config", metavar="FILE")
]
ReadJudgments = Annotated[str, o.option("The file of judgments.", "-j", "--judgments", metavar="FILE")]
JudgeName = Annotated[
    str | None, o.option("The model, or its fingerprint, where the file holds several.", "--judge", metavar="NAME")
]
