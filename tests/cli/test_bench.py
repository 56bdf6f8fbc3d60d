"""`tfcli bench train` as it is typed."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import tfcli
from tests.support.bench import measure_here

TINY = [
    *("--set", "model.d_model=16", "--set", "model.num_layers=1", "--set", "model.num_heads=2"),
    *("--set", "model.d_ff=64", "--set", "model.max_seq_len=8", "--set", "train.batch_size=2"),
    *("--steps", "2", "--threads", "1", "--device", "cpu"),
]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process is started."""
    measure_here(monkeypatch)


def test_a_recipe_alone():
    result = tfcli("bench", "train", "--arch", "encoder", *TINY, "--set", "model.vocab_size=40")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[1] == "encoder, 1 layer of 16, 2 heads, vocabulary 40 · 2 sequences of 8"
    assert "1 thread · torch" in lines[2]
    assert any(line.startswith("tfcli float32 ") for line in lines)
    assert "tfcli is" not in result.stdout
    assert max(map(len, lines)) <= 80


def test_the_vocabulary_is_the_tokenizer_s_where_the_model_says_none():
    result = tfcli("bench", "train", *TINY, "--set", "tokenizer.vocab_size=77", "--json")
    assert json.loads(result.stdout)["vocab_size"] == 77
    assert "The vocabulary is taken as tokenizer.vocab_size = 77" in result.stderr


def test_json_against_transformers():
    pytest.importorskip("transformers")
    options = ["--preset", "gpt2", "--set", "model.vocab_size=40", "--against", "transformers", "--json"]
    result = tfcli("bench", "train", *options, *TINY)
    assert (result.exit_code, result.stderr) == (0, "")
    figures = json.loads(result.stdout)
    assert set(figures) == {
        *("recipe", "architecture", "num_layers", "d_model", "num_heads", "vocab_size", "length", "sequences"),
        *("micro_batches", "tokens_per_step", "flops_per_step", "attention", "compiled", "steps", "warmup"),
        *("machine", "peaks", "sides", "differences"),
    }
    assert set(figures["machine"]) == {"processor", "cores", "threads", "device", "torch", "transformers"}
    assert set(figures["peaks"][0]) == {"precision", "flops_per_second", "rows", "inner", "columns"}
    ours, *others = figures["sides"]
    assert set(ours) == {
        *("name", "model", "precision", "parameters", "tokens_per_second", "step_seconds", "peak_share", "memory"),
        *("ratio", "ratio_p10", "ratio_p90"),
    }
    assert set(ours["step_seconds"]) == {"p10", "p50", "p90"}
    assert ours["ratio"] is None
    assert [side["model"] for side in others] == ["GPT2LMHeadModel"] * 2
    assert {side["parameters"] for side in others} == {ours["parameters"]}
    assert figures["differences"] == []


