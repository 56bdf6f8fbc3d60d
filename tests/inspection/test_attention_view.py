"""One head and all heads, as numbers, maps and shades, on 60, 80 and 140 columns."""

import re
from dataclasses import replace

import numpy as np
import pytest
from rich.cells import cell_len

from tests.support.consoles import printed
from tfcli.draw.colors import WEIGHTS
from tfcli.inspection.attention import AttentionKind, AttentionRecord
from tfcli.inspection.attention.matrix_view import attention_overview
from tfcli.inspection.attention.view import attention_view
from tfcli.records.arrays import frozen

TOKENS = ("Lucas", " will", " travel")
HEAD = [[1, 0, 0], [0.25, 0.75, 0], [0.12, 0.5, 0.38]]


def record(
    weights: object = HEAD, tokens: tuple[str, ...] = TOKENS, kind: AttentionKind = "decoder_self"
) -> AttentionRecord:
    return AttentionRecord(kind, tokens, tokens, frozen([[weights, weights]]))


def causal(count: int) -> AttentionRecord:
    """Token n looks at all before and itself alike."""
    weights = np.tril(np.ones((count, count))) / np.arange(1, count + 1)[:, None]
    return record(weights, tuple(f" w{n}" for n in range(count)))


@pytest.mark.parametrize("width", [80, 140])
def test_numbers_under_whole_labels(width: int) -> None:
    assert printed(attention_view(replace(record(), focus=(0, 1))), width).splitlines() == [
        "Attention weights · decoder self-attention · layer 0, head 1",
        "rows: queries, columns: keys, the text so far; each row sums to 1",
        "        Lucas ·will ·travel   sum",
        "  Lucas  1.0    –      –     1.00",
        "  ·will  .25   .75     –     1.00",
        "·travel  .12   .50    .38    1.00",
        "        attention weight  –: exactly 0, masked  ·: a space",
    ]


def test_a_number_is_black_or_white_on_its_colour() -> None:
    # The largest weight, 1.0, is on the last colour (yellow, so black text: colour 16 of the cube).
    line = printed(attention_view(record()), color="truecolor").splitlines()[3]
    yellow = "{};{};{}".format(*WEIGHTS.table[-1])
    assert f"\x1b[38;5;16;48;2;{yellow}m 1.0  \x1b[0m" in line
    assert "\x1b[2m  –   \x1b[0m" in line


def test_rows_that_do_not_sum_to_one_are_reported_as_they_are() -> None:
    text = printed(attention_view(record([[0.5, 0, 0], [0.5, 0.5, 0], [0.5, 0.25, 0.25]])))
    assert "rows sum to 0.50 … 1.00" in text


def test_labels_turn_downwards_before_numbers_are_given_up() -> None:
    # 60 columns less gutter (5) and sums (5) are 50: 12 numbers of 4 cells fit, 12 labels of 4 letters and
    # a gap do not.
    tokens = tuple(f" w{n}" for n in range(10, 22))
    lines = printed(attention_view(record(np.full((12, 12), 1 / 12), tokens)), 60).splitlines()
    header = [line.split() for line in lines if line.startswith("     ")][:4]
    assert header[:3] == [["·"] * 12, ["w"] * 12, ["1"] * 10 + ["2"] * 2]
    assert header[3] == [*map(str, range(10)), "0", "1", "sum"]
    assert "·w13 " + ".08 " * 12 + " 1.00" in lines


@pytest.mark.parametrize(("width", "count"), [(60, 22), (80, 32), (140, 62)])
def test_a_wide_map_labels_every_token(width: int, count: int) -> None:
    lines = printed(attention_view(causal(count)), width).splitlines()
    assert sum(line.startswith("·w") for line in lines) == count
    assert max(map(cell_len, lines)) <= width
    first = next(line for line in lines if line.startswith("·w0"))
    assert first.split()[-1] == "██" + "––" * (count - 1)


def test_a_long_text_is_a_half_block_map_with_every_other_token() -> None:
    lines = printed(attention_view(causal(60)), 80, "truecolor").splitlines()
    rows = [line for line in lines if line.startswith("·w")]
    assert [row.split()[0] for row in rows[:3]] == ["·w0", "·w2", "·w4"]
    assert len(rows) == 30


def test_cross_attention_lists_the_keys_that_a_ruler_only_numbers() -> None:
    keys = tuple(f"k{n}" for n in range(50))
    weights = frozen(np.full((1, 1, 2, 50), 0.02))
    text = printed(attention_view(AttentionRecord("cross", ("a", "b"), keys, weights)), 80)
    assert "cross-attention" in text
    assert "keys: 0 k0  1 k1  2 k2" in text


def test_wide_and_dangerous_tokens_stay_aligned() -> None:
    tokens = ("日本", " e\u0301", "🤖", "\x1b[2J\n", "\u202eabc")
    text = printed(attention_view(record(np.full((5, 5), 0.2), tokens)), 80)
    rows = [line for line in text.splitlines() if line.endswith("1.00")]
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len({cell_len(row) for row in rows}) == 1
    assert len({cell_len(row[: row.index(".20")]) for row in rows}) == 1


