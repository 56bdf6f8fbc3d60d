"""Traces drawn on fixed consoles."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from tests.support.consoles import printed
from tfcli.generation.view import TraceView
from tfcli.records.generation import Generated, Option, Trace, TraceStep


def step(chosen: int, *options: tuple[str, float, float]) -> TraceStep:
    found = tuple(Option(n, token, p, chance) for n, (token, p, chance) in enumerate(options))
    one = found[chosen]
    return TraceStep(one.token_id, one.token, one.probability, one.chance, found)


def trace(*steps: TraceStep, text: str = " cat sat", prompt: str = "the") -> Trace:
    return Trace(Generated(prompt, text, tuple(s.token_id for s in steps), -2.0, (-1.0, -1.0), "length"), steps)


SMALL = trace(
    step(1, (" dog", 0.5, 0.625), (" cat", 0.25, 0.375), (" a", 0.004, 0.0)),
    step(0, (" sat", 1.0, 1.0), (" is", 0.0, 0.0), (" ", 0.0, 0.0)),
)


def test_a_row_a_step_with_bars_of_the_models_own_probabilities():
    """Bars have 10 cells: 0.5 is 5, 0.25 is 2½."""
    assert printed(TraceView(SMALL), 100).splitlines() == [
        "step token    p chance  candidates",
        "   1 ·cat   25%    38%    ·dog   █████       50% ▸ ·cat   ██▌         25% × ·a                 <1%",
        "   2 ·sat  100%   100%  ▸ ·sat   ██████████ 100% × ·is                 0% × ·                   0%",
        "p: under the model itself   chance: in the draw   ▸ chosen   × ruled out",
        "the cat sat",
        "2 tokens, log-probability -2.00, -1.00 a token",
    ]


def test_the_chosen_token_is_among_the_candidates_that_fit():
    options = [(f" {'x' * 12}{n}", 0.1 - n / 100, 0.1) for n in range(9)]
    text = printed(TraceView(trace(step(8, *options))), 80)
    row = text.splitlines()[1]
    assert "▸ ·xxx" in row
    assert row.count("%") == 2 + 3, "its own numbers and three candidates"


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_what_was_chosen_and_ruled_out_is_told_without_colour(encoding: str):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    Console(file=stream, width=80, no_color=True, _environ={}).print(TraceView(SMALL))
    stream.seek(0)
    first = stream.read().splitlines()[1]
    chosen, ruled_out = (">", "x") if encoding == "ascii" else ("▸", "×")
    assert first.count(f" {chosen} ") == first.count(f" {ruled_out} ") == 1


def test_what_was_ruled_out_is_dim_and_the_chosen_bold():
    text = printed(TraceView(SMALL), 100, "truecolor")
    assert "\x1b[1m ▸ ·cat" in text
    assert "\x1b[2m × ·a" in text


def test_control_characters_stay_out():
    bad = trace(step(0, ("\x1b[2J\r", 0.5, 0.5), ("\x9b", 0.5, 0.5)), text="\x1b]0;x\x07", prompt="\x1bc")
    assert not set(printed(TraceView(bad), 80)) & set("\x1b\r\x07\x9b")


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(st.text(st.characters(exclude_characters="▸"), max_size=20), st.floats(0, 1), st.floats(0, 1)),
            min_size=1,
        ),
        min_size=1,
    ),
    st.sampled_from([60, 80, 140]),
)
def test_every_row_fits_the_terminal(rows: list[list[tuple[str, float, float]]], width: int):
    lines = printed(TraceView(trace(*(step(len(row) - 1, *row) for row in rows))), width).splitlines()
    assert max(map(cell_len, lines[: 1 + len(rows)])) <= width
    assert all(line.count("▸") == 1 for line in lines[1 : 1 + len(rows)])
