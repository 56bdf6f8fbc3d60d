"""The live view and its plain lines, from hand-made events."""

from dataclasses import replace

import pytest
from rich.cells import cell_len

from tests.support.consoles import printed
from tfcli.draw.curve import Plot, Series, nice_ticks
from tfcli.records.runs import (
    CheckpointSaved,
    Evaluated,
    SettingChanged,
    StepsDone,
    TrainingEvent,
    TrainingFinished,
    TrainingStarted,
)
from tfcli.training.view import TrainingView, event_line

STARTED = TrainingStarted("runs/decoder-1", "decoder", 812544, 0, 100, 1024, 90000, 5000, "cpu", "float32")
EVENTS: list[TrainingEvent] = [
    STARTED,
    StepsDone(10, 100, 10240, 4.0, 3e-4, 0.9, 18912.0, 5.4, 48.6),
    StepsDone(20, 100, 20480, 3.0, 6e-4, 0.8, 18912.0, 10.8, 43.2),
    Evaluated(20, 5000, 3.25, 0.125, True, 0.4),
    CheckpointSaved(20, "runs/decoder-1/checkpoints/step-000020"),
]
FINISHED = TrainingFinished("done", 100, 102400, 54.0, 1.5, 80, "runs/decoder-1")


def view(*more: TrainingEvent) -> TrainingView:
    made = TrainingView()
    for event in (*EVENTS, *more):
        made.update(event)
    return made


def test_the_view_at_eighty_columns() -> None:
    lines = printed(view()).splitlines()
    assert lines[0] == "decoder · 813 k parameters · cpu, float32, 1 thread · runs/decoder-1"
    assert lines[1].endswith("  20.0 %")  # 20,480 of 102,400 tokens
    assert [line.split("  ")[0] for line in lines[2:7]] == ["step", "tokens", "speed", "time", "time left"]
    assert lines[2].startswith("step       20 of 100")
    assert lines[3].startswith("tokens     20.5 k of 102 k")
    assert lines[4].startswith("speed      18.9 k tokens/s")
    assert lines[5].startswith("time       11 s")
    assert lines[6].startswith("time left  43 s")
    assert lines[2].endswith("loss           3.0000")
    assert lines[3].endswith("validation     3.2500, accuracy 12.5 %")
    assert lines[4].endswith("best           3.2500 at step 20")
    assert lines[5].endswith("learning rate  6.00e-04")
    assert lines[6].endswith("gradient norm  0.80")
    assert lines[-1].split() == ["0", "step", "━", "training", "loss", "●", "validation", "loss", "100"]
    assert sum("│" in line or "┤" in line for line in lines) == 8
    assert "●" in "".join(lines[7:15])


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("height", [8, 16, 40])
def test_the_view_stays_inside_the_terminal(width: int, height: int) -> None:
    lines = printed(view(), width, height=height).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert len(lines) <= height


@pytest.mark.parametrize("height", [8, 12, 24])
@pytest.mark.parametrize("width", [60, 80, 140])
def test_no_figure_is_cut_however_long_they_become(width: int, height: int) -> None:
    """Of a training of hours with smoothed labels. Where lines are few, those that are left are the first ones."""
    made = TrainingView()
    made.update(
        TrainingStarted(
            "runs/a", "encoder-decoder", 8e7, 0, 1_000_000, 131_072, 9_000_000_000, 5, "cuda", "bfloat16", 16
        )
    )
    for padding in (0.0, 0.034):
        figures = (16_181_000_000, 4.1234, 3e-4, 112.9, 1_892_300.0, 5545.4, 48600.6, 3.9876, padding, 0, True)
        made.update(StepsDone(123_456, 1_000_000, *figures))
    made.update(Evaluated(123_456, 5000, 3.25, 0.125, True, 0.4))
    shown = printed(made, width, height=height)
    lines = shown.splitlines()
    assert "…" not in shown
    assert max(map(cell_len, lines)) <= width
    assert len(lines) <= height
    for figure in ("4.1234, smoothed 3.9876 ▲", "1.89 M tokens/s", "time left", "13 h 30 min"):
        assert figure in shown
    if height == 24:
        for figure in (
            "123,456 of 1,000,000",
            "3.2500, accuracy 12.5 %",
            "3.2500 at step 123,456",
            "112.90",
            "3.4 % of",
        ):
            assert figure in shown


def test_the_end_is_said() -> None:
    lines = printed(view(FINISHED), 140).splitlines()
    assert lines[1].endswith("100.0 %")
    assert lines[-1] == (
        "Done: 100 steps, 102 k tokens in 54 s; best validation loss 1.5000 at step 80. Saved in runs/decoder-1."
    )


def test_before_anything_is_known() -> None:
    assert printed(TrainingView()) == "Preparing to train …"


def test_plain_lines_are_aligned() -> None:
    first, second = (event_line(event) for event in EVENTS[1:3])
    assert first == (
        "step          10/100  loss   4.0000  lr 3.00e-04  norm    0.90   10.2 k tokens  "
        "18.9 k tokens/s           49 s left"
    )
    assert [i for i, letter in enumerate(first) if letter == "l"] == [
        i for i, letter in enumerate(second) if letter == "l"
    ]
    assert event_line(EVENTS[3]) == "evaluate      20  loss   3.2500  accuracy 12.5 %  best"
    assert event_line(STARTED).startswith(
        "start    decoder, 813 k parameters, cpu float32, 1 thread, 100 steps of 1,024 tokens"
    )


