"""Anything that holds gold or a run → the model. The one place that looks at types."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.errors import InputError, UsageError, shown
from karat.model.policy import Policy
from karat.model.qrels import Qrels
from karat.model.run import Run, Table
from karat.model.strings import hashed
from karat.read import frames, log_blocks
from karat.read.column_stream import ColumnStream
from karat.read.exact import as_rows
from karat.read.files import HEAD, PACKED, InputFile, check_path, is_run_log, open_input
from karat.read.formats import LineRows, all_formats, read_content, recognise_format
from karat.read.layout import lines_of
from karat.read.objects import qrels_from_mapping, run_from_mapping
from karat.read.problems import Problems, parse_number
from karat.read.textfile import TextFile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from karat.model.queries import Queries
    from karat.model.run import Rows
    from karat.model.run_log import RunLog
    from karat.read.formats import Content
    from karat.read.layout import Layout
    from karat.read.problems import Row

ROWS_FOR_DOUBTS = 500
"""Rows of a run whose scores are searched for grades."""


def read_qrels(source: Any, *, format: str | None = None, subtopics: bool | None = None) -> Qrels:
    """Gold from a path, a dict, a frame, or `Qrels`.

    A column `subtopic` is read where there is one; `subtopics=True` says that TREC qrels hold one in their second
    column, and `False` ignores them.
    """
    if subtopics is not None:
        from karat.read.subtopics import check_subtopics

        return check_subtopics(_read_qrels(source, format, subtopics), subtopics)
    return _read_qrels(source, format, None)


def _read_qrels(source: Any, format: str | None, subtopics: bool | None) -> Qrels:
    if isinstance(source, Qrels):
        return source
    if isinstance(source, (str, os.PathLike)):
        source = open_input(check_path(os.fspath(source)))
    if isinstance(source, InputFile):
        content = read_content(source, "qrels", Problems(source.path), name=format)
        return _qrels_of(content, source.path, subtopics)
    if isinstance(source, Mapping):
        return qrels_from_mapping(source)
    if frames.is_frame(source):
        return _qrels_of(frames.frame_rows(source, "qrels", "qrels"), "qrels", subtopics)
    raise InputError(f"qrels: expected a path, a dict, a data frame or karat.Qrels, found {type(source).__name__}")


def read_run(
    source: Any,
    *,
    name: str | None = None,
    format: str | None = None,
    policy: Policy | None = None,
    as_of: Mapping[str, float] | None = None,
    with_days: bool = False,
    queries: Queries | None = None,
    log_parts: Collection[str] | None = None,
) -> Run:
    """A run from a path, a dict, a frame, or a `Run`.

    The policy chooses the list of a run log that is the run; `as_of` holds the day of queries, for a policy that
    drops newer docs, and `with_days` adds the days of all docs. `queries` has the order of those that one result of
    Chroma is for. `log_parts` are what matters of a run log beside its final lists; None for all that it holds.
    """
    policy = policy or Policy()
    if isinstance(source, (str, os.PathLike)):
        if log_parts is not None:
            columns = _log_columns(os.fspath(source), name, format, policy, log_parts)
            if columns is not None:
                return columns
        file = open_input(check_path(os.fspath(source)))
        run = run_from_file(file, name, format, policy.separator, queries)
    elif isinstance(source, Run):
        run = source
    elif isinstance(source, Mapping):
        run = run_from_mapping(source, name or "run", separator=policy.separator, queries=queries)
    elif frames.is_frame(source):
        table = frames.frame_rows(source, "run", name or "run")
        run = Run(name or "run", table, notes=table.notes, names_docs=table.names_docs)
    else:
        raise InputError(
            f"{name or 'run'}: expected a path, a dict, a data frame or karat.Run, found {type(source).__name__}"
        )
    return _choose_list(run, policy, as_of, with_days)


def _log_columns(path: str, name: str | None, format: str | None, policy: Policy, parts: Collection[str]) -> Run | None:
    """A large run log as columns; None for any other file, and for a log with problems."""
    if path == "-" or format not in (None, "jsonl") or not os.path.isfile(path):
        return None
    if os.path.getsize(path) < log_blocks.LARGE:
        return None
    file = open_input(check_path(path))
    if recognise_format(file, "run").name != "jsonl" or not is_run_log(file.head):
        return None
    from karat.read.log_columns import read_log_columns

    return read_log_columns(path, name or run_name(path), policy, parts)


def run_files(patterns: Sequence[str | os.PathLike[str]]) -> dict[str, str]:
    """The path of each run that paths, globs and `NAME=file` stand for, by a unique name.

    A file is a run under each name that it is given; a glob brings the others.
    """
    uses: list[tuple[str, str, bool]] = []  # the label, the path, and whether a glob alone brings it
    labels_of: dict[str, dict[str, str]] = {}  # by file: its names, and which of these are labels
    for pattern in [os.fspath(one) for one in ([patterns] if isinstance(patterns, str) else patterns)]:
        label, place = _label(pattern)
        matches = sorted(glob.glob(place)) if _is_glob(place) else [place]
        if not matches:
            raise InputError(f"{place}: no file matches, expected at least one; check the folder and the pattern")
        if label and len(matches) > 1:
            raise InputError(f"{pattern}: {label!r} is one run, and {len(matches)} files match; name a single file")
        for path in matches:
            uses.append((label, path, _is_glob(place) and not label))
            if not uses[-1][2]:
                its = labels_of.setdefault(os.path.abspath(path), {})
                its[label or run_name(path)] = label or its.get(run_name(path), "")
    runs: dict[tuple[str, str], tuple[str, str]] = {}  # by name and file: the label, and the path
    for label, path, by_glob in uses:
        file, name = os.path.abspath(path), label or run_name(path)
        for each, own in labels_of.get(file, {name: ""}).items():
            if by_glob or each == name:
                runs.setdefault((each, file), (own, path))
    labels = [label for label, _ in runs.values()]
    if twice := next((label for label in labels if label and labels.count(label) > 1), None):
        raise InputError(f"two runs are called {twice!r}; give each its own name")
    paths = [path for _, path in runs.values()]
    places = [_with_folder(p, run_name(p), 99) for label, p in runs.values() if not label]
    # Files of one folder that differ in their endings only keep them.
    stems = [run_name(p) if places.count(_with_folder(p, run_name(p), 99)) <= 1 else os.path.basename(p) for p in paths]
    names = [label or stem for label, stem in zip(labels, stems, strict=True)]
    for depth in range(1, 99):
        if len(set(names)) == len(names):
            break
        names = [
            _with_folder(p, s, depth) if names.count(n) > 1 and not label else n
            for p, s, n, label in zip(paths, stems, names, labels, strict=True)
        ]
    return dict(zip(names, paths, strict=True))


def describe_repeats(patterns: Sequence[str]) -> str | None:
    """Which files are named more than once under one name, other than by a glob; None where none is."""
    uses = [(label or run_name(place), place) for label, place in map(_label, patterns) if not _is_glob(place)]
    counts = Counter((name, os.path.abspath(place)) for name, place in uses)
    again = [os.path.basename(place) for name, place in uses if counts[name, os.path.abspath(place)] > 1]
    return f"a file named twice counts once: {', '.join(dict.fromkeys(again))}" if again else None


def _is_glob(place: str) -> bool:
    return glob.has_magic(place) and "://" not in place and not os.path.exists(place)


def _label(pattern: str) -> tuple[str, str]:
    """The name and the path of `NAME=file`; a file of that very name, or a folder with = in it, has no label."""
    label, equals, path = pattern.partition("=")
    has_label = equals and label.strip() and path and not os.path.exists(pattern) and os.sep not in label
    return (label.strip(), path) if has_label else ("", pattern)


def run_name(path: str) -> str:
    """A file's name without the endings that say its format; other dots stay."""
    if path == "-":
        return "stdin"
    base = os.path.basename(path)
    for ending in PACKED:
        base = base.removesuffix(ending)
    stem, ending = os.path.splitext(base)
    endings = {".npy", ".npz"}.union(*(form.endings for form in all_formats().values()))
    return stem if ending.lower() in endings else base


