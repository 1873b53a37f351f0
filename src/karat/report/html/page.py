"""The page: a template, a style, a script, the chart library and the data, all in one file."""

from __future__ import annotations

import base64
import hashlib
import marshal
import os
from functools import lru_cache
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from karat.errors import missing_package
from karat.report.html.clean_text import LONGEST, cut
from karat.store.built import Store

if TYPE_CHECKING:
    from types import CodeType

    from jinja2 import Environment, Template

    from karat.report.html.model import Page, ScriptData

ASSETS = os.path.join(os.path.dirname(__file__), "assets")
SCRIPTS = ("data.js", "charts.js", "overview.js", "queries.js", "query.js", "page.js")
"""Our own scripts, in the order in which they build on each other."""
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; script-src "
)
DATA = "\0data\0"
"""Where the data go, which are most of a large page and pass through no template; cleaned text holds no such mark."""


def rendered(page: Page) -> bytes:
    """The page as UTF-8."""
    try:
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise missing_package("a report", "jinja2") from None
    scripts = [library(), *(_asset(name) for name in SCRIPTS)]
    # Scripts are allowed by their hash alone: nothing that slips into the page could run.
    hashes = " ".join(f"'sha256-{_hash(text)}'" for text in scripts)
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: cut(value, LONGEST) if type(value) is str else value,
    )
    text = _template(environment, _asset("page.html")).render(
        page=page,
        policy=Markup(POLICY + hashes),
        style=Markup(_asset("page.css")),
        data=Markup(DATA),
        scripts=[Markup(text) for text in scripts],
    )
    before, _, after = text.partition(DATA)
    return b"".join((before.encode("utf-8", "replace"), _embedded(page.script), after.encode("utf-8", "replace")))


def _template(environment: Environment, source: str) -> Template:
    """The template, compiled; kept, since that takes as long as all the rest of a small page."""
    from importlib.metadata import version

    from jinja2 import Template

    def load(folder: str) -> CodeType:
        code: CodeType = marshal.loads(Path(folder, "page").read_bytes())
        return code

    def write(code: CodeType, folder: str) -> None:
        Path(folder, "page").write_bytes(marshal.dumps(code))

    options = [environment.autoescape, environment.trim_blocks, environment.lstrip_blocks]
    key = ["template", version("jinja2"), MAGIC_NUMBER.hex(), options, _hash(source)]
    code = Store().get(key, lambda: environment.compile(source, "page.html"), write, load)
    return Template.from_code(environment, code, environment.make_globals(None))


def _asset(name: str) -> str:
    with open(os.path.join(ASSETS, name), encoding="utf-8") as file:
        return file.read()


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8", "replace")).digest()).decode()


def _embedded(script: ScriptData) -> bytes:
    """JSON that cannot end its script element, nor open a comment in it."""
    data = msgspec.json.encode(script)
    for char in "<>&\u2028\u2029":
        data = data.replace(char.encode(), f"\\u{ord(char):04x}".encode())
    return data


@lru_cache(maxsize=1)
def library() -> str:
    """Vega-Lite with Vega and vega-embed, as the installed package bundles them; kept, since that takes seconds."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        installed = version("vl-convert-python")
    except PackageNotFoundError:
        raise missing_package("a report", "vl_convert") from None

    def build() -> str:
        import vl_convert

        bundle: str = vl_convert.javascript_bundle("window.vegaEmbed=vegaEmbed;")
        bundle = bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")
        return "(()=>{" + bundle + "\n})();"

    def write(bundle: str, folder: str) -> None:
        Path(folder, "vega.js").write_bytes(bundle.encode())

    def load(folder: str) -> str:
        return Path(folder, "vega.js").read_bytes().decode()

    return Store().get(["vega", installed], build, write, load)
