"""Any search engine that answers in JSON over HTTP: a request with placeholders, and paths to its results."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from karat.errors import InputError, UsageError, shown
from karat.retrieve.client import Client, RetryPolicy, require_httpx
from karat.retrieve.json_path import JsonPath, describe
from karat.retrieve.protocol import Answer, Base, name_query, read_answer
from karat.retrieve.registry import retriever
from karat.retrieve.request import fill, fill_url, places, read_json
from karat.retrieve.secrets import expand, expand_url, refuse_written_out, variable_of, with_secrets, without_query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.retrieve.client import Reply
    from karat.retrieve.corpus import Corpus
    from karat.retrieve.protocol import Query

METHODS = ("GET", "POST", "PUT")
UNITS = {"ms": 1.0, "s": 1000.0}
_LOGIN = re.compile(r"^(https?://)[^/@?#]*@")


@retriever(
    "http", tells="A search engine over HTTP that answers in JSON: OpenSearch, Elasticsearch, Solr, Vespa, your own."
)
class Http(Base):
    """Asks a search engine over HTTP, and takes ids and scores from its JSON by JSONPath.

    `body` is JSON (or text of it, or `@file`) with the places {query}, {k}, {language} and {field.NAME}; they
    may stand in `url` too. `total` is the path to the number of results, for engines that leave the list
    out if there are none. `took` is the path to the engine's own time: that is the stage `retrieve`, and the
    rest of the call `network`; as a mapping it names the times of several stages. The index is the engine's own.
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
        require_httpx("http", "jsonpath")
        self.url = _check_url(url)
        refuse_written_out(self.url, None, f"http {without_query(self.url)}")  # before anything shows the address
        self.where = f"http {self.url}"
        if not ids:
            raise UsageError(
                f"{self.where}: ids is missing; name the path to the ids in the answer, for example ids=$.hits[*].id"
            )
        self._body = None if body is None else read_json(body, "http: body")
        refuse_written_out(self.url, self._body, self.where)
        if "query" not in places(self.url) | places(self._body):
            raise UsageError(f"{self.where}: neither url nor body has {{query}}, so all requests would be the same")
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
        self._unit = UNITS[took_unit]
        self._client = self._make_client(
            read_json(headers, "http: headers") if headers is not None else {},
            key_env,
            login_env,
            timeout=float(timeout),
            retry=RetryPolicy(int(retries) + 1),
            verify=verify,
        )
        self._ids = JsonPath(ids, "ids")
        self._scores = JsonPath(scores, "scores") if scores else None
        self._total = JsonPath(total, "total") if total else None
        self._took = _paths({"retrieve": took} if isinstance(took, str) and took.startswith("$") else took, "took")
        self._stages = _paths(stages, "stages")

    def index(self, corpus: Corpus) -> None:
        """Nothing: the engine has its own index."""

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Answer]:
        """The engine's results for each query, in its order; at most k."""
        return [self._ask(q, k) for q in queries]

    def close(self) -> None:
        self._client.close()

    def _make_client(self, headers: Any, key_env: str | None, login_env: str | None, **options: Any) -> Client:
        if not isinstance(headers, Mapping):
            raise UsageError(f"{self.where}: headers must be a mapping of names to texts, found {shown(headers)}")
        out, secrets = with_secrets(headers, self.where)
        self._full_url, of_url = expand_url(self.url, self.where)
        self._body, of_body = expand(self._body, self.where)
        secrets += of_url + of_body
        if key_env and login_env:
            raise UsageError(f"{self.where}: key_env and login_env are both given; expected one of them")
        login = None
        if key_env:
            secrets.append(variable_of(key_env, self.where))
            out["Authorization"] = f"Bearer {secrets[-1]}"
        if login_env:
            user, colon, password = variable_of(login_env, self.where).partition(":")
            if not colon:
                raise UsageError(f"{self.where}: environment variable {login_env} must hold user:password")
            login = (user, password)
            secrets += [password, f"{user}:{password}"]
        out = {"Accept": "application/json", **out}
        if self._body is not None:
            out.setdefault("Content-Type", "application/json")
        return Client(headers=out, login=login, secrets=tuple(filter(None, secrets)), **options)

    def _ask(self, query: Query, k: int) -> Answer:
        where = f"{self.where}, {name_query(query)}"
        url = fill_url(self._full_url, query, k)
        content = None if self._body is None else json.dumps(fill(self._body, query, k), default=str).encode()
        reply = self._client.send(self.method, url, where, content=content)
        if not reply.ok:
            raise InputError(f"{where}: HTTP {reply.status}{self._hint(reply)}: {self._client.excerpt(reply)}")
        data = self._client.read_json(reply, where, "is this the address of the search?")
        answer = self._read(data, where).cut(k)
        more = {"retries": reply.failures} if reply.failures else {}
        return Answer(
            answer.ids, answer.scores, self._read_stages(data, where), self._times(data, reply.ms, where), more=more
        )

    def _read(self, data: Any, where: str) -> Answer:
        if self._total is not None and self._total.find_number(data, where) == 0:
            return Answer([])
        ids = self._ids.find_results(data, where)
        if self._scores is None:
            return read_answer(ids, f"{where}: ids={self._ids.path}")
        scores = self._scores.find(data)
        if len(ids) != len(scores):
            raise InputError(
                f"{where}: ids={self._ids.path} finds {len(ids)} and scores={self._scores.path} finds {len(scores)}; "
                f"expected one score for each id. The answer has {describe(data)}"
            )
        return read_answer(list(zip(ids, scores, strict=True)), where)

    def _read_stages(self, data: Any, where: str) -> dict[str, Sequence[str]]:
        """The lists of stages; a stage that an answer lacks is not logged."""
        lists = {name: path.find(data) for name, path in self._stages.items()}
        return {name: read_answer(ids, f"{where}: stage {name}").ids for name, ids in lists.items() if ids}

    def _times(self, data: Any, ms: float, where: str) -> dict[str, float]:
        """The engine's own times and the rest of the call, which add up to the whole call."""
        if not self._took:
            return {"retrieve": ms}
        stages = {name: path.find_number(data, where) * self._unit for name, path in self._took.items()}
        return stages | {"network": max(ms - sum(stages.values()), 0.0)}

    def _hint(self, reply: Reply) -> str:
        if reply.status in (401, 403):
            return " (not allowed; check the key and its variable)"
        if reply.status // 100 == 3:
            location = self._client.conceal(reply.response.headers.get("location", "nowhere"))
            return f" (moved to {location}; use that address)"
        return " (not found; check the address)" if reply.status == 404 else ""


def _check_url(url: Any) -> str:
    if not isinstance(url, str) or not re.match(r"https?://[^/]", url):
        raise UsageError(f"http: url must be an address such as http://localhost:9200/docs/_search, found {shown(url)}")
    login = _LOGIN.match(url)
    if login:
        raise UsageError(
            f"http: the address {login[1]}…@{url[login.end() :]} holds a login; "
            "put user:password into an environment variable and its name into login_env="
        )
    return url


def _paths(source: Any, name: str) -> dict[str, JsonPath]:
    """Paths by the name of a stage."""
    paths = read_json(source, f"http: {name}") if source is not None else {}
    if not isinstance(paths, Mapping):
        raise UsageError(f"http: {name} must be a mapping of stages to JSONPaths, found {shown(paths)}")
    return {str(stage): JsonPath(path, f"{name}.{stage}") for stage, path in paths.items()}
