"""Search engines over HTTP: a server in a process of its own, and the examples of docs/retrievers.md."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import pytest
from ruamel.yaml import YAML

from karat.errors import InputError, MissingPackage, UsageError
from karat.retrieve import Corpus, Query, make_retriever
from karat.retrieve.request import fill, fill_url
from karat.retrieve.spec import parse_spec
from places import ROOT, SUPPORT

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = (ROOT / "docs" / "retrievers.md").read_text("utf-8")
CORPUS = {
    "d1": "solar panels on the roof",
    "d2": "wind turbines and solar panels in the north",
    "d3": "the price of solar power",
    "d4": "recipes for bread",
    "d5": "bread and wind",
}
# How many words of "solar panels wind" each holds: d2 all 3, d1 two, d5 and d3 one; equal ones fall by id.
BEST = ["d2", "d1", "d5", "d3"]
SCORES = [3.0, 2.0, 1.0, 1.0]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    corpus = tmp_path_factory.mktemp("engines") / "corpus.json"
    corpus.write_text(json.dumps(CORPUS))
    process = subprocess.Popen(
        [sys.executable, str(SUPPORT / "engines.py"), str(corpus)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    port = process.stdout.readline().strip()
    assert port, "the server did not start"
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait()
    process.stdout.close()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def http(server: str) -> Iterator[Any]:
    """Makes retrievers of the server, and closes them."""
    made = []

    def make(path: str, **params: Any) -> Any:
        made.append(make_retriever({"kind": "http", "url": server + path, "retries": 0, "ids": "$.ids", **params}))
        return made[-1]

    yield make
    for retriever in made:
        retriever.close()


def own(answer: Any) -> dict[str, Any]:
    """A body to which the server answers just that."""
    return {"answer": answer, "query": "{query}"}


def example(name: str, language: str) -> str:
    """A code block of the page, by heading and language."""
    section = re.search(rf"(?ms)^### {name}$.*?(?=^##|\Z)", PAGE)
    assert section is not None
    found = re.search(rf"(?ms)^```{language}\n(.*?)^```$", section[0])
    assert found is not None
    return found[1]


def at(server: str, held: Any) -> Any:
    """A spec as it is, but at the server of the tests."""
    spec = parse_spec(held)
    url = re.sub(r"^http://localhost:\d+", server, spec.params["url"])
    assert url != spec.params["url"]
    return {"kind": spec.kind, "name": spec.label, **spec.params, "url": url}


# What the engines of the mock say they took: Elasticsearch 3 ms, Solr 2 ms, Vespa 0.002 s.
ENGINES = [("OpenSearch", 3.0), ("Elasticsearch", 3.0), ("Solr", 2.0), ("Vespa", 2.0)]


@pytest.mark.parametrize("form", ["yaml", "text"])
@pytest.mark.parametrize(("engine", "took"), ENGINES)
def test_the_examples_of_the_page_work(
    engine: str, took: float, form: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if form == "yaml":
        (held,) = YAML(typ="safe").load(example(engine, "yaml"))["bench"]["retrievers"]
    else:
        held = example(engine, "text").strip()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "search.json").write_text(example("Elasticsearch", "json"))
    retriever = make_retriever(at(server, held))
    assert retriever.name == engine.lower()
    assert retriever.index(Corpus(["d1"], ["…"])) is None
    first, marks, nothing = retriever.retrieve(
        [Query("solar panels wind"), Query('"solar" (wind)? a:b & c'), Query("zzz")], 3
    )
    retriever.close()
    assert (list(first.ids), list(first.scores)) == (BEST[:3], SCORES[:3])
    assert first.latency_ms["retrieve"] == took
    assert first.latency_ms["network"] >= 0
    assert marks.ids == []  # the words of the mock hold no marks; it is a fair request all the same
    assert nothing.ids == []


def test_yaml_and_text_of_an_engine_are_the_same_request() -> None:
    for engine, _ in ENGINES:
        (held,) = YAML(typ="safe").load(example(engine, "yaml"))["bench"]["retrievers"]
        text = parse_spec(example(engine, "text").strip())
        params = dict(text.params)
        if "body" in params:
            body = params["body"] if not params["body"].startswith("@") else example(engine, "json")
            params["body"] = json.loads(body)
        assert {"kind": text.kind, "name": text.label, **params} == held


def test_every_yaml_block_of_the_page_names_kinds_and_parameters_that_exist() -> None:
    from karat.retrieve import all_kinds

    blocks = re.findall(r"(?ms)^```yaml\n(.*?)^```$", PAGE)
    assert len(blocks) == 8
    for block in blocks:
        for held in YAML(typ="safe").load(block)["bench"]["retrievers"]:
            assert set(held) - {"kind", "name"} <= set(all_kinds()[held["kind"]].params)


def test_every_parameter_of_http_is_on_the_page() -> None:
    from karat.retrieve import all_kinds

    table = PAGE.split("## Search engines over HTTP")[1].split("### OpenSearch")[0]
    for name in all_kinds()["http"].params:
        assert f"`{name}`" in table


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$.hits[*].id", "$.hits[*].id"),
        ("$.h[?(@.s > 1)]['a, b'].id", "$.h[?(@.s > 1)]['a, b'].id"),
        ('{"a": [1, 2], "b": "x) ] }", "c": "\\" ,"}', '{"a": [1, 2], "b": "x) ] }", "c": "\\" ,"}'),
        ("[1, $.a[0], x]", [1, "$.a[0]", "x"]),
    ],
)
def test_paths_and_json_need_no_quotes(text: str, value: Any) -> None:
    spec = parse_spec(f"http(url=u, ids={text}, took=$.t)")
    assert spec.params == {"url": "u", "ids": value, "took": "$.t"}


def test_a_structure_prints_as_it_can_be_written() -> None:
    body = {"q": "{query}", "n": ["{k}", "a, b"], "e": "ä"}
    printed = str(parse_spec({"kind": "http", "url": "u", "body": body}))
    assert printed == 'http(body={"q": "{query}", "n": ["{k}", "a, b"], "e": "ä"}, url=u)'
    assert json.loads(parse_spec(printed).params["body"]) == body


def test_knowing_the_kinds_loads_none_of_their_packages() -> None:
    code = (
        "import sys; from karat.retrieve import all_kinds; print(sorted(all_kinds()))\n"
        "names = 'httpx jsonpath langchain_core llama_index qdrant_client psycopg pgvector'.split()\n"
        "print([n for n in names if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    kinds, loaded = done.stdout.splitlines()
    assert {"http", "langchain", "llamaindex", "pgvector", "qdrant"} <= set(re.findall(r"\w+", kinds))
    assert loaded == "[]"


NASTY = 'a&k=9#x?y=1/z+100% he said "no", \\ {k} ${HOME} \n } , "size": 9 ä 漢 €'


def test_what_a_query_says_cannot_break_the_request(http: Any) -> None:
    retriever = http("/echo/{query}?q={query}&k={k}", body={"{query}": ["{query}", "{k}", "top {k}", "{targetHits:5}"]})
    (found,) = retriever.retrieve([Query(NASTY)], 7)
    seen = json.loads(found.ids[0])
    assert seen["body"] == {NASTY: [NASTY, 7, "top 7", "{targetHits:5}"]}
    assert seen["params"] == {"q": NASTY, "k": "7"}
    assert seen["path"] == [NASTY]
    assert seen["method"] == "POST"


def test_without_a_body_the_request_is_a_get(http: Any) -> None:
    (found,) = http("/echo?q={query}").retrieve([Query("a b")], 1)
    assert json.loads(found.ids[0])["method"] == "GET"


def test_fields_of_a_query_fill_places_with_their_own_type() -> None:
    query = Query("q", "q1", {"language": "de", "year": 2024, "tags": ["a", "b"]})
    template = {
        "y": "{field.year}",
        "t": "{field.tags}",
        "l": "x-{language}",
        "n": "{field.none:-en}",
        "s": "{field.year}!",
    }
    assert fill(template, query, 5) == {"y": 2024, "t": ["a", "b"], "l": "x-de", "n": "en", "s": "2024!"}
    assert fill_url("/{language}?y={field.year}", query, 5) == "/de?y=2024"
    with pytest.raises(InputError, match=r'query "q1": the request needs \{field.area\}.*language, year, tags'):
        fill("{field.area}", query, 5)
    with pytest.raises(InputError, match=r"Write \{language:-something\}"):
        fill_url("{language}", "plain text", 5)


@pytest.mark.parametrize(("status", "times"), [(503, 1), (429, 2), (500, 1)])
def test_a_busy_server_is_asked_again(status: int, times: int, http: Any, request: pytest.FixtureRequest) -> None:
    path = f"/flaky/{status}-{times}/{status}/{times}?q={{query}}&k={{k}}"
    (found,) = http(path, retries=2).retrieve([Query("solar panels wind")], 2)
    assert found.ids == BEST[:2]
    assert found.scores is None
    assert found.more == {"retries": times}
    assert found.latency_ms["retrieve"] < 200  # the pause between tries is no latency of the engine


def test_a_server_that_stays_busy_is_an_error(http: Any) -> None:
    with pytest.raises(InputError, match=r"""query "q7": HTTP 503: '\{"error": "busy"\}'"""):
        http("/flaky/always/503/9?q={query}&k={k}", retries=1).retrieve([Query("x", "q7")], 2)


def test_a_lost_connection_is_tried_again(http: Any) -> None:
    (found,) = http("/dropped/once?q={query}", retries=1).retrieve([Query("x")], 5)
    assert (found.ids, found.more) == (["d1"], {"retries": 1})


def test_a_wrong_request_is_not_tried_again(http: Any, server: str) -> None:
    with pytest.raises(InputError, match="HTTP 400"):
        http("/flaky/wrong/400/9?q={query}&k={k}", retries=3).retrieve([Query("x")], 2)
    assert httpx.get(server + "/seen").json()["seen"]["wrong"] == 1


def test_a_slow_answer_is_an_error_and_asked_for_once(http: Any, server: str) -> None:
    with pytest.raises(InputError, match=r"no answer within 0\.2 s; raise timeout="):
        http("/slow/2?q={query}", timeout=0.2, retries=3).retrieve([Query("x")], 2)
    assert httpx.get(server + "/seen").json()["seen"]["slow"] == 1


def test_nobody_there_says_so() -> None:
    retriever = make_retriever("http(url=http://127.0.0.1:9/?q={query}, ids=$.ids, retries=1)")
    with pytest.raises(
        InputError, match=r"http://127.0.0.1:9/\?q=\{query\}.*cannot be reached .* in 2 attempts; is it running"
    ):
        retriever.retrieve([Query("x")], 2)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/html?q={query}", r"not JSON \(text/html\): \"<html><body>Welcome"),
        ("/half?q={query}", r"""not JSON \(application/json\): '\{"ids": \["d1", "d'"""),
        ("/nowhere?q={query}", r"HTTP 404 \(not found; check the address\): .*index_not_found"),
        ("/moved?q={query}", r"HTTP 301 \(moved to /elsewhere; use that address\)"),
        ("/locked/out?q={query}", r"HTTP 401 \(not allowed; check the key"),
    ],
)
def test_answers_that_are_none_are_told(path: str, told: str, http: Any) -> None:
    with pytest.raises(InputError, match=told):
        http(path).retrieve([Query("x")], 2)


def test_a_path_that_finds_nothing_shows_what_is_there(http: Any) -> None:
    body = own({"took": 1, "hits": {"hits": [{"_id": "d1", "score": 2}]}})
    with pytest.raises(
        InputError, match=r"ids=\$\.results\[\*\]\.id finds nothing .* the keys took, hits; fix the path"
    ):
        http("/own", body=body, ids="$.results[*].id").retrieve([Query("x")], 2)
    with pytest.raises(InputError, match=r"the keys took, hits, with the keys _id, score where \[\*\] is"):
        http("/own", body=body, ids="$.hits.hits[*].id").retrieve([Query("x")], 2)


@pytest.mark.parametrize(
    ("answer", "ids", "total"),
    [
        ({"hits": []}, "$.hits[*].id", None),
        ({"ids": []}, "$.ids", None),
        ({"hits": [{"id": "d1", "s": 0}]}, "$.hits[?@.s > 1].id", None),
        ({"n": 0}, "$.hits[*].id", "$.n"),
    ],
)
def test_no_results_are_no_error(answer: Any, ids: str, total: str | None, http: Any) -> None:
    (found,) = http("/own", body=own(answer), ids=ids, total=total).retrieve([Query("x")], 2)
    assert found.ids == []


def test_ids_and_scores_must_be_as_many(http: Any) -> None:
    body = own({"h": [{"id": 1, "s": 2.5}, {"id": 2}]})
    with pytest.raises(InputError, match=r"ids=\$\.h\[\*\]\.id finds 2 and scores=\$\.h\[\*\]\.s finds 1"):
        http("/own", body=body, ids="$.h[*].id", scores="$.h[*].s").retrieve([Query("x")], 2)
    with pytest.raises(InputError, match="a score must be a finite number, found nothing"):
        body = own({"h": [{"id": 1, "s": None}]})
        http("/own", body=body, ids="$.h[*].id", scores="$.h[*].s").retrieve([Query("x")], 2)
    with pytest.raises(InputError, match=r"an id must be text or an integer, found 1\.5"):
        http("/own", body=own({"ids": [1.5]})).retrieve([Query("x")], 2)


def test_more_than_k_are_cut_and_integers_become_text(http: Any) -> None:
    (found,) = http("/own", body=own({"ids": [7, "8", 9]})).retrieve([Query("x")], 2)
    assert found.ids == ["7", "8"]


def test_stages_and_their_times(http: Any) -> None:
    answer = {"ids": ["b"], "first": ["a", "b"], "ms": {"find": 1, "sort": 2}}
    retriever = http(
        "/own",
        body=own(answer),
        stages={"retrieve": "$.first", "rerank": "$.ids", "gone": "$.none"},
        took={"retrieve": "$.ms.find", "rerank": "$.ms.sort"},
    )
    (found,) = retriever.retrieve([Query("x")], 5)
    assert found.stages == {"retrieve": ["a", "b"], "rerank": ["b"]}
    assert (found.latency_ms["retrieve"], found.latency_ms["rerank"]) == (1.0, 2.0)
    assert set(found.latency_ms) == {"retrieve", "rerank", "network"}
    with pytest.raises(InputError, match=r"took\.retrieve=\$\.time must find one number, found 0"):
        http("/own", body=own(answer), took="$.time").retrieve([Query("x")], 5)


KEYS = [
    {"headers": {"X-Api-Key": "${SEARCH_KEY}"}},
    {"headers": '{"Authorization": "ApiKey ${SEARCH_KEY}"}'},
    {"key_env": "SEARCH_KEY"},
]


@pytest.mark.parametrize("how", KEYS)
def test_keys_come_from_the_environment_and_are_never_shown(
    how: dict[str, Any], http: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SEARCH_KEY", "s3cret-key\n")
    caplog.set_level(logging.DEBUG)
    retriever = http("/locked?q={query}", **how)
    assert retriever.retrieve([Query("x")], 1)[0].ids == ["d1"]
    refused = http("/locked/out?q={query}", **how)
    with pytest.raises(InputError, match=r"HTTP 401.*\*\*\*") as error:
        refused.retrieve([Query("x")], 1)
    shown = [str(error.value), repr(error.value.__context__), str(refused.facts()), refused.name, caplog.text]
    assert not [text for text in shown if "s3cret" in text]


def test_a_login_is_sent_as_basic_authentication(http: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGIN", "u:p:w")
    assert http("/locked?q={query}", login_env="LOGIN").retrieve([Query("x")], 1)[0].ids == ["d1"]
    monkeypatch.setenv("LOGIN", "nobody")
    with pytest.raises(UsageError, match="LOGIN must hold user:password"):
        http("/locked?q={query}", login_env="LOGIN")


GOOD = {"kind": "http", "url": "http://h/?q={query}", "ids": "$.ids"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"url": "localhost:9200/{query}"}, "url must be an address"),
        ({"url": None}, "url must be an address .* found nothing"),
        (
            {"url": "http://me:hunter2@h/?q={query}"},
            r"the address http://…@h/\?q=\{query\} holds a login; .*login_env=",
        ),
        ({"url": "http://h/"}, r"neither url nor body has \{query\}"),
        ({"ids": ""}, "ids is missing"),
        ({"ids": "hits[*].id"}, r"ids must be a JSONPath such as \$\.hits"),
        ({"ids": "$.hits[*"}, r"ids=\$\.hits\[\* is not a JSONPath"),
        ({"method": "FETCH"}, "method must be one of GET, POST, PUT"),
        ({"body": '{"q": {query}}'}, r"http: body:1:8: expected JSON .*found \"query\}\}\""),
        ({"body": "@nowhere.json"}, "nowhere.json: cannot be read"),
        ({"timeout": 0}, "timeout must be seconds above 0"),
        ({"took": "$.t", "took_unit": "min"}, "took_unit must be ms or s"),
        ({"headers": {"Authorization": "Bearer abc"}}, r"header Authorization is written out; .*\$\{NAME\}"),
        ({"headers": {"X-Api-Key": "abc"}}, "header X-Api-Key is written out"),
        ({"headers": {"X-Auth": "abc"}}, "header X-Auth is written out"),
        ({"url": "http://h/?q={query}&api_key=abc"}, r"api_key= in url is written out; .*api_key=\$\{NAME\}"),
        ({"url": "http://h/?q={query}&token=abc", "ids": ""}, "token= in url is written out"),
        ({"body": {"q": "{query}", "auth": {"password": "abc"}}}, "password in body is written out"),
        ({"url": "http://h/?q={query}&key=${NOT_SET}"}, "environment variable NOT_SET is not set"),
        ({"headers": {"X-Api-Key": "${NOT_SET}"}}, "environment variable NOT_SET is not set"),
        ({"key_env": "HOME", "login_env": "HOME"}, "expected one of them"),
        ({"stages": "$.x"}, "http: stages:1:1: expected JSON"),
        ({"idz": "$.ids"}, "http has no parameter 'idz' .did you mean 'ids'"),
    ],
)
def test_wrong_parameters_are_told_before_anything_is_asked(change: dict[str, Any], told: str) -> None:
    with pytest.raises((UsageError, InputError), match=told) as error:
        make_retriever(GOOD | change)
    assert "hunter2" not in str(error.value)
    assert "abc" not in str(error.value)


PLAIN_SECRET = "s3cr3t+/pass:word?&="


class Echo(BaseHTTPRequestHandler):
    """Repeats everything it was asked, in several encodings; trickles or floods on demand."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path.startswith("/slow"):
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                for _ in range(100):
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    time.sleep(0.1)
            return
        said = "\n".join([self.path, str(self.headers), body.decode()])
        encoded = " ".join(base64.b64encode(b"x" * i + PLAIN_SECRET.encode() + b"y").decode() for i in range(4))
        status = 200 if self.path.startswith("/ids") else 500 if self.path.startswith("/big") else 400
        answer = said + encoded + quote(PLAIN_SECRET) if status == 400 else "x" * (3 << 20)
        if status == 200:
            answer = json.dumps({"ids": [f"doc {PLAIN_SECRET}", "d2"]})
        self.send_response(200 if status == 500 else status)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(answer.encode())

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture(scope="module")
def echo() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    "options",
    [
        {"url": "/?api_key=${SECRET_KEY}"},
        {"body": {"q": "{query}", "auth": {"token": "${SECRET_KEY}"}}},
        {"headers": {"X-Auth": "${SECRET_KEY}"}},
        {"headers": {"Anything": "my ${SECRET_KEY}"}},
        {"key_env": "SECRET_KEY"},
        {"login_env": "SECRET_LOGIN"},
    ],
    ids=["url", "body", "header", "any header", "key_env", "login_env"],
)
def test_a_secret_is_hidden_however_a_server_repeats_it(
    echo: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", PLAIN_SECRET)
    monkeypatch.setenv("SECRET_LOGIN", f"someone:{PLAIN_SECRET}")
    spec = {"kind": "http", "ids": "$.ids[*]", "body": {"q": "{query}"}, "retries": 0} | options
    retriever = make_retriever(spec | {"url": echo + options.get("url", "/")})
    with pytest.raises(InputError) as error:
        retriever.retrieve([Query("x")], 1)
    text = str(error.value)
    said = [PLAIN_SECRET, quote(PLAIN_SECRET), quote(PLAIN_SECRET, safe=""), json.dumps(PLAIN_SECRET)[1:-1]]
    said += [base64.b64encode(f"someone:{PLAIN_SECRET}".encode()).decode(), PLAIN_SECRET[:10]]
    assert "HTTP 400" in text and not [one for one in said if one in text]
    monkeypatch.setattr("karat.retrieve.client.EXCERPT", 10_000)
    with pytest.raises(InputError) as error:
        retriever.retrieve([Query("x")], 1)
    assert not [one for one in said if one in str(error.value)] and "***" in str(error.value)
    for i in range(4):
        encoded = base64.b64encode(b"x" * i + PLAIN_SECRET.encode() + b"y").decode()
        assert encoded[8:-8] not in str(error.value)
    assert PLAIN_SECRET not in str(vars(retriever).get("where"))


def test_a_secret_in_an_answer_reaches_no_log(echo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", PLAIN_SECRET)
    spec = {"kind": "http", "ids": "$.ids[*]", "body": {"q": "{query}"}, "key_env": "SECRET_KEY"}
    answer = make_retriever(spec | {"url": f"{echo}/ids"}).retrieve([Query("x")], 2)[0]
    assert list(answer.ids) == ["doc ***", "d2"]


def test_the_time_limit_is_for_the_whole_answer(echo: str) -> None:
    spec = {"kind": "http", "url": f"{echo}/slow", "ids": "$.ids[*]", "body": {"q": "{query}"}, "timeout": 0.5}
    start = time.monotonic()
    with pytest.raises(InputError, match=r"no answer within 0\.5 s"):
        make_retriever(spec).retrieve([Query("x")], 1)
    assert time.monotonic() - start < 5


def test_an_answer_has_a_largest_size(echo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {"kind": "http", "url": f"{echo}/big", "ids": "$.ids[*]", "body": {"q": "{query}"}}
    retriever = make_retriever(spec)
    monkeypatch.setenv("KARAT_MAX_ANSWER", "2MiB")
    with pytest.raises(
        InputError,
        match="the answer is larger than 2MiB; ask for less, or set the environment variable KARAT_MAX_ANSWER",
    ):
        retriever.retrieve([Query("x")], 1)


def test_headers_that_are_no_secret_may_be_written_out() -> None:
    make_retriever(GOOD | {"headers": {"X-Tenant": "t1", "X-Version": 2}}).close()


def test_workers_share_connections_that_are_kept(http: Any, server: str) -> None:
    retriever = http(
        "/docs/_search",
        body={"size": "{k}", "query": {"match": {"text": {"query": "{query}"}}}},
        ids="$.hits.hits[*]._id",
    )
    before = httpx.get(server + "/seen").json()["connections"]
    together = threading.Barrier(4)

    def work(_: int) -> list[list[str]]:
        together.wait()
        return [list(retriever.retrieve([Query("solar panels wind")], 4)[0].ids) for _ in range(10)]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(4)))
    assert found == [[BEST] * 10] * 4
    used = httpx.get(server + "/seen").json()["connections"] - before - 1  # less the one that asks
    assert 1 <= used <= 4  # 40 requests
    retriever.close()
    retriever.close()
    assert retriever.retrieve([Query("bread")], 4)[0].ids == ["d5", "d4"]  # opens anew


def test_a_certificate_file_that_is_none_is_told(tmp_path: Path) -> None:
    retriever = make_retriever(GOOD | {"verify": str(tmp_path / "no.pem")})
    with pytest.raises(UsageError, match="not a file of certificates"):
        retriever.retrieve([Query("x")], 1)


@pytest.mark.parametrize(
    ("module", "spec", "extra"),
    [
        ("httpx", GOOD, "http"),
        ("jsonpath", GOOD, "http"),
        ("langchain_core.retrievers", "langchain(retriever=x:y)", "langchain"),
        ("llama_index.core.base.base_retriever", "llamaindex(retriever=x:y)", "llamaindex"),
        ("qdrant_client", "qdrant(url=':memory:')", "qdrant"),
        ("psycopg", "pgvector(dsn=postgresql://h/d)", "pgvector"),
        ("pgvector", "pgvector(dsn=postgresql://h/d)", "pgvector"),
    ],
)
def test_a_missing_package_names_what_to_install(
    module: str, spec: Any, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingPackage, match=rf"pip install 'karat-ir\[{extra}\]'"):
        make_retriever(spec)
