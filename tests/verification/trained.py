"""Runs that were trained, which checks of whole runs need: tiny, with dropout, and with a checkpoint."""

from pathlib import Path
from typing import Any

from tests.support.runs import ARCHITECTURES, Settings, tiny_recipe, train_tiny
from tfcli.pipeline.datasets import dataset_of_run
from tfcli.runs.load import load_run
from tfcli.verification.check import VerifiedRun

__all__ = ["ARCHITECTURES", "subject_of", "train"]

_SHORT: Settings = {
    "data": {"max_documents": 60},
    "model": {"dropout": 0.2},
    "train": {"steps": 6, "evaluate_every": 0, "save_every": 3, "ema_decay": 0.5, "grad_accumulation": 2},
}


def train(out: Path, architecture: str = "decoder", **model: Any) -> Path:
    """Train a tiny run of an architecture, with settings of its model."""
    words = {"tokenizer": {"algorithm": "bpe", "vocab_size": 300}}
    padded = {} if architecture == "encoder-decoder" else {"train": {"windows": "documents"}}
    train_tiny(tiny_recipe(architecture, _SHORT, words, padded, {"model": model}), out)
    return out


def subject_of(path: Path) -> VerifiedRun:
    """A run with its own text, as the command has it."""
    run = load_run(path)
    return VerifiedRun(run, dataset_of_run(run.directory, run.recipe, lambda event: None))
