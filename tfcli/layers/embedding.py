"""From token ids to the vectors that enter the first layer."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfcli.layers.sinusoidal import sinusoidal_encoding
from tfcli.recipe.model import ModelSection


class TokenEmbedding(nn.Module):
    """One row of the embedding matrix a token, plus its position where positions are added (not rotary).

    X = s·E[ids] + P, with s from `ModelSection.embedding_scale`; E[ids] is one-hot(ids) · E, unmultiplied.
    """

    positions: Tensor | None

    def __init__(self, model: ModelSection) -> None:
        super().__init__()
        assert model.vocab_size is not None, "the tokenizer decides the vocabulary before a model is built"
        self.scale, self.dropout = model.embedding_scale, model.dropout
        self.weight = nn.Parameter(torch.empty(model.vocab_size, model.d_model))
        if model.positions == "learned":
            self.positions = nn.Parameter(torch.empty(model.max_seq_len, model.d_model))
        elif model.positions == "sinusoidal":
            table = sinusoidal_encoding(model.max_seq_len, model.d_model, model.position_base)
            self.register_buffer("positions", table, persistent=False)
        else:
            self.positions = None

    def forward(self, input_ids: Tensor, offset: int = 0) -> Tensor:
        """Embed ids whose first one stands at position `offset`.

        Shape:
            input_ids: (B, T)
            returns: (B, T, D)
        """
        x = F.embedding(input_ids, self.weight) * self.scale
        if self.positions is not None:
            end = offset + input_ids.shape[1]
            assert end <= len(self.positions), f"position {end - 1} is beyond the context of {len(self.positions)}"
            x = x + self.positions[offset:end]
        return F.dropout(x, self.dropout, self.training)
