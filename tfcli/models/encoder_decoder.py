"""The encoder-decoder: a source is encoded, and a target decoded token by token in its light (Vaswani et al. 2017)."""

from torch import Tensor

from tfcli.layers.embedding import TokenEmbedding
from tfcli.models.head import build_head
from tfcli.models.transformer import AttentionWeights, Stack, StackCache, Transformer, collector, span_of
from tfcli.recipe.model import ModelSection


class EncoderDecoder(Transformer):
    """Two stacks, each over its side's embedding: in the decoder, queries of cross-attention come from the target, keys
    and values from the encoder's output. The sides share the matrix of token embeddings where the recipe says so."""

    def __init__(self, section: ModelSection) -> None:
        super().__init__(section)
        self.embedding = TokenEmbedding(section)
        self.target_embedding = TokenEmbedding(section, self.embedding.weight if section.share_embeddings else None)
        self.encoder = Stack(section, section.num_layers, causal=False)
        self.decoder = Stack(section, section.decoder_layers, causal=True, cross_attention=True)
        self.head = build_head(section, self.target_embedding.weight)

    def encode(
        self, input_ids: Tensor, padding_mask: Tensor | None = None, *, weights: AttentionWeights | None = None
    ) -> Tensor:
        """The source as the decoder sees it.

        Shape:
            input_ids: (B, S)
            padding_mask: (B, S), True at real tokens
            returns: (B, S, D)
        """
        x = self.embedding(input_ids)
        return self.encoder(x, padding_mask=padding_mask, self_weights=collector(weights, "encoder_self"))

    def decode(
        self,
        decoder_input_ids: Tensor,
        memory: Tensor,
        padding_mask: Tensor | None = None,
        *,
        cache: StackCache | None = None,
        weights: AttentionWeights | None = None,
    ) -> Tensor:
        """The last vectors of the target. Padding at the target's end needs no mask: the causal one hides it.

        Shape:
            decoder_input_ids: (B, T), the target shifted right by one
            memory: (B, S, D); padding_mask: (B, S), of the source
            returns: (B, T, D)
        """
        return self.decoder(
            self.target_embedding(decoder_input_ids, span_of(decoder_input_ids.shape[1], cache)),
            memory=memory,
            memory_padding_mask=padding_mask,
            cache=cache,
            self_weights=collector(weights, "decoder_self"),
            cross_weights=collector(weights, "cross"),
        )

    def hidden(
        self,
        input_ids: Tensor,
        decoder_input_ids: Tensor,
        padding_mask: Tensor | None = None,
        *,
        weights: AttentionWeights | None = None,
    ) -> Tensor:
        """Encode, then decode with the true target before each position (teacher forcing).

        Shape:
            input_ids, padding_mask: (B, S); decoder_input_ids: (B, T)
            returns: (B, T, D)
        """
        memory = self.encode(input_ids, padding_mask, weights=weights)
        return self.decode(decoder_input_ids, memory, padding_mask, weights=weights)
