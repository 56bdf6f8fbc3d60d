"""Activation patching on runs: the share of the way to the other answer, its two directions, and what is refused."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.cli.commands import tfcli
from tests.support.consoles import printed
from tests.support.runs import ARCHITECTURES
from tfcli.errors import UsageError
from tfcli.inspection.passes import Inputs, read_text
from tfcli.inspection.patching import Patching
from tfcli.inspection.patching.compute import patch
from tfcli.inspection.patching.view import PatchingView
from tfcli.runs.load import LoadedRun, load_run

PAIRS = {
    "decoder": ("Tom swam", "Tom flew", None),
    "encoder": ("Tom swa<mask>", "Tom fle<mask>", None),
    "encoder-decoder": ("o livro", "a mesa", "the"),
}


def answers(run: LoadedRun) -> dict[str, str]:
    one, other = ("book", "table") if run.architecture == "encoder-decoder" else ("a", "e")
    return {"token": one, "against": other}


def patched(run: LoadedRun, **how: object) -> Patching:
    clean, corrupt, target = PAIRS[run.architecture]
    return patch(run, clean, corrupt, target, **answers(run), **how)  # type: ignore[arg-type]


def difference(run: LoadedRun, inputs: Inputs, position: int) -> float:
    with torch.inference_mode():
        logits = run.model(*inputs.tensors(run.device))[0, position]
    one, other = (run.tokenizer.encode(word)[0] for word in answers(run).values())
    return float(logits[one] - logits[other])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_numbers_of_both_texts_are_the_models_own(trained: Callable[[str], Path], architecture: str):
    run = load_run(trained(architecture))
    found, (clean, corrupt, target) = patched(run), PAIRS[architecture]
    for text, own in ((clean, found.clean), (corrupt, found.corrupt)):
        assert own == pytest.approx(difference(run, read_text(run, text, target), found.position), abs=1e-4)
    sides = {"decoder": ["decoder"], "encoder": ["encoder"]}.get(architecture, ["encoder", "decoder"])
    assert [side.side for side in found.sides] == sides
    parts = [(one.part, one.side) for one in found.grids if one.kind is None]
    crossed = [("cross_attention", "decoder")] if architecture == "encoder-decoder" else []
    plain = [(part, side) for side in sides for part in ("residual", "attention", "feed_forward")]
    assert sorted(parts) == sorted(plain + crossed)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_word_that_is_put_into_the_input_is_that_text(trained: Callable[[str], Path], architecture: str):
    """The residual stream before layer 0 is the embedding: patched at a position, it is that of the other token."""
    run = load_run(trained(architecture))
    found, (clean, corrupt, target) = patched(run), PAIRS[architecture]
    inputs, others = (read_text(run, text, target) for text in (corrupt, clean))
    grid = next(one for one in found.grids if one.part == "residual")
    side = found.sides[0]
    assert side.differing == [
        n for n, pair in enumerate(zip(side.clean, side.corrupt, strict=True)) if len({*pair}) > 1
    ]
    for place, effect in enumerate(grid.effects[0]):
        ids = list(inputs.sides[0])
        ids[place] = others.sides[0][place]
        name = "decoder" if architecture == "decoder" else "encoder"
        read = replace(inputs, **{name: tuple(ids)})
        moved = difference(run, read, found.position) - found.corrupt
        assert effect == pytest.approx(moved / (found.clean - found.corrupt), abs=1e-3)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_noising_is_denoising_of_the_exchanged_texts(trained: Callable[[str], Path], architecture: str):
    run = load_run(trained(architecture))
    clean, corrupt, target = PAIRS[architecture]
    one, other = patched(run, noising=True), patch(run, corrupt, clean, target, **answers(run))
    for grid, same in zip(one.grids, other.grids, strict=True):
        np.testing.assert_array_equal(grid.effects, same.effects)
    assert (one.clean, one.corrupt) == (other.corrupt, other.clean)


def test_all_positions_of_the_last_stream_are_all_of_the_answer(trained: Callable[[str], Path]):
    """What is read at the position after the last layer alone decides: there the whole way is gone."""
    run = load_run(trained("decoder"))
    found = patched(run)
    for part in ("residual", "attention", "feed_forward"):
        last = next(one for one in found.grids if one.part == part).effects[-1]
        assert all(abs(last[:-1]) < 1e-3) == (part != "residual")
    assert found.grids[0].effects.shape == (run.config.model.num_layers, len(found.sides[0].clean))


def test_a_path_to_the_logits_and_to_each_later_part(trained: Callable[[str], Path]):
    run = load_run(trained("encoder-decoder"))
    found = patched(run, path=(0, 1), kind="encoder_self")
    layers, heads = run.config.model.num_layers, run.config.model.num_heads
    shapes = [(one.side, one.kind, one.effects.shape) for one in found.grids]
    assert shapes == [
        ("encoder", "encoder_self", (layers, heads + 1)),
        ("decoder", "decoder_self", (layers, heads + 1)),
        ("decoder", "cross", (layers, heads)),
    ]
    assert np.isnan(found.grids[0].effects[0, :heads]).all() and not np.isnan(found.grids[0].effects[0, heads])
    assert found.direct == 0.0 and not found.grids[1].effects.any()  # by cross-attention alone
    assert found.grids[2].effects.any() and found.sender == "encoder head 0.1"
    shown = printed(PatchingView(found), 80)
    assert "encoder head 0.1" in shown and "\n\nby way of cross-attention head, layer by layer\n" in shown
    decoders = shown[shown.index("by way of decoder head") :].splitlines()
    assert decoders[1].split() == [*map(str, range(heads)), "MLP"], "all 0, and no name is cut"


def test_one_token_that_differs_does_not_decide(trained: Callable[[str], Path]):
    found = patch(load_run(trained("decoder")), "Tom bat", "Tom cat", token="a", against="e")
    shown = printed(PatchingView(found), 80)
    assert "The texts differ at one position: b → c at" in " ".join(shown.split()) and "decides" not in shown
    assert "residual n: the stream before layer n" in shown
    few = patch(load_run(trained("decoder")), "bat", "cat", token="a", against="e")
    assert "position by layer\n\n" not in printed(PatchingView(few), 80)


REFUSED = [
    (
        ("Tom swam", "Tom flew!"),
        {},
        "The clean text and the corrupt one have 9 and 10 tokens: positions do not correspond",
    ),
    (("Tom swam", "Tom swam"), {}, "The clean and the corrupt text are the same"),
    (("Tom swam", "Tom flew"), {"token": "a", "against": "a"}, "Both answers are 'a'"),
    (("Tom swam", "Tom flew"), {"token": "Tom"}, "'Tom' is 3 tokens"),
    (("Tom swam", "Tom flew"), {"path": (7, 0)}, "There is no layer 7: the model has 2; choose 0 to 1"),
    (("Tom swam", "Tom flew"), {"position": 0, "token": "a", "against": "e"}, "Both texts give"),
    (("Tom swam", "Tom flew"), {"position": 44}, "There is no position 44"),
]


@pytest.mark.parametrize(("texts", "how", "message"), REFUSED, ids=[message[:30] for _, _, message in REFUSED])
def test_what_cannot_be_patched_is_one_sentence(trained: Callable[[str], Path], texts, how, message):
    with pytest.raises(UsageError, match=message):
        patch(load_run(trained("decoder")), *texts, **how)


def test_a_position_behind_where_translations_part_is_refused(
    trained: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
):
    """The two translations share <s> and two tokens."""
    run = load_run(trained("encoder-decoder"))
    monkeypatch.setattr("tfcli.inspection.passes.translate", lambda model, texts, *_: [[10, 11, texts[0][-1], 12]])
    with pytest.raises(UsageError, match="part behind position 2; choose one from 0 to 2, or give a --target"):
        patch(run, "o livro", "a mesa", position=3)
    for position in (2, None):
        assert patch(run, "o livro", "a mesa", token="book", against="table", position=position).position == 2


def test_an_encoder_needs_a_mask_and_a_translator_two_answers(trained: Callable[[str], Path]):
    with pytest.raises(UsageError, match="The first masks stand at positions 5 and 1"):
        patch(load_run(trained("encoder")), "Tom <mask>", "<mask> Tom")
    with pytest.raises(UsageError, match="An encoder answers at a mask"):
        patch(load_run(trained("encoder")), "Tom swam", "Tom flew")
    with pytest.raises(UsageError, match="has no cross attention"):
        patch(load_run(trained("encoder")), "Tom <mask>", "Tim <mask>", path=(0, 0), kind="cross")


def test_the_command_prints_pictures_and_numbers(trained: Callable[[str], Path], tmp_path: Path):
    run = trained("decoder")
    texts = ["--clean", "Tom swam", "--corrupt", "Tom flew", "--token", "a", "--against", "e"]
    arguments = ["inspect", "patch", str(run), *texts]
    picture = tfcli(*arguments, "--svg", str(tmp_path / "a.svg"), "--html", str(tmp_path / "a.html"))
    assert "Activation patching" in picture.stdout and "Of 4 positions that differ" in picture.stdout
    assert (tmp_path / "a.svg").read_text().startswith("<svg") and "Activation" in (tmp_path / "a.html").read_text()
    found = json.loads(tfcli(*arguments, "--json").stdout)
    assert found["direction"] == "denoising" and len(found["grids"][0]["effects"]) == 2
    rows = list(csv.DictReader(tfcli(*arguments, "--csv").stdout.splitlines()))
    assert len(rows) == sum(np.size(one["effects"]) for one in found["grids"])
    assert rows[0].keys() == {"part", "side", "kind", "layer", "position_or_head", "clean", "corrupt", "effect"}
