from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("KARAT_CACHE_DIR", str(folder))
    return folder
