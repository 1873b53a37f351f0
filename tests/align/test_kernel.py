"""The compiled kernel gives what numpy gives, hands back what is not plain, and can be done without."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import blocks
import karat
from karat.align import find
from karat.align.compiled import TextKernel
from karat.align.lists import align_scored
from karat.model import kernel
from karat.model.policy import Policy
from karat.model.run import ScoredLists

ROOT = Path(__file__).parents[2]
compiled = pytest.mark.skipif(len(kernel.parts) < 2, reason="the kernel is not compiled here")


def load_builder() -> Any:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    builder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    return builder


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Another process, with this environment beside the usual one."""
    mine = {**os.environ, **environment}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=mine)


# --- text ---------------------------------------------------------------------------------------------


@compiled
def test_mutated_blocks_are_aligned_as_numpy_aligns_them_or_handed_back() -> None:
    outcomes = blocks.run(4000, seed=3)
    assert outcomes["aligned"] > 800 and outcomes["handed back"] > 800


@compiled
def test_the_comparison_sees_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    real = TextKernel.align

    def wrong(self: TextKernel, block: Any) -> Any:
        hits = real(self, block)
        if hits is not None:
            hits.rank[:1] += 1
        return hits

    monkeypatch.setattr(TextKernel, "align", wrong)
    with pytest.raises(blocks.Different):
        blocks.run(200, seed=3)


def plain_kernel(gold: dict[str, dict[str, float]], **choices: Any) -> TextKernel:
    assert kernel.text is not None
    return TextKernel(kernel.text, karat.read_qrels(gold), Policy(**choices), blocks.LAYOUTS[0])


digits = st.from_regex(r"\A-?[0-9]{1,20}\.[0-9]{0,20}\Z") | st.from_regex(r"\A[0-9]\.[0-9]{1,17}e-?[0-9]{1,2}\Z")
numbers = digits | st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.sampled_from(blocks.SCORES)


@compiled
@settings(max_examples=400)
@given(score=numbers, steps=st.integers(-2, 2))
@example(score="9007199254740993", steps=-1)
@example(score="0.50000000000000011", steps=1)
def test_scores_are_the_nearest_doubles(score: str, steps: int) -> None:
    """Beside a number that is a few doubles away, each score takes its place."""
    other = np.float64(score)
    for _ in range(abs(steps)):
        with np.errstate(over="ignore"):  # above the largest is infinity, which is handed back
            other = np.nextafter(other, np.inf * steps)
    data = f"q Q0 b 1 {score} t\nq Q0 a 2 {float(other)!r} t\n".encode()
    hits = plain_kernel({"q": {"a": 1}}).align(blocks.as_block(data))
    if hits is not None:
        assert hits.rank.tolist() == [1 if other > float(score) else 2]


@compiled
def test_usual_numbers_are_not_handed_back() -> None:
    texts = (
        "0.016393442622950821",
        "27.123456",
        "-0.5",
        "1e-05",
        "1.2345678901234567e-05",
        "12",
        "0.87654321",
        "3.4e18",
    )
    for text in texts:
        assert plain_kernel({"q": {"a": 1}}).align(blocks.as_block(f"q Q0 a 1 {text} t\n".encode())) is not None, text


@compiled
@pytest.mark.parametrize("mark", [" ", "\t", "   ", " \t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", " \n"])
def test_any_white_space_is_read(mark: str, end: str) -> None:
    lines = (mark.join(("q", "Q0", f"doc-{i}" + "x" * 20 * i, str(i), str(-i), "tag")) + end for i in range(6))
    hits = plain_kernel({"q": {"doc-0": 1, "doc-3" + "x" * 60: 1}}).align(blocks.as_block("".join(lines).encode()))
    assert hits is not None and hits.rank.tolist() == [1, 4] and hits.returned.tolist() == [6]


@compiled
@pytest.mark.parametrize(
    "line",
    [
        *("# a comment", "", "q Q0 a 1 2", "q Q0 a 1 2 t more", "q Q0 a 1 nan t", "q Q0 a 1 0x1 t", "q Q0 a 1 1_0 t"),
        *("q Q0 b 1 2 t", "q\x01 Q0 a 1 2 t", "q Q0 a\x1f 1 2 t", "p Q0 a 1 2 t\nq Q0 c 1 2 t", "q Q0 a 1 1e999 t"),
    ],
)
def test_what_is_not_plain_is_handed_back(line: str) -> None:
    data = f"q Q0 b 1 3 t\n{line}\n".encode()
    assert plain_kernel({"q": {"a": 1}}).align(blocks.as_block(data)) is None


