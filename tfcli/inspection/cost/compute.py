"""What a forward pass costs, exactly: every matrix product of the explicit path, every parameter.
Shape legend: B sequences, N tokens of each side, D model, H heads, Hkv key-value heads, Dh a head, F feed-forward."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, get_args

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from tfcli.errors import UsageError
from tfcli.inspection import cost
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.models.build import build_model, meta_model
from tfcli.models.flops import flops_by_part
from tfcli.models.transformer import Transformer, part_of_parameter
from tfcli.recipe.model import ModelSection

FLOAT = 4  # bytes of a float32
_SHORTEST = 128
_PRODUCTS = dict.fromkeys(("query", "key", "value"), "projections")  # of the modules of an attention
_PRODUCTS |= {"output": "output", "score": "scores", "relative_bias": "scores"}
_SQUARE = 1024  # rows of the two matrices whose product is timed
_BUDGET = 0.25  # seconds that one measurement takes, roughly
_FEWEST, _MOST = 3, 50  # rounds of it
_OF_ATTENTION = ("d_model", "attention_score", "attention_bias", "attention_output_bias")
_OF_HEADS = ("num_heads", "num_kv_heads", "head_dim")
LENGTHS = (32, 64, 128, 256, 512, 1024)  # at which attention stands beside another layer
_LONGEST, _MOST_SCORES = 1.5, 1 << 29  # seconds, and bytes of a layer's scores, above which a length is left out
_MOST_BYTES = 4 << 30  # of the weights, or of a layer's scores and the logits, above which nothing is measured


def model_cost(section: ModelSection, length: int | None = None, sequences: int = 1) -> cost.CostRecord:
    """The cost of `sequences` texts of `length` tokens (None: the context), and how it grows by powers of two from 128
    tokens to beyond twice the crossover. The section has a vocabulary."""
    length = length or section.max_seq_len
    one = _at(section, 1, 1)
    a_token, a_pair = one.projections + one.feed_forward, one.scores_and_mixing
    lengths = [_SHORTEST]
    while lengths[-1] < max(2 * a_token / a_pair, length, 8 * _SHORTEST):
        lengths.append(2 * lengths[-1])
    model = meta_model(replace(section, max_seq_len=max(length, section.max_seq_len)))
    with FlopCounterMode(display=False) as counter:  # on the explicit path, by shapes alone
        run_explicitly(model, torch.zeros(sequences, length, dtype=torch.long, device="meta"))
    sizes = ("architecture", "d_model", "num_layers", "num_heads", "is_gated")
    return cost.CostRecord(
        **{name: getattr(section, name) for name in sizes},
        num_decoder_layers=_decoder_layers(section),
        num_kv_heads=section.kv_heads,
        head_dim=section.size_per_head,
        d_ff=section.inner_size,
        has_projections=section.attention_score != "parameter_free",
        sequences=sequences,
        length=length,
        parameters=meta_model(section).num_parameters(),
        parts=tuple(_parts(section, length, sequences)),
        counted_flops=int(counter.get_total_flops()),
        lengths=tuple(_at(section, n, sequences) for n in sorted({*lengths, length})),
        flops_a_token=a_token,
        flops_a_pair=a_pair,
    )


def run_explicitly(model: Transformer, ids: torch.Tensor) -> None:
    """A forward pass that fuses nothing, over the same ids (B, N) on both sides of an encoder-decoder."""
    sides = [ids] * (2 if model.section.architecture == "encoder-decoder" else 1)
    (model.hidden if model.section.head == "none" else model)(*sides, weights={})


def part_parameters(section: ModelSection) -> dict[str, int]:
    """Parameters by the part that they belong to; a tied matrix is among the embeddings."""
    found: Counter[str] = Counter()
    for name, parameter in meta_model(section).named_parameters():
        part: str = part_of_parameter(name)
        if part in ("attention", "cross_attention"):
            part = next(_PRODUCTS[module] for module in name.split(".") if module in _PRODUCTS)
        found[part] += parameter.numel()
    return found


def _parts(section: ModelSection, length: int, sequences: int) -> Iterator[cost.CostPart]:
    flops = flops_by_part(section, sequences, length, hidden_too=True)
    parameters, made = part_parameters(section), _numbers_made(section, length)
    for name in get_args(cost.PartName):
        size = FLOAT * sequences * made.get(name, 0)
        yield cost.CostPart(name, getattr(flops, name, 0), parameters.get(name, 0), size)


def _numbers_made(section: ModelSection, length: int) -> dict[str, int]:
    """Results of the matrix products of one sequence, and its embedded tokens."""
    assert section.vocab_size is not None
    layers, decoder = section.num_layers, _decoder_layers(section)
    tokens, attentions, sides = (layers + decoder) * length, layers + 2 * decoder, 2 if decoder else 1
    heads, of_keys = section.num_heads * section.size_per_head, section.kv_heads * section.size_per_head
    projected = section.attention_score != "parameter_free"
    logits = section.outputs + (section.d_model if section.head == "transform" else 0)
    return {
        "embeddings": sides * length * section.d_model,
        "projections": attentions * length * (heads + 2 * of_keys) if projected else 0,
        "scores": attentions * section.num_heads * length**2,
        "mixing": attentions * length * heads,
        "output": attentions * length * section.d_model if projected else 0,
        "feed_forward": tokens * bool(f := section.inner_size) * (f * (2 if section.is_gated else 1) + section.d_model),
        "head": 0 if section.head == "none" else length * logits,
    }


def _at(section: ModelSection, length: int, sequences: int) -> cost.CostAtLength:
    flops = flops_by_part(section, sequences, length, hidden_too=True)
    # Attentions of which generation keeps a key and a value of each token: those of a decoder.
    remembering = section.num_layers if section.architecture == "decoder" else 2 * _decoder_layers(section)
    return cost.CostAtLength(
        length,
        *(flops.projections + flops.output, flops.feed_forward, flops.scores + flops.mixing, flops.head),
        visible_flops=flops_by_part(section, sequences, length).total,
        bytes_made=FLOAT * sequences * sum(_numbers_made(section, length).values()),
        cache_bytes=FLOAT * sequences * length * 2 * remembering * section.kv_heads * section.size_per_head,
    )


def _decoder_layers(section: ModelSection) -> int:
    return section.decoder_layers if section.architecture == "encoder-decoder" else 0


def seconds_in_turns(calls: Sequence[Callable[[], object]]) -> list[float]:
    """The median time of each call, in rounds, so that a machine slowed for a while slows all; each once before."""
    for call in calls:
        call()
    taken: list[list[float]] = [[] for _ in calls]
    while len(taken[0]) < _FEWEST or (sum(map(sum, taken)) < _BUDGET * len(calls) and len(taken[0]) < _MOST):
        for times, call in zip(taken, calls, strict=True):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
    return [median(times) for times in taken]


def products_a_second() -> float:
    """Floating-point operations a second of a matrix product of 1024 × 1024 in float32, with PyTorch's threads."""
    left, right = torch.randn(2, _SQUARE, _SQUARE)
    [seconds] = seconds_in_turns([lambda: left @ right])
    return 2 * _SQUARE**3 / seconds


