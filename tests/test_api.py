"""The Python API: four functions, and an import that costs nothing."""

import html
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfcli
from tests.support.runs import tiny_recipe, train_tiny
from tfcli.cli.inspect import inspect_app
from tfcli.cli.pictures import PICTURES
from tfcli.errors import UsageError
from tfcli.pipeline.datasets import with_absolute_paths
from tfcli.recipe.loading import build_recipe


def test_importing_it_leaves_torch_alone() -> None:
    code = "import sys, tfcli; assert not {'torch', 'numpy', 'tokenizers', 'pydantic'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_returned_is_a_picture_in_a_notebook(trained: Callable[[str], Path]) -> None:
    """Of a list all records; with the numbers of the layer and the head that were chosen; and only once it is asked."""
    run = tfcli.load_run(trained("decoder"))
    records = tfcli.attention(run, "Tom swam", layer=1, head=0)
    assert isinstance(records, list) and records._repr_html_() == records[0]._repr_html_()  # type: ignore[attr-defined]
    assert "layer 1, head 0" in records[0]._repr_html_()  # type: ignore[attr-defined]
    [text] = made = tfcli.generate(run, "Tom <b>", max_new_tokens=2)
    picture = made._repr_html_()
    assert "&lt;b&gt;" in picture and "2" in picture and text.text and picture.startswith("<div")
    filled = tfcli.generate(tfcli.load_run(trained("encoder")), "Tom <mask>")
    assert "mask 1 of 1" in " ".join(re.sub("<[^>]*>", " ", filled._repr_html_()).split())
    code = "import sys, tfcli.records.generation, tfcli.inspection.attention as records\n"
    code += "assert not {'rich', 'torch'} & set(sys.modules)"
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


def test_steering_and_what_is_lost_are_measured_on_the_runs_own_text(trained: Callable[[str], Path]) -> None:
    """Or on sources that are named, as the command does."""
    run = tfcli.load_run(trained("decoder"))
    found = tfcli.inspect(run, "steer", "One day", from_="Tom was sad", to=["Tom ran", "Mia swam"], at="0")
    assert (found.texts, found.at, found.prompt) == ((1, 2), "0", "One day") and "Steering" in found._repr_html_()
    assert "validation part of builtin:stories" in found.measured_on
    assert "builtin:stories" in tfcli.inspect(run, "ablate", on=["builtin:stories"]).measured_on
    for bad, said in (("7", "no layer '7'"), (-1, "no layer '-1'")):
        with pytest.raises(UsageError, match=said):
            tfcli.inspect(run, "steer", from_="Tom", to="Mia", at=bad)
    for nothing in ([], 3, [3]):
        with pytest.raises(UsageError, match="give a text, or a list of one or more"):
            tfcli.inspect(run, "steer", from_=nothing, to="Mia")


def test_pictures_of_causes_are_followed_over_checkpoints(tmp_path: Path, cache: Path) -> None:
    train_tiny(tiny_recipe("decoder", {"train": {"keep_checkpoints": 3}}), tmp_path / "run")
    run = tfcli.load_run(tmp_path / "run")
    for picture, texts in (("ablate", ["a cat"]), ("patch", ["a cat sat", "a dog sat"]), ("attribution", ["a cat"])):
        found = tfcli.inspect(run, picture, *texts, token="a", against="e", evolution=True)
        assert found.steps == (4, 8, 12) and "Evolution" in found._repr_html_()


def test_pictures_of_causes_are_records_too(trained: Callable[[str], Path]) -> None:
    run = tfcli.load_run(trained("decoder"))
    found = tfcli.inspect(run, "ablate", "Tom swam", replaced="zero")
    assert {part.part for part in found.parts} == {"head", "MLP", "layer"} and "Ablation" in found._repr_html_()
    assert tfcli.inspect(run, "lens", "Tom swam").tokens[0] == "<s>"
    with pytest.raises(UsageError, match="There is no picture 'atention'; choose one of attention, positions, pred"):
        tfcli.inspect(run, "atention")
    with pytest.raises(
        UsageError, match="'lens' cannot be drawn over several checkpoints; choose one of attribution, ablate"
    ):
        tfcli.inspect(run, "lens", "Tom swam", evolution=True)


# What each picture is given after its run; those that are left out have tests of their own above.
GIVEN: dict[str, tuple[list[str], dict[str, Any]]] = {
    "attention": (["Tom swam"], {}),
    "positions": ([], {"length": 8}),
    "predictions": (["Tom swam"], {}),
    "losses": (["Tom swam"], {}),
    "lens": (["Tom swam"], {}),
    "attribution": (["Tom swam"], {}),
    "ablate": (["Tom swam"], {}),
    "patch": (["Tom swam", "Mia swam"], {"token": "a", "against": "e"}),
    "steer": ([], {"from_": "Tom", "to": "Mia"}),
    "circuits": ([], {}),
    "training": ([], {}),
    "cost": ([], {"length": 8}),
    "neighbours": (["a"], {"top_k": 2}),
    "embeddings": (["a", "e", "i"], {}),
    "probe": (["position"], {}),
    "heads": (["Tom swam"], {}),
    "equivariance": (["Tom swam"], {"permutations": 2}),
    "model": ([], {}),
    "tokens": (["Tom swam"], {}),
    "scaling": ([], {"queries": 10, "keys": 4}),
    "gradients": (["Tom swam"], {}),
    "recurrent": ([], {"steps": 1}),
}


