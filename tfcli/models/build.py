"""Building a model from its recipe section: initialised, unfilled, or of shapes alone."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import init
from torch.overrides import TorchFunctionMode

from tfcli.models.decoder import Decoder
from tfcli.models.encoder import Encoder
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.models.initialization import initialize
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection

ARCHITECTURES: dict[str, type[Transformer]] = {
    "decoder": Decoder,
    "encoder": Encoder,
    "encoder-decoder": EncoderDecoder,
}


def build_model(section: ModelSection, seed: int = 0) -> Transformer:
    """A freshly initialised model on the CPU. The same section and seed give the same weights."""
    model = ARCHITECTURES[section.architecture](section)
    initialize(model, section, torch.Generator().manual_seed(seed))
    return model


def unfilled(section: ModelSection) -> Transformer:
    """A model on the CPU that is about to be filled: its weights are never written, and take no memory until then."""
    with _Unwritten():
        return ARCHITECTURES[section.architecture](section)


class _Unwritten(TorchFunctionMode):
    """Leaves out what PyTorch's own layers draw when they are made."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        return named["tensor"] if func in (init.kaiming_uniform_, init.uniform_) else func(*args, **named)


def weightless(section: ModelSection) -> Transformer:
    """A model of shapes without numbers: any size at no cost."""
    with torch.device("meta"):
        return ARCHITECTURES[section.architecture](section)
