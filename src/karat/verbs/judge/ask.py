"""`karat judge ask`: pairs, texts and a model → judgments."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager, closing
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from karat.errors import UsageError, shown
from karat.judge.ask import TRIES, WORKERS, AskOutcome, Job, ask_all, open_job
from karat.judge.assessor import PARAMETERS, Assessor, PairText, find_texts
from karat.judge.bias_test import TEXT_FORMS, FormChange, choose_probes, measure_change, open_probe
from karat.judge.budget import Budget, BudgetLimits
from karat.judge.chat import TIMEOUT, ChatEndpoint, take_batch, write_batch
from karat.judge.judgments import fingerprint_judge, read_judgments
from karat.judge.opinions import FORMS, AnswerForm
from karat.judge.pairs import read_pairs
from karat.judge.prompt import TEMPLATE, Prompt, read_template
from karat.judge.scale import Scale, read_scale
from karat.read.docs import read_docs
from karat.read.problems import parse_number
from karat.read.queries import read_queries
from karat.records import dataclass
from karat.retrieve.endpoint import choose_base_url
from karat.store.answers import AnswerStore
from karat.store.lock import only_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from karat.model.json_data import Json


@dataclass(frozen=True)
class JudgeOptions:
    """The model that judges, and what it is told."""

    model: str
    url: str | None = None
    key_env: str | None = None
    template: str = TEMPLATE
    scale: Scale | None = None
    reason: bool = True
    parameters: Mapping[str, Json] = field(default_factory=dict)
    votes: int = 1
    doc_chars: int | None = None
    answers: str | None = None
    """The form of answers to begin with; the one that the endpoint last agreed to unless stated."""
    timeout: float = TIMEOUT

    def assessor(self) -> Assessor:
        """The judge that these options describe."""
        if self.answers is not None and self.answers not in FORMS:
            raise UsageError(f"answers must be one of {', '.join(FORMS)}, found {self.answers!r}")
        prompt = Prompt(read_scale(self.scale), self.template, self.reason, self.doc_chars)
        parameters = {name: value for name, value in {**PARAMETERS, **self.parameters}.items() if value is not None}
        return Assessor(self.model, prompt, parameters, self.votes, choose_base_url(self.url, "url"))


def ask_pairs(
    pairs: str,
    *,
    queries: Any,
    docs: Any,
    judgments: str,
    judge: JudgeOptions,
    limits: BudgetLimits | None = None,
    workers: int = WORKERS,
    tries: int = TRIES,
    watch: Callable[[int, int, Budget], None] | None = None,
) -> AskOutcome:
    """Have a model judge a file of pairs, and add what it says to a file of judgments.

    Pairs that the same judge has judged in this file are not asked about again, nor questions whose answer is kept.
    """
    assessor = judge.assessor()
    with _alone(judgments, assessor), closing(AnswerStore()) as store:
        job, notes = _open(pairs, queries, docs, judgments, assessor, store)
        budget = Budget(limits or BudgetLimits())
        stopped = _ask(job, judge, assessor, budget, store, workers, tries, watch)
        return job.finish(budget, stopped, notes)


@dataclass(frozen=True)
class BiasTest:
    """What other forms of the same docs change in a judge's grades, and what asking about them cost."""

    pairs: int
    changes: tuple[FormChange, ...]
    outcome: AskOutcome
    """Of all forms together."""


def probe_bias(
    pairs: str,
    size: int,
    *,
    queries: Any,
    docs: Any,
    judgments: str,
    judge: JudgeOptions,
    limits: BudgetLimits | None = None,
    workers: int = WORKERS,
    tries: int = TRIES,
    watch: Callable[[int, int, Budget], None] | None = None,
) -> BiasTest:
    """Ask a model again about pairs that it has judged, drawn at random: unchanged, in another order, twice as long.

    Nothing of it is added to the file of judgments.
    """
    assessor = judge.assessor()
    with _alone(judgments, assessor), closing(AnswerStore()) as store:
        texts, notes = _read_texts(pairs, queries, docs, assessor)
        judged = read_judgments(judgments, missing_ok=True).of(assessor.identity, assessor.prompt.scale.name)
        probes = choose_probes(texts, judged, size)
        if not probes:
            raise UsageError(
                f"{judgments}: holds no judgment of these pairs by {assessor.identity.label}; have it judge them "
                "first: the same command without --bias-test"
            )
        budget, stopped, outcomes, changes = Budget(limits or BudgetLimits()), "", [], []
        for form in TEXT_FORMS:
            job = open_probe(probes, form, assessor, store)
            stopped = stopped or _ask(job, judge, assessor, budget, store, workers, tries, watch)
            outcomes.append(job.finish(budget, stopped))
            changes.append(measure_change(form, job.ledger.rows, judged))
        whole = replace(
            outcomes[-1],
            total=sum(one.total for one in outcomes),
            recalled=sum(one.recalled for one in outcomes),
            judged=sum(one.judged for one in outcomes),
            failures=tuple(failure for one in outcomes for failure in one.failures),
            agreement=None,
            notes=notes,
        )
        return BiasTest(len(probes), tuple(changes), whole)


