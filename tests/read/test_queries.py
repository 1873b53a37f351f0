"""Tables of queries and docs: topic files, quotes, headers, and files whose names look like patterns."""

from __future__ import annotations

from pathlib import Path

import polars
import pytest

import karat
from karat.errors import InputError
from karat.read.docs import read_docs
from karat.verbs.diagnose.misses import misses

AD_HOC = """
<top>
<head> Tipster Topic Description
<num> Number:  051
<dom> Domain:  International Economics
<title> Topic:  Airbus Subsidies

<desc> Description:

Document will discuss government assistance
to Airbus Industrie.

<narr> Narrative:
A relevant document will cite or discuss assistance.
</top>

<top>
<num> Number: 301
<title> International Organized Crime

<desc> Description:
Identify organizations &amp; groups with x < 5 members.
</top>
"""
XML = """<?xml version="1.0" encoding="UTF-8"?>
<topics task="Search" batch="1">
  <!-- <topic number="0"><query>not this one</query></topic> -->
  <topic number="1" type="faceted">
    <query>coronavirus <b>origin</b></query>
    <question>what is the origin of COVID-19</question>
    <narrative>seeking range of information</narrative>
    <subtopic number="1">bats</subtopic>
    <subtopic number="2">markets</subtopic>
  </topic>
  <topic number="CT2"> A 60-year-old man with a cough. </topic>
</topics>
"""
CLOSED = "<top>\n<num> Number: MB001 </num>\n<title> BBC World Service staff cuts </title>\n</top>\n"


def test_topics_of_the_ad_hoc_tracks_are_read(tmp_path: Path) -> None:
    (tmp_path / "topics.txt").write_text(AD_HOC)
    queries = karat.read_queries(tmp_path / "topics.txt")
    assert list(queries.fields) == ["51", "301"]
    assert queries.fields["51"] == {
        "text": "Airbus Subsidies",
        "head": "Tipster Topic Description",
        "domain": "International Economics",
        "description": "Document will discuss government assistance to Airbus Industrie.",
        "narrative": "A relevant document will cite or discuss assistance.",
    }
    assert queries.fields["301"]["text"] == "International Organized Crime"
    assert queries.fields["301"]["description"] == "Identify organizations & groups with x < 5 members."
    assert queries.lines == {"51": 2, "301": 17}


def test_topics_in_xml_are_read(tmp_path: Path) -> None:
    (tmp_path / "topics.xml").write_text(XML)
    queries = karat.read_queries(tmp_path / "topics.xml")
    assert queries.fields["1"] == {
        "text": "coronavirus origin",
        "type": "faceted",
        "question": "what is the origin of COVID-19",
        "narrative": "seeking range of information",
        "subtopic": ["bats", "markets"],
    }
    assert queries.fields["CT2"] == {"text": "A 60-year-old man with a cough."}
    assert len(queries) == 2


def test_topics_with_closed_fields_are_read(tmp_path: Path) -> None:
    (tmp_path / "topics.txt").write_text(CLOSED)
    assert karat.read_queries(tmp_path / "topics.txt").fields == {"MB001": {"text": "BBC World Service staff cuts"}}


def test_a_field_named_topic_is_part_of_its_topic(tmp_path: Path) -> None:
    text = "<top>\n<num> Number: q1\n<title> cuts\n<topic> news\n</top>\n"
    (tmp_path / "topics.txt").write_text(text)
    assert karat.read_queries(tmp_path / "topics.txt").fields == {"q1": {"text": "cuts", "topic": "news"}}


def test_topics_that_break_off_or_have_no_number_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "topics.txt"
    path.write_text(CLOSED + "<top>\n<num> Number: 2\n<title> cut")
    with pytest.raises(InputError, match=r"topics\.txt:5: this topic has no </top>"):
        karat.read_queries(path)
    path.write_text("<top>\n<title> no number\n</top>\n")
    with pytest.raises(InputError, match=r"topics\.txt:1: no topic number"):
        karat.read_queries(path)


