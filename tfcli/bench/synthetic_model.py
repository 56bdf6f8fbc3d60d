"""Synthetic model of a generation benchmark: random weights, of which no token ends a text."""

import torch
from torch import nn

from tfcli.bench.generation_work import ROLES
from tfcli.layers.embedding import TokenEmbedding
from tfcli.models.build import build_model
from tfcli.models.head import Head
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection

_GAIN = 3.0
"""How much larger what a layer computes is than what it reads."""


def synthetic_model(section: ModelSection, seed: int) -> Transformer:
    """A model without dropout that says something else at every step, and never ends. The same section and seed give
    the same weights in every process.

    The layers outweigh the embeddings: with the usual first weights a model repeats its last token, and two libraries
    that agree on that agree on little. Logits differ by about 1, so that beams have a choice. The rows of padding and
    end are zeros in the head: their logits are 0, and of all the others one is higher.
    """
    model = build_model(section, seed).eval()
    generator = torch.Generator().manual_seed(seed)
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
    """Numbers in the matrices that one new token is multiplied with.

    Rows of embeddings are looked up; what is computed once for a source (the encoder, and the keys and values of
    cross-attention) is not read again.
    """
    numbers = 0
    for name, module in model.named_modules():
        once = name.startswith("encoder.") or name.endswith(("cross_attention.key", "cross_attention.value"))
        if isinstance(module, Head | nn.Linear) and not once:
            numbers += module.weight.numel()
    return numbers
