"""Decoding step by step: tables of candidates, the line of chances, and the two searches."""

from dataclasses import replace

import pytest

from tests.support.consoles import printed
from tfcli.draw.tables import to_csv, to_json
from tfcli.inspection.explain import DecodingCandidate
from tfcli.inspection.explain.decoding import explain_toy_decoding
from tfcli.inspection.explain.decoding_view import DecodingView, decoding_table
from tfcli.recipe.recipe import GenerateSection

RECORD = explain_toy_decoding(GenerateSection(temperature=0.5, top_k=3, top_p=0.9, beam=2, max_new_tokens=4))
FIRST_STEP = """\
Step 1  what follows “Lucas will”?
  token      z (z−max)/τ  p(z) p(z/τ) top-k top-p
  ·travel 2.08      0.00 0.500  0.744 0.762 0.800
▸ ·stay   1.39     -1.39 0.250  0.186 0.190 0.200
  ·work   0.69     -2.77 0.125  0.047 0.048     ×
  </s>    0.00     -4.16 0.062  0.012     ×     ×
  ·rest   0.00     -4.16 0.062  0.012     ×     ×
top-k leaves 3, top-p 2.
0 [                  ·travel                  ][  ·stay  ] 1
                                                   ▲
u = 0.8806 lies in [0.8000, 1.0000): ·stay"""


def test_the_first_step_at_60_columns():
    """56 cells are the line from 0 to 1: 45 for 0.8 of it, and u = 0.88 on cell 49 of it."""
    assert FIRST_STEP in printed(DecodingView(RECORD), 60)


def test_the_searches_at_80_columns():
    lines = printed(DecodingView(RECORD), 80).splitlines()
    assert "greedy  0.5 ·travel × 0.25 ·far × 1 </s> = 0.125   ln p = -2.079" in lines
    assert "beam 2  0.25 ·stay × 0.875 ·home × 1 </s> = 0.2188   ln p = -1.520" in lines
    assert any(line.startswith("The beam's text is 1.75 times as likely.") for line in lines)


def test_bars_at_140_columns():
    """16 cells for all of the chance: 12.8 for 0.8 of it."""
    assert "0.800  ████████████▊" in printed(DecodingView(RECORD), 140)


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("color", [None, "truecolor"])
def test_the_line_of_chances_is_as_wide_as_the_terminal(width: int, color: str | None):
    from tests.support.consoles import fixed_console

    console = fixed_console(width, color)  # type: ignore[arg-type]
    for line in console.render_lines(DecodingView(RECORD), console.options, pad=False):
        assert sum(segment.cell_length for segment in line) <= width


def test_greedy_has_no_draw():
    greedy = explain_toy_decoding(GenerateSection(temperature=0, beam=2, max_new_tokens=1))
    text = printed(DecodingView(greedy), 80)
    assert "argmax z: ·travel" in text
    assert "▲" not in text
    assert "The beam has found the same text" in text


def test_csv_and_json():
    lines = to_csv(decoding_table(RECORD)).splitlines()
    assert lines[0].startswith("step,uniform,chosen,token,token_id,logit,scaled,probability")
    assert lines[2].split(",")[2:5] == ["1", " stay", "4"]
    told = to_json(RECORD)
    assert told["steps"][0]["candidates"][0]["after_top_p"] == pytest.approx(0.8)
    assert told["source"] is None


def _with_min_p(one: DecodingCandidate, probability: float) -> dict[str, float]:
    return {**one.after, "after_min_p": probability}


def test_min_p_and_the_settings_against_repetition_have_their_columns():
    """Of a token that the text holds, z = ln 8 = 2.08 becomes 1.04."""
    held = replace(RECORD.steps[0], kept={**RECORD.steps[0].kept, "kept_min_p": 1})
    first = replace(
        held.candidates[0], adjusted=held.candidates[0].logit / 2, after=_with_min_p(held.candidates[0], 1.0)
    )
    rest = tuple(replace(one, after=_with_min_p(one, 0.0)) for one in held.candidates[1:])
    step = replace(held, candidates=(first, *rest))
    record = replace(RECORD, steps=(step,), min_p=0.5, repetition_penalty=2.0, no_repeat_ngram=3)
    text = printed(DecodingView(record), 80)
    together = " ".join(text.split())
    assert "min-p: what is 0.5 times as likely as the best stays" in together
    assert "z′ is of tokens that the text holds, z / 2 where z > 0, and z × 2 elsewhere; −∞ for what would" in together
    lines = text.splitlines()
    heads = next(line for line in lines if line.strip().startswith("token"))
    assert heads.split() == ["token", "z", "z′", "(z′−max)/τ", "p(z)", "p(z′/τ)", "top-k", "top-p", "min-p"]
    assert next(line for line in lines if "·travel" in line).split()[1:3] == ["2.08", "1.04"]
    assert "top-k leaves 3, top-p 2, min-p 1." in lines
    assert "…" not in text
    narrow = printed(DecodingView(record), 60)
    assert "  ·travel 2.08 1.04 0.500   0.744 0.762 0.800 1.000" in narrow
