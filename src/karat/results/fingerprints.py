"""What a result rests on, in few characters each: two results are compared only where these agree.

Fingerprints are of content, not of files: the same gold in another format or order has the same one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from karat.metrics.grammar import Measure
    from karat.model.qrels import Qrels
    from karat.model.queries import Queries

EMBEDDING_MODEL = "embedding_model"
"""The convention that names the model of the embeddings."""
COUNTED = ("text", "as_of", "no_answer", "conversation", "weight")
"""The fields of a query that can change a result; others only slice it."""
PART = 8
"""Characters of the fingerprint of one field: it names what differs, and does not decide."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which two results differ."""

    what: str
    here: str
    there: str
    note: str = ""
    """Which part of it, where that is known."""

    def as_json(self) -> dict[str, str]:
        """This difference as JSON documents have it."""
        return {"what": self.what, "here": self.here, "baseline": self.there}

    def __str__(self) -> str:
        return self.told()

    def told(self, here: str = "", there: str = "") -> str:
        """The difference in words, with the files that it is between, where they are known."""
        ours, theirs = (f" ({place})" if place else "" for place in (here, there))
        note = f"{self.note}: " if self.note else ""
        return f"{self.what}: {note}{self.here} here{ours}, {self.there} in the baseline{theirs}"


def of_gold(qrels: Qrels) -> dict[str, Any]:
    """The judgments, whatever their order, and how many there are."""
    import hashlib

    digest = hashlib.sha256()
    for i, query in enumerate(qrels.query_ids):
        a, b = int(qrels.offsets[i]), int(qrels.offsets[i + 1])
        judged = sorted(zip(qrels.docs[a:b], qrels.grades[a:b].tolist(), strict=True))
        digest.update("".join(f"{query}\t{d}\t{g:.12g}\n" for d, g in judged).encode("utf-8", "surrogatepass"))
    if (by := qrels.subtopics) is not None:
        told = zip(by.judgment.tolist(), by.names, by.grades.tolist(), strict=True)
        digest.update(
            "\n".join(
                sorted(
                    f"{qrels.query_ids[int(qrels.query_of[j])]}\t{qrels.docs[j]}\t{name}\t{g:.12g}"
                    for j, name, g in told
                )
            ).encode("utf-8", "surrogatepass")
        )
    return {"hash": digest.hexdigest()[:16], "queries": len(qrels.query_ids), "judgments": len(qrels.docs)}


def of_queries(queries: Queries) -> dict[str, Any]:
    """The queries with all that can change a result, as a whole and field by field; fields to slice by are left out."""
    ids = sorted(queries.fields)
    told = [[q, *(_plain(queries.fields[q].get(f)) for f in COUNTED)] for q in ids]
    columns = {f: [[row[0], row[i]] for row in told if row[i] is not None] for i, f in enumerate(COUNTED, start=1)}
    fields = {f: _short(held)[:PART] for f, held in columns.items() if held}
    return {"hash": _short(told), "queries": len(ids), "fields": fields}


def of_file(path: str) -> str:
    """The bytes of a file."""
    import hashlib

    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def of_metric(measure: Measure, model: str | None = None) -> str:
    """A metric's definition: its declaration, its parameters, and the code of one that Karat does not bring.

    The model of the embeddings that it looks at is part of it.
    """
    m = measure.metric
    told = [
        measure.name,
        m.formula,
        m.aggregate,
        m.no_results or 0.0,
        m.empty_gold or 0.0,
        m.higher_is_better,
        [[p.name, p.default] for p in m.params],
    ]
    if not m.compute.__module__.startswith("karat."):
        told.append(_code(m.compute))
    if model is not None:
        told.append({"embedding_model": model})
    return _short(told)


