"""What a forward pass costs, exactly: every matrix product of the explicit path, every parameter.

Shape legend: B sequences, N tokens of each (of both sides, for pairs), D model, H heads, Hkv key-value heads, Dh size
of a head, F feed-forward.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch.utils.flop_counter import FlopCounterMode

from tfcli.models.build import weightless
from tfcli.models.flops import ForwardFlops, flops_by_part
from tfcli.models.parameter_parts import part_of
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection
from tfcli.records.cost import CostAtLength, CostPart, CostRecord

FLOAT = 4
"""Bytes of a float32."""

_SHORTEST = 128
_PRODUCTS = {
    "query": "projections",
    "key": "projections",
    "value": "projections",
    "output": "output",
    "score": "scores",
    "relative_bias": "scores",
}
"""Which product of an attention its modules belong to."""


def model_cost(section: ModelSection, length: int | None = None, sequences: int = 1) -> CostRecord:
    """The cost of `sequences` texts of `length` tokens, and how it grows from 128 tokens to beyond the crossover.

    Args:
        section: with its vocabulary.
        length: None: the context.
    """
    length = length or section.max_seq_len
    one = flops_by_part(section, 1, 1, hidden_too=True)
    a_token, a_pair = _linear(one), one.scores + one.mixing
    lengths = _lengths(length, a_token / a_pair)
    return CostRecord(
        architecture=section.architecture,
        d_model=section.d_model,
        num_layers=section.num_layers,
        num_decoder_layers=_decoder_layers(section),
        num_heads=section.num_heads,
        num_kv_heads=section.kv_heads,
        head_dim=section.size_per_head,
        d_ff=section.inner_size,
        is_gated=section.is_gated,
        has_projections=section.attention_score != "parameter_free",
        sequences=sequences,
        length=length,
        parameters=weightless(section).num_parameters(),
        parts=_parts(section, length, sequences),
        counted_flops=counted_flops(section, length, sequences),
        lengths=tuple(_at(section, n, sequences) for n in lengths),
        flops_a_token=a_token,
        flops_a_pair=a_pair,
    )


def counted_flops(section: ModelSection, length: int, sequences: int = 1) -> int:
    """What PyTorch's counter finds in a forward pass on the explicit path. The tensors have shapes and no numbers, so
    any size is counted at once."""
    model = weightless(replace(section, max_seq_len=max(length, section.max_seq_len)))
    ids = torch.zeros(sequences, length, dtype=torch.long, device="meta")
    with FlopCounterMode(display=False) as counter:
        run_explicitly(model, ids)
    return int(counter.get_total_flops())


def run_explicitly(model: Transformer, ids: torch.Tensor) -> None:
    """A forward pass that fuses nothing, over the same ids on both sides of an encoder-decoder.

    Shape:
        ids: (B, N)
    """
    sides = [ids] * (2 if model.section.architecture == "encoder-decoder" else 1)
    (model.hidden if model.section.head == "none" else model)(*sides, weights={})


def part_parameters(section: ModelSection) -> dict[str, int]:
    """Parameters by the part that they belong to; a tied matrix is among the embeddings."""
    found: dict[str, int] = {}
    for name, parameter in weightless(section).named_parameters():
        part = _part_of(name)
        found[part] = found.get(part, 0) + parameter.numel()
    return found


def _part_of(name: str) -> str:
    part = part_of(name)
    if part not in ("attention", "cross_attention"):
        return part
    return next(_PRODUCTS[module] for module in name.split(".") if module in _PRODUCTS)


def _parts(section: ModelSection, length: int, sequences: int) -> tuple[CostPart, ...]:
    flops = flops_by_part(section, sequences, length, hidden_too=True)
    parameters, made = part_parameters(section), _numbers_made(section, length)
    parts = []
    for name in ("embeddings", "projections", "scores", "mixing", "output", "feed_forward", "head", "norms"):
        size = FLOAT * sequences * made.get(name, 0)
        parts.append(CostPart(name, getattr(flops, name, 0), parameters.get(name, 0), size))
    return tuple(parts)


def _numbers_made(section: ModelSection, length: int) -> dict[str, int]:
    """Results of the matrix products of one sequence, and its embedded tokens. All follow from the shapes: B and the
    sizes that are summed over drop out of an operation count of 2 · rows · inner · columns."""
    assert section.vocab_size is not None
    layers, decoder = section.num_layers, _decoder_layers(section)
    tokens, attentions, sides = (layers + decoder) * length, layers + 2 * decoder, 2 if decoder else 1
    heads, of_keys = section.num_heads * section.size_per_head, section.kv_heads * section.size_per_head
    projected = section.attention_score != "parameter_free"
    logits = section.vocab_size + (section.d_model if section.head == "transform" else 0)
    return {
        "embeddings": sides * length * section.d_model,
        "projections": attentions * length * (heads + 2 * of_keys) if projected else 0,
        "scores": attentions * section.num_heads * length**2,
        "mixing": attentions * length * heads,
        "output": attentions * length * section.d_model if projected else 0,
        "feed_forward": tokens * (section.inner_size * (2 if section.is_gated else 1) + section.d_model),
        "head": 0 if section.head == "none" else length * logits,
    }


def _at(section: ModelSection, length: int, sequences: int) -> CostAtLength:
    flops = flops_by_part(section, sequences, length, hidden_too=True)
    return CostAtLength(
        length=length,
        projections=flops.projections + flops.output,
        feed_forward=flops.feed_forward,
        scores_and_mixing=flops.scores + flops.mixing,
        head=flops.head,
        visible_flops=flops_by_part(section, sequences, length).total,
        bytes_made=FLOAT * sequences * sum(_numbers_made(section, length).values()),
        cache_bytes=FLOAT * sequences * length * _remembered(section),
    )


def _remembered(section: ModelSection) -> int:
    """Numbers that generation keeps of a token: a key and a value in every attention of the decoder."""
    attentions = {"encoder": 0, "decoder": section.num_layers, "encoder-decoder": 2 * section.decoder_layers}
    return 2 * attentions[section.architecture] * section.kv_heads * section.size_per_head


def _linear(flops: ForwardFlops) -> int:
    return flops.projections + flops.output + flops.feed_forward


def _decoder_layers(section: ModelSection) -> int:
    return section.decoder_layers if section.architecture == "encoder-decoder" else 0


def _lengths(length: int, crossover: float) -> Sequence[int]:
    """Powers of two from 128 to beyond twice the crossover, and `length`."""
    lengths = [_SHORTEST]
    while lengths[-1] < max(2 * crossover, length, 8 * _SHORTEST):
        lengths.append(2 * lengths[-1])
    return sorted({*lengths, length})
