"""Training benchmark, the side of `transformers`: the same shape, and the loop that people write around it."""

import time
from typing import Any

import torch
from torch import Tensor

from tfcli.bench.machine import require_transformers
from tfcli.bench.opponent import opponent_of
from tfcli.bench.protocol import Answer
from tfcli.data.batch import Batch
from tfcli.recipe.recipe import Recipe
from tfcli.training.precision import choose_device
from tfcli.training.synthetic import synthetic_batches


class TransformersLoop:
    """Forward, backward, clip_grad_norm_, AdamW as PyTorch has it, zero_grad; float32, or under bfloat16 autocast.

    Raises:
        UsageError: `transformers` is not installed.
    """

    def __init__(self, recipe: Recipe, precision: str) -> None:
        self.train, self.precision = recipe.train, precision
        torch.set_num_threads(recipe.train.threads)
        self.device = choose_device(recipe.train.device)
        torch.manual_seed(recipe.train.seed)
        opponent = opponent_of(recipe.model)
        # Training needs no cache of keys and values; the library's own Trainer makes none.
        self.model = new_model({**opponent.config, "use_cache": False}).to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=recipe.train.learning_rate)
        self.batches = synthetic_batches(recipe)

    def about(self) -> Answer:
        """The model's class and its precision."""
        parameters = trained_parameters(self.model)
        return {"model": type(self.model).__name__, "precision": self.precision, "parameters": parameters}

    def step(self) -> Answer:
        """One optimizer step on the batches that tfcli gets."""
        began = time.perf_counter()
        losses = []
        for _ in range(self.train.grad_accumulation):
            inputs = _inputs(next(self.batches), self.device)
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
                loss = self.model(**inputs).loss / self.train.grad_accumulation
            loss.backward()
            losses.append(loss.detach())
        if self.train.clip_norm:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.train.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        loss = float(torch.stack(losses).sum())
        if self.device.type != "cpu":
            getattr(torch, self.device.type).synchronize()
        return {"seconds": time.perf_counter() - began, "loss": loss}


def trained_parameters(model: torch.nn.Module) -> int:
    """How many numbers of a model are trained."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def new_model(config: dict[str, Any]) -> Any:
    """A new model of the class that a config.json names.

    Raises:
        UsageError: `transformers` is not installed.
    """
    require_transformers()
    import transformers

    settings = {key: value for key, value in config.items() if key != "model_type"}
    built = transformers.AutoConfig.for_model(config["model_type"], **settings)
    return getattr(transformers, config["architectures"][0])(built)


def _inputs(batch: Batch, device: torch.device) -> dict[str, Tensor]:
    """The arguments that people give: a causal model shifts the labels itself, so it gets its own input."""
    arrays = {"input_ids": batch.input_ids, "labels": batch.labels}
    if batch.decoder_input_ids is not None:
        arrays["decoder_input_ids"] = batch.decoder_input_ids
    elif batch.target_tokens == batch.labels.size:
        arrays["labels"] = batch.input_ids
    return {name: torch.as_tensor(array).to(device) for name, array in arrays.items()}
