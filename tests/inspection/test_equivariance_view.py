"""Permutations, one changed token and two orders on fixed consoles."""

from dataclasses import replace

import numpy as np
import pytest
from rich.cells import cell_len

from tests.support.consoles import printed
from tfcli.draw.tables import to_csv
from tfcli.inspection.equivariance import (
    Deviation,
    EquivarianceRecord,
    Half,
    NormLeak,
    OrderRecord,
    PerturbationRecord,
    Variant,
)
from tfcli.inspection.equivariance.view import (
    EquivarianceView,
    OrderView,
    PerturbationView,
    equivariance_table,
    order_table,
    perturbation_table,
)
from tfcli.records.arrays import frozen

BARE, OWN = Variant(positions=False, masked=False, own=False), Variant(positions=True, masked=True, own=True)
RECORD = EquivarianceRecord(
    "runs/a",
    "decoder",
    "rotary",
    None,
    ("The", " fish\x1b"),
    10,
    (Deviation(BARE, 1e-6, 2e-6, equivariant=True), Deviation(OWN, 2.5, 1.25, equivariant=False)),
    1,
    (NormLeak("each token", 0.0, 0.0, leaks=False), NormLeak("across tokens", 0.5, 0.25, leaks=True)),
)


def test_deviations_and_leaks() -> None:
    lines = printed(EquivarianceView(RECORD), 80).splitlines()
    assert lines[:3] == ["Equivariance · runs/a", "decoder, positions: rotary", "The ·fish\\x1b"]
    assert lines[4:6] == ["Is f(P X) = P f(X)?", "largest deviation over 10 random orders P of the tokens"]
    assert [line.split() for line in lines[7:9]] == [
        ["none", "none", "rounding", "<0.0001", "equivariant"],
        ["▸", "rotary", "causal", "2.5", "1.2", "order", "counts"],
    ]
    assert [line.split()[-3:] for line in lines[-2:]] == [["0", "nothing", "leaks"], ["the", "future", "leaks"]]
    assert "token 1 (·fish\\x1b) is changed" in "\n".join(lines)


@pytest.mark.parametrize(
    ("encoding", "words"), [("none", "window of 2"), ("rotary", "rotary, window of 2")], ids=["alone", "both"]
)
def test_a_window_is_named_where_positions_are(encoding: str, words: str) -> None:
    record = replace(RECORD, encoding=encoding, window=2)
    lines = printed(EquivarianceView(record), 80).splitlines()
    assert lines[1] == f"decoder, positions: {words}"
    assert next(line for line in lines if line.startswith("▸ ")).split("  ")[1].strip() == words
    assert to_csv(equivariance_table(record)).splitlines()[3].startswith("leak,True")


def test_deviations_as_csv() -> None:
    assert to_csv(equivariance_table(RECORD)).splitlines() == [
        "measured,positions,masked,own,statistics,largest,relative",
        "permutation,False,False,False,each token,1e-06,2e-06",
        "permutation,True,True,True,each token,2.5,1.25",
        "leak,True,True,,each token,0.0,0.0",
        "leak,True,True,,across tokens,0.5,0.25",
    ]


def perturbation(layers: int) -> PerturbationRecord:
    halves = [
        half
        for layer in range(layers)
        for half in (Half(layer, "attention", 2, mixes=True), Half(layer, "feed_forward", 1, mixes=False))
    ]
    moved = np.full((3, 1 + 2 * layers), 0.25)
    moved[0], moved[2, 0], moved[1, 0] = 0, 0, 1
    return PerturbationRecord("runs/a", ("a", "日本", "c"), 1, True, None, frozen(moved), tuple(halves))


def test_which_rows_move_in_numbers() -> None:
    lines = printed(PerturbationView(perturbation(1)), 60).splitlines()
    assert lines[0] == "Token 1 (日本) changed: which rows have moved?"
    assert lines[3:8] == [
        "                              0      0",
        "                   input   attn    MLP",
        "  a                    –      –      –",
        "▸ 日本             1.000   .250   .250",
        "  c                    –   .250   .250",
    ]
    assert lines[-2:] == [
        "attention  2 of 3  mixes tokens, in every layer",
        "MLP        1 of 3  that row alone, in every layer",
    ]


@pytest.mark.parametrize(
    ("masked", "window", "words"),
    [
        (False, None, "every row sees every other"),
        (False, 2, "a row sees those less than 2 away"),
        (True, 3, "under the causal mask, in a window of 3; earlier rows cannot move"),
    ],
)
def test_who_sees_whom_is_said(masked: bool, window: int | None, words: str) -> None:
    record = replace(perturbation(1), masked=masked, window=window)
    assert printed(PerturbationView(record), 140).splitlines()[1].endswith(f"; {words}")


def test_many_layers_are_a_map() -> None:
    lines = printed(PerturbationView(perturbation(14)), 80).splitlines()
    assert "the first 12 of 14 layers" in lines
    row = next(line for line in lines if line.lstrip().startswith("a –"))
    assert row.split()[1] == "–" * 50, "an input and 24 halves, two cells each"
    assert max(map(cell_len, lines)) <= 80


def test_rows_that_move_as_csv() -> None:
    assert to_csv(perturbation_table(perturbation(1))).splitlines()[:4] == [
        "row,token,layer,half,moved",
        "0,a,,input,0.0",
        "0,a,0,attention,0.0",
        "0,a,0,feed_forward,0.0",
    ]


ORDER = OrderRecord(
    "runs/a",
    ("man", "fish"),
    ("fish", "man"),
    (BARE, Variant(positions=True, masked=False, own=True), Variant(positions=False, masked=True, own=False)),
    frozen([[0, 1], [1, 0]], np.int64),
    frozen([[1e-8, 0.5, 0.0], [1e-8, 0.25, 0.125]]),
    frozen([0.0, 0.375, 0.0625]),
)


@pytest.mark.parametrize("width", [60, 80, 140])
def test_two_orders_token_by_token(width: int) -> None:
    lines = printed(OrderView(ORDER), width).splitlines()
    assert lines[1:3] == ["man fish", "fish man"]
    rows = [line.split() for line in lines if line.startswith(("man  ", "fish  ", "their mean"))]
    assert rows == [
        ["man", "0", "→", "1", "=", "0", "0.500", "=", "0"],
        ["fish", "1", "→", "0", "=", "0", "0.250", "0.125"],
        ["their", "mean", "=", "0", "0.375", "0.062"],
    ]
    text = " ".join(lines)
    assert "one bag of words" in text
    assert "Positions tell them apart. So does the mask alone" in text
    assert max(map(cell_len, lines)) <= width


def test_two_orders_as_csv() -> None:
    lines = to_csv(order_table(ORDER)).splitlines()
    assert lines[0] == "token,first,second,positions,masked,own,moved"
    assert lines[4] == "man,0,1,True,False,True,0.5"
    assert lines[6] == ",,,True,False,True,0.375"
