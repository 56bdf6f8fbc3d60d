"""From a token's last vector to one logit for every token of the vocabulary."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfcli.layers.embedding import TokenEmbedding
from tfcli.recipe.model import ModelSection


class Head(nn.Module):
    """h Wᵀ, with W the embedding matrix itself where `tie_embeddings` is on (Press and Wolf 2017).

    Shape:
        h: (…, D) → logits (…, Vocab)
    """

    def __init__(self, model: ModelSection, embedding: TokenEmbedding) -> None:
        super().__init__()
        self.weight = embedding.weight if model.tie_embeddings else nn.Parameter(torch.empty_like(embedding.weight))

    def forward(self, h: Tensor) -> Tensor:
        return F.linear(h, self.weight)