def _with_folder(path: str, stem: str, depth: int) -> str:
    folders = os.path.abspath(path).split(os.sep)[:-1]
    return "/".join([*folders[-depth:], stem])


def _qrels_of(content: Content, path: str, subtopics: bool | None) -> Qrels:
    if isinstance(content, Mapping):
        return qrels_from_mapping(content, path)
    if isinstance(content, LineRows):
        rows = [(*row[:4], None) for row in content.rows] if subtopics is False else content.rows
        return replace(_qrels_with_lines(rows, path), notes=content.notes)
    if isinstance(content, ColumnStream):
        columns = content.everything()
        columns = replace(columns, parent=None) if subtopics is False else columns
        return replace(qrels_from_rows(columns, path), notes=content.notes)
    assert isinstance(content, TextFile)
    if subtopics is not None:
        from karat.read.subtopics import layout_with

        content = replace(content, layout=layout_with(content.layout, path, subtopics))
    columns = content.everything()
    if len(columns) == 0:
        raise InputError(f"{path}: holds no judgments, expected at least one")
    check_rivals(content, Problems(path))
    try:
        return replace(qrels_from_rows(columns, path), notes=content.notes)
    except _Contradiction:
        return _qrels_with_lines(content.exact_rows(), path, trec=not content.layout.header)


