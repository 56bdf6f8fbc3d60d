"""Benchmark sides of tfcli: the steps of training, generation on random weights, and what every side is given to do."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tfcli.bench.measure import Answer, Side
from tfcli.files import write_json
from tfcli.generation.beam_search import continuations
from tfcli.interop.exporting import expressed
from tfcli.interop.tensors import checkpoint_of_parameters
from tfcli.layers.embedding import TokenEmbedding
from tfcli.models.build import build_model
from tfcli.models.device import choose_device, prepare_for_inference
from tfcli.models.head import Head
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection, WeightPrecision
from tfcli.recipe.recipe import GenerateSection, Recipe
from tfcli.records.roles import TokenRoles
from tfcli.runs.weights import model_tensors, save_tensors
from tfcli.training.job import StepBenchmark

# Models and configs want special tokens: the rows of these are zeros (`synthetic_model`), and never the likeliest.
ROLES = TokenRoles(pad=0, bos=0, eos=1)
_FIRST = 2  # the first id that serves as nothing else


@dataclass(frozen=True)
class GenerationWork:
    """`batch` prompts of random ids, of `prompt_tokens` each with what begins or ends it."""

    batch: int
    prompt_tokens: int
    new_tokens: int
    beam: int
    seed: int

    def prompts(self, architecture: str, vocab_size: int) -> list[list[int]]:
        """Ids to be read: of a decoder with its bos, of an encoder-decoder bare, without the end that follows."""
        shape = (self.batch, self.prompt_tokens - 1)
        drawn: list[list[int]] = np.random.default_rng(self.seed).integers(_FIRST, vocab_size, shape).tolist()
        return [[ROLES.bos, *ids] for ids in drawn] if architecture == "decoder" else drawn


class ModelSide(Side):
    """A side that measures a model."""

    model: Any
    precision: str
    parameters: int

    def about(self) -> Answer:
        """The model's class and its precision."""
        return {"model": type(self.model).__name__, "precision": self.precision, "parameters": self.parameters}


class GenerationBench(ModelSide):
    """A side that generates; its subclass has the model, counts its parameters, and says how."""

    def __init__(self, recipe: Recipe, work: GenerationWork, precision: str) -> None:
        torch.set_num_threads(recipe.train.threads)
        self.device, self.work, self.precision = choose_device(recipe.train.device), work, precision
        assert recipe.model.vocab_size is not None
        self.prompts = work.prompts(recipe.model.architecture, recipe.model.vocab_size)

    def step(self) -> Answer:
        """All texts once, under "ids"; before that, how long one new token takes, under "prefill"."""
        began = time.perf_counter()
        self.generate(1)
        first = time.perf_counter()
        ids = self.generate(self.work.new_tokens)
        return {"prefill": first - began, "seconds": time.perf_counter() - first, "ids": ids}

    def generate(self, new_tokens: int) -> list[list[int]]:
        """So many new ids of every prompt."""
        raise NotImplementedError


_GAIN = 3.0  # how much larger what a layer computes is than what it reads


def synthetic_model(section: ModelSection, seed: int) -> Transformer:
    """A model without dropout that says something else at every step, and never ends; the same in every process. Its
    layers outweigh the embeddings, or it would repeat its last token. Logits differ by about 1, so that beams have a
    choice. The rows of padding and end are zeros in the head: of all the others one is higher."""
    model, generator = build_model(section, seed).eval(), torch.Generator().manual_seed(seed)
    head = model.get_submodule("head")
    assert isinstance(head, Head)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Linear):
                module.weight.normal_(std=_GAIN * module.in_features**-0.5, generator=generator)
            elif isinstance(module, TokenEmbedding | Head):
                module.weight.normal_(std=section.d_model**-0.5, generator=generator)
        head.weight[[ROLES.pad, ROLES.eos]] = 0.0
    return model


def weights_of_a_token(model: Transformer) -> int:
    """Numbers in the matrices that one new token is multiplied with: no embeddings, nor what is computed once for a
    source (the encoder, and the keys and values of cross-attention)."""
    once = ("cross_attention.key", "cross_attention.value")
    return sum(
        module.weight.numel()
        for name, module in model.named_modules()
        if isinstance(module, Head | nn.Linear) and not (name.startswith("encoder.") or name.endswith(once))
    )


class SavedWeights(Side):
    """Writes them in a step, in a process of its own: its memory is no side's."""

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        self.recipe, self.folder = recipe, folder

    def step(self) -> Answer:
        """Write config.json and model.safetensors."""
        model = synthetic_model(self.recipe.model, self.recipe.train.seed)
        same = expressed(self.recipe.model, model_tensors(model), ROLES)
        assert not isinstance(same, str), "asked for where there is none"
        write_json(self.folder / "config.json", same.config)
        tensors = checkpoint_of_parameters(same.layout, same.section, same.parameters)
        save_tensors(self.folder / "model.safetensors", tensors, {"format": "pt"})
        return {}


class TfcliSteps(ModelSide):
    """Trains a recipe's model on random ids."""

    def __init__(self, recipe: Recipe) -> None:
        self.trial = StepBenchmark(recipe)
        self.device, self.model = self.trial.parts.device, self.trial.parts.model
        self.precision, self.parameters = self.trial.recipe.train.precision, self.model.num_parameters()

    def step(self) -> Answer:
        """One optimizer step, with its batches."""
        began = time.perf_counter()
        loss = float(self.trial.step())
        self.trial.wait()
        return {"seconds": time.perf_counter() - began, "loss": loss, "tokens": self.trial.tokens}


class TfcliGeneration(GenerationBench):
    """Greedy or with beams, on the recipe's model with random weights, laid out as those of a run are."""

    def __init__(self, recipe: Recipe, work: GenerationWork, precision: WeightPrecision) -> None:
        super().__init__(recipe, work, precision)
        self.model = synthetic_model(recipe.model, recipe.train.seed).to(self.device)
        self.parameters = self.model.num_parameters()
        prepare_for_inference(self.model, precision)
        self.settings = GenerateSection(temperature=0.0, beam=work.beam, max_new_tokens=work.new_tokens)

    def generate(self, new_tokens: int) -> list[list[int]]:  # noqa: D102
        settings = replace(self.settings, max_new_tokens=new_tokens)
        return [list(best.token_ids) for best, *_ in continuations(self.model, self.prompts, ROLES, settings)]
