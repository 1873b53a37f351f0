"""JSON Lines: gold, runs and tables with one row per line, and run logs with one query per line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karat.errors import InputError, Problem, shown
from karat.read.columns import CHUNK, DOC_NAMES, GRADE_NAMES, QUERY_NAMES, SCORE_NAMES, SUBTOPIC, column, rivals_of
from karat.read.files import is_run_log
from karat.read.formats import InputFormat, LineRows, describe_formats
from karat.read.problems import parse_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from karat.model.json_data import JsonObject
    from karat.model.run_log import RunLog
    from karat.read.columns import FieldRow, Role, TableKind
    from karat.read.files import InputFile
    from karat.read.problems import Problems, Row

LISTS = ("results", "hits", "docs", "documents", "ranking", "retrieved", "items")
"""Names that other tools give to the ranked list of a query."""
WITHOUT_GOLD = "Without gold, runs are measured by --no-gold (in Python qrels=None)"


def recognise(file: InputFile) -> bool:
    """Whether this is JSON with one object per line, rather than one object for all."""
    text = file.head.lstrip()
    if file.has_ending(FORMAT.endings):
        return True
    if text[:1] not in (b"{", b"["):
        return False
    first, _, rest = text.partition(b"\n")
    row = is_run_log(first) or all(_names_one_of(first, names) for names in (QUERY_NAMES, DOC_NAMES))
    many = first.rstrip().endswith(b"}") and rest.lstrip()[:1] == b"{"
    return row or many


def _names_one_of(line: bytes, names: tuple[str, ...]) -> bool:
    return any(f'"{name}"'.encode() in line for name in names)


def read(file: InputFile, role: Role, problems: Problems) -> LineRows | RunLog:
    """Rows, or a run log where the first line has `topk`."""
    notes = tuple(rival.note for rival in rivals_of(_first_fields(file, role), role))
    if role == "run":
        from karat.read.run_log import read_run_log

        if is_run_log(file.head):
            return read_run_log(file.path, file.path, file.stdin)
    rows, names_docs = _rows(file, role, problems)
    return LineRows(rows, notes, names_docs)


def _first_fields(file: InputFile, role: Role) -> tuple[str, ...]:
    """The fields of the first row. Rows that are plainly something else are refused: once, not line by line."""
    import json

    try:
        row = json.loads(file.head.lstrip().partition(b"\n")[0])
    except (ValueError, RecursionError):
        return ()
    if not isinstance(row, dict):
        return ()
    names = list(row)
    doc, value = (column(names, candidates) is not None for candidates in (DOC_NAMES, (*GRADE_NAMES, *SCORE_NAMES)))
    scores = column(names, SCORE_NAMES) is not None
    what = advice = ""
    if role == "qrels" and "topk" in row:
        what, advice = "a run log", f"did you swap gold and run? {WITHOUT_GOLD}"
    elif role == "run" and doc and value and not scores:
        what, advice = "gold", "did you swap gold and run?"
    elif (
        role == "run"
        and "topk" not in row
        and not doc
        and (lists := [n for n in names if _is_list(row[n]) or (n in LISTS and isinstance(row[n], list))])
    ):
        what, advice = "a run log", f"write its results as 'topk', not as {shown(lists[0])}"
    elif not doc and not value and "topk" not in row and column(names, ("_id", "id", *QUERY_NAMES)) is not None:
        what, advice = "a table of queries or docs", "give it as queries or corpus"
    if what:
        fields = ", ".join(map(shown, names[:8]))
        problem = f"expected {describe_formats(role)}; found {fields}. This looks like {what}: {advice}"
        raise InputError(Problem(file.path, 1, problem))
    return tuple(names)


def _is_list(value: object) -> bool:
    """Whether this is a ranked list: objects, of which the first names a doc."""
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, dict) and column(list(first), DOC_NAMES) is not None


TAKEN_BACK = (
    "takes back a label (its grade is null), and gold has one grade for each pair: leave out this line and the earlier "
    "label of the pair, or name the file with --judgments"
)


def _rows(file: InputFile, role: Role, problems: Problems) -> tuple[list[Row], bool]:
    """Rows with the column names of a table, and whether none has a chunk id."""
    from karat.read.objects import is_finite, text_id

    what, names = ("grade", GRADE_NAMES) if role == "qrels" else ("score", SCORE_NAMES)
    rows: list[Row] = []
    names_docs = True
    for number, line in _objects(file, problems):
        for rival in rivals_of(tuple(line), role):
            if rival.disagrees(line[rival.used], line[rival.ignored]):
                problems.add(number, rival.problem(line[rival.used], line[rival.ignored]))
        query, doc, value = (_field(line, n) for n in (QUERY_NAMES, DOC_NAMES, names))
        chunk = line.get(CHUNK)
        names_docs = names_docs and chunk is None
        parent = doc if chunk is not None and "doc_id" in line else None
        doc = chunk if chunk is not None else doc
        q, d = text_id(query), text_id(doc)
        if q is None:
            problems.add(number, f"query id must be text or an integer in {QUERY_NAMES[0]!r}, found {shown(query)}")
        if parent is not None and text_id(parent) is None:
            problems.add(number, f"doc id must be text or an integer in 'doc_id', found {shown(parent)}")
        if d is None:
            problems.add(number, f"doc id must be text or an integer in {DOC_NAMES[0]!r}, found {shown(doc)}")
        if role == "qrels":
            parent = line.get(SUBTOPIC)
            if SUBTOPIC in line and text_id(parent) is None:
                problems.add(number, f"{SUBTOPIC} must be text or an integer, found {shown(parent)}")
        if role == "qrels" and value is None and "by" in line and GRADE_NAMES[0] in line:
            problems.add(number, TAKEN_BACK)
        elif not is_finite(value):
            problems.add(number, f"{what} must be a finite number in {names[0]!r}, found {shown(value)}")
        elif q is not None and d is not None:
            rows.append((number, q, d, float(value), text_id(parent)))
    problems.check()
    return rows, names_docs


def _objects(file: InputFile, problems: Problems) -> Iterator[tuple[int, JsonObject]]:
    """The object on each line."""
    import msgspec

    from karat.read.json_lines import NOT_JSON, numbered_lines, reason, repeated_in

    decoder = msgspec.json.Decoder()
    for number, raw in numbered_lines(file.path, file.stdin):
        try:
            line = decoder.decode(raw)
        except NOT_JSON as error:
            problems.add(number, reason(error, raw, "expected one JSON object per line"))
            continue
        if isinstance(line, dict):
            if (twice := repeated_in(raw, line)) is not None:
                problems.add(number, twice)
            else:
                yield number, line
        else:
            problems.add(number, f"expected a JSON object, found {shown(raw.strip())}")


def _field(line: JsonObject, names: Sequence[str]) -> Any:
    return next((line[n] for n in names if n in line), None)


def read_table(file: InputFile, problems: Problems, kind: TableKind) -> Iterator[FieldRow]:
    """Rows with their fields; those in `metadata` are fields too."""
    for number, line in _objects(file, problems):
        more = line.get("metadata")
        yield number, {**more, **line} if isinstance(more, dict) else line


def read_ranks(file: InputFile) -> dict[int, float]:
    """The rank on each line that has one."""
    import msgspec

    from karat.read.json_lines import NOT_JSON, numbered_lines

    decoder, ranks = msgspec.json.Decoder(), dict[int, float]()
    for number, raw in numbered_lines(file.path, file.stdin) if b'"rank"' in file.head else ():
        try:
            rank = parse_number(str(decoder.decode(raw).get("rank")))
        except (*NOT_JSON, AttributeError):
            continue  # said where the rows are read
        if rank is not None:
            ranks[number] = rank
    return ranks


FORMAT = InputFormat(
    "jsonl",
    "JSONL",
    recognise,
    endings=(".jsonl", ".ndjson"),
    gold="one row per line",
    runs="one row per line, or a run log: one query per line with `topk`",
    tables="one object per line",
    read=read,
    read_table=read_table,
    ranks=read_ranks,
)
