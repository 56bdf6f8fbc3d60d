"""The Python API: three functions, and an import that costs nothing."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tfcli
from tfcli.errors import UsageError
from tfcli.pipeline.datasets import with_absolute_paths
from tfcli.recipe.loading import build_recipe


def test_importing_it_leaves_torch_alone() -> None:
    code = "import sys, tfcli; assert not {'torch', 'numpy', 'tokenizers', 'pydantic'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_run_is_loaded_by_its_name(
    trained: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    Path("runs/story").symlink_to(trained("decoder"))
    for name in ("story", "last", "runs/story"):
        assert tfcli.load_run(name).directory.path == Path("runs/story")
    named = with_absolute_paths(build_recipe({"train": {"init": "last"}, "tokenizer": {"path": "story"}}))
    assert named.train.init == named.tokenizer.path == str(tmp_path / "runs" / "story")


def test_a_decoder_is_loaded_continued_and_opened(trained: Callable[[str], Path]) -> None:
    run = tfcli.load_run(trained("decoder"))
    greedy = tfcli.generate(run, "One", temperature=0, max_new_tokens=4)
    assert tfcli.generate(run, "One", temperature=0, max_new_tokens=4) == greedy
    assert 1 <= len(greedy[0].token_ids) <= 4
    [record] = tfcli.attention(run, "One day")
    section = run.config.model
    tokens = len(run.tokenizer.encode("One day")) + 1
    assert record.weights.shape == (section.num_layers, section.num_heads, tokens, tokens)


def test_a_setting_that_does_not_exist_is_named(trained: Callable[[str], Path]) -> None:
    with pytest.raises(UsageError, match="temprature"):
        tfcli.generate(tfcli.load_run(trained("decoder")), "One", temprature=1.0)
