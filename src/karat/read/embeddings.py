"""Embeddings of docs: only the vectors that are needed come into memory."""

from __future__ import annotations

import os
import re
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.errors import MAX_PROBLEMS, InputError, UsageError, shown
from karat.model.items import UNNAMED
from karat.model.limits import bomb_problem
from karat.read import frames
from karat.read.arrow import lists_of, texts_of
from karat.read.columns import ID_NAMES, column
from karat.read.files import BYTE_ORDER_MARK, check_path, require_plain
from karat.read.objects import text_id
from karat.records import dataclass
from karat.store.database import Database, parquet, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from karat.store.database import Selection

    Matrix = NDArray[Any]
    Rows = NDArray[np.int64]

IDS = ".ids.txt"
MODEL = "model"
"""The array of an .npz file that holds the name of the model."""
SHAPES = "a .npy matrix with its ids beside it, .npz (ids, vectors), Parquet (an id and a list column) or a dict"
UNREADABLE: tuple[type[Exception], ...] = (
    ArithmeticError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    ValueError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What numpy raises for a file that is damaged: its header is Python, and its parts may be packed."""
_VECTOR_NAMES = ("embedding", "embeddings", "vector", "vectors")
_BLOCK = 1 << 21  # numbers that are looked at together
_PIECE = 1 << 25  # bytes of a file that are mapped at a time
_SAMPLE = 1 << 20  # bytes at either end of a file that its fingerprint is made from
_SAFE = (1e-140, 1e140)  # lengths whose squares neither vanish nor overflow


@dataclass(frozen=True)
class Embeddings:
    """Where the vectors of docs are, and the name of the model that made them."""

    source: Any
    name: str
    model: str


@dataclass(frozen=True)
class DocVectors:
    """Vectors of docs: the `row` of each doc in `matrix` (−1 for none), and the rows' lengths."""

    row: Rows
    matrix: Matrix
    length: NDArray[np.float64]


def embeddings_of(source: Any, model: str | None = None) -> Embeddings:
    """Embeddings from a path, a dict or a data frame.

    The name of the model is the one that is stated, else the one in the file, else a fingerprint of the file.
    """
    if model is not None and (not isinstance(model, str) or not model.strip()):
        raise UsageError(f"embedding_model must be a name, found {model!r}")
    if isinstance(source, Embeddings):
        return source
    if isinstance(source, (str, os.PathLike)):
        path = check_path(os.fspath(source))
        if path == "-":
            raise InputError("-: embeddings are read from files, not from standard input")
        require_plain(path, "embeddings are read")
        return Embeddings(path, path, model or _model_of(path))
    if isinstance(source, Mapping) or frames.is_frame(source):
        return Embeddings(source, "embeddings", model or UNNAMED)
    raise InputError(f"embeddings: expected {SHAPES}, found {type(source).__name__}")


def _model_of(path: str) -> str:
    """The name in an .npz file, where there is one; else a fingerprint of the size, the beginning and the end."""
    import hashlib

    size = os.path.getsize(path)
    with open(path, "rb") as file:
        first = file.read(_SAMPLE)
        file.seek(max(0, size - _SAMPLE))
        digest = hashlib.sha256(b"%d;" % size + first + file.read()).hexdigest()
    if first[:4] == b"PK\x03\x04":
        try:
            with _open_arrays(path) as arrays:
                if MODEL in arrays and (name := str(arrays[MODEL]).strip()):
                    return name
        except UNREADABLE:
            pass  # reading the vectors says what is wrong
    return f"sha256:{digest[:12]}"


def vectors_of(embeddings: Embeddings, docs: Sequence[str]) -> DocVectors:
    """The vectors of these ids, each id once. Vectors without a direction are errors that name their ids."""
    source, name = embeddings.source, embeddings.name
    if isinstance(source, Mapping):
        row, matrix = _from_mapping(source, docs, name)
    elif isinstance(source, str):
        row, matrix = _from_file(source, docs)
    else:
        database = Database()
        row, matrix = _from_table(database, frames.register_frame(database, source, name), docs, name)
    ids = [""] * len(matrix)
    for number, doc in zip(row.tolist(), docs, strict=True):
        if number >= 0:
            ids[number] = doc
    return DocVectors(row, matrix, _lengths(matrix, ids, name))


def _lengths(matrix: Matrix, ids: Sequence[str], name: str) -> NDArray[np.float64]:
    """The length of each vector. Very long and very short ones are scaled: their cosines stay as they are."""
    length = np.empty(len(matrix))
    step = max(1, _BLOCK // max(1, matrix.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"):
        for a in range(0, len(matrix), step):
            block = matrix[a : a + step].astype(np.float64)
            length[a : a + step] = np.sqrt(np.einsum("ij,ij->i", block, block))
    problems = []
    for i in np.flatnonzero(~((length > _SAFE[0]) & (length < _SAFE[1]))).tolist():
        vector = matrix[i].astype(np.float64)
        if not np.isfinite(vector).all():
            bad = vector[~np.isfinite(vector)][0]
            problems.append(f"{name}: doc {shown(ids[i])}: the vector holds {bad}, expected finite numbers")
        elif not vector.any():
            problems.append(
                f"{name}: doc {shown(ids[i])}: the vector is all zeros and has no direction, so that no cosine is "
                "defined; embed the doc again"
            )
        else:
            matrix[i] = vector / np.abs(vector).max()
            length[i] = np.sqrt((matrix[i].astype(np.float64) ** 2).sum())
        if len(problems) > MAX_PROBLEMS:
            break
    if problems:
        raise InputError(problems)
    return length


def _numbers(matrix: Matrix) -> Matrix:
    """A copy in which computing is exact enough: single precision stays, all else becomes double."""
    single = matrix.dtype.kind == "f" and matrix.dtype.itemsize <= 4
    return np.array(matrix, dtype=np.float32 if single else np.float64, order="C")


# --- dicts --------------------------------------------------------------------------------------------


def _from_mapping(source: Mapping[Any, Any], docs: Sequence[str], name: str) -> tuple[Rows, Matrix]:
    keys = source
    if any(type(key) is not str for key in source):
        keys = {}
        for key in source:
            text = text_id(key)
            if text is None:
                raise InputError(f"{name}: a doc id must be text or an integer, found {shown(key)}")
            if text in keys:
                raise InputError(f"{name}: doc {shown(text)} appears twice, as text and as integer; expected it once")
            keys[text] = source[key]
    there = [(i, doc, keys[doc]) for i, doc in enumerate(docs) if doc in keys]
    vectors, problems = [], []
    for _, doc, value in there:
        try:
            vector = np.asarray(value)
        except ValueError:  # lists of unequal length
            vector = np.zeros(0, dtype=object)
        if vector.dtype.kind not in "fiu" or vector.ndim != 1:
            problems.append(f"{name}: doc {shown(doc)}: expected a list of numbers, found {shown(value)}")
            vector = np.zeros(0)
        vectors.append(vector)
    problems += _unequal(
        [len(v) for v in vectors if len(v)], [d for (_, d, _), v in zip(there, vectors, strict=True) if len(v)], name
    )
    if problems:
        raise InputError(problems)
    row = np.full(len(docs), -1, dtype=np.int64)
    row[[i for i, _, _ in there]] = np.arange(len(there))
    return row, _numbers(np.array(vectors)) if vectors else np.zeros((0, 1))


def _unequal(sizes: Sequence[int], ids: Sequence[str], name: str) -> list[str]:
    """Vectors with another number of dimensions than the first."""
    return [
        f"{name}: doc {shown(doc)}: the vector has {size} dimensions, and that of doc {shown(ids[0])} has {sizes[0]}; "
        "expected one model for all"
        for doc, size in zip(ids, sizes, strict=True)
        if size != sizes[0]
    ][: MAX_PROBLEMS + 1]


# --- files --------------------------------------------------------------------------------------------


def _from_file(path: str, docs: Sequence[str]) -> tuple[Rows, Matrix]:
    with open(path, "rb") as file:
        magic = file.read(6)
    if magic == b"\x93NUMPY":
        return _from_npy(path, docs)
    if magic[:4] == b"PK\x03\x04":
        return _from_npz(path, docs)
    if magic[:4] == b"PAR1":
        with frames.parquet_errors(path):
            return _from_table(frames.open_parquet(path), parquet(path), docs, path)
    raise InputError(f"{path}: is not a file of embeddings; expected {SHAPES}; it begins with {shown(magic)}")


def _from_npy(path: str, docs: Sequence[str]) -> tuple[Rows, Matrix]:
    beside = path.removesuffix(".npy") + IDS
    if not os.path.exists(beside):
        raise InputError(f"{path}: no ids beside it; expected {beside} with one id per line, in the order of the rows")
    try:
        with warnings.catch_warnings(action="ignore"):  # of an old form of headers
            matrix = np.load(path, mmap_mode="r", allow_pickle=False)
    except UNREADABLE as error:
        raise InputError(f"{path}: cannot be read as .npy{_reason(error)}; write the matrix of numbers again") from None
    _check_shape(matrix, path)
    with open(beside, "rb") as file:
        rows = _find_rows(
            (line.rstrip(b"\r\n") for line in file),
            {d.encode(): i for i, d in enumerate(docs)},
            len(matrix),
            beside,
            "line",
        )
    return _take_rows(matrix, rows, path)


def _from_npz(path: str, docs: Sequence[str]) -> tuple[Rows, Matrix]:
    try:
        with zipfile.ZipFile(path) as parts:
            unpacked = sum(part.file_size for part in parts.infolist())
        if (problem := bomb_problem(unpacked, os.path.getsize(path))) is not None:
            raise InputError(f"{path}: {problem}")
        with _open_arrays(path) as arrays:
            if absent := [n for n in ("ids", "vectors") if n not in arrays]:
                names = ", ".join(arrays) or "nothing"
                raise InputError(f"{path}: no array {absent[0]!r}; expected ids and vectors, found {names}")
            ids, matrix = arrays["ids"], arrays["vectors"]
    except InputError:
        raise
    except UNREADABLE as error:
        raise InputError(
            f"{path}: cannot be read as .npz{_reason(error)}; write ids as texts and vectors as numbers"
        ) from None
    _check_shape(matrix, path)
    if ids.ndim != 1 or ids.dtype.kind not in "USiu":
        raise InputError(
            f"{path}: ids are of shape {ids.shape} and type {ids.dtype}, expected a list of texts or integers"
        )
    encoded = (i if isinstance(i, bytes) else str(i).encode() for i in ids.tolist())
    return _take_rows(
        matrix, _find_rows(encoded, {d.encode(): i for i, d in enumerate(docs)}, len(matrix), path, "row")
    )


@contextmanager
def _open_arrays(path: str) -> Iterator[Any]:
    """The arrays of an .npz file, which is closed whatever happens."""
    with (
        open(path, "rb") as file,
        warnings.catch_warnings(action="ignore"),
        np.load(file, allow_pickle=False) as arrays,
    ):
        yield arrays


def _reason(error: Exception) -> str:
    """What numpy says of a file, unless it speaks of its own objects."""
    text = str(error)
    return f" ({text})" if text and " object at " not in text else ""


def _check_shape(matrix: Matrix, path: str) -> None:
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise InputError(f"{path}: holds an array of shape {matrix.shape}, expected a row of numbers for each id")
    if matrix.dtype.kind not in "fiu":
        raise InputError(f"{path}: holds {matrix.dtype}, expected numbers")


def _find_rows(ids: Iterator[bytes], places: Mapping[bytes, int], size: int, name: str, word: str) -> Rows:
    """The row of each doc that is needed. Other ids are only counted."""
    rows = np.full(len(places), -1, dtype=np.int64)
    problems: list[str] = []
    count = 0
    for count, raw in enumerate(ids, start=1):
        doc = raw.removeprefix(BYTE_ORDER_MARK) if count == 1 else raw
        place = places.get(doc)
        if place is None:
            if not doc:
                problems.append(f"{name}:{count}: the id is empty, expected one id per {word}")
        elif rows[place] >= 0:
            problems.append(
                f"{name}:{count}: doc {shown(doc)} already appears at {word} {rows[place] + 1}; expected each id once"
            )
        else:
            rows[place] = count - 1
        if len(problems) > MAX_PROBLEMS:
            break
    if count != size and len(problems) <= MAX_PROBLEMS:
        problems.append(f"{name}: holds {count} ids for {size} vectors, expected an id for each")
    if problems:
        raise InputError(problems)
    return rows


def _take_rows(matrix: Matrix, rows: Rows, path: str | None = None) -> tuple[Rows, Matrix]:
    """These rows of a matrix, read in their order on disk."""
    there = np.flatnonzero(rows >= 0)
    there = there[np.argsort(rows[there])]
    out = np.full(len(rows), -1, dtype=np.int64)
    out[there] = np.arange(len(there))
    numbers = rows[there]
    if path is None or not isinstance(matrix, np.memmap) or not matrix.flags.c_contiguous:
        return out, _numbers(matrix[numbers])
    # Piece by piece: pages of a file that is mapped count as memory until it is closed.
    wide = matrix.shape[1] * matrix.dtype.itemsize
    step = max(1, _PIECE // wide)
    vectors = np.empty((len(numbers), matrix.shape[1]), dtype=matrix.dtype.newbyteorder("="))
    for a in range(0, len(matrix), step):
        low, high = np.searchsorted(numbers, (a, a + step)).tolist()
        if low < high:
            span = (min(step, len(matrix) - a), matrix.shape[1])
            piece = np.memmap(path, matrix.dtype, "r", offset=matrix.offset + a * wide, shape=span)
            vectors[low:high] = piece[numbers[low:high] - a]
    return out, vectors if vectors.dtype in (np.float32, np.float64) else _numbers(vectors)


# --- tables -------------------------------------------------------------------------------------------


def _from_table(database: Database, table: Selection, docs: Sequence[str], name: str) -> tuple[Rows, Matrix]:
    """The rows of these docs in a table with an id column and a column of lists."""
    types = database.columns(table)
    id_, vector = _columns(types, name)
    key = f"CAST({quoted(id_)} AS VARCHAR)"
    element = "FLOAT" if types[vector].startswith("FLOAT") else "DOUBLE"
    database.run("CREATE TEMP TABLE docs AS SELECT unnest($ids::VARCHAR[]) AS id", {"ids": list(docs)})
    columns = f"{key} AS id, CAST({quoted(vector)} AS {element}[]) AS vector"
    ids: list[str] = []
    sizes: list[NDArray[np.int64]] = []
    values: list[Matrix] = []
    for batch in database.batches(table.select(columns, f"WHERE {key} IN (SELECT id FROM docs)")):
        texts, lists = batch.children
        ids += texts_of(texts)
        size, numbers = lists_of(lists, np.float32 if element == "FLOAT" else np.float64)
        sizes.append(size)
        values.append(numbers)
    return _in_order(ids, np.concatenate(sizes) if sizes else np.zeros(0, np.int64), values, docs, name)


def _columns(types: Mapping[str, str], name: str) -> tuple[str, str]:
    """The names of the id column and of the column of vectors."""
    names = list(types)
    lowered = [n.lower() for n in names]
    id_ = column(lowered, ID_NAMES)
    if id_ is None:
        raise InputError(f"{name}: no id column; expected one of {', '.join(ID_NAMES)}; found {', '.join(names)}")
    if types[names[id_]] not in frames.ID_TYPES:
        raise InputError(f"{name}: ids in column {names[id_]!r} are {types[names[id_]]}, expected text or integers")
    lists = [n for n in names if re.fullmatch(r"(FLOAT|DOUBLE|U?\w*INT\w*|DECIMAL\([\d,]+\))\[\d*\]", types[n])]
    candidates = [n for n in lists if n.lower() in _VECTOR_NAMES] or lists
    if len(candidates) != 1:
        columns = ", ".join(f"{n} ({t})" for n, t in types.items())
        what = "no column of lists of numbers" if not candidates else f"{len(candidates)} columns of lists of numbers"
        raise InputError(f"{name}: {what}; expected one, such as {_VECTOR_NAMES[0]!r}; found {columns}")
    return names[id_], candidates[0]


def _in_order(
    ids: Sequence[str], sizes: Rows, values: Sequence[Matrix], docs: Sequence[str], name: str
) -> tuple[Rows, Matrix]:
    first: dict[str, int] = {}
    twice = [doc for i, doc in enumerate(ids) if first.setdefault(doc, i) != i]
    problems = [
        f"{name}: doc {shown(doc)} appears more than once; expected each id once" for doc in dict.fromkeys(twice)
    ]
    problems += [f"{name}: doc {shown(ids[i])}: no vector (null or empty)" for i in np.flatnonzero(sizes == 0).tolist()]
    full = np.flatnonzero(sizes > 0)
    problems += _unequal(sizes[full].tolist(), [ids[i] for i in full.tolist()], name)
    if problems:
        raise InputError(problems)
    row = np.array([first.get(doc, -1) for doc in docs], dtype=np.int64)
    if not ids:
        return row, np.zeros((0, 1))
    return row, np.concatenate(list(values)).reshape(len(ids), -1)
