"""What is printed into files and pipes is what rich prints there, without rich where nothing wraps."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karat.report.terminal.console import PIPE, Output, grid, line
from karat.report.terminal.layout import Grid, Line, count_cells, lay_out

WORDS = st.text(st.sampled_from("ab ·Δ–…é中e\u0301\t\n\x07|[/]"), max_size=12)
CELLS = WORDS | WORDS.map(lambda text: line((text, "bold"), " and ", style="dim"))


def rich_text(shown: object, **options: Any) -> str:
    """What rich prints."""
    out = Output()
    with out.rich.capture() as capture:
        out.rich.print(shown, **options)
    return capture.get()


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    table = Grid(draw(st.integers(1, 3)), header=draw(st.booleans()))
    count = draw(st.integers(1, 4))
    for _ in range(count):
        table.add_column(
            draw(CELLS),
            justify=draw(st.sampled_from(("left", "right"))),
            style=draw(st.sampled_from(("", "dim"))),
            no_wrap=draw(st.booleans()),
            min_width=draw(st.none() | st.integers(1, 20)),
            max_width=draw(st.none() | st.integers(20, 40)),
        )
    for cells in draw(st.lists(st.lists(CELLS, max_size=count), max_size=4)):
        table.add_row(*cells)
    return table


@settings(deadline=None, max_examples=300)
@given(grids())
def test_a_table_in_a_file_is_what_rich_makes_of_it(table: Grid) -> None:
    text = lay_out(table, PIPE)
    assert text is None or text == rich_text(table)


@settings(deadline=None, max_examples=300)
@given(st.lists(st.tuples(WORDS, st.sampled_from(("", "bold"))), max_size=3), st.booleans(), st.booleans())
def test_a_line_in_a_file_is_what_rich_makes_of_it(parts: list[tuple[str, str]], soft: bool, long: bool) -> None:
    one = line(*parts, ("word " * 40 if long else "", ""))
    text = lay_out(one, sys.maxsize if soft else PIPE)
    assert text is None or text == rich_text(one, soft_wrap=soft)
    assert text is not None or "\t" in str(one) or (long and not soft)


def test_what_has_to_wrap_or_to_be_cut_is_left_to_rich() -> None:
    table = Grid(2)
    table.add_column("gate", max_width=5)
    table.add_row("a long gate")
    assert lay_out(table, PIPE) is None
    assert lay_out("word " * 40, PIPE) is None and lay_out("word " * 40, sys.maxsize) is not None
    assert lay_out("a\ttab", PIPE) is None
    titled = grid("metric")
    titled.title = "by language"
    assert lay_out(titled, PIPE) is None


@pytest.mark.parametrize("wrapped", [False, True])
def test_output_goes_to_its_file_and_may_be_kept(monkeypatch: pytest.MonkeyPatch, wrapped: bool) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    words = "word " * (40 if wrapped else 1)
    out = Output()
    with out.capture() as kept:
        out.print(words)
        out.print()
    assert file.getvalue() == "" and kept.get().split() == words.split() and kept.get().endswith("\n\n")
    out.print(words)
    assert file.getvalue().split() == words.split()


def test_colours_are_kept_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    Output().print(line(("bad", "red")))
    assert file.getvalue() == "\x1b[31mbad\x1b[0m\n"


def test_lines_that_are_joined_keep_their_styles() -> None:
    both = line(("a", "bold")).append(line("b", ("c", "red"), style="dim"))
    assert isinstance(both, Line) and str(both) == "abc"
    assert both.parts == [("a", "bold"), ("b", "dim"), ("c", "dim red")]


def test_characters_are_counted_as_rich_counts_them() -> None:
    from rich.cells import cell_len

    for code in (*range(0x20, 0x7F), *range(0xA0, 0x400), 0x4E2D, 0x1F600):
        assert count_cells(f"a{chr(code)}") == cell_len(f"a{chr(code)}")


def test_figures_in_a_pipe_need_no_rich(tmp_path: Any) -> None:
    (tmp_path / "gold").write_text("q1 0 a 1\n")
    (tmp_path / "run").write_text("q1 Q0 a 1 2.0 x\n")
    code = (
        "import sys; from karat.cli import main; sys.argv[1:] = ['evaluate', 'gold', 'run', '-m', 'mrr']\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "assert 'rich.console' not in sys.modules and 'rich.table' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "mrr" in done.stdout
