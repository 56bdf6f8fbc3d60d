"""What of a model reads a text: an encoder, a decoder, or an encoder-decoder's encoder."""

from dataclasses import dataclass

from torch import Tensor

from tfcli.layers.embedding import TokenEmbedding
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.models.decoder import Decoder
from tfcli.models.encoder import Encoder
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.models.stack import Stack
from tfcli.models.transformer import Transformer


@dataclass(frozen=True)
class Tower:
    """The embedding and the stack that read a text; an encoder-decoder's encoder."""

    embedding: TokenEmbedding
    stack: Stack

    def hidden(self, ids: Tensor) -> Tensor:
        """Shape: ids (1, T); returns (T, D)."""
        hidden: Tensor = self.stack(self.embedding(ids))
        return hidden[0]

    @property
    def masked(self) -> bool:
        """Whether a token is kept from seeing those after it."""
        return any(attention.causal for attention in self.attentions())

    def attentions(self) -> list[MultiHeadAttention]:
        """The self-attention of every layer."""
        return [module for module in self.stack.modules() if isinstance(module, MultiHeadAttention)]


def tower(model: Transformer) -> Tower:
    """What of a model reads a text."""
    assert isinstance(model, Decoder | Encoder | EncoderDecoder)
    return Tower(model.embedding, model.encoder if isinstance(model, EncoderDecoder) else model.stack)
