"""FLOPs of a model, the floating-point operations of its matrix products: model FLOPs utilization is these a second.
Shape legend: T query length, S key length, D model, H heads, Hkv key-value heads, Dh size of a head, F feed-forward."""

from dataclasses import dataclass, fields
from typing import Any

from tfcli.recipe.model import ModelSection


@dataclass(frozen=True)
class ForwardFlops:
    """Operations of the matrix products of one forward pass: of queries, keys and values (`projections`), of weights
    times values (`mixing`), of attention's W^o (`output`), and so on."""

    projections: int
    scores: int
    mixing: int
    output: int
    feed_forward: int
    head: int

    @property
    def total(self) -> int:
        """All of them."""
        return sum(getattr(self, field.name) for field in fields(self))


def flops_by_part(
    section: ModelSection,
    sequences: int,
    length: int,
    *,
    target_length: int | None = None,
    labelled: int | None = None,
    hidden_too: bool = False,
) -> ForwardFlops:
    """Operations of all matrix products in one forward pass, a multiply-add counted as two. A token costs
    two for every weight that multiplies it: 2 D Dh (2 H + 2 Hkv) in the projections of an attention, 4 D F in a
    feed-forward (6 D F gated), 2 D Vocab in a linear head (2 D² more with a transform). A query and a key that meet
    cost 4 H Dh: the score, and its share of the mixture. Causal attention over T tokens has T (T + 1) / 2 meetings:
    what the mask hides is not counted, but with `hidden_too`, for the explicit path computes it. Norms, activations and
    softmaxes are left out, as by Kaplan et al. 2020 (section 2.1, table 1), who approximate it for N weights outside
    the embeddings by tokens · 2 N, 6 N with the backward pass.

        >>> sizes = ModelSection(vocab_size=10, d_model=4, num_layers=1, num_heads=1, activation="relu")
        >>> flops_by_part(sizes, 1, 2).total
        976

    That is 128 (projections), 256 (feed-forward) and 80 (head) for each of 2 tokens, and 3 meetings of 16. Of an
    encoder-decoder, `length` is the source's. The head reads `labelled` positions of the whole batch, or all.
    """
    assert section.vocab_size is not None, "the tokenizer decides the vocabulary before anything is counted"
    target = length if target_length is None else target_length
    layers, both = section.num_layers, section.architecture == "encoder-decoder"
    # Of one sequence: queries, keys and meetings of all layers' attentions, and tokens of all feed-forwards.
    queries = keys = tokens = layers * length
    meetings = layers * _meetings(section, length, causal=section.architecture == "decoder", hidden_too=hidden_too)
    if both:
        own = _meetings(section, target, causal=True, hidden_too=hidden_too)
        meetings += section.decoder_layers * (own + target * length)
        queries += section.decoder_layers * 2 * target
        keys += section.decoder_layers * (target + length)
        tokens += section.decoder_layers * target
    heads, of_keys = section.num_heads * section.size_per_head, section.kv_heads * section.size_per_head
    projected = section.attention_score != "parameter_free"
    read = sequences * (target if both else length) if labelled is None else labelled
    transform = 2 * section.d_model**2 if section.head == "transform" else 0
    of_head = 0 if section.head == "none" else transform + 2 * section.d_model * section.outputs
    return ForwardFlops(
        projections=2 * sequences * section.d_model * (heads * queries + 2 * of_keys * keys) if projected else 0,
        scores=2 * sequences * heads * meetings,
        mixing=2 * sequences * heads * meetings,
        output=2 * sequences * section.d_model * heads * queries if projected else 0,
        feed_forward=2 * sequences * tokens * section.d_model * section.inner_size * (3 if section.is_gated else 2),
        head=read * of_head,
    )


def training_flops(section: ModelSection, sequences: int, length: int, *, frozen: bool = False, **counted: Any) -> int:
    """Of a forward and a backward pass: three times the forward pass, for the backward one multiplies every matrix
    twice, for the gradient of its input and for its own, which `frozen` ones do not have (adapters are left out). What
    activation checkpointing computes again does not count (Chowdhery et al. 2022, appendix B). `counted`: what
    `flops_by_part` takes beside these."""
    parts = flops_by_part(section, sequences, length, **counted)
    return 3 * parts.total - (parts.total - parts.scores - parts.mixing if frozen else 0)


def _meetings(section: ModelSection, length: int, *, causal: bool, hidden_too: bool) -> int:
    """Pairs of a query and a key of one sequence that the mask lets through: those less than the window apart."""
    if hidden_too:
        return length * length
    window = min(section.sliding_window or length, length)
    before = window * (window - 1) // 2 + (length - window) * (window - 1)
    return length + (before if causal else 2 * before)
