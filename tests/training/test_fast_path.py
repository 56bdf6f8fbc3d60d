"""Nothing is gained by computing something else: the fast path learns what the plain one learns, step by step."""

from itertools import islice

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from tfcli.corpora.stories import stories
from tfcli.data.batch import Batch
from tfcli.models.build import build_model
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection
from tfcli.recipe.train import TrainSection
from tfcli.training.objective import TrainingLoss
from tfcli.training.optimizer import build_optimizers, optimizer_step
from tfcli.training.schedule import learning_rate_factor

STEPS, LENGTH = 200, 48
SECTION = ModelSection(vocab_size=128, max_seq_len=LENGTH, d_model=64, num_layers=2, num_heads=4, dropout=0.0)


def texts() -> NDArray[np.int64]:
    """Windows of stories as ASCII codes, with the code that follows each.

    Shape: (STEPS, 8, LENGTH + 1)
    """
    wanted = STEPS * 8 * (LENGTH + 1)
    text = " ".join(islice(stories(), wanted // 100))
    codes = np.frombuffer(text.encode("ascii"), dtype=np.uint8).astype(np.int64)
    return codes[:wanted].reshape(STEPS, 8, LENGTH + 1)


def plain_losses(windows: NDArray[np.int64], train: TrainSection) -> list[float]:
    """A loop as anyone would write it: float32, logits of everything, PyTorch's loss, one optimizer."""
    model = build_model(SECTION).train()
    (optimizer,) = build_optimizers(model, train)
    losses = []
    for step, window in enumerate(windows, start=1):
        tokens = torch.as_tensor(window)
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), train.clip_norm)
        for group in optimizer.param_groups:
            group["lr"] = train.learning_rate * learning_rate_factor(step, train)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def fast_losses(windows: NDArray[np.int64], train: TrainSection) -> list[float]:
    model: Transformer = build_model(SECTION).train()
    model.use_in_training("rows")
    objective, optimizers = TrainingLoss(model, train), build_optimizers(model, train)
    losses = []
    for step, window in enumerate(windows, start=1):
        batch = Batch(window[:, :-1], window[:, 1:])
        share = learning_rate_factor(step, train)
        loss, _ = optimizer_step(objective, optimizers, [batch], learning_rate_factor=share, clip_norm=train.clip_norm)
        losses.append(loss[0].item())
    return losses


@pytest.mark.parametrize(("precision", "apart", "at_the_end"), [("float32", 1e-5, 1e-6), ("bfloat16", 0.01, 1e-3)])
def test_the_losses_of_the_fast_path_are_those_of_the_plain_one(precision, apart: float, at_the_end: float):
    """At any of 200 steps, and on average over the last 50, in nats a token."""
    windows = texts()
    train = TrainSection(steps=STEPS, warmup_steps=20, precision=precision)
    plain, fast = np.array(plain_losses(windows, train)), np.array(fast_losses(windows, train))
    assert plain[-50:].mean() < 0.6 * plain[0], "it learns"
    assert np.abs(fast - plain).max() < apart
    assert abs(fast[-50:].mean() - plain[-50:].mean()) < at_the_end
