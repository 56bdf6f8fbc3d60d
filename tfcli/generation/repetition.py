"""Repetition penalty and no-repeat n-grams: logits processors against texts that repeat themselves. Each maps
logits, or log-probabilities, to the same.

Shape legend: R rows (texts), Vocab.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from tfcli.recipe.generate import GenerateSection


def against_repetition(logits: Tensor, texts: Sequence[Sequence[int]], settings: GenerateSection) -> Tensor:
    """Every logits processor of generation but those of the draw, where the settings ask for it: what is added here is
    used by greedy decoding, sampling and beam search, and shown by `explain decoding`.

    Args:
        texts: all tokens of each row so far, the prompt's own among them.

    Shape:
        logits: (R, Vocab) → (R, Vocab)
    """
    if settings.repetition_penalty != 1:
        logits = penalise_repetition(logits, texts, settings.repetition_penalty)
    if settings.no_repeat_ngram:
        logits = forbid_repeated_ngrams(logits, texts, settings.no_repeat_ngram)
    return logits


def penalise_repetition(logits: Tensor, texts: Sequence[Sequence[int]], penalty: float) -> Tensor:
    """Make tokens that a text holds less likely: z / θ where z > 0, and z · θ elsewhere (Keskar et al. 2019, section
    4.1, with the sign considered as everyone does, for z / θ makes a negative z likelier).

        >>> penalise_repetition(torch.tensor([[2.0, -1.0, 1.0]]), [[0, 1, 0]], 2.0)
        tensor([[ 1., -2.,  1.]])

    Shape:
        logits: (R, Vocab) → (R, Vocab)
    """
    logits = logits.clone()
    for row, text in zip(logits, texts, strict=True):
        held = torch.tensor(sorted(set(text)), dtype=torch.long, device=logits.device)
        values = row[held]
        row[held] = torch.where(values > 0, values / penalty, values * penalty)
    return logits


def forbid_repeated_ngrams(logits: Tensor, texts: Sequence[Sequence[int]], n: int) -> Tensor:
    """Rule out every token that would end a sequence of n tokens which the text holds already (Paulus et al. 2018,
    section 2.5, for n = 3). Where that would rule out all, none is.

        >>> forbid_repeated_ngrams(torch.zeros(1, 4), [[1, 2, 3, 1]], 2)
        tensor([[0., 0., -inf, 0.]])

    Shape:
        logits: (R, Vocab) → (R, Vocab)
    """
    logits = logits.clone()
    for row, text in zip(logits, texts, strict=True):
        held, before = list(text), row.clone()
        last = held[len(held) - n + 1 :]  # n − 1 tokens: what has come after them would repeat itself
        row[[held[at + n - 1] for at in range(len(held) - n + 1) if held[at : at + n - 1] == last]] = -torch.inf
        if row.max() == -torch.inf:
            row.copy_(before)
    return logits
