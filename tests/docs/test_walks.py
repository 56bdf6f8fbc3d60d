"""docs/architecture.md counts the files that five jobs enter."""

from pathlib import Path

import pytest

from tests.docs.walks import counted, documented

TOLERANCE = 3  # other processors take other paths: precision, attention, threads


@pytest.mark.slow
def test_the_counts_are_current(tmp_path: Path) -> None:
    counts = counted(tmp_path)
    assert counts.keys() == documented().keys()
    wrong = {name: count for name, count in counts.items() if abs(count - documented()[name]) > TOLERANCE}
    assert wrong == {}, "run `python -m tests.docs.walks` and commit what it writes"
