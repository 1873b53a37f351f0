"""Vectors from an OpenAI-compatible embeddings endpoint, hosted or your own."""

from __future__ import annotations

import os
import re
import threading
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from karat.errors import InputError, UsageError, missing_package, shown
from karat.retrieve.encoders import OPENAI, Once, unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.retrieve.encoders import Kind, Matrix

HOSTED = "https://api.openai.com/v1"
BASE_ENV, KEY_ENV = "OPENAI_BASE_URL", "OPENAI_API_KEY"
ATTEMPTS = 6
PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""Seconds before the second attempt, doubled each time; a server that names a time is heard, up to the longest."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LATER = (408, 409, 425, 429)
"""Statuses, beside those from 500, that ask to try again."""


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
            raise UsageError(f"dense: expected {OPENAI}MODEL, such as {OPENAI}text-embedding-3-small, found no model")
        if find_spec("httpx") is None:
            raise missing_package(f"dense(model={OPENAI}{model})", "httpx")
        if not timeout > 0:
            raise UsageError(f"dense: timeout must be a number of seconds above 0, found {timeout!r}")
        self.base_url = _checked_url(
            base_url or os.environ.get(BASE_ENV) or HOSTED, "base_url" if base_url else BASE_ENV
        )
        self.model, self.dims, self.batch, self.timeout = model, dims, batch, timeout
        self._key_env = key_env or KEY_ENV
        self._key = _checked_key(self._key_env, needed=key_env is not None or self.base_url == HOSTED)
        self._client = Once(self._connected)
        self._spent = threading.local()

    @property
    def name(self) -> str:
        return f"{OPENAI}{self.model}" + (f" {self.dims}" if self.dims else "")

    @property
    def identity(self) -> Any:
        return ["openai", self.base_url, self.model, self.dims]

    @property
    def tokens(self) -> int | None:
        found: int | None = getattr(self._spent, "tokens", None)
        return found

    def encode(self, texts: Sequence[str], kind: Kind) -> Matrix:
        parts = []
        for start in range(0, len(texts), self.batch):
            parts.append(self._encoded(list(texts[start : start + self.batch])))
            if parts[-1].shape[1] != parts[0].shape[1]:
                raise self._wrong(
                    f"vectors of {parts[0].shape[1]} and then of {parts[-1].shape[1]} numbers", "one length"
                )
        return np.concatenate(parts) if parts else np.zeros((0, 0), dtype=np.float32)

    def close(self) -> None:
        self._client().close()
        self._client = Once(self._connected)

    def _connected(self) -> Any:
        import httpx

        return httpx.Client(timeout=self.timeout)

    def _encoded(self, texts: list[str]) -> Matrix:
        body: dict[str, Any] = {"model": self.model, "input": texts}
        if self.dims:
            body["dimensions"] = self.dims
        answer = self._asked(body)
        items = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(items, list) or not all(isinstance(i, dict) and "embedding" in i for i in items):
            raise self._wrong(
                shown(self._safe(str(answer))), 'an object with "data", a list of objects with "embedding"'
            )
        if len(items) != len(texts):
            raise self._wrong(f"{len(items)} vectors", f"{len(texts)}, one for each text")
        places = [item.get("index", i) for i, item in enumerate(items)]
        if not all(isinstance(p, int) for p in places) or sorted(places) != list(range(len(texts))):
            raise self._wrong(f"index {shown(self._safe(str(places)))}", f"each of 0 to {len(texts) - 1} once")
        ordered: list[Any] = [None] * len(texts)
        for place, item in zip(places, items, strict=True):
            ordered[place] = item["embedding"]
        self._count(answer)
        return unit(ordered, len(texts), self._where)

    def _count(self, answer: dict[str, Any]) -> None:
        usage = answer.get("usage")
        used = usage.get("total_tokens", usage.get("prompt_tokens")) if isinstance(usage, dict) else None
        if isinstance(used, int) and used >= 0:
            self._spent.tokens = (self.tokens or 0) + used

    def _asked(self, body: dict[str, Any]) -> Any:
        """The answer to one request; what may pass is tried again."""
        import httpx

        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        pause, problem = PAUSE, ""
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            try:
                response = self._client().post(f"{self.base_url}/embeddings", json=body, headers=headers)
            except httpx.TimeoutException:
                problem = f"no answer within {self.timeout:g} s"
                continue
            except httpx.HTTPError as error:
                problem = self._safe(f"{type(error).__name__}: {error}")
                continue
            if response.status_code == 200:
                try:
                    return response.json()
                except ValueError:
                    raise self._wrong(shown(self._safe(response.text)), "JSON") from None
            problem = self._told(response)
            if response.status_code not in _LATER and response.status_code < 500:
                raise InputError(f"{self._where}: {problem}")
            pause = _named_pause(response.headers.get("retry-after")) or pause
        raise InputError(
            f"{self._where}: gave up after {ATTEMPTS} attempts, the last with: {problem}; "
            "what was encoded so far is kept, so that the same command goes on from there"
        )

    def _told(self, response: Any) -> str:
        """What a status means; a server's own words are left out where they could repeat the key."""
        status = response.status_code
        if status in (401, 403):
            found = (
                f"the key in {self._key_env} was refused" if self._key else f"a key is asked for; set {self._key_env}"
            )
            return f"status {status}: {found}"
        if status == 404:
            return f"status 404: expected an endpoint at that address, and a model named {shown(self.model)} there"
        if 300 <= status < 400:
            return f"status {status}: leads elsewhere; name the final address as base_url"
        return f"status {status}: {shown(self._safe(response.text), 200)}"

    @property
    def _where(self) -> str:
        return f"{self.base_url}/embeddings"

    def _wrong(self, found: str, expected: str) -> InputError:
        return InputError(f"{self._where}: expected {expected}, found {found}; is it an OpenAI-compatible endpoint?")

    def _safe(self, text: str) -> str:
        return text.replace(self._key, "…") if self._key else text


def _checked_url(url: str, name: str) -> str:
    """A base address without its last slash; one that holds a secret is refused, unshown."""
    try:
        parts = urlsplit(url)
        holds = parts.username or parts.password or parts.query or parts.fragment
        _ = parts.port  # a port that is no number is found when asked for
    except ValueError:
        raise UsageError(f"dense: {name} must be an address such as {HOSTED}") from None
    if holds:
        raise UsageError(
            f"dense: {name} must be a plain address such as {HOSTED}, without user, password or parameters; "
            "put the key in an environment variable and name that in key_env"
        )
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UsageError(f"dense: {name} must be an address such as {HOSTED}, found {shown(url)}")
    return url.rstrip("/")


def _checked_key(env: str, needed: bool) -> str:
    if not _NAME.fullmatch(env):  # perhaps the key itself: not shown
        raise UsageError("dense: key_env must be the name of an environment variable, not the key itself")
    key = os.environ.get(env, "").strip()
    if not key and needed:
        raise UsageError(
            f"dense: the endpoint needs a key; set the environment variable {env}, or name another in key_env"
        )
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"dense: the key in {env} has characters that no key can have; set it anew")
    return key


def _named_pause(header: str | None) -> float | None:
    """The seconds that a server asks to wait, where it gives a number."""
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return min(seconds, LONGEST_PAUSE) if seconds > 0 else None
