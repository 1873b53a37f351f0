"""Running a retriever over queries: timed, logged line by line, and resumed where it stopped."""

from __future__ import annotations

import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any, NotRequired

import msgspec

from karat.errors import InputError, KaratError, UsageError
from karat.model.json_data import JsonObject
from karat.model.run_log import FACTS, Facts, RunFacts, Trace
from karat.read.json_lines import NOT_JSON
from karat.read.run_log import decode_line, read_run_log
from karat.records import dataclass
from karat.retrieve.protocol import Answer, Query, RetrieverFacts, name_query, read_answer
from karat.retrieve.spec import parse_spec
from karat.store.atomic import write_atomically
from karat.store.faults import fault
from karat.verbs.bench.cases import collapse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from karat.retrieve.corpus import Chunker, Corpus

PART = ".part"
"""The ending of an unfinished run log."""
PASSAGE_FIELDS = ("doc_version", "source")
"""The fields of a passage that a run log repeats."""
CHANGES = {
    "system": "the name of the run",
    "retriever": "the retriever",
    "k_raw": "k",
    "workers": "the number of workers",
    "dataset_version": "the corpus or the queries",
    "code_version": "its code, its models or Karat",
    "chunker": "the chunks",
}
"""What a fact of a run log is in a sentence about its change."""
HASHES = ("dataset_version", "code_version", "chunker")
"""Facts whose values mean nothing to a person."""


class TaskFacts(RetrieverFacts):
    """What is known of a run: what is asked for, and what the retriever says of itself."""

    system: str
    retriever: str
    k_raw: int
    workers: int
    dataset_version: str
    code_version: str
    chunker: NotRequired[Chunker]


@dataclass(frozen=True)
class Task:
    """One retriever on one corpus with its queries, and where its log goes."""

    label: str
    retriever: Any
    corpus: Corpus
    queries: Sequence[Query]
    k: int
    path: str
    facts: TaskFacts
    """What every line repeats about the whole run; a log with other facts is not resumed."""
    workers: int = 1
    warmup: int = 5
    resumable: bool = True
    """Whether an unfinished log may be resumed."""
    depth: int | None = None
    """Where passages are entries of terms: how many to ask for, so that they hold k terms."""


@dataclass(frozen=True)
class LogState:
    """The log that a task finds: whether it is the complete log of this task, else what has changed since."""

    complete: bool = False
    change: str = ""
    other: str = ""
    """The retriever that made the log, if it is another one."""


class Progress:
    """The names of the runs that an unfinished benchmark has completed, in a file beside their logs."""

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

    def end(self) -> None:
        """Forget them: the benchmark is complete."""
        os.unlink(self.path)


def slug(label: str) -> str:
    """A label as the name of a file."""
    return re.sub(r"[^\w.+-]+", "-", label).strip("-.") or "run"


def inspect_log(task: Task) -> LogState:
    """What the file that a task would write holds today."""
    if not os.path.exists(task.path):
        return LogState()
    lines = _traces(task.path)
    first = lines[0].facts if lines else {}
    if "retriever" not in first:
        raise InputError(
            f"{task.path}: exists and is not the run log of a benchmark, so it is not replaced; "
            "move it, or choose another folder with --out"
        )
    facts = _as_logged(task.facts)
    if not _is_variant(str(first["retriever"]), str(facts["retriever"])):
        return LogState(other=str(first["retriever"]))
    name = next((name for name, value in facts.items() if first.get(name) != value), None)
    if name in HASHES:
        return LogState(change=f"{CHANGES[name]} changed")
    if name is not None:
        return LogState(change=f"{CHANGES.get(name, name)} changed from {first.get(name)} to {facts[name]}")
    if [line.query_id for line in lines] != [q.id for q in task.queries]:
        return LogState(change="the queries changed")
    return LogState(complete=all(_states(line, facts) for line in lines))