@compiled
def test_bytes_that_are_no_text_are_handed_back() -> None:
    assert plain_kernel({"q": {"a": 1}}).align(blocks.as_block(b"q Q0 \xff 1 3 t\n")) is None
    assert plain_kernel({"q": {"é": 1}}).align(blocks.as_block("q Q0 é 1 3 t\n".encode())) is not None


@compiled
def test_long_ids_and_ids_that_collide_end_in_time() -> None:
    """A table whose places are all taken is given up, not searched for ever."""
    lines = "".join(f"q Q0 {'x' * (i % 300)}{i} 1 {-i} t\n" for i in range(30_000))
    hits = plain_kernel({"q": {f"{'x' * 299}299": 1}}).align(blocks.as_block(lines.encode()))
    assert hits is not None and hits.rank.tolist() == [300]


# --- Arrow --------------------------------------------------------------------------------------------

arrow_ids = st.sampled_from(["a", "b", "ab", "twelve-bytes", "thirteen-byte", "é", "z#1", "x" * 40])
arrow_rows = st.lists(
    st.tuples(arrow_ids, arrow_ids, st.integers(-3, 3) | st.floats(-2, 2, width=32)), min_size=1, max_size=30
)
odd_cells = st.sampled_from([(0, None), (1, None), (2, None), (0, ""), (1, ""), (1, "a\0b"), (2, float("nan"))])


def found_in_frame(gold: Any, frame: Any) -> Any:
    """What is found in a frame, or the error that says why nothing can be."""
    try:
        hits, notes = find(karat.read_qrels(gold), karat.read_run(frame), Policy())
    except karat.InputError as error:
        return str(error)
    order = np.argsort(hits.gold, kind="stable")
    return (
        *(a.tolist() for a in (hits.gold[order], hits.rank[order], hits.returned)),
        *(sorted(hits.without_gold), hits.duplicates, hits.ascending, hits.level, hits.at_doc, notes),
    )


@compiled
@settings(max_examples=300)
@given(
    gold=st.dictionaries(arrow_ids, st.dictionaries(arrow_ids, st.just(1), min_size=1), min_size=1),
    rows=arrow_rows,
    grouped=st.booleans(),
    once=st.booleans(),
    odd=st.none() | odd_cells,
    kinds=st.tuples(*[st.sampled_from(["string", "large_string", "string_view"])] * 2),
    number=st.sampled_from(["double", "float"]),
    cut=st.integers(1, 30),
    skip=st.integers(0, 3),
)
@example(  # the list of ab rises, alone in a batch or beside others: the count must not depend on where batches end
    gold={"a": {"a": 1}, "ab": {"a": 1}, "b": {"a": 1}},
    rows=[("a", "a", 0), ("a", "a", 0), ("ab", "a", -1), ("ab", "a", 0), ("b", "a", 0)],
    grouped=True,
    once=False,
    odd=None,
    kinds=("string", "string"),
    number="double",
    cut=3,
    skip=0,
)
def test_frames_are_aligned_as_numpy_aligns_them(
    gold: Any, rows: Any, grouped: bool, once: bool, odd: Any, kinds: Any, number: str, cut: int, skip: int
) -> None:
    """Texts of every shape, in several batches, the first of which may begin within its buffers."""
    pa = pytest.importorskip("pyarrow")
    cells = [list(row) for row in rows]
    if once:
        cells = list({(q, d): [q, d, s] for q, d, s in cells}.values())
    if grouped:
        cells.sort(key=lambda row: row[0])
    if odd is not None:
        cells[len(cells) // 2][odd[0]] = odd[1]
    types = [pa.type_for_alias(kind) for kind in (*kinds, number)]
    columns = [pa.array(column, type_) for column, type_ in zip(zip(*cells, strict=True), types, strict=True)]
    table = pa.table(columns, names=["query_id", "doc_id", "score"])
    rest = table.slice(cut)
    frame = pa.concat_tables([table.slice(skip, max(0, cut - skip)), rest])
    if len(frame) == 0:
        return
    mine = found_in_frame(gold, frame)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "text", None)
        assert mine == found_in_frame(gold, frame)
    with pytest.MonkeyPatch.context() as patch:  # by way of the database
        patch.setattr("karat.read.frames._plain_layout", lambda *_: None)
        assert mine == found_in_frame(gold, frame)


