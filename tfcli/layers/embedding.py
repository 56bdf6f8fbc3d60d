"""Token embedding: from token ids to the vectors that enter the first layer, with their positions and types."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfcli.layers.attention import Span
from tfcli.layers.norms import build_norm
from tfcli.layers.positions import PositionTable
from tfcli.recipe.model import JOINED_TO_EMBEDDINGS, ModelSection


class TokenEmbedding(PositionTable):
    """One row of the embedding matrix a token, joined by its position and its type where the recipe says so. X =
    s·E[ids] + P, or [s·E[ids]; P] where positions are concatenated, with s from `ModelSection.embedding_scale`; E[ids]
    is one-hot(ids) · E, unmultiplied. `shared` is a matrix E to use instead of one of its own."""

    positions: Tensor

    def __init__(self, model: ModelSection, shared: nn.Parameter | None = None) -> None:
        super().__init__()
        assert model.vocab_size is not None, "the tokenizer decides the vocabulary before a model is built"
        self.section, self.scale, self.dropout = model, model.embedding_scale, model.embedding_dropout_rate
        self.concatenates = model.concatenated_size > 0
        size = model.d_model - model.concatenated_size
        self.weight = nn.Parameter(torch.empty(model.vocab_size, size)) if shared is None else shared
        self.token_types = nn.Parameter(torch.empty(model.token_types, size)) if model.token_types else None
        self.has_positions = model.positions in JOINED_TO_EMBEDDINGS and model.position_merge != "query_key"
        if self.has_positions:
            self.register_table()
        self.norm = build_norm(model) if model.embedding_norm else nn.Identity()

    def forward(self, input_ids: Tensor, span: Span | None = None, token_type_ids: Tensor | None = None) -> Tensor:
        """Embed ids, (B, T) → (B, T, D), at `span`, or at the beginning; without types, all are of type 0."""
        x = F.embedding(input_ids, self.weight)
        if self.scale != 1:
            x = x * self.scale
        if self.token_types is not None:
            x = x + (self.token_types[0] if token_type_ids is None else F.embedding(token_type_ids, self.token_types))
        if self.has_positions:
            rows = self.position_rows(span or Span(0, input_ids.shape[1]))
            x = torch.cat((x, rows.expand(len(x), -1, -1)), dim=-1) if self.concatenates else x + rows
        return F.dropout(self.norm(x), self.dropout, self.training)
