"""Scores on a fixed console: aligned, in 80 columns, and every number with what it means."""

from dataclasses import replace

import pytest

from tests.support.consoles import printed
from tfcli.evaluation.view import ScoresView
from tfcli.records.evaluation import Bucket, Comparison, Difference, Intervals, Scores

SIGNATURE = (
    "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0 "
    "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0"
)
PLAIN = Scores("runs/a", "clm", ("builtin:stories",), 1.5, 4.4817, 0.9, 12345, 20, 0.5)
TEXT = replace(
    PLAIN,
    bits_per_character=0.95,
    bytes=20_000,
    characters=19_000,
    context=128,
    stride=32,
    resampled="documents",
    units=313,
    intervals=Intervals((1.4, 1.6), (4.1, 4.9), (0.85, 0.95), (0.9, 1.0), (0.488, 0.512)),
    interval_methods={
        **dict.fromkeys(("loss", "perplexity", "bits_per_byte", "bits_per_character"), "BCa bootstrap"),
        "accuracy": "Wilson",
    },
    buckets=(Bucket(1, 8, 12, 1.25, 0.6), Bucket(9, 12, 300, 1.625, 0.4)),
)
PAIRS = replace(
    PLAIN,
    objective="seq2seq",
    bits_per_byte=None,
    bleu=51.2,
    chrf=67.0,
    exact_match=0.95,
    signature=SIGNATURE,
    beam=1,
    references_exact=False,
    left_out=3,
    buckets=(Bucket(1, 8, 12, None, None, 60.0, 70.0, 1.0), Bucket(9, 12, 1, 2.0, 0.5, 30.0, 40.0, 0.0)),
)


def test_scores_without_intervals() -> None:
    assert printed(ScoresView(PLAIN)).splitlines() == [
        "runs/a · clm · builtin:stories · validation part",
        "loss           1.5000  nats per token",
        "perplexity      4.482  exp(loss)",
        "bits per byte  0.9000  comparable between tokenizers",
        "accuracy       50.0 %  of the next tokens",
        "12,345 tokens scored · 20 documents",
    ]


def test_scores_of_a_decoder() -> None:
    assert printed(ScoresView(TEXT)).splitlines() == [
        "runs/a · clm · builtin:stories · validation part",
        "                              95 % interval",
        "loss                1.5000  1.4000 – 1.6000  nats per token",
        "perplexity           4.482    4.100 – 4.900  exp(loss)",
        "bits per byte       0.9000  0.8500 – 0.9500  comparable between tokenizers",
        "bits per character  0.9500  0.9000 – 1.0000  comparable between tokenizers",
        "accuracy            50.0 %    48.8 – 51.2 %  of the next tokens",
        "12,345 tokens scored · 20 documents · 20,000 bytes, 19,000 characters",
        "Windows of 128 tokens, stride 32: 96 or more before each token",
        "Intervals over 313 documents",
        "BCa bootstrap: loss, perplexity, bits per byte, bits per character · Wilson:",
        "accuracy",
        "",
        " tokens  documents    loss  accuracy",
        "up to 8         12  1.2500    60.0 %",
        "   9–12        300  1.6250    40.0 %",
    ]


def test_scores_of_translations() -> None:
    lines = printed(ScoresView(PAIRS)).splitlines()
    assert "BLEU          51.20  0 to 100, word n-grams" in lines
    assert "Translated greedy; references as the tokenizer keeps them" in lines
    assert "BLEU  nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0" in lines
    assert "chrF  nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0" in lines
    assert "3 pairs too long for the context: not in the loss" in lines
    assert lines[-3:] == [
        "source tokens  pairs    loss  accuracy   BLEU   chrF    exact",
        "      up to 8     12       -         -  60.00  70.00  100.0 %",
        "         9–12      1  2.0000    50.0 %  30.00  40.00    0.0 %",
    ]
    assert "bits per byte" not in "\n".join(lines)


def test_a_wide_terminal_shows_bars() -> None:
    *_, first, second = printed(ScoresView(PAIRS), 140).splitlines()
    assert first.count("█") == 30
    assert second.count("█") == 15


@pytest.mark.parametrize("width", [80, 140])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    compared = replace(TEXT, comparison=comparison(0.001), unknown=12)
    for scores in (compared, PAIRS):
        assert max(map(len, printed(ScoresView(scores), width).splitlines())) <= width


