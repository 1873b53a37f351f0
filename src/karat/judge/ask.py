"""Have a language model judge pairs: several at once, within a budget, resumed where it stopped."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import combinations
from typing import TYPE_CHECKING

from karat.errors import InputError
from karat.judge.budget import Budget, BudgetExhausted
from karat.judge.chat import ChatEndpoint, Unsuitable
from karat.judge.judgments import Judgment, add_judgments, read_judgments, refuse_other_scales
from karat.judge.opinions import InvalidAnswer, Opinion, Usage
from karat.model.policy import is_relevant
from karat.records import dataclass
from karat.retrieve.client import Unreachable
from karat.store.answers import AnswerStore, StoredAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from karat.judge.assessor import Assessor, PairText, Question
    from karat.judge.pairs import Pair


WORKERS = 8
TRIES = 3
"""How often a model is asked that answers without a grade."""
GRACE = 10.0
"""Seconds that answers on their way are waited for after Ctrl-C: they are paid for."""
SILENCE = 3
"""After so many pairs in a row without an answer the endpoint is taken for down."""


@dataclass(frozen=True)
class Agreement:
    """How far the votes on the same pairs agree."""

    pairs: int
    agreement: float
    """The share of pairs of votes that give the same grade."""
    flips: float
    """The share of pairs with votes on both sides of relevant."""


@dataclass(frozen=True)
class AskOutcome:
    """What became of the pairs."""

    total: int
    judged_before: int
    recalled: int
    """Answers that were paid for earlier."""
    judged: int
    """Pairs whose judgment was added to the file."""
    failures: tuple[Failure, ...]
    calls: int
    usage: Usage
    cost: float
    stopped: str
    """Why not all pairs were judged; empty if nothing stopped the work."""
    agreement: Agreement | None
    notes: tuple[str, ...] = ()

    @property
    def open(self) -> int:
        """Pairs that nobody has asked about yet."""
        return self.total - self.judged_before - self.judged - len(self.failures)


@dataclass(frozen=True)
class Job:
    """The pairs that one judge has not judged yet: what is pending, and the ledger that takes the answers."""

    ledger: Ledger
    pending: tuple[Question, ...]
    total: int
    before: tuple[Judgment, ...]
    recalled: int
    notes: tuple[str, ...]

    def finish(self, budget: Budget, stopped: str, notes: Sequence[str] = ()) -> AskOutcome:
        """Write what is decided, and say what became of the pairs."""
        self.ledger.write(all=True)
        rows = (*self.before, *self.ledger.rows)
        return AskOutcome(
            self.total,
            len(self.before),
            self.recalled,
            len(self.ledger.rows),
            tuple(self.ledger.failures),
            budget.calls,
            budget.usage,
            budget.cost,
            stopped,
            measure_agreement(rows),
            (*notes, *self.notes, *self.ledger.notes),
        )


def open_job(texts: Sequence[PairText], assessor: Assessor, path: str, store: AnswerStore) -> Job:
    """What the file of judgments and the store of answers leave to ask."""
    judgments = read_judgments(path, missing_ok=True)
    refuse_other_scales(judgments, assessor.prompt.scale.name)
    earlier = judgments.of(assessor.identity, assessor.prompt.scale.name)
    todo = [text for text in texts if text.pair.ids not in earlier]
    ledger = Ledger([text.pair for text in todo], assessor, path, store)
    questions = [q for text in todo for q in assessor.questions(text.pair, text.query, text.doc)]
    pending, recalled = recall_answers(questions, ledger, store)
    before = tuple(earlier[text.pair.ids] for text in texts if text.pair.ids in earlier)
    return Job(ledger, pending, len(texts), before, recalled, judgments.notes)


def recall_answers(
    questions: Iterable[Question], ledger: Ledger, store: AnswerStore
) -> tuple[tuple[Question, ...], int]:
    """Give the ledger the answers that are kept already; the questions without one, and how many have one."""
    pending, recalled = [], 0
    for question in questions:
        if (answer := store.get(question.key)) is not None:
            ledger.recall(question, Opinion(answer.grade, answer.reason))
            recalled += 1
        else:
            pending.append(question)
    ledger.write()
    return tuple(pending), recalled


def ask_all(
    job: Job,
    endpoint: ChatEndpoint,
    assessor: Assessor,
    budget: Budget,
    *,
    workers: int = WORKERS,
    tries: int = TRIES,
    watch: Callable[[int, int, Budget], None] | None = None,
) -> str:
    """Ask all that is pending; why it stopped before the end, or nothing.

    The first question goes alone: it shows how the endpoint answers, and what an answer costs.
    """
    progress = _Progress(job, budget, watch)
    questions = iter(job.pending)
    running: dict[Future[Opinion], Question] = {}
    threads = ThreadPoolExecutor(workers, "karat-judge")
    try:
        while not progress.stopped or running:
            room = 0 if progress.stopped else (workers if progress.answers else 1) - len(running)
            for question in _take(questions, room, job.ledger):
                running[threads.submit(_ask_one, question, endpoint, assessor, budget, tries)] = question
            if not running:
                break
            ready, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ready:
                progress.handle(running[future], future)
                del running[future]  # not before: Ctrl-C in between must not lose an answer
                if progress.stopped:
                    endpoint.stop.set()
    except BaseException:
        endpoint.stop.set()
        for future in wait(running, timeout=GRACE).done:
            if future.exception() is None:
                job.ledger.keep(running[future], future.result())
        job.ledger.write(all=True)
        raise
    finally:
        endpoint.close()
        threads.shutdown(wait=False, cancel_futures=True)
    return progress.stopped


def _take(questions: Iterator[Question], room: int, ledger: Ledger) -> Iterator[Question]:
    """The next questions, as many as there is room for; pairs that have failed are not asked about again."""
    while room > 0 and (question := next(questions, None)) is not None:
        if not ledger.has_failed(question):
            room -= 1
            yield question


def _ask_one(question: Question, endpoint: ChatEndpoint, assessor: Assessor, budget: Budget, tries: int) -> Opinion:
    problem = InvalidAnswer("")
    for _ in range(tries):
        try:
            return endpoint.ask(question.request, assessor.prompt, budget)
        except InvalidAnswer as error:
            problem = error
    raise InvalidAnswer(f"{problem} ({tries} tries)" if tries > 1 else str(problem))


class _Progress:
    """What the answers so far say about going on."""

    def __init__(self, job: Job, budget: Budget, watch: Callable[[int, int, Budget], None] | None) -> None:
        self._job, self._budget, self._watch = job, budget, watch
        self.answers = self._done = self._silent = 0
        self.stopped = ""

    def handle(self, question: Question, future: Future[Opinion]) -> None:
        """Take a result; errors that concern all pairs stop the work or are raised."""
        ledger = self._job.ledger
        try:
            opinion = future.result()
        except InvalidAnswer as error:
            self.answers += 1
            self._silent = 0
            ledger.fail(question, str(error))
        except Unsuitable as error:
            if not self.answers:  # perhaps the model or a parameter is wrong, and not the pair
                raise InputError(f"the first request is refused: {error}; check the model and its parameters") from None
            ledger.fail(question, str(error))
        except BudgetExhausted as error:
            self.stopped = self.stopped or str(error)
            return
        except Unreachable as error:
            self._silent += 1
            if not self.answers or self._silent >= SILENCE:
                self.stopped = self.stopped or str(error)
                return
            ledger.fail(question, str(error))
        else:
            self.answers += 1
            self._silent = 0
            ledger.keep(question, opinion)
        self._done += 1
        if self._watch is not None:
            self._watch(self._done, len(self._job.pending), self._budget)


def measure_agreement(rows: Iterable[Judgment]) -> Agreement | None:
    """How far the votes agree; None where pairs have one vote each."""
    votes = [row.votes for row in rows if len(row.votes) > 1]
    if not votes:
        return None
    same = [a == b for own in votes for a, b in combinations(own, 2)]
    flips = [len({is_relevant(grade) for grade in own}) > 1 for own in votes]
    return Agreement(len(votes), sum(same) / len(same), sum(flips) / len(flips))


@dataclass(frozen=True)
class Failure:
    """A pair without a grade, and why."""

    pair: Pair
    problem: str


class Ledger:
    """What is known of the pairs that are being judged.

    An answer is kept in the store first; a judgment is added to the file when all votes on its pair, and all pairs
    before it, are decided. So a file does not depend on which answer came first, or on where the work was stopped.
    Without a path, judgments are only collected.
    """

    def __init__(self, pairs: Sequence[Pair], assessor: Assessor, path: str | None, store: AnswerStore) -> None:
        self._assessor, self._path, self._store = assessor, path, store
        self._pairs = pairs
        self._place = {pair.ids: place for place, pair in enumerate(pairs)}
        self._opinions: list[dict[int, Opinion]] = [{} for _ in pairs]
        self._problems: dict[int, str] = {}
        self._next = 0
        self._written: set[int] = set()
        self.rows: list[Judgment] = []
        self.notes: list[str] = []

    def keep(self, question: Question, opinion: Opinion) -> None:
        """Take an answer that is new."""
        self._store.put(question.key, StoredAnswer(opinion.grade, opinion.reason))
        self.recall(question, opinion)
        self.write()

    def recall(self, question: Question, opinion: Opinion) -> None:
        """Take an answer that the store holds already."""
        self._opinions[self._place[question.pair.ids]][question.vote] = opinion

    def fail(self, question: Question, problem: str) -> None:
        """Note that a vote on a pair has no grade: the pair has none."""
        self._problems.setdefault(self._place[question.pair.ids], problem)
        self.write()

    def write(self, *, all: bool = False) -> None:
        """Add what is decided to the file; `all` does not wait for pairs that are not."""
        places = []
        while self._next < len(self._pairs) and (self._next in self._problems or self._complete(self._next)):
            places.append(self._next)
            self._next += 1
        if all:
            places += range(self._next, len(self._pairs))
        self._add(place for place in places if place not in self._written and self._complete(place))

    def has_failed(self, question: Question) -> bool:
        """Whether another vote on the pair has failed already."""
        return self._place[question.pair.ids] in self._problems

    @property
    def failures(self) -> list[Failure]:
        return [Failure(self._pairs[place], problem) for place, problem in sorted(self._problems.items())]

    def _complete(self, place: int) -> bool:
        return len(self._opinions[place]) == self._assessor.votes

    def _add(self, places: Iterable[int]) -> None:
        rows = []
        for place in places:
            votes = self._opinions[place]
            rows.append(self._assessor.judgment(self._pairs[place], [votes[vote] for vote in sorted(votes)]))
            self._written.add(place)
        if self._path is not None:
            self.notes += add_judgments(self._path, rows)
        self.rows += rows
