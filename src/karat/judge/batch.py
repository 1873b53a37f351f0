"""Batches: requests and answers as the files of OpenAI's batch API, which other vendors read and write too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from karat.errors import UsageError, shown
from karat.judge.chat import PATH, with_form
from karat.judge.opinions import InvalidAnswer, Usage, read_completion, read_usage
from karat.judge.records import read_records, write_lines
from karat.model.json_data import Json

if TYPE_CHECKING:
    from karat.judge.ask import Job
    from karat.judge.assessor import Assessor
    from karat.judge.budget import Budget
    from karat.judge.opinions import AnswerForm

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