def one_attention(section: ModelSection, num_heads: int | None = None) -> Callable[[], MultiHeadAttention]:
    """Makes the attention of a section; with `num_heads`, of so many heads of size D / H each."""
    sizes: dict[str, Any] = {name: getattr(section, name) for name in (*_OF_ATTENTION, *_OF_HEADS)}
    if num_heads:
        sizes |= dict(zip(_OF_HEADS, (num_heads, None, None), strict=True))
    alone = ModelSection(architecture="encoder", positions="none", **sizes)
    return lambda: MultiHeadAttention(alone)


def counted(make: Callable[[], MultiHeadAttention], size: int, length: int, sequences: int = 1) -> tuple[int, int, int]:
    """Parameters, operations of the matrix products, and numbers that the softmax takes the exponential of."""
    with torch.device("meta"):
        attention, weights = make(), list[torch.Tensor]()
        with FlopCounterMode(display=False) as counter:
            attention(torch.empty(sequences, length, size), weights=weights)
    return _parameters(attention), int(counter.get_total_flops()), weights[0].numel()


def heads_cost(section: ModelSection, heads: Sequence[int], length: int, sequences: int = 1) -> cost.HeadCosts:
    """One self-attention of the model's size, cut into each number of heads, each of which divides D."""
    if odd := [number for number in heads if section.d_model % number]:
        raise UsageError(f"--heads {odd[0]} does not divide d_model = {section.d_model}", "choose divisors of it")
    _require_memory("--heads", length, sequences, max(heads) * length)
    makers = [one_attention(section, number) for number in heads]
    found = [counted(make, section.d_model, length, sequences) for make in makers]
    x = torch.randn(sequences, length, section.d_model, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        seconds = seconds_in_turns([_run(make(), x) for make in makers])
    rows = zip(heads, found, seconds, strict=True)
    counts = tuple(cost.HeadCount(number, section.d_model // number, *one, taken) for number, one, taken in rows)
    return cost.HeadCosts(section.d_model, length, sequences, counts)


def _run(attention: MultiHeadAttention, x: torch.Tensor) -> Callable[[], object]:
    # What is allocated may hold anything, and numbers that are no numbers or nearly 0 take another time.
    generator = torch.Generator().manual_seed(1)
    for parameter in attention.parameters():
        parameter.normal_(0.0, x.shape[-1] ** -0.5, generator=generator)
    return lambda: attention(x, weights=[])


def cost_against(section: ModelSection, other: cost.Other, lengths: Sequence[int] = LENGTHS) -> cost.AgainstRecord:
    """One self-attention of the model's size and one other layer, on each number of tokens: all N D numbers to as many,
    with a bias, or Elman's h_t = tanh(W x_t + U h_{t−1} + b + c)."""
    size, make = section.d_model, one_attention(section)

    def at(length: int) -> cost.AgainstAtLength:
        parameters, flops, _ = counted(make, size, length)
        layer: nn.Module
        with torch.device("meta"):
            attention = cost.MixerCost(parameters, flops, 1, 1, _takes(make(), torch.empty(1, length + 1, size)))
            if other == "dense":
                layer, x = nn.Linear(length * size, length * size), torch.empty(1, (length + 1) * size)
                grows = (2 * (length * size) ** 2, 1, 1)
            else:  # made without N, so that another short length tells as much as N + 1, and sooner
                layer, x = nn.RNN(size, size, batch_first=True), torch.empty(1, min(length, 8) + 1, size)
                grows = (4 * length * size**2, length, length - 1)
            return cost.AgainstAtLength(length, attention, cost.MixerCost(_parameters(layer), *grows, _takes(layer, x)))

    return cost.AgainstRecord(other, size, section.num_heads, tuple(map(at, lengths)))


def _takes(layer: Callable[..., Any], x: torch.Tensor) -> bool:
    try:
        layer(x)
    except RuntimeError:  # what PyTorch raises where shapes do not fit
        return False
    return True


def _parameters(layer: nn.Module) -> int:
    return sum(parameter.numel() for parameter in layer.parameters())


def require_measurable(parameters: int) -> None:
    """Refuse a model whose weights take more than 4 GiB."""
    if parameters * FLOAT > _MOST_BYTES:
        problem = f"--measure makes the weights, and {parameters * FLOAT / 1e9:.1f} GB are too many"
        raise UsageError(problem, "choose a smaller --size, or leave --measure out")


def _require_memory(option: str, length: int, sequences: int, numbers_a_token: int) -> None:
    if (size := FLOAT * sequences * length * numbers_a_token) > _MOST_BYTES:
        makes = f"--length {length} with --batch {sequences} makes {size / 1e9:,.1f} GB of scores and logits"
        raise UsageError(f"{option} measures, and {makes}", f"lower --length or --batch, or leave {option} out")


def measured_cost(
    section: ModelSection, length: int | None, sequences: int, tell: Callable[[str], None]
) -> cost.CostRecord:
    """`model_cost`, with the seconds of a forward pass of random weights on the explicit path at every length that is
    not too long for a picture. Predicted: FLOPs over what this machine reaches in a large matrix product."""
    record = model_cost(section, length, sequences)
    require_measurable(record.parameters)
    assert section.vocab_size is not None
    _require_memory("--measure", record.length, sequences, section.num_heads * record.length + section.vocab_size)
    room = max(section.max_seq_len, *(at.length for at in record.lengths))
    tell("making the weights")
    model = build_model(replace(section, max_seq_len=room), seed=0).eval()
    tell("measuring a matrix product")
    rate = products_a_second()

    def at(one: cost.CostAtLength) -> cost.CostAtLength:
        predicted, scores = one.flops / rate, FLOAT * sequences * section.num_heads * one.length**2
        if one.length != record.length and (predicted > _LONGEST or scores > _MOST_SCORES):
            return one
        tell(f"measuring {one.length:,} tokens")
        ids = torch.zeros(sequences, one.length, dtype=torch.long)
        [seconds] = seconds_in_turns([lambda: run_explicitly(model, ids)])
        return replace(one, predicted_seconds=predicted, seconds=seconds)

    with torch.inference_mode():
        return replace(record, lengths=tuple(map(at, record.lengths)), products_a_second=rate)
