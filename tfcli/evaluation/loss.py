"""Cross-entropy loss and accuracy over a whole set: summed over every labelled token, divided once at the end."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from tfcli.data.batch import Batch
from tfcli.evaluation.objective import scores_of_labels
from tfcli.evaluation.scoring import perplexity, require_tokens, scoring
from tfcli.models.transformer import Transformer


@dataclass(frozen=True)
class Totals:
    """Sums over a set: `nats` of −log p of the right tokens, `tokens` labelled, `correct` predicted first."""

    nats: float
    tokens: int
    correct: int

    @property
    def loss(self) -> float:
        """Nats a token."""
        return self.nats / self.tokens

    @property
    def accuracy(self) -> float:
        """Share of tokens whose most probable prediction was right."""
        return self.correct / self.tokens

    @property
    def perplexity(self) -> float:
        """exp(loss)."""
        return perplexity(self.loss)


@torch.inference_mode()
def total_loss(
    model: Transformer,
    batches: Iterable[Batch],
    device: torch.device,
    combined: Callable[[Tensor], Tensor] = lambda sums: sums,
) -> Totals:
    """Score every labelled token of the batches once, in float32 and without dropout.

    Args:
        combined: adds what other processes have scored; takes and returns three sums, (3,).

    Raises:
        UsageError: there is none.
    """
    nats, tokens, correct = 0.0, 0, 0
    with scoring(model):
        for batch in batches:
            of_each, right, *_ = scores_of_labels(model, batch, device)
            nats += of_each.cpu().double().sum().item()
            correct += int(right.sum())
            tokens += batch.target_tokens
    sums = combined(torch.tensor([nats, tokens, correct], dtype=torch.float64))
    nats, tokens, correct = float(sums[0]), int(sums[1]), int(sums[2])
    require_tokens(tokens)
    return Totals(nats, tokens, correct)
