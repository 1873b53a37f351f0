"""Gates as a test: `pytest examples/gates`. Installing Karat brings the fixture `karat_check`."""

from pathlib import Path


def test_retrieval_may_ship(karat_check):
    assert karat_check(Path(__file__).parent / "karat.yaml")
