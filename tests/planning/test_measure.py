"""What the clock of a probe leaves out."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.runs import tiny_recipe
from tfcli.data.shards import ShardArray
from tfcli.pipeline.datasets import obtain_data
from tfcli.planning.measure import _measure
from tfcli.training import job


def test_files_are_compared_before_the_clock_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "text.txt").write_text("the quick cat. " * 500)
    recipe = tiny_recipe("decoder", {"data": {"source": str(tmp_path / "text.txt")}})
    _, data = obtain_data(recipe.resolved(), lambda event: None)
    done: list[str] = []
    largest, opened = ShardArray._largest, job.StepBenchmark

    def compare(array: ShardArray) -> int:
        done.append(array.path.name)
        return largest(array)

    def begin(*given: Any) -> job.StepBenchmark:
        done.append("steps")
        return opened(*given)

    monkeypatch.setattr(ShardArray, "_largest", compare)
    monkeypatch.setattr(job, "StepBenchmark", begin)
    assert _measure(recipe, data.path, 0.01)["step_seconds"] > 0
    arrays = {f"{part}-00000.{name}.npy" for part in ("train", "validation") for name in ("tokens", "offsets")}
    assert set(done[:-1]) == arrays
    assert done[-1] == "steps"
