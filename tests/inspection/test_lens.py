"""The logit lens against models that really stop after a layer."""

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.runs import ARCHITECTURES
from tfcli.inspection.passes import read_text
from tfcli.inspection.predictions.compute import _settled, lens, predictions
from tfcli.runs.load import LoadedRun, load_run

TEXTS = {"decoder": ("the cat s", None), "encoder": ("the c<mask>t", None), "encoder-decoder": ("o gato", "the cat")}


def cut(run: LoadedRun, layers: int) -> torch.nn.Module:
    """The model with that many layers before its last norm and its head."""
    model = copy.deepcopy(run.model)
    stack = model.get_submodule("decoder" if run.architecture == "encoder-decoder" else "stack")
    stack.layers = stack.layers[:layers]
    return model


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_depth_is_what_a_model_of_so_many_layers_predicts(trained: Callable[[str], Path], architecture: str):
    """The decoders of these runs have their norms before the sublayers, the encoder after them."""
    run = load_run(trained(architecture))
    text, target = TEXTS[architecture]
    found = lens(run, text, target, top_k=2)
    inputs = read_text(run, text, target).tensors(run.device)
    layers = len(found.top) - 1
    assert layers == run.config.model.decoder_layers
    with torch.inference_mode():
        whole = run.model(*inputs)[0].softmax(-1)
        for depth in range(layers + 1):
            share = cut(run, depth)(*inputs)[0].softmax(-1)
            highest, top = share.max(-1)
            np.testing.assert_allclose(found.probabilities[depth], highest.numpy(), atol=1e-5)
            assert found.top[depth] == tuple(run.tokenizer.labels(top.tolist()))
            of_last = share.gather(-1, whole.argmax(-1)[:, None])[:, 0]
            np.testing.assert_allclose(found.final[depth], of_last.numpy(), atol=1e-5)
            best = share[found.position].topk(2)
            assert [one.token for one in found.candidates[depth]] == run.tokenizer.labels(best.indices.tolist())
    for position, depth in enumerate(found.settled):
        tops = [row[position] for row in found.top]
        assert set(tops[depth:]) == {tops[-1]}
        assert depth == 0 or tops[depth - 1] != tops[-1]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_last_row_is_the_models_own_prediction(trained: Callable[[str], Path], architecture: str):
    run = load_run(trained(architecture))
    text, target = TEXTS[architecture]
    found, own = lens(run, text, target), predictions(run, text, target)
    assert (found.kind, found.position) == (own.kind, own.position)
    assert found.tokens == tuple(one.read for one in own.predictions)
    # An encoder predicts each token where it is masked; the lens reads the text as it stands.
    asked = [n for n, one in enumerate(own.predictions) if architecture != "encoder" or one.read == "<mask>"]
    same = [own.predictions[n] for n in asked]
    assert asked and [found.answers[n] for n in asked] == [one.answer for one in same]
    assert [found.top[-1][n] for n in asked] == [one.candidates[0].token for one in same]
    np.testing.assert_allclose(
        found.probabilities[-1][asked], [one.candidates[0].probability for one in same], atol=1e-6
    )
    np.testing.assert_array_equal(found.final[-1], found.probabilities[-1])


def test_where_an_answer_settles():
    """7 was there before 5 came between: it stays from depth 3 on."""
    assert _settled([4, 7, 5, 7, 7]) == 3
    assert _settled([7, 7]) == 0
    assert _settled([1, 2, 3]) == 2
