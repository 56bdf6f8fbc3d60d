"""Text that is foreign to a run, told on stderr and in evaluate's figures."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import tfcli
from tfcli.inspection.predictions.compute import losses
from tfcli.runs.config import read_run_data
from tfcli.runs.load import LoadedRun, load_run, remark_if_foreign, usual

STORY = "One day Tom swam across the river to the bank."


@pytest.fixture
def run(trained: Callable[[str], Path]) -> Path:
    """Every letter is a token of its tokenizer."""
    return trained("decoder")


def told_of(run: Path, **figures: float) -> LoadedRun:
    """The same run whose validation part is recorded to be like this."""
    path = run / "data.json"
    values = json.loads(path.read_text())
    values["validation"].update(figures)
    path.write_text(json.dumps(values))
    return load_run(run)


def test_the_usual_figures_are_those_of_the_validation_part(run: Path):
    """By hand from what is recorded: each document ends with a token that is of no word."""
    known, counts = usual(load_run(run)), read_run_data(run / "data.json").validation
    assert counts is not None and known.unknown == pytest.approx(counts.unknown / counts.tokens)
    assert known.pieces == (counts.tokens - counts.documents) / counts.words
    evaluated = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines() if "evaluated" in line]
    best = min(one["loss"] for one in evaluated if one["part"] == "whole")
    assert known.bits_per_byte == pytest.approx(best * counts.tokens / math.log(2) / counts.bytes)


@pytest.mark.parametrize(
    "command", [["generate", "--max-new-tokens", "1"], *(["inspect", name] for name in ("attention", "tokens", "lens"))]
)
def test_unknown_tokens_are_counted_and_named_by_whatever_reads_them(run: Path, command: list[str]):
    name, *options = command if command[0] == "inspect" else ["generate", *command[1:]]
    words = ["inspect", options.pop(0)] if name == "inspect" else [name]
    foreign = tfcli(*words, run, "O gato, é só ✓", *options)
    assert foreign.exit_code == 0
    assert foreign.stderr == f"Foreign to {run}: 3 of 14 tokens are unknown (é, ó, ✓).\n"
    own = tfcli(*words, run, STORY[:20], *options)
    assert (own.exit_code, "Foreign" in own.stderr) == (0, False)
    assert tfcli(*words, run, "O gato, é só ✓", *options, "--quiet").stderr == ""


def test_pieces_a_word_that_are_too_many_are_told(run: Path, tmp_path: Path):
    """Seven words in 34 letters are 4.9 a word; more than 2 · (1 + 2.4 / √7) = 3.8 are too many, and 5.7 of 3."""
    text = "abcd " * 6 + "abcd"
    shutil.copytree(run, tmp_path / "run")
    with pytest.warns(UserWarning, match=r"4\.9 pieces a word, 2\.0 in its validation part"):
        assert remark_if_foreign(told_of(tmp_path / "run", documents=1, tokens=201, words=100, spread=0.5), text)
    assert not remark_if_foreign(told_of(tmp_path / "run", documents=1, tokens=301, words=100, spread=0.0), text)
    spread = told_of(tmp_path / "run", documents=1, tokens=201, words=100, spread=2.0)
    assert not remark_if_foreign(spread, text), "2 + 4 · 2 / √7 = 5.0 are not too many where words differ so"
    assert not remark_if_foreign(
        told_of(tmp_path / "run", documents=1, tokens=101, words=100, spread=0.5), "abcd abcd"
    ), "too few"


def test_bits_per_byte_that_are_too_many_are_told(run: Path, tmp_path: Path):
    """40 bytes: 2 + 80 / 40 = 4 bits more than usual are too many."""
    loaded, text = load_run(run), "a story " * 5
    known = usual(loaded).bits_per_byte
    assert known is not None
    assert not remark_if_foreign(loaded, text, known + 3.9)
    with pytest.warns(UserWarning, match="bits a byte"):
        assert remark_if_foreign(loaded, text, known + 4.1)


def test_a_decoder_reads_a_prompt_for_its_bits_per_byte(run: Path, tmp_path: Path):
    """As `inspect losses` counts them, but without the end: three letters in a row are no word of the stories."""
    shutil.copytree(run, tmp_path / "run")
    prompt = "zxq " * 7
    bits = losses(load_run(run), prompt).bits_per_byte
    lines = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    values = [json.loads(line) for line in lines]
    told = [value | {"loss": 0.1} if value["event"] == "evaluated" else value for value in values]
    (tmp_path / "run/metrics.jsonl").write_text("".join(f"{json.dumps(value)}\n" for value in told))
    said = tfcli("generate", tmp_path / "run", prompt, "--max-new-tokens", "1").stderr
    assert f"Foreign to {tmp_path / 'run'}: " in said
    assert float(said.partition("run: ")[2].split()[0]) == pytest.approx(bits, rel=0.1)
    with pytest.warns(UserWarning, match="bits a byte"):
        assert remark_if_foreign(load_run(tmp_path / "run"), prompt * 20), "of which a context is read"
    assert "Foreign" not in tfcli("generate", tmp_path / "run", "", "--max-new-tokens", "1").stderr


def test_a_run_s_own_validation_text_is_not_foreign(run: Path):
    loaded = load_run(run)
    from tfcli.corpora.stories import stories

    letters = (text for text in stories(seed=5) if loaded.tokenizer.roles.unk not in loaded.tokenizer.encode(text))
    for text, _ in zip(letters, range(40), strict=False):  # of letters that it has read
        for sentence in text.split(". "):
            assert not remark_if_foreign(loaded, sentence)
        assert not remark_if_foreign(loaded, text, losses(loaded, text).bits_per_byte)


def test_an_older_run_has_no_figures_and_tells_unknown_tokens_alone(run: Path, tmp_path: Path):
    shutil.copytree(run, tmp_path / "run")
    values = json.loads((tmp_path / "run/data.json").read_text())
    del values["validation"]
    (tmp_path / "run/data.json").write_text(json.dumps(values))
    loaded = load_run(tmp_path / "run")
    known = usual(loaded)
    assert (known.pieces, known.bits_per_byte) == (None, None)
    assert not remark_if_foreign(loaded, "x" * 30, 99.0)
    with pytest.warns(UserWarning, match="1 of 2 tokens is unknown"):
        assert remark_if_foreign(loaded, "a✓")


@pytest.mark.parametrize("figures", [{"tokens": 0}, {"bytes": 0}, {"tokens": -9, "unknown": 9}, {"unknown": -9}])
def test_counts_that_cannot_be_are_no_measure(run: Path, tmp_path: Path, figures: dict[str, float]):
    shutil.copytree(run, tmp_path / "run")
    assert not remark_if_foreign(told_of(tmp_path / "run", **figures), "Tom swam to the bank", 99.0)


def test_evaluate_has_it_in_figures(run: Path, tmp_path: Path):
    (tmp_path / "other.txt").write_text("abcd abcd abcd. " * 20)
    scores = json.loads(tfcli("evaluate", run, tmp_path / "other.txt", "--json").stdout)
    known = usual(load_run(run))
    assert scores["pieces_per_word"] == pytest.approx(16 / 3, abs=0.02)
    assert scores["usual_pieces_per_word"] == known.pieces
    assert scores["usual_bits_per_byte"] == known.bits_per_byte
    own = json.loads(tfcli("evaluate", run, "--json").stdout)
    assert (own["pieces_per_word"], own["usual_pieces_per_word"]) == (known.pieces, None)
