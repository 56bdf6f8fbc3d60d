"""`tfcli evaluate` as a user types it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sacrebleu

from tests.cli.commands import tfcli
from tests.support.runs import tiny_recipe, train_tiny
from tfcli.evaluation import bleu_tokenization
from tfcli.evaluation import translation as module
from tfcli.runs.load import load_run

KEYS = {
    *("run", "objective", "sources", "loss", "perplexity", "bits_per_byte", "bits_per_character", "tokens"),
    *("documents", "accuracy", "left_out", "bleu", "chrf", "exact_match", "signature", "bytes", "characters"),
    *("unknown", "context", "stride", "beam", "references_exact", "pseudo_perplexity", "pseudo_tokens", "resampled"),
    *("units", "intervals", "buckets", "comparison", "precision", "windows", "text_start", "unscored"),
    *("pieces_per_word", "usual_pieces_per_word", "usual_bits_per_byte"),
    *("ids_without_token", "share_without_token", "part"),
    *("bleu_tokenize", "interval_methods"),
    *("macro_f1", "entity_f1", "span_f1", "chance", "labels", "confusion"),
}


def answer(*arguments: str | Path) -> dict[str, Any]:
    result = tfcli("evaluate", *arguments, "--json", "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def refused(*arguments: str | Path) -> str:
    result = tfcli("evaluate", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder-decoder"])
def test_json_has_the_same_keys_for_all(trained: Callable[[str], Path], architecture: str):
    scores = answer(trained(architecture))
    assert scores.keys() == KEYS | {"threads"}
    assert scores["intervals"]["loss"][0] < scores["loss"] < scores["intervals"]["loss"][1]
    assert scores["buckets"][0].keys() == {
        *("shortest", "longest", "documents", "loss", "accuracy", "bleu", "chrf", "exact_match"),
    }
    assert scores["context"] == 32
    assert scores["stride"] == (32 if architecture == "decoder" else None)


def test_rounded_weights_are_compared_with_the_run_s_own(trained: Callable[[str], Path]):
    """Nearly the same loss, and not the same: the second side is the run as it was trained."""
    run = trained("decoder")
    scores, plain = answer(run, "--precision", "bfloat16", "--compare", run), answer(run)
    other = scores["comparison"]["scores"]
    assert (scores["precision"], other["precision"], plain["precision"]) == ("bfloat16", "float32", "float32")
    assert other["loss"] == plain["loss"] != scores["loss"] == pytest.approx(plain["loss"], rel=0.01)


def test_a_stride_gives_a_token_more_to_go_by(trained: Callable[[str], Path]):
    """As many tokens, and another loss; said in the table."""
    whole, sliding = answer(trained("decoder")), answer(trained("decoder"), "--stride", "8")
    assert (sliding["tokens"], sliding["stride"], sliding["context"]) == (whole["tokens"], 8, 32)
    assert sliding["loss"] != whole["loss"]
    assert "stride 8: 24 or more before each token" in tfcli("evaluate", trained("decoder"), "--stride", "8").stdout


def test_options_that_mean_nothing_are_refused(trained: Callable[[str], Path], tmp_path: Path):
    assert "--stride is for a decoder, and " in refused(trained("encoder"), "--stride", "8")
    assert "--pseudo is for an encoder, and " in refused(trained("decoder"), "--pseudo")
    for option in ("--beam", "--outputs", "--references"):
        value = "2" if option == "--beam" else str(tmp_path / "out.txt")
        assert f"{option} is for an encoder-decoder, and " in refused(trained("decoder"), option, value)
    assert "--stride 33 is longer than the context of 32 tokens" in refused(trained("decoder"), "--stride", "33")
    assert "'0'" in refused(trained("decoder"), "--stride", "0")
    assert "is a folder; name a file in it" in refused(trained("encoder-decoder"), "--outputs", tmp_path)
    assert "was trained for mlm" in refused(trained("decoder"), "--compare", trained("encoder"))
    assert "no run" in refused(trained("decoder"), "--compare", tmp_path / "none")


def test_the_part_that_is_scored_has_its_name(trained: Callable[[str], Path], tmp_path: Path):
    """A file that is given has no parts, and no training part is told of it."""
    run, pairs = trained("encoder-decoder"), tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"o gato {n}\tthe cat {n}\n" for n in range(3)))
    own, given = tfcli("evaluate", run), tfcli("evaluate", run, pairs)
    assert "".join(own.stdout.split()).startswith(f"{run}·seq2seq·builtin:pt-en·validationpart")
    assert "".join(given.stdout.split()).startswith(f"{run}·seq2seq·{pairs}·whole")
    assert "whole pairs 3 tokens" in " ".join(given.stderr.split()) and "training" not in given.stderr
    assert given.stderr.endswith("Translating 3 pairs …\n")
    assert (answer(run)["part"], answer(run, pairs)["part"]) == ("validation", "whole")


def test_a_validation_file_is_named_where_it_is_scored(tmp_path: Path):
    for name, count in (("train", 60), ("held-out", 9)):
        (tmp_path / f"{name}.tsv").write_text("".join(f"o gato {n}\tthe cat {n}\n" for n in range(count)))
    data = {"source": str(tmp_path / "train.tsv"), "validation": str(tmp_path / "held-out.tsv")}
    train_tiny(tiny_recipe("encoder-decoder", {"data": data, "train": {"steps": 1}}), tmp_path / "run")
    scores = answer(tmp_path / "run")
    assert (scores["sources"], scores["part"]) == ([data["validation"]], "validation")


def test_pseudo_perplexity_tells_its_cost_first(trained: Callable[[str], Path]):
    result = tfcli("evaluate", trained("encoder"), "--pseudo")
    assert "each masked alone: " in result.stderr
    assert "pseudo-perplexity" in result.stdout


def test_two_runs(trained: Callable[[str], Path], tmp_path: Path):
    other = shutil.copytree(trained("decoder"), tmp_path / "other")
    scores = answer(trained("decoder"), "--compare", other, "--checkpoint", "last")
    compared = scores["comparison"]
    assert compared.keys() == {"scores", "differences", "notes"}
    assert scores["threads"] >= 1
    assert compared["scores"]["run"] == str(other)
    assert compared["scores"]["comparison"] is None
    one = compared["differences"][0]
    assert one.keys() == {"score", "first", "second", "difference", "interval", "p_value"}
    assert (one["first"], one["second"]) == pytest.approx((scores["loss"], compared["scores"]["loss"]))
    assert "Compared on the same text" in tfcli("evaluate", trained("decoder"), "--compare", other).stdout


def test_sources_are_compared_through_both_tokenizers(trained: Callable[[str], Path], tmp_path: Path):
    train_tiny(tiny_recipe("decoder", {"tokenizer": {"algorithm": "bpe", "vocab_size": 300}}), tmp_path / "run")
    (tmp_path / "text.txt").write_text("the cat sat on the mat. " * 60)
    scores = answer(trained("decoder"), tmp_path / "text.txt", "--compare", tmp_path / "run")
    other = scores["comparison"]["scores"]
    assert (scores["bytes"], scores["documents"]) == (other["bytes"], other["documents"])
    assert scores["tokens"] != other["tokens"]


@pytest.fixture(scope="module")
def broken_lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of pairs whose targets have line ends inside."""
    folder = tmp_path_factory.mktemp("pairs")
    ends = ("\n", "\r\n", "\r", " ")
    pairs = [{"source": f"o gato {n}", "target": f"the cat{ends[n % 4]}number {n % 7} sat here ."} for n in range(120)]
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    settings = {
        "tokenizer": {"algorithm": "char", "vocab_size": 200},
        "data": {"source": str(folder / "pairs.jsonl"), "split": "tail", "validation_fraction": 0.3},
        "model": {"max_seq_len": 64},
        "train": {"steps": 1},
    }
    train_tiny(tiny_recipe("encoder-decoder", settings), folder / "run")
    return folder / "run"