def test_overview_labels_every_head_and_wraps() -> None:
    # Shades: 3 tokens are drawn twice as large, each cell two columns: 12 columns a head; 4 heads and 3 gaps
    # of 2 are 54, a fifth would not fit in 60.
    weights = frozen(np.tile(np.array(HEAD), (2, 5, 1, 1)))
    lines = printed(attention_overview(AttentionRecord("encoder_self", TOKENS, TOKENS, weights)), 60).splitlines()
    assert lines[1] == "2 layers (L) × 5 heads (H); 3 queries down, 3 keys across"
    assert lines[2].split() == ["L0", "H0", "L0", "H1", "L0", "H2", "L0", "H3"]
    assert lines[3] == "  ".join(["████––––––––"] * 4)
    assert lines[9] == "L0 H4"
    assert lines[-1] == "0 [  ░░▒▒▓▓██] 1  attention weight"


def test_overview_says_whether_heads_share_one_scale() -> None:
    """Head 1 has a tenth of head 0's weights: nearly the lowest shade on the common scale, the highest on its own."""
    weights = frozen(np.stack([np.full((3, 3), 1.0), np.full((3, 3), 0.1)])[None])
    seen = AttentionRecord("encoder_self", TOKENS, TOKENS, weights)
    shared = printed(attention_overview(seen)).splitlines()
    own = printed(attention_overview(seen, "each")).splitlines()
    assert shared[3] == "█" * 12
    assert own[3] == "█" * 12 + "  " + "█" * 12
    assert shared[-2:] == ["colours: one scale for all maps", "0 [  ░░▒▒▓▓██] 1  attention weight"]
    assert own[-2:] == ["colours: each map on its own scale", "0 [  ░░▒▒▓▓██] its largest  attention weight"]


def test_overview_pools_by_the_largest() -> None:
    weights = np.full((1, 1, 32, 32), 0.01, dtype=np.float32)
    weights[0, 0, 31, 0] = 1.0
    lines = printed(attention_overview(AttentionRecord("encoder_self", ("x",) * 32, ("x",) * 32, weights))).splitlines()
    assert lines[10] == "██"
    assert lines[-1].endswith("a cell shows the largest of 4 × 4")


def test_overview_shows_a_weight_of_0_as_0_where_the_mask_lets_it_be_seen() -> None:
    """Row 2 gives key 0 nothing, and is hidden from nothing: blank, the lowest shade, where "–" would be masked."""
    weights = frozen([[[[1, 0, 0], [0, 1, 0], [0, 0, 1]]]])
    record = AttentionRecord("decoder_self", TOKENS, TOKENS, weights, mask=frozen(np.tri(3), np.bool_))
    lines = printed(attention_overview(record), 60).splitlines()
    assert [lines[3], lines[5], lines[7]] == ["████––––––––", "    ████––––", "        ████"]


def legend(text: str) -> list[str]:
    """What stands at both ends of a colour scale."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    return next(line.split()[:2] for line in plain if line.strip().startswith("0 "))


def test_weights_are_coloured_from_0_to_1_however_small_they_are() -> None:
    """Four keys with a quarter each: a quarter up the scale; at its end where each head has its own."""
    weights = np.full((4, 4), 0.25)
    one = record(weights, ("a", "b", "c", "d"), "encoder_self")
    quarter, end = ("48;2;{};{};{}m".format(*WEIGHTS.table[level]) for level in (8, 32))
    fixed, stretched = (printed(attention_view(one, scale=scale), color="truecolor") for scale in ("all", "each"))
    rows = [line for line in fixed.splitlines() if ".25" in line]
    assert all(quarter in row and end not in row for row in rows[:4])
    assert legend(fixed) == ["0", "1"]
    assert all(end in line for line in stretched.splitlines() if line.count(".25") == 4)
    assert legend(stretched) == ["0", ".25"]


def test_a_long_map_of_weights_ends_at_1_too() -> None:
    lines = printed(attention_view(causal(60)), 80).splitlines()
    assert any(line.strip().startswith("0 [  ░░▒▒▓▓██] 1  attention weight") for line in lines)
    cross = AttentionRecord("cross", ("a", "b"), ("k",) * 70, frozen(np.full((1, 1, 2, 70), 0.1)))
    assert "0 [  ░░▒▒▓▓██] 1  attention weight" in printed(attention_view(cross), 80)


def test_a_space_and_a_masked_cell_have_two_signs() -> None:
    """No number's cell has the sign of a space, and the legend names both; without a space, one."""
    lines = printed(attention_view(record()), 80).splitlines()
    assert "–: exactly 0, masked  ·: a space" in lines[-1]
    for line in lines[3:6]:
        assert " · " not in line
    plain = record(tokens=("Lucas", "will", "travel"))
    assert "·" not in printed(attention_view(plain), 80).splitlines()[-1]
