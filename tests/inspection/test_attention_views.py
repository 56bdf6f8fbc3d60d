"""Parts of a text, scores, differences, strongest weights and steps: as text on fixed consoles, and as SVG and CSV."""

import re
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
from rich.cells import cell_len

from tests.inspection.test_attention_view import HEAD, TOKENS, causal
from tests.support.consoles import fixed_console, printed
from tfcli.draw.colors import SIGNED
from tfcli.draw.tables import to_csv
from tfcli.inspection.attention import AttentionEvolution, AttentionRecord, AttentionStep
from tfcli.inspection.attention.choice import cropped
from tfcli.inspection.attention.compute import difference, strongest_edges
from tfcli.inspection.attention.matrix_view import difference_matrix, weights_matrix
from tfcli.inspection.attention.page_view import matrices_svg
from tfcli.inspection.attention.view import (
    AttentionDifferenceView,
    AttentionEdgeList,
    AttentionScores,
    attention_table,
    attention_view,
    difference_table,
    edges_table,
    evolution_table,
    evolution_view,
)
from tfcli.records.arrays import frozen

OTHER = [[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]]
SCORES = [[0.5, 9, 9], [-1.25, 0.25, 9], [0, 1.5, -12.5]]
RECORD = AttentionRecord(
    "decoder_self",
    TOKENS,
    TOKENS,
    frozen([[HEAD, OTHER]]),
    scores=frozen([[SCORES, SCORES]]),
    formula="scores = q · k / √Dh, √16 = 4",
)
CAUSAL = frozen(np.tri(3), np.bool_)
HEADS = ("layer 0, head 0", "layer 0, head 1")
DIFFERENCE = difference(RECORD, RECORD, ((0, 0), (0, 1)), HEADS, largest=2)


