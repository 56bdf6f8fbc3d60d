"""Measured time beside the time that the operations of the matrix products predict."""

from collections.abc import Callable
from dataclasses import replace

import torch

from tfcli.errors import UsageError
from tfcli.inspection.cost.model_cost import FLOAT, model_cost, run_explicitly
from tfcli.inspection.cost.stopwatch import products_a_second, seconds_in_turns
from tfcli.models.build import build_model
from tfcli.recipe.model import ModelSection
from tfcli.records.cost import CostAtLength, CostRecord

_LONGEST = 1.5
"""Predicted seconds above which a length is left out, but for the one that was asked for."""
_MOST_SCORES = 1 << 29
"""Bytes of the scores of one layer above which a length is left out."""
_MOST_WEIGHTS = 4 << 30
"""Bytes of weights above which nothing is measured."""

_MOST_RESULTS = 4 << 30
"""Bytes of the scores of one layer and the logits above which nothing is measured."""


def require_measurable(section: ModelSection, parameters: int) -> None:
    """Refuse, before any work, a model whose weights are too large to be made for a measurement.

    Raises:
        UsageError: they take more than 4 GiB.
    """
    if parameters * FLOAT > _MOST_WEIGHTS:
        raise UsageError(
            f"--measure makes the weights, and {parameters * FLOAT / 1e9:.1f} GB are too many",
            "choose a smaller --size, or leave --measure out",
        )


def require_memory(option: str, length: int, sequences: int, numbers_a_token: int) -> None:
    """Refuse, before any work, a measurement whose largest results would not fit.

    Args:
        option: what asks for it.
        numbers_a_token: in those results, the scores of a layer and the logits.

    Raises:
        UsageError: they take more than 4 GiB.
    """
    size = FLOAT * sequences * length * numbers_a_token
    if size > _MOST_RESULTS:
        raise UsageError(
            f"{option} measures, and --length {length} with --batch {sequences} "
            f"makes {size / 1e9:,.1f} GB of scores and logits",
            f"lower --length or --batch, or leave {option} out",
        )


def measured_cost(
    section: ModelSection,
    length: int | None = None,
    sequences: int = 1,
    *,
    seed: int = 0,
    tell: Callable[[str], None] = lambda _: None,
) -> CostRecord:
    """`model_cost`, with the seconds of every length that is not too long for a picture.

    Predicted: FLOPs over what this machine reaches in a large matrix product. A forward pass on the explicit path with
    random weights is measured, as its time does not depend on them.

    Raises:
        UsageError: the weights are too large, or what they make of so many tokens.
    """
    record = model_cost(section, length, sequences)
    require_measurable(section, record.parameters)
    assert section.vocab_size is not None
    require_memory("--measure", record.length, sequences, section.num_heads * record.length + section.vocab_size)
    longest = max(at.length for at in record.lengths)
    room = replace(section, max_seq_len=max(longest, section.max_seq_len))
    tell("making the weights")
    model = build_model(room, seed).eval()
    tell("measuring a matrix product")
    rate = products_a_second()

    def at(one: CostAtLength) -> CostAtLength:
        predicted = one.flops / rate
        scores = FLOAT * sequences * section.num_heads * one.length**2
        if one.length != record.length and (predicted > _LONGEST or scores > _MOST_SCORES):
            return one
        tell(f"measuring {one.length:,} tokens")
        ids = torch.zeros(sequences, one.length, dtype=torch.long)
        [seconds] = seconds_in_turns([lambda: run_explicitly(model, ids)])
        return replace(one, predicted_seconds=predicted, seconds=seconds)

    with torch.inference_mode():
        lengths = tuple(at(one) for one in record.lengths)
    return replace(record, lengths=lengths, products_a_second=rate)
