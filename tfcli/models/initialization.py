"""Initial weights."""

import torch
from torch import nn

from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.recipe.model import ModelSection


def initialize(model: nn.Module, section: ModelSection, generator: torch.Generator) -> None:
    """Matrices from N(0, init_std²), biases 0, gains 1 (Radford et al. 2019, section 2.3).

    Projections that add to the residual stream get init_std / √(2L), so that its variance does not grow with depth.
    Embeddings that are scaled by √D start with a standard deviation of 1/√D: a token then weighs as much as its
    position, and more than what the first layers add to it.
    """
    residual_std = section.init_std / (2 * section.num_layers) ** 0.5
    embedding_std = 1 / section.d_model**0.5 if section.embedding_scale != 1 else section.init_std
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
            elif ".norm." in name or "final_norm" in name:
                parameter.fill_(1.0)
            elif name == "embedding.weight":
                parameter.normal_(0.0, embedding_std, generator=generator)
            elif name.endswith("output.weight"):
                parameter.normal_(0.0, residual_std, generator=generator)
            else:
                parameter.normal_(0.0, section.init_std, generator=generator)
        if section.attention_init == "copying":
            for module in model.modules():
                if isinstance(module, MultiHeadAttention):
                    _pass_on(module, (2 / section.num_layers) ** 0.5, generator)


def _pass_on(attention: MultiHeadAttention, gain: float, generator: torch.Generator) -> None:
    """W^v orthogonal and W^o = gain · (W^v)ᵀ: together the heads add to a token what they attend to, unturned (with
    fewer key-value dimensions than D, its projection on them).

    After Trockman and Kolter 2023, who begin with value-output products near a multiple of the identity. It spares a
    small model the long plateau before it learns to copy from its context.
    """
    nn.init.orthogonal_(attention.value.weight, generator=generator)
    group = attention.num_heads // attention.num_kv_heads
    values = attention.value.weight.unflatten(0, (attention.num_kv_heads, attention.head_dim))
    attention.output.weight.copy_(gain / group * values.repeat_interleave(group, dim=0).flatten(0, 1).T)
