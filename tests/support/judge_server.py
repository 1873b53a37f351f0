"""An OpenAI-compatible chat endpoint in a process of its own; the first part of the path says how it behaves.

Prints its port. The grade that it gives stands in the doc, as `grade=2`, and its name as `doc=17`. GET /seen tells what
it was asked and which requests it answered in full.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections import Counter
from http.server import ThreadingHTTPServer
from typing import Any

from endpoint import SEEN, Endpoint

LOCK = threading.Lock()
FAULTS = ("429", "500", "drop", "slow", "broken", "5", "10", "high", "cut", "none")
"""What happens to the first request about a doc, by the last digit of its number."""


def complete(content: str, reason: str = "stop") -> str:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": reason}
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    return json.dumps({"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage})


def opinion(grade: object) -> str:
    return json.dumps({"reason": "Because.", "grade": grade})


class Handler(Endpoint):
    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key, way = self.headers.get("Authorization", ""), self.path.split("/")[1]
        text = request["messages"][-1]["content"]
        doc, grade = (int(re.search(f"{name}=(\\d+)", text)[1]) for name in ("doc", "grade"))  # type: ignore[index]
        form = request.get("response_format", {}).get("type", "text")
        with LOCK:
            before = sum(s["doc"] == doc and s["path"] == self.path for s in SEEN)
            entry = {"path": self.path, "doc": doc, "form": form, "key": key, "answered": False, "time": time.time()}
            SEEN.append(entry)
            answers = Counter(s["path"] for s in SEEN if s["answered"])[self.path]
        good = complete(opinion(grade))
        if way == "faulty" and before == 0:
            self.fault(FAULTS[doc % 10], good, entry)
            return
        if way == "invalid":
            self.reply(200, complete(("no idea", opinion(5), opinion("high"), '{"grade": 1')[doc % 4]))
            return
        if way == "noschema" and form != "text":
            error = {"error": {"message": f"'response_format' of type {form!r} is not supported", "code": 400}}
            self.reply(400, json.dumps(error))
            return
        if way == "noschema":
            good = complete(f"<think>It says {grade}.</think>\n```json\n{opinion(grade)}\n```")
        if way == "biased" and text.count("doc=") > 1:
            good = complete(opinion(min(grade + 1, 3)))
        elif way == "biased" and not re.search(r">\ndoc=", text):
            good = complete(opinion(0))
        if way == "votes":
            good = complete(opinion([grade, 0, grade][before % 3]))
        if way == "refuses":
            self.reply(401, f"wrong key: {key}")
            return
        if way == "bad":
            self.reply(400, f"unknown model, {key}")
            return
        if way == "filter" and doc % 10 == 3:
            self.reply(400, f"content filter, {key}")
            return
        if way == "down":
            self.reply(503, f"no capacity for {key}", retry_after="0.01")
            return
        if way == "silent":
            body = json.loads(good)
            del body["usage"]
            good = json.dumps(body)
        if way == "slow":
            time.sleep(0.1)
        if way == "dies" and answers >= 12:
            os._exit(1)
        self.answer(good, entry)

    def fault(self, kind: str, good: str, entry: dict[str, Any]) -> None:
        if kind == "429":
            self.reply(429, "too many", retry_after="0.05")
            return
        if kind == "500":
            self.reply(500, "oh")
            return
        if kind == "drop":
            self.close_connection = True
            self.connection.close()
            return
        if kind == "slow":
            time.sleep(0.3)
            self.answer(good, entry)
            return
        invalid = {"broken": "{", "cut": complete('{"reason": "Bec', "length")}
        numbers = {"5": 5, "10": 10, "high": "high"}
        if kind in numbers:
            self.reply(200, complete(opinion(numbers[kind])))
            return
        if kind in invalid:
            self.reply(200, invalid[kind])
        else:
            self.answer(good, entry)

    def answer(self, body: str, entry: dict[str, Any]) -> None:
        with LOCK:
            entry["answered"] = True
        self.reply(200, body)


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    server.serve_forever()
