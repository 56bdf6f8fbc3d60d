# ruff: noqa: E501 (a screen is as wide as it is)
"""Whole screens as plain text, of a reading made by hand."""

import time

import pytest

from tests.support.explorer import decoder_reading, explorer, play, record, translation_reading
from tfcli.explorer.map import AttentionMap
from tfcli.explorer.scene import ReadText, Scene
from tfcli.explorer.state import View
from tfcli.inspection.heads import Head

SMALL = """\
 tfcli tiny-1  decoder self-attention · layer 1 of 2 · head 2 of 3
╭─ heads ──────────╮╭─ layer 1, head 2 · weights ───────╮╭─ where ·bank looks ─╮
│    0  1  2       ││                ·           ·      ││   <s> ▏         .01 │
│L0  ▀▄ ▀▄ ▀▄      ││                s       ·   b      ││▸  Tom ███████▍  .92 │
│         ┏━━┓     ││        <   T   w   ·   t   a      ││ ·swam           .00 │
│L1  ▀▄ ▀▄┃▀▄┃     ││        s   o   a   t   h   n      ││   ·to ▎         .03 │
│         ┗━━┛     ││        >   m   m   o   e   k      ││  ·the           .01 │
│                  ││            ▾                      ││ ·bank ▎         .03 │
╰───────── 0 to 1 ─╯│   <s> 1.0  –   –   –   –   –      ││                     │
╭─ previous token ─╮│   Tom .02 .98  –   –   –   –      ││                     │
│entropy  0.50 nats││ ·swam .86 .09 .06  –   –   –      ││                     │
│distance       1.5││   ·to .09 .77 .06 .07  –   –      ││                     │
│largest        .75││  ·the .69 .05 .19 .01 .05  –      ││                     │
│first token    .10││▸·bank .01 .92 .00 .03 .01 .03     ││                     │
│itself         .20││                                   ││                     │
│previous token .60││·bank at Tom  0.9229  score +4.62  ││                     │
│induction      .00││0                  1  –: masked    ││                     │
│duplicate      .00││weight, each row sums to 1         ││                     │
│                  ││                                   ││                     │
╰──────────────────╯╰───────────────────────────────────╯╰─────────────────────╯
query  <s>  Tom  ·swam  ·to  ·the  ·bank
keys   <s>  Tom  ·swam  ·to  ·the  ·bank
$ tfcli inspect attention runs/tiny-1 'Tom swam to the bank' --head 1.2
? help  q quit  ← ↑ ↓ → cursor  h l head  k j layer  t kind  w scores  r mean
"""

