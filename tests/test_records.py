"""Records mean what dataclasses of Python's own mean."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from karat import records

if TYPE_CHECKING:
    from collections.abc import Callable

OPTIONS = [{}, {"frozen": True}, {"frozen": True, "eq": False}, {"frozen": True, "slots": True}, {"slots": True}]


def declare(dataclass: Callable[..., Any], **options: bool) -> tuple[Any, Any]:
    """A record and one that inherits from it, declared by this decorator."""

    @dataclass(**options)
    class Doc:
        """A doc."""

        KIND: ClassVar[str] = "doc"
        name: str
        rank: int = 1
        notes: list[str] = field(default_factory=list)
        place: str = field(default="", compare=False, repr=False)
        length: int = field(init=False, default=0)
        score: float | None = field(default=None, kw_only=True)

    @dataclass(**options)
    class Chunk(Doc):  # type: ignore[misc, valid-type]
        """A part of a doc."""

        rank: int = 2
        number: int = 0

        def __post_init__(self) -> None:
            object.__setattr__(self, "length", len(self.name))

    return Doc, Chunk


def outcome(action: Callable[[], object]) -> object:
    """What an action returns, or the kind and the words of its error."""
    try:
        return action()
    except Exception as error:
        return type(error), str(error).replace("declare.<locals>.", "")


ACTIONS: dict[str, Callable[[Any, Any], object]] = {
    "signature": lambda doc, chunk: (str(inspect.signature(doc)), str(inspect.signature(chunk))),
    "names": lambda doc, chunk: [(f.name, f.default, f.kw_only) for f in dataclasses.fields(chunk)],
    "match": lambda doc, chunk: chunk.__match_args__,
    "repr": lambda doc, chunk: (repr(doc("a", 3, ["x"])), repr(chunk("abc", number=4, score=0.5))),
    "state": lambda doc, chunk: dataclasses.asdict(chunk("abc", place="here")),
    "replace": lambda doc, chunk: repr(dataclasses.replace(chunk("abc"), name="abcd", notes=["y"])),
    "own lists": lambda doc, chunk: doc("a").notes is doc("a").notes,
    "equal": lambda doc, chunk: (doc("a") == doc("a"), doc("a", place="x") == doc("a"), doc("a") == doc("b")),
    "other kind": lambda doc, chunk: (doc("a", 2) == chunk("a"), doc("a") == "a"),
    "hash": lambda doc, chunk: len({doc("a", 1, ()), doc("a", 1, (), "x"), doc("b", 1, ())}),
    "hash of a list": lambda doc, chunk: hash(doc("a")) is None,
    "no name": lambda doc, chunk: doc(),
    "too many": lambda doc, chunk: doc("a", 1, [], "", 1.0),
    "twice": lambda doc, chunk: doc("a", name="b"),
    "not to be given": lambda doc, chunk: doc("a", length=3),
    "too many of all": lambda doc, chunk: chunk("a", 1, [], "", 1, 2),
    "unknown": lambda doc, chunk: doc("a", size=1),
    "set": lambda doc, chunk: setattr(doc("a"), "rank", 5),
    "delete": lambda doc, chunk: delattr(doc("a"), "rank"),
    "copy": lambda doc, chunk: repr(copy.copy(doc("a", 4))),
    "deep copy": lambda doc, chunk: repr(copy.deepcopy(chunk("abc", notes=["z"]))),
    "slots": lambda doc, chunk: hasattr(doc("a"), "__dict__"),
}


@pytest.mark.parametrize("few", [0, records.FEW], ids=["compiled", "few"])
@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_record_behaves_as_a_dataclass(
    options: dict[str, bool], action: Callable[[Any, Any], object], few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "FEW", few)
    ours, theirs = (declare(dataclass, **options) for dataclass in (records.dataclass, dataclasses.dataclass))
    assert outcome(lambda: action(*ours)) == outcome(lambda: action(*theirs))


@records.dataclass(frozen=True, slots=True)
class Kept:
    """A record that can be found by its name."""

    name: str
    rank: int = 1


def test_a_frozen_record_with_slots_is_pickled() -> None:
    assert pickle.loads(pickle.dumps(Kept("a", 3))) == Kept("a", 3)


def test_the_first_few_records_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    classes: list[Any] = []
    compile_init = records._compile_init
    monkeypatch.setattr(records, "_compile_init", lambda *given: classes.append(given) or compile_init(*given))
    doc, _ = declare(records.dataclass, frozen=True)
    few = [doc("a", rank=i) for i in range(records.FEW)]
    assert not classes
    assert [*few, doc("a", rank=99)][-2:] == [doc("a", records.FEW - 1), doc("a", 99)] and len(classes) == 1


def test_methods_of_its_own_stay() -> None:
    @records.dataclass(frozen=True)
    class Set:
        """Equal where the names are."""

        name: str
        size: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Set) and self.name == other.name

        def __hash__(self) -> int:
            return hash(self.name)

        def __repr__(self) -> str:
            return self.name

    assert {Set("a", 1), Set("a", 2)} == {Set("a", 3)}
    assert repr(Set("a", 1)) == "a"


def test_a_dataclass_inherits_from_a_record() -> None:
    @dataclasses.dataclass(frozen=True)
    class More(Kept):
        """A record of somebody else."""

        size: int = 0

    assert dataclasses.replace(More("a"), size=3) == More("a", 1, 3)
