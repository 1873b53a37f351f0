"""Every input format: what recognises it, what it can hold, and what follows from its declaration."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any, get_args

import pytest

import karat
from karat.config.models import Config
from karat.config.options import all_options
from karat.read.columns import Role
from karat.read.files import InputFile
from karat.read.formats import all_formats, describe_formats, format_names, recognise_format

if TYPE_CHECKING:
    from pathlib import Path

SAMPLES = {
    "csv": b"query_id,doc_id,grade,score\nq1,d1,1,1\n",
    "json": b'{"q1": {"d1": 1}}',
    "jsonl": b'{"query_id": "q1", "doc_id": "d1", "grade": 1, "score": 1}\n',
    "parquet": b"PAR1",
    "topics": b"<top>\n<num> q1\n<title> text\n</top>\n",
    "trec": b"q1 0 d1 1\n",
    "tsv": b"query-id\tcorpus-id\tscore\nq1\td1\t1\n",
}
"""A file of each format; the first row judges d1 for q1."""


def test_every_format_has_a_sample_here() -> None:
    assert list(SAMPLES) == list(all_formats())


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_is_recognised_by_one_format(name: str) -> None:
    file = InputFile("file", SAMPLES[name])
    sure = [form.name for form in all_formats().values() if form.recognises(file) and not form.guess]
    assert recognise_format(file).name == name
    assert sure == ([] if all_formats()[name].guess else [name])


@pytest.mark.parametrize("name", [name for name in format_names("qrels") if name != "parquet"])
def test_a_format_that_is_stated_reads_what_detection_reads(name: str, tmp_path: Path) -> None:
    path = tmp_path / "gold"
    path.write_bytes(SAMPLES[name])
    stated, detected = karat.read_qrels(path, format=name), karat.read_qrels(path)
    assert stated.query_ids == detected.query_ids == ["q1"]
    assert list(stated.docs) == list(detected.docs) == ["d1"]


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
