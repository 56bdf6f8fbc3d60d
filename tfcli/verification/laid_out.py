"""Packed weights: the model that generates against the one that was trained."""

import copy
from collections.abc import Iterator

import torch

from tfcli.models.inference import ready_to_predict
from tfcli.verification.cached import CHUNKED, chunks, in_pieces
from tfcli.verification.check import RELATIVE, Finding, at_most, difference, proof
from tfcli.verification.reading import padded_reading, predict, reading
from tfcli.verification.subject import VerifiedRun

_LIMIT = 1e-4
"""In float32, which is all that the packed matrices know: rounding differs by a hundredth of it at most."""


@proof("laid out for prediction", "The model as generation lays it out predicts what the trained model predicts.")
@torch.inference_mode()
def laid_out(subject: VerifiedRun) -> Iterator[Finding]:
    """In float32: its matrices are joined and packed for this machine."""
    ready = copy.deepcopy(subject.run.model)
    ready_to_predict(ready)
    for length in subject.lengths:
        where = f"texts of {length} tokens"
        read = padded_reading(subject, length)
        yield at_most(difference(predict(ready, read), predict(subject.run.model, read)), _LIMIT, RELATIVE, where)
        if subject.run.architecture == "encoder":
            continue
        read = reading(subject, length)  # nothing is padded behind a cache
        pieces = torch.cat([logits for logits, _ in in_pieces(ready, read, chunks(length))], dim=1)
        away = difference(pieces, predict(subject.run.model, read))
        yield at_most(away, _LIMIT, RELATIVE, f"{where}, {CHUNKED}")
