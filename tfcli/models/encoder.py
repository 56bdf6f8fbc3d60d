"""The encoder, a masked language model: every token sees every other (Devlin et al. 2019)."""

from torch import Tensor

from tfcli.layers.embedding import TokenEmbedding
from tfcli.models.head import build_head
from tfcli.models.transformer import AttentionWeights, Stack, Transformer, collector
from tfcli.recipe.model import ModelSection


class Encoder(Transformer):
    """Embedding → stack without a future mask → head."""

    def __init__(self, section: ModelSection) -> None:
        super().__init__(section)
        self.embedding = TokenEmbedding(section)
        self.stack = Stack(section, section.num_layers, causal=False)
        self.head = build_head(section, self.embedding.weight)

    def hidden(
        self,
        input_ids: Tensor,
        padding_mask: Tensor | None = None,
        *,
        token_type_ids: Tensor | None = None,
        weights: AttentionWeights | None = None,
    ) -> Tensor:
        """A representation of every token in the light of all others.

        Shape:
            input_ids: (B, S)
            padding_mask: (B, S), True at real tokens
            token_type_ids: (B, S), which segment a token belongs to; None: all to the first
            returns: (B, S, D)
        """
        x = self.embedding(input_ids, token_type_ids=token_type_ids)
        return self.stack(x, padding_mask=padding_mask, self_weights=collector(weights, "encoder_self"))