def test_validate_and_init_know_topics(tmp_path: Path) -> None:
    (tmp_path / "topics.robust04.txt").write_text(AD_HOC)
    (tmp_path / "qrels.txt").write_text("51 0 d1 1\n301 0 d2 1\n")
    (tmp_path / "bm25.run").write_text("51 Q0 d1 1 2 t\n301 Q0 d2 1 2 t\n")
    validation = karat.validate(sorted(map(str, tmp_path.iterdir())))
    assert validation.roles[str(tmp_path / "topics.robust04.txt")] == "queries"
    assert validation.ok
    assert "queries: topics.robust04.txt" in karat.init(str(tmp_path))


def test_segments_come_from_topics(tmp_path: Path) -> None:
    (tmp_path / "topics.xml").write_text(XML)
    result = karat.evaluate(
        {"1": {"a": 1}, "CT2": {"a": 1}}, {"1": ["a"]}, "mrr", queries=tmp_path / "topics.xml", by="type"
    )
    assert {"type": "faceted"} in [dict(s.by) for s in result.segments]


def test_a_stray_quote_in_a_tsv_is_text(tmp_path: Path) -> None:
    path = tmp_path / "topics.tsv"
    path.write_text('1\t"what is love\n2\twho wrote it\n3\tbar" baz\n4\t"all ""quoted"""\n5\t"a" b\n')
    texts = {q: fields["text"] for q, fields in karat.read_queries(path).fields.items()}
    assert texts == {"1": '"what is love', "2": "who wrote it", "3": 'bar" baz', "4": '"all ""quoted"""', "5": '"a" b'}


def test_a_tsv_whose_header_is_quoted_is_quoted(tmp_path: Path) -> None:
    path = tmp_path / "queries.tsv"
    path.write_text('"query_id"\t"text"\n"1"\t"a ""b"""\n"2"\t"c\td"\n')
    assert karat.read_queries(path).field("text") == {"1": 'a "b"', "2": "c\td"}
    path.write_text('"query_id"\t"text"\n"1"\t"a\n"2"\t"c"\n')
    with pytest.raises(InputError, match=r"queries\.tsv:2: a quoted cell that begins here is not closed"):
        karat.read_queries(path)