def check_rivals(file: TextFile, problems: Problems) -> None:
    """Refuse two columns of a table that claim one role and disagree."""
    strict = [rival for rival in file.layout.rivals if not rival.optional]
    if not strict:
        return
    for line, cells in file.exact_cells(problems):
        row = dict(zip(file.layout.header, cells, strict=False))
        for rival in strict:
            if rival.disagrees(row.get(rival.used), row.get(rival.ignored)):
                problems.add(line, rival.problem(row[rival.used], row[rival.ignored]))
    problems.check()


class _Contradiction(InputError):
    """A pair judged with two grades, before the lines are known."""


def _qrels_with_lines(rows: Sequence[Row], path: str, *, trec: bool = False) -> Qrels:
    """Gold from rows that know their lines: a contradiction names both places."""
    problems = Problems(path)
    if any(row[4] is not None for row in rows):
        from karat.read.subtopics import gold_from_rows, missing_names

        missing_names(rows, problems)
        return gold_from_rows(rows, path, "line")
    hint = ", or say --subtopics (subtopics=True) if the second column is a subtopic" if trec else ""
    first: dict[tuple[str, str], tuple[int, float]] = {}
    for line, query, doc, grade, _ in rows:
        before = first.setdefault((query, doc), (line, grade))
        if before[1] != grade:
            problems.add(
                line,
                f"query {shown(query)}, doc {shown(doc)} is judged {grade:g} here and {before[1]:g} at line "
                f"{before[0]}; expected one grade: remove one{hint}",
            )
    problems.check()
    if not rows:
        raise InputError(f"{path}: holds no judgments, expected at least one")
    return qrels_from_rows(as_rows(rows), path)


def qrels_from_rows(rows: Rows, source: str) -> Qrels:
    """Gold from columns. A pair judged twice with one grade counts once."""
    if rows.parent is not None:
        return _by_subtopic(rows, source)
    starts = rows.query.starts()
    texts = rows.query.take(starts).texts()
    names = sorted(set(texts))
    number = {name: i for i, name in enumerate(names)}
    code = np.fromiter((number[t] for t in texts), dtype=np.int64, count=len(texts))
    code = np.repeat(code, np.diff(starts, append=len(rows)))
    keys = hashed(rows.doc.words(), (code + 1).view(np.uint64) * np.uint64(0xD6E8FEB86659FD93))
    order = np.argsort(keys, kind="stable")
    twin = np.flatnonzero(keys[order[1:]] == keys[order[:-1]])
    keep = np.ones(len(rows), dtype=bool)
    for here, other in zip(order[twin + 1].tolist(), order[twin].tolist(), strict=True):
        pair = rows.doc.take(np.array([here, other])).texts()
        if pair[0] == pair[1] and code[here] == code[other]:
            if rows.score[here] != rows.score[other]:
                raise _Contradiction(
                    f"{source}: query {shown(names[code[here]])}, doc {shown(pair[0])} is judged "
                    f"{rows.score[other]:g} in row {other + 1} and {rows.score[here]:g} in row {here + 1}; "
                    "expected one grade: remove one"
                )
            keep[here] = False
    unique = np.flatnonzero(keep)
    unique = unique[np.argsort(code[unique], kind="stable")]
    sizes = np.bincount(code[unique], minlength=len(names))
    grades = _grades(rows)
    return Qrels(names, np.concatenate(([0], np.cumsum(sizes))), rows.doc.take(unique).texts(), grades[unique], source)


