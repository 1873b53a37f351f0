"""A calibration as Markdown: what the judge is worth, and what it does to a comparison of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.report import calibration as words
from karat.report.markdown import SENTENCE, lay_table, text

if TYPE_CHECKING:
    from karat.judge.calibration import Calibration
    from karat.report.reliability import Section


def render_calibration(one: Calibration) -> str:
    """All that the terminal shows."""
    parts = [f"## {text(one.judge.label + words.headline(one), SENTENCE)}"]
    if one.refusal is not None:
        parts.append(f"> **Not usable**: {text(one.refusal, 2 * SENTENCE)}")
    parts += (
        ["\n".join(f"> - {text(remark, SENTENCE)}" for remark in remarks)] if (remarks := words.remarks(one)) else []
    )
    parts.append(_lay(words.confusion(one)))
    parts.append(
        lay_table(["figure", "value"], [[text(name), text(value, SENTENCE)] for name, value in words.figures(one)])
    )
    if one.agreement is not None:
        parts.append("\n".join(f"- {text(each, SENTENCE)}" for each in words.people(one.agreement)))
    if one.biases:
        parts.append(_lay(words.biases(one)))
    if one.traits:
        parts.append("\n".join(f"- {text(each, SENTENCE)}" for each in words.trait_statements(one)))
    if one.systems is not None:
        parts.append(_lay(words.systems(one.systems)))
        lines = [*words.statements(one.systems), *words.legend(one.systems)]
        parts.append("\n".join(f"- {text(each, SENTENCE)}" for each in lines))
    return "\n\n".join(parts) + "\n"


def _lay(section: Section) -> str:
    table = lay_table([text(head) for head in section.heads], [[text(cell) for cell in row] for row in section.rows])
    return f"**{text(section.title)}**\n\n{table}" if section.title else table
