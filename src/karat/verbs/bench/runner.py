"""Running a retriever over queries: timed, logged line by line, and able to go on where it was stopped."""

from __future__ import annotations

import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from karat.errors import InputError, KaratError, shown
from karat.model.run_log import FACTS
from karat.read.jsonl import NOT_JSON
from karat.read.run_log import decode_line, read_run_log
from karat.retrieve.protocol import read_answer
from karat.store.atomic import write_atomically
from karat.store.faults import fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from karat.model.run_log import RunFacts, Trace
    from karat.retrieve.corpus import Corpus
    from karat.retrieve.protocol import Answer, Query

PART = ".part"
"""What the name of an unfinished run log ends in."""
KEPT = ("doc_version", "source")
"""The fields of a passage that a run log repeats."""


@dataclass(frozen=True)
class Task:
    """One retriever on one corpus with its queries, and where its log goes."""

    label: str
    retriever: Any
    corpus: Corpus
    queries: Sequence[Query]
    k: int
    path: str
    facts: Mapping[str, Any]
    """What every line says of the run as a whole; a log with other facts is not gone on with."""
    workers: int = 1
    warmup: int = 5
    resumable: bool = True
    """Whether what was found before a stop may be gone on with."""


class Unfinished:
    """The runs that a benchmark has made so far, kept beside them until it is through."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, ".unfinished.json")
        self.names: list[str] = []
        try:
            with open(self.path, "rb") as file:
                self.names = msgspec.json.decode(file.read(), type=list[str])
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            pass

    def add(self, name: str) -> None:
        self.names = [*self.names, name]
        write_atomically(self.path, msgspec.json.encode(self.names))

    def done(self) -> None:
        os.unlink(self.path)


def slug(label: str) -> str:
    """A label as the name of a file."""
    return re.sub(r"[^\w.+-]+", "-", label).strip("-.") or "run"


def finished(task: Task) -> tuple[bool, str]:
    """Whether the log is there, whole, and made of the same; where it is of something else, what differs."""
    if not os.path.exists(task.path):
        return False, ""
    lines = _traces(task.path)
    first = lines[0].facts if lines else {}
    if "retriever" not in first:
        raise InputError(
            f"{task.path}: is there already and no run log of a benchmark; it is not replaced: "
            "move it, or choose another folder with --out"
        )
    facts = _as_logged(task.facts)
    other = next((name for name, value in facts.items() if first.get(name) != value), None)
    if other is not None:
        return False, f"{other.replace('_', ' ')} was {first.get(other)}, and is {facts[other]}"
    if [line.query_id for line in lines] != [q.id for q in task.queries]:
        return False, "its queries were others"
    return all(_states(line, facts) for line in lines), ""


def run(task: Task, watch: Callable[[int, int], None] | None = None) -> None:
    """Ask every query that is not in the log yet, and give the log its name when all are there.

    Queries are asked one by one (or by `workers` threads, each one by one), so that a latency is that of a
    query, and answers cannot depend on which queries were asked together.
    """
    part = task.path + PART
    done = _kept(part, task)
    rest = task.queries[done:]
    try:
        os.makedirs(os.path.dirname(part) or ".", exist_ok=True)
        with open(part, "ab") as file:
            if rest:
                for query in task.queries[-task.warmup :] if task.warmup else ():
                    _asked(task, query)
            for number, line in enumerate(_answers(task, rest), start=done + 1):
                file.write(line)
                fault("bench.line")
                file.flush()
                fault("bench.flush")
                if watch is not None:
                    watch(number, len(task.queries))
            os.fsync(file.fileno())
        fault("bench.rename")
        os.replace(part, task.path)
        fault("bench.done")
    except OSError as error:
        raise InputError(f"{part}: cannot be written ({error.strerror}); make room, or choose another --out") from None


def _answers(task: Task, queries: Sequence[Query]) -> Iterator[bytes]:
    """The lines of the log in the order of the queries."""
    if task.workers == 1:
        for query in queries:
            yield _line(task, query)
        return
    with ThreadPoolExecutor(task.workers) as pool:
        waiting, rest = [], iter(queries)
        try:
            waiting = [pool.submit(_line, task, q) for q in islice(rest, task.workers * 4)]
            while waiting:
                yield waiting.pop(0).result()
                waiting += [pool.submit(_line, task, q) for q in islice(rest, 1)]
        finally:
            for future in waiting:
                future.cancel()


def _line(task: Task, query: Query) -> bytes:
    found, took = _asked(task, query)
    listed = found.cut(task.k)
    entry: dict[str, Any] = {"query_id": query.id, **task.facts, "query": str(query)}
    entry["topk"] = [_item(task.corpus, rank, listed) for rank in range(1, len(listed.ids) + 1)]
    if found.stages:
        entry["stages"] = {name: list(ids) for name, ids in found.stages.items()}
    latency = found.latency_ms or {"retrieve": took}
    entry["latency_ms"] = {name: round(float(ms), 4) for name, ms in latency.items()}
    if found.cost:
        entry["cost"] = dict(found.cost)
    return msgspec.json.encode(entry | dict(found.more)) + b"\n"


def _asked(task: Task, query: Query) -> tuple[Answer, float]:
    """What one query finds, and the milliseconds of the whole call."""
    where = f"{task.label}, query {shown(query.id or str(query))}"
    begun = time.perf_counter()
    try:
        answers = task.retriever.retrieve([query], task.k)
        took = (time.perf_counter() - begun) * 1000
        found = read_answer(next(iter(answers)), where)
    except StopIteration:
        raise InputError(f"{where}: nothing was returned; expected one list for each query") from None
    except KaratError as error:
        raise _failed(task, where, str(error)) from error
    except (Exception, SystemExit) as error:
        raise _failed(task, where, f"{type(error).__name__}: {error}{_place(error)}") from error
    return found, took


def _place(error: BaseException) -> str:
    """Where in the caller's own code an error came up: the last place that is not ours."""
    import traceback

    ours = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(ours)]
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""