def _grades(rows: Rows) -> NDArray[np.float64]:
    if rows.near is None or rows.score_text is None:
        return rows.score
    from karat.model.decimals import exact_decimals

    return exact_decimals(rows.score_text)[0]


def _by_subtopic(rows: Rows, source: str) -> Qrels:
    from karat.read.subtopics import gold_from_rows

    assert rows.parent is not None
    columns = (rows.query.texts(), rows.doc.texts(), _grades(rows).tolist(), rows.parent.texts())
    try:
        return gold_from_rows(zip(range(1, len(rows) + 1), *columns, strict=True), source, "row")
    except InputError as error:
        raise _Contradiction(error.problems, more=error.more) from None


def run_from_file(
    file: InputFile, name: str | None, format: str | None, separator: str, queries: Queries | None
) -> Run | RunLog:
    """The run that a file holds, or the run log."""
    path = file.path
    content = read_content(file, "run", Problems(path), name=format)
    name = name or run_name(path)
    if isinstance(content, Mapping):
        return run_from_mapping(content, name, path, separator=separator, queries=queries)
    if isinstance(content, LineRows):
        if not content.rows:
            raise InputError(f"{path}: holds no results, expected at least one")
        doubts = _doubts((row[1], row[3]) for row in content.rows[:ROWS_FOR_DOUBTS])
        notes = (*content.notes, *doubts)
        return Run(name, Table(as_rows(content.rows)), path=path, notes=notes, names_docs=content.names_docs)
    if isinstance(content, ColumnStream):
        rows = content.first_rows()
        first = rows.query.take(np.arange(min(len(rows), ROWS_FOR_DOUBTS))).texts()
        finite = np.isfinite(rows.score).all()  # else that is said when the rows are read
        doubts = _doubts(zip(first, rows.score.tolist(), strict=False)) if finite else ()
        return Run(name, content, path=path, notes=(*content.notes, *doubts), names_docs=content.names_docs)
    if not isinstance(content, TextFile):
        return replace(content, name=name)
    facts = {"tag": tag} if (tag := _tag(content.layout, file.head)) else {}
    doubts = _doubts(_first_scores(content.layout, file.head)) if content.layout.header else ()
    check_rivals(content, Problems(path))
    notes = (*content.notes, *doubts)
    place = path if file.stdin is None else None
    return Run(name, content, facts, place, notes, names_docs=content.layout.names_docs)


def _first_scores(layout: Layout, head: bytes) -> Iterator[tuple[str, float]]:
    """Query and score of the first rows of a table; the last line of the head may break off."""
    whole = head if len(head) < HEAD else head[: head.rfind(b"\n")]
    for _, line in islice(lines_of(whole), 1, 1 + ROWS_FOR_DOUBTS):
        cells = line.split(layout.delimiter)
        if len(cells) == layout.width and (score := parse_number(cells[layout.value].strip('"'))) is not None:
            yield cells[layout.query], score


def _doubts(scores: Iterable[tuple[str, float]]) -> tuple[str, ...]:
    """A note on scores that look like grades: small whole numbers that leave docs of a query in no order."""
    rows = list(scores)
    values = sorted({score for _, score in rows})
    small = bool(values) and all(v == int(v) and -2 <= v <= 4 for v in values)
    if not small or len(rows) < 2 or (len(set(rows)) == len(rows) and len(values) > 1):
        return ()
    numbers = ", ".join(f"{v:g}" for v in values)
    return (f"every score is a small whole number ({numbers}): is this gold? A run holds the scores of a system",)


def _tag(layout: Layout, head: bytes) -> str | None:
    if layout.header or layout.width != 6:
        return None
    for line in head.split(b"\n")[:50]:
        cells = line.split()
        if len(cells) == 6 and not line.startswith(b"#"):
            return cells[5].decode("utf-8", "replace")
    return None


def _choose_list(run: Run | RunLog, policy: Policy, as_of: Mapping[str, float] | None, with_days: bool) -> Run:
    """The run with the list that the policy chooses; only a run log has several, and dates."""
    log = run.log if isinstance(run, Run) else run
    if log is not None:
        from karat.read.log_lists import run_of

        return run_of(log, policy, as_of, with_days=with_days)
    assert isinstance(run, Run)
    for choice, name in ((policy.stage, "stage"), (policy.as_of_filter, "as_of_filter")):
        if choice:
            raise UsageError(f"{run.name}: {name} needs a run log (JSONL with topk), which this run is not")
    return run
