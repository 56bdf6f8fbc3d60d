"""A model from its recipe section."""

import torch

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


def weightless(section: ModelSection) -> Transformer:
    """A model of shapes without numbers: any size at no cost."""
    with torch.device("meta"):
        return ARCHITECTURES[section.architecture](section)
