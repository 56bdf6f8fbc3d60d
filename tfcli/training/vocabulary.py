"""Vocabulary extension of a model: new rows of the embedding and of the head, from the pieces that new tokens replace.

The row of a new token is the mean of the rows of the pieces it was cut into before (Gee et al. 2022, "Fast vocabulary
transfer"; the mean of all rows, as in Hewitt 2021, where it was cut into nothing): its logit then begins as
the mean of theirs, and takes little probability away from the old ones, where a row drawn at random may take all."""

import torch
from torch import nn

from tfcli.data.batch import Batch
from tfcli.evaluation.windows import scoring
from tfcli.layers.embedding import TokenEmbedding
from tfcli.models.build import uninitialized_model
from tfcli.models.head import Head, TransformHead
from tfcli.models.transformer import Transformer
from tfcli.records.dataset import VocabularyExtension
from tfcli.runs.load import StoredRun
from tfcli.runs.weights import model_tensors
from tfcli.tokenization.extend import replaced_pieces
from tfcli.tokenization.tokenizer import Tokenizer

_BY_TOKEN = {TokenEmbedding: ("weight",), Head: ("weight", "bias"), TransformHead: ("weight", "bias")}
"""What has a row, or a number, a token."""


@torch.no_grad()
def extend_model(
    model: Transformer, objective: nn.Module, initial: StoredRun, tokenizer: Tokenizer, batch: Batch
) -> VocabularyExtension:
    """Fill a model from a run of a smaller vocabulary, whose tokenizer `tokenizer` extends: old rows bit-equal, new
    rows the means of old ones. The `objective` is measured on `batch` before and after."""
    old = uninitialized_model(initial.config.model)
    initial.fill(old)
    by_token = {f"{name}.{one}" for name, part in old.named_modules() for one in _BY_TOKEN.get(type(part), ())}
    own, tensors = model_tensors(model), model_tensors(old)
    for name, tensor in tensors.items():
        (own[name][: len(tensor)] if name in by_token else own[name]).copy_(tensor)
    replaced = replaced_pieces(initial.tokenizer, tokenizer)
    every = sorted(initial.tokenizer.ordinary_ids)
    before = _loss(objective, batch)
    for name in by_token & tensors.keys():
        for token_id, pieces in replaced.items():
            own[name][token_id] = tensors[name][pieces or every].mean(0)
    rows = initial.config.model.vocab_size or 0
    return VocabularyExtension(rows, max(rows, tokenizer.vocab_size), len(replaced), before, _loss(objective, batch))


def _loss(objective: nn.Module, batch: Batch) -> float:
    """Nats a target token, without dropout."""
    with scoring(objective):
        return objective(batch)[0].item() / max(1, batch.target_tokens)