def _ask(
    job: Job,
    judge: JudgeOptions,
    assessor: Assessor,
    budget: Budget,
    store: AnswerStore,
    workers: int,
    tries: int,
    watch: Callable[[int, int, Budget], None] | None,
) -> str:
    """Ask all that is pending, in the form of answers that the endpoint last agreed to."""
    endpoint = ChatEndpoint(judge.model, url=judge.url, key_env=judge.key_env, timeout=judge.timeout)
    name = f"{endpoint.base_url} {judge.model}"
    endpoint.form = _first_form(judge, store, name)
    try:
        return ask_all(job, endpoint, assessor, budget, workers=workers, tries=tries, watch=watch)
    finally:
        if endpoint.form != FORMS[0]:
            store.keep_form(name, endpoint.form)


def _alone(judgments: str, assessor: Assessor) -> AbstractContextManager[None]:
    """The same judge is asked by one command at a time for each file."""
    task = f"ask {os.path.realpath(judgments)} {fingerprint_judge(assessor.identity, assessor.prompt.scale.name)}"
    return only_once(
        task, f"{judgments}: another command has the same judge at work for this file; wait until it is done"
    )


def write_requests(
    pairs: str, output: str, *, queries: Any, docs: Any, judgments: str, judge: JudgeOptions
) -> tuple[int, AskOutcome]:
    """Write what a model is still to be asked as a file for a batch API; how many requests, and what is known."""
    assessor = judge.assessor()
    with closing(AnswerStore()) as store:
        job, notes = _open(pairs, queries, docs, judgments, assessor, store)
        form = _first_form(judge, store, f"{assessor.base_url} {judge.model}")
        write_batch(job, assessor, form, output)
        return len(job.pending), job.finish(Budget(BudgetLimits()), "", notes)


def read_answers(
    pairs: str,
    batch: str,
    *,
    queries: Any,
    docs: Any,
    judgments: str,
    judge: JudgeOptions,
    limits: BudgetLimits | None = None,
) -> AskOutcome:
    """Take the answers of a batch API, as if the model had been asked directly."""
    assessor = judge.assessor()
    with closing(AnswerStore()) as store:
        job, notes = _open(pairs, queries, docs, judgments, assessor, store)
        budget = Budget(limits or BudgetLimits())
        return job.finish(budget, take_batch(job, assessor, budget, batch), notes)


def read_parameters(words: Sequence[str]) -> dict[str, Json]:
    """`NAME=VALUE` → parameters of a request; values are JSON, or text where they are not."""
    out: dict[str, Json] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"a parameter must be written NAME=VALUE, such as max_tokens=400, found {shown(word)}")
        try:
            out[name.strip()] = json.loads(text)
        except ValueError:
            out[name.strip()] = text
    return out


def read_limits(calls: int | None, tokens: int | None, cost: float | None, price: str | None) -> BudgetLimits:
    """Limits as the command line states them; a price is `INPUT,OUTPUT` per million tokens."""
    prices = [0.0, 0.0]
    if price is not None:
        numbers = [parse_number(part.strip()) for part in price.split(",")]
        prices = [number for number in numbers if number is not None and number >= 0]
        if len(prices) != 2 or len(numbers) != 2:
            raise UsageError(f"price must be two numbers such as 0.15,0.60, found {shown(price)}")
    return BudgetLimits(calls, tokens, cost, *prices)


def judge_template(path: str | None) -> str:
    """The template in a file, or Karat's own."""
    return TEMPLATE if path is None else read_template(path)


def _first_form(judge: JudgeOptions, store: AnswerStore, name: str) -> AnswerForm:
    wish = judge.answers or store.form_of(name)
    return next((form for form in FORMS if form == wish), FORMS[0])


def _open(
    pairs: str, queries: Any, docs: Any, judgments: str, assessor: Assessor, store: AnswerStore
) -> tuple[Job, tuple[str, ...]]:
    """What is left to ask, and notes on the inputs."""
    texts, notes = _read_texts(pairs, queries, docs, assessor)
    return open_job(texts, assessor, judgments, store), notes


def _read_texts(pairs: str, queries: Any, docs: Any, assessor: Assessor) -> tuple[list[PairText], tuple[str, ...]]:
    """The pairs with their texts, and notes on both."""
    records = read_pairs(pairs)
    if not records.rows:
        raise UsageError(f"{pairs}: holds no pairs, expected at least one; see: karat judge pool")
    texts = find_texts(records.rows, read_queries(queries), read_docs(docs))
    return texts, (*records.notes, *_cuts(texts, assessor))


def _cuts(texts: Sequence[PairText], assessor: Assessor) -> Iterator[str]:
    count = sum(assessor.prompt.cut(text.doc) != text.doc for text in texts)
    if count:
        yield f"{count:,} of {len(texts):,} docs are longer than {assessor.prompt.doc_chars:,} characters and are cut"
