"""A server that answers as search engines do, and some that break; run in a process of its own by test_connectors.py.

`python engines.py CORPUS.json` prints its port. The score of a doc is the number of words of the query that it
holds; ties fall by id. Requests that the engine would refuse are refused in the engine's own way.
"""

from __future__ import annotations

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

CORPUS: dict[str, str] = {}
SEEN: dict[str, int] = {}
"""How often each flaky address was asked."""
PEERS: set[Any] = set()


def ranked(query: str, k: int) -> list[tuple[str, float]]:
    words = set(query.lower().split())
    found = [(id, float(len(words & set(text.lower().split())))) for id, text in CORPUS.items()]
    return sorted((f for f in found if f[1] > 0), key=lambda f: (f[1], f[0]), reverse=True)[:k]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.answer(None)

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            self.answer(json.loads(raw))
        except json.JSONDecodeError:
            self.send(400, {"error": "the body is no JSON"})

    def answer(self, body: Any) -> None:
        PEERS.add(self.client_address)
        url = urlsplit(self.path)
        params = {name: values[0] for name, values in parse_qs(url.query).items()}
        parts = [unquote(p) for p in url.path.split("/") if p]
        if url.path.endswith("/_search"):
            self.elastic(body)
        elif parts[:1] == ["solr"] and parts[-1] == "select":
            self.solr(params)
        elif url.path == "/search/":
            self.vespa(body)
        else:
            getattr(self, f"at_{parts[0]}", self.at_nothing)(parts[1:], params, body)

    def elastic(self, body: Any) -> None:
        if not self.headers.get("content-type", "").startswith("application/json"):
            self.send(406, {"error": f"Content-Type header [{self.headers.get('content-type')}] is not supported"})
            return
        unknown = set(body) - {"size", "query", "_source"}
        if unknown or not isinstance(body.get("size"), int):
            why = {"type": "parsing_exception", "reason": f"Unknown key for a VALUE in {sorted(unknown) or ['size']}"}
            self.send(400, {"error": {"root_cause": [why], **why}, "status": 400})
            return
        ((kind, about),) = body["query"].items()
        query = about["query"] if kind == "multi_match" else next(iter(about.values()))["query"]
        hits = [{"_index": "docs", "_id": id, "_score": score} for id, score in ranked(query, body["size"])]
        total = {"value": len(hits), "relation": "eq"}
        self.send(
            200,
            {
                "took": 3,
                "timed_out": False,
                "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
                "hits": {"total": total, "max_score": hits[0]["_score"] if hits else None, "hits": hits},
            },
        )

    def solr(self, params: dict[str, str]) -> None:
        query = params.get("q", "")
        header = {"status": 0, "QTime": 2, "params": params}
        if params.get("defType") not in ("edismax", "dismax") and set(query) & set(':()[]{}"^~?*+-/!&|\\'):
            why = {
                "metadata": ["error-class", "org.apache.solr.common.SolrException"],
                "msg": "Cannot parse",
                "code": 400,
            }
            self.send(400, {"responseHeader": {**header, "status": 400}, "error": why})
            return
        fields = params.get("fl", "id").replace(",", " ").split()
        found = ranked(query, int(params.get("rows", "10")))
        docs = [{n: v for n, v in (("id", id), ("score", score)) if n in fields} for id, score in found]
        listed = {"numFound": len(docs), "start": 0, "numFoundExact": True, "docs": docs}
        self.send(200, {"responseHeader": header, "response": listed})

    def vespa(self, body: Any) -> None:
        if "userQuery()" not in body.get("yql", ""):
            self.send(400, {"root": {"errors": [{"code": 4, "summary": "Invalid query parameter"}]}})
            return
        found = ranked(body["query"], int(body.get("hits", 10)))
        root: dict[str, Any] = {"id": "toplevel", "relevance": 1.0, "fields": {"totalCount": len(found)}}
        children = [
            {"id": f"id:docs:doc::{id}", "relevance": score, "source": "docs", "fields": {"docid": id}}
            for id, score in found
        ]
        if children:  # Vespa leaves the list out when it is empty
            root["children"] = children
        timing = {"querytime": 0.001, "summaryfetchtime": 0.001, "searchtime": 0.002}
        self.send(200, ({"timing": timing} if body.get("presentation.timing") else {}) | {"root": root})

    def at_flaky(self, parts: list[str], params: dict[str, str], body: Any) -> None:
        """/flaky/NAME/STATUS/N: N times that status, then fine."""
        name, status, times = parts[0], int(parts[1]), int(parts[2])
        SEEN[name] = SEEN.get(name, 0) + 1
        if SEEN[name] <= times:
            self.send(status, {"error": "busy"}, {"Retry-After": "0"})
        else:
            self.send(200, {"ids": [id for id, _ in ranked(params["q"], int(params["k"]))]})

    def at_dropped(self, parts: list[str], params: dict[str, str], body: Any) -> None:
        """Closes the connection without a word, the first time."""
        SEEN[parts[0]] = SEEN.get(parts[0], 0) + 1
        if SEEN[parts[0]] == 1:
            self.close_connection = True
            return
        self.send(200, {"ids": ["d1"]})

    def at_html(self, parts: list[str], params: dict[str, str], body: Any) -> None:
        self.raw(200, b"<html><body>Welcome</body></html>", {"Content-Type": "text/html"})

    def at_half(self, parts: list[str], params: dict[str, str], body: Any) -> None:
        self.raw(200, b'{"ids": ["d1", "d', {"Content-Type": "application/json"})

    def at_slow(self, parts: list[str], params: dict[str, str], body: Any) -> None:
        SEEN["slow"] = SEEN.get("slow", 0) + 1
        time.sleep(float(parts[0]))
        self.send(200, {"ids": ["d1"]})

    def at_locked(self, parts: list[str], params: dict[str, str], body: Any) -> None:
        """Repeats what it was sent, as careless servers do."""
        told = {name: self.headers.get(name, "") for name in ("Authorization", "X-Api-Key")}
        allowed = "s3cret-key" in "".join(told.values()) or told["Authorization"] == "Basic dTpwOnc="  # u:p:w
        self.send(200 if allowed and not parts else 401, {"ids": ["d1"], "error": f"not allowed: {told}"})

    def at_moved(self, parts: list[str], params: dict[str, str], body: Any) -> None:
        self.send(301, {}, {"Location": "/elsewhere"})

    def at_echo(self, parts: list[str], params: dict[str, str], body: Any) -> None:
        """The request itself, as the id of its one result."""
        self.send(200, {"ids": [json.dumps({"method": self.command, "path": parts, "params": params, "body": body})]})

    def at_own(self, parts: list[str], params: dict[str, str], body: Any) -> None:
        """What the test says that the answer is."""
        self.send(200, body["answer"])

    def at_seen(self, parts: list[str], params: dict[str, str], body: Any) -> None:
        self.send(200, {"seen": SEEN, "connections": len(PEERS)})

    def at_nothing(self, parts: list[str], params: dict[str, str], body: Any) -> None:
        self.send(404, {"error": "index_not_found_exception"})

    def send(self, status: int, data: Any, headers: dict[str, str] | None = None) -> None:
        self.raw(status, json.dumps(data).encode(), {"Content-Type": "application/json", **(headers or {})})

    def raw(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None: ...


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        CORPUS.update(json.load(file))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()
