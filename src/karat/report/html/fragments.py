"""Components and diagnosis as small tables, from whatever of them a document holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

TITLES = {
    "retriever": "Raw retriever",
    "reranker": "Reranker",
    "funnel": "Stage funnel",
    "router": "Router",
    "gate": "Retrieval gate",
    "rewriting": "Query rewriting",
    "no_answer": "No answer",
    "entities": "Entities",
    "levels": "Chunks and docs",
}
ROWS = 40
"""Rows of one part that are shown; the document has all."""


def stages_of(components: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The stage funnel of each run whose log has stages: how many relevant docs ended where."""
    out = []
    for run, parts in components.items():
        funnel = parts.get("funnel") if isinstance(parts, dict) else None
        if not isinstance(funnel, dict) or not isinstance(funnel.get("figures"), dict):
            continue
        counts, k = funnel.get("counts", {}), (funnel.get("tables") or {}).get("k", parts.get("k"))
        total = counts.get("gold") or sum(_count(counts, name) for name in funnel["figures"]) or 1
        ended = {name: _count(counts, name) for name in funnel["figures"]}
        stages = [
            {"label": _end(name, k), "count": n, "share": round(100 * n / total, 1), "good": name == "delivered"}
            for name, n in ended.items()
        ]
        out.append({"run": run, "total": total, "stages": stages})
    return out


def _count(counts: Mapping[str, Any], name: str) -> int:
    found = counts.get(name, 0)
    return int(found) if isinstance(found, (int, float)) else 0


def _end(name: str, k: Any) -> str:
    if name == "cut":
        return f"cut at {k}" if k else "cut"
    return name.replace("lost_at.", "lost at ").replace("_", " ")


def parts_of(components: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every part of every run: figures and changes as rows, notes, and what is missing."""
    out = []
    for run, parts in components.items():
        for name, part in parts.items() if isinstance(parts, dict) else ():
            if not isinstance(part, dict):
                continue
            rows = [_figure(n, f) for n, f in _items(part.get("figures"))]
            changes = [_change(n, c) for n, c in _items(part.get("changes"))]
            if rows or changes or part.get("missing"):
                out.append(
                    {
                        "run": run,
                        "title": TITLES.get(name, name.replace("_", " ")),
                        "rows": rows[:ROWS],
                        "changes": changes[:ROWS],
                        "notes": [str(n) for n in part.get("notes", ())],
                        "missing": str(part.get("missing") or ""),
                        "counts": _told(part.get("counts")),
                    }
                )
    return out


def _items(found: Any) -> list[tuple[str, Mapping[str, Any]]]:
    return [(n, f) for n, f in found.items() if isinstance(f, dict)] if isinstance(found, dict) else []


def _figure(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    value = found.get("mean", found.get("estimate", found.get("value")))
    return {
        "name": name,
        "value": decimal(value),
        "exact": "" if value is None else repr(value),
        "range": ends(found.get("ci")),
        "n": found.get("n", ""),
    }


def _change(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    delta, ci = found.get("delta"), found.get("ci")
    sure = isinstance(ci, (list, tuple)) and None not in ci and (ci[0] > 0 or ci[1] < 0)
    return {
        "name": name,
        "before": decimal(found.get("mean_baseline")),
        "after": decimal(found.get("mean_candidate")),
        "delta": decimal(delta, sign=True),
        "exact": "" if delta is None else repr(delta),
        "range": ends(ci, sign=True),
        "tone": ("up" if delta > 0 else "down") if sure and delta else "",
    }


def _told(counts: Any) -> str:
    plain = [(n, c) for n, c in counts.items() if isinstance(c, (int, float))] if isinstance(counts, dict) else []
    return ", ".join(f"{n.replace('_', ' ')} {c:,}" for n, c in plain)


def decimal(value: Any, *, sign: bool = False) -> str:
    """A number in three digits."""
    if not isinstance(value, (int, float)):
        return "–" if value is None else str(value)
    return f"{'−' if value < 0 else '+' if sign else ''}{abs(value):.3f}"


def ends(ci: Any, *, sign: bool = False) -> str:
    """The ends of an interval."""
    return " to ".join(decimal(x, sign=sign) for x in ci) if isinstance(ci, (list, tuple)) else ""


def findings(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Findings of a diagnosis: what, the evidence, the likely cause, what to try, and where to look."""
    out = []
    for f in told:
        tried = f.get("try") or f.get("advice") or ()
        queries = f.get("queries")
        out.append(
            {
                "title": str(f.get("title") or f.get("what") or f.get("code") or "Finding"),
                "run": str(f.get("run") or ""),
                "evidence": [_evidence(e) for e in _list(f.get("evidence"))],
                "cause": str(f.get("cause") or ""),
                "advice": [str(a) for a in _list(tried)],
                "subject": str(f.get("subject") or ""),
                "queries": [str(q) for q in _list(queries)],
                "count": f.get("count", len(_list(queries))),
            }
        )
    return out


def _list(found: Any) -> list[Any]:
    return [] if found is None else list(found) if isinstance(found, (list, tuple)) else [found]


def _evidence(found: Any) -> str:
    if not isinstance(found, dict):
        return str(found)
    value = f"{found.get('value', found.get('name', ''))} {decimal(found.get('estimate'))}".strip()
    interval = f" ({ends(found['ci'])})" if found.get("ci") else ""
    side = ""
    if found.get("side") in ("low", "high") and found.get("threshold") is not None:
        side = f", {'below' if found['side'] == 'low' else 'above'} {found['threshold']:g}"
    n = f", {found['n']:,} queries" if isinstance(found.get("n"), int) else ""
    return f"{value}{interval}{side}{n}"
