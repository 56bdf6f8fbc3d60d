"""What is special to BERT: checkpoints without the head, the pooler, token types."""

import dataclasses
from pathlib import Path

import pytest
import torch

from . import comparison, reference
from .families.bert import FAMILY, PUBLISHED
from .family import transformers


@pytest.mark.parametrize("kind", ["BertModel", "BertForSequenceClassification", "BertForNextSentencePrediction"])
def test_checkpoints_without_the_head_give_vectors(kind: str) -> None:
    theirs = reference.lively(getattr(transformers, kind)(FAMILY.config()))
    ours = reference.ours_of(FAMILY.layout, theirs)
    assert ours.section.head == "none"
    ids = comparison.random_ids(11, 2, 7)
    body = theirs if kind == "BertModel" else theirs.bert
    with torch.no_grad():
        comparison.assert_same(ours.hidden(ids), body(ids).last_hidden_state)
    comparison.assert_round_trip(FAMILY.layout, ours.section, reference.parameters_of(ours))


def test_the_published_body_has_as_many_parameters() -> None:
    """The pooler is a matrix D × D and a bias, 768 · 769 numbers, and tfcli leaves it out."""
    section = dataclasses.replace(reference.read_config(FAMILY.layout, PUBLISHED), head="none", head_bias=False)
    with torch.device("meta"):
        count = reference.build_model(section).num_parameters()
    assert count == 108_891_648 and count + 768 * 769 == 109_482_240


def test_without_token_types_every_type_is_alike(tmp_path: Path) -> None:
    """Two rows of zeros are exported: a pair's second part, which tokenizers number 1, then changes nothing."""
    ours = FAMILY.ours()
    folder = reference.export(tmp_path, FAMILY.layout, FAMILY.run, reference.parameters_of(ours))
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    assert torch.equal(theirs.bert.embeddings.token_type_embeddings.weight, torch.zeros(2, 12))
    ids = comparison.random_ids(11, 2, 7)
    with torch.no_grad():
        logits = theirs(ids, token_type_ids=comparison.random_ids(2, 2, 7)).logits
        comparison.assert_same(ours(ids), logits)
