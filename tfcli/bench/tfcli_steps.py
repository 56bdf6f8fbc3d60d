"""Training benchmark, the side of tfcli: the steps that `tfcli train` takes."""

import time

from tfcli.bench.protocol import Answer
from tfcli.recipe.recipe import Recipe
from tfcli.training.step_benchmark import open_step_benchmark


class TfcliSteps:
    """Trains a recipe's model on random ids."""

    def __init__(self, recipe: Recipe) -> None:
        self.trial = open_step_benchmark(recipe)
        self.device = self.trial.parts.device

    def about(self) -> Answer:
        """The model and its precision."""
        model, train = self.trial.parts.model, self.trial.recipe.train
        return {"model": type(model).__name__, "precision": train.precision, "parameters": model.num_parameters()}

    def step(self) -> Answer:
        """One optimizer step, with its batches."""
        began = time.perf_counter()
        loss = float(self.trial.step())
        self.trial.wait()
        return {"seconds": time.perf_counter() - began, "loss": loss, "tokens": self.trial.tokens}
