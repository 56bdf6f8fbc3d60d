"""The transformer as a decoder, an encoder and an encoder-decoder: embeddings, a stack of layers, and a head."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from tfcli.errors import UsageError
from tfcli.layers.attention import Span
from tfcli.layers.embedding import TokenEmbedding
from tfcli.layers.layer import LayerCache, TransformerLayer
from tfcli.layers.multi_head import AttentionPath, MultiHeadAttention
from tfcli.layers.norms import build_norm
from tfcli.layers.positions import AttentionPositions, attention_positions
from tfcli.models.head import build_head
from tfcli.recipe.model import ModelSection

AttentionWeights = dict[str, list[Tensor]]  # kind ("encoder_self", "decoder_self", "cross") → a (B, H, T, S) a layer


class Transformer(nn.Module):
    """Base of `Encoder`, `Decoder` and `EncoderDecoder`: each has `hidden(…)`, and logits are head(hidden)."""

    head: nn.Module

    def __init__(self, section: ModelSection) -> None:
        super().__init__()
        self.section = section

    def hidden(self, *inputs: Any, **options: Any) -> Tensor:
        """The last vectors, (B, T, D), which the head turns into logits; each architecture says what it takes."""
        raise NotImplementedError

    def forward(self, *inputs: Any, **options: Any) -> Tensor:
        """Logits of a token at every position, (B, T, Vocab), from what `hidden` takes."""
        return self.head(self.hidden(*inputs, **options))

    @property
    def transformer_layers(self) -> list[TransformerLayer]:
        """Those of all stacks."""
        return [module for module in self.modules() if isinstance(module, TransformerLayer)]

    @property
    def attentions(self) -> list[MultiHeadAttention]:
        """Self-attentions and cross-attentions of all layers."""
        return [module for module in self.modules() if isinstance(module, MultiHeadAttention)]

    def use_in_training(self, path: AttentionPath) -> None:
        """Let all attention go that way in training."""
        for attention in self.attentions:
            attention.use_in_training(path)

    def use_gradient_checkpointing(self) -> None:
        """Compute the activations of every layer again for the backward pass."""
        for layer in self.transformer_layers:
            layer.use_gradient_checkpointing()

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the weights."""
        return next(self.parameters()).dtype

    def num_parameters(self) -> int:
        """Numbers of all weights; a tied matrix counts once."""
        return sum(p.numel() for p in self.parameters())


def collector(weights: AttentionWeights | None, kind: str) -> list[Tensor] | None:
    """The list that receives the weights of one kind; None where no weights are wanted."""
    return None if weights is None else weights.setdefault(kind, [])


class StackCache(Protocol):
    """What a stack remembers between the steps of a generation."""

    layers: Sequence[LayerCache]

    @property
    def length(self) -> int:
        """Tokens remembered so far."""

    def span(self, tokens: int) -> Span:
        """Where so many further tokens stand, behind those remembered."""


class Stack(nn.Module):
    """Layers one after the other; with pre-norm, a last norm after them (the residual stream is never normalised)."""

    def __init__(self, model: ModelSection, num_layers: int, *, causal: bool, cross_attention: bool = False) -> None:
        super().__init__()
        self.positions = attention_positions(model, bidirectional=not causal)
        kind = {"causal": causal, "cross_attention": cross_attention}
        self.layers = nn.ModuleList(TransformerLayer(model, **kind) for _ in range(num_layers))
        self.final_norm = build_norm(model) if model.norm_placement == "pre" else nn.Identity()

    def forward(
        self,
        x: Tensor,
        *,
        padding_mask: Tensor | None = None,
        document_starts: Tensor | None = None,
        memory: Tensor | None = None,
        memory_padding_mask: Tensor | None = None,
        prefix: Tensor | None = None,
        cache: StackCache | None = None,
        self_weights: list[Tensor] | None = None,
        cross_weights: list[Tensor] | None = None,
    ) -> Tensor:
        """Run the layers in order on embedded tokens, with a cache behind those it remembers. `memory` is the encoder's
        output; `prefix` needs more than one token; `self_weights` and `cross_weights` receive the weights of a layer.
        Shape: x, returns (B, T, D); memory (B, S, D); weights (B, H, T, S) a layer; masks as of `attention_mask`."""
        length = x.shape[1]
        positions = self.positions(span_of(length, cache, document_starts))
        remembered = 0 if cache is None else cache.length
        mask = None
        if len(self.layers):  # it depends on no layer, and is built once for all
            first: Any = self.layers[0]
            seen: dict[str, Any] = {"document_starts": document_starts, "bias": positions.bias, "prefix": prefix}
            seen |= {"explicit": self_weights is not None, "device": x.device}
            mask = first.attention.mask_of_pass(padding_mask, length, remembered + length, **seen)
        own = {"padding_mask": padding_mask, "mask": mask, "positions": positions, "self_weights": self_weights}
        source = {"memory": memory, "memory_padding_mask": memory_padding_mask, "cross_weights": cross_weights}
        for index, layer in enumerate(self.layers):
            x = layer(x, **own, **source, cache=None if cache is None else cache.layers[index])
        return self.final_norm(x)


