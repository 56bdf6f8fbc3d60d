"""Vectors of texts: pooling by hand, no trace of a batch or of padding, and transformers' own."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.checkpoints import save_checkpoint
from tfcli.errors import UsageError
from tfcli.inspection.embeddings import EmbeddingsRecord, Pool
from tfcli.inspection.embeddings.compute import embed, joined, pooled
from tfcli.inspection.passes import record_model, text_ids
from tfcli.interop.importing import import_run
from tfcli.runs.load import LoadedRun, load_run

TEXTS = ["the cat", "Tom", "the dog and the cat", "o gato"]


def vectors(
    run: LoadedRun, batches: list[list[str]], pool: Pool = "mean", layer: int | None = None
) -> EmbeddingsRecord:
    return joined(list(embed(run, batches, pool, layer)))


def test_pools_by_hand():
    hidden = torch.tensor([[[1.0, 2.0], [3.0, 6.0]], [[5.0, 7.0], [9.0, 9.0]]])
    counts = torch.tensor([2, 1])
    assert pooled(hidden, counts, "mean").tolist() == [[2.0, 4.0], [5.0, 7.0]]
    assert pooled(hidden, counts, "first").tolist() == [[1.0, 2.0], [5.0, 7.0]]
    assert pooled(hidden, counts, "last").tolist() == [[3.0, 6.0], [5.0, 7.0]]


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder-decoder"])
@pytest.mark.parametrize("pool", ["mean", "first", "last"])
def test_neither_the_batch_nor_padding_tells(trained: Callable[[str], Path], architecture: str, pool: Pool):
    run = load_run(trained(architecture))
    together, alone = vectors(run, [TEXTS], pool), vectors(run, [[text] for text in TEXTS], pool)
    assert len(set(together.tokens.tolist())) > 1, "the texts are of different lengths"
    np.testing.assert_allclose(together.vectors, alone.vectors, atol=1e-5)
    assert together.texts == alone.texts == tuple(TEXTS)


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder-decoder"])
def test_layers_are_those_of_the_recorded_pass(trained: Callable[[str], Path], architecture: str):
    run = load_run(trained(architecture))
    ids = text_ids(run, TEXTS[0])
    inputs = [torch.tensor([ids])]
    if architecture == "encoder-decoder":
        inputs.append(torch.tensor([run.config.roles.target_prefix]))
    with torch.inference_mode():
        seen = record_model(run.model, inputs)
    stack = seen.encoder or seen.decoder
    assert stack is not None
    wanted = {None: stack.hidden, **{number: layer.after for number, layer in enumerate(stack.layers)}}
    for layer, hidden in wanted.items():
        found = vectors(run, [[TEXTS[0]]], "mean", layer).vectors[0]
        np.testing.assert_allclose(found, hidden.mean(0).numpy(), atol=1e-5)


def test_a_layer_that_is_not_there_and_a_text_that_does_not_fit_are_refused(trained: Callable[[str], Path]):
    run = load_run(trained("encoder"))
    with pytest.raises(UsageError, match="There is no layer 2"):
        embed(run, [["a"]], "mean", 2)
    with pytest.raises(UsageError, match="the context holds 32"):
        list(embed(run, [["a" * 40]], "mean", None))


def test_an_imported_bert_gives_the_vectors_of_transformers(tmp_path: Path):
    """The mean over all tokens that are not padding, as sentence-transformers pool, in one padded batch."""
    transformers = pytest.importorskip("transformers", reason="the dev extra brings transformers")
    folder = save_checkpoint(tmp_path / "bert", "bert")
    import_run(str(folder), tmp_path / "run")
    texts = ["the cats sat", "the cat sat on the mat", "cat"]
    found = vectors(load_run(tmp_path / "run"), [texts])
    theirs = transformers.AutoModel.from_pretrained(folder).eval()
    read = transformers.AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = theirs(**read).last_hidden_state
    mask = read["attention_mask"][..., None]
    np.testing.assert_allclose(found.vectors, ((hidden * mask).sum(1) / mask.sum(1)).numpy(), atol=1e-5)
    assert found.tokens.tolist() == read["attention_mask"].sum(1).tolist()


def test_cosines_by_hand():
    record = EmbeddingsRecord(
        "r",
        "encoder",
        "mean",
        None,
        ("a", "b", "c"),
        np.array([1, 1, 1]),
        np.array([[3, 4], [4, 3], [0, 0]], np.float32),
    )
    np.testing.assert_allclose(record.cosines(), [[1, 0.96, 0], [0.96, 1, 0], [0, 0, 0]], atol=1e-6)
