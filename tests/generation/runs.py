"""Untrained runs with a real tokenizer."""

from functools import cache
from pathlib import Path
from typing import Any

import torch

from tests.generation.small import small_model
from tfcli.models.transformer import Transformer
from tfcli.recipe.data import TokenizerSection
from tfcli.recipe.recipe import Recipe
from tfcli.runs.config import RunConfig
from tfcli.runs.directory import RunDirectory
from tfcli.runs.load import LoadedRun
from tfcli.tokenization.tokenizer import Tokenizer
from tfcli.tokenization.train import train_tokenizer

TEXT = "the cat sat on the mat and the dog saw the cat. she ran to the river bank, and it was cold."


@cache
def tokenizer(algorithm: str = "bpe") -> Tokenizer:
    """A tokenizer of one sentence."""
    section = TokenizerSection(algorithm=algorithm, vocab_size=300)
    return train_tokenizer(lambda: iter([TEXT] * 4), section)[0]


def small(architecture: str, algorithm: str = "bpe", seed: int = 0, **section: Any) -> Transformer:
    """A model for a tokenizer of `tokenizer`."""
    return small_model(
        seed,
        architecture=architecture,
        vocab_size=tokenizer(algorithm).vocab_size,
        **({"max_seq_len": 32} | section),
    )


def run(architecture: str, algorithm: str = "bpe", seed: int = 0, **section: Any) -> LoadedRun:
    """As a run directory would give it."""
    model, words = small(architecture, algorithm, seed, **section), tokenizer(algorithm)
    config = RunConfig(model.section, words.roles, words.fingerprint, "test")
    return LoadedRun(RunDirectory(Path("run")), Recipe(), config, words, model, torch.device("cpu"))
