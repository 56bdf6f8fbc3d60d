"""What one of several workers does, worked out by hand; and layers that forget what is inside them."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.support.runs import tiny_recipe
from tests.support.workers import in_workers
from tfcli.data.batch import IGNORED, Batch
from tfcli.errors import TfcliError, UsageError
from tfcli.models.build import build_model
from tfcli.recipe.train import TrainSection
from tfcli.training.distributed import (
    OWN_STORE,
    SINGLE_PROCESS,
    WorkerFailedError,
    Workers,
    one_of_several,
    process_group,
    require_work_for_all,
)
from tfcli.training.objective import TrainingLoss


def batch(rows: int) -> Batch:
    """Row r has the input r and the label 10 r."""
    ids = np.arange(rows)[:, None]
    return Batch(ids, 10 * ids)


def test_every_row_is_the_share_of_one_worker():
    """5 rows among 2: rows 0, 2, 4 and rows 1, 3."""
    first, second = (Workers(rank, 2).share(batch(5)) for rank in range(2))
    assert first.input_ids[:, 0].tolist() == [0, 2, 4]
    assert second.labels[:, 0].tolist() == [10, 30]
    whole = batch(5)
    assert SINGLE_PROCESS.share(whole) is whole


def test_a_worker_without_a_row_scores_nothing():
    share = Workers(2, 3).share(batch(2))
    assert share.input_ids.tolist() == [[0]]
    assert share.labels.tolist() == [[IGNORED]]


def test_batches_are_dealt_out_and_all_get_as_many():
    """5 batches among 3 in two rounds: 0 3, 1 4, and 2 with an unscored one."""
    dealt = [[*Workers(rank, 3).shares(iter([batch(n) for n in range(1, 6)]))] for rank in range(3)]
    assert [[len(one.labels) for one in ours] for ours in dealt] == [[1, 4], [2, 5], [3, 1]]
    assert [sum(one.target_tokens for one in ours) for ours in dealt] == [5, 7, 3]
    assert [len([*SINGLE_PROCESS.shares(iter([batch(1)] * 4))])] == [4]


def test_workers_draw_differently_and_one_alone_draws_as_the_recipe_says():
    assert SINGLE_PROCESS.seed(7) == 7
    seeds = {Workers(rank, size).seed(7, step) for size in (2, 4) for rank in range(size) for step in (0, 5)}
    assert len(seeds) == 12
    assert SINGLE_PROCESS.seed(7, 5) not in {7, *seeds}


def test_threads_of_a_machine_are_divided():
    assert [Workers(0, 4, 0, local).threads(6) for local in (1, 2, 4, 8)] == [6, 3, 1, 1]


def test_rows_must_suffice_unless_batches_have_a_number_of_tokens():
    require_work_for_all(TrainSection(batch_size=4), 4)
    require_work_for_all(TrainSection(batch_size=1, batch_tokens=64), 4)
    with pytest.raises(UsageError, match=r"5 processes cannot share train\.batch_size = 4"):
        require_work_for_all(TrainSection(batch_size=4), 5)


def test_every_worker_needs_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for device in ("cpu", "cuda"):
        Workers(1, 4, 1, 2).require_device(torch.device(device))
    SINGLE_PROCESS.require_device(torch.device("mps"))
    with pytest.raises(UsageError, match=r"fewer GPUs \(2\) than processes \(4\); use --nproc 2"):
        Workers(0, 4, 0, 4).require_device(torch.device("cuda"))
    with pytest.raises(UsageError, match="MPS"):
        Workers(0, 2, 0, 2).require_device(torch.device("mps"))


def _talk(workers: Workers) -> Any:
    total = workers.sum(torch.tensor([1.0, float(workers.rank)]))
    return (
        workers.any(workers.rank == 2),
        workers.any(False),
        total.tolist(),
        [int(state) for state in workers.gather(torch.tensor(workers.rank))],
        workers.first_then_all(lambda: workers.rank),
    )


def test_workers_agree():
    """Ranks 0, 1, 2 sum to 3."""
    assert in_workers(3, _talk) == [(True, False, [3.0, 3.0], [0, 1, 2], rank) for rank in range(3)]


def _fail(workers: Workers) -> None:
    with workers.together():
        if workers.rank == 1:
            raise UsageError("It is the second one's fault")


def test_what_fails_in_one_fails_in_all():
    first, second = in_workers(2, _fail)
    assert type(first) is TfcliError and "Another worker has failed" in str(first)
    assert isinstance(second, WorkerFailedError) and "Worker 1: It is the second one's fault" in str(second)


def test_torchrun_must_give_restarted_workers_a_new_store(monkeypatch: pytest.MonkeyPatch):
    assert not one_of_several()
    place = {"RANK": 0, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 2, "MASTER_ADDR": "x", "MASTER_PORT": 1}
    for name, value in {**place, "TORCHELASTIC_USE_AGENT_STORE": True, "TORCHELASTIC_MAX_RESTARTS": 3}.items():
        monkeypatch.setenv(name, str(value))
    assert one_of_several()
    with pytest.raises(UsageError, match=f"set {OWN_STORE}=1"), process_group():
        pass


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder-decoder"])
def test_forgetting_activations_changes_no_bit(architecture: str):
    """Dropout is drawn again as it was; and something is forgotten: fewer tensors are kept for the backward pass."""
    recipe = tiny_recipe(architecture, {"model": {"vocab_size": 20, "dropout": 0.3, "num_layers": 2}}).resolved()
    draw = np.random.default_rng(0)
    ids = draw.integers(5, 20, (3, 7))
    given = Batch(ids, ids, decoder_input_ids=ids if architecture == "encoder-decoder" else None)
    gradients, kept = [], []
    for forgets in (False, True):
        model = build_model(recipe.model, 0).train()
        if forgets:
            model.use_gradient_checkpointing()
        torch.manual_seed(1)
        count = 0

        def note(tensor: torch.Tensor) -> torch.Tensor:
            nonlocal count
            count += 1
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            loss = TrainingLoss(model, recipe.train)(given)
        loss[1].backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
        kept.append(count)
    assert gradients[0].keys() == gradients[1].keys()
    assert all(torch.equal(gradients[0][name], gradients[1][name]) for name in gradients[0])
    assert kept[1] < kept[0] / 2
