"""Two models compared: on drawn batches, after a round trip, and by their tensors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from tfcli.interop.families.layout import CheckpointFamily
from tfcli.interop.tensors import canonical_names, checkpoint_of_parameters, parameters_of_checkpoint, settled_section
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection

from . import reference

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
"""Both relative and absolute."""

KINDS = {
    "decoder": {"decoder_self": "attentions"},
    "encoder": {"encoder_self": "attentions"},
    "encoder-decoder": {
        "encoder_self": "encoder_attentions",
        "decoder_self": "decoder_attentions",
        "cross": "cross_attentions",
    },
}
"""Our name for each kind of attention, and theirs."""


@dataclass(frozen=True)
class Batch:
    """Texts of these lengths, padded at the right to the longest.

    Attributes:
        target_length: of the other side of an encoder-decoder, without padding.
        typed: whether token types are given where there are any.
    """

    lengths: Sequence[int]
    target_length: int = 1
    typed: bool = False


@st.composite
def batches(draw: st.DrawFn, longest: int) -> Batch:
    """One to three texts, and targets of one length."""
    lengths = draw(st.lists(st.integers(1, longest), min_size=1, max_size=3))
    return Batch(lengths, draw(st.integers(1, longest)), draw(st.booleans()))


def random_ids(vocab_size: int, *shape: int, seed: int = 0) -> Tensor:
    """Token ids, all of the vocabulary alike."""
    return torch.randint(vocab_size, shape, generator=torch.Generator().manual_seed(seed))


def text_ids(section: ModelSection, *shape: int, seed: int = 0) -> Tensor:
    """Token ids as a text has them: RoBERTa takes the one before its first position for padding wherever it stands."""
    assert section.vocab_size is not None
    ids = random_ids(section.vocab_size, *shape, seed=seed)
    if section.architecture != "encoder" or not section.position_offset:
        return ids
    return torch.where(ids == section.position_offset - 1, section.position_offset % section.vocab_size, ids)


def assert_same_function(ours: Transformer, theirs: Any, batch: Batch) -> None:
    """Logits, with and without collecting attention weights, and the weights of every kind."""
    section = ours.section
    assert section.vocab_size is not None
    rows, longest = len(batch.lengths), max(batch.lengths)
    real = torch.arange(longest)[None, :] < torch.tensor(batch.lengths)[:, None]
    ids, types, compared = text_ids(section, rows, longest), {}, real
    inputs, given = [ids, real], {"input_ids": ids, "attention_mask": real.long()}
    if section.architecture == "encoder-decoder":
        targets = random_ids(section.vocab_size, rows, batch.target_length, seed=1)
        inputs, compared = [ids, targets, real], torch.ones_like(targets, dtype=torch.bool)
        given["decoder_input_ids"] = targets
    if batch.typed and section.token_types:
        types = {"token_type_ids": random_ids(section.token_types, *ids.shape, seed=1)}
    weights: dict[str, list[Tensor]] = {}
    with torch.no_grad():
        wanted = theirs(**given, **types, output_attentions=True)
        assert_same(ours(*inputs, **types), wanted.logits, compared)
        assert_same(ours(*inputs, **types, weights=weights), wanted.logits, compared)
    for kind, name in KINDS[section.architecture].items():
        queries = real if kind == "encoder_self" else compared
        assert len(weights[kind]) == len(wanted[name]) > 0
        for mine, other in zip(weights[kind], wanted[name], strict=True):
            assert_same(mine.transpose(1, 2), other.transpose(1, 2), queries)


def assert_same(ours: Tensor, theirs: Tensor, real: Tensor | None = None) -> None:
    """Equal within the tolerance of the type.

    Shape:
        ours, theirs: (B, T, …)
        real: (B, T), True where they are compared; None: everywhere
    """
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    tolerance = TOLERANCE[ours.dtype]
    if real is not None:
        ours, theirs = ours[real], theirs[real]
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def assert_round_trip(
    layout: CheckpointFamily, section: ModelSection, parameters: Mapping[str, Tensor]
) -> ModelSection:
    """Export, import and export again: the tensors are identical, and the imported model is the same function.

    Returns:
        The section of the imported model.
    """
    exported = checkpoint_of_parameters(layout, section, parameters)
    named = canonical_names(layout, exported)
    roles = reference.ROLES
    if section.architecture == "encoder" and section.position_offset:  # RoBERTa's positions begin behind its padding
        roles = replace(roles, pad=section.position_offset - 1)
    again = settled_section(layout, reference.read_config(layout, layout.write(section, roles)), named, exported)
    taken, left_over = parameters_of_checkpoint(layout, again, named, reference.WEIGHTS, exported)
    assert left_over == []
    twice = checkpoint_of_parameters(layout, again, taken)
    assert twice.keys() == exported.keys()
    for name, tensor in exported.items():
        assert torch.equal(tensor, twice[name]), name
    for name, parameter in taken.items():
        assert name not in parameters or torch.equal(parameter, parameters[name]), name
    before = reference.filled(section, parameters, torch.float64)
    after = reference.filled(again, taken, torch.float64)
    assert_same(outputs(after), outputs(before))
    return again


def outputs(model: Transformer) -> Tensor:
    """What a model makes of some ids: logits, or the last vectors where it has no head."""
    inputs = _inputs(model.section)
    with torch.no_grad():
        return model.hidden(*inputs) if model.section.head == "none" else model(*inputs)


def their_outputs(section: ModelSection, theirs: Any) -> Tensor:
    """What a model of theirs makes of the same ids; the section is that of ours."""
    names = ("input_ids", "decoder_input_ids")
    with torch.no_grad():
        return theirs(**dict(zip(names, _inputs(section), strict=False)))[0]


def _inputs(section: ModelSection) -> list[Tensor]:
    assert section.vocab_size is not None
    length = min(section.max_seq_len, 7)
    ids = text_ids(section, 2, length)
    if section.architecture != "encoder-decoder":
        return [ids]
    return [ids, random_ids(section.vocab_size, 2, max(1, length - 2), seed=1)]
