"""Any search engine that answers in JSON over HTTP: a request with places to fill, and paths to what it found."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from karat.errors import InputError, UsageError, missing_package, shown
from karat.retrieve.answer import Path, seen
from karat.retrieve.protocol import Base, Found, found_of
from karat.retrieve.registry import retriever
from karat.retrieve.request import fill, fill_url, places, read_json, variable_of, with_secrets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.retrieve.corpus import Corpus
    from karat.retrieve.protocol import Query

METHODS = ("GET", "POST", "PUT")
UNITS = {"ms": 1.0, "s": 1000.0}
LONGEST_PAUSE = 30.0
"""Seconds that are waited before another try, whatever the server asks for."""
_START = 200
"""Characters of an unexpected answer that an error shows."""
_LOGIN = re.compile(r"^(https?://)[^/@?#]*@")


@retriever(
    "http", tells="A search engine over HTTP that answers in JSON: OpenSearch, Elasticsearch, Solr, Vespa, your own."
)
class Http(Base):
    """Asks a search engine over HTTP, and takes ids and scores from its JSON by JSONPath.

    `body` is JSON (or text of it, or `@file`) with the places {query}, {k}, {language} and {field.NAME}; they
    may stand in `url` too. `total` is where the answer says how many it found, for engines that leave the list
    out when that is none. `took` is where it says how long it searched: that time is the stage `retrieve`, and
    the rest of the call `network`; as a mapping it names the times of several stages. The index is the engine's own.
    """

    def __init__(
        self,
        *,
        url: str = "",
        ids: str = "",
        scores: str | None = None,
        body: Any = None,
        method: str | None = None,
        headers: Any = None,
        key_env: str | None = None,
        login_env: str | None = None,
        total: str | None = None,
        took: Any = None,
        took_unit: str = "ms",
        stages: Any = None,
        timeout: float = 30,
        retries: int = 2,
        verify: bool | str = True,
    ) -> None:
        self.url = _checked_url(url)
        self.where = f"http {self.url}"
        if not ids:
            raise UsageError(f"{self.where}: ids is missing: where the ids are in the answer, such as ids=$.hits[*].id")
        self._body = None if body is None else read_json(body, "http: body")
        if "query" not in places(self.url) | places(self._body):
            raise UsageError(f"{self.where}: neither url nor body has {{query}}; every query would be asked the same")
        self.method = (method or ("GET" if body is None else "POST")).upper()
        if self.method not in METHODS:
            raise UsageError(f"{self.where}: method must be one of {', '.join(METHODS)}, found {method!r}")
        if took_unit not in UNITS:
            raise UsageError(f"{self.where}: took_unit must be ms or s, found {took_unit!r}")
        if not timeout > 0 or isinstance(retries, bool) or retries < 0:
            raise UsageError(
                f"{self.where}: timeout must be seconds above 0, and retries a number from 0, "
                f"found {timeout!r} and {retries!r}"
            )
        self.timeout, self.retries, self.verify, self._unit = float(timeout), int(retries), verify, UNITS[took_unit]
        self._headers, self._secrets = self._authorised(headers, key_env, login_env)
        self._ids = Path(ids, "ids")
        self._scores = Path(scores, "scores") if scores else None
        self._total = Path(total, "total") if total else None
        self._took = _paths({"retrieve": took} if isinstance(took, str) and took.startswith("$") else took, "took")
        self._stages = _paths(stages, "stages")
        self._library = _library()
        self._lock = threading.Lock()
        self._client: Any = None

    def index(self, corpus: Corpus) -> None:
        """Nothing: the engine has its own index."""

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Found]:
        """What the engine finds for each query, in the order in which it answers; at most k."""
        return [self._found(q, k) for q in queries]

    def close(self) -> None:
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _authorised(
        self, headers: Any, key_env: str | None, login_env: str | None
    ) -> tuple[dict[str, str], tuple[str, ...]]:
        given = {} if headers is None else read_json(headers, "http: headers")
        if not isinstance(given, Mapping):
            raise UsageError(f"{self.where}: headers must be a mapping of names to texts, found {shown(given)}")
        out, secrets = with_secrets(given, self.where)
        if key_env and login_env:
            raise UsageError(f"{self.where}: key_env and login_env are both given; expected one of them")
        self._login = None
        if key_env:
            secrets.append(variable_of(key_env, self.where))
            out["Authorization"] = f"Bearer {secrets[-1]}"
        if login_env:
            user, colon, password = variable_of(login_env, self.where).partition(":")
            if not colon:
                raise UsageError(f"{self.where}: environment variable {login_env} must hold user:password")
            self._login = (user, password)
            secrets.append(password)
        return out, tuple(s for s in secrets if s)

    def _found(self, query: Query, k: int) -> Found:
        where = f"{self.where}, query {getattr(query, 'id', '') or shown(str(query))}"
        url = fill_url(self.url, query, k)
        content = None if self._body is None else json.dumps(fill(self._body, query, k), default=str).encode()
        response, ms, tries = self._asked(url, content, where)
        if response.status_code // 100 != 2:
            raise InputError(f"{where}: HTTP {response.status_code}{self._hint(response)}: {self._start(response)}")
        try:
            data = response.json()
        except ValueError:
            kind = response.headers.get("content-type", "no content-type")
            raise InputError(
                f"{where}: the answer is no JSON ({kind}): {self._start(response)}; is this the address of the search?"
            ) from None
        found = self._read(data, where).cut(k)
        more = {"retries": tries} if tries else {}
        return Found(found.ids, found.scores, self._logged(data, where), self._times(data, ms, where), more=more)

    def _read(self, data: Any, where: str) -> Found:
        if self._total is not None and self._total.find_number(data, where) == 0:
            return Found([])
        ids = self._ids.find_results(data, where)
        if self._scores is None:
            return found_of(ids, f"{where}: ids={self._ids.path}")
        scores = self._scores.find(data)
        if len(ids) != len(scores):
            raise InputError(
                f"{where}: ids={self._ids.path} finds {len(ids)} and scores={self._scores.path} finds {len(scores)}; "
                f"expected one score for each id. The answer has {seen(data)}"
            )
        return found_of(list(zip(ids, scores, strict=True)), where)

    def _logged(self, data: Any, where: str) -> dict[str, Sequence[str]]:
        """The lists of stages; a stage that an answer lacks is not logged."""
        found = {name: path.find(data) for name, path in self._stages.items()}
        return {name: found_of(ids, f"{where}: stage {name}").ids for name, ids in found.items() if ids}

    def _times(self, data: Any, ms: float, where: str) -> dict[str, float]:
        """What the engine says it took, and the rest of the call; together the whole call."""
        if not self._took:
            return {"retrieve": ms}
        told = {name: path.find_number(data, where) * self._unit for name, path in self._took.items()}
        return told | {"network": max(ms - sum(told.values()), 0.0)}

    def _asked(self, url: str, content: bytes | None, where: str) -> tuple[Any, float, int]:
        """The answer, how long the try that brought it took, and how many were in vain.

        Slow answers are not asked for again: the time of a second try would be a lie about the first.
        """
        library = self._library
        for attempt in range(self.retries + 1):
            start = time.perf_counter()
            pause = min(0.2 * 2**attempt, LONGEST_PAUSE)
            try:
                response = self._connected().request(self.method, url, content=content)
            except (library.ReadTimeout, library.WriteTimeout, library.PoolTimeout):
                raise InputError(
                    f"{where}: no answer within {self.timeout:g} s; raise timeout=, or ask for less"
                ) from None
            except library.TransportError as error:
                if attempt == self.retries:
                    raise InputError(
                        f"{where}: cannot be reached ({self._clean(str(error)) or type(error).__name__}) in "
                        f"{attempt + 1} {'try' if attempt == 0 else 'tries'}; is it running, and is the address right?"
                    ) from None
            except (library.InvalidURL, library.HTTPError) as error:
                raise InputError(f"{where}: cannot be asked ({self._clean(str(error))})") from None
            else:
                ms = (time.perf_counter() - start) * 1000
                if attempt == self.retries or not (response.status_code == 429 or response.status_code >= 500):
                    return response, ms, attempt
                pause = _asked_pause(response.headers.get("retry-after"), pause)
            time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                headers = {"Accept": "application/json", **self._headers}
                if self._body is not None:
                    headers.setdefault("Content-Type", "application/json")
                self._client = self._library.Client(
                    headers=headers, auth=self._login, timeout=self.timeout, verify=_trust(self.verify)
                )
            return self._client

    def _start(self, response: Any) -> str:
        text = self._clean(response.text.strip())
        return shown(text, _START) if text else "an empty answer"

    def _clean(self, text: str) -> str:
        """A text without what must never be shown; servers like to repeat it."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def _hint(self, response: Any) -> str:
        status = response.status_code
        if status in (401, 403):
            return " (not allowed; check the key and its variable)"
        if status // 100 == 3:
            return f" (moved to {self._clean(response.headers.get('location', 'nowhere'))}; write that address)"
        return " (nothing is there; check the address)" if status == 404 else ""


