"""Reports in a real Chromium: a page with all that it logged and asked for, and waiting for what it draws."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Opened:
    """A page, with all that it logged and asked for."""

    page: Any
    logged: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.page, name)

    def count(self, text: str) -> int:
        return int(self.page.locator(text).count())

    def number(self) -> int:
        """How many queries are listed."""
        return int(self.page.text_content("#count").split()[0].replace(",", ""))

    def column(self, place: int) -> list[str]:
        return list(self.page.locator(f"#rows tbody tr[data-query] td:nth-child({place})").all_text_contents())

    def opened(self) -> str:
        """The id of the query that is open."""
        return str(self.page.text_content("#query .about bdi"))

    def opens(self, query: str) -> bool:
        """Whether this query is open, or is so soon: links are followed a moment after the click."""
        for _ in range(100):
            if self.opened() == query:
                return True
            self.page.wait_for_timeout(50)
        return False


@cache
def shared_page(browser: Any) -> Any:
    """One page for all tests: a window of its own for each takes three times as long."""
    return browser.new_context(reduced_motion="reduce").new_page()


@cache
def looked_at(browser: Any, path: Path, link: str = "", *, width: int = 1300) -> Opened:
    """A page in a tab that stays open, all charts drawn, for tests that look at it and change nothing in it."""
    page = shared_page(browser).context.new_page()
    page.set_viewport_size({"width": width, "height": 900})
    held = Opened(page)
    page.on("console", lambda message: held.logged.append(message.text))
    page.on("pageerror", lambda error: held.logged.append(str(error)))
    page.goto(path.as_uri() + link)
    page.wait_for_selector("html[data-ready=yes]")
    drawn(page)
    return held


@contextmanager
def opened(
    browser: Any, path: Path, link: str = "", *, width: int = 1300, color_scheme: str = "light"
) -> Iterator[Opened]:
    page = shared_page(browser)
    page.goto("about:blank")  # another link into the same file would not load it again
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(media="screen", color_scheme=color_scheme)
    held = Opened(page)
    listeners = {
        "console": lambda message: held.logged.append(message.text),
        "pageerror": lambda error: held.logged.append(str(error)),
        "request": lambda request: held.requests.append(request.url),
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    page.goto(path.as_uri() + link)
    page.wait_for_selector("html[data-ready=yes]")
    try:
        yield held
    finally:
        for event, listener in listeners.items():
            page.remove_listener(event, listener)
        page.evaluate("localStorage.clear()")


def until(page: Any, told: str) -> None:
    """Wait until this is true in the page, whose policy forbids the way in which Playwright would wait."""
    for _ in range(200):
        if page.evaluate(told):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"never came true: {told}")


def drawn(page: Any) -> None:
    """Wait until every chart is there."""
    until(page, "[...document.querySelectorAll('.chart')].every(c => c.dataset.ready === 'yes')")
