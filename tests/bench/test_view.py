"""A benchmark on a fixed console."""

from dataclasses import replace

import pytest

from tests.support.consoles import printed
from tfcli.bench import Difference, Machine, MatrixPeak, Spread, TrainingSide, TrainingSpeed
from tfcli.bench.view import TrainingSpeedView

OURS = TrainingSide(
    *("tfcli", "Decoder", "bfloat16", 10_770_816, 8500.0),
    *(Spread(0.47, 0.482, 0.51), 0.47, 1_200_000_000),
)
THEIRS = TrainingSide(
    *("transformers float32", "GPT2LMHeadModel", "float32", 10_770_816, 2125.0),
    *(Spread(1.8, 1.85, 1.97), 0.62, 1_940_000_000),
    *(3.84, 3.7, 3.95),
)
SPEED = TrainingSpeed(
    recipe="shakespeare",
    architecture="decoder",
    num_layers=6,
    d_model=384,
    num_heads=6,
    vocab_size=65,
    length=256,
    sequences=16,
    micro_batches=1,
    tokens_per_step=4096,
    flops_per_step=286_000_000_000,
    attention="rows",
    compiled=False,
    steps=30,
    warmup=3,
    machine=Machine("EPYC\x1b[2J", 2, 1, "cpu", "2.13.0", "5.23.0"),
    peaks=(MatrixPeak("bfloat16", 1.31e12, 4096, 384, 1536),),
    sides=(OURS, THEIRS),
)


def test_a_row_a_side_in_eighty_columns():
    lines = printed(TrainingSpeedView(SPEED)).splitlines()
    assert lines[:10] == [
        "Training speed · shakespeare",
        "decoder, 6 layers of 384, 6 heads, vocabulary 65 · 16 sequences of 256",
        "EPYC\\x1b[2J · 2 cores, 1 thread · torch 2.13.0",
        "peak in bfloat16: 1.31 TFLOP/s, at (4,096 × 384) (384 × 1,536)",
        "",
        "                      tokens/s    ms a step  of peak   memory   tfcli is",
        "tfcli bfloat16           8.5 k          482   47.0 %   1.2 GB",
        "                                    470–510",
        "transformers float32    2.12 k        1,850   62.0 %  1.94 GB      3.84×",
        "                                1,800–1,970                    3.70–3.95",
    ]
    text = " ".join(lines)
    assert "30 steps after 3 to warm up, on random ids" in text
    assert "tfcli: attention rows, not compiled; 10,770,816 parameters." in text
    assert "It is the same model, of 10,770,816 parameters." in text


def test_nothing_is_cut_off_at_eighty_columns():
    """The longest row: its name, three digits and a unit everywhere, a spread in thousands."""
    longest = replace(THEIRS, name="transformers bfloat16", precision="bfloat16", step_seconds=Spread(10.1, 11.1, 12.2))
    assert "…" not in printed(TrainingSpeedView(replace(SPEED, sides=(OURS, longest))))


def test_bars_where_there_is_room():
    """A quarter of the speed is a quarter of 28 cells."""
    lines = printed(TrainingSpeedView(SPEED), 120).splitlines()
    assert lines[6].endswith(" " + "█" * 28)
    assert lines[8].endswith(" " + "█" * 7)


def test_alone_it_has_no_ratio():
    text = printed(TrainingSpeedView(replace(SPEED, sides=(OURS,))))
    assert "tfcli is" not in text and "×" in text
    assert "take turns" not in text


def test_another_model_is_said_to_be_one():
    differences = (Difference("positions", "rotary", "learned"), Difference("norm", "rmsnorm", "layernorm"))
    other = replace(THEIRS, parameters=10_646_784)
    text = printed(TrainingSpeedView(replace(SPEED, sides=(OURS, other), differences=differences)), 200)
    assert "it is another model, of 10,646,784 parameters: positions learned in place of rotary; norm layernorm" in text


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.0012345, "1.23"), (0.09994, "99.9"), (0.09996, "100"), (12.3456, "12,346")]
)
def test_step_times_have_three_digits(seconds: float, shown: str):
    side = replace(OURS, step_seconds=Spread(seconds, seconds, seconds))
    assert f" {shown} " in printed(TrainingSpeedView(replace(SPEED, sides=(side,))))


def test_pairs_micro_batches_and_a_gpu():
    other = replace(
        SPEED,
        architecture="encoder-decoder",
        micro_batches=4,
        compiled=True,
        machine=replace(SPEED.machine, device="cuda"),
    )
    text = printed(TrainingSpeedView(other), 120)
    assert "· 4 × 16 pairs of 2 × 256" in text
    assert " · cuda · 2 cores" in text
    assert "translated by torch.compile" in text
