"""Attributions drawn on fixed consoles."""

from dataclasses import replace

import pytest

from tests.support.consoles import printed
from tfcli.draw.colors import SIGNED
from tfcli.inspection.attribution import Attribution, Contribution, Part
from tfcli.inspection.attribution.view import AttributionView, attribution_table

PARTS = (
    (Part("token"), 0.5),
    (Part("position"), -0.25),
    (Part("bias"), 0.125),
    *(
        (Part("head", layer, head), value)
        for (layer, head), value in zip(((0, 0), (0, 1), (1, 0), (1, 1)), (1.0, -2.0, 0.0, 4.0), strict=True)
    ),
    (Part("feed_forward", 0), 0.5),
    (Part("feed_forward", 1), -1.0),
    (Part("bias", 1), 0.25),
)
RECORD = Attribution(
    tokens=("<s>", " the"),
    position=1,
    token=" bank",
    probability=0.5,
    rank=1,
    against=None,
    best=(" bank", " river"),
    logit=3.125,
    parts=tuple(Contribution(part, value) for part, value in PARTS),
    gated=False,
)


def test_at_80_columns():
    assert printed(AttributionView(RECORD), 80).splitlines() == [
        "Direct logit attribution · the logit of ·bank",
        "Position 1, ·the: p(·bank) = 50.0 %, rank 1; likeliest beside it: ·river",
        "(--against compares the two)",
        "logit = Σ part · W[token], each part taken through the norms with their scale at",
        "this position",
        "",
        "outside the layers",
        "token embedding    +0.50",
        "position           -0.25",
        "other biases       +0.12",
        "",
        "         heads       MLP   bias  Σ",
        "             0     1",
        "layer 0   1.00 -2.00   .50        -.50",
        "layer 1      0  4.00 -1.00   .25  3.25",
        "",
        "The largest",
        "  layer 1 head 1    +4.00                         │████████████████████████",
        "  layer 0 head 1    -2.00             ████████████│",
        "  layer 0 head 0    +1.00                         │██████",
        "  layer 1 MLP       -1.00                   ██████│",
        "  token embedding   +0.50                         │███",
        "  layer 0 MLP       +0.50                         │███",
        "  position          -0.25                       ██│",
        "  layer 1 biases    +0.25                         │█▌",
        "  other biases      +0.12                         │▊",
        "  layer 1 head 0    +0.00                         │",
        "layer 1 head 1 raises it most (+4.00); layer 0 head 1 lowers it most (-2.00).",
        "Sum of all 10 parts +3.1250; the model's own logit +3.1250",
    ]


def test_where_numbers_do_not_fit_there_is_a_map():
    """8 cells for the names of layers and 5 for each of 20 heads, the MLP and the sum are more than 80."""
    heads = tuple(Contribution(Part("head", 0, head), (-1.0) ** head) for head in range(20))
    wide = replace(RECORD, parts=(*heads, Contribution(Part("feed_forward", 0), 2.0)))
    for width in (60, 80, 140):
        shown = printed(AttributionView(wide), width)
        assert ("what the logit owes to it" in shown and "-2 [" in shown and "] 2" in shown) == (width < 140)
        assert max(map(len, shown.splitlines())) <= width
        assert "9 smaller" in shown


def test_cross_attention_has_columns_of_its_own():
    more = (Contribution(Part("cross_head", 0, head), 1.5 + head) for head in range(2))
    lines = printed(AttributionView(replace(RECORD, parts=(*RECORD.parts, *more))), 80).splitlines()
    header = next(
        number for number, line in enumerate(lines) if line.split() == ["heads", "cross-attention", "MLP", "bias", "Σ"]
    )
    assert lines[header + 1].split() == ["0", "1", "0", "1"]
    assert lines[header + 2].split() == ["layer", "0", "1.00", "-2.00", "1.50", "2.50", ".50", "3.50"]
    assert any(line.startswith("  layer 0 cross head 1   +2.50 ") for line in lines)


def test_signs_have_their_colors():
    shown = printed(AttributionView(RECORD), 80, "truecolor")
    red, green, blue = SIGNED.table[-1]
    assert f"48;2;{red};{green};{blue}m 4.00" in shown
    red, green, blue = SIGNED.table[len(SIGNED.table) // 4]
    assert f"48;2;{red};{green};{blue}m-2.00" in shown


def test_a_difference_and_a_gate_are_said():
    shown = printed(AttributionView(replace(RECORD, against=" river", gated=True)), 140)
    assert "·bank against ·river" in shown
    assert "difference of the logits +3.1250" in shown
    assert "The head is not linear: its activation f(z) is z times f(z)/z" in shown
    assert "--against" not in shown


def test_the_table_has_a_row_a_part():
    rows = list(attribution_table(RECORD).rows)
    assert rows[0] == ("token", None, None, 0.5)
    assert rows[6] == ("head", 1, 1, 4.0)
    assert sum(row[3] for row in rows) == pytest.approx(sum(one.value for one in RECORD.parts))
