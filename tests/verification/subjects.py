"""Runs to be verified: untrained, with weights large enough that every slip is seen."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from tests.generation.runs import tokenizer
from tests.generation.small import small_model
from tfcli.models.presets import preset
from tfcli.recipe.loading import build_recipe
from tfcli.recipe.recipe import Recipe
from tfcli.runs.config import RunConfig
from tfcli.runs.directory import RunDirectory
from tfcli.runs.load import LoadedRun
from tfcli.verification import Check
from tfcli.verification.check import Proof, VerifiedRun
from tfcli.verification.verify import OwnPath

_SMALL = {"d_model": 8, "num_layers": 2, "num_heads": 2, "d_ff": 16, "max_seq_len": 24, "init_std": 0.7}


def subject(architecture: str = "decoder", algorithm: str = "bpe", **section: Any) -> VerifiedRun:
    """A tiny model of an architecture, in float32 as runs are, with made-up text."""
    words = tokenizer(algorithm)
    sizes = {"vocab_size": words.vocab_size, "architecture": architecture, "initialization": "gpt2"}
    recipe = build_recipe({"model": {**sizes, **_SMALL, **section}})
    return _subject(recipe, algorithm)


def subject_of_preset(name: str, **section: Any) -> VerifiedRun:
    """A preset, made tiny."""
    small = {**_SMALL, "num_kv_heads": None, "num_decoder_layers": None, "head_dim": None}
    sizes = {"vocab_size": tokenizer().vocab_size, "initialization": "gpt2"}
    return _subject(build_recipe(preset(name), {"model": {**small, **sizes, **section}}), "bpe")


def _subject(recipe: Recipe, algorithm: str) -> VerifiedRun:
    words = tokenizer(algorithm)
    settings = {field: getattr(recipe.model, field) for field in recipe.model.__dataclass_fields__}
    model = small_model(**settings).float()
    config = RunConfig(recipe.model, words.roles, words.fingerprint, "test")
    run = LoadedRun(RunDirectory(Path("run")), recipe, config, words, model, torch.device("cpu"))
    return VerifiedRun(run, made_up_because="a test has none")


def verify(subject: VerifiedRun, proofs: Iterable[Proof]) -> Iterator[Check]:
    """One check after the other, as the command makes them."""
    own = OwnPath(subject)
    for wanted in proofs:
        yield own.look(wanted, wanted.check(subject))
