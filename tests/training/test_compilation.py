"""Whether torch.compile is used: the written rule, and that a translated model computes the same."""

import functools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch._dynamo.utils import counters

from tests.models.small import VOCAB, ids, model
from tests.support.runs import tiny_recipe
from tfcli.errors import UsageError
from tfcli.evaluation.measure import total_loss
from tfcli.recipe.train import TrainSection
from tfcli.training import precision
from tfcli.training.job import assemble, resolve_for_machine
from tfcli.training.memory import synthetic_batch, synthetic_batches
from tfcli.training.objective import TrainingLoss
from tfcli.training.precision import choose_compile, compile_layers

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    ("device", "steps", "triton", "chosen"),
    [(CUDA, 500, True, "on"), (CUDA, 499, True, "off"), (CUDA, 5000, False, "off"), (CPU, 5000, True, "off")],
)
def test_auto_translates_for_a_gpu_and_a_training_that_is_long_enough(
    monkeypatch: pytest.MonkeyPatch, device: torch.device, steps: int, triton: bool, chosen: str
):
    monkeypatch.setattr(precision.importlib.util, "find_spec", lambda name: triton or None)
    assert choose_compile("auto", device, steps) == chosen


def test_without_a_compiler_the_wish_is_refused_in_words(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(precision.shutil, "which", lambda name: None)
    with pytest.raises(UsageError, match=r"train\.compile = 'on' needs a C\+\+ compiler"):
        choose_compile("on", CPU, 1000)
    assert choose_compile("off", CPU, 1000) == "off"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_a_translated_model_computes_the_same():
    network = model("decoder").float().train()
    names, plain = list(network.state_dict()), network(ids())
    compile_layers(network)
    torch.testing.assert_close(network(ids()), plain, rtol=1e-4, atol=1e-5)
    assert list(network.state_dict()) == names, "checkpoints do not change"


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """How many graphs have been made, without the time that translating them takes."""
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    torch._dynamo.reset()
    counters.clear()
    yield lambda: counters["stats"]["unique_graphs"]
    torch._dynamo.reset()


def test_layers_whose_activations_are_forgotten_are_translated(graphs: Callable[[], int]):
    recipe = tiny_recipe("decoder", {"model": {"vocab_size": VOCAB}}).resolved()
    found = []
    for compile in ("on", "off"):
        settings = {"compile": compile, "activation_checkpointing": True}
        parts = assemble(recipe.model, replace(resolve_for_machine(recipe).train, **settings))
        parts.objective(next(synthetic_batches(recipe)))[1].backward()
        found.append([parameter.grad for parameter in parts.model.parameters()])
    assert graphs() >= 1, "nothing was translated"
    torch.testing.assert_close(*found)


def test_where_documents_begin_is_no_form_of_its_own(graphs: Callable[[], int]):
    """Batches of a step, of any rows and any documents, share the translations of one that has a mask."""
    settings = {"windows": "stream", "document_masking": True, "compile": "on"}
    recipe = tiny_recipe("decoder", {"model": {"vocab_size": VOCAB}, "train": settings}).resolved()
    parts = assemble(recipe.model, resolve_for_machine(recipe).train)
    seen = []
    for rows in (4, 3, 2, 4, 3):
        batch = next(synthetic_batches(recipe, rows))
        assert batch.document_starts is not None
        starts = np.where(np.arange(32) < 5 * rows, 0, 5 * rows)
        for documents in (batch.document_starts, np.tile(starts, (rows, 1))):
            parts.objective(replace(batch, document_starts=documents))[1].backward()
        seen.append(graphs())
    assert seen[1] == seen[-1], seen


@pytest.mark.slow
def test_an_encoder_decoder_stays_below_the_limit_of_translations(graphs: Callable[[], int]):
    """Trained and evaluated on pairs of many lengths, whole and in part, with padding."""
    network, draw = model("encoder-decoder").float(), np.random.default_rng(0)
    compile_layers(network)
    objective = TrainingLoss(network.train(), TrainSection(label_smoothing=0.1))
    for length in (16, 12, 9, 14, 7):
        for rows in (4, 3):
            batch = synthetic_batch(network.section, rows, length, draw, target_length=length - 2)
            padding = np.arange(length) < np.array([length] * (rows - 1) + [length - 2])[:, None]
            padded = replace(batch, padding_mask=padding)
            objective(padded)[1].backward()
            total_loss(network, [padded], CPU)
    assert not counters["recompile_limit"] and graphs() < torch._dynamo.config.recompile_limit
