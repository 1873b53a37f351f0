"""What endpoints for tests have in common: they say at GET what they were asked."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any

SEEN: list[dict[str, Any]] = []


class Endpoint(BaseHTTPRequestHandler):
    disable_nagle_algorithm = True  # a body that follows its headers would wait 40 ms
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def reply(self, status: int, body: str, **headers: str) -> None:
        data = body.encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.reply(200, json.dumps(SEEN))
