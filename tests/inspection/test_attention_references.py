"""Weights of imported checkpoints against what `transformers` computes eagerly, and a published model end to end."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.cli.commands import tfcli
from tests.support.checkpoints import save_checkpoint
from tfcli.inspection.attention.compute import attention
from tfcli.inspection.passes import read_text
from tfcli.interop.importing import import_run
from tfcli.runs.load import load_run

STORIES = Path(__file__).parents[3] / "shared/weights/stories260K"
CLASSES = {
    "gpt2": "AutoModelForCausalLM",
    "bert": "AutoModelForMaskedLM",
    "bart": "AutoModelForSeq2SeqLM",
}
NAMES = {
    "gpt2": {"decoder_self": "attentions"},
    "bert": {"encoder_self": "attentions"},
    "bart": {
        "encoder_self": "encoder_attentions",
        "decoder_self": "decoder_attentions",
        "cross": "cross_attentions",
    },
}


@pytest.mark.parametrize("family", CLASSES)
def test_weights_are_those_of_transformers(family: str, tmp_path: Path):
    transformers = pytest.importorskip("transformers", reason="the dev extra brings transformers")
    folder = save_checkpoint(tmp_path / "theirs", family)
    import_run(str(folder), tmp_path / "run")
    run = load_run(tmp_path / "run")
    text, target = "the cat sat on the mat", "the cats sit" if family == "bart" else None
    records = {record.kind: record for record in attention(run, text, target)}
    assert records.keys() == NAMES[family].keys()

    theirs: Any = getattr(transformers, CLASSES[family]).from_pretrained(folder, attn_implementation="eager").eval()
    inputs = read_text(run, text, target)
    sides = [torch.tensor([ids]) for ids in (inputs.encoder, inputs.decoder) if ids is not None]
    given = dict(zip(("input_ids", "decoder_input_ids"), sides, strict=False))
    with torch.no_grad():
        wanted = theirs(**given, output_attentions=True)
    for kind, name in NAMES[family].items():
        expected = torch.cat(list(wanted[name])).numpy()
        assert records[kind].weights.shape == expected.shape
        np.testing.assert_allclose(records[kind].weights, expected, atol=1e-5)
        assert np.abs(expected - 1 / expected.shape[-1]).max() > 0.1, "the comparison is not one of uniform rows"


def test_a_published_model_is_inspected_end_to_end(tmp_path: Path):
    if not STORIES.is_dir():
        pytest.skip(f"there is no folder {STORIES}: this test needs the published weights beside the repository")
    assert tfcli("import", STORIES, "--out", tmp_path / "stories").exit_code == 0
    command = ("inspect", "attention", tmp_path / "stories", "Once upon a time, there was a little girl")
    [record] = json.loads(tfcli(*command, "--json").stdout)["records"]
    weights = np.array(record["weights"])
    assert weights.shape[:2] == (5, 8)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
    assert "".join(record["query_tokens"][1:]).strip() == "Once upon a time, there was a little girl"
    for options in ([], ["--scores"], ["--rollout"], ["--top-k", "5"], ["--head", "0.0", "--against-head", "0.1"]):
        result = tfcli(*command, *options)
        assert result.exit_code == 0, result.stderr
        assert "decoder self-attention" in result.stdout.splitlines()[0]
