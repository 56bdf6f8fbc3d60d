"""A benchmark of generation on a fixed console."""

from dataclasses import replace

from tests.support.consoles import printed
from tfcli.bench import Difference, GenerationSide, GenerationSpeed, Machine, Spread
from tfcli.bench.view import GenerationSpeedView

OURS = GenerationSide(
    name="tfcli",
    model="Decoder",
    precision="float32",
    parameters=10_770_816,
    tokens_per_second=412.0,
    seconds=Spread(0.3, 0.311, 0.33),
    prefill_seconds=Spread(0.011, 0.012, 0.0131),
    token_seconds=Spread(0.0023, 0.00236, 0.00241),
    bandwidth_share=0.612,
    memory=480_000_000,
)
THEIRS = replace(
    OURS,
    name="transformers",
    model="GPT2LMHeadModel",
    tokens_per_second=71.5,
    seconds=Spread(1.7, 1.79, 1.9),
    prefill_seconds=Spread(0.021, 0.022, 0.0241),
    token_seconds=Spread(0.0131, 0.0139, 0.0152),
    bandwidth_share=0.104,
    memory=910_000_000,
    ratio=5.76,
    ratio_p10=5.4,
    ratio_p90=6.02,
)
SPEED = GenerationSpeed(
    recipe="shakespeare",
    architecture="decoder",
    num_layers=6,
    d_model=384,
    num_heads=6,
    vocab_size=65,
    batch=1,
    prompt_tokens=32.0,
    new_tokens=128,
    beam=1,
    rounds=5,
    warmup=1,
    weight_bytes=42_600_000,
    read_bandwidth=31.2e9,
    machine=Machine("EPYC\x1b[2J", 2, 2, "cpu", "2.13.0", "5.23.0"),
    sides=(OURS, THEIRS),
    same_ids=1.0,
)


def test_a_row_a_side_in_eighty_columns():
    lines = printed(GenerationSpeedView(SPEED)).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[:11] == [
        "Generation speed · shakespeare",
        "decoder, 6 layers of 384, 6 heads, vocabulary 65",
        "1 prompt of 32 tokens · 128 new each, greedy",
        "EPYC\\x1b[2J · 2 cores, 2 threads · torch 2.13.0",
        "memory is read at 31.2 GB/s · a token reads 42.6 MB of weights",
        "",
        "              tokens/s  prefill ms  ms a token  of limit  memory   tfcli is",
        "tfcli              412        12.0        2.36    61.2 %  480 MB",
        "float32                  11.0–13.1   2.30–2.41",
        "transformers      71.5        22.0        13.9    10.4 %  910 MB      5.76×",
        "float32                  21.0–24.1   13.1–15.2                    5.40–6.02",
    ]


def test_several_texts_take_steps_and_have_no_limit():
    sides = tuple(replace(side, bandwidth_share=None) for side in SPEED.sides)
    text = printed(GenerationSpeedView(replace(SPEED, batch=32, beam=5, sides=sides)))
    assert "32 prompts of 32 tokens · 128 new each, 5 beams" in text
    assert "ms a step" in text and "limit" not in text


def test_alone_it_has_no_ratio_and_names_no_other():
    text = printed(GenerationSpeedView(replace(SPEED, sides=(OURS,), same_ids=None)))
    assert "tfcli is" not in text and "transformers" not in text and "take turns" not in text


def test_the_share_of_the_same_tokens_or_how_the_models_differ():
    text = printed(GenerationSpeedView(replace(SPEED, same_ids=0.9875)), 140)
    assert "The weights are the same; 98.8 % of the new tokens are." in text
    other = replace(SPEED, same_ids=None, differences=(Difference("positions", "alibi", "learned"),))
    text = printed(GenerationSpeedView(other), 140)
    assert "it is another model: positions learned in place of alibi." in text


def test_bars_where_there_is_room():
    """71.5 of 412 tokens a second are 4.9 of 28 cells."""
    lines = printed(GenerationSpeedView(SPEED), 140).splitlines()
    assert lines[7].endswith(" " + "█" * 28)
    assert lines[9].endswith(" " + "████▉")
