"""What a result rests on, in few characters each: two results are compared only where these agree.

Fingerprints are of content, not of files: the same gold in another format or order has the same one.
"""

from __future__ import annotations

import json
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karat.metrics.grammar import Measure
    from karat.model.json_data import Json
    from karat.model.qrels import Qrels
    from karat.model.queries import Queries

OF_METRICS = frozenset(("embedding_model", "ontology"))
"""Conventions that name what some metrics look at: they count for these metrics alone."""
COUNTED = ("text", "as_of", "no_answer", "conversation", "weight")
"""The fields of a query that can change a result; others only slice it."""
PART = 8
"""Characters of the fingerprint of one field: it names what differs, and does not decide."""


@dataclass(frozen=True, slots=True)
class GoldFingerprint:
    """The judgments; the counts are unknown in files of the oldest version."""

    hash: str
    queries: int | None = None
    judgments: int | None = None


@dataclass(frozen=True, slots=True)
class QueriesFingerprint:
    """The queries as a whole, and each field that can change a result."""

    hash: str
    queries: int | None = None
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """What a result rests on."""

    gold: GoldFingerprint | None = None
    queries: QueriesFingerprint | None = None
    corpus: str | None = None
    """Where gold is by chunk."""
    embeddings: Mapping[str, str] = field(default_factory=dict)
    """By metric: the model of the embeddings that it looks at."""
    metrics: Mapping[str, str] = field(default_factory=dict)
    ontologies: Mapping[str, str] = field(default_factory=dict)
    """By metric: the release of the ontology that it looks at."""
    judge: str | None = None
    """Of the judge of what the gold lacks."""

    def __bool__(self) -> bool:
        return self.gold is not None or bool(self.metrics)

    def only(self, metrics: Iterable[str]) -> Fingerprints:
        """Those of a result that holds these metrics alone."""
        return replace(self, metrics={n: self.metrics[n] for n in metrics if n in self.metrics})

    @property
    def hashes(self) -> dict[str, str]:
        """The hashes of gold, queries and corpus, as far as there are any."""
        parts = {
            "gold": self.gold.hash if self.gold else None,
            "queries": self.queries.hash if self.queries else None,
            "corpus": self.corpus,
        }
        return {name: value for name, value in parts.items() if value is not None}


NONE_GIVEN = "none given"
"""What is said of a part that a result lacks."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which two results differ."""

    what: str
    here: str
    there: str
    note: str = ""
    """Which part of it, where that is known."""
    run: str = ""
    """Of several candidates those that differ so."""

    @property
    def missing(self) -> bool:
        """Whether only the baseline has it."""
        return self.here == NONE_GIVEN

    def __str__(self) -> str:
        return self.describe()

    def describe(self, here: str = "", there: str = "") -> str:
        """The difference in words, with the files that it is between, where they are known."""
        ours, theirs = (f" ({place})" if place else "" for place in (here, there))
        note = f"{self.note}: " if self.note else ""
        run = f"in {self.run}" if self.run else "here"
        return f"{self.what}: {note}{self.here} {run}{ours}, {self.there} in the baseline{theirs}"


FORCED = "--force: compared although these differ: "


def note_forced(forced: Iterable[Difference]) -> list[str]:
    """What was compared by force although it differs, as a note; none where nothing was."""
    differences = "; ".join(map(str, forced))
    return [FORCED + differences] if differences else []


def without_forced(notes: Iterable[str]) -> tuple[str, ...]:
    """The notes but for that on what was forced, for outputs that say it by themselves."""
    return tuple(note for note in notes if not note.startswith(FORCED))


def fingerprint_gold(qrels: Qrels) -> GoldFingerprint:
    """The judgments, whatever their order, and how many there are."""
    import hashlib

    digest = hashlib.sha256()
    for i, query in enumerate(qrels.query_ids):
        a, b = int(qrels.offsets[i]), int(qrels.offsets[i + 1])
        judged = sorted(zip(qrels.docs[a:b], qrels.grades[a:b].tolist(), strict=True))
        digest.update("".join(f"{query}\t{d}\t{g:.12g}\n" for d, g in judged).encode("utf-8", "surrogatepass"))
    if (by := qrels.subtopics) is not None:
        subtopics = zip(by.judgment.tolist(), by.names, by.grades.tolist(), strict=True)
        digest.update(
            "\n".join(
                sorted(
                    f"{qrels.query_ids[int(qrels.query_of[j])]}\t{qrels.docs[j]}\t{name}\t{g:.12g}"
                    for j, name, g in subtopics
                )
            ).encode("utf-8", "surrogatepass")
        )
    return GoldFingerprint(digest.hexdigest()[:16], len(qrels.query_ids), len(qrels.docs))


def fingerprint_queries(queries: Queries) -> QueriesFingerprint:
    """The queries with all that can change a result, as a whole and field by field; fields to slice by are left out."""
    ids = sorted(queries.fields)
    rows = [[q, *(_plain(queries.fields[q].get(f)) for f in COUNTED)] for q in ids]
    columns = {f: [[row[0], row[i]] for row in rows if row[i] is not None] for i, f in enumerate(COUNTED, start=1)}
    fields = {f: _short(column)[:PART] for f, column in columns.items() if column}
    return QueriesFingerprint(_short(rows), len(ids), fields)


def fingerprint_file(path: str) -> str:
    """The bytes of a file."""
    import hashlib

    from karat.read.files import require_plain

    require_plain(path, "a corpus of chunks is read")
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def fingerprint_metric(measure: Measure, model: str | None = None, ontology: str | None = None) -> str:
    """A metric's definition: its declaration, its parameters, and the code of one that Karat does not bring.

    The model of the embeddings that it looks at is part of it, and so is the release of the ontology.
    """
    m = measure.metric
    parts = [
        measure.name,
        m.formula,
        m.aggregate,
        m.no_results or 0.0,
        m.empty_gold or 0.0,
        m.higher_is_better,
        [[p.name, p.default] for p in m.params if p.name not in m.added],
    ]
    if not m.compute.__module__.startswith("karat."):
        parts.append(_code(m.compute))
    if model is not None:
        parts.append({"embedding_model": model})
    if ontology is not None:
        parts.append({"ontology": ontology})
    return _short(parts)


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


