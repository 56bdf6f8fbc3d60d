"""Nothing that steers a terminal gets through, and every label takes exactly the cells it is given."""

import doctest
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tfcli.draw import heatmap, numbers, safe
from tfcli.draw.safe import fit, printable, token_label

SEEN_FORMAT_SIGNS = {  # format characters (Cf) that have a shape of their own
    *range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD
}  # fmt: skip


@pytest.mark.parametrize("module", [safe, numbers, heatmap])
def test_the_examples_in_the_docstrings_hold(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


def test_every_control_character_is_escaped() -> None:
    for code in range(0x110000):
        character = chr(code)
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") and code not in SEEN_FORMAT_SIGNS:
            assert character not in printable(character), hex(code)


def test_escapes_are_readable() -> None:
    assert printable("a\x1b[31m\x9b\u202e\u200b\n\t\U000e0041") == "a\\x1b[31m\\x9b\\u202e\\u200b⏎⇥\\U000e0041"


def test_running_text_keeps_its_lines_and_emoji_families() -> None:
    family = "\N{MAN}\u200d\N{WOMAN}\u200d\N{GIRL}"
    assert printable(f"{family}\n\tx\x1b", keep_newlines=True) == f"{family}\n\tx\\x1b"


@pytest.mark.parametrize(
    ("token", "label"),
    [
        (" bank", "·bank"),
        ("\n", "⏎"),
        ("", "∅"),
        ("\u0301", "◌\u0301"),
        ("\xa0x", "\\xa0x"),
        ("日本", "日本"),
    ],
)
def test_token_labels(token: str, label: str) -> None:
    assert token_label(token) == label


@pytest.mark.parametrize(
    ("label", "width", "fitted"),
    [
        ("bank", 6, "bank  "),
        ("bank", 4, "bank"),
        ("bank", 3, "ba…"),
        ("日本語", 5, "日本…"),  # two wide letters are four cells, the ellipsis the fifth
        ("日本語", 4, "日… "),  # a second wide letter would not leave room for the ellipsis
        ("e\u0301a", 2, "e\u0301a"),  # the accent takes no cell
        ("e\u0301abc", 2, "e\u0301…"),
        ("x", 0, ""),
    ],
)
def test_fit_counts_cells(label: str, width: int, fitted: str) -> None:
    assert fit(label, width) == fitted


def test_fit_aligns() -> None:
    assert fit("ab", 5, "right") == "   ab"
    assert fit("ab", 5, "center") == " ab  "


@given(st.text(), st.integers(0, 30))
def test_any_token_takes_exactly_its_width(token: str, width: int) -> None:
    assert cell_len(fit(token_label(token), width)) == width
