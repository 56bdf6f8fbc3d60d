"""Forward passes for checks: one way to let any of the three architectures read, and to see what it did.

Shape legend: B rows, T tokens, S source tokens, D model, Vocab.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from tfcli.models.decoder import Decoder
from tfcli.models.encoder import Encoder
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.models.transformer import AttentionWeights, Transformer
from tfcli.verification.check import Finding, at_most
from tfcli.verification.subject import VerifiedRun, padded


@dataclass(frozen=True)
class ModelInputs:
    """What a model reads in one pass. `mask` is the padding mask of what an encoder reads, else of the tokens; None:
    there is no padding.

    Shape:
        tokens: (B, T); source: (B, S), for an encoder-decoder; mask: (B, S), or (B, T) where there is no source
    """

    tokens: Tensor
    source: Tensor | None = None
    mask: Tensor | None = None

    @property
    def padded_side(self) -> Literal["source", "tokens"]:
        """What `mask` is about, as `embedded` calls it."""
        return "tokens" if self.source is None else "source"


def at_text(output: Tensor, read: ModelInputs, *, of_source: bool = False) -> Tensor:
    """The rows of an output that belong to real tokens. The target of an encoder-decoder has no padding here.

    Args:
        of_source: the output has a row a source token.

    Shape:
        output: (B, T, …) → (real tokens, …)
    """
    is_padded = read.mask is not None and (of_source or read.source is None)
    return output[read.mask] if is_padded else output.flatten(0, 1)


def other_tokens(subject: VerifiedRun, ids: Tensor) -> Tensor:
    """Another id in every place.

    Shape:
        ids: (B, T), and so is what is returned
    """
    vocabulary = subject.run.config.model.vocab_size
    assert vocabulary is not None
    return (ids + 1) % vocabulary


def mixed(logits: Tensor) -> Tensor:
    """One number of many, always by the same random weights: its gradient is a mixture of theirs in which nothing
    cancels."""
    weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(0))
    return (logits * weights.to(logits)).sum()


def reading(subject: VerifiedRun, length: int) -> ModelInputs:
    """Texts of one length, side by side; the sources of an encoder-decoder have different ones, and padding."""
    tokens = subject.ids(length)
    if subject.run.architecture != "encoder-decoder":
        return ModelInputs(tokens)
    source, mask = padded(ragged(subject.sources(length)), subject.roles.pad, tokens.device)
    return ModelInputs(tokens, source, mask)


def padded_reading(subject: VerifiedRun, length: int) -> ModelInputs:
    """As `reading`, and what any encoder reads is padded."""
    if subject.run.architecture == "encoder-decoder":
        return reading(subject, length)
    tokens, mask = padded(ragged(subject.ids(length)), subject.roles.pad, subject.run.device)
    return ModelInputs(tokens, mask=mask)


def ragged(ids: Tensor) -> list[list[int]]:
    """Rows of equal length made different: the first stays whole, the next is cut to two thirds, the next to one, and
    none to nothing.

    Shape:
        ids: (B, T)
    """
    length = ids.shape[1]
    kept = [max(1, length - (length * row) // len(ids)) for row in range(len(ids))]
    return [row[:end] for row, end in zip(ids.tolist(), kept, strict=True)]


def predict(model: Transformer, read: ModelInputs, weights: AttentionWeights | None = None) -> Tensor:
    """The logits of a pass; of a model without a head, the last vectors. `weights` takes the explicit attention.

    Shape:
        returns: (B, T, Vocab), or (B, T, D)
    """
    inputs = (read.tokens,) if read.source is None else (read.source, read.tokens)
    hidden = model.hidden(*inputs, read.mask, weights=weights)
    return hidden if model.section.head == "none" else model.head(hidden)


def unchanged(
    subject: VerifiedRun, read: ModelInputs, other: ModelInputs, kept: Callable[[Tensor], Tensor], where: str
) -> Iterator[Finding]:
    """Reads two texts by both ways through attention; what is `kept` of their logits has to be the same in every bit.

    Args:
        kept: takes of logits (B, T, Vocab) what may not change.
    """
    for how in ("fused attention", "explicit attention"):
        first, second = (
            kept(predict(subject.model, one, {} if how == "explicit attention" else None)) for one in (read, other)
        )
        yield at_most(float((second - first).abs().max()), 0.0, "logit", f"{where}, {how}")


@contextmanager
def kept_outputs(model: Transformer, kind: type[nn.Module]) -> Iterator[list[tuple[str, Tensor]]]:
    """What every module of a kind returns while this is open, in the order in which they run, with their names."""
    found: list[tuple[str, Tensor]] = []
    with ExitStack() as hooks:
        for name, part in model.named_modules():
            if isinstance(part, kind):
                keep = partial(lambda name, _part, _inputs, output: found.append((name, output)), name)
                hooks.callback(part.register_forward_hook(keep).remove)
        yield found


@contextmanager
def embedded(model: Transformer) -> Iterator[dict[str, Tensor]]:
    """The vectors that enter the stacks while this is open, as leaves of which gradients can be taken: "source" of an
    encoder-decoder's encoder, "tokens" of any other."""
    found: dict[str, Tensor] = {}

    def keep(side: str, _part: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
        found[side] = output.detach().requires_grad_()
        return found[side]

    assert isinstance(model, Decoder | Encoder | EncoderDecoder)
    sides: dict[str, nn.Module] = {"tokens": model.embedding}
    if isinstance(model, EncoderDecoder):
        sides = {"source": model.embedding, "tokens": model.target_embedding}
    with ExitStack() as hooks, torch.enable_grad():
        for side, part in sides.items():
            hooks.callback(part.register_forward_hook(partial(keep, side)).remove)
        yield found
