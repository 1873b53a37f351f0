"""Vectors from an OpenAI-compatible embeddings endpoint, hosted or your own."""

from __future__ import annotations

import json
import os
import re
import threading
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict
from urllib.parse import urlsplit

import numpy as np

from karat.errors import InputError, UsageError, shown
from karat.retrieve.client import Client, RetryPolicy, may_pass, require_httpx
from karat.retrieve.encoders import OPENAI, unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.model.json_data import JsonObject
    from karat.retrieve.client import Reply
    from karat.retrieve.encoders import Kind, Matrix

HOSTED = "https://api.openai.com/v1"
BASE_ENV, KEY_ENV = "OPENAI_BASE_URL", "OPENAI_API_KEY"
RETRY = RetryPolicy(attempts=6, pause=0.5, longest=60.0, timeouts=True)
_ADVICE = "is it an OpenAI-compatible endpoint?"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class EmbeddingRequest(TypedDict):
    """What the endpoint is sent."""

    model: str
    input: list[str]
    dimensions: NotRequired[int]


class Endpoint:
    """A client of POST {base_url}/embeddings.

    The key comes from the environment and goes nowhere but into the request's header.
    """

    def __init__(
        self,
        model: str,
        *,
        dims: int | None = None,
        base_url: str | None = None,
        key_env: str | None = None,
        batch: int = 64,
        timeout: float = 60.0,
    ) -> None:
        if not model:
            raise UsageError(
                f"dense: expected {OPENAI}MODEL, for example {OPENAI}text-embedding-3-small, found no model"
            )
        require_httpx(f"dense(model={OPENAI}{model})")
        if not timeout > 0:
            raise UsageError(f"dense: timeout must be a number of seconds above 0, found {timeout!r}")
        self.base_url = choose_base_url(base_url, "dense: base_url")
        self.model, self.dims, self.batch = model, dims, batch
        self._key_env = key_env or KEY_ENV
        self._key = read_key(self._key_env, "dense: key_env", required=key_env is not None or self.base_url == HOSTED)
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self._key}"} if self._key else {})
        secrets = (self._key,) if self._key else ()
        self._client = Client(timeout=timeout, retry=RETRY, headers=headers, secrets=secrets)
        self._usage = threading.local()

    @property
    def name(self) -> str:
        return f"{OPENAI}{self.model}" + (f" {self.dims}" if self.dims else "")

    @property
    def identity(self) -> Any:
        return ["openai", self.base_url, self.model, self.dims]

    @property
    def tokens(self) -> int | None:
        count: int | None = getattr(self._usage, "tokens", None)
        return count

    def encode(self, texts: Sequence[str], kind: Kind) -> Matrix:
        parts = []
        for start in range(0, len(texts), self.batch):
            parts.append(self._encode_batch(list(texts[start : start + self.batch])))
            if parts[-1].shape[1] != parts[0].shape[1]:
                raise self._wrong(
                    f"vectors of {parts[0].shape[1]} and then of {parts[-1].shape[1]} numbers", "one length"
                )
        return np.concatenate(parts) if parts else np.zeros((0, 0), dtype=np.float32)

    def close(self) -> None:
        self._client.close()

    def _encode_batch(self, texts: list[str]) -> Matrix:
        body: EmbeddingRequest = {"model": self.model, "input": texts}
        if self.dims:
            body["dimensions"] = self.dims
        answer = self._post(body)
        items = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(items, list) or not all(isinstance(i, dict) and "embedding" in i for i in items):
            raise self._wrong(
                shown(self._client.conceal(str(answer))), 'an object with "data", a list of objects with "embedding"'
            )
        if len(items) != len(texts):
            raise self._wrong(f"{len(items)} vectors", f"{len(texts)}, one for each text")
        places = [item.get("index", i) for i, item in enumerate(items)]
        if not all(isinstance(p, int) for p in places) or sorted(places) != list(range(len(texts))):
            raise self._wrong(
                f"index {shown(self._client.conceal(str(places)))}", f"each of 0 to {len(texts) - 1} once"
            )
        vectors: list[Any] = [None] * len(texts)
        for place, item in zip(places, items, strict=True):
            vectors[place] = item["embedding"]
        self._count(answer)
        return unit(vectors, len(texts), self._where)

    def _count(self, answer: JsonObject) -> None:
        usage = answer.get("usage")
        count = usage.get("total_tokens", usage.get("prompt_tokens")) if isinstance(usage, dict) else None
        if isinstance(count, int) and count >= 0:
            self._usage.tokens = (self.tokens or 0) + count

    def _post(self, body: EmbeddingRequest) -> Any:
        """The answer to one request."""
        reply = self._client.send("POST", self._where, self._where, content=json.dumps(body).encode())
        if reply.ok:
            return self._client.read_json(reply, self._where, _ADVICE)
        problem = explain_status(reply, self._client, self.model, self._key_env, has_key=bool(self._key))
        if may_pass(reply.status):
            problem += (
                f" (gave up after {reply.failures + 1} attempts); what was encoded so far is kept: "
                "run the same command to resume"
            )
        raise InputError(f"{self._where}: {problem}")

    @property
    def _where(self) -> str:
        return f"{self.base_url}/embeddings"

    def _wrong(self, content: str, expected: str) -> InputError:
        return InputError(f"{self._where}: expected {expected}, found {content}; {_ADVICE}")


def explain_status(reply: Reply, client: Client, model: str, key_env: str, *, has_key: bool) -> str:
    """What a status means; a server's own words are left out where they could repeat the key."""
    if reply.status in (401, 403):
        cause = f"the key in {key_env} was refused" if has_key else f"a key is needed; set {key_env}"
        return f"status {reply.status}: {cause}"
    if reply.status == 404:
        return f"status 404: expected an endpoint at that address, and a model named {shown(model)} there"
    if 300 <= reply.status < 400:
        return f"status {reply.status}: redirects elsewhere; name the final address as base_url"
    return f"status {reply.status}: {client.excerpt(reply)}"


def choose_base_url(url: str | None, name: str) -> str:
    """The base address of an endpoint, named or from the environment; one that holds a secret is refused, unshown."""
    name = name if url else BASE_ENV
    url = url or os.environ.get(BASE_ENV) or HOSTED
    try:
        parts = urlsplit(url)
        holds = parts.username or parts.password or parts.query or parts.fragment
        _ = parts.port  # raises if the port is not a number
    except ValueError:
        raise UsageError(f"{name} must be an address such as {HOSTED}") from None
    if holds:
        raise UsageError(
            f"{name} must be a plain address such as {HOSTED}, without user, password or parameters; "
            "put the key in an environment variable and name that in key_env"
        )
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UsageError(f"{name} must be an address such as {HOSTED}, found {shown(url)}")
    return url.rstrip("/")


def read_key(env: str, name: str, *, required: bool) -> str:
    """The key in an environment variable; empty if there is none and none is required."""
    if not _NAME.fullmatch(env):  # perhaps the key itself: not shown
        raise UsageError(f"{name} must be the name of an environment variable, not the key itself")
    key = os.environ.get(env, "").strip()
    if not key and required:
        raise UsageError(f"{name}: the endpoint needs a key; set the environment variable {env}, or name another")
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"{name}: the key in {env} has characters that no key can have; set it again")
    return key
