"""A check as JUnit XML, as CI systems read it: a case per gate, run and segment; warnings that fail are skipped cases.

What fails is a failure. What is undecided is an error, never a pass: a reader must not mistake it. Warnings are
skipped cases with their reason, since they change nothing.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

from karat.gates.wording import advise, describe, label_gate, note_pooling, note_reference
from karat.results.fingerprints import note_forced

if TYPE_CHECKING:
    from karat.gates.judge import JudgedGate
    from karat.report.formats import Problem
    from karat.report.view import View

_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, even escaped."""


def render(view: View) -> bytes:
    """The file."""
    cases = [_case(row) for row in view.gate_rows]
    counts = {
        "tests": len(cases),
        "failures": _count(cases, "failure"),
        "errors": _count(cases, "error"),
        "skipped": _count(cases, "skipped"),
        "time": 0,
    }
    attributes = {name: str(count) for name, count in counts.items()}
    root = ET.Element("testsuites", {"name": "karat", **attributes})
    suite = ET.SubElement(root, "testsuite", {"name": _clean(view.title or "karat"), **attributes})
    properties = ET.SubElement(suite, "properties")
    names = ", ".join(system.name for system in view.candidates)
    facts = {"verdict": view.verdict or "", "why": view.why, "candidates": names}
    if view.baseline is not None:
        facts["baseline"] = view.baseline.label
    facts |= {f"fingerprint.{name}": str(value) for name, value in view.result.fingerprints.hashes.items()}
    if view.forced:
        facts["forced"] = "; ".join(map(str, view.forced))
    for name, value in facts.items():
        ET.SubElement(properties, "property", {"name": _clean(name), "value": _clean(value)})
    suite.extend(cases)
    lines = [f"{view.verdict}: {view.why}", *([f"conventions: {view.conventions}"] if view.conventions else [])]
    lines += [*note_forced(view.forced), *view.notes, *(f"note: {remark.text}" for remark in view.remarks)]
    lines += [f"significantly worse: {fall.statement}" for fall in view.falls]
    ET.SubElement(suite, "system-out").text = _clean("\n".join(lines))
    ET.indent(root)
    data: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return data + b"\n"


def render_error(problem: Problem) -> bytes:
    """The file where an error came before any verdict: one case, which is that error."""
    counts = {"tests": "1", "failures": "0", "errors": "1", "skipped": "0", "time": "0"}
    root = ET.Element("testsuites", {"name": "karat", **counts})
    suite = ET.SubElement(root, "testsuite", {"name": _clean(problem.title or "karat"), **counts})
    case = ET.SubElement(suite, "testcase", {"classname": "karat", "name": "nothing was decided", "time": "0"})
    message = _clean("; ".join(problem.messages))
    ET.SubElement(case, "error", {"message": message, "type": "input"}).text = _clean("\n".join(problem.messages))
    ET.indent(root)
    data: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return data + b"\n"


def _count(cases: list[ET.Element], kind: str) -> int:
    return sum(case.find(kind) is not None for case in cases)


def _case(row: JudgedGate) -> ET.Element:
    gate = label_gate(row.gate)
    name = f"{gate} [{row.where}]" if row.gate.every else gate
    case = ET.Element("testcase", {"classname": _clean(f"karat.{row.run}"), "name": _clean(name), "time": "0"})
    outcome = row.judged.outcome
    what, why = describe(row), row.judged.why
    notes = [note for note in (note_reference(row), advise(row), note_pooling([row])) if note not in what]
    said = any(why in text for text in (what, *notes))
    message = _clean("; ".join(filter(None, (what, "" if said else why, *notes))))
    if outcome != "pass" and row.gate.level == "warn":
        ET.SubElement(case, "skipped", {"message": f"warning, {outcome}: {message}"})
    elif outcome == "fail":
        ET.SubElement(case, "failure", {"message": message, "type": "gate"}).text = message
    elif outcome == "undecided":
        ET.SubElement(case, "error", {"message": message, "type": "undecided"}).text = message
    elif any(notes):
        ET.SubElement(case, "system-out").text = message
    return case


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