@compiled
@pytest.mark.parametrize("package", ["pyarrow", "polars", "pandas"])
def test_plain_frames_are_not_handed_back(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip(package)
    data = {"query_id": ["q", "q", "p"], "doc_id": ["a", "long-id-of-a-doc", "b"], "score": [2.0, 1.0, 3.0]}
    frame: Any = pa.table(data)
    if package == "polars":
        frame = importlib.import_module("polars").from_arrow(frame)
    elif package == "pandas":
        frame = frame.to_pandas()
        if str(frame.dtypes.iloc[0]) == "object":
            pytest.skip("this pandas has no texts of Arrow's")

    def refuse(*_: Any) -> Any:
        raise AssertionError("handed back")

    monkeypatch.setattr("karat.align.stream.align_block", refuse)
    monkeypatch.setattr("karat.read.column_stream.ColumnStream.rows", refuse)
    hits, _ = find(karat.read_qrels({"q": {"long-id-of-a-doc": 1}}), karat.read_run(frame), Policy())
    assert hits.rank.tolist() == [2] and hits.without_gold == ["p"]


# --- dicts --------------------------------------------------------------------------------------------

ids = st.sampled_from(["a", "b", "ab", "é", "日本", "𝔸", "z#1", "doc-0001", "doc-0002", "x" * 40])
values = st.integers(-3, 3) | st.floats(-5, 5).map(lambda f: round(f, 1)) | st.sampled_from([2.0**60, 2**60 + 1, -0.0])
odd_values = st.sampled_from([True, None, "1.5", float("nan"), float("inf"), 10**400, np.float32(1.5), np.float64(2.5)])
dicts = st.dictionaries(ids, st.dictionaries(ids, values, max_size=9), min_size=1, max_size=5)
odd_dicts = st.dictionaries(
    ids | st.integers(0, 3), st.dictionaries(ids | st.just("") | st.integers(0, 3), values | odd_values, max_size=6)
)


def found_in(gold: Any, run: Any, precision: Any) -> Any:
    """What is found in dicts, or the error that says why nothing can be."""
    try:
        qrels = karat.read_qrels(gold)
        content = karat.read_run(run).content
        assert isinstance(content, ScoredLists)
        hits = align_scored(qrels, content, Policy(score_precision=precision), keep_items=2)
    except (karat.InputError, AssertionError) as error:
        return str(error)
    order = np.argsort(hits.gold)  # hits are in any order
    arrays = (qrels.offsets, qrels.grades, hits.gold[order], hits.rank[order], hits.returned)
    return [
        (qrels.query_ids, qrels.docs, content.unmarked, list(hits.without_gold), hits.level, hits.items),
        *((a.dtype.str, a.tolist()) for a in arrays),
    ]


def check_dicts(gold: Any, run: Any) -> None:
    for precision in ("float64", "float32"):
        mine = found_in(gold, run, precision)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernel, "dicts", None)
            assert mine == found_in(gold, run, precision)


@compiled
@settings(max_examples=300)
@given(gold=dicts.filter(lambda gold: all(gold.values())), run=dicts)
def test_dicts_are_aligned_alike(gold: Any, run: Any) -> None:
    check_dicts(gold, run)


@compiled
@settings(max_examples=300)
@given(gold=odd_dicts, run=odd_dicts)
def test_odd_dicts_are_refused_alike_or_aligned_alike(gold: Any, run: Any) -> None:
    check_dicts(gold, run)


@compiled
@pytest.mark.parametrize("levels", [1, 3, 40, 10_000])
def test_long_dicts_are_aligned_alike(levels: int) -> None:
    rng = np.random.default_rng(levels)
    names = [f"d{i}" for i in rng.permutation(3000)]
    gold = {f"q{q}": dict.fromkeys(rng.choice(names, size=size).tolist(), 1) for q, size in enumerate((2, 9, 70, 300))}
    run = {q: {d: float(rng.integers(levels)) for d in rng.permutation(names)[:1000].tolist()} for q in gold}
    check_dicts(gold, run)
    check_dicts(gold, {q: dict(sorted(docs.items(), key=lambda item: -item[1])) for q, docs in run.items()})


