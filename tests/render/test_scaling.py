"""The picture of scaling: its numbers at every width."""

import pytest

from tests.support.consoles import printed
from tfcli.records.scaling import ScalingRecord, ScalingRow, SoftmaxState
from tfcli.render.scaling import ScalingView, scaling_table

RECORD = ScalingRecord(
    1000,
    32,
    0,
    (
        ScalingRow(4, 3.94, 0.1, SoftmaxState(0.336, 0.294, 2.292), SoftmaxState(0.155, 0.233, 3.043)),
        ScalingRow(1024, 1027.0, 8.2, SoftmaxState(0.959, 0.06, 0.098), SoftmaxState(0.166, 0.242, 3.01)),
    ),
)


def test_the_table_at_eighty_columns():
    assert printed(ScalingView(RECORD), 80).splitlines()[3:9] == [
        "",
        "                      largest w         gradient         entropy",
        "  D_k  var(qᵀk)    ±          u      s         u      s        u      s",
        " ──────────────────────────────────────────────────────────────────────",
        "    4      3.94  0.1      0.336  0.155     0.294  0.233    2.292  3.043",
        " 1024      1027  8.2      0.959  0.166     0.060  0.242    0.098  3.010",
    ]


@pytest.mark.parametrize("width", [60, 80, 140])
def test_no_number_is_cut_at_any_width(width: int):
    shown = printed(ScalingView(RECORD), width)
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    for number in ("3.94", "0.336", "0.155", "0.242", "3.010", "ln 32 = 3.47"):
        assert number in shown
    together = " ".join(shown.split())
    assert "apart by √1024 = 32: one key takes 0.96 of the weight" in together
    assert "4.0 times smaller" in together


def test_the_csv_has_every_number():
    table = scaling_table(RECORD)
    assert next(iter(table.rows)) == [4, 3.94, 0.1, 0.336, 0.294, 2.292, 0.155, 0.233, 3.043]
    assert len(table.columns) == 9
