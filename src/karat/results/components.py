"""The components of a pipeline, each measured for itself, as a result holds them."""

from __future__ import annotations

import math
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any, TypedDict

from karat.errors import ResultError, nearest
from karat.metrics.component_figures import place_of
from karat.records import dataclass
from karat.results.decision_document import ComparisonJson, read_decision
from karat.results.decisions import Decision, number
from karat.results.figures import share_figure
from karat.results.table import Cell, Table, Tabular
from karat.stats.intervals import Interval
from karat.store.codec import as_plain, rounded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karat.metrics.grammar import Measure
    from karat.model.json_data import JsonObject
    from karat.results.document import ComponentsJson, EstimateJson, PartJson
    from karat.results.remarks import Remark


QueryCell = bool | int | float | str | list[str] | None
"""What a component holds of one query under one name."""


class ComponentTables(TypedDict, total=False):
    """What a component has beside figures: names of stages, a confusion table, a curve."""

    stage: str
    before: str
    after: str
    stages: list[str]
    k: int
    confusion: dict[str, dict[str, int]]
    threshold: float
    curve: dict[str, list[float | None]]


@dataclass(frozen=True)
class Component:
    """One component: figures with intervals, changes with tests, counts, tables; or what is missing to measure it."""

    name: str
    figures: Mapping[str, Interval] = field(default_factory=dict)
    changes: Mapping[str, Decision] = field(default_factory=dict)
    """Differences on the same queries: after − before."""
    counts: Mapping[str, int] = field(default_factory=dict)
    tables: ComponentTables = field(default_factory=lambda: ComponentTables())
    per_query: Mapping[str, Mapping[str, QueryCell]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    missing: str = ""
    """Which field is missing, and where; empty where the component was measured."""

    @property
    def measured(self) -> bool:
        return not self.missing

    def __bool__(self) -> bool:
        return self.measured

    def __getitem__(self, name: str) -> Any:
        """A figure (Interval) or a change (Decision) by its name."""
        known = {**self.figures, **self.changes}
        if name in known:
            return known[name]
        if self.missing:
            raise ResultError(f"{self.name} was not measured: {self.missing}")
        near = nearest(name, known)
        hint = f"; did you mean {near!r}?" if near else ""
        raise ResultError(f"{self.name} has no {name!r}; it has {', '.join(known)}{hint}")

    def document(self) -> PartJson:
        """This component as the JSON document has it."""
        from msgspec import UNSET

        from karat.results.document import PartJson

        if self.missing:
            return PartJson(measured=False, missing=self.missing)
        return PartJson(
            measured=True,
            figures={name: _estimate_json(one) for name, one in self.figures.items()} or UNSET,
            changes={name: _change_json(one) for name, one in self.changes.items()} or UNSET,
            counts=dict(self.counts) or UNSET,
            tables=self.tables or UNSET,
            per_query={q: dict(row) for q, row in self.per_query.items()} or UNSET,
            notes=list(self.notes) or UNSET,
        )

    def as_json(self) -> JsonObject:
        """This component as plain data."""
        return as_plain(self.document())


@dataclass(frozen=True)
class Components(Tabular):
    """Every component of a run's pipeline, measured or with what is missing to measure it."""

    run: str
    retriever: Component
    reranker: Component
    funnel: Component
    router: Component
    gate: Component
    rewriting: Component
    no_answer: Component
    entities: Component
    levels: Component
    k: int = field(default=5, kw_only=True)
    remarks: tuple[Remark, ...] = field(default=(), kw_only=True)
    """What is odd about the data, where no result beside them says it."""

    @property
    def parts(self) -> tuple[Component, ...]:
        """All components, in the order in which reports show them."""
        return tuple(getattr(self, name) for name in NAMES)

    @property
    def own_notes(self) -> tuple[str, ...]:
        """The notes of each component, after its name."""
        return tuple(f"{part.name}: {note}" for part in self.parts for note in part.notes)

    @property
    def missing(self) -> dict[str, str]:
        """By component: what is missing to measure it."""
        return {part.name: part.missing for part in self.parts if part.missing}

    def table(self) -> Table:
        """A row for every figure and every change; a caption names what was not measured, and what is missing."""
        rows: list[tuple[Cell, ...]] = []
        cells: list[tuple[str, ...]] = []
        for part in self.parts:
            levels = [(name, one, False) for name, one in part.figures.items()]
            changes = [(name, one.difference, True) for name, one in part.changes.items()]
            for name, one, change in [*levels, *changes]:
                share = share_figure(one.estimate, one.low, one.high, difference=change)
                rows.append((part.name, name, change, one.estimate, one.low, one.high, one.n))
                cells.append((part.name, f"Δ {name}" if change else name, share.text, share.interval, f"{one.n:,}"))
        columns = ("component", "figure", "change", "value", "low", "high", "n")
        missing = [f"{name} {reason}" for name, reason in self.missing.items()]
        heads = ("component", "figure", "value", "interval", "n")
        return Table(columns, rows, heads, cells, "; ".join(missing), self.notes)

    def document(self) -> ComponentsJson:
        """The components as the JSON document has them."""
        from karat.results.document import ComponentsJson

        return ComponentsJson(k=self.k, **{part.name: part.document() for part in self.parts})

    def as_json(self) -> JsonObject:
        """The components as plain data."""
        return as_plain(self.document())

    def __repr__(self) -> str:
        measured = ", ".join(part.name for part in self.parts if part.measured)
        return f"Components({self.run}: {measured or 'nothing measured'}; missing: {', '.join(self.missing) or 'none'})"


NAMES = tuple(f.name for f in fields(Components) if f.name not in ("run", "k", "remarks"))
"""The names of the components, in the order in which reports show them."""


def figure_of_component(components: Components, measure: Measure) -> tuple[Interval | None, str]:
    """A figure, or a change, by the name that gates give it; or why there is none."""
    component, name = place_of(measure)
    part: Component = getattr(components, component)
    if part.missing:
        return None, f"{component} was not measured: {part.missing}"
    if name in part.changes:
        return part.changes[name].difference, ""
    if name in part.figures:
        return part.figures[name], ""
    known = [*part.changes, *part.figures]
    near = nearest(name, known)
    hint = f"; did you mean {component}.{near}?" if near else ""
    return None, f"{component} has no figure {name!r} at k = {components.k}; it has {', '.join(known)}{hint}"


def improvement(change: Decision) -> float:
    """Δ in percent of the value before; undefined where that is zero."""
    before, delta = rounded(change.mean_baseline), rounded(change.delta)  # as files hold them
    return 100 * delta / before if before and before > 0 and delta is not None else math.nan


def _estimate_json(one: Interval) -> EstimateJson:
    from karat.results.summary import estimate_json

    return estimate_json(one)


def _change_json(change: Decision) -> ComparisonJson:
    from msgspec import structs

    return structs.replace(change.document(), improvement=rounded(improvement(change)))


def read_components(run: str, document: ComponentsJson) -> Components:
    """The components of a run as a saved result holds them."""
    return Components(run, *(_read_component(name, getattr(document, name)) for name in NAMES), k=document.k)


def _read_component(name: str, document: PartJson) -> Component:
    return Component(
        name,
        {n: _read_interval(one) for n, one in (document.figures or {}).items()},
        {n: read_decision(row) for n, row in (document.changes or {}).items()},
        document.counts or {},
        document.tables or {},
        document.per_query or {},
        tuple(document.notes or ()),
        document.missing or "",
    )


def _read_interval(one: EstimateJson) -> Interval:
    low, high = one.ci or (None, None)
    return Interval(number(one.mean), number(low), number(high), one.ci_method, one.n, one.n_eff or math.nan)
