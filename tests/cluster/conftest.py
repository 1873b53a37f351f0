"""A cluster to test on: Sail, which needs no Java, or what KARAT_SPARK names (`make test-spark`)."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster_world import World, build_world
from karat.cluster.session import open_session


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """What --engine takes."""
    if "KARAT_SPARK" in os.environ:
        yield os.environ["KARAT_SPARK"]
        return
    from pysail.spark import SparkConnectServer

    server = SparkConnectServer()
    server.start(background=True)
    yield f"sc://127.0.0.1:{server.listening_address[1]}"
    server.stop()


@pytest.fixture(scope="session")
def spark(address: str) -> Iterator[Any]:
    session = open_session(address)
    yield session
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.stop()


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return build_world(Path(tmp_path_factory.mktemp("world")))
