"""What a run's metrics say of its training."""

import json
from pathlib import Path

import numpy as np
import pytest

from tfcli.errors import UsageError
from tfcli.runs.directory import RunDirectory
from tfcli.runs.metrics import training_curves


def written(folder: Path, *lines: dict[str, object]) -> RunDirectory:
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "recipe.toml").write_text('[model]\narchitecture = "decoder"\n')
    return RunDirectory(folder)


def test_reports_become_rows_and_what_is_missing_nan(tmp_path: Path):
    first = {"weight_norms": {"all": 5.0, "norms": 4.0}, "update_ratios": {"all": 0.002, "norms": 0.0}}
    second = {"weight_norms": {"all": 5.5, "norms": None}, "update_ratios": {"all": 0.004, "norms": 0.5}}
    curves = training_curves(
        written(
            tmp_path,
            {"event": "step", "step": 10, "loss": 3.0, "learning_rate": 0.1, "grad_norm": 1.5, **first},
            {"event": "evaluated", "step": 10, "loss": 2.5},
            {"event": "step", "step": 20, "loss": None, "learning_rate": 0.2, "grad_norm": 2.5, **second},
        )
    )
    assert curves.groups == ("all", "norms")
    assert curves.steps.tolist() == [10, 20]
    np.testing.assert_array_equal(curves.losses, [3.0, np.nan])
    np.testing.assert_array_equal(curves.weight_norms, [[5.0, 5.5], [4.0, np.nan]])
    np.testing.assert_array_equal(curves.update_ratios, [[0.002, 0.004], [0.0, 0.5]])
    # The mean of 0.002 and 0.004 in the middle; of the norms, the step that moved nothing does not count.
    assert curves.typical_ratios.tolist() == [pytest.approx(0.003), 0.5]
    assert (curves.evaluated_steps.tolist(), curves.evaluated_losses.tolist()) == ([10], [2.5])
    assert not curves.losses.flags.writeable


def test_an_older_run_has_no_groups(tmp_path: Path):
    curves = training_curves(written(tmp_path, {"event": "step", "step": 1, "loss": 3.0}))
    assert curves.groups == ()
    assert curves.weight_norms.size == 0
    assert np.isnan(curves.grad_norms).all()


def test_a_run_without_a_report_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match=r"metrics\.jsonl holds no report of training"):
        training_curves(written(tmp_path, {"event": "evaluated", "step": 1, "loss": 2.0}))
