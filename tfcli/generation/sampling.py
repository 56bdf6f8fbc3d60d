"""Sampling: repetition penalty, temperature, top-k, top-p (nucleus) and min-p filters, and the draw.
Each is a logits processor: it maps logits, (…, Vocab), to logits. A token that is ruled out gets −∞, the probability 0.
Shape legend: R rows (texts), Vocab."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from tfcli.recipe.recipe import GenerateSection
from tfcli.records.roles import TokenRoles

# Logits in float32 make probabilities that differ from the true ones by about this. A sum or a share that differs by
# less from the limit of a filter has reached it.
PROBABILITY_ROUNDING = 1e-6


def never_generated(roles: TokenRoles, vocab_size: int) -> list[int]:
    """Ids that no text may contain: pad, bos, mask and unk, those that its checkpoint rules out, and those of a model's
    rows that no token has. What ends a text stays, whatever else it serves as."""
    return [*sorted({*roles.ids(), *roles.suppressed} - roles.ends), *roles.without_token(vocab_size)]


def ruled_out(ids: Sequence[int], like: Tensor) -> Tensor:
    """What is added to logits, (…, Vocab), so that some ids get the probability 0: −∞ there, else 0; (Vocab,)."""
    added = torch.zeros_like(like[0] if like.dim() > 1 else like)
    added[list(ids)] = -torch.inf
    return added


def apply_temperature(logits: Tensor, temperature: float) -> Tensor:
    """Z / τ, less a constant that the softmax ignores (Ackley et al. 1985). Below 1 sharper, above 1 flatter."""
    # With the maximum at 0, a τ close to 0 drives the others to −∞ and nothing to NaN.
    below_best = logits - logits.amax(-1, keepdim=True)
    limits = torch.finfo(torch.float32)
    return below_best / min(max(temperature, limits.tiny), limits.max)


def keep_top_k(logits: Tensor, k: int) -> Tensor:
    """Rule out all but the k best tokens (Fan et al. 2018, section 5.1). Those that tie with the k-th stay.

    >>> keep_top_k(torch.tensor([1.0, 3.0, 2.0]), 2)
    tensor([-inf, 3., 2.])
    """
    if k >= logits.shape[-1]:
        return logits
    return logits.masked_fill(logits < logits.topk(k).values[..., -1:], -torch.inf)


def keep_top_p(logits: Tensor, p: float) -> Tensor:
    """Nucleus sampling: keep the smallest set of best tokens whose probabilities reach p in sum (Holtzman et al. 2020,
    equation 2). Of equals the lower id comes first. At least one token stays.

    >>> keep_top_p(torch.tensor([0.5, 0.3, 0.1, 0.1]).log(), 0.8).exp()
    tensor([0.5000, 0.3000, 0.0000, 0.0000])
    """
    if p >= 1:
        return logits
    ordered, order = logits.sort(descending=True, stable=True)
    # Apple's MPS has no float64.
    on_device = ordered.cpu() if ordered.device.type == "mps" else ordered
    probabilities = on_device.double().softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    outside = (before >= p - PROBABILITY_ROUNDING).to(logits.device)
    outside[..., 0] = False
    return logits.masked_fill(outside.scatter(-1, order, outside), -torch.inf)


def keep_min_p(logits: Tensor, p: float) -> Tensor:
    """Keep the tokens at least p times as probable as the best one (Nguyen et al. 2024, section 3).

    >>> keep_min_p(torch.tensor([0.0, -0.5, -1.0]), 0.5)
    tensor([ 0.0000, -0.5000,    -inf])
    """
    if p <= 0:
        return logits
    least = logits.amax(-1, keepdim=True) + math.log(p) - PROBABILITY_ROUNDING
    return logits.masked_fill(logits < least, -torch.inf)


FILTERS: dict[str, Callable[[Tensor, GenerateSection], Tensor]] = {
    "temperature": lambda logits, settings: apply_temperature(logits, settings.temperature),
    "top_k": lambda logits, settings: keep_top_k(logits, settings.top_k) if settings.top_k else logits,
    "top_p": lambda logits, settings: keep_top_p(logits, settings.top_p),
    "min_p": lambda logits, settings: keep_min_p(logits, settings.min_p),
}
"""The logits processors of a draw, in their order, by the name of their setting: each sees what the one before it left.
One that is added here is used by generation, and shown by whatever records the stages of decoding."""


def sampling_probabilities(logits: Tensor, settings: GenerateSection, seen: dict[str, Tensor] | None = None) -> Tensor:
    """The probability of every token in the draw; at temperature 0, greedy, the best one has all of it. `seen` takes
    the logits after each filter; none where nothing is drawn."""
    if settings.temperature == 0:
        return torch.zeros_like(logits).scatter(-1, logits.argmax(-1, keepdim=True), 1.0)
    for name, processed in FILTERS.items():
        logits = processed(logits, settings)
        if seen is not None:
            seen[name] = logits
    return logits.softmax(-1)


def draw(probabilities: Tensor, uniforms: Tensor) -> Tensor:
    """One id a row: the first whose cumulative probability is beyond u, for u uniform from 0 to 1.

        >>> draw(torch.tensor([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]]), torch.tensor([0.2, 0.8], dtype=torch.float64))
        tensor([0, 2])

    Shape: probabilities (R, Vocab); uniforms (R,), float64, wherever; returns (R,)."""
    # Apple's MPS has no float64.
    reached = (probabilities.cpu() if probabilities.device.type == "mps" else probabilities).double().cumsum(-1)
    ids = torch.searchsorted(reached, uniforms.to(reached.device)[:, None] * reached[:, -1:], right=True).squeeze(-1)
    # Rounding may put u · total at the total itself: then the last token that has a chance.
    last = probabilities.shape[-1] - 1 - (probabilities.flip(-1) > 0).byte().argmax(-1)
    return torch.minimum(ids.to(last.device), last)


def log_probabilities(logits: Tensor, ids: Tensor) -> Tensor:
    """Ln p of one chosen id a row, under the model itself. Shape: logits (R, Vocab); ids (R,); returns (R,), nats."""
    return logits.gather(-1, ids[:, None]).squeeze(-1) - logits.logsumexp(-1)


def against_repetition(logits: Tensor, texts: Sequence[Sequence[int]], settings: GenerateSection) -> Tensor:
    """Every logits processor but those of the draw, where the settings ask for it: what is added here is used by greedy
    decoding, sampling and beam search, and shown by `explain decoding`. `texts` hold the prompts' own."""
    if settings.repetition_penalty != 1:
        logits = penalise_repetition(logits, texts, settings.repetition_penalty)
    if settings.no_repeat_ngram:
        logits = forbid_repeated_ngrams(logits, texts, settings.no_repeat_ngram)
    return logits


def penalise_repetition(logits: Tensor, texts: Sequence[Sequence[int]], penalty: float) -> Tensor:
    """Repetition penalty: tokens that a text holds become less likely, z / θ where z > 0, and z · θ elsewhere (Keskar
    et al. 2019, section 4.1, with the sign considered as everyone does, for z / θ makes a negative z likelier).

        >>> penalise_repetition(torch.tensor([[2.0, -1.0, 1.0]]), [[0, 1, 0]], 2.0)
        tensor([[ 1., -2.,  1.]])
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
    """
    logits = logits.clone()
    for row, text in zip(logits, texts, strict=True):
        held, before = list(text), row.clone()
        last = held[len(held) - n + 1 :]  # n − 1 tokens: what has come after them would repeat itself
        row[[held[at + n - 1] for at in range(len(held) - n + 1) if held[at : at + n - 1] == last]] = -torch.inf
        if row.max() == -torch.inf:
            row.copy_(before)
    return logits
