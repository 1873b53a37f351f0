"""One HTTP client for search engines and model endpoints: retries, pauses, and errors that show no secrets."""

from __future__ import annotations

import json
import random
import threading
import time
from dataclasses import field
from typing import TYPE_CHECKING, Any

from karat.errors import InputError, UsageError, missing_package, shown
from karat.model.limits import ANSWER
from karat.records import dataclass
from karat.retrieve.secrets import conceal, spellings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import httpx

RETRY_STATUSES = (408, 409, 425, 429)
"""Statuses, besides those from 500, after which another attempt makes sense."""
EXCERPT = 200
"""Characters of an unexpected response that an error shows."""


class Unreachable(InputError):
    """A server that gives no reply, however often it is asked."""


@dataclass(frozen=True)
class RetryPolicy:
    """How often to try, and how long to pause: a random time up to `pause`, doubled with every attempt.

    Random pauses ("full jitter") keep clients that failed together from coming back together. A server that
    names a time with Retry-After is given that time, up to `longest`.
    """

    attempts: int = 3
    pause: float = 0.2
    longest: float = 30.0
    timeouts: bool = False
    """Whether a response that takes too long is requested again; its latency would then mean nothing."""

    def wait(self, attempt: int, retry_after: str | None = None) -> float:
        """Seconds to pause after an attempt; the first is 0."""
        seconds = read_retry_after(retry_after)
        if seconds is not None:
            return min(seconds, self.longest)
        return random.uniform(0, min(self.pause * 2**attempt, self.longest))


@dataclass(frozen=True)
class Reply:
    """The response of the last attempt, its milliseconds, and how many attempts failed before it."""

    response: httpx.Response
    ms: float
    failures: int

    @property
    def status(self) -> int:
        return self.response.status_code

    @property
    def ok(self) -> bool:
        return self.status // 100 == 2


