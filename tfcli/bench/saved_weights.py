"""Random weights that both sides of a generation benchmark have, in a folder that `transformers` loads."""

import time
from pathlib import Path

import torch

from tfcli.bench.generation_work import ROLES
from tfcli.bench.protocol import Answer
from tfcli.bench.synthetic_model import synthetic_model
from tfcli.files import write_json
from tfcli.interop.exporting import expressed
from tfcli.interop.tensors import give
from tfcli.recipe.recipe import Recipe
from tfcli.runs.weights import model_tensors, save_tensors


class SavedWeights:
    """Writes them in a step, in a process of its own: its memory is no side's."""

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        self.recipe, self.folder = recipe, folder
        self.device = torch.device("cpu")

    def about(self) -> Answer:
        """Nothing that is not known."""
        return {}

    def step(self) -> Answer:
        """Write config.json and model.safetensors.

        Raises:
            TfcliError: the disk is full.
        """
        began = time.perf_counter()
        model = synthetic_model(self.recipe.model, self.recipe.train.seed)
        same = expressed(self.recipe.model, model_tensors(model), ROLES)
        assert not isinstance(same, str), "asked for where there is none"
        write_json(self.folder / "config.json", same.config)
        save_tensors(
            self.folder / "model.safetensors", give(same.layout, same.section, same.parameters), {"format": "pt"}
        )
        return {"seconds": time.perf_counter() - began}
