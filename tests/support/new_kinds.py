"""Karat with two more kinds of gates: that in the first argument, and one against a run.

Prints what becomes of them as JSON. A process of its own: the tables of kinds are made when modules are loaded.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import karat

spec = importlib.util.spec_from_file_location("karat.gates.kinds", Path(karat.__file__).parent / "gates" / "kinds.py")
assert spec is not None and spec.loader is not None
kinds: Any = importlib.util.module_from_spec(spec)
sys.modules["karat.gates.kinds"] = kinds
spec.loader.exec_module(kinds)
strays = kinds.GateKind(
    "strays",
    key="strays",
    help="At most this far from a run.",
    form="{margin} off {run}",
    region=lambda margin, _: kinds.Region(-margin, margin),
    limit="at most {amount} either way is allowed",
)
kinds.KINDS = (*kinds.KINDS, eval(sys.argv[1], vars(kinds)), strays)

from karat.config.models import Config  # noqa: E402
from karat.gates.evidence import judge_gates  # noqa: E402
from karat.gates.language import parse_gate  # noqa: E402
from karat.gates.wording import describe  # noqa: E402
from karat.report.html.sections import _strip  # noqa: E402


def read(source: Any) -> str:
    try:
        gate = parse_gate(source)
    except karat.UsageError as error:
        return str(error)
    assert parse_gate(str(gate)) == gate
    return str(gate)


def run(hits: int) -> dict[str, list[str]]:
    """A run that finds the doc of this many queries of 100."""
    return {f"q{i}": ["d"] if i < hits else ["x"] for i in range(100)}


def judged(*gates: str) -> dict[str, Any]:
    runs = {"base": run(50), "same": run(50), "up": run(90), "down": run(10), "near": run(57)}
    result = karat.evaluate({f"q{i}": {"d": 1} for i in range(100)}, runs, "hit@1,mrr")
    out: dict[str, Any] = {}
    for row in judge_gates([parse_gate(gate) for gate in gates], result, ["same", "up", "down", "near"]):
        document, strip = row.document(), _strip(row)
        assert strip is not None
        ends = (strip.start, round(strip.start + strip.width, 1))
        out.setdefault(str(row.gate), {})[row.run] = {
            "outcome": row.outcome,
            "end": f"{document.op} {document.threshold:g}",
            "says": describe(row),
            "strip": ["edge" if at in (4.0, 176.0) else "inside" for at in ends],
        }
    return out


def main() -> None:
    texts = (
        "hit@1 spans 0.4 upto 60%",
        {"metric": "hit@1", "spans": 0.4, "upto": "60%"},
        "latency.p50 spans 40 upto 60",
        "mrr strays 5% off baseline where language = pt",
        {"metric": "mrr", "strays": "5%", "off": "baseline", "where": {"language": "pt"}},
        "hit@1 spans 0.6 upto 0.4",
        "hit@1 spans 0.4",
        "hit@1 spans 0 upto 1",
        {"metric": "hit@1", "spans": 0.4},
        {"metric": "hit@1", "min": 0.4, "upto": 0.5},
        "gm_map strays 0.05 off baseline",
        "mrr starys 0.05 off baseline",
        "mrr differs from 0.05",
    )
    schema = Config.model_json_schema()["$defs"]["GateKeys"]["properties"]
    rows = judged("hit@1 spans 0.3 upto 0.7", "mrr strays 0.2 off base", "mrr strays 40% off base")
    print(json.dumps({"texts": [read(text) for text in texts], "rows": rows, "keys": list(schema)}))


main()