def test_an_unclosed_quote_in_a_csv_is_refused_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "queries.csv"
    path.write_text('query_id,text\n1,foo\n2,"bar\n3,baz\n')
    with pytest.raises(InputError, match=r"queries\.csv:3: a quoted cell that begins here is not closed"):
        karat.read_queries(path)
    path.write_text('query_id,text\n1,"foo\nbar"\n2,baz\n')
    assert karat.read_queries(path).fields["1"]["text"] == "foo\nbar"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("query number,question,language\n1,what,en\n", r"q\.csv:1: found 3 columns.*expected an id and a text"),
        ("query_id,text,text\n1,a,b\n", 'q.csv:1: the column "text" appears twice'),
        (",,,\n", "q.csv: holds no rows"),
        ('1,foo\n2,"bar\n3,baz\n', r"q\.csv:2: a quoted cell that begins here is not closed"),
        (
            "number\tquestion\n1\twhat\n",
            r"q\.csv:1: no query id column; expected one of .*found \"number\", \"question\"",
        ),
        ("number,text\n1,what\n", r"q\.csv:1: no query id column"),
        ("1 what is love\n2\n", r"q\.csv:2: found 1 column"),
        ("query_id,text\n1,a\n1,b\n", 'q.csv:3: query "1" already appears at line 2'),
    ],
)
def test_tables_of_queries_that_cannot_be_read_say_where(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "q.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        karat.read_queries(tmp_path / "q.csv")


@pytest.mark.parametrize("text", ["1 what is, love?\n2 who, what; where\n", "1\twhat is, love?\n2\twho, what; where\n"])
def test_punctuation_in_a_topic_file_is_text(tmp_path: Path, text: str) -> None:
    (tmp_path / "topics.txt").write_text(text)
    queries = karat.read_queries(tmp_path / "topics.txt")
    assert queries.field("text") == {"1": "what is, love?", "2": "who, what; where"}


def test_a_corpus_of_chunks_is_known_by_chunk(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text(
        '{"chunk_id": "d0-1", "doc_id": "d0", "text": "a"}\n{"chunk_id": "d0-2", "doc_id": "d0", "text": "b"}\n'
    )
    assert read_docs(path).fields == {"d0-1": {"doc_id": "d0", "text": "a"}, "d0-2": {"doc_id": "d0", "text": "b"}}
    path.write_text('{"doc_id": "d0"}\n{"doc_id": "d0"}\n')
    with pytest.raises(
        InputError, match=r'corpus\.jsonl:2: doc "d0" already appears at line 1; expected each doc once'
    ):
        read_docs(path)


def test_a_parquet_file_is_the_one_that_is_named(tmp_path: Path) -> None:
    rows = {"query_id": ["a"], "doc_id": ["x"]}
    polars.DataFrame({**rows, "grade": [1]}).write_parquet(tmp_path / "gold1.parquet")
    polars.DataFrame({**rows, "grade": [2]}).write_parquet(tmp_path / "gold[1].parquet")
    folder = tmp_path / "grade=3"
    folder.mkdir()
    polars.DataFrame({**rows, "grade": [0]}).write_parquet(folder / "gold*.parquet")
    assert karat.read_qrels(tmp_path / "gold[1].parquet").for_query("a") == {"x": 2.0}
    assert karat.read_qrels(folder / "gold*.parquet").for_query("a") == {"x": 0.0}


def test_the_names_of_columns_are_no_sql(tmp_path: Path) -> None:
    target = tmp_path / "written.csv"
    source = f"read_parquet('{tmp_path}/e.parquet')"
    name = f"id\" AS VARCHAR) AS vector FROM {source} t; COPY (SELECT 42 AS x) TO '{target}'; SELECT 1 --"
    polars.DataFrame({"id": ["x", "y"], name: [[1.0, 0.0], [0.0, 1.0]]}).write_parquet(tmp_path / "e.parquet")
    result = karat.evaluate({"a": {"x": 1}}, {"a": ["x", "y"]}, "ild@2", embeddings=tmp_path / "e.parquet")
    assert result.mean["ild@2"] == pytest.approx(1.0)
    assert not target.exists()


GOLD = {
    "qrels.txt": "q1 0 d1 1\nq1 0 d2 0\n",
    "bm25.run": "q1 Q0 d1 1 9.5 t\nq1 Q0 d2 2 8.5 t\n",
    "qrels.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t0\n",
    "run.csv": "query_id,doc_id,score\nq1,d1,2\nq1,d2,1\n",
}


@pytest.mark.parametrize("name", GOLD)
def test_gold_or_a_run_given_as_queries_is_named_as_such(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(GOLD[name])
    with pytest.raises(InputError, match="this looks like gold or a run; expected a table of queries") as caught:
        karat.evaluate({"q1": {"d1": 1}}, {"q1": ["d1"]}, "mrr", queries=str(tmp_path / name))
    assert len(caught.value.problems) == 1


def test_a_run_log_given_as_queries_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"query_id": "q1", "topk": [{"doc_id": "d1"}]}\n')
    with pytest.raises(InputError, match=r"log\.jsonl:1: this looks like a run log; expected a table of queries"):
        karat.evaluate({"q1": {"d1": 1}}, {"q1": ["d1"]}, "mrr", queries=str(tmp_path / "log.jsonl"))


PADDED = "".join(
    f"<top>\n<num> Number: {n:03}\n<title> Topic {n}\n<dom> {'art' if n % 2 else 'law'}\n</top>\n" for n in range(1, 13)
)
TOPICS = tuple(f"{n:03}" for n in range(1, 13))


@pytest.fixture
def padded(tmp_path: Path) -> Path:
    """Topics 001 to 012, and gold and runs that write the numbers as the topics do."""
    (tmp_path / "topics.txt").write_text(PADDED)
    (tmp_path / "qrels.txt").write_text("".join(f"{q} 0 d1 1\n" for q in TOPICS))
    for name, rank in (("old", "2"), ("new", "1")):
        lines = (f"{q} Q0 {doc} {place} {3 - place} t\n" for q in TOPICS for place, doc in enumerate(("x", "d1"), 1))
        if rank == "1":
            lines = (f"{q} Q0 d1 1 2 t\n" for q in TOPICS)
        (tmp_path / f"{name}.run").write_text("".join(lines))
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d1", "text": "topic"}\n{"_id": "x", "text": "other"}\n')
    return tmp_path


def test_topics_are_known_by_their_written_numbers_where_gold_writes_them_so(padded: Path) -> None:
    topics, gold = padded / "topics.txt", str(padded / "qrels.txt")
    table = karat.read_queries(topics)
    assert list(table.fields)[:2] == ["1", "2"] and len(table.written) == 12
    assert table.with_ids_of(["1", "5"]) is table and table.with_ids_of(["7", "007", "8"]) is table
    assert list(table.with_ids_of(TOPICS).fields) == list(TOPICS)
    runs = {name: str(padded / f"{name}.run") for name in ("old", "new")}
    result = karat.evaluate(gold, runs, "mrr", queries=topics, by="domain")
    assert [(s.by, s.n) for s in result["old"].segments] == [({"domain": "art"}, 6), ({"domain": "law"}, 6)]
    assert result.texts["007"] == "Topic 7" and result.queries is not None and result.queries.lines["002"] == 6
    assert not any("topics.txt" in remark.text for remark in result.remarks)
    compared = karat.compare(gold, runs, "mrr", queries=topics, by="domain")
    assert {d.n for d in compared.rows if d.segment} == {6}
    log = [{"query_id": q, "topk": [{"doc_id": "d1"}]} for q in TOPICS]
    parts = karat.components(gold, log, queries=topics)
    assert [remark.text for remark in parts.remarks] == ["only 12 queries: so few can only show large differences"]
    missing = misses({q: ["none"] for q in TOPICS}, runs["old"], queries=topics)
    assert [row.text for row in missing.rows][:2] == ["Topic 1", "Topic 2"]


def test_topics_are_known_by_the_numbers_of_runs_where_there_is_no_gold(padded: Path) -> None:
    result = karat.evaluate(
        None, str(padded / "new.run"), "distinct_docs@5", queries=padded / "topics.txt", by="domain"
    )
    assert [(s.by["domain"], s.n) for s in result.segments] == [("art", 6), ("law", 6)]
    short = {str(n): ["d1"] for n in range(1, 13)}
    result = karat.evaluate(None, short, "distinct_docs@5", queries=padded / "topics.txt", by="domain")
    assert [(s.by["domain"], s.n) for s in result.segments] == [("art", 6), ("law", 6)]


def test_every_verb_knows_topics_by_their_written_numbers(padded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(padded)
    (padded / "karat.yaml").write_text(
        "dataset: {qrels: qrels.txt, queries: topics.txt, corpus: corpus.jsonl}\n"
        "runs: {old: old.run, new: new.run}\nbaseline: old\nsegments: [domain]\n"
        "gates: ['mrr >= 0.9', 'mrr >= 0.1 where domain = art']\n"
    )
    check = karat.check(padded / "karat.yaml")
    assert [(row.where, row.found.n) for row in check.rows] == [("", 12), ("domain = art", 6)]
    files = ["qrels.txt", "topics.txt", "new.run", "old.run", "corpus.jsonl"]
    assert not [f for f in karat.validate(files).findings if f.code.startswith("X50")]
    assert not [f for f in karat.validate(["topics.txt", "new.run"]).findings if f.code.startswith("X50")]
    bench = karat.bench(str(padded / "karat.yaml"), "bm25")
    assert list(bench.result.runs[0].query_ids) == list(TOPICS)
    (padded / "karat.yaml").unlink()
    assert "queries: topics.txt" in karat.init(".")
    result = karat.evaluate("qrels.txt", "new.run", "mrr", details=True)
    karat.write_report(result, "page.html", queries="topics.txt")
    assert "Topic 7" in Path("page.html").read_text("utf-8")


def test_validate_says_how_topics_write_their_numbers(padded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(padded)
    (padded / "qrels.txt").write_text("".join(f"{int(q):02} 0 d1 1\n" for q in TOPICS))
    found = [f for f in karat.validate(["qrels.txt", "topics.txt"]).findings if f.code == "X509"]
    assert [f.message for f in found] == [
        "9 query ids are written differently in topics.txt: 01 here, 1 there (written 001)"
    ]