def _code(function: Any) -> str:
    """A function's source without comments and layout; its name where the source is not at hand."""
    import ast
    import inspect
    import textwrap

    try:
        return ast.dump(ast.parse(textwrap.dedent(inspect.getsource(function))))
    except (OSError, TypeError, SyntaxError):
        return f"{function.__module__}.{getattr(function, '__qualname__', '')}"


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _short(told: Any) -> str:
    import hashlib

    written = json.dumps(told, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass")
    return hashlib.sha256(written).hexdigest()[:16]


def differences(here: Mapping[str, Any], there: Mapping[str, Any], metrics: Iterable[str]) -> list[Difference]:
    """Where the fingerprints of two results differ, by the name of what differs; only these metrics count."""
    from karat.model.items import UNNAMED

    out = []
    for what in ("gold", "queries", "corpus"):
        mine, theirs = here.get(what), there.get(what)
        if hash_of(mine) != hash_of(theirs):
            out.append(_between(what, mine, theirs))
    mine, theirs = here.get("conventions", {}), there.get("conventions", {})
    for name in sorted({*mine, *theirs} - {EMBEDDING_MODEL}):  # that counts for the metrics that look at embeddings
        if mine.get(name) != theirs.get(name):
            pair = [json.dumps(c[name], ensure_ascii=False) if name in c else "the default" for c in (mine, theirs)]
            out.append(Difference(f"convention {name}", *pair))
    mine, theirs = here.get("metrics", {}), there.get("metrics", {})
    for name in metrics:
        models = [r.get("embeddings", {}).get(name) for r in (here, there)]
        if name in mine and name in theirs and (models[0] != models[1] or UNNAMED in models):
            out.append(Difference(f"the embedding model of {name}", *(m or "none" for m in models)))
        elif name in mine and name in theirs and mine[name] != theirs[name]:
            out.append(Difference(f"the definition of {name}", mine[name], theirs[name]))
    return out


def hash_of(print_: Any) -> str | None:
    """What decides whether two fingerprints are equal; one of an older version is nothing but its hash."""
    found: str | None = print_["hash"] if isinstance(print_, dict) else print_
    return found


def _between(what: str, mine: Any, theirs: Any) -> Difference:
    """What is known of a difference: counts where these differ, the fields of the queries that do, else the hashes."""
    known = isinstance(mine, dict) and isinstance(theirs, dict)
    alike = not known or _counted(mine) == _counted(theirs)
    ours, other = (_described(p, hashed=alike) for p in (mine, theirs))
    note = ""
    if known and "fields" in mine:
        both = [f for f in COUNTED if mine["fields"].get(f) != theirs["fields"].get(f)]
        note = f"{', '.join(both)} differ{'s' if len(both) == 1 else ''}" if both else ""
    elif known and alike:
        note = "as many judgments, but not the same"
    return Difference(what, ours, other, note)


def _counted(print_: Mapping[str, Any]) -> tuple[Any, Any]:
    return print_["queries"], print_.get("judgments")


def _described(print_: Any, *, hashed: bool) -> str:
    if print_ is None:
        return "none given"
    if not isinstance(print_, dict):
        return str(print_)
    words = f"{print_['queries']:,} queries"
    if "judgments" in print_:
        words += f" with {print_['judgments']:,} judgments"
    return f"{words} ({print_['hash']})" if hashed else words


SYSTEM = (
    "system",
    "chunker",
    "index_version",
    "embedding_model",
    "reranker",
    "dataset_version",
    "code_version",
    "k_raw",
)
"""Facts of the system under test: they may differ, and are shown where they do."""


def of_system(here: Mapping[str, Any], there: Mapping[str, Any]) -> list[Difference]:
    """Where the facts of two runs differ; a fact that one of them does not tell is no difference, save the chunker."""
    out = []
    for name in SYSTEM:
        known = name in here and name in there
        if (known or (name == "chunker" and (name in here or name in there))) and here.get(name) != there.get(name):
            out.append(Difference(name, *(told_fact(f.get(name)) for f in (here, there))))
    return out


def told_fact(fact: Any) -> str:
    """A fact of a system in words: text as it is, anything else as JSON."""
    if fact is None:
        return "not told"
    return fact if isinstance(fact, str) else json.dumps(fact, ensure_ascii=False)