def _failed(task: Task, where: str, what: str) -> InputError:
    told = what if what.startswith(f"{task.label}, query") else f"{where}: {what}"
    part = task.path + PART
    kept = task.resumable and os.path.exists(part) and os.path.getsize(part) > 0
    return InputError(told + (f"; what was found before is kept: the same command goes on from {part}" if kept else ""))


def _item(corpus: Corpus, rank: int, listed: Answer) -> dict[str, Any]:
    id = listed.ids[rank - 1]
    doc = corpus.parent(id)
    item: dict[str, Any] = {"rank": rank, **({"chunk_id": id} if doc != id else {}), "doc_id": doc}
    if listed.scores is not None:
        item["score"] = float(listed.scores[rank - 1])
    about = corpus.about(id)
    return item | {name: about[name] for name in KEPT if about.get(name) is not None}


def _kept(part: str, task: Task) -> int:
    """How many queries an unfinished log holds; what cannot be gone on with is removed from it."""
    if not os.path.exists(part):
        return 0
    with open(part, "rb") as file:
        data = file.read()
    facts = _as_logged(task.facts)
    whole, lines = 0, 0
    for raw in data.splitlines(keepends=True):
        if not raw.endswith(b"\n") or lines == len(task.queries):
            break
        try:
            line = decode_line(raw)
        except NOT_JSON:
            break
        if line.query_id != task.queries[lines].id or not _states(line, facts):
            break
        whole, lines = whole + len(raw), lines + 1
    if whole < len(data):
        with open(part, "r+b") as file:
            file.truncate(whole)
    return lines


def _traces(path: str) -> list[Trace]:
    """The lines of a run log; none of a file that is not one."""
    try:
        return list(read_run_log(path, path).traces.values())
    except InputError:
        return []


def _as_logged(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts as a line of a log gives them back."""
    told = msgspec.json.decode(msgspec.json.encode(facts), type=dict[str, Any])
    return {name: value for name, value in told.items() if name in FACTS}


def _states(line: RunFacts, facts: Mapping[str, Any]) -> bool:
    known = line.facts
    return all(known.get(name) == value for name, value in facts.items())
