"""Every input format: what recognises it, what it can hold, and what follows from its declaration."""

from __future__ import annotations

import io
import subprocess
import sys
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


SAMPLES = {
    "cases": b'[{"case_id": "q1", "text": "words", "expected_ids": ["d1"]}]',
    "csv": b"query_id,doc_id,grade,score\nq1,d1,1,1\n",
    "json": b'{"q1": {"d1": 1}}',
    "jsonl": b'{"query_id": "q1", "doc_id": "d1", "grade": 1, "score": 1}\n',
    "parquet": parquet(),
    "topics": b"<top>\n<num> q1\n<title> text\n</top>\n",
    "trec": b"q1 0 d1 1\n",
    "tsv": b"query-id\tcorpus-id\tscore\nq1\td1\t1\n",
}
"""A file of each format: it judges d1 for q1 and returns it, or holds the query q1, whatever the format can hold."""
RUNS = {"trec": b"q1 Q0 d1 1 1 t\n"}
"""A run in each format whose runs do not look like its gold."""
TABLES = {"json": b'{"query_id": "q1"}'}
"""A table of queries in each format whose tables look different again."""


def name_file(stem: str, name: str) -> str:
    """A name for a file of this format: one that is known by its ending has it."""
    return stem + next(iter(all_formats()[name].endings), "")


def test_every_format_has_a_sample_here() -> None:
    assert list(SAMPLES) == list(all_formats())


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_is_recognised_by_one_format(name: str) -> None:
    file = InputFile(name_file("file", name), SAMPLES[name])
    sure = [form.name for form in all_formats().values() if form.recognises(file) and not form.guess]
    assert recognise_format(file).name == name
    assert sure == ([] if all_formats()[name].guess else [name])


@pytest.mark.parametrize("name", ["cases", "csv", "json", "jsonl", "parquet", "topics", "trec", "tsv"])
def test_these_formats_need_no_ending(name: str) -> None:
    assert recognise_format(InputFile("file", SAMPLES[name])).name == name


@pytest.mark.parametrize("name", format_names("qrels"))
def test_gold_in_a_format_that_is_stated_is_what_detection_reads(name: str, tmp_path: Path) -> None:
    path = tmp_path / name_file("gold", name)
    path.write_bytes(SAMPLES[name])
    stated, detected = karat.read_qrels(path, format=name), karat.read_qrels(path)
    assert stated.query_ids == detected.query_ids == ["q1"]
    assert list(stated.docs) == list(detected.docs) == ["d1"]


@pytest.mark.parametrize("name", format_names("run"))
def test_a_run_in_a_format_that_is_stated_is_what_detection_reads(name: str, tmp_path: Path) -> None:
    path = tmp_path / name_file("run", name)
    path.write_bytes(RUNS.get(name, SAMPLES[name]))
    for stated in (name, None):
        result = karat.evaluate({"q1": {"d1": 1}}, path, "num_ret,num_rel_ret", run_format=stated, cache=False)
        assert result.mean == {"num_ret": 1, "num_rel_ret": 1}


@pytest.mark.parametrize("name", [form.name for form in all_formats().values() if form.holds("table")])
def test_a_table_of_queries_is_read_in_every_format_that_holds_tables(name: str, tmp_path: Path) -> None:
    path = tmp_path / name_file("queries", name)
    path.write_bytes(TABLES.get(name, SAMPLES[name]))
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
