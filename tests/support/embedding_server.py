"""An OpenAI-compatible embeddings endpoint in a process of its own; the first part of the path says how it behaves.

Prints its port, answers with WordLlama's vectors where it behaves well, and tells at GET /seen what it was asked.
"""

from __future__ import annotations

import json
import time
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import wordllama

from endpoint import SEEN, Endpoint

MODEL = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)


def vectors(texts: list[str], dims: int | None) -> list[list[float]]:
    return [row[:dims].tolist() for row in MODEL.embed(texts)]


def answer(texts: list[str], dims: int | None) -> dict[str, Any]:
    data = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors(texts, dims))]
    # Each word is charged as one token; the order of the list is not promised, the index counts.
    return {"data": data[::-1], "usage": {"total_tokens": sum(len(t.split()) for t in texts)}}


class Handler(Endpoint):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers.get("Authorization")
        way = self.path.split("/")[1]
        SEEN.append({"path": self.path, "texts": asked["input"], "model": asked["model"], "key": key})
        before = sum(s["path"] == self.path for s in SEEN) - 1
        texts, dims = asked["input"], asked.get("dimensions")
        whole = answer(texts, dims)
        nonsense: dict[str, Any] = {
            "page": "<html>hello</html>",
            "other": json.dumps({"error": f"no such thing, {key}"}),
            "list": "[1, 2]",
            "fewer": json.dumps({"data": whole["data"][:-1]}),
            "nan": json.dumps({"data": [{"embedding": [float("nan"), 1]} for _ in texts]}),
            "words": json.dumps({"data": [{"embedding": "abc"} for _ in texts]}),
            "ragged": json.dumps({"data": [{"embedding": [1.0] * (i + 1)} for i in range(len(texts))]}),
            "twice": json.dumps({"data": [{"index": 0, "embedding": [1.0]} for _ in texts]}),
        }
        if way in nonsense:
            self.reply(200, nonsense[way])
        elif way == "flaky" and before < 3:
            self.reply((429, 500, 503)[before], "later", **({"retry_after": "0.05"} if before == 0 else {}))
        elif way == "busy":
            self.reply(429, f"too many requests for {key}")
        elif way == "refuses":
            self.reply(401, f"wrong key: {key}")
        elif way == "broken":
            self.reply(400, "x" * 150 + f" bad request with {key}")
        elif way == "moved":
            self.reply(302, "", location="http://127.0.0.1:9/elsewhere")
        elif way == "none":
            self.reply(404, "not here")
        elif way == "slow":
            time.sleep(1)
            self.reply(200, json.dumps(whole))
        elif way == "silent":
            del whole["usage"]
            self.reply(200, json.dumps(whole))
        else:
            self.reply(200, json.dumps(whole))


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
