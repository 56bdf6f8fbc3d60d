"""`inspect circuits` from the command line and the Python API: its forms, widths and refusals."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import tfcli as api
from tests.cli.commands import tfcli
from tests.support.consoles import printed
from tests.support.runs import ARCHITECTURES, tiny_recipe, train_tiny
from tfcli.errors import UsageError
from tfcli.inspection.circuits import Circuit, Circuits
from tfcli.inspection.circuits.view import CircuitsView
from tfcli.inspection.heads.find import Material
from tfcli.inspection.passes import read_text
from tfcli.runs.load import load_run

HOW = {"all": (), "head": ("--head", "1.0"), "neuron": ("--neuron", "1.3")}
KEYS = ["by", "of", "other", "value", "chance", "spread", "stands_out"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("how", HOW)
def test_the_forms_say_the_same(trained: Callable[[str], Path], architecture: str, how: str, tmp_path: Path):
    command = ("inspect", "circuits", trained(architecture), *HOW[how])
    svg, page = tmp_path / "c.svg", tmp_path / "c.html"
    done = tfcli(*command, "--json", "--svg", svg, "--html", page)
    assert done.exit_code == 0, done.stderr
    record = json.loads(done.stdout)
    assert [*record] == ["run", "of", "rows", "notes", "measured_on", "threads"] and [*record["rows"][0]] == KEYS
    rows = list(csv.DictReader(tfcli(*command, "--csv").stdout.splitlines()))
    assert [*rows[0]] == KEYS
    assert [float(row["value"]) for row in rows] == [row["value"] for row in record["rows"]]
    shown = tfcli(*command).stdout
    title = {
        "all": "Circuits of every head · ",
        "head": "-attention, head ",
        "neuron": f"Neuron {record['of']} · ",
    }
    assert title[how] in shown.splitlines()[0]
    for drawn in (svg, page):
        assert title[how].strip(" ·") in drawn.read_text(encoding="utf-8")
    assert bool(record["measured_on"]) == (how == "neuron")


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("how", HOW)
def test_views_keep_to_the_width(trained: Callable[[str], Path], width: int, how: str):
    run = load_run(trained("decoder"))
    places = {"all": {}, "head": {"head": (0, 1)}, "neuron": {"neuron": (0, 2)}}[how]
    texts = tuple(read_text(run, text) for text in ("Tom swam to the bank.", "Mia ate the cake."))
    told = {"material": Material("texts", texts, stories=False, aligned={})} if how == "neuron" else {}
    shown = printed(CircuitsView(api.inspect(run, "circuits", **places, **told)), width)
    assert max(map(len, shown.splitlines())) <= width
    said = " ".join(shown.split())
    assert "Rotary positions are at distance 0." in said and "{" not in said
    assert "<svg" in api.inspect(run, "circuits", "e", head=(0, 0))._repr_html_()


def test_only_what_stands_out_is_shown_beside_what_chance_has():
    ranks = [Circuit(by, f"decoder_self.{n}.0", None, 3.25 - n, 4.0) for by in ("QK", "OV") for n in (0, 1)]
    rows = (
        *ranks,
        Circuit("copying", "decoder_self.0.0", None, 0.5, 0.01, 0.2, stands_out=False),
        Circuit("copying", "decoder_self.1.0", None, -0.75, 0.01, 0.2, stands_out=True),
        Circuit("K-composition", "decoder_self.0.0", "decoder_self.1.0", 0.4, 0.25, 0.02, stands_out=True),
        Circuit("K-composition", "decoder_self.0.0", "decoder_self.1.1", 0.28, 0.25, 0.02, stands_out=False),
    )
    said = " ".join(printed(CircuitsView(Circuits("runs/a", "decoder", rows, ("none",))), 120).split())
    assert "0.0 3.2 3.2 (0.50) 0.01 ± 0.20 1.0 2.2 2.2 -0.75 0.01 ± 0.20 " in said
    assert "random matrices as large have 4.0." in said and "in brackets what they could give" in said
    assert "Composition: 1 of 2 stand out. by writes reads share chance" in said
    assert " K 0.0 1.0 0.400 0.250 ± 0.020 The largest 1:" in said
    assert "0.28" not in said and "The model has no positions." in said
    of_two = (*rows, Circuit("QK", "cross.0.0", None, 1.0, 4.0), Circuit("OV", "cross.0.0", None, 1.0, 4.0))
    said = " ".join(printed(CircuitsView(Circuits("runs/a", "encoder-decoder", of_two, ())), 120).split())
    assert "decoder_self 1.0 2.2 2.2 -0.75" in said and " cross 0.0 1.0 1.0 " in said
    assert "Composition" not in printed(CircuitsView(Circuits("runs/a", "decoder", tuple(ranks), ())), 120)


def test_tokens_are_told_by_their_labels():
    rows = (
        Circuit("seeks", " a", "\n", 2.5, 2.0, stands_out=True),
        Circuit("seeks", " a", " a", -1.5, 1.0, stands_out=True),
        Circuit("seeks", " a", "[b]", 0.9, 1.0, stands_out=False),
        Circuit("seeks", "e", " a", 0.1, 1.0, stands_out=False),
    )
    shown = printed(CircuitsView(Circuits("runs/a", "cross.0.0", rows, ("none", "headless"))), 120)
    said = " ".join(shown.split())
    assert said.startswith("Circuits of cross-attention, head 0.0 · runs/a seeks: scores")
    assert "·a ⏎ +2.5 ·a -1.5 ([b] +0.9 chance ±2) e (·a +0.1 chance ±1)" in said.replace("↵", "⏎").replace(
        "\\n", "⏎"
    ), said
    assert "nothing is said of what is written" in said


def test_a_neuron_prefers_a_token_or_none():
    rows = [Circuit("mean", "decoder.0.1", None, 0.5), Circuit("positive", "decoder.0.1", None, 0.25)]
    rows.append(Circuit("active", "decoder.0.1", "a [b] c", 2.0))
    for stands_out, told in ((True, 'It prefers "·b": found on'), (False, "No token stands out: the one found on")):
        first = Circuit("first", "decoder.0.1", " b", 0.5, 0.1, 0.05, stands_out=stands_out)
        writes = Circuit("writes", "decoder.0.1", " b", 1.5, 1.0, stands_out=stands_out)
        one = Circuits("runs/a", "decoder.0.1", (*rows, first, writes), (), "texts")
        said = " ".join(printed(CircuitsView(one), 120).split())
        assert "Neuron decoder.0.1 · runs/a On texts: its activation is 0.5 in the mean, and above 0 on 25.0%" in said
        assert (
            told in said and "in 50.0% of the other half, by chance in 10.0% ± 5.0%." in said and " 2 a [b] c " in said
        )
        assert ("of the last norm: ·b +1.5 Read" if stands_out else "(·b +1.5 within chance: random vectors") in said


REFUSED = {
    ("--head", "2.0"): "There is no layer 2: the model has 2; choose 0 to 1",
    ("--head", "0.2"): "There is no head 0.2: layer 0 has heads 0 to 1; write for example --head 0.1",
    ("--head", "x"): "--head x is not a head; write LAYER.HEAD, both counted from 0, such as --head 1.0",
    ("--head", "1"): "--head 1 names no layer, and the model has 2 layers; write LAYER.HEAD, such as --head 0.1",
    ("--neuron", "7"): "--neuron 7 is not a neuron; write LAYER.NEURON, both counted from 0, such as --neuron 1.0",
    ("--neuron", "2.0"): "There is no layer 2: the model has 2; choose 0 to 1",
    ("--neuron", "0.9999"): "There is no neuron 9999: the model has",
    ("--head", "0.0", "Tom"): "'Tom' is 3 tokens and has no vector of its own",
    ("--head", "0.0", "€"): "'€' is not in the vocabulary",
    ("e",): "Tokens are read through one head; name a head with --head LAYER.HEAD",
    ("--neuron", "0.1", "--head", "0.1"): "leave one of these out",
    ("--neuron", "0.1", "e"): "leave one of these out",
    ("--on", "builtin:stories"): "leave one of these out",
    ("--kind", "cross"): "This decoder has no cross attention",
}


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_what_is_not_there_is_refused(trained: Callable[[str], Path], words: tuple[str, ...]):
    done = tfcli("inspect", "circuits", trained("decoder"), *words)
    assert done.exit_code == 2 and REFUSED[words] in done.stderr and not done.stdout


def test_models_without_what_is_asked_are_refused(tmp_path: Path):
    train_tiny(tiny_recipe("decoder", {"model": {"d_ff": 0}}), tmp_path / "attention")
    done = tfcli("inspect", "circuits", tmp_path / "attention", "--neuron", "0.0")
    assert done.exit_code == 2 and "attention alone (model.d_ff = 0) and no neuron; name a head" in done.stderr
    assert tfcli("inspect", "circuits", tmp_path / "attention").exit_code == 0
    run = load_run(tmp_path / "attention")
    train_tiny(tiny_recipe("decoder"), tmp_path / "one")
    one = load_run(tmp_path / "one")
    texts = Material("a text", (read_text(one, "Tom"),), stories=False, aligned={})
    with pytest.raises(UsageError, match="measured on two texts or more"):
        api.inspect(one, "circuits", neuron=(0, 0), material=texts)
    for setting, said in (({"attention_score": "additive"}, "no QK matrix"), ({"residuals": False}, "residual")):
        section = replace(run.config.model, d_ff=8, positions="none", **setting)
        with pytest.raises(UsageError, match=said):
            api.inspect(replace(run, config=replace(run.config, model=section)), "circuits")