@compiled
def test_ids_beyond_those_that_are_checked_are_seen_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karat.read.objects.DOCS_TO_CHECK", 2)
    gold = {"q1": {"a": 1}}
    for last in ({"a": 1.0, "b": 2.0}, {7: 1.0, "b": 2.0}, {"b": 1.0, 7: 2.0}, {"b": True}, {}):
        check_dicts(gold, {"q1": {"a": 1.0, "b#1": 2.0}, "q2": last})


# --- the choice ---------------------------------------------------------------------------------------

TELL = "from karat.model import kernel; print(kernel.described())"


def test_the_environment_chooses(tmp_path: Path) -> None:
    assert run_python(TELL, KARAT_KERNEL="numpy").stdout == "without compiled kernel\n"
    evaluate = "import karat; karat.evaluate({'q': {'d': 1}}, {'q': {'d': 1.0}})"
    for choice, text in (("fast", "found 'fast', expected"), (f"{tmp_path}/none", "is not here for text")):
        told = run_python(evaluate, KARAT_KERNEL=choice)
        assert "karat.errors.InputError: KARAT_KERNEL" in told.stderr and text in told.stderr
        assert text in run_python(TELL, KARAT_KERNEL=choice).stdout


@compiled
def test_the_version_names_the_kernel() -> None:
    told = run_python("import sys; sys.argv[1:] = ['--version']; from karat.cli import main; main()", KARAT_KERNEL="")
    assert told.stdout == f"karat {karat.__version__} (compiled kernel for text and dicts)\n"


@compiled
def test_a_library_that_cannot_be_loaded_is_done_without(tmp_path: Path) -> None:
    copy = tmp_path / "kernel"
    shutil.copytree(Path(kernel.__file__).parent, copy, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (copy / kernel.LIBRARY).write_bytes(b"not a library")
    (copy / "dicts.abi3.so").write_bytes(b"not a module")
    code = f"import karat.model; karat.model.__path__.insert(0, {str(tmp_path)!r}); {TELL}"
    assert run_python(code, KARAT_KERNEL="").stdout == "without compiled kernel\n"


# --- building -----------------------------------------------------------------------------------------


def test_without_a_compiler_nothing_is_built_and_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    builder = load_builder()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("KARAT_KERNEL", raising=False)
    (tmp_path / builder.LIBRARY).write_bytes(b"of an earlier build")
    assert builder.build(tmp_path) == [] and not list(tmp_path.iterdir())
    assert builder.wheel_tag([]) == "py3-none-any"
    assert capfd.readouterr() == ("", "")
    monkeypatch.setenv("KARAT_KERNEL", "compiled")
    with pytest.raises(SystemExit, match="needs a C compiler"):
        builder.build(tmp_path)


def test_a_compiler_that_fails_builds_nothing_and_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    builder = load_builder()
    monkeypatch.setenv("CC", "false")
    monkeypatch.delenv("KARAT_KERNEL", raising=False)
    assert builder.build(tmp_path) == [] and not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(load_builder().find_compiler() is None, reason="there is no C compiler here")
def test_what_is_built_has_the_tag_of_its_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = load_builder()
    files = builder.build(tmp_path)
    assert files and sorted(tmp_path.iterdir()) == sorted(files)
    assert builder.wheel_tag(files[:1]).startswith("py3-none-") and "any" not in builder.wheel_tag(files)
    if len(files) == 2:
        assert builder.wheel_tag(files).startswith("cp311-abi3-")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc here")
def test_sanitizers_have_nothing_to_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A little of what `make test-kernel` runs."""
    asan = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    builder = load_builder()
    monkeypatch.setenv("CC", "gcc")
    if not os.path.isabs(asan) or len(builder.build(tmp_path, sanitize=True)) < 2:
        pytest.skip("gcc has no sanitizers or Python no headers here")
    watched = {
        "LD_PRELOAD": asan,
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
        "KARAT_KERNEL": str(tmp_path),
    }
    told = subprocess.run(
        [sys.executable, "tests/fuzz/blocks.py", "--cases", "1500", "--seed", "5"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **watched},
    )
    assert told.returncode == 0 and "none of them wrong" in told.stdout, told.stderr
