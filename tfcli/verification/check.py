"""Checks and their findings; what is checked: a run or a small model, and text for it.

A check is a function that measures something on a subject and returns a `Finding`, or
yields several of which the worst counts; its name is shown, and its docstring, which is the claim:

    @proof("beam of one")
    def beam_of_one(subject: VerifiedRun) -> Finding:
        'A beam of 1 finds the text of greedy decoding.'
        if subject.run.architecture == "encoder":
            raise Skipped("an encoder fills masks: it has no beam")
        ...
        return at_most(different, 0, "tokens")

Made-up documents are random words of the run's own vocabulary, prepared as any corpus is.

Shape legend: B rows, T tokens, S source tokens, D model, Vocab.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tfcli.corpora import Document, Kind, Pair, Source
from tfcli.corpora.split import TrainValidationSplit
from tfcli.data.batch import IGNORED, Batch
from tfcli.data.cache import prepare
from tfcli.data.dataset import PreparedDataset, SequencesView
from tfcli.data.loader import Batches, build_batches
from tfcli.errors import TfcliError, first_lines
from tfcli.files import digest
from tfcli.machine import temporary_folder
from tfcli.models.transformer import AttentionWeights, EncoderDecoder, Transformer
from tfcli.recipe.recipe import OriginSection, Recipe
from tfcli.records.roles import TokenRoles
from tfcli.runs.load import LoadedRun
from tfcli.training.job import decide
from tfcli.verification import Check

ROWS = 3  # texts read side by side
LONGEST = 512  # tokens of a text at most: attention weights of all layers are kept, and grow with the square
_LARGEST_EXACT = 1 << 28  # parameters up to which a copy in float64 is made: two gigabytes
_WORK = 1 << 32  # parameters times tokens of a text: a second or two a pass, of which the checks take about a hundred
_SINGLE_STEPS = 1 << 32  # parameters times texts read token by token: each step reads every weight
_ENOUGH = 1 << 14  # tokens taken from a side of the validation text


@dataclass(frozen=True)
class VerifiedRun:
    """A run to be looked at, with texts of the validation part of its dataset, or `made_up_because` there is none."""

    run: LoadedRun
    data: PreparedDataset | None = None
    made_up_because: str = ""

    @cached_property
    def model(self) -> Transformer:
        """In evaluation mode; a copy in float64 where it fits: no slip can hide in rounding there."""
        if self.precision == self.run.model.dtype:
            return self.run.model
        with torch.inference_mode(False):  # wherever it is asked for first: gradients are taken of it too
            return copy.deepcopy(self.run.model).to(self.precision)

    @property
    def roles(self) -> TokenRoles:
        """The ids of the special tokens."""
        return self.run.config.roles

    @property
    def precision(self) -> torch.dtype:
        """Of `model`. Apple's GPUs have no float64."""
        small = self.run.model.num_parameters() <= _LARGEST_EXACT
        return torch.float64 if small and self.run.device.type != "mps" else torch.float32

    @property
    def limit(self) -> float:
        """How far two ways to the same numbers may differ, in parts of the largest of them (see `difference`)."""
        return 1e-9 if self.precision == torch.float64 else 1e-4

    @property
    def longest(self) -> int:
        """Tokens of the longest texts: the whole context, unless the model is too large for it."""
        affordable = max(8, _WORK // self.run.model.num_parameters())
        return min(self.run.config.model.max_seq_len, LONGEST, affordable)

    @property
    def single_steps(self) -> int:
        """How many tokens may be read one by one."""
        return max(8, min(LONGEST, _SINGLE_STEPS // self.run.model.num_parameters()))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths that texts are read at, rising: from one token to the whole context."""
        return tuple(sorted({1, 2, min(7, self.longest), self.longest}))

    @property
    def origin(self) -> str:
        """What is read, in words."""
        because = f" ({self.made_up_because})" if self.made_up_because else ""
        what = f"made-up text{because}" if self.data is None else "its own validation text"
        context = self.run.config.model.max_seq_len
        far = f", up to {self.longest} tokens of the context's {context}" if self.longest < context else ""
        rounded = "" if self.precision == torch.float64 else ", in float32"
        return f"{what}{far}{rounded}"

    @cached_property
    def ordinary(self) -> NDArray[np.int64]:
        """The ids of all tokens that are no special ones."""
        vocabulary = self.run.config.model.vocab_size
        assert vocabulary is not None
        return np.setdiff1d(np.arange(min(vocabulary, self.run.tokenizer.vocab_size)), self.roles.ids())

    def ids(self, length: int, rows: int = ROWS) -> Tensor:
        """Texts, (rows, length), as the model's causal stack (or its only one) reads them."""
        return self._windows(self._texts, length, rows)

    def sources(self, length: int, rows: int = ROWS) -> Tensor:
        """Sources of an encoder-decoder, (rows, length), without special tokens."""
        return self._windows(self._sources, length, rows)

    def texts(self, count: int = 8, tokens: int = 24) -> list[str]:
        """Some pieces of text, of the side that the model reads prompts of."""
        stream = self._sources if self.run.architecture == "encoder-decoder" else self._texts
        return [self.run.tokenizer.decode(row) for row in self._windows(stream, tokens, count).tolist()]

    @cached_property
    def _texts(self) -> NDArray[np.int64]:
        if self.data is None:
            return self._made_up(1)
        if self.run.architecture == "encoder-decoder":
            return self._joined(self.data.pairs("validation").target)
        view = self.data.text("validation")
        return view.padded(np.array([0]), np.array([min(len(view), _ENOUGH)]), self.roles.pad)[0]

    @cached_property
    def _sources(self) -> NDArray[np.int64]:
        if self.data is None:
            return self._made_up(2)
        return self._joined(self.data.pairs("validation").source)

    def _made_up(self, seed: int) -> NDArray[np.int64]:
        return np.random.default_rng(seed).choice(self.ordinary, _ENOUGH)

    def _joined(self, side: SequencesView) -> NDArray[np.int64]:
        """The sequences of one side, one after the other, without special tokens."""
        some: list[NDArray[np.int64]] = []
        while len(some) < len(side) and sum(map(len, some)) < _ENOUGH:
            some.append(side.sequence(len(some)))
        joined = np.concatenate(some)
        kept = joined[~np.isin(joined, self.roles.ids())]
        return kept if len(kept) else self._made_up(2)

    def _windows(self, stream: NDArray[np.int64], length: int, rows: int) -> Tensor:
        """Windows spread over a stream, which begins again where it ends."""
        starts = np.arange(rows) * max(1, len(stream) // rows)
        places = (starts[:, None] + np.arange(length)) % len(stream)
        return torch.from_numpy(stream[places]).to(self.run.device)


RELATIVE = "of the largest number"  # the unit of `difference`


class Skipped(Exception):  # noqa: N818 (no error)
    """Raised by a check that cannot apply to a run, with the reason in words."""


@dataclass(frozen=True)
class Finding:
    """What a check has measured. It holds where `measured` is a number (NaN fails) and not above `limit`.

    `where` says what was looked at when the worst was found; it is shown where the check fails. `note` is a property of
    the checkpoint that the run was made from, in words, which is no slip of tfcli's.
    """

    measured: float
    limit: float
    unit: str
    where: str = ""
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether the claim does."""
        return self.measured <= self.limit


@dataclass(frozen=True)
class Proof:
    """A claim and the function that looks whether it holds."""

    name: str
    claim: str
    look: Callable[[VerifiedRun], Finding | Iterable[Finding]]

    def check(self, subject: VerifiedRun) -> Check:
        """Look. Whatever goes wrong on the way is a failure of the check, and ends no other."""
        try:
            found = self.look(subject)
            finding = found if isinstance(found, Finding) else worst(found)
        except Skipped as skipped:
            return Check(self.name, self.claim, "skipped", reason=str(skipped))
        except TfcliError as error:
            return Check(self.name, self.claim, "failed", reason=error.problem)
        except Exception as error:
            return Check(self.name, self.claim, "failed", reason=f"{type(error).__name__}: {first_lines(error)}")
        return Check(
            self.name,
            self.claim,
            "failed" if not finding.holds else "noted" if finding.note else "passed",
            measured=finding.measured,
            limit=finding.limit,
            unit=finding.unit,
            reason=finding.note if finding.holds else finding.where,
        )


def proof(name: str) -> Callable[[Callable[[VerifiedRun], Finding | Iterable[Finding]]], Proof]:
    """Make a function a `Proof` of what its docstring claims."""
    return lambda look: Proof(name, " ".join((look.__doc__ or "").split()), look)


def at_most(measured: float, limit: float, unit: str, where: str = "") -> Finding:
    """One number and its limit."""
    return Finding(float(measured), float(limit), unit, where)


def worst(findings: Iterable[Finding]) -> Finding:
    """The first finding that does not hold, else the one closest to its limit; `Skipped` where there is none."""
    closest = None
    for finding in findings:
        if not finding.holds:
            return finding
        if closest is None or finding.measured > closest.measured:
            closest = finding
    if closest is None:
        raise Skipped("there was nothing to compare")
    return closest


def difference(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference of two tensors, in parts of the largest number in the second; NaN where any is.

    Shape: ours, theirs: the same."""
    assert ours.shape == theirs.shape, f"shapes {tuple(ours.shape)} and {tuple(theirs.shape)}"
    if not ours.numel():
        return 0.0
    ours, theirs = ours.cpu().double(), theirs.cpu().double()  # some devices have no float64
    gap = (ours - theirs).abs().max()
    scale = theirs.abs().max().clamp(min=torch.finfo(torch.float32).tiny)
    return float(gap / scale)


def alike(subject: VerifiedRun, ours: Tensor, theirs: Tensor, where: str) -> Finding:
    """Two ways to the same numbers."""
    return at_most(difference(ours, theirs), subject.limit, RELATIVE, where)


def same_bits(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> Finding:
    """How many numbers differ in any bit: no rounding is forgiven, NaN equals itself, and 0 is not −0.

    A tensor that one side lacks differs in all of its numbers, and so does one of another shape or type.
    """
    apart = {name: _apart(ours.get(name), theirs.get(name)) for name in dict.fromkeys(chain(theirs, ours))}
    first = next((name for name, count in apart.items() if count), "")
    return at_most(sum(apart.values()), 0, "numbers", f"the first are in {first}" if first else "")


def _apart(ours: Tensor | None, theirs: Tensor | None) -> int:
    if ours is None or theirs is None or ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return max(one.numel() for one in (ours, theirs) if one is not None)
    if not ours.numel():
        return 0
    bits, others = (tensor.detach().cpu().contiguous().view(-1).view(torch.uint8) for tensor in (ours, theirs))
    return int((bits != others).view(ours.numel(), -1).any(-1).sum())


@dataclass(frozen=True)
class ModelInputs:
    """What a model reads in one pass. `mask` is the padding mask of what an encoder reads, else of the tokens; None:
    there is no padding.

    Shape: tokens (B, T); source (B, S), for an encoder-decoder; mask (B, S), or (B, T) where there is no source."""

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

    Shape: output (B, T, …) → (real tokens, …)."""
    is_padded = read.mask is not None and (of_source or read.source is None)
    return output[read.mask] if is_padded else output.flatten(0, 1)


def other_tokens(subject: VerifiedRun, ids: Tensor) -> Tensor:
    """Another id in every place."""
    assert subject.run.config.model.vocab_size is not None
    return (ids + 1) % subject.run.config.model.vocab_size


def mixed(logits: Tensor) -> Tensor:
    """One number of many, always by the same random weights: its gradient is a mixture of theirs in which nothing
    cancels."""
    weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(0))
    return (logits * weights.to(logits)).sum()


def reading(subject: VerifiedRun, length: int) -> ModelInputs:
    """Texts of one length, side by side; the sources of an encoder-decoder have different ones, and padding."""
    if subject.run.architecture == "encoder-decoder":
        return ModelInputs(subject.ids(length), *padded(subject, subject.sources(length)))
    return ModelInputs(subject.ids(length))


def padded_reading(subject: VerifiedRun, length: int) -> ModelInputs:
    """As `reading`, and what any encoder reads is padded."""
    if subject.run.architecture == "encoder-decoder":
        return reading(subject, length)
    tokens, mask = padded(subject, subject.ids(length))
    return ModelInputs(tokens, mask=mask)


def padded(subject: VerifiedRun, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Ids (B, T) made `ragged` and filled up on the right, and the mask that says what is text."""
    lengths = torch.tensor([[len(row)] for row in ragged(ids)], device=ids.device)
    mask = torch.arange(ids.shape[1], device=ids.device) < lengths
    return ids.masked_fill(~mask, subject.roles.pad), mask


def ragged(ids: Tensor) -> list[list[int]]:
    """Rows of ids (B, T) made different: the first stays whole, the next is cut to two thirds, the next to one, none to
    nothing."""
    length = ids.shape[1]
    return [row[: max(1, length - (length * cut) // len(ids))] for cut, row in enumerate(ids.tolist())]


def predict(model: Transformer, read: ModelInputs, weights: AttentionWeights | None = None) -> Tensor:
    """The logits of a pass; of a model without a head, the last vectors. `weights` takes the explicit attention.

    Shape: returns (B, T, Vocab), or (B, T, D)."""
    inputs = (read.tokens,) if read.source is None else (read.source, read.tokens)
    hidden = model.hidden(*inputs, read.mask, weights=weights)
    return hidden if model.section.head == "none" else model.head(hidden)


def unchanged(
    subject: VerifiedRun, read: ModelInputs, other: ModelInputs, kept: Callable[[Tensor], Tensor], where: str
) -> Iterator[Finding]:
    """Reads two texts by both ways through attention; what is `kept` of their logits must be the same in every bit."""
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

    sides = {"tokens": model.get_submodule("embedding")}
    if isinstance(model, EncoderDecoder):
        sides = {"source": model.embedding, "tokens": model.target_embedding}
    with ExitStack() as hooks, torch.enable_grad():
        for side, part in sides.items():
            hooks.callback(part.register_forward_hook(partial(keep, side)).remove)
        yield found


_DOCUMENTS = 48
_LONGEST = 40  # tokens of a document, or of a side of a pair


@contextmanager
def dataset(subject: VerifiedRun) -> Iterator[PreparedDataset]:
    """The run's own dataset where it is there; else a made-up one, in a folder that goes afterwards."""
    if subject.data is not None:
        yield subject.data
        return
    with temporary_folder() as folder:
        path = folder / "dataset"
        training, validation = (_source(subject, seed) for seed in (1, 2))
        prepare(TrainValidationSplit(training, "file", 0.5, validation=validation), subject.run.tokenizer, path)
        yield PreparedDataset.open(path)


def require_head(run: LoadedRun) -> None:
    """Skip a check of a run that predicts nothing."""
    if run.config.model.head == "none":
        raise Skipped("the run has no head that predicts tokens")


def recipe_of(run: LoadedRun, data: PreparedDataset) -> Recipe:
    """The run's recipe; of an imported one, the default training of its model where the model is."""
    if not run.recipe.is_imported:
        return run.recipe
    train = replace(run.recipe.train, device=run.device.type)  # type: ignore[arg-type]
    return decide(replace(run.recipe, origin=OriginSection(), train=train), run.tokenizer, data)


def validation_batches(subject: VerifiedRun, data: PreparedDataset, rows: int, longest: int) -> Batches:
    """Batches of the validation part; where they are windows of a text, of `longest` tokens at most."""
    recipe = recipe_of(subject.run, data)
    context = recipe.context
    if subject.run.architecture != "encoder-decoder":
        context = min(context, longest)
    train = replace(recipe.train, context=context, batch_size=rows, batch_tokens=None)
    return build_batches(replace(recipe, train=train), data, "validation", subject.roles)


def unpadded(one: Batch) -> Batch:
    """A batch of one text without its padding."""
    length = one.tokens
    if one.decoder_input_ids is not None and one.padding_mask is not None:
        length, target = int(one.padding_mask.sum()), int(np.flatnonzero(one.labels != IGNORED).max()) + 1
        return Batch(
            one.input_ids[:, :length],
            one.labels[:, :target],
            one.padding_mask[:, :length],
            one.decoder_input_ids[:, :target],
        )
    return Batch(one.input_ids[:, :length], one.labels[:, :length])


def _source(subject: VerifiedRun, seed: int) -> Source:
    pairs = subject.run.architecture == "encoder-decoder"
    kind: Kind = "pairs" if pairs else "text"
    draw = np.random.default_rng(seed)
    longest = max(2, min(_LONGEST, subject.run.config.model.max_seq_len // 2 - 2))

    def text() -> str:
        ids = draw.choice(subject.ordinary, int(draw.integers(2, longest + 1)))
        return subject.run.tokenizer.decode(ids) or "a"

    documents: list[Document] = [Pair(text(), text()) if pairs else text() for _ in range(_DOCUMENTS)]
    return Source(("made-up text",), kind, lambda: iter(documents), lambda: digest("made up", seed))