def test_every_picture_of_the_command_line_has_a_name_here() -> None:
    commands = {command.name or command.callback.__name__ for command in inspect_app.registered_commands}  # type: ignore[union-attr]
    assert commands == PICTURES.keys() == GIVEN.keys()


@pytest.mark.parametrize("name", [name for name in GIVEN if name not in ("probe", "recurrent")])
def test_every_picture_is_a_record_that_a_notebook_draws(name: str, trained: Callable[[str], Path]) -> None:
    run = tfcli.load_run(trained("decoder"))
    texts, settings = GIVEN[name]
    found = tfcli.inspect(run, name, *texts, **settings)
    assert "<svg" in found._repr_html_()


def test_pictures_without_a_run_need_none() -> None:
    assert tfcli.inspect(None, "scaling", queries=10, keys=4).rows
    with pytest.raises(UsageError, match="None is no loaded run"):
        tfcli.inspect(None, "heads")


def test_a_run_is_one_line_and_in_a_notebook_its_page(trained: Callable[[str], Path], tmp_path: Path) -> None:
    shutil.copytree(trained("decoder"), tmp_path / "run")
    run = tfcli.load_run(tmp_path / "run")
    section = run.config.model
    assert repr(run) == (
        f"<LoadedRun {tmp_path / 'run'}: decoder, {section.num_layers} × {section.d_model}, "
        f"{section.num_heads} heads, {section.vocab_size:,} tokens, context {section.max_seq_len}>"
    )
    page = run._repr_html_()  # type: ignore[attr-defined]
    words = " ".join(re.sub("<[^>]*>", " ", page).split())
    assert "<svg" in page and "validation loss" in words and "tokenizer" in words
    shutil.rmtree(tmp_path / "run")
    assert run._repr_html_() == f"<pre>{html.escape(repr(run))}</pre>"  # type: ignore[attr-defined]


def test_the_options_own_forms_are_taken(trained: Callable[[str], Path], tmp_path: Path) -> None:
    run, text = tfcli.load_run(trained("decoder")), tmp_path / "money.txt"
    found = tfcli.inspect(run, "attribution", "Tom swam", method="occlusion")
    assert found.methods == ("occlusion",) and len(tfcli.inspect(run, "attribution", "Tom", method="all").methods) == 5
    texts = ("Tom sang", "Tom swam")
    by_name = tfcli.inspect(run, "patch", *texts, token="s", against="f", path="0.1")
    assert by_name.sender == tfcli.inspect(run, "patch", *texts, token="s", against="f", path=(0, 1)).sender
    text.write_text("Tom swam.\n" * 3)
    assert str(text) in tfcli.inspect(run, "ablate", on=str(text)).measured_on


def test_what_is_asked_for_wrongly_is_refused_in_a_sentence(trained: Callable[[str], Path]) -> None:
    run = tfcli.load_run(trained("decoder"))
    for said, picture, texts, how in (
        ("replaced is 'foo'; choose one of zero, mean, resample", "ablate", ["Tom"], {"replaced": "foo"}),
        ("methods is 'foo'; choose one of gradient", "attribution", ["Tom"], {"method": "foo"}),
        ("kind is 'foo'; choose one of", "patch", ["Tom", "Mia"], {"path": "0.0", "kind": "foo"}),
        ("task is 'foo'; choose one of position", "probe", ["foo"], {}),
        ("missing a required argument: 'task'; it takes task, on, word", "probe", [], {}),
        ("unexpected keyword argument 'foo'; it takes text, target, position", "lens", ["Tom"], {"foo": 1}),
        ('path = "0" is not a head; write LAYER.HEAD', "patch", ["Tom", "Mia"], {"path": "0"}),
        ('path = 1.1 is a number; write a text of layer and number: path = "1.0"', "patch", ["a", "b"], {"path": 1.1}),
        ("There is no head 1.9: layer 1 has heads 0 to 1", "patch", ["Tom", "Mia"], {"path": "1.9"}),
    ):
        with pytest.raises(UsageError, match=re.escape(said)):
            tfcli.inspect(run, picture, *texts, **how)
    with pytest.raises(UsageError, match="attention has no setting 'layr'; choose from layer, head"):
        tfcli.inspect(run, "attention", "Tom", layr=1)
    with pytest.raises(UsageError, match="attention has no setting 'layr'; choose from layer, head"):
        tfcli.attention(run, "Tom", layr=1)
    for call in (tfcli.generate, tfcli.attention, tfcli.inspect):
        with pytest.raises(UsageError, match="'runs/decoder' is no loaded run; give what "):
            call("runs/decoder", "losses")  # type: ignore[operator]