def span_of(tokens: int, cache: StackCache | None, document_starts: Tensor | None = None) -> Span:
    """Where the tokens of a pass stand: at the beginning, each in its document, or behind what a cache remembers."""
    return Span(0, tokens, document_starts) if cache is None else cache.span(tokens)


class OneStack(Transformer):
    """What a decoder and an encoder are: one stack over one embedding."""

    causal: bool

    def __init__(self, section: ModelSection) -> None:
        super().__init__(section)
        self.embedding = TokenEmbedding(section)
        self.stack = Stack(section, section.num_layers, causal=self.causal)
        self.head = build_head(section, self.embedding.weight)

    def hidden(
        self,
        input_ids: Tensor,
        padding_mask: Tensor | None = None,
        *,
        document_starts: Tensor | None = None,
        prefix: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        cache: StackCache | None = None,
        weights: AttentionWeights | None = None,
    ) -> Tensor:
        """The last vectors, from which a decoder's head predicts the next tokens; an encoder's see all other tokens.
        Shape: input_ids (B, T); padding_mask (B, S), True at real tokens, S = T and what a cache remembers before it;
        document_starts (B, T), prefix (B,), as of `attention_mask`; token_type_ids (B, T), a token's segment, None: the
        first; returns (B, T, D)."""
        x = self.embedding(input_ids, span_of(input_ids.shape[1], cache, document_starts), token_type_ids)
        seen = {"padding_mask": padding_mask, "document_starts": document_starts, "prefix": prefix}
        kind = "decoder_self" if self.causal else "encoder_self"
        return self.stack(x, **seen, cache=cache, self_weights=collector(weights, kind))


class Decoder(OneStack):
    """A causal language model: each token sees those before it and predicts the next (Radford et al. 2018). With
    `reads_prefix`, prompts are read both ways, as a prefix language model was trained to."""

    causal, reads_prefix = True, False


class Encoder(OneStack):
    """A masked language model: every token sees every other (Devlin et al. 2019)."""

    causal = False


class EncoderDecoder(Transformer):
    """A source is encoded, and a target decoded token by token in its light (Vaswani et al. 2017). Two stacks, each
    over its side's embedding: in the decoder, queries of cross-attention come from the target, keys and values from the
    encoder's output. The sides share the matrix of token embeddings where the recipe says so."""

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
        """The source, (B, S), as the decoder sees it, (B, S, D); padding_mask: (B, S), True at real tokens."""
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
        """The last vectors, (B, T, D), of the target shifted right by one, (B, T), whose padding at the end the causal
        mask hides. Of the source, memory: (B, S, D), padding_mask: (B, S)."""
        x = self.target_embedding(decoder_input_ids, span_of(decoder_input_ids.shape[1], cache))
        wanted = {"self_weights": collector(weights, "decoder_self"), "cross_weights": collector(weights, "cross")}
        return self.decoder(x, memory=memory, memory_padding_mask=padding_mask, cache=cache, **wanted)

    def hidden(
        self,
        input_ids: Tensor,
        decoder_input_ids: Tensor,
        padding_mask: Tensor | None = None,
        *,
        weights: AttentionWeights | None = None,
    ) -> Tensor:
        """Encode, (B, S), then decode with the true target before each position (teacher forcing), (B, T, D)."""
        memory = self.encode(input_ids, padding_mask, weights=weights)
        return self.decode(decoder_input_ids, memory, padding_mask, weights=weights)


ParameterPart = Literal["embeddings", "attention", "cross_attention", "feed_forward", "norms", "head"]
_PARTS: tuple[ParameterPart, ...] = ("cross_attention", "attention", "feed_forward", "head")  # modules are so named


def part_of_parameter(name: str) -> ParameterPart:
    """The part of a model that a parameter belongs to: a norm is one of the norms wherever it stands, tables of
    positions are embeddings also where queries and keys alone get them, a bias of distances is part of its attention.

        >>> part_of_parameter("stack.layers.0.attention.query.weight")
        'attention'
        >>> part_of_parameter("stack.layers.0.attention_residual.norm.weight")
        'norms'
    """
    modules = name.split(".")
    if any(module.endswith("norm") for module in modules):
        return "norms"
    if named := [part for part in _PARTS if part in modules]:
        return named[0]
    if "relative_bias" in modules:
        return "attention"
    assert any(module == "positions" or module.endswith("embedding") for module in modules), name
    return "embeddings"


def extend_context(model: Transformer, length: int) -> None:
    """Make room for `length` positions in a model's tables; learned ones are refused. Biases have no end."""
    require_extendable(model)
    for module in model.modules():
        if isinstance(module, TokenEmbedding | AttentionPositions):
            module.extend(length)


def require_extendable(model: Transformer) -> None:
    """Refuse to go beyond the context where positions end there: where they are learned."""
    if model.section.positions == "learned":
        own = f"This model has learned its {model.section.max_seq_len} positions one by one"
        remedy = "choose --beyond-context slide (forget the oldest) or stop (end the text there)"
        raise UsageError(f"{own}, and has none beyond them", f"ask for fewer tokens, or {remedy}")
