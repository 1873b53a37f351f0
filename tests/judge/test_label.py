"""`karat judge label` in a real terminal: keys, undo, notes, quitting, kill -9, two people at once."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from karat.errors import UsageError
from karat.judge.assessor import PairText
from karat.judge.judgments import Judgment, ModelJudge, Person, add_judgments, read_judgments
from karat.judge.labelling import LabelSession, find_words
from karat.judge.pairs import Draw, Pair, write_pairs
from karat.judge.people_labels import find_labels
from karat.judge.scale import read_scale

FILES = "pairs.jsonl --queries queries.jsonl --corpus corpus.jsonl -j judged.jsonl"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten pairs, and the judgments of a model, which nobody must see."""
    docs = [
        {"_id": f"d{n}", "title": f"Doc number {n}", "text": f"A kettle [/b] boils in text{n}.\x1b[31m"}
        for n in range(10)
    ]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "Which KETTLE boils?"}\n')
    write_pairs([Pair("q1", f"d{n}", Draw("random", 0.5, "3")) for n in range(10)], str(tmp_path / "pairs.jsonl"))
    noon = "2026-11-16T12:00:00+00:00"
    rows = [Judgment("q1", f"d{n}", 3, "0-3", ModelJudge("secret-model", "p"), noon) for n in range(10)]
    add_judgments(str(tmp_path / "judged.jsonl"), rows)
    return tmp_path


def start(folder: Path, name: str = "ana", *more: str) -> pexpect.spawn:
    arguments = ["-m", "karat", "judge", "label", *FILES.split(), "--by", name, *more]
    return pexpect.spawn(sys.executable, arguments, cwd=str(folder), dimensions=(40, 100), timeout=30, encoding="utf-8")


def expect_pair(terminal: pexpect.spawn, number: int) -> str:
    """The doc on the screen of this number."""
    terminal.expect(rf"ana: {number} of 10|ben: {number} of 10")
    terminal.expect(r"Doc number (\d)")
    doc = f"d{terminal.match[1]}"
    terminal.expect("q quit")
    return doc


def labels(folder: Path, name: str = "ana") -> dict[str, int | None]:
    rows = read_judgments(str(folder / "judged.jsonl")).rows
    return {row.doc_id: row.grade for row in rows if row.by.label == name}


def test_keys_undo_skip_note_quit_and_resume(folder: Path) -> None:
    terminal = start(folder)
    first = expect_pair(terminal, 1)
    screen = terminal.before
    assert "secret-model" not in screen and "0.5" not in screen and "\x1b[31m" not in screen
    terminal.send("2")
    second = expect_pair(terminal, 2)
    assert labels(folder) == {first: 2}
    terminal.send("9")
    terminal.expect("9 is not a grade: 0, 1, 2, 3")
    terminal.send("u")
    assert expect_pair(terminal, 1) == first
    assert labels(folder) == {}
    terminal.send("u")
    terminal.expect("Nothing to undo")
    terminal.send("n")
    terminal.expect("Note: ")
    terminal.sendline("only  half of it")
    terminal.expect("Note: only half of it")
    terminal.send("1")
    assert expect_pair(terminal, 2) == second
    terminal.send("s")
    terminal.expect("1 skipped")
    third = expect_pair_after_skip(terminal)
    assert third not in (first, second)
    terminal.send("0")
    terminal.expect("3 of 10")
    terminal.send("q")
    terminal.expect("2 labelled, 8 left, 1 of them skipped: run the same command to resume")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 0
    assert labels(folder) == {first: 1, third: 0}
    row = next(r for r in read_judgments(str(folder / "judged.jsonl")).rows if r.doc_id == first and r.note)
    assert (row.note, row.drawn) == ("only half of it", Draw("random", 0.5, "3"))
    terminal = start(folder)
    assert expect_pair(terminal, 3) == second  # skipped pairs come again
    terminal.send("3" * 8)  # as fast as one types
    terminal.expect("All 10 pairs are labelled by ana")
    terminal.close()
    assert len(labels(folder)) == 10


def expect_pair_after_skip(terminal: pexpect.spawn) -> str:
    terminal.expect(r"Doc number (\d)")
    doc = f"d{terminal.match[1]}"
    terminal.expect("q quit")
    return doc


def test_words_of_the_query_are_marked(folder: Path) -> None:
    terminal = start(folder)
    terminal.expect("q quit")
    plain = re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", terminal.before)
    assert "A kettle [/b] boils in text" in plain and "Which KETTLE boils?" in plain
    assert re.search(r"\x1b\[1;33mkettle\x1b\[0m", terminal.before)
    terminal.close(force=True)


def test_ctrl_c_keeps_every_label(folder: Path) -> None:
    terminal = start(folder)
    first = expect_pair(terminal, 1)
    terminal.send("3")
    expect_pair(terminal, 2)
    terminal.sendintr()
    terminal.expect("every label is kept; run the same command to resume")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 130 and labels(folder) == {first: 3}


def test_kill_9_keeps_every_label_that_was_given(folder: Path) -> None:
    given: dict[str, int] = {}
    for grade in (1, 2, 3):
        terminal = start(folder)
        for _ in range(2):
            doc = expect_pair(terminal, len(given) + 1)
            terminal.send(str(grade))
            given[doc] = grade
        terminal.expect(f"{len(given) + 1} of 10")
        terminal.kill(signal.SIGKILL)
        terminal.close()
        assert labels(folder) == given
    assert len(given) == 6


