"""Nearest tokens as a table with bars."""

import pytest

from tests.support.consoles import printed
from tfcli.draw.tables import to_csv
from tfcli.inspection.embeddings import Neighbour, NeighboursRecord, TokenNeighbours
from tfcli.inspection.embeddings.view import NeighboursView, neighbours_table

RECORD = NeighboursRecord(
    run="runs/pt-en-1",
    matrix="input",
    tied=True,
    d_model=100,
    vocabulary=1005,
    mean_cosine=0.031,
    mean_norm=1.0,
    tokens=(
        TokenNeighbours(
            " book", 123, 1.14, (Neighbour("livro", 40, 0.5, 0.882), Neighbour("\x1b[31m", 7, -0.25, 1.15))
        ),
    ),
)


def test_the_table_at_60_columns():
    """30 cells are left for bars: half of them for a cosine of 0.5, none for one below 0. What steers is escaped."""
    assert printed(NeighboursView(RECORD), 60).splitlines() == [
        "Nearest tokens · runs/pt-en-1 · E, which the head shares",
        "cos(a, b) = a·b / ‖a‖‖b‖ between rows of 1,005 tokens × 100",
        "·book  id 123  length 1.14",
        "    token     cosine                                 length",
        " 1  livro     " + "█" * 15 + " " * 18 + "0.50   0.882",
        " 2  \\x1b[31m                                  -0.25    1.15",
        "Mean cosine of two tokens 0.03, mean length 1. Directions",
        "drawn at random in 100 dimensions lie within ±0.20 (2/√D) 19",
        "times out of 20: what is well above that was learned.",
    ]


@pytest.mark.parametrize("width", [40, 60, 80, 140])
def test_nothing_is_wider_than_the_terminal(width: int):
    assert max(map(len, printed(NeighboursView(RECORD), width).splitlines())) <= width


def test_csv():
    assert to_csv(neighbours_table(RECORD)).splitlines()[:2] == [
        "token,token_id,rank,neighbour,neighbour_id,cosine,norm",
        " book,123,1,livro,40,0.5,0.882",
    ]
