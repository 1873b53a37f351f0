"""The baseline: a result that somebody blessed, in a file small enough to commit."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from karat.errors import InputError, UsageError
from karat.results.saved import load
from karat.store.atomic import encoded, write_atomically
from karat.store.codec import rounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.results.result import Result

DEFAULT_FILE = "karat.baseline.json"


def bless(
    result: Result | str, output: str = DEFAULT_FILE, *, run: str | None = None, metrics: Sequence[str] = ()
) -> str:
    """Make one run of a result (or of a saved one) the baseline: write its values per query and what they rest on.

    Only these `metrics` are kept, all unless named. One line a query, so that a change of the baseline reads well
    in a review.
    """
    from karat import __version__

    held = load(result) if isinstance(result, str) else result
    names = [r.name for r in held.runs]
    if run is None and len(names) > 1:
        raise UsageError(f"the result holds {len(names)} runs: {', '.join(names)}; choose one to bless (run=, --run)")
    chosen = held[run] if run is not None else held.runs[0]
    if not held.fingerprints:
        raise InputError("the result has no fingerprints, which a baseline needs; evaluate again with this version")
    kept = {n: v for n, v in chosen.values.items() if not metrics or n in metrics}
    only = replace(held, runs=(replace(chosen, values=kept),))
    document = {**only.as_json(), "kind": "baseline", "karat": __version__}
    for part in ("segments", "across", "components"):
        document["runs"][0].pop(part, None)
    if chosen.sampling.weights:  # the means are of these, and cannot be told from the values alone
        document["runs"][0]["sampling"] = replace(chosen.sampling, by=(), fields={}).as_json()
    prints = document["fingerprints"]
    document["fingerprints"] = {**prints, "metrics": {n: p for n, p in prints["metrics"].items() if n in kept}}
    head = json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False)
    columns = [v.tolist() for v in kept.values()]
    rows = [
        f"  {json.dumps(q, ensure_ascii=False)}: {json.dumps([rounded(c[i]) for c in columns])}"
        for i, q in enumerate(chosen.query_ids)
    ]
    text = head.removesuffix("\n}") + ',\n "values": {\n' + ",\n".join(rows) + "\n }\n}\n"
    write_atomically(output, encoded(text))
    return output