def long(count: int) -> AttentionRecord:
    """A causal head that looks at nothing but itself, the first key, and once far back."""
    weights = np.full((count, count), 0.001, dtype=np.float32)
    weights[np.arange(count), np.arange(count)] = 0.3
    weights[:, 0] = 0.6
    weights[count - 10, count // 3] = 0.9
    tokens = tuple(f" w{n}" for n in range(count))
    return AttentionRecord("decoder_self", tokens, tokens, frozen(np.tril(weights)[None, None]))


def test_a_part_of_a_text_has_its_own_positions_and_the_first_keys_stand_apart() -> None:
    """Row 15 gives each of 16 keys 1/16: six of them are 0.375."""
    text = printed(attention_view(cropped(causal(20), "15:17", "8:12", 2), 2), 80)
    assert text.splitlines()[1:7] == [
        "rows: queries, columns: keys, the text so far; rows sum to 0.35 … 0.38 in the",
        "columns shown",
        "        ·w0 ·w1   ·w8 ·w9 ·w10 ·w11",
        "         0   1     8   9   10   11    sum",
        "·w15 15 .06 .06 │ .06 .06  .06  .06  0.38",
        "·w16 16 .06 .06 │ .06 .06  .06  .06  0.35",
    ]


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("color", ["truecolor", "256", None])
@pytest.mark.parametrize("count", [316, 2000])
def test_a_long_text_keeps_its_peak_and_its_first_keys(count: int, color: str | None, width: int) -> None:
    text = printed(attention_view(long(count), 2), width, color)  # type: ignore[arg-type]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = plain.splitlines()
    assert max(map(cell_len, lines)) <= width
    assert len(lines) <= width + 8
    words = " ".join(plain.split())
    pooled = re.search(
        rf"{count} × {count} drawn as .*: a cell is the largest of (\d+) × \d+; the first 2 apart", words
    )
    assert pooled
    assert f"see ·w{count - 10} ({count - 10}) look at ·w{count // 3} ({count // 3}): .90" in words
    if color is None:
        rows = [line.split("│") for line in lines if "│" in line]
        assert all(row[0][-2] == "▒" for row in rows), "the first key, .6 of at most 1, is seen in every row"
        body = [line for _, line in rows]
        assert [row for row in body if "█" in row] == [body[(count - 10) // int(pooled[1])]], "one peak, in its row"


def test_a_316_by_316_map_is_drawn_in_less_than_a_tenth_of_a_second() -> None:
    one = attention_view(long(316))
    taken = []
    for width in (80, 140, 400):
        console = fixed_console(width, "truecolor")
        for _ in range(3):
            began = time.process_time()
            console.print(one)
            taken.append((time.process_time() - began, width))
    for width in (80, 140, 400):
        assert min(seconds for seconds, of in taken if of == width) < 0.1


def test_scores_stand_above_the_weights() -> None:
    assert printed(AttentionScores(RECORD), 140).splitlines() == [
        "Attention scores and weights · decoder self-attention · layer 0, head 0",
        "scores = q · k / √Dh, √16 = 4",
        "weights = softmax of each row's scores, masked cells left out",
        "rows: queries, columns: keys, the text so far",
        "Scores",
        "        Lucas ·will ·travel",
        "  Lucas  +0.5   –      –",
        "  ·will  -1.2  +0.2    –",
        "·travel  +0.0  +1.5  -12.5",
        "        score  –: masked: −∞ for the softmax  ·: a space",
        "Weights",
        "        Lucas ·will ·travel   sum",
        "  Lucas  1.0    –      –     1.00",
        "  ·will  .25   .75     –     1.00",
        "·travel  .12   .50    .38    1.00",
        "        attention weight  –: exactly 0, masked  ·: a space",
    ]


def test_a_position_bias_has_its_own_table() -> None:
    with_bias = replace(RECORD, bias=frozen([[[[0, 9, 9], [-0.5, 0, 9], [-1, -0.5, 0]]] * 2]))
    lines = printed(AttentionScores(with_bias), 80).splitlines()
    at = lines.index("of which position bias")
    assert lines[at + 4].split() == ["·travel", "-1.00", "-0.50", "+0.00"]


def test_a_signed_number_has_its_colour() -> None:
    """Scores reach 12.5 away from 0, so that −12.5 is on the first colour and 0 on the middle one, which is white."""
    text = printed(AttentionScores(RECORD), 80, "truecolor")
    lowest, middle = ("{};{};{}".format(*SIGNED.table[level]) for level in (0, len(SIGNED.table) // 2))
    assert re.search(rf"48;2;{lowest}m *-12\.5", text)
    assert re.search(rf"48;2;{middle}m *\+0\.0", text)


def test_a_score_that_the_softmax_makes_nothing_of_is_not_called_masked() -> None:
    """Scores of 0 and −200: the weight of the second is 0 as a float32, and it stands there as a number."""
    scores = frozen([[[[0, 7], [0, -200]]]])
    weights, mask = frozen([[[[1, 0], [1, 0]]]]), frozen([[1, 0], [1, 1]], np.bool_)
    one = AttentionRecord("decoder_self", ("a", "b"), ("a", "b"), weights, scores=scores, mask=mask)
    lines = printed(AttentionScores(one), 60).splitlines()
    rows = [line.split() for line in lines if line.startswith(("a ", "b "))]
    assert rows == [["a", "+0", "–"], ["b", "+0", "-200"], ["a", "1.0", "–", "1.00"], ["b", "1.0", ".00", "1.00"]]


def test_a_difference_names_both_sides_and_lists_the_largest() -> None:
    assert printed(AttentionDifferenceView(DIFFERENCE), 80).splitlines() == [
        "Difference of attention weights · decoder self-attention",
        "layer 0, head 0 − layer 0, head 1",
        "rows: queries, columns: keys, the text so far",
        "above 0: the first looks more, below 0: the second does",
        "        Lucas ·will ·travel",
        "  Lucas +0.00   –      –",
        "  ·will -0.25 +0.25    –",
        "·travel -0.13 +0.25  -0.12",
        "        difference of weights  –: exactly 0 on both sides, masked  ·: a space",
        "",
        "Largest differences",
        "query at key            first  second  difference",
        "·will (1) at Lucas (0)    .25     .50       -0.25",
        "·will (1) at ·will (1)    .75     .50       +0.25",
    ]


def test_tokens_of_two_texts_stand_side_by_side_where_they_differ() -> None:
    other = replace(RECORD, query_tokens=("Lucas", " did", " travel"), key_tokens=("Lucas", " did", " travel"))
    text = printed(AttentionDifferenceView(difference(RECORD, other, ((0, 0), (0, 1)), ("“\x1b[2J”", "b"))), 80)
    assert "·will|·did -0.25" in text
    assert "“\\x1b[2J” − b" in text


def test_what_to_see_is_never_called_nothing() -> None:
    """Every weight of row 999 is 0.001, which two decimals would make .00."""
    assert "see ·w999 (999) look at ·w1 (1): 0.001" in printed(attention_view(cropped(causal(1000), "999:")), 80)


def test_the_same_on_both_sides_is_said() -> None:
    same = difference(RECORD, RECORD, ((0, 0), (0, 0)), ("a", "b"))
    assert "No difference: both sides are the same, cell by cell." in printed(AttentionDifferenceView(same), 80)


def test_the_strongest_weights_as_a_list() -> None:
    """1 + .75 + .5 of 3 are three quarters."""
    assert printed(AttentionEdgeList(strongest_edges(RECORD, 3)), 60).splitlines() == [
        "Strongest attention weights · decoder self-attention · layer",
        "0, head 0",
        "3 of 6 weights; they hold 75.0 % of all weight; 3 cells",
        "masked, and not counted",
        "   query          key    weight",
        "0  Lucas    at 0  Lucas   1.000  ████ only key",
        "1  ·will    at 1  ·will   0.750  ███",
        "2  ·travel  at 1  ·will   0.500  ██",
    ]


def test_steps_stand_side_by_side_in_order() -> None:
    steps = (AttentionStep(40, 1.5, 0.25, 2, 0), AttentionStep(1200, 0.25, 0.0, 0, 0))
    one = AttentionEvolution("decoder_self", TOKENS, TOKENS, 1, 0, frozen([HEAD, OTHER]), CAUSAL, steps)
    lines = printed(evolution_view(one), 80).splitlines()
    assert lines[0] == "Attention weights by step · decoder self-attention · layer 1, head 0"
    assert lines[3].split() == ["step", "40", "step", "1,200"]
    assert lines[4].split() == ["████––––––––", "████––––––––"]
    figures = [line.split() for line in lines[-6:]]
    assert ["step", "entropy,", "nats", "strongest", "query", "at", "key"] in [line.split() for line in lines]
    assert ["40", "1.50", ".25", "·travel", "(2)", "at", "Lucas", "(0)"] in figures
    assert ["1,200", "0.25", ".00", "none"] in figures


def test_csv_has_a_row_a_weight_with_the_text_s_positions() -> None:
    part = replace(cropped(RECORD, "2:3", "1:3"), scores=None)
    assert to_csv(attention_table([part])).splitlines() == [
        "kind,layer,head,query,key,query_token,key_token,weight",
        "decoder_self,0,0,2,1, travel, will,0.5",
        "decoder_self,0,0,2,2, travel, travel,0.38",
        "decoder_self,0,1,2,1, travel, will,0.25",
        "decoder_self,0,1,2,2, travel, travel,0.5",
    ]
    with_scores = to_csv(attention_table([RECORD], (3, 2))).splitlines()
    assert with_scores[0].endswith("weight,score")
    assert with_scores[1] == "decoder_self,3,2,0,0,Lucas,Lucas,1.0,0.5"
    assert len(with_scores) == 1 + 2 * 9


def test_csv_of_differences_strongest_weights_and_steps() -> None:
    assert to_csv(difference_table(DIFFERENCE)).splitlines()[4] == (
        "decoder_self,1,0, will,Lucas, will,Lucas,0.25,0.5,-0.25"
    )
    assert to_csv(edges_table(strongest_edges(RECORD, 1))).splitlines() == [
        "kind,place,query,key,query_token,key_token,weight,row_label",
        'decoder_self,"layer 0, head 0",0,0,Lucas,Lucas,1.0,Lucas',
    ]
    sees = frozen([[1]], np.bool_)
    one = AttentionEvolution("cross", ("a",), ("b",), 1, 0, frozen([[[0.5]]]), sees, (AttentionStep(40, 0, 0.5, 0, 0),))
    assert to_csv(evolution_table(one)).splitlines()[1] == "cross,1,0,40,0,0,a,b,0.5"


def numbers_of(svg: str) -> list[str | None]:
    found = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return [text.text for text in found if text.get("text-anchor") == "middle"]


def test_svg_of_scores_and_differences_holds_their_numbers() -> None:
    scores = ["+0.5", "-1.2", "+0.2", "+0.0", "+1.5", "-12.5"]
    assert numbers_of(AttentionScores(RECORD).svg()) == [*scores, "1.0", ".25", ".75", ".12", ".50", ".38"]
    drawn = matrices_svg([difference_matrix(DIFFERENCE)])
    assert numbers_of(drawn) == ["+0.00", "-0.25", "+0.25", "-0.13", "+0.25", "-0.12"]
    assert "layer 0, head 0 − layer 0, head 1" in drawn


def test_svg_of_a_long_text_has_no_numbers_and_stays_small() -> None:
    svg = matrices_svg([weights_matrix(long(600), 3)])
    assert numbers_of(svg) == []
    assert len(svg) < 500_000
    root = ElementTree.fromstring(svg)
    words = " ".join(text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text"))
    assert "600 × 600 drawn as 150 × 153: a cell is the largest of 4 × 4; the first 3 apart" in words
    assert float(root.get("width", "0")) < 1600
