"""How far an update moves the weights: by hand, by group, and in the metrics of a run."""

import math
from pathlib import Path

import pytest
import torch

from tests.models.small import ARCHITECTURES, model
from tests.support.runs import Settings, tiny_recipe, train_tiny
from tfcli.runs.load import load_run
from tfcli.runs.metrics import read_history, read_metrics
from tfcli.training.metrics import UpdateSizes, weight_groups


def test_a_step_by_hand():
    """All weights 2, moved to 1: a group of n weights is √n long, and has moved by √n. Norms, 3 to 4: 1 of 4."""
    network = model().float()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(3.0 if parameter.ndim == 1 else 2.0)
        with UpdateSizes(network) as sizes:
            for parameter in network.parameters():
                parameter.add_(1.0 if parameter.ndim == 1 else -1.0)
    count = {name: sum(p.numel() for p in group) for name, group in weight_groups(network).items()}
    assert set(count) == {"embeddings", "attention", "feed_forward", "norms"}
    norms, ratios = sizes.norms(), sizes.ratios()
    assert norms["attention"] == pytest.approx(math.sqrt(count["attention"]))
    assert norms["norms"] == pytest.approx(4 * math.sqrt(count["norms"]))
    assert (ratios["embeddings"], ratios["norms"]) == (pytest.approx(1.0), pytest.approx(0.25))
    matrices = sum(count.values()) - count["norms"]
    assert norms["all"] == pytest.approx(math.sqrt(matrices + 16 * count["norms"]))
    moved = math.sqrt(sum(count.values()))
    assert ratios["all"] == pytest.approx(moved / math.sqrt(matrices + 16 * count["norms"]))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_parameter_is_in_one_group(architecture: str):
    network = model(architecture, tie_embeddings=False, norm="layernorm", positions="learned")
    grouped = [id(parameter) for group in weight_groups(network).values() for parameter in group]
    assert sorted(grouped) == sorted(id(parameter) for parameter in network.parameters())
    assert weight_groups(network)["head"] == list(network.head.parameters())


def test_what_is_not_finite_or_all_zero_has_no_ratio():
    network = model().float()
    with torch.no_grad(), UpdateSizes(network) as sizes:
        for name, group in weight_groups(network).items():
            for parameter in group:
                parameter.fill_({"norms": 0.0, "attention": math.inf}.get(name, 1.0))
    assert sizes.ratios()["norms"] is None
    assert sizes.norms()["attention"] is None
    assert sizes.norms()["norms"] == 0.0


def test_a_run_records_them_at_every_report_and_they_are_those_of_its_last_step(tmp_path: Path):
    """Reported after every step and kept: the recorded ratio is that of the checkpoints on both sides of a step."""
    every: Settings = {
        "train": {"steps": 3, "log_every": 1, "save_every": 1, "keep_checkpoints": 3, "evaluate_every": 3}
    }
    train_tiny(tiny_recipe("decoder", every), tmp_path / "run")
    second, third = (load_run(tmp_path / "run", step).model for step in ("2", "3"))
    moved = {
        name: torch.cat([(a - b).detach().flatten() for a, b in zip(ours, theirs, strict=True)])
        for (name, ours), theirs in zip(weight_groups(third).items(), weight_groups(second).values(), strict=True)
    }
    long = {name: torch.cat([p.detach().flatten() for p in group]) for name, group in weight_groups(third).items()}
    last = read_history(tmp_path / "run" / "metrics.jsonl").training[-1]
    for name, change in moved.items():
        assert last.weight_norms[name] == pytest.approx(float(long[name].norm()), rel=1e-5)
        assert last.update_ratios[name] == pytest.approx(float(change.norm() / long[name].norm()), rel=1e-3)
    reports = [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if line["event"] == "step"]
    assert len(reports) == 3 and all(line["weight_norms"]["all"] > 0 for line in reports)