LARGE = """\
 tfcli tiny-1  cross-attention · layer 1 of 2 · head 2 of 3                                                                 linear, cividis
╭─ heads ──────────────────╮╭─ layer 1, head 2 · weights ───────────────────────────────────────────────╮╭─ where sleeps → .? looks ───────╮
│    0      1      2       ││                   O          gato       dorme        </s>                 ││     O ██████▌               .32 │
│L0  ▀▀▀▀▀▀ ▀▀▀▀▀▀ ▀▀▀▀▀▀  ││                               ▾                                           ││▸ gato █████████████         .65 │
│    ▀▀▀▀▀▀ ▀▀▀▀▀▀ ▀▀▀▀▀▀  ││                                                                           ││ dorme ▍                     .02 │
│    ▀▀▀▀▀▀ ▀▀▀▀▀▀ ▀▀▀▀▀▀  ││                                                                           ││  </s> ▏                     .01 │
│                 ┏━━━━━━┓ ││    <s> → The     .61         .09         .09         .20                  ││                                 │
│L1  ▀▀▀▀▀▀ ▀▀▀▀▀▀┃▀▀▀▀▀▀┃ ││                                                                           ││                                 │
│    ▀▀▀▀▀▀ ▀▀▀▀▀▀┃▀▀▀▀▀▀┃ ││                                                                           ││                                 │
│    ▀▀▀▀▀▀ ▀▀▀▀▀▀┃▀▀▀▀▀▀┃ ││                                                                           ││                                 │
│                 ┗━━━━━━┛ ││                                                                           ││                                 │
│                          ││                                                                           ││                                 │
│                          ││    The → cat     .75         .10         .07         .07                  ││                                 │
│                          ││                                                                           ││                                 │
│                          ││                                                                           ││                                 │
│                          ││                                                                           ││                                 │
│                          ││                                                                           ││                                 │
│                          ││                                                                           ││                                 │
│                          ││ cat → sleeps     .95         .00         .02         .03                  ││                                 │
│                          ││                                                                           ││                                 │
│                          ││                                                                           ││                                 │
│                          ││                                                                           ││                                 │
│                          ││                          ┏━━━━━━━━━━┓                                     ││                                 │
╰───────────────── 0 to 1 ─╯│                          ┃          ┃                                     ││                                 │
╭─ previous token ─────────╮│▸ sleeps → .?     .32     ┃   .65    ┃    .02         .01                  ││                                 │
│entropy          0.50 nats││                          ┃          ┃                                     ││                                 │
│distance               1.5││                          ┃          ┃                                     ││                                 │
│largest                .75││                          ┗━━━━━━━━━━┛                                     ││                                 │
│first token            .10││                                                                           ││                                 │
│itself                 .20││sleeps → .? at gato  0.6528  score +1.15                                   ││                                 │
│previous token         .60││0                  1  weight, each row sums to 1, ?: the model's likeliest ││                                 │
│induction              .00││                                                                           ││                                 │
│duplicate              .00││                                                                           ││                                 │
│                          ││                                                                           ││                                 │
│                          ││                                                                           ││                                 │
╰──────────────────────────╯╰──────────────────────────────────────────────── rows: input → next token ─╯╰─────────────────────────────────╯
query  <s>  The  cat  sleeps
keys   O  gato  dorme  </s>
$ tfcli inspect attention runs/tiny-1 'O gato dorme' --head 1.2 --kind cross
? help  q quit  ← ↑ ↓ → cursor  h l head  k j layer  t kind  w scores  r mean  p words  s scale  b light  d difference  c cut  o order
"""


def test_the_screen_at_80_columns():
    assert play(explorer(decoder_reading()), size=(80, 24)) == SMALL.rstrip("\n")


def test_the_screen_at_140_columns():
    assert play(explorer(translation_reading()), size=(140, 40)) == LARGE.rstrip("\n")


@pytest.mark.parametrize(
    ("size", "color_system"),
    [((20, 6), "truecolor"), ((50, 20), None), ((59, 24), "truecolor"), ((109, 30), None), ((200, 60), "256")],
)
def test_any_size_is_filled_and_not_exceeded(size: tuple[int, int], color_system: str | None):
    tokens = ("<s>", "日本", "\x1b[31m", "👩‍👩‍👧", "\n", "שלום", "", "a" * 60, *(f"w{index}" for index in range(90)))
    reading = ReadText("x", None, (record("decoder_self", tokens, tokens),), ())
    lines = play(explorer(reading, color_system=color_system), "pageup", "z", size=size).split("\n")
    assert len(lines) == size[1]
    assert "\x1b" not in "".join(lines)
    assert "runs/tiny-1"[-6:] in lines[0]


def test_without_colour_cells_are_shades_and_numbers():
    shown = play(explorer(decoder_reading(), color_system=None), size=(80, 24))
    assert "0 [  ░░▒▒▓▓██] 1" in shown
    assert ".92" in shown
    assert "▀" not in shown


def test_a_map_of_316_tokens_draws_in_a_tenth_of_a_second():
    """The best of ten; a busy machine slows some of them."""
    tokens = tuple(f"w{index}" for index in range(316))
    reading = ReadText("x", None, (record("decoder_self", tokens, tokens),), ())
    widget = AttentionMap(id="map")
    taken = []
    for row in range(10):
        view = View(Head("decoder_self", 0, 0), row=300 + row)
        began = time.perf_counter()
        lines = widget.draw(Scene("run", "best", reading, view, "truecolor"), 330, 170)
        taken.append(time.perf_counter() - began)
    assert len(lines) == 2 + 316 // 2 + 3, "a row of cells for every two queries"
    assert min(taken) < 0.1