@dataclass
class Client:
    """Sends requests to one server; connects at the first one, from whichever thread it comes."""

    timeout: float
    retry: RetryPolicy = RetryPolicy()
    headers: Mapping[str, str] = field(default_factory=dict)
    login: tuple[str, str] | None = None
    verify: bool | str = True
    secrets: tuple[str, ...] = ()
    """Texts that no error may show: servers like to repeat them."""
    sleep: Callable[[float], object] | None = None
    """How to pause, for somebody who may have to stop in between."""

    def __post_init__(self) -> None:
        self._hidden = spellings(self.secrets)
        self._lock = threading.Lock()
        self._session: httpx.Client | None = None
        self._closed_until = 0.0

    def send(
        self,
        method: str,
        url: str,
        where: str,
        *,
        content: bytes | None = None,
        before: Callable[[], None] | None = None,
    ) -> Reply:
        """The reply, whatever its status; `where` begins the error if none comes.

        `before` is called ahead of every attempt, and ends the attempts if it raises.
        """
        import httpx

        last = self.retry.attempts - 1
        for attempt in range(self.retry.attempts):
            retry_after = None
            if attempt == 0:
                self._pause(self._closed_until - time.monotonic())
            if before is not None:
                before()
            start = time.perf_counter()
            try:
                response = self._fetch(method, url, content, where)
            except httpx.TimeoutException as error:
                if isinstance(error, httpx.ConnectTimeout):
                    problem, repeat = f"cannot be reached within {self.timeout:g} s", True
                else:
                    problem, repeat = f"no answer within {self.timeout:g} s", self.retry.timeouts
                if attempt == last or not repeat:
                    raise Unreachable(f"{where}: {problem}{_count(attempt)}; raise timeout=, or ask for less") from None
            except httpx.TransportError as error:
                if attempt == last:
                    raise Unreachable(
                        f"{where}: cannot be reached ({self.conceal(str(error)) or type(error).__name__})"
                        f"{_count(attempt)}; is it running, and is the address right?"
                    ) from None
            except (httpx.InvalidURL, httpx.HTTPError) as error:
                raise InputError(f"{where}: the request cannot be sent ({self.conceal(str(error))})") from None
            else:
                ms = (time.perf_counter() - start) * 1000
                if attempt == last or not may_pass(response.status_code):
                    return Reply(response, ms, attempt)
                retry_after = response.headers.get("retry-after")
            seconds = self.retry.wait(attempt, retry_after)
            if retry_after is not None:  # meant for all that is sent there, from whichever thread
                self._closed_until = max(self._closed_until, time.monotonic() + seconds)
            self._pause(max(seconds, self._closed_until - time.monotonic()))
        raise AssertionError("the last attempt returns or raises")

    def _pause(self, seconds: float) -> None:
        if seconds > 0:
            (self.sleep or time.sleep)(seconds)

    def read_json(self, reply: Reply, where: str, advice: str) -> Any:
        """The JSON of a reply."""
        try:
            return json.loads(self.conceal(reply.response.text))
        except (ValueError, RecursionError):
            kind = reply.response.headers.get("content-type", "no content-type")
            raise InputError(f"{where}: the answer is not JSON ({kind}): {self.excerpt(reply)}; {advice}") from None

    def excerpt(self, reply: Reply) -> str:
        """The beginning of a reply, for an error."""
        text = self.conceal(reply.response.text.strip())
        return shown(text, EXCERPT) if text else "an empty answer"

    def conceal(self, text: str) -> str:
        """A text without the secrets, however they are spelled in it."""
        return conceal(text, self._hidden)

    def _fetch(self, method: str, url: str, content: bytes | None, where: str) -> httpx.Response:
        """A whole response. The time limit is for all of it, and not for each of its pieces."""
        import httpx

        end, size, pieces, most = time.monotonic() + self.timeout, 0, [], ANSWER.value
        with self._connect().stream(method, url, content=content) as response:
            for piece in response.iter_bytes():
                size += len(piece)
                pieces.append(piece)
                if size > most:
                    raise InputError(
                        f"{where}: the answer is larger than {ANSWER.text}; ask for less, or {ANSWER.advice}"
                    )
                if time.monotonic() > end:
                    raise httpx.ReadTimeout("the answer came too slowly")
        headers = [(k, v) for k, v in response.headers.items() if k not in ("content-encoding", "content-length")]
        return httpx.Response(response.status_code, headers=headers, content=b"".join(pieces), request=response.request)

    def close(self) -> None:
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            session.close()

    def _connect(self) -> httpx.Client:
        import httpx

        with self._lock:
            if self._session is None:
                self._session = httpx.Client(
                    headers=dict(self.headers), auth=self.login, timeout=self.timeout, verify=_trust(self.verify)
                )
            return self._session


def may_pass(status: int) -> bool:
    """Whether a status may be another one at the next attempt."""
    return status in RETRY_STATUSES or status >= 500


def read_retry_after(header: str | None) -> float | None:
    """The seconds that a server asks to wait, as a number or a date; None if it names no time to come."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        from email.utils import parsedate_to_datetime

        try:
            seconds = parsedate_to_datetime(header).timestamp() - time.time()
        except ValueError:
            return None
    return seconds if 0 < seconds < float("inf") else None


def require_httpx(what: str, *others: str) -> None:
    """Raise if httpx, or another module, is not installed."""
    from importlib.util import find_spec

    if not all(find_spec(module) for module in ("httpx", *others)):
        raise missing_package(what, "httpx", *others)


def _count(attempt: int) -> str:
    return f" in {attempt + 1} attempts" if attempt else ""


def _trust(verify: bool | str) -> Any:
    """Which certificates are trusted: the usual ones, none, or those of a file."""
    if isinstance(verify, bool):
        return verify
    import ssl

    try:
        return ssl.create_default_context(cafile=verify)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"http: verify={verify} is not a file of certificates ({error})") from None