def _checked_url(url: Any) -> str:
    if not isinstance(url, str) or not re.match(r"https?://[^/]", url):
        raise UsageError(f"http: url must be an address such as http://localhost:9200/docs/_search, found {shown(url)}")
    login = _LOGIN.match(url)
    if login:
        raise UsageError(
            f"http: the address {login[1]}…@{url[login.end() :]} holds a login; "
            "put user:password into a variable of the environment, and its name into login_env="
        )
    return url


def _paths(given: Any, name: str) -> dict[str, Path]:
    """Paths by the name of a stage."""
    held = read_json(given, f"http: {name}") if given is not None else {}
    if not isinstance(held, Mapping):
        raise UsageError(f"http: {name} must be a mapping of stages to JSONPaths, found {shown(held)}")
    return {str(stage): Path(path, f"{name}.{stage}") for stage, path in held.items()}


def _asked_pause(told: str | None, pause: float) -> float:
    """The seconds that the server asks for, within reason; dates are not read."""
    return min(float(told), LONGEST_PAUSE) if told and re.fullmatch(r"\d+(\.\d+)?", told) else pause


def _trust(verify: bool | str) -> Any:
    """Which certificates are trusted: the usual ones, none, or those of a file."""
    if isinstance(verify, bool):
        return verify
    import ssl

    try:
        return ssl.create_default_context(cafile=verify)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"http: verify={verify} is no file of certificates ({error})") from None


def _library() -> Any:
    try:
        import httpx
    except ImportError:
        raise missing_package("http", "httpx", "jsonpath") from None
    return httpx
