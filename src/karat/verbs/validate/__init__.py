"""The linter: gold, queries, runs and corpus against their contract, and for what goes wrong in practice."""

from __future__ import annotations

import codecs
import glob
import os
from typing import TYPE_CHECKING, Any

from karat.errors import InputError, UsageError
from karat.model.policy import SEPARATOR
from karat.read.layout import checked_path, head_of
from karat.verbs.validate.checks import CHECKS, Check
from karat.verbs.validate.findings import Finding, Validation, found, in_order, known_codes, twice
from karat.verbs.validate.roles import ROLES, role_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from karat.verbs.validate.roles import Role
    from karat.verbs.validate.tables import Data, RunFile

__all__ = ["CHECKS", "Check", "Finding", "Validation", "validate"]

Paths = Any
"""A path, or several."""
_UNCHECKED = {"result": "is a result of Karat"}
_NO_DATA = (None, "result", "config")


def validate(
    files: Paths = (),
    *more: Paths,
    qrels: Paths = None,
    runs: Paths = (),
    queries: Paths = None,
    corpus: Paths = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    separator: str | None = None,
) -> Validation:
    """Look for everything that is wrong, or worth knowing, in files of gold, runs, queries and docs.

    Each argument takes a path or several. `files` are files whose role is told from their content and name; a
    `karat.yaml` among them is checked too, with all that it names.
    `select` and `ignore` take codes of checks or their beginnings. `separator` is what divides a chunk id into its
    doc and the rest; without it, the one that a `karat.yaml` names, else `#`.
    """
    known_codes(select), known_codes(ignore)
    findings: list[Finding] = []
    roles: dict[str, Role | None] = {}
    real: dict[str, Role | None] = {}
    stated: tuple[tuple[Role, Paths], ...] = (("qrels", qrels), ("run", runs), ("queries", queries), ("corpus", corpus))
    for role, given in stated:
        for path in _paths(given):
            before = real.setdefault(os.path.realpath(path), role)
            if before is not None and before != role:
                findings.append(twice(path, before, role, path))
            else:
                roles[path] = role
    for path in (p for given in (files, *more) for p in _paths(given)):
        if path not in roles:
            roles[path], broken = _told(path)
            findings += broken
    if not roles:
        raise UsageError("nothing to validate; name at least one file")
    unread = {f.file for f in findings if f.code == "F001"}
    configs = [path for path, role in roles.items() if role == "config"]
    for path in configs:
        from karat.config.checks import config_options
        from karat.verbs.validate.configs import check_config, opened

        read, problems, named = opened(path)
        roles = {**roles, **{p: r for p, r in named.items() if p not in roles}}
        findings += problems
        if read is not None and not problems:
            findings += check_config(read)
            separator = separator or config_options(read).get("separator")
    findings += _findings(roles, unread, separator or SEPARATOR)
    told = {path: ROLES[role] if role else "unknown" for path, role in roles.items()}
    return Validation(in_order(findings, list(roles)), told).only(select, ignore)


def _told(path: str) -> tuple[Role | None, list[Finding]]:
    """The role of a file, or why its content cannot be read at all."""
    try:
        head = head_of(path)
    except InputError as error:  # what is packed breaks off
        return None, [found("F001", path, str(error).removeprefix(f"{path}: "), [path])]
    role = role_of(path, head)
    if role is None and b"\x00" not in head:
        try:
            codecs.getincrementaldecoder("utf-8")().decode(head)  # the last character may be cut
        except UnicodeDecodeError as error:
            line = 1 + head.count(b"\n", 0, error.start)
            text = "not UTF-8; expected UTF-8 text: convert the file, e.g. with iconv"
            return None, [found("F001", path, text, [f"{path}:{line}"])]
    return role, []


def _paths(given: Paths) -> list[str]:
    """The files that paths and globs name, each once."""
    if given is None:
        return []
    listed = [given] if isinstance(given, (str, os.PathLike)) else list(given)
    out: list[str] = []
    for one in listed:
        if not isinstance(one, (str, os.PathLike)):
            raise UsageError(f"validate takes paths of files, found {type(one).__name__}; write it to a file first")
        path = os.fspath(one)
        if path == "-":
            raise UsageError("validate reads files only, since it looks at each more than once; name a file")
        matching = sorted(glob.glob(path)) if glob.has_magic(path) and not os.path.exists(path) else [path]
        if not matching:
            raise InputError(f"{path}: no file matches, expected at least one; check the folder and the pattern")
        out += [checked_path(p) for p in matching]
    return list(dict.fromkeys(out))


def _findings(roles: dict[str, Role | None], unread: Collection[str], separator: str) -> Iterator[Finding]:
    from karat.verbs.validate.across import check_together
    from karat.verbs.validate.corpus import check_corpus
    from karat.verbs.validate.gold import check_gold
    from karat.verbs.validate.queries import check_queries
    from karat.verbs.validate.runs import check_run

    for path, role in roles.items():
        if role is None and path not in unread:
            yield found("F002", path, "cannot be told to be gold, queries, a run or a corpus", [path])
        elif role in _UNCHECKED:
            yield found("F003", path, f"{_UNCHECKED[role]}, which validate does not check", [path])
    data, findings = _read(roles, separator)
    yield from findings
    for gold in data.gold:
        yield from check_gold(gold, data.unanswerable)
    for table in data.queries:
        yield from check_queries(table, data.evaluated(table))
    for run in data.runs:
        yield from check_run(run)
    for docs in data.corpus:
        yield from check_corpus(docs)
    yield from check_together(data)


def _read(roles: dict[str, Role | None], separator: str) -> tuple[Data, list[Finding]]:
    """All files, gold before the corpus: of its docs only those that the gold names keep their text."""
    from karat.verbs.validate.run_columns import read_run
    from karat.verbs.validate.tables import Data
    from karat.verbs.validate.tolerant import MOST_DOCS, Reading, read_corpus, read_gold, read_table

    readings = {path: Reading(path) for path, role in roles.items() if role not in _NO_DATA}

    def of(role: Role) -> list[tuple[str, Reading]]:
        return [(path, reading) for path, reading in readings.items() if roles[path] == role]

    gold = [g for path, reading in of("qrels") if (g := read_gold(path, reading)) is not None]
    tables = [t for path, reading in of("queries") if (t := read_table(path, reading)) is not None]
    runs = [r for path, reading in of("run") if (r := read_run(path, reading)) is not None]
    wanted = {d for g in gold for d in g.docs}
    corpus = [c for path, reading in of("corpus") if (c := read_corpus(path, reading, wanted)) is not None]
    findings = [f for reading in readings.values() for f in reading.findings()]
    findings += [_part(r) for r in runs if not r.whole]
    findings += [
        found("F004", c.path, f"the first {MOST_DOCS:,} docs were looked at", [c.path]) for c in corpus if not c.whole
    ]
    return Data(gold, tables, runs, corpus, separator), findings


def _part(run: RunFile) -> Finding:
    seen = f"the first {len(run.query):,} rows were looked at ({len(run.queries):,} queries)"
    return found("F004", run.path, seen, [run.at(len(run.query) - 1)], len(run.query))
