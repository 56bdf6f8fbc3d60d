"""Where the tokens of a pass stand: columns, and positions behind padding at the left."""

import pytest
import torch

from tfcli.layers.attention import Span
from tfcli.layers.rotary import Rotation

TABLE = torch.arange(10)


def test_without_padding_columns_are_positions():
    assert Span(2, 5).rows(TABLE).tolist() == [2, 3, 4]
    assert Span(2, 5).rows(TABLE, offset=2).tolist() == [4, 5, 6]


def test_padding_at_the_left_is_not_counted():
    """Columns 2 to 4 of texts that begin in columns 0, 1 and 4; what stands before a beginning gets the first row."""
    rows = Span(2, 5, torch.tensor([0, 1, 4])).rows(TABLE)
    assert rows.tolist() == [[2, 3, 4], [1, 2, 3], [0, 0, 0]]
    assert Span(2, 5, torch.tensor([1])).rows(TABLE, offset=2).tolist() == [[3, 4, 5]]


def test_a_text_behind_padding_may_stand_in_a_column_beyond_the_table():
    assert Span(11, 13, torch.tensor([4])).rows(TABLE).tolist() == [[7, 8]]
    with pytest.raises(IndexError):
        Span(11, 13, torch.tensor([2])).rows(TABLE)


def test_rotations_behind_padding_are_the_same_for_all_heads():
    table = Rotation(torch.randn(10, 4), torch.randn(10, 4))
    turned = table.at(Span(3, 5, torch.tensor([0, 2])))
    assert turned.cosines.shape == turned.sines.shape == (2, 1, 2, 4)
    assert torch.equal(turned.cosines[1, 0], table.cosines[1:3])
    assert torch.equal(turned.sines[0, 0], table.sines[3:5])