def _short(content: Any) -> str:
    import hashlib

    text = json.dumps(content, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:16]


def find_differences(
    here: Fingerprints,
    there: Fingerprints,
    conventions: tuple[Mapping[str, Json], Mapping[str, Json]],
    metrics: Iterable[str],
) -> list[Difference]:
    """Where two results differ, by the name of what differs; only these metrics count."""
    from karat.model.items import UNNAMED
    from karat.model.policy import regrading_conventions

    regrading = [n for n in regrading_conventions() if conventions[0].get(n) != conventions[1].get(n)]
    out = []
    for what in ("gold", "queries", "corpus"):
        if here.hashes.get(what) != there.hashes.get(what):
            why = f"the convention {', '.join(regrading)} changes grades" if what == "gold" and regrading else ""
            out.append(_difference(what, getattr(here, what), getattr(there, what), why))
    if None not in (here.judge, there.judge) and here.judge != there.judge:
        out.append(Difference("judge", str(here.judge), str(there.judge)))
    ours, theirs = conventions
    resolved = (
        {"ontology"} if ("ontology" in ours) != ("ontology" in theirs) else set()
    )  # ranks of terms, or of entries
    for name in sorted(({*ours, *theirs} - OF_METRICS) | resolved):
        if ours.get(name) != theirs.get(name):
            pair = [json.dumps(c[name], ensure_ascii=False) if name in c else "the default" for c in conventions]
            out.append(Difference(f"convention {name}", *pair))
    for name in metrics:
        models = [f.embeddings.get(name) for f in (here, there)]
        if models[0] != models[1] or UNNAMED in models:
            out.append(Difference(f"the embedding model of {name}", *(m or "none" for m in models)))
            continue
        releases = [f.ontologies.get(name) for f in (here, there)]
        if releases[0] != releases[1]:
            out.append(Difference(f"the ontology of {name}", *(r or "none" for r in releases)))
            continue
        definitions = [f.metrics.get(name) for f in (here, there)]
        if definitions[0] != definitions[1] or None in definitions:
            out.append(Difference(f"the definition of {name}", *(d or "not stated" for d in definitions)))
    return out


Fingerprint = GoldFingerprint | QueriesFingerprint | str | None


def _difference(what: str, ours: Fingerprint, theirs: Fingerprint, why: str = "") -> Difference:
    """What is known of a difference: counts where these differ, the fields of the queries that do, else the hashes."""
    note = ""
    alike = _counts(ours) == _counts(theirs) or None in (*_counts(ours), *_counts(theirs))
    if isinstance(ours, QueriesFingerprint) and isinstance(theirs, QueriesFingerprint):
        if ours.queries is not None and theirs.queries is not None:
            fields = [f for f in COUNTED if ours.fields.get(f) != theirs.fields.get(f)]
            note = f"{', '.join(fields)} differ{'s' if len(fields) == 1 else ''}" if fields else ""
    elif None not in (*_counts(ours), *_counts(theirs)) and alike:
        note = why or "as many judgments, but not the same"
    return Difference(what, _described(ours, hashed=alike), _described(theirs, hashed=alike), note)


def _counts(fingerprint: Fingerprint) -> tuple[int | None, ...]:
    if isinstance(fingerprint, GoldFingerprint):
        return fingerprint.queries, fingerprint.judgments
    return (fingerprint.queries,) if isinstance(fingerprint, QueriesFingerprint) else (None,)


def _described(fingerprint: Fingerprint, *, hashed: bool) -> str:
    if fingerprint is None:
        return NONE_GIVEN
    if isinstance(fingerprint, str):
        return fingerprint
    if fingerprint.queries is None:
        return fingerprint.hash
    words = f"{fingerprint.queries:,} queries"
    if isinstance(fingerprint, GoldFingerprint):
        words += f" with {fingerprint.judgments:,} judgments"
    return f"{words} ({fingerprint.hash})" if hashed else words


SYSTEM = (
    "system",
    "retriever",
    "chunker",
    "index_version",
    "embedding_model",
    "reranker",
    "dataset_version",
    "code_version",
    "k_raw",
)
"""Facts of the system under test: they may differ, and are shown where they do."""


def of_system(here: Mapping[str, Json], there: Mapping[str, Json]) -> list[Difference]:
    """Where the facts of two runs differ. A fact that only one run states does not count, except for the chunker."""
    out = []
    for name in SYSTEM:
        both = name in here and name in there
        if (both or (name == "chunker" and (name in here or name in there))) and here.get(name) != there.get(name):
            out.append(Difference(name, *(fact_text(f.get(name)) for f in (here, there))))
    return out


def of_candidates(differences: Mapping[str, Sequence[Difference]]) -> tuple[Difference, ...]:
    """The differences of candidates, with their names where there are several."""
    runs: dict[Difference, list[str]] = {}
    for run, mine in differences.items():
        for difference in dict.fromkeys(mine):
            runs.setdefault(difference, []).append(run)
    several = len(differences) > 1
    return tuple(replace(d, run=" and ".join(names)) if several else d for d, names in runs.items())


def fact_text(fact: Any) -> str:
    """A fact of a system in words: text as it is, anything else as JSON."""
    if fact is None:
        return "not told"
    return fact if isinstance(fact, str) else json.dumps(fact, ensure_ascii=False)
