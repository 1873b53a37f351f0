"""Every input format: what recognises it, what it can hold, and what follows from its declaration."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import karat
from karat.config.models import Config
from karat.config.options import all_options
from karat.read.columns import Role
from karat.read.files import InputFile
from karat.read.formats import all_formats, describe_formats, format_names, recognise_format

if TYPE_CHECKING:
    from pathlib import Path


def parquet() -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"query_id": ["q1"], "doc_id": ["d1"], "grade": [1], "score": [1.0]}), buffer)
    return buffer.getvalue()


@dataclass(frozen=True)
class Sample:
    """A whole file of a format, and a broken one."""

    data: bytes
    """It judges d1 for q1 and returns it, or holds the query q1, whatever the format can hold."""
    broken: bytes
    says: str
    """What is said of the broken file, after its name."""
    run: bytes = b""
    """A run, where runs do not look like gold."""
    table: bytes = b""
    """A table of queries, where tables look different again."""


SAMPLES = {
    "cases": Sample(
        b'[{"case_id": "q1", "text": "words", "expected_ids": ["d1"]}]',
        b'[\n{"text": "words", "expected_ids": []}]',
        ':2: case "1": expected_ids must hold at least one id',
    ),
    "csv": Sample(
        b"query_id,doc_id,grade,score\nq1,d1,1,1\n",
        b"query_id,doc_id,grade,score\nq1,d1,1,1\nq1,d2,x,x\n",
        ':3: grade must be a finite number, found "x"',
    ),
    "json": Sample(
        b'{"q1": {"d1": 1}}', b'{"q1": {"d1": 1, "d1": 2}}', ': "d1" appears twice', table=b'{"query_id": "q1"}'
    ),
    "jsonl": Sample(
        b'{"query_id": "q1", "doc_id": "d1", "grade": 1, "score": 1}\n',
        b'{"query_id": "q1", "doc_id": "d1", "grade": 1}\n{"query_id": "q1", "doc_id": "d2"}\n',
        ":2: grade must be a finite number in 'grade', found nothing",
    ),
    "parquet": Sample(parquet(), parquet()[:-9], ": cannot be read as Parquet"),
    "topics": Sample(
        b"<top>\n<num> q1\n<title> text\n</top>\n",
        b"<top>\n<num> q1\n</top>\n<top>\n<title> text\n</top>\n",
        ":4: no topic number",
    ),
    "trec": Sample(b"q1 0 d1 1\n", b"q1 0 d1 1\nq1 0 d2\n", ":2: found 3 columns", run=b"q1 Q0 d1 1 1 t\n"),
    "tsv": Sample(
        b"query-id\tcorpus-id\tscore\nq1\td1\t1\n",
        b"query-id\tcorpus-id\tscore\nq1\td1\tx\n",
        ':2: grade must be a finite number, found "x"',
    ),
}


def name_file(stem: str, name: str) -> str:
    """A name for a file of this format: one that is known by its ending has it."""
    return stem + next(iter(all_formats()[name].endings), "")


def test_every_format_has_a_sample_here() -> None:
    assert list(SAMPLES) == list(all_formats())


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_is_recognised_by_one_format(name: str) -> None:
    file = InputFile(name_file("file", name), SAMPLES[name].data)
    sure = [form.name for form in all_formats().values() if form.recognises(file) and not form.guess]
    assert recognise_format(file).name == name
    assert sure == ([] if all_formats()[name].guess else [name])


@pytest.mark.parametrize("name", SAMPLES)
def test_no_format_needs_an_ending(name: str) -> None:
    """Standard input has none."""
    assert recognise_format(InputFile("file", SAMPLES[name].data)).name == name


@pytest.mark.parametrize("name", SAMPLES)
def test_a_broken_file_is_refused_with_its_place(name: str, tmp_path: Path) -> None:
    path = tmp_path / name_file("file", name)
    path.write_bytes(SAMPLES[name].broken)
    assert recognise_format(InputFile(str(path), SAMPLES[name].broken)).name == name
    form = all_formats()[name]
    with pytest.raises(karat.InputError) as refusal:
        if form.holds("qrels"):
            karat.read_qrels(path)
        elif form.holds("run"):
            karat.evaluate({"q1": {"d1": 1}}, path, "mrr", cache=False)
        else:
            karat.read_queries(path)
    assert str(refusal.value).startswith(f"{path}{SAMPLES[name].says}")


OTHER_USES = [
    (name, use)
    for name, form in all_formats().items()
    for use in ("qrels", "run", "table")
    if not form.holds(use) and not form.guess
]


@pytest.mark.parametrize(("name", "use"), OTHER_USES)
def test_a_format_that_holds_something_else_is_named(name: str, use: str, tmp_path: Path) -> None:
    path = tmp_path / name_file("file", name)
    path.write_bytes(SAMPLES[name].data)
    with pytest.raises(karat.InputError, match=f"looks like {all_formats()[name].title}, a format of .* alone"):
        if use == "qrels":
            karat.read_qrels(path)
        elif use == "run":
            karat.evaluate({"q1": {"d1": 1}}, path, "mrr", cache=False)
        else:
            karat.read_queries(path)


@pytest.mark.parametrize("name", format_names("qrels"))
def test_gold_in_a_format_that_is_stated_is_what_detection_reads(name: str, tmp_path: Path) -> None:
    path = tmp_path / name_file("gold", name)
    path.write_bytes(SAMPLES[name].data)
    stated, detected = karat.read_qrels(path, format=name), karat.read_qrels(path)
    assert stated.query_ids == detected.query_ids == ["q1"]
    assert list(stated.docs) == list(detected.docs) == ["d1"]


@pytest.mark.parametrize("name", format_names("run"))
def test_a_run_in_a_format_that_is_stated_is_what_detection_reads(name: str, tmp_path: Path) -> None:
    path = tmp_path / name_file("run", name)
    path.write_bytes(SAMPLES[name].run or SAMPLES[name].data)
    for stated in (name, None):
        result = karat.evaluate({"q1": {"d1": 1}}, path, "num_ret,num_rel_ret", run_format=stated, cache=False)
        assert result.mean == {"num_ret": 1, "num_rel_ret": 1}


@pytest.mark.parametrize("name", [form.name for form in all_formats().values() if form.holds("table")])
def test_a_table_of_queries_is_read_in_every_format_that_holds_tables(name: str, tmp_path: Path) -> None:
    path = tmp_path / name_file("queries", name)
    path.write_bytes(SAMPLES[name].table or SAMPLES[name].data)
    assert list(karat.read_queries(path).fields) == ["q1"]


@pytest.mark.parametrize("form", all_formats().values(), ids=lambda form: form.name)
def test_a_format_reads_what_it_holds(form: Any) -> None:
    assert bool(form.read) == (form.holds("qrels") or form.holds("run"))
    assert bool(form.read_table) == form.holds("table")


@pytest.mark.parametrize("role", get_args(Role))
def test_choices_errors_and_config_list_the_formats(role: Role) -> None:
    names = [form.name for form in all_formats().values() if form.holds(role)]
    option = all_options()["qrels_format" if role == "qrels" else "run_format"]
    assert list(option.choices) == names
    assert all(all_formats()[name].title in describe_formats(role) for name in names)
    schema = Config.model_json_schema()
    place = schema["$defs"]["Dataset"] if role == "qrels" else schema
    assert {"enum": names, "type": "string"} in place["properties"][option.name]["anyOf"]


def test_the_declarations_load_nothing_slow() -> None:
    code = "import karat.read.formats, sys; karat.read.formats.all_formats(); print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
