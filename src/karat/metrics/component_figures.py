"""Figures of components by name, for gates: `retriever.recall@50`, `reranker.ndcg@5`, `funnel.delivered`.

A component measures them from a run log; they are not computed from rankings, and lists of metrics leave them out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from karat.errors import MetricError, nearest
from karat.metrics.registry import metric

if TYPE_CHECKING:
    from karat.metrics.grammar import Measure
    from karat.model.rankings import Rankings

COMPONENT = "component"
NEVER, LOST, CUT, DELIVERED = "never_retrieved", "lost_at", "cut", "delivered"
"""Where relevant docs end in the funnel; of those lost, the stage follows."""
FIGURES = {"funnel": (NEVER, LOST, CUT, DELIVERED), "entities": ("entity_precision", "entity_recall", "entity_f1")}
"""The figures of components that have names of their own; those of others are metrics."""
_STAGE = f" (a stage follows, such as funnel.{LOST}.rerank)"


def _declare(
    name: str, title: str, tells: str, example: str, *, better: bool | None = True, change: bool = False
) -> None:
    @metric(
        name,
        title=title,
        tells=tells,
        family=COMPONENT,
        bounds=(-1.0, 1.0) if change else (0.0, 1.0),
        dotted=("figure", "stage"),
        example=example,
        higher_is_better=better,
        needs=("components",),
        listed=False,
    )
    def refuse(r: Rankings, k: int | None = None, *, figure: str, stage: str = "") -> NoReturn:
        raise MetricError(f"{example} is a figure of a component: a gate may name it, and --components shows it")


_declare("retriever", "Raw retriever", "A metric of the first stage's list.", "retriever.recall@50")
_declare("reranker", "Reranker", "The change that reranking makes to a metric.", "reranker.ndcg@5", change=True)
_declare("rewriting", "Query rewriting", "The change that rewriting makes.", "rewriting.recall@5", change=True)
_declare("funnel", "Stage funnel", "The share of relevant docs that end there.", "funnel.delivered", better=None)
_declare("entities", "Entities", "Precision, recall and F1 of entity linking.", "entities.entity_f1")


def is_component_figure(measure: Measure) -> bool:
    """Whether a component measures it."""
    return measure.metric.family == COMPONENT


def check_component_figure(measure: Measure) -> None:
    """Refuse a figure that no component could have, whatever is measured."""
    from karat.metrics.grammar import parse

    component, name = place_of(measure)
    names = FIGURES.get(component)
    if names is None:
        try:
            parse(name)
        except MetricError as error:
            raise MetricError(f"{component} has no figure {name!r}: {error}") from None
    elif (own := measure.param("figure")) not in names:
        near = nearest(own, names)
        hint = f"; did you mean {component}.{near}?" if near else f"; there are {', '.join(names)}"
        raise MetricError(f"{component} has no figure {own!r}{hint}{_STAGE if near == LOST else ''}")
    elif own == LOST and not measure.param("stage"):
        raise MetricError(f"{component}.{own} lacks its stage, such as funnel.{LOST}.rerank")


def place_of(measure: Measure) -> tuple[str, str]:
    """The component, and the name of the figure in it."""
    parts = [measure.param("figure"), measure.param("stage")]
    cut = "" if measure.k is None else f"@{int(measure.k)}"
    return measure.metric.name, ".".join(filter(None, parts)) + cut
