"""Step benchmark: a recipe's real optimizer steps without a run, to time them and to see what memory they take."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from tfcli.data.batch import Batch
from tfcli.recipe.recipe import Recipe
from tfcli.training.assembly import Assembly, assemble, decide_for_machine
from tfcli.training.schedule import learning_rate_factor
from tfcli.training.step import optimizer_step
from tfcli.training.synthetic import synthetic_batches


class StepBenchmark:
    """What a training holds in memory and does at a step, from the same pieces. Nothing is written.

    Attributes:
        recipe: as it was decided for this machine.
        tokens: read by the last step, of both sides.
    """

    def __init__(self, recipe: Recipe, parts: Assembly, batches: Iterator[Batch]) -> None:
        self.recipe, self.parts = recipe, parts
        self.steps, self.tokens = 0, 0
        self._batches = batches

    def step(self) -> Tensor:
        """One optimizer update of `train.grad_accumulation` micro-batches.

        Shape:
            returns: (), the plain loss in nats a token, left on the device: reading it waits for the device
        """
        train = self.recipe.train
        micro_batches = [next(self._batches) for _ in range(train.grad_accumulation)]
        self.steps += 1
        self.tokens = sum(batch.tokens for batch in micro_batches)
        loss, _ = optimizer_step(
            self.parts.objective,
            self.parts.optimizers,
            micro_batches,
            learning_rate_factor=learning_rate_factor(min(self.steps, train.steps), train),  # it may go on for longer
            clip_norm=train.clip_norm,
            only_finite=train.skip_nonfinite > 0,
        )
        return loss[0]

    def wait(self) -> None:
        """Until the device has done all that it was given."""
        if self.parts.device.type != "cpu":
            getattr(torch, self.parts.device.type).synchronize()


def open_step_benchmark(recipe: Recipe, batches: Iterator[Batch] | None = None) -> StepBenchmark:
    """Build a recipe's model and optimizers on this machine.

    Args:
        recipe: with `model.vocab_size` set.
        batches: micro-batches, endless; None: synthetic ones of the recipe's sizes.

    Raises:
        UsageError: the device that is asked for is not there.
    """
    recipe = recipe.resolved()
    recipe = replace(recipe, train=decide_for_machine(recipe.model, recipe.train))
    return StepBenchmark(recipe, assemble(recipe.model, recipe.train), batches or synthetic_batches(recipe))