def test_two_people_at_once_lose_nothing_and_see_other_orders(folder: Path) -> None:
    terminals = {name: start(folder, name) for name in ("ana", "ben")}
    orders: dict[str, list[str]] = {name: [] for name in terminals}
    for number in range(1, 11):
        for name, terminal in terminals.items():
            orders[name].append(expect_pair(terminal, number))
        for grade, terminal in enumerate(terminals.values(), start=1):
            terminal.send(str(grade))
    for terminal in terminals.values():
        terminal.expect("All 10 pairs are labelled")
        terminal.close()
    assert labels(folder, "ana") == {f"d{n}": 1 for n in range(10)}
    assert labels(folder, "ben") == {f"d{n}": 2 for n in range(10)}
    assert sorted(orders["ana"]) == sorted(orders["ben"]) and orders["ana"] != orders["ben"]


def test_disagreements_are_settled_by_somebody_who_sees_the_labels_and_no_names(folder: Path) -> None:
    # ana and ben disagree on d1, d4 and d7; ben has a note on d4.
    noon, drawn, path = "2026-11-16T12:00:00+00:00", Draw("random", 0.5, "3"), str(folder / "judged.jsonl")
    rows = [Judgment("q1", f"d{n}", n % 3, "0-3", Person("ana"), noon, drawn=drawn) for n in range(10)]
    for n in range(10):
        grade = 3 if n % 3 == 1 else n % 3
        note = "only for gas" if n == 4 else ""
        rows.append(Judgment("q1", f"d{n}", grade, "0-3", Person("ben"), noon, note=note, drawn=drawn))
    add_judgments(path, rows)
    terminal = start(folder, "cleo", "--adjudicate")
    first = expect_dispute(terminal, 1)
    terminal.send("2")
    second = expect_dispute(terminal, 2)
    terminal.send("u")
    assert expect_dispute(terminal, 1) == first
    terminal.send("3")
    expect_dispute(terminal, 2)
    terminal.send("q")
    terminal.expect("1 settled, 2 left: run the same command to resume")
    terminal.expect(r"ana and ben: weighted kappa 0\.\d+ \[[^\]]*\], over 10 pairs")
    terminal.expect(r"Krippendorff's alpha of the labels 0\.\d+")
    terminal.expect("3 of 10 pairs have different labels, 1 of them adjudicated; to settle them: karat judge label")
    terminal.close()
    terminal = start(folder, "dora", "--adjudicate")  # what cleo settled stays settled
    assert expect_dispute(terminal, 2, "dora") in ({"d1", "d4", "d7"} - {first})
    terminal.send("11")
    terminal.expect("Every disagreement is settled: 3 pairs")
    terminal.close()
    assert second != first
    grades = find_labels(read_judgments(path), "0-3")
    settled = {d: grades["q1", d] for d in ("d1", "d4", "d7")}
    assert settled == dict.fromkeys(settled, 1) | {first: 3} and len(grades) == 10
    terminal = start(folder, "eve", "--adjudicate")
    terminal.expect("Every disagreement is settled: 3 pairs")
    terminal.close()


def expect_dispute(terminal: pexpect.spawn, number: int, name: str = "cleo") -> str:
    """The doc on the screen, with both labels and no names."""
    terminal.expect(f"{name}, adjudicating: {number} of 3")
    terminal.expect(r"Doc number (\d)")
    doc = f"d{terminal.match[1]}"
    terminal.expect("q quit")
    screen = re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", terminal.before)
    assert sorted(re.findall(r"Somebody says (\d)", screen)) == ["1", "3"]
    assert ("only for gas" in screen) == (doc == "d4")
    assert "ana" not in screen and "ben" not in screen and "secret-model" not in screen
    return doc


def test_without_a_terminal_it_says_so(folder: Path) -> None:
    command = [sys.executable, "-m", "karat", "judge", "label", *FILES.split(), "--by", "ana"]
    done = subprocess.run(command, cwd=folder, input="1", capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "needs a terminal" in done.stderr and labels(folder) == {}


def session(path: Path, person: str = "ana") -> LabelSession:
    texts = [PairText(Pair("q", f"d{n}"), "query", f"doc {n}") for n in range(5)]
    return LabelSession(texts, person, read_scale(), str(path))


def test_undo_takes_back_several_labels_in_turn(tmp_path: Path) -> None:
    one = session(tmp_path / "j.jsonl")
    docs = []
    for grade in range(3):
        assert one.current is not None
        docs.append(one.current.pair.doc_id)
        one.label(grade)
    assert (one.labelled, one.last) == (3, 2)
    assert one.undo() and one.undo()
    assert one.current is not None and one.current.pair.doc_id == docs[1] and one.labelled == 1
    assert [row.grade for row in read_judgments(str(tmp_path / "j.jsonl")).rows] == [0]
    again = session(tmp_path / "j.jsonl")
    assert again.current is not None and again.current.pair.doc_id == docs[1]


def test_a_session_ends_when_the_rest_is_skipped(tmp_path: Path) -> None:
    one = session(tmp_path / "j.jsonl")
    one.label(1)
    for _ in range(4):
        assert one.current is not None
        one.skip()
    assert one.current is None and (one.labelled, one.skipped) == (1, 4)
    assert one.undo() and one.current is not None


def test_a_person_has_a_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--by NAME"):
        session(tmp_path / "j.jsonl", " ")


def test_words_are_found_whatever_their_case_and_never_parts_of_words() -> None:
    text = "The Kettle boils; kettles do not. Übung in ÜBUNG."
    assert [text[a:b] for a, b in find_words("a kettle of übung", text)] == ["Kettle", "Übung", "ÜBUNG"]
