"""Small models and batches that every test of an architecture can use."""

from typing import Any

import torch
from torch import Tensor, nn

from tfcli.models.build import build_model
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection

ARCHITECTURES = ("decoder", "encoder", "encoder-decoder")
VOCAB, LENGTH = 11, 6


def section(architecture: str = "decoder", **settings: Any) -> ModelSection:
    """A model of two layers and two heads over 11 tokens."""
    sizes = {"vocab_size": VOCAB, "max_seq_len": 16, "d_model": 16, "num_layers": 2, "num_heads": 2}
    return ModelSection(architecture=architecture, **{**sizes, **settings})  # type: ignore[arg-type]


def model(architecture: str = "decoder", **settings: Any) -> Transformer:
    """A small lively model."""
    return lively(section(architecture, **settings))


def lively(wanted: ModelSection) -> Transformer:
    """A model in float64 and evaluation mode, with weights large enough that everything which can have an effect has
    one that is seen."""
    built = build_model(wanted).double().eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.normal_(0.0, 0.4, generator=generator)
    return built


def ids(batch: int = 2, length: int = LENGTH, seed: int = 0) -> Tensor:
    return torch.randint(0, VOCAB, (batch, length), generator=torch.Generator().manual_seed(seed))


def inputs(architecture: str) -> tuple[Tensor, ...]:
    """What the forward of an architecture takes: ids, and the decoder's for an encoder-decoder."""
    return (ids(), ids(length=5, seed=1)) if architecture == "encoder-decoder" else (ids(),)


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