def test_another_model_of_the_same_sizes_is_called_another():
    pytest.importorskip("transformers")
    options = ["--set", "model.vocab_size=40", "--set", "model.positions=alibi", "--against", "transformers"]
    result = tfcli("bench", "train", *options, *TINY)
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    assert "GPT2LMHeadModel" in text and "it is another model" in text
    assert "positions learned in place of alibi" in text


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--preset", "gtp2"], "There is no preset 'gtp2'; choose modern, "),
        (["--threads", "1000"], "train.threads = 1000 is more than the "),
        (["--steps", "0"], "--steps '0' should be greater than or equal to 1"),
        (["--against", "jax"], "--against 'jax' is not one of"),
        (["--set", "model.nosuch=1"], "'model.nosuch' is not a recipe key"),
        (["--recipe", "nosuch"], "There is no recipe 'nosuch'"),
    ],
)
def test_what_is_wrong_is_said_before_any_work(options: list[str], sentence: str):
    result = tfcli("bench", "train", *TINY, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr.replace("tfcli: ", "")


def test_without_transformers_nothing_is_compared(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    result = tfcli("bench", "train", *TINY, "--set", "model.vocab_size=40", "--against", "transformers")
    assert (result.exit_code, result.stdout) == (2, "")
    sentence = "There is no library transformers to compare with; install it: pip install transformers."
    assert result.stderr == f"tfcli: {sentence}\n"


GENERATE = [*TINY[: TINY.index("--steps")], *("--rounds", "1", "--threads", "1", "--device", "cpu")]
GENERATE = [*GENERATE, *("--prompt-tokens", "3", "--max-new-tokens", "4", "--set", "model.vocab_size=40")]


def test_generation_alone():
    result = tfcli("bench", "generate", "--arch", "decoder", *GENERATE)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[1:3] == ["decoder, 1 layer of 16, 2 heads, vocabulary 40", "1 prompt of 3 tokens · 4 new each, greedy"]
    assert any(line.startswith("tfcli ") for line in lines)
    assert "of limit" in result.stdout and "tfcli is" not in result.stdout
    assert max(map(len, lines)) <= 80


def test_generation_in_json_against_transformers():
    pytest.importorskip("transformers")
    options = ["--preset", "gpt2", "--batch", "2", "--precision", "bfloat16", "--against", "transformers", "--json"]
    result = tfcli("bench", "generate", *options, *GENERATE)
    assert (result.exit_code, result.stderr) == (0, "")
    figures = json.loads(result.stdout)
    assert set(figures) == {
        *("recipe", "architecture", "num_layers", "d_model", "num_heads", "vocab_size", "batch", "prompt_tokens"),
        *("new_tokens", "beam", "rounds", "warmup", "weight_bytes", "read_bandwidth", "machine", "sides"),
        *("same_ids", "differences"),
    }
    ours, other = figures["sides"]
    assert set(ours) == {
        *("name", "model", "precision", "parameters", "tokens_per_second", "seconds", "prefill_seconds"),
        *("token_seconds", "bandwidth_share", "memory", "ratio", "ratio_p10", "ratio_p90"),
    }
    assert set(ours["seconds"]) == set(ours["prefill_seconds"]) == set(ours["token_seconds"]) == {"p10", "p50", "p90"}
    assert (ours["precision"], other["precision"], figures["batch"]) == ("bfloat16", "bfloat16", 2)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--arch", "encoder"], "An encoder generates no text"),
        (["--precision", "int3"], "--precision 'int3' is not one of"),
        (["--batch", "0"], "--batch '0' should be greater than or equal to 1"),
    ],
)
def test_what_cannot_be_generated_is_said_before_any_work(options: list[str], sentence: str):
    result = tfcli("bench", "generate", *GENERATE, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr


def test_beams_are_bounded_before_any_work():
    result = tfcli("bench", "generate", "--size", "tiny", "--beam", "1001")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "tfcli: generate.beam = 1001 is out of range; it must be at most 1000.\n"


def test_data_as_a_table_and_as_json(tmp_path: Path):
    text = tmp_path / "text.txt"
    text.write_text("Tom has a red ball.\n" * 200, encoding="utf-8")
    shown = tfcli("bench", "data", text, "--rounds", "1", "--threads", "1")
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert shown.stdout.startswith("Data speed · ") and "tokenizers alone" in shown.stdout
    assert max(map(len, shown.stdout.splitlines()[1:])) <= 80
    result = tfcli("bench", "data", text, "--rounds", "1", "--threads", "1", "--json")
    figures = json.loads(result.stdout)
    assert set(figures) == {
        *("sources", "lines", "bytes", "tokens", "algorithm", "vocab_size", "context", "rounds", "warmup", "machine"),
        "sides",
    }
    assert set(figures["sides"][0]) == {
        *("name", "bytes_per_second", "tokens_per_second", "seconds", "memory", "ratio", "ratio_p10", "ratio_p90"),
    }
