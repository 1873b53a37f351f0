from __future__ import annotations

import gc
import itertools
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


# The same examples in every run of the same tests, so that a red test is nearly always the fault of a change. Not
# always: Hypothesis draws constants from the modules of Karat and of the tests that are imported, so that which tests
# run together, or a new constant, changes them. Pin an example that fails with @example before you mend it.
# HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("explore", deadline=None, suppress_health_check=list(HealthCheck), max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


# One core per test process: several run at once, and threads that wait for each other only burn time. Set before
# numpy and polars are imported, which read them once.
for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(threads, "1")
os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # ranx compiles for 45 seconds what runs once


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Three workers for two cores: many tests wait for a browser, a server or a process."""
    return max(2, len(os.sched_getaffinity(0)) * 3 // 2) if hasattr(os, "sched_getaffinity") else 4


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A module runs in one process, which makes its fixtures and imports once; all pages are opened by one browser."""
    from xdist.scheduler import LoadFileScheduling

    class ByModule(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            module = str(super()._split_scope(nodeid))
            return "browser" if "test_report" in module else module

    return ByModule(config, log)


def pytest_collection() -> None:
    """What collecting makes stays: looking through it again and again finds no garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Names of folders that do not exist yet."""
    folder = tmp_path_factory.mktemp("caches")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def own_cache(caches: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the user's cache, or that of another test."""
    folder = next(caches)
    folder.mkdir()
    monkeypatch.setenv("KARAT_CACHE_DIR", str(folder))
    return folder


@pytest.fixture(scope="module", params=("compiled", "numpy"))
def either_kernel(request: pytest.FixtureRequest) -> Iterator[str]:
    """All tests of a module twice: with the compiled kernel, where there is one, and without it."""
    from karat.model import kernel

    if request.param == "compiled" and not kernel.parts:
        pytest.skip("the kernel is not compiled here")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "numpy":
            patch.setattr(kernel, "text", None)
            patch.setattr(kernel, "dicts", None)
        yield request.param


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer draws behind the superscripts of LaTeX and the chances of a plan, for tests that look at neither."""
    monkeypatch.setattr("karat.report.view.DRAWS", 1000)
    monkeypatch.setattr("karat.gates.forecast.VALUES", 5_000)
    monkeypatch.setattr("karat.stats.planning.ROUGH", 600)


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan looks for no number of queries: the test looks at chances with numbers that it names, or at notes."""
    monkeypatch.setattr("karat.verbs.plan.find_units", lambda power, chance: None)


@pytest.fixture(scope="session")
def karat_command() -> Iterator[Path]:
    """The path of a `karat` that starts at once."""
    from karat_server import serve_karat

    with serve_karat() as command:
        yield command


BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Every page is open for half a second: compiling its scripts for speed, and collecting their garbage, never pays.
SCRIPTS = "--js-flags=--no-maglev --no-turbofan --min-semi-space-size=64 --max-semi-space-size=64"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The system's Chromium. Where there is none, tests are skipped, but in CI they fail."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        told = f"none of {', '.join(BROWSERS)} is installed; `make browser` installs one"
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu", SCRIPTS])
        yield started
        started.close()
