"""Exponential moving average of weights beside a training, and checkpoint averaging at its end."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from tfcli.layers.kernels import lerp_all
from tfcli.layers.lora import FACTORS, trained
from tfcli.runs import weights
from tfcli.runs.checkpoint import open_checkpoint
from tfcli.training.distributed import Workers


class MovingAverage:
    """θ̄ ← d θ̄ + (1 − d) θ after every update, with d = min(decay, (1 + t) / (10 + t)) at update t, counted from 1, so
    that the initial weights are soon forgotten (`num_updates` of TensorFlow's `tf.train.ExponentialMovingAverage`)."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.tensors = {name: parameter.detach().clone() for name, parameter in trained(model).items()}

    @torch.no_grad()
    def update(self, model: nn.Module, updates: int) -> None:
        """Take in the weights after the update of number `updates`."""
        decay = min(self.decay, (1 + updates) / (10 + updates))
        ours, theirs = self.tensors.values(), trained(model).values()
        lerp_all([*map(weights.local_shard, ours)], [*map(weights.local_shard, theirs)], 1 - decay)


@contextmanager
def exchanged(model: nn.Module, tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Inside the block the model's parameters of these names have these values, and `tensors` its own, to the bit."""
    own = weights.model_tensors(model)
    pairs = [(weights.local_shard(own[name]), weights.local_shard(tensor)) for name, tensor in tensors.items()]

    def exchange() -> None:
        with torch.no_grad():
            for ours, theirs in pairs:
                own = ours.clone()
                ours.copy_(theirs)
                theirs.copy_(own)

    exchange()
    try:
        yield
    finally:
        exchange()


def mean_of_weights(model: nn.Module, checkpoints: Sequence[Path], run_id: str, workers: Workers) -> dict[str, Tensor]:
    """The mean of the model's weights and those of checkpoints, as Vaswani et al. 2017, section 6.1, evaluate it.
    Summed in float64 on the CPU, a checkpoint at a time. A damaged file, or one of another run, is refused."""
    parameters = weights.model_tensors(model)
    sums = {name: weights.local_shard(parameter).detach().cpu().double() for name, parameter in parameters.items()}
    for folder in checkpoints:
        with workers.together():
            tensors = weights.checkpoint_tensors(open_checkpoint(folder), "model", run_id, parameters)
            weights.require_tensors(tensors, parameters, folder)
        for name, total in sums.items():
            total += weights.local_shard(tensors[name]).cpu()
    return {name: (sums[name] / (len(checkpoints) + 1)).to(parameter.dtype) for name, parameter in parameters.items()}


def weights_of_file(model: nn.Module, path: Path, run_id: str, workers: Workers) -> dict[str, Tensor]:
    """The weights in a run's file, divided as the model's are, checked; beside merged ones, adapters add nothing."""
    own = weights.model_tensors(model)
    parameters = {name: tensor for name, tensor in own.items() if not name.endswith(FACTORS)}
    with workers.together():
        tensors = weights.StoredTensors(path, parameters)
        weights.require_belonging(tensors.metadata, path, run_id)
        weights.require_tensors(tensors, parameters, path)
    nothing = {name: torch.zeros_like(tensor) for name, tensor in own.items() if name.endswith(FACTORS)}
    return {**nothing, **{name: tensors[name] for name in parameters}}