def _is_variant(old: str, new: str) -> bool:
    """Whether two retrievers are the same but for parameters: then the newer one may replace the log."""
    if old == new:
        return True
    try:
        return parse_spec(old).kind == parse_spec(new).kind
    except UsageError:  # the name of an object, which is not a spec
        return False


def run(task: Task, watch: Callable[[int, int], None] | None = None) -> None:
    """Ask every query that is not in the log yet, and give the log its final name when it has them all.

    Queries are asked one by one (or by `workers` threads, each one by one), so that a latency is that of a
    query, and answers cannot depend on which queries were asked together.
    """
    part = task.path + PART
    count = _trim_log(part, task)
    rest = task.queries[count:]
    try:
        os.makedirs(os.path.dirname(part) or ".", exist_ok=True)
        with open(part, "ab") as file:
            if rest:
                for query in task.queries[-task.warmup :] if task.warmup else ():
                    _ask(task, query)
            for number, line in enumerate(_answers(task, rest), start=count + 1):
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
    answer, ms = _ask(task, query)
    top = answer.cut(task.k)
    entry: dict[str, object] = {"query_id": query.id, **task.facts, "query": str(query)}
    entry["topk"] = [_item(task.corpus, rank, top) for rank in range(1, len(top.ids) + 1)]
    if answer.stages:
        entry["stages"] = {name: list(ids) for name, ids in answer.stages.items()}
    latency = answer.latency_ms or {"retrieve": ms}
    entry["latency_ms"] = {name: round(float(ms), 4) for name, ms in latency.items()}
    if answer.cost:
        entry["cost"] = dict(answer.cost)
    return msgspec.json.encode(entry | dict(answer.more)) + b"\n"


def _ask(task: Task, query: Query) -> tuple[Answer, float]:
    """The answer to one query, and the milliseconds of the whole call."""
    where = f"{task.label}, {name_query(query)}"
    start = time.perf_counter()
    try:
        answers = task.retriever.retrieve([query], task.depth or task.k)
        ms = (time.perf_counter() - start) * 1000
        answer = read_answer(next(iter(answers)), where)
        answer = answer if task.depth is None else collapse(answer, task.corpus)
    except StopIteration:
        raise InputError(f"{where}: nothing was returned; expected one list for each query") from None
    except KaratError as error:
        raise _failure(task, where, str(error)) from error
    except (Exception, SystemExit) as error:
        raise _failure(task, where, f"{type(error).__name__}: {error}{_source_line(error)}") from error
    return answer, ms


def _source_line(error: BaseException) -> str:
    """The line of the caller's own code that failed: the last one that is not ours."""
    import traceback

    ours = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(ours)]
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""


def _failure(task: Task, where: str, what: str) -> InputError:
    message = what if what.startswith(f"{task.label}, query") else f"{where}: {what}"
    part = task.path + PART
    if task.resumable and os.path.exists(part) and os.path.getsize(part) > 0:
        message += f"; earlier answers are kept in {part}: run the same command to resume"
    return InputError(message)


def _item(corpus: Corpus, rank: int, answer: Answer) -> dict[str, object]:
    id = answer.ids[rank - 1]
    doc = corpus.parent(id)
    item: dict[str, object] = {"rank": rank, **({"chunk_id": id} if doc != id else {}), "doc_id": doc}
    if answer.scores is not None:
        item["score"] = float(answer.scores[rank - 1])
    about = corpus.about(id)
    return item | {name: about[name] for name in PASSAGE_FIELDS if about.get(name) is not None}


def _trim_log(part: str, task: Task) -> int:
    """Cut an unfinished log to the lines that can be resumed from, and return their number."""
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


def _as_logged(facts: TaskFacts) -> JsonObject:
    """Facts as a line of a log gives them back."""
    plain: JsonObject = msgspec.json.decode(msgspec.json.encode(facts), type=JsonObject)
    return {name: value for name, value in plain.items() if name in FACTS}


def _states(line: RunFacts, facts: Facts) -> bool:
    own = line.facts
    return all(own.get(name) == value for name, value in facts.items())
