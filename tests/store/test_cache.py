from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import karat
from karat.read import textfile
from karat.store import cache as caching

OLD = time.time_ns() - 3_600_000_000_000


def write(path: Path, text: str, stamp: int | None = OLD) -> str:
    path.write_text(text)
    if stamp is not None:
        os.utime(path, ns=(stamp, stamp))
    return str(path)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching, "SMALLEST", 0)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The text files whose rows were read."""
    seen: list[str] = []
    true = textfile.TextFile.blocks

    def blocks(self: textfile.TextFile, size: int | None = None, spare: list[bytearray] | None = None):
        seen.append(os.path.basename(self.path))
        return true(self, size, spare)

    monkeypatch.setattr(textfile.TextFile, "blocks", blocks)
    return seen


def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ten seconds pass, so that files just written are no longer young (their change time is now)."""
    now = time.time_ns
    monkeypatch.setattr(caching.time, "time_ns", lambda: now() + 10_000_000_000)


@pytest.mark.usefixtures("small")
def test_a_second_evaluation_with_other_metrics_reads_no_file(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(monkeypatch)
    q, r = write(tmp_path / "q", "q1 0 a 1\n"), write(tmp_path / "r", "q1 Q0 b 1 2 t\nq1 Q0 a 2 1 t\n")
    first = karat.evaluate(q, r, "mrr")
    assert reads == ["q", "r"]
    second = karat.evaluate(q, r, "ndcg@10,hit@1")
    assert reads == ["q", "r"]
    assert first.mean["mrr"] == 0.5
    assert second.mean["hit@1"] == 0.0
    assert second.counts == first.counts
    assert second.runs[0].name == "r"
    assert second.runs[0].facts == {"tag": "t"}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("which", ["q", "r"])
def test_a_changed_file_is_never_answered_from_the_cache(
    tmp_path: Path, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(monkeypatch)
    q, r = write(tmp_path / "q", "q1 0 a 1\n"), write(tmp_path / "r", "q1 Q0 a 1 2 t\nq1 Q0 b 2 1 t\n")
    assert karat.evaluate(q, r, "mrr").mean["mrr"] == 1.0
    if which == "q":
        write(tmp_path / "q", "q1 0 b 1\n")  # same size, same modification time: only change time and content differ
    else:
        write(tmp_path / "r", "q1 Q0 b 1 2 t\nq1 Q0 a 2 1 t\n")
    assert karat.evaluate(q, r, "mrr").mean["mrr"] == 0.5


@pytest.mark.usefixtures("small")
def test_a_file_changed_within_the_same_moment_is_found_out_by_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, r = write(tmp_path / "q", "q1 0 a 1\n"), write(tmp_path / "r", "q1 Q0 a 1 2 t\nq1 Q0 b 2 1 t\n", None)
    karat.evaluate(q, r, "mrr")
    known = caching.Stamp.of(r)
    write(tmp_path / "r", "q1 Q0 b 1 2 t\nq1 Q0 a 2 1 t\n", None)
    true = caching.Stamp.of
    # A clock so coarse that nothing about the file seems to have changed.
    monkeypatch.setattr(caching.Stamp, "of", staticmethod(lambda path: known if path == r else true(path)))
    assert karat.evaluate(q, r, "mrr").mean["mrr"] == 0.5


@pytest.mark.usefixtures("small")
def test_a_touched_file_with_the_same_content_still_counts(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(monkeypatch)
    q, r = write(tmp_path / "q", "q1 0 a 1\n"), write(tmp_path / "r", "q1 Q0 a 1 2 t\n")
    karat.evaluate(q, r, "mrr")
    os.utime(r)
    karat.evaluate(q, r, "mrr")
    assert reads == ["q", "r"]


@pytest.mark.usefixtures("small")
def test_other_policies_have_entries_of_their_own(tmp_path: Path, own_cache: Path) -> None:
    q = write(tmp_path / "q", "q1 0 a 1\nq2 0 a 1\n")
    r = write(tmp_path / "r", "q1 Q0 a 1 2 t\n")
    assert karat.evaluate(q, r, "mrr").mean["mrr"] == 0.5
    assert karat.evaluate(q, r, "mrr", missing="skip").mean["mrr"] == 1.0
    assert len(list(own_cache.glob("*.karat"))) == 2


@pytest.mark.usefixtures("small")
def test_without_cache_nothing_is_written(tmp_path: Path, own_cache: Path) -> None:
    q, r = write(tmp_path / "q", "q1 0 a 1\n"), write(tmp_path / "r", "q1 Q0 a 1 2 t\n")
    karat.evaluate(q, r, "mrr", cache=False)
    assert list(own_cache.iterdir()) == []


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("damage", [b"", b"\x00" * 40, b"\xff" * 200])
def test_a_damaged_entry_is_no_error(
    tmp_path: Path, own_cache: Path, damage: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    q, r = write(tmp_path / "q", "q1 0 a 1\n"), write(tmp_path / "r", "q1 Q0 a 1 2 t\n")
    karat.evaluate(q, r, "mrr")
    (entry,) = own_cache.glob("*.karat")
    entry.write_bytes(damage)
    assert karat.evaluate(q, r, "mrr").mean["mrr"] == 1.0
    assert f"{entry}: this entry of the cache is damaged and is made again" in capsys.readouterr().err
    assert karat.evaluate(q, r, "mrr").mean["mrr"] == 1.0
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("small")
def test_no_byte_of_an_entry_can_change_unnoticed(
    tmp_path: Path, own_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    q, r = write(tmp_path / "q", "q1 0 a 1\nq2 0 b 1\n"), write(tmp_path / "r", "q1 Q0 a 1 2 t\nq2 Q0 b 1 2 t\n")
    karat.evaluate(q, r, "mrr")
    (entry,) = own_cache.glob("*.karat")
    whole = entry.read_bytes()
    for place in range(0, len(whole), 7):
        changed = bytearray(whole)
        changed[place] ^= 0x11
        entry.write_bytes(changed)
        assert karat.evaluate(q, r, "mrr").per_query("mrr") == {"q1": 1.0, "q2": 1.0}, place
        assert "is damaged" in capsys.readouterr().err


def test_what_killed_processes_left_is_counted_cleared_and_trimmed(tmp_path: Path) -> None:
    cache = caching.Cache(str(tmp_path))
    old, young = tmp_path / f".{'a' * 32}.karat.abcd1234.tmp", tmp_path / f".{'b' * 32}.karat.abcd1234.tmp"
    for path in (old, young, tmp_path / "c.karat"):
        path.write_bytes(bytes(100))
    os.utime(old, (1000, 1000))
    assert sum(size for _, size, _ in cache.files()) == 300
    cache.trim()
    assert not old.exists() and young.exists()
    assert cache.clear() == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("small")
def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("KARAT_CACHE_DIR", str(blocked / "inside"))
    q, r = write(tmp_path / "q", "q1 0 a 1\n"), write(tmp_path / "r", "q1 Q0 a 1 2 t\n")
    assert karat.evaluate(q, r, "mrr").mean["mrr"] == 1.0


def test_the_cache_stays_within_its_limit_and_forgets_the_oldest(tmp_path: Path) -> None:
    folder = caching.Cache(str(tmp_path), limit=250)
    for age, name in enumerate("abc"):
        (tmp_path / f"{name}.karat").write_bytes(bytes(100))
        os.utime(tmp_path / f"{name}.karat", (1000 - age, 1000 - age))
    folder.trim()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.karat", "b.karat"]
    assert folder.clear() == 2
    assert folder.files() == []


def test_the_fingerprint_sees_every_byte_and_their_order() -> None:
    data = bytes(range(256)) * 2048
    swapped = data[8:16] + data[:8] + data[16:]
    flipped = bytearray(data)
    flipped[300_001] ^= 1

    def taken(content: bytes, piece: int) -> str:
        hasher = caching.Hasher()
        for i in range(0, len(content), piece):
            hasher.update(memoryview(content)[i : i + piece])
        return hasher.digest()

    assert taken(data, 1 << 20) == taken(data, 1000) == taken(data, 131_072)
    assert len({taken(d, 1 << 20) for d in (data, swapped, bytes(flipped), data[:-1], data + b"\0")}) == 5


def test_no_swap_of_two_digits_goes_unnoticed() -> None:
    """In a sum of words, the last byte of each counts modulo 256: one swap of two such bytes in 60 changes nothing."""
    data = bytearray(b"0123456789" * 13_107)[: 1 << 17]

    def taken() -> str:
        hasher = caching.Hasher()
        hasher.update(memoryview(data))
        return hasher.digest()

    before = taken()
    for place in range(15, 8 * 1000, 8):
        data[7], data[place] = data[place], data[7]
        assert taken() != before or data[7] == data[place], place
        data[7], data[place] = data[place], data[7]
