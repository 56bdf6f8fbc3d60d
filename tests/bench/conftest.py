"""Benchmarks of a moment."""

import pytest

from tests.support.bench import measure_here


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process is started."""
    measure_here(monkeypatch)
