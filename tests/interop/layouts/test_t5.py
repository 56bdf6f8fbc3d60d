"""What is special to T5: buckets of distances, and how old files say whether there is one matrix."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tfcli.interop.tensors import parameters_of_checkpoint, settled_section

from . import comparison, reference
from .families.t5 import FAMILY, model_of
from .family import transformers


def test_same_buckets_at_long_distances() -> None:
    """300 tokens reach beyond the distance from which on all share a bucket, on both sides."""
    theirs = FAMILY.model()
    batch = comparison.Batch([300], target_length=200)
    comparison.assert_same_function(reference.ours_of(FAMILY.layout, theirs), theirs, batch)


@pytest.mark.parametrize("own_head", [True, False])
@pytest.mark.parametrize("tie", [True, False, None])
def test_published_files_are_what_the_library_makes_of_them(tie: bool | None, own_head: bool, tmp_path: Path) -> None:
    """Old files say with `tie_word_embeddings` whether logits are scaled; a head of their own is used where it is."""
    changes = {} if tie is None else {"tie_word_embeddings": tie}
    config = {"model_type": "t5", **FAMILY.small, **changes, "decoder_start_token_id": 0}
    model = model_of(FAMILY.config(), own_head=own_head)
    kept = {
        name: tensor.clone()
        for name, tensor in model.state_dict().items()
        if "embed_tokens" not in name and (own_head or "lm_head" not in name)
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file(kept, tmp_path / "model.safetensors", {"format": "pt"})
    theirs = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path)
    section = settled_section(FAMILY.layout, reference.read_config(FAMILY.layout, config), kept)
    assert (section.tie_embeddings, section.scale_logits) == (not own_head, tie is not False)
    parameters = parameters_of_checkpoint(FAMILY.layout, section, kept, reference.WEIGHTS)[0]
    ours = reference.filled(section, parameters, torch.float32)
    comparison.assert_same(comparison.outputs(ours), comparison.their_outputs(section, theirs))


def test_old_checkpoints_hold_a_bias_that_nothing_reads() -> None:
    theirs = FAMILY.model()
    unread = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    tensors = theirs.state_dict() | {unread: torch.ones(32, 3)}
    section = reference.section_of(FAMILY.layout, theirs)
    assert parameters_of_checkpoint(FAMILY.layout, section, tensors, reference.WEIGHTS)[1] == [unread]
