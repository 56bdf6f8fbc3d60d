"""Initial weights (Radford et al. 2019, section 2.3)."""

import torch
from torch import nn

from tfcli.recipe.model import ModelSection


def initialize(model: nn.Module, section: ModelSection, generator: torch.Generator) -> None:
    """Matrices from N(0, init_std²), biases 0, gains 1.

    Projections that add to the residual stream get init_std / √(2L), so that its variance does not grow with depth.
    Embeddings that are scaled by √D start with a standard deviation of 1/√D: the token and its position then weigh alike.
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
