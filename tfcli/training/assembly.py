"""Model, loss and optimizers from two sections of a recipe, and what is decided for the machine first."""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import nn
from torch.optim import Optimizer

from tfcli.machine import choose_threads
from tfcli.models.allocator import keep_freed_memory
from tfcli.models.build import build_model
from tfcli.models.device import choose_device
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection
from tfcli.recipe.train import TrainSection
from tfcli.training.attention_path import choose_attention
from tfcli.training.compilation import choose_compile, compile_layers
from tfcli.training.objective import TrainingLoss
from tfcli.training.optimizer import build_optimizers
from tfcli.training.parallel import parallelized
from tfcli.training.precision import choose_precision
from tfcli.training.workers import ALONE, Workers


class Assembly(NamedTuple):
    """A model on its device, the loss around it, and the optimizers of its weights."""

    model: Transformer
    objective: nn.Module
    optimizers: list[Optimizer]
    device: torch.device


def decide_for_machine(model: ModelSection, train: TrainSection) -> TrainSection:
    """Fill in what the recipe leaves to the machine. Done once, at the start of a run, and recorded.

    Raises:
        UsageError: the device that is asked for is not there.
    """
    device = choose_device(train.device)
    precision = choose_precision(train.precision, device, model)
    usual = torch.get_num_threads()
    return replace(
        train,
        device=device.type,  # type: ignore[arg-type]
        precision=precision,
        attention=choose_attention(train.attention, device, precision, train.context or model.max_seq_len),
        compile=choose_compile(train.compile, device, train.steps),
        threads=choose_threads(train.threads, usual) if device.type == "cpu" else train.threads or usual,
    )


def assemble(model: ModelSection, train: TrainSection, workers: Workers = ALONE) -> Assembly:
    """Build everything from sections that are decided; sets this process's threads and seed.

    Raises:
        UsageError: there are more workers than devices.
    """
    torch.set_num_threads(workers.threads(train.threads))
    device = choose_device(train.device)
    workers.require_device(device)
    built = build_model(model, train.seed)
    if device.type == "cpu":
        keep_freed_memory()
    built.use_in_training("rows" if train.attention == "rows" else "fused")
    if train.compile == "on":
        compile_layers(built)
    if train.activation_checkpointing:
        built.use_gradient_checkpointing()
    torch.manual_seed(workers.seed(train.seed))  # dropout draws from here
    objective = parallelized(TrainingLoss(built, train), train, workers, device)
    return Assembly(built, objective, build_optimizers(built, train), device)
