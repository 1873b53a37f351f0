"""What run logs hold by name, as metrics call it: latency, cost, and which steps ran."""

from __future__ import annotations

TOTAL = "total"
"""The key of a query's whole latency."""
AMOUNTS = {"latency": "latency_ms", "cost": "cost"}
"""What metrics call the fields of a line of a run log that hold numbers by name, and these fields."""
STAGES, SKIPPED = "stages", "skipped"
"""Which steps ran, as a line has it: the stages that it names, and that retrieval was skipped."""