def comparison(p_value: float | None, difference: float = -0.2) -> Comparison:
    interval = None if p_value is None else (-0.25, -0.15)
    rows = (
        Difference("loss", 1.5, 1.5 + difference, difference, interval, p_value),
        Difference("accuracy", 0.5, 0.45, -0.05, None if p_value is None else (-0.06, -0.04), p_value),
    )
    return Comparison(replace(PLAIN, run="runs/b"), rows, ("The contexts differ.",))


def test_a_comparison_names_the_better_run() -> None:
    text = printed(ScoresView(replace(PLAIN, comparison=comparison(0.001)))).splitlines()
    assert text[text.index("Compared on the same text") :] == [
        "Compared on the same text",
        "A  runs/a",
        "B  runs/b",
        "               A       B    B − A      95 % interval      p",
        "loss      1.5000  1.3000  −0.2000  −0.2500 – −0.1500  0.001  B better",
        "accuracy  50.0 %  45.0 %     −5.0        −6.0 – −4.0  0.001  A better",
        "Paired bootstrap, 1,000 resamples; p: how often chance alone differs as much",
        "The contexts differ.",
    ]


def test_rounded_weights_are_told_from_a_run_s_own() -> None:
    text = printed(ScoresView(replace(PLAIN, precision="int8", comparison=comparison(0.4)))).splitlines()
    assert text[0].startswith("runs/a in int8 · ")
    assert "A  runs/a in int8" in text and "B  runs/b" in text


def test_what_may_be_chance_is_called_so() -> None:
    def last(one: Comparison) -> str:
        return next(
            line for line in printed(ScoresView(replace(PLAIN, comparison=one))).splitlines() if "1.5000  1." in line
        )

    assert last(comparison(0.4)).endswith("0.400  chance?")
    assert last(comparison(1.0, 0.0)).endswith("1.000  equal")
    assert last(comparison(None)).split()[-2:] == ["-", "-"]


def test_names_from_outside_steer_no_terminal() -> None:
    assert "\x1b" not in printed(ScoresView(replace(PLAIN, run="a\x1b[31m", sources=("b\x1b[31m",))))


@pytest.mark.parametrize(
    ("tokenize", "meaning"),
    [
        ("13a", "0 to 100, word n-grams"),
        ("ja-mecab", "0 to 100, word n-grams"),
        ("zh", "0 to 100, n-grams of words and Chinese characters"),
        ("char", "0 to 100, character n-grams"),
    ],
)
def test_bleu_says_what_its_n_grams_are_made_of(tokenize: str, meaning: str) -> None:
    lines = printed(ScoresView(replace(PAIRS, bleu_tokenize=tokenize))).splitlines()
    assert f"BLEU          51.20  {meaning}" in lines


@pytest.mark.parametrize(
    ("objective", "unit"),
    [("classify", "nats per text"), ("tag", "nats per word"), ("span", "nats per span boundary")],
)
def test_a_task_head_s_loss_is_per_answer(objective: str, unit: str) -> None:
    lines = printed(ScoresView(replace(PLAIN, objective=objective, bits_per_byte=None))).splitlines()
    assert lines[1] == f"loss      1.5000  {unit}"
    assert "per token" not in "\n".join(lines)


def test_the_intervals_of_a_task_head_name_their_methods() -> None:
    scores = replace(
        PLAIN,
        objective="classify",
        bits_per_byte=None,
        accuracy=1.0,
        macro_f1=1.0,
        units=41,
        intervals=Intervals(loss=(0.1, 0.2), perplexity=(1.1, 1.2), accuracy=(0.914, 1.0), macro_f1=(0.888, 1.0)),
        interval_methods={
            "loss": "BCa bootstrap",
            "perplexity": "BCa bootstrap",
            "accuracy": "Wilson",
            "macro_f1": "bootstrap percentiles",
        },
    )
    lines = printed(ScoresView(scores)).splitlines()
    assert "accuracy  100.0 %   91.4 – 100.0 %  of the texts" in lines
    begin = lines.index("Intervals over 41 texts")
    assert lines[begin + 1] == "BCa bootstrap: loss · Wilson: accuracy · bootstrap percentiles: macro-F1"
