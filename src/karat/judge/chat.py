"""Opinions from an OpenAI-compatible chat endpoint, call by call or as the files of its batch API."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from karat.errors import InputError, UsageError, shown
from karat.judge.budget import Budget, BudgetExhausted
from karat.judge.opinions import (
    FORMS,
    AnswerForm,
    InvalidAnswer,
    Opinion,
    Usage,
    read_completion,
    read_usage,
    response_format,
)
from karat.judge.records import read_records, write_lines
from karat.model.json_data import Json, JsonObject
from karat.retrieve.client import Client, Reply, RetryPolicy, Unreachable, may_pass, require_httpx
from karat.retrieve.endpoint import HOSTED, KEY_ENV, choose_base_url, explain_status, read_key

if TYPE_CHECKING:
    from karat.judge.ask import Job
    from karat.judge.assessor import Assessor
    from karat.judge.prompt import Prompt


RETRY = RetryPolicy(attempts=6, pause=0.5, longest=60.0, timeouts=True)
PATH = "/chat/completions"
TIMEOUT = 120.0
_WORDS = ("response_format", "json_schema", "json_object")
"""What a refusal of a form of answers names."""


class Unsuitable(Exception):
    """A request that the endpoint refuses for what is in it; says why."""


class ChatEndpoint:
    """A client of POST {base_url}/chat/completions.

    The key comes from the environment and goes nowhere but into the request's header.
    """

    def __init__(
        self, model: str, *, url: str | None = None, key_env: str | None = None, timeout: float = TIMEOUT
    ) -> None:
        require_httpx("karat judge ask")
        if not timeout > 0:
            raise UsageError(f"timeout must be a number of seconds above 0, found {timeout!r}")
        self.base_url, self.model = choose_base_url(url, "url"), model
        self._key_env = key_env or KEY_ENV
        self._key = read_key(self._key_env, "key_env", required=key_env is not None or self.base_url == HOSTED)
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self._key}"} if self._key else {})
        secrets = (self._key,) if self._key else ()
        self.stop = threading.Event()
        """Ends all pauses; whoever sets it sees to it that nothing more is sent."""
        self._client = Client(timeout=timeout, retry=RETRY, headers=headers, secrets=secrets, sleep=self.stop.wait)
        self.form: AnswerForm = FORMS[0]
        self._lock = threading.Lock()

    @property
    def where(self) -> str:
        return f"{self.base_url}{PATH}"

    def ask(self, request: JsonObject, prompt: Prompt, budget: Budget) -> Opinion:
        """The opinion that a request is answered with; every attempt is a call of the budget.

        Raises `InvalidAnswer` for an answer without a grade, `Unsuitable` for a request that is refused, and
        `Unreachable` where no answer comes.
        """

        def begin() -> None:
            if self.stop.is_set():
                raise BudgetExhausted("an earlier error")
            budget.take()

        while True:
            form = self.form
            try:
                content = json.dumps(with_form(request, form, prompt)).encode()
                reply = self._client.send("POST", self.where, self.where, content=content, before=begin)
            except Unreachable:
                budget.settle(None)
                raise
            if reply.ok:
                return self._read(reply, prompt, budget)
            budget.settle(None)
            if not self._step_down(reply, form):
                raise self._error(reply)

    def close(self) -> None:
        self._client.close()

    def _read(self, reply: Reply, prompt: Prompt, budget: Budget) -> Opinion:
        answer: Json = None
        try:
            answer = self._client.read_json(reply, self.where, "")
        except InputError:
            raise InvalidAnswer(f"the answer is not JSON: {self._client.excerpt(reply)}") from None
        finally:
            usage = read_usage(answer)
            budget.settle(usage)
        if usage is None and budget.limits.needs_usage:
            raise InputError(
                f"{self.where}: the answer reports no tokens (usage), so a limit on tokens or cost cannot be kept; "
                "limit the calls instead"
            )
        return read_completion(answer, prompt.scale, reason=prompt.reason)

    def _step_down(self, reply: Reply, form: AnswerForm) -> bool:
        """Take the next form of answers if this reply refuses the form itself; whether to ask again."""
        text = reply.response.text
        if reply.status not in (400, 422) or form == FORMS[-1] or not any(word in text for word in _WORDS):
            return False
        with self._lock:
            if self.form == form:  # no other thread was first
                self.form = FORMS[FORMS.index(form) + 1]
        return True

    def _error(self, reply: Reply) -> Exception:
        problem = explain_status(reply, self._client, self.model, self._key_env, has_key=bool(self._key))
        if may_pass(reply.status):
            return Unreachable(f"{self.where}: {problem} (gave up after {reply.failures + 1} attempts)")
        if reply.status in (401, 403, 404) or reply.status < 400:
            return InputError(f"{self.where}: {problem}")
        return Unsuitable(problem)


def with_form(request: JsonObject, form: AnswerForm, prompt: Prompt) -> JsonObject:
    """A request that asks for answers in this form."""
    wish = response_format(form, prompt.scale, reason=prompt.reason)
    return request if wish is None else {**request, "response_format": wish}


ANSWER = 'expected one answer per line: {"custom_id": "…", "response": {"status_code": 200, "body": {…}}}'


class BatchResponse(Struct):
    """What the endpoint answered."""

    status_code: int
    body: Json = None


class BatchAnswer(Struct):
    """One line of a file of answers."""

    custom_id: Annotated[str, Meta(min_length=1)]
    response: BatchResponse | None = None
    error: Json = None


def write_batch(job: Job, assessor: Assessor, form: AnswerForm, path: str) -> None:
    """Write all that is pending, one request per line."""
    lines = []
    for question in job.pending:
        body = with_form(question.request, form, assessor.prompt)
        line = {"custom_id": question.key, "method": "POST", "url": f"/v1{PATH}", "body": body}
        lines.append(json.dumps(line).encode())
    write_lines(lines, path)


def take_batch(job: Job, assessor: Assessor, budget: Budget, path: str) -> str:
    """Take the answers of a file; what is wrong with it as a whole, or nothing."""
    pending = {question.key: question for question in job.pending}
    answers = {row.custom_id: row for row in read_records(path, BatchAnswer, ANSWER, lambda row: None).rows}
    if pending and not pending.keys() & answers.keys():
        raise UsageError(
            f"{path}: none of its {len(answers):,} answers is for one of the {len(pending):,} pending requests; "
            "name the same pairs, texts, model, prompt, scale and address as for --batch-out"
        )
    for key, question in pending.items():
        if key not in answers:
            continue
        response = answers[key].response
        if response is None or response.status_code != 200:
            status = "no response" if response is None else f"status {response.status_code}"
            detail = answers[key].error if response is None else response.body
            job.ledger.fail(question, f"{status}: {shown(detail)}")
            continue
        budget.calls += 1
        budget.usage += read_usage(response.body) or Usage()
        try:
            opinion = read_completion(response.body, assessor.prompt.scale, reason=assessor.prompt.reason)
        except InvalidAnswer as error:
            job.ledger.fail(question, str(error))
        else:
            job.ledger.keep(question, opinion)
    absent = len(pending.keys() - answers.keys())
    return f"{path} has no answer to {absent:,} of {len(pending):,} requests" if absent else ""