def test_the_command_of_sacrebleu_gives_our_files_our_scores(
    broken_lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Translations that are nearly right: every third is the reference of another pair, and one is empty."""
    tokenizer = load_run(broken_lines).tokenizer

    def nearly(model: object, sources: list[list[int]], *_: object, **how: object) -> list[list[int]]:
        numbers = [int(tokenizer.decode(ids).split()[-1]) for ids in sources]
        ends = ("\n", "\r\n", "\r", " ")
        texts = [f"the cat{ends[n % 4]}number {(n + (n % 3 == 0)) % 7} sat here ." for n in numbers]
        return [tokenizer.encode(text) for text in ["", *texts[1:]]]

    monkeypatch.setattr(module, "translate", nearly)
    outputs, references = tmp_path / "new" / "outputs.txt", tmp_path / "references.txt"
    outputs.parent.mkdir()
    scores = answer(broken_lines, "--outputs", outputs, "--references", references)
    assert len(outputs.read_text().split("\n")) == len(references.read_text().split("\n")) == scores["documents"] + 1
    assert outputs.read_text().startswith("\n")
    command = [sys.executable, "-m", "sacrebleu", str(references), "-i", str(outputs), "-m", "bleu", "chrf", "-w", "12"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    bleu, chrf = json.loads(done.stdout)
    assert (bleu["score"], chrf["score"]) == pytest.approx((scores["bleu"], scores["chrf"]), abs=1e-9)
    assert f"{bleu['signature']} {chrf['signature']}" == scores["signature"]
    assert 20 < scores["bleu"] < 99


def test_parallel_files_of_different_length(trained: Callable[[str], Path], tmp_path: Path):
    (tmp_path / "a.txt").write_text("o gato\no livro\n")
    (tmp_path / "b.txt").write_text("the cat\n")
    result = tfcli("evaluate", trained("encoder-decoder"), f"{tmp_path / 'a.txt'},{tmp_path / 'b.txt'}", "--quiet")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert "a.txt has 2 lines and " in result.stderr
    assert "b.txt has 1" in result.stderr


JAPANESE = ["猫がマットの上に座った。", "彼女は川の岸へ行った。", "とても寒かった。", "本は机の上にある。"]


@pytest.fixture
def japanese(tmp_path: Path, trained: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> list[str | Path]:
    """A run, and pairs whose translations have all but one character of their references."""
    source = tmp_path / "pairs.tsv"
    source.write_text("".join(f"o gato dorme .\t{text}\n" for text in JAPANESE))
    outputs = iter([text[:-2] + "ね。" for text in JAPANESE] * 9)

    class Written:
        def __init__(self, *_: object) -> None:
            pass

        def whole(self, *_: object) -> Any:
            return SimpleNamespace(text=next(outputs))

    monkeypatch.setattr(module, "GrowingText", Written)
    return [trained("encoder-decoder"), source]


def test_bleu_of_japanese_is_of_characters(japanese: list[str | Path], tmp_path: Path):
    """The same as sacrebleu gives for the files that are written; 13a, which finds no words, gives 0."""
    ours, theirs = tmp_path / "out.txt", tmp_path / "ref.txt"
    scores = answer(*japanese, "--outputs", ours, "--references", theirs)
    lines = [file.read_text().splitlines() for file in (ours, theirs)]
    assert lines[1] == JAPANESE
    expected = sacrebleu.corpus_bleu(lines[0], [lines[1]], tokenize="char").score
    assert (scores["bleu"], scores["bleu_tokenize"]) == (pytest.approx(expected), "char")
    assert expected > 50 and "tok:char" in scores["signature"]
    assert sacrebleu.corpus_bleu(lines[0], [lines[1]]).score == 0
    shown = tfcli("evaluate", *japanese, "--quiet").stdout
    assert "0 to 100, character n-grams" in shown and "tok:char" in shown


@pytest.mark.parametrize("tokenize", ["13a", "zh", "char"])
def test_the_tokenization_of_bleu_can_be_chosen(japanese: list[str | Path], tokenize: str):
    scores = answer(*japanese, "--set", f"evaluate.bleu_tokenize={tokenize}")
    outputs = [text[:-2] + "ね。" for text in JAPANESE]
    expected = sacrebleu.corpus_bleu(outputs, [JAPANESE], tokenize=tokenize).score
    assert scores["bleu"] == pytest.approx(expected)
    assert scores["bleu_tokenize"] == tokenize and f"tok:{tokenize}" in scores["signature"]


def test_both_sides_of_a_comparison_have_one_tokenization(japanese: list[str | Path], tmp_path: Path):
    """The second run's own is another: it is not taken."""
    run, source = japanese
    other = tmp_path / "other"
    shutil.copytree(run, other)
    with (other / "recipe.toml").open("a") as file:
        file.write('\n[evaluate]\nbleu_tokenize = "zh"\n')
    assert answer(other, source)["bleu_tokenize"] == "zh", "the run's own, where none is given"
    scores = answer(run, source, "--compare", other)
    assert scores["bleu_tokenize"] == scores["comparison"]["scores"]["bleu_tokenize"] == "char"
    scores = answer(other, source, "--compare", run)
    assert scores["bleu_tokenize"] == scores["comparison"]["scores"]["bleu_tokenize"] == "zh"


def test_a_tokenization_that_is_not_installed_is_refused(
    japanese: list[str | Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(bleu_tokenization, "find_spec", lambda name: None)
    out = tmp_path / "out.txt"
    assert refused(*japanese, "--set", "evaluate.bleu_tokenize=ja-mecab", "--outputs", out) == (
        "tfcli: The BLEU tokenization 'ja-mecab' needs a package that is not installed, MeCab; "
        "install it: pip install 'sacrebleu[ja]', or choose 'char'.\n"
    )
    assert not out.exists()


def test_a_decoder_has_no_tokenization_of_bleu(trained: Callable[[str], Path]):
    sentence = refused(trained("decoder"), "--set", "evaluate.bleu_tokenize=char")
    assert "evaluate.bleu_tokenize is for an encoder-decoder" in sentence and "does not translate" in sentence
