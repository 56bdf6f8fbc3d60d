"""The picture of scaling: its numbers at every width."""

from dataclasses import replace

import pytest

from tests.support.consoles import printed
from tfcli.inspection.scaling import ScalingRecord, ScalingRow, SoftmaxState
from tfcli.inspection.scaling.compute import measured_scaling
from tfcli.inspection.scaling.view import ScalingView, scaling_table

RECORD = ScalingRecord(
    1000,
    32,
    0,
    (
        ScalingRow(4, 3.94, 0.1, 0.985, SoftmaxState(0.336, 0.294, 2.292), SoftmaxState(0.155, 0.233, 3.043)),
        ScalingRow(1024, 1027.0, 8.2, 1.003, SoftmaxState(0.959, 0.06, 0.098), SoftmaxState(0.166, 0.242, 3.01)),
    ),
)


def test_the_table_at_eighty_columns():
    assert printed(ScalingView(RECORD), 80).splitlines()[3:9] == [
        "",
        "            variance         largest w         gradient         entropy",
        "  D_k    ±         u      s          u      s         u      s        u      s",
        " ─────────────────────────────────────────────────────────────────────────────",
        "    4  0.1      3.94  0.985      0.336  0.155     0.294  0.233    2.292  3.043",
        " 1024  8.2      1027  1.003      0.959  0.166     0.060  0.242    0.098  3.010",
    ]


@pytest.mark.parametrize("width", [60, 80, 140])
def test_no_number_is_cut_at_any_width(width: int):
    shown = printed(ScalingView(RECORD), width)
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    for number in ("3.94", "ln 32 = 3.47", *(("0.985", "0.336", "0.242", "3.010") if width > 60 else ("0.98", "0.34"))):
        assert number in shown
    together = " ".join(shown.split())
    assert "apart by √1024 = 32: one key takes 0.96 of the weight" in together
    assert "4.03 times smaller" in together


def test_the_csv_has_every_number():
    table = scaling_table(RECORD)
    assert next(iter(table.rows)) == [4, 3.94, 0.1, 0.985, 0.336, 0.294, 2.292, 0.155, 0.233, 3.043]
    assert len(table.columns) == 10


@pytest.mark.parametrize("seed", range(40))
def test_few_draws_of_any_seed_can_be_told(seed: int):
    """Two queries of two keys: a row of them can be so certain that hardly a gradient is left."""
    together = " ".join(printed(ScalingView(measured_scaling(2, 2, seed, sizes=(4, 1024))), 80).split())
    assert "gradients behind the softmax are" in together


def test_a_gradient_that_is_gone_is_called_gone():
    gone = SoftmaxState(1.0, 0.0, 0.0)
    record = replace(RECORD, rows=(replace(RECORD.rows[1], unscaled=gone),))
    assert "gradients behind the softmax are gone." in " ".join(printed(ScalingView(record), 80).split())
