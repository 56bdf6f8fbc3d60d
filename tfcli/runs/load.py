"""Loading a model: a run's recipe, tokenizer and weights, all checked against each other."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from tfcli.errors import BrokenInputError, UsageError, shortened
from tfcli.models.build import uninitialized_model
from tfcli.models.inference import prepare_for_inference
from tfcli.models.transformer import Transformer
from tfcli.recipe.loading import load_recorded
from tfcli.recipe.model import WeightPrecision
from tfcli.recipe.recipe import Recipe
from tfcli.runs.checkpoint import open_checkpoint
from tfcli.runs.config import RunConfig, read_config
from tfcli.runs.directory import RunDirectory
from tfcli.runs.finding import existing_run
from tfcli.runs.weights import StoredTensors, checkpoint_tensors, fill_model, require_belonging
from tfcli.tokenization.tokenizer import Tokenizer, load_tokenizer

_RESTORE = "restore the run's own files"


@dataclass(frozen=True)
class LoadedRun:
    """A trained model, ready to use: in evaluation mode, on `device`, its weights in `precision`."""

    directory: RunDirectory
    recipe: Recipe
    config: RunConfig
    tokenizer: Tokenizer
    model: Transformer
    device: torch.device
    precision: WeightPrecision = "float32"

    @property
    def architecture(self) -> str:
        """decoder, encoder or encoder-decoder."""
        return self.config.model.architecture


@dataclass(frozen=True)
class StoredRun:
    """A run whose model is still in its file: `tensors` are read from `weights` one by one."""

    directory: RunDirectory
    recipe: Recipe
    config: RunConfig
    tokenizer: Tokenizer
    weights: Path
    tensors: Mapping[str, Tensor]

    def fill(self, model: Transformer, only: Mapping[str, Tensor] | None = None) -> None:
        """Copy the weights into a model, or those of them that are named.

        Raises:
            BrokenInputError: they are damaged, or those of another model.
        """
        narrow = (torch.bfloat16, torch.float16) if self.recipe.is_imported else ()
        fill_model(model, self.tensors, self.weights, (torch.float32, *narrow), only)


def load_run(
    path: Path | str,
    checkpoint: str = "best",
    device: torch.device | str = "cpu",
    precision: WeightPrecision | None = None,
) -> LoadedRun:
    """Load a run directory.

    Args:
        checkpoint: "best" by validation, "last", or the number of a step that is kept.
        precision: for a model that is to predict and nothing else, which is then faster; None: as it was trained, to
            be looked into, trained on or written.

    Raises:
        UsageError: there is no run, no such checkpoint, or no such precision on this machine.
        BrokenInputError: a file is damaged, or weights, tokenizer and config do not belong together.
    """
    run = read_run(path, checkpoint)
    model = uninitialized_model(run.config.model)
    if precision == "bfloat16":
        model.bfloat16()
    model = model.to(device).eval()
    run.fill(model)
    if precision is not None:
        prepare_for_inference(model, precision)
    own = precision or "float32"
    return LoadedRun(
        run.directory,
        run.recipe,
        run.config,
        tokenizer=run.tokenizer,
        model=model,
        device=torch.device(device),
        precision=own,
    )


def read_run(path: Path | str, checkpoint: str = "best") -> StoredRun:
    """Read all of a run directory but the weights, which are opened.

    Raises:
        UsageError: there is no run, or no such checkpoint.
        BrokenInputError: a file is damaged, or tokenizer and config do not belong together.
    """
    directory = existing_run(Path(path))
    recipe = load_recorded(directory.recipe)
    config = read_config(directory.config)
    tokenizer = load_run_tokenizer(directory, config)
    config = replace(config, roles=tokenizer.roles)
    if recipe.model != config.model:
        raise BrokenInputError(f"{directory.recipe} and {directory.config} describe different models", _RESTORE)
    tensors: Mapping[str, Tensor]
    if checkpoint == "best":
        weights = directory.weights
        tensors = stored = StoredTensors(weights)
        require_belonging(stored.metadata, weights, config.run_id)
    else:
        weights = kept_checkpoint(directory, checkpoint)
        tensors = checkpoint_tensors(open_checkpoint(weights), "model", config.run_id)
    return StoredRun(directory, recipe, config, tokenizer=tokenizer, weights=weights, tensors=tensors)


def load_run_tokenizer(directory: RunDirectory, config: RunConfig) -> Tokenizer:
    """A run's tokenizer.

    Raises:
        BrokenInputError: it is not the one the run was trained with, or the model has fewer ids.
    """
    tokenizer = load_tokenizer(directory.tokenizer)
    rows = config.model.vocab_size
    if rows is None or rows < tokenizer.vocab_size:
        problem = f"{directory.config} has model.vocab_size = {rows}, and the tokenizer has {tokenizer.vocab_size} ids"
        raise BrokenInputError(problem, _RESTORE)
    return tokenizer.of_model(rows)


def kept_checkpoint(directory: RunDirectory, checkpoint: str) -> Path:
    """The folder of the checkpoint that `--checkpoint` names: "last", or a step.

    Raises:
        UsageError: there is none; lists those that are kept.
    """
    kept = directory.checkpoints()
    if not kept:
        raise UsageError(f"The run {directory.path} keeps no checkpoints", "use --checkpoint best")
    if checkpoint == "last":
        return kept[max(kept)]
    named = {str(step): folder for step, folder in kept.items()}.get(checkpoint.lstrip("0") or "0")
    if named is None:
        problem = f"The run {directory.path} keeps no checkpoint {shortened(checkpoint)!r}"
        raise UsageError(problem, f"choose best, last or {', '.join(map(str, kept))}")
    return named
