"""Input attributions drawn on fixed consoles, from a record with numbers by hand."""

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.inspection.test_attribution_view import RECORD as DIRECT
from tests.support.consoles import printed
from tfcli.draw.colors import SIGNED
from tfcli.draw.tables import to_json
from tfcli.inspection.attribution import InputAttribution, view
from tfcli.inspection.attribution.view import InputAttributionView, inputs_table

RECORD = InputAttribution(
    direct=DIRECT,
    value=-0.5,
    of_baseline=-4.5,
    baseline="<unk>",
    sides=("source", "source", "target", "target"),
    read=(" rio", "</s>", "<s>", " the"),
    methods=("integrated-gradients", "rollout"),
    values=np.array([[3.0, np.nan, np.nan, -1.5], [0.5, 0.125, 0.125, 0.25]]),
    gaps=(0.042, 0.004),
    agreement=np.array([[1.0, -0.4], [-0.4, 1.0]]),
    unrelated=0.75,
    counts=(0, 1, 2),
    curves=np.array([[[0.6, 0.1, 0.0], [0.6, 0.5, 0.0]], [[0.0, 0.5, 0.6], [0.0, 0.1, 0.6]]]),
    areas=np.array([[0.2, 0.4], [0.4, 0.2]]),
    as_good=np.array([[0.01, 0.6], [0.05, 0.06]]),
    random=np.array([0.6, 0.3, 0.0]),
    spread=(0.3, 0.25, 0.35),
)


def test_at_80_columns():
    shown = printed(InputAttributionView(RECORD), 80).splitlines()
    assert shown[:27] == [
        "Input attribution · F = log p(·bank)",
        "Position 1, ·the: p(·bank) = 50.0 %, rank 1; likeliest beside it: ·river",
        "(--against compares the two)",
        "F = -0.5000; -4.5000 with <unk> for all tokens of the text, the baseline",
        "integrated-gradients: (x − x′) · mean of ∂F/∂x on the line from the baseline's",
        "x′ to x",
        "rollout: share in the vector: through attention, ½ of it stays, ½ is what the",
        "mean head sees",
        "",
        " token        integrated rollout",
        " ───────────────────────────────",
        " source",
        "   0 ·rio          +1.00   +1.00",
        "   1 </s>                  +0.25",
        " target",
        "   0 <s>                   +0.25",
        "   1 ·the          -0.50   +0.50",
        "",
        " largest               3     0.5",
        " deletion            0.2   (0.4)",
        " insertion           0.4   (0.2)",
        " ρ integrated          1  (-0.4)",
        " ρ rollout        (-0.4)       1",
        "",
        "largest: what 1 is in a column · deletion, insertion: means of the curves below;",
        "of 100 random orders 0.3, better than chance below 0.25 and above 0.35 · ρ: rank",
        "correlation (Spearman) over the tokens of the text, of unrelated orders 95 %",
    ]
    assert shown[27:30] == [
        "within ±0.75 · (in brackets): no better than chance",
        "F rises by +4.0000 from the baseline, and integrated gradients sum to +1.5000;",
        "off by 4.2 % with 64 steps, 0.4 % with 128 steps.",
    ]
    deletion = shown.index("Deletion: p(·bank) with so many tokens replaced, the largest first")
    insertion = shown.index("Insertion: p(·bank) with so many tokens put back, the largest first")
    assert deletion < insertion
    for words in ("random orders", "i integrated-gradients", "r rollout"):
        assert words in " ".join(shown[deletion:insertion])


@pytest.mark.parametrize("width", [60, 80, 140])
def test_no_line_is_wider_than_the_terminal_and_no_number_is_cut(width: int):
    methods = ("gradient", "integrated-gradients", "occlusion", "rollout", "value-weighted")
    wide = replace(
        RECORD,
        methods=methods,
        values=np.tile(RECORD.values[:1], (5, 1)),
        agreement=np.full((5, 5), -0.25),
        curves=np.tile(RECORD.curves[:, :1], (1, 5, 1)),
        areas=np.full((2, 5), -0.512),
        as_good=np.full((2, 5), 0.5),
    )
    lines = printed(InputAttributionView(wide), width).splitlines()
    assert max(map(len, lines)) <= width
    rows = [line.split() for line in lines if line.startswith((" deletion", " ρ value"))]
    assert [row[-5:] for row in rows] == [["(-0.51)"] * 5, [*["(-0.25)"] * 4, "-0.25"]]
    assert any(line.split()[-5:] == ["-0.50"] * 5 for line in lines)


def test_a_difference_and_one_method():
    one = replace(
        RECORD,
        direct=replace(DIRECT, against=" river"),
        methods=("rollout",),
        values=RECORD.values[1:],
        gaps=(),
        agreement=np.ones((1, 1)),
        curves=RECORD.curves[:, 1:],
        areas=RECORD.areas[:, 1:],
        as_good=RECORD.as_good[:, 1:],
        sides=("text",) * 4,
    )
    shown = printed(InputAttributionView(one), 140)
    assert "Input attribution · F = logit of ·bank − logit of ·river\n" in shown
    assert "Insertion: logit of ·bank − logit of ·river with so many tokens put back" in shown
    assert "ρ rollout" not in shown and "integrated" not in shown and "source" not in shown
    assert "   3 ·the" in shown


def test_random_orders_are_drawn_backwards_as_tokens_are_put_back(monkeypatch: pytest.MonkeyPatch):
    drawn = []
    monkeypatch.setattr(view, "Plot", lambda series, *_, **__: drawn.append(series) or "")
    printed(InputAttributionView(RECORD), 80)
    assert [[list(one.ys) for one in series] for series in drawn] == [
        [[0.6, 0.3, 0.0], *RECORD.curves[0].tolist()],
        [[0.0, 0.3, 0.6], *RECORD.curves[1].tolist()],
    ]


def test_signs_have_their_colors():
    shown = printed(InputAttributionView(RECORD), 80, "truecolor")
    for level, text in ((-1, "+1.00"), (len(SIGNED.table) // 4, "-0.50")):
        red, green, blue = SIGNED.table[level]
        assert re.search(rf"48;2;{red};{green};{blue}m *{re.escape(text)}\x1b", shown)


def test_the_table_and_the_json_have_every_number():
    table = inputs_table(RECORD)
    assert table.columns == ("side", "token", "integrated-gradients", "rollout")
    assert list(table.rows)[:2] == [("source", " rio", 3.0, 0.5), ("source", "</s>", None, 0.125)]
    found = to_json(RECORD)
    assert found["values"] == [[3.0, None, None, -1.5], [0.5, 0.125, 0.125, 0.25]]
    assert found["direct"]["token"] == " bank" and found["as_good"] == [[0.01, 0.6], [0.05, 0.06]]


def test_brackets_agree_with_the_bound_that_is_printed_and_a_method_with_itself_has_none():
    """0.0442 is told and 0.0444 is the bound: two digits would write both 0.044. Of two tokens every ρ is by chance."""
    few = replace(RECORD, areas=np.array([[0.0442, 0.0448], [0.4, 0.2]]), spread=(0.06, 0.0444, 0.35), unrelated=1.0)
    shown = printed(InputAttributionView(few), 140)
    rows = [line.split() for line in shown.splitlines() if line.startswith((" deletion", " ρ integrated"))]
    assert rows == [["deletion", "0.0442", "(0.0448)"], ["ρ", "integrated", "1", "(-0.4)"]]
    assert "below 0.0444 and above 0.35" in " ".join(shown.split())
