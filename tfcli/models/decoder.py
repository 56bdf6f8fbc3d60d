"""The decoder, a causal language model: each token sees those before it and predicts the next (Radford et al. 2018)."""

from torch import Tensor

from tfcli.layers.embedding import TokenEmbedding
from tfcli.models.head import build_head
from tfcli.models.transformer import AttentionWeights, Stack, StackCache, Transformer, collector, span_of
from tfcli.recipe.model import ModelSection


class Decoder(Transformer):
    """Embedding → causal stack → head."""

    def __init__(self, section: ModelSection) -> None:
        super().__init__(section)
        self.embedding = TokenEmbedding(section)
        self.stack = Stack(section, section.num_layers, causal=True)
        self.head = build_head(section, self.embedding.weight)

    def hidden(
        self,
        input_ids: Tensor,
        padding_mask: Tensor | None = None,
        *,
        cache: StackCache | None = None,
        weights: AttentionWeights | None = None,
    ) -> Tensor:
        """The last vectors, from which the head predicts the next tokens.

        Shape:
            input_ids: (B, T)
            padding_mask: (B, S), True at real tokens; S = T, and what a cache remembers before it
            returns: (B, T, D)
        """
        x = self.embedding(input_ids, span_of(input_ids.shape[1], cache))
        self_weights = collector(weights, "decoder_self")
        return self.stack(x, padding_mask=padding_mask, cache=cache, self_weights=self_weights)
