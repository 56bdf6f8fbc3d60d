"""Predictions drawn on fixed consoles."""

import io

from rich.console import Console

from tests.support.consoles import printed
from tfcli.inspection.predictions import Prediction, Predictions
from tfcli.inspection.predictions.view import PredictionsView, predictions_table
from tfcli.records.generation import Candidate

RECORD = Predictions(
    "next",
    1,
    (
        Prediction(0, "<s>", " bank", 2, 0.25, 1.04, (Candidate(" river", 0.5), Candidate(" bank", 0.25))),
        Prediction(1, " bank", None, None, None, 0.0, (Candidate("\n", 0.999), Candidate("\x1b[31m", 0.001))),
    ),
)


def test_at_80_columns():
    assert printed(PredictionsView(RECORD), 80).splitlines() == [
        "Predictions · the next token after every position",
        "  # read  next   rank    p    H  likeliest",
        "  0 <s>   ·bank     2  25%  1.0    ·river   ███▌     50% ▸·bank    █▊       25%",
        "  1 ·bank –         –    –  0.0    ⏎        ███████ >99%  \\x1b[31m          <1%",
        "p: probability of the next token, by the softmax of the logits; rank 1: it is",
        "the likeliest; ▸ where it stands. H: entropy in nats; e^H equally likely tokens",
        "would be as uncertain.",
        "The next token is the likeliest at 0 of 1 positions.",
        "",
        "Position 1, after ·bank: H = 0.00, e^H = 1",
        "  ⏎          99.9 %  ████████████████████████████████████████",
        "  \\x1b[31m    0.1 %",
    ]


def test_at_60_columns_fewer_candidates_are_shown():
    assert printed(PredictionsView(RECORD), 60).splitlines() == [
        "Predictions · the next token after every position",
        "  # read  next   rank    p    H  likeliest",
        "  0 <s>   ·bank     2  25%  1.0    ·river █████       50%",
        "  1 ·bank –         –    –  0.0    ⏎      ██████████ >99%",
        "p: probability of the next token, by the softmax of the",
        "logits; rank 1: it is the likeliest; ▸ where it stands. H:",
        "entropy in nats; e^H equally likely tokens would be as",
        "uncertain.",
        "The next token is the likeliest at 0 of 1 positions.",
        "",
        "Position 1, after ·bank: H = 0.00, e^H = 1",
        "  ⏎          99.9 %  ███████████████████████████████████████",
        "  \\x1b[31m    0.1 %",
    ]


def test_at_140_columns():
    assert printed(PredictionsView(RECORD), 140).splitlines() == [
        "Predictions · the next token after every position",
        "  # read  next   rank    p    H  likeliest",
        "  0 <s>   ·bank     2  25%  1.0    ·river   █████       50% ▸·bank    ██▌         25%",
        "  1 ·bank –         –    –  0.0    ⏎        ██████████ >99%  \\x1b[31m             <1%",
        "p: probability of the next token, by the softmax of the logits; rank 1: it is the likeliest; "
        "▸ where it stands. H: entropy in nats; e^H",
        "equally likely tokens would be as uncertain.",
        "The next token is the likeliest at 0 of 1 positions.",
        "",
        "Position 1, after ·bank: H = 0.00, e^H = 1",
        "  ⏎          99.9 %  ████████████████████████████████████████",
        "  \\x1b[31m    0.1 %",
    ]


def test_of_masks_the_words_are_others():
    masked = Predictions("masked", 0, RECORD.predictions[:1])
    shown = printed(PredictionsView(masked), 80)
    assert "the token that belongs at every position, each masked alone" in shown
    assert "at 0 of 1 positions, when it is masked and" in shown
    assert "read  true" in shown
    assert "Position 0, in the place of <s>: H = 1.04, e^H = 2.83" in shown


def test_in_color_bars_are_cyan():
    assert "\x1b[36m█████" in printed(PredictionsView(RECORD), 80, "truecolor")


def test_where_only_ascii_can_be_shown():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="replace")
    Console(file=stream, width=80, no_color=True, _environ={}).print(PredictionsView(RECORD))
    stream.seek(0)
    lines = stream.read().splitlines()
    assert "####" in lines[2] and ">?bank" in lines[2]
    assert lines[3].split()[2:5] == ["-", "-", "-"]


def test_the_table_has_a_row_a_candidate():
    table = predictions_table(RECORD)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert len(rows) == 4
    assert rows[1] == {
        "position": 0,
        "read": "<s>",
        "answer": " bank",
        "rank": 2,
        "probability": 0.25,
        "entropy": 1.04,
        "candidate": " bank",
        "candidate_probability": 0.25,
    }