def test_every_event_has_a_single_line() -> None:
    assert all("\n" not in event_line(event) for event in (*EVENTS, FINISHED))


def test_a_loss_that_is_not_finite_does_not_break_the_view() -> None:
    assert "nan" in printed(view(StepsDone(30, 100, 30720, float("nan"), 1e-4, float("inf"), 1.0, 16.0, 38.0)))


def test_a_spike_is_marked_in_the_curve_and_in_its_line() -> None:
    spike = StepsDone(30, 100, 30720, 3.9, 1e-4, 0.5, 1.0, 16.0, 38.0, spike=True)
    lines = printed(view(spike)).splitlines()
    assert any(line.endswith("3.9000  ▲ spike") for line in lines)
    assert "▲" in "".join(line for line in lines if "│" in line or "┤" in line)
    assert "▲ spike" in lines[-1]
    assert event_line(spike).endswith("  ▲ spike")
    later = StepsDone(40, 100, 40960, 2.9, 1e-4, 0.5, 1.0, 16.0, 38.0)
    after = printed(view(spike, later)).splitlines()
    assert not any("3.9000" in line or line.endswith("spike") for line in after[2:8])
    assert "▲" in "".join(after)


def test_padding_and_steps_left_out_are_shown_where_there_are_any() -> None:
    padded = StepsDone(30, 100, 30720, 2.9, 1e-4, 0.5, 1.0, 16.0, 38.0, padding=0.062, skipped=2)
    lines = printed(view(padded)).splitlines()
    assert lines[7].split("  ")[0] == "padding"
    assert "6.2 % of places" in lines[7]
    assert lines[7].endswith("left out       2 steps")
    assert event_line(padded).endswith("  6.2 % padding  2 steps left out")
    assert "padding" not in printed(view())
    assert "padding" not in event_line(EVENTS[1])


def test_a_training_of_one_step_has_no_warm_up_to_warn_of() -> None:
    """Its only step has the peak of the learning rate."""
    started = TrainingStarted("runs/a", "decoder", 100, 0, 1, 64, 900, 90, "cpu", "float32", warmup_steps=100)
    assert ", 1 step of 64 tokens, " in event_line(started)
    assert "warm-up" not in event_line(started)
    assert "warm-up" in event_line(replace(started, total_steps=2))


def test_what_a_resume_has_changed_and_lost_is_said() -> None:
    made = TrainingView()
    small = TrainingStarted("runs/a", "decoder", 100, 0, 100, 64, 150, 90, "cpu", "float32", warmup_steps=100)
    assert (
        "; the warm-up (train.warmup_steps = 100) takes the whole training, so the learning rate rises until the last "
        "step; for a shorter one: --set train.warmup_steps=10;" in event_line(small)
    )
    assert event_line(small).endswith("; 150 tokens to learn from are little, and read 42 times")
    assert ";" not in event_line(replace(small, train_tokens=200, warmup_steps=99))
    lost = TrainingStarted("runs/a", "decoder", 100, 60, 100, 64, 900, 90, "cpu", "float32", lost_lines=1)
    change = SettingChanged(60, "train.parallel", None, "fsdp")
    for event in (lost, change, *EVENTS[1:]):
        made.update(event)
    lines = printed(made).splitlines()
    assert lines[1] == "metrics.jsonl has lost a line that was there when step 60 was saved"
    assert lines[2] == "train.parallel: none → fsdp"
    assert event_line(change) == "change        60  train.parallel: none → fsdp"
    for width, height in ((60, 16), (80, 20)):
        assert len(printed(made, width, height=height).splitlines()) <= height


def test_the_mean_of_checkpoints_is_named() -> None:
    mean = Evaluated(100, 5000, 1.25, 0.5, True, 0.4, "checkpoints")
    assert event_line(mean) == "evaluate     100  loss   1.2500  accuracy 50.0 %  mean of checkpoints  best"
    assert any(line.endswith("best           1.2500, mean of checkpoints") for line in printed(view(mean)).splitlines())


def test_a_straight_line_in_braille() -> None:
    # 4 cells are 8 dots across and 1 line 4 dots up: from (0, lowest) to (7, highest), two columns a level.
    lines = printed(Plot((Series("s", (0, 7), (0, 3)),), "x", height=1), 7).splitlines()
    assert lines[0].endswith("⣀⠤⠒⠉")


def test_ticks_are_round() -> None:
    assert nice_ticks(1.3, 4.2, 4) == [2.0, 3.0, 4.0]
    assert nice_ticks(0.0, 1.0, 3) == [0.0, 0.5, 1.0]
    assert nice_ticks(1.61, 1.64, 4) == [1.61, 1.62, 1.63, 1.64]


def test_a_constant_series_is_drawn() -> None:
    assert "⠀" not in printed(Plot((Series("s", (0, 1), (2, 2)),), "x"), 30)
