"""What a stack tells its attentions about positions."""

from typing import Any

import pytest
import torch

from tfcli.layers.alibi import alibi_bias, alibi_slopes
from tfcli.layers.attention import Span
from tfcli.layers.positions import AttentionPositions, PositionSignal, attention_positions, sinusoidal_encoding
from tfcli.recipe.model import ModelSection

from .references import randomize, whole_rotation


def positions(kind: str, *, bidirectional: bool = False, **settings: Any) -> AttentionPositions:
    section = ModelSection(d_model=12, num_heads=3, max_seq_len=9, positions=kind, **settings)
    module = attention_positions(section, bidirectional=bidirectional)
    randomize(module)
    return module


EMPTY = PositionSignal()


@pytest.mark.parametrize("settings", [{}, {"position_merge": "concat", "tie_embeddings": False}], ids=str)
@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_positions_that_join_the_embeddings_say_nothing_here(kind: str, settings: dict[str, Any]):
    assert positions(kind, **settings)(Span(0, 5)) == EMPTY
    assert not [*positions(kind, **settings).state_dict()]


def test_none_says_nothing():
    assert positions("none")(Span(0, 5)) == EMPTY


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_rotary_positions_are_those_of_the_rows(layout: Any):
    """With the recipe's base, layout and scaling, for heads of 4."""
    signal = positions("rotary", position_layout=layout, position_base=50.0, position_scaling=2.0)(Span(3, 5))
    expected = whole_rotation(torch.tensor([3, 4]), 4, 50.0, layout=layout, scaling=2.0)
    assert signal.bias is signal.added is None and signal.rotation is not None
    assert signal.rotation.layout == layout
    assert torch.equal(signal.rotation.cosines, expected.cosines)
    assert torch.equal(signal.rotation.sines, expected.sines)


def test_rotary_positions_are_halves_unless_told_otherwise():
    signal = positions("rotary")(Span(0, 1))
    assert signal.rotation is not None and signal.rotation.layout == "halves"


def test_alibi_is_a_bias_and_knows_no_end():
    """No table: the context is 9, and position 99 still has its distances."""
    signal = positions("alibi")(Span(98, 100))
    assert signal.rotation is signal.added is None
    assert torch.equal(signal.bias, alibi_bias(2, 100, alibi_slopes(3)))
    assert not [*positions("alibi").state_dict()], "slopes are not learned"


@pytest.mark.parametrize("bidirectional", [True, False])
def test_t5_is_a_learned_bias(bidirectional: bool):
    """Both ways, a key after its query has another bucket than its query itself; one way, the same."""
    module = positions("t5", bidirectional=bidirectional)
    signal = module(Span(0, 5))
    assert signal.rotation is signal.added is None
    assert signal.bias.shape == (1, 3, 5, 5)
    same, after = signal.bias[0, :, 0, 0], signal.bias[0, :, 0, 1]
    assert torch.equal(same, after) != bidirectional
    assert {name: p.shape for name, p in module.named_parameters()} == {"relative_bias.weight": (32, 3)}


@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_query_key_positions_are_rows_of_a_table(kind: str):
    module = positions(kind, position_merge="query_key", position_offset=2)
    signal = module(Span(3, 5))
    assert signal.rotation is signal.bias is None
    table = dict(module.named_parameters())["table"] if kind == "learned" else sinusoidal_encoding(11, 12)
    assert torch.equal(signal.added, table[5:7])
    assert [*module.state_dict()] == (["table"] if kind == "learned" else [])


@pytest.mark.parametrize("settings", [{"kind": "rotary"}, {"kind": "learned", "position_merge": "query_key"}], ids=str)
def test_a_position_beyond_the_table_is_never_made_up(settings: dict[str, Any]):
    """The context is of 9: a shorter slice would broadcast, or not, somewhere else."""
    module = positions(**settings)
    assert module(Span(8, 9)) != EMPTY
    with pytest.raises(AssertionError, match="beyond the context"):
        module(Span(8, 10))
