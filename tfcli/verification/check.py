"""Checks and their findings; what is checked: a run or a small model, and text for it.

A check is a function that measures something on a subject and returns a `Finding`, or yields several of which the worst
counts, or raises `Skipped`; `proof` gives it the name that is shown with its docstring, which is the claim. Made-up
documents are random words of the run's own vocabulary, prepared as any corpus is.
Shape legend: B rows, T tokens, S source tokens, D model, Vocab."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tfcli.corpora import Document, Pair, Source
from tfcli.corpora.split import TrainValidationSplit
from tfcli.data.dataset import PreparedDataset, SequencesView
from tfcli.data.prepare import prepare
from tfcli.errors import TfcliError, first_lines
from tfcli.files import digest
from tfcli.machine import temporary_folder
from tfcli.models.transformer import AttentionWeights, EncoderDecoder, Transformer
from tfcli.recipe.recipe import OriginSection, Recipe
from tfcli.records.roles import TokenRoles
from tfcli.runs.load import LoadedRun
from tfcli.training.job import decide
from tfcli.verification import Check, Status

ROWS = 3  # texts read side by side
LONGEST = 512  # tokens of a text at most: attention weights of all layers are kept, and grow with the square
RELATIVE = "of the largest number"  # the unit of `difference`
_LARGEST_EXACT = 1 << 28  # parameters up to which a copy in float64 is made: two gigabytes
_WORK = 1 << 32  # parameters times tokens of a text: a second or two a pass, of which the checks take about a hundred
_SINGLE_STEPS = 1 << 32  # parameters times texts read token by token: each step reads every weight
_ENOUGH = 1 << 14  # tokens taken from a side of the validation text
_DOCUMENTS, _LONGEST_DOCUMENT = 48, 40  # made-up ones, and their tokens (of a pair: of a side)


class Skipped(Exception):  # noqa: N818 (no error)
    """Raised by a check that cannot apply to a run, with the reason in words."""


@dataclass(frozen=True)
class Finding:
    """What a check has measured, `where` in words; it holds where that is a number (NaN fails) and not above the limit.
    `note` is a property of the checkpoint that the run was made from, which is no slip of tfcli's."""

    measured: float
    limit: float
    unit: str
    where: str = ""
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether the claim does."""
        return self.measured <= self.limit


def at_most(measured: float, limit: float, unit: str, where: str = "") -> Finding:
    """One number and its limit."""
    return Finding(float(measured), float(limit), unit, where)


def worst(findings: Iterable[Finding]) -> Finding:
    """The first finding that does not hold, else the one closest to its limit; `Skipped` where there is none."""
    held = list[Finding]()
    for finding in findings:
        if not finding.holds:
            return finding
        held.append(finding)
    if not held:
        raise Skipped("there was nothing to compare")
    return max(held, key=lambda finding: finding.measured)


def difference(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference of two tensors, in parts of the largest number in the second; NaN where any is."""
    assert ours.shape == theirs.shape, f"shapes {tuple(ours.shape)} and {tuple(theirs.shape)}"
    if not ours.numel():
        return 0.0
    ours, theirs = ours.cpu().double(), theirs.cpu().double()  # some devices have no float64
    return float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=torch.finfo(torch.float32).tiny))


@dataclass(frozen=True)
class ModelInputs:
    """What a model reads in one pass: tokens, (B, T); the source of an encoder-decoder, (B, S); the padding mask of the
    source, where there is one, else of the tokens."""

    tokens: Tensor
    source: Tensor | None = None
    mask: Tensor | None = None

    @property
    def padded_side(self) -> Literal["source", "tokens"]:
        """What `mask` is about, as `leaves` calls it."""
        return "tokens" if self.source is None else "source"

    def at_text(self, output: Tensor, *, of_source: bool = False) -> Tensor:
        """Rows at real tokens, (real tokens, …). A target has no padding; `of_source`: a row a source token."""
        is_padded = self.mask is not None and (of_source or self.source is None)
        return output[self.mask] if is_padded else output.flatten(0, 1)


def ragged(ids: Tensor) -> list[list[int]]:
    """Rows of ids (B, T) made different: the first stays whole, the next is cut to two thirds, the next to one."""
    length = ids.shape[1]
    return [row[: max(1, length - (length * cut) // len(ids))] for cut, row in enumerate(ids.tolist())]


@dataclass(frozen=True)
class VerifiedRun:
    """A run to be looked at, with texts of the validation part of its dataset, or `made_up_because` there is none.
    `ready`: its model laid out for prediction in a precision, to be looked at instead; what is `allowed` there."""

    run: LoadedRun
    data: PreparedDataset | None = None
    made_up_because: str = ""
    ready: Transformer | None = None
    allowed: float | None = None

    @cached_property
    def model(self) -> Transformer:
        """In evaluation mode; a copy in float64 where it fits: no slip can hide in rounding there."""
        if self.ready is not None or self.precision == self.run.model.dtype:
            return self.ready or self.run.model
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
        return self.allowed or (1e-9 if self.precision == torch.float64 else 1e-4)

    @property
    def longest(self) -> int:
        """Tokens of the longest texts: the whole context, unless the model is too large for it."""
        return min(self.run.config.model.max_seq_len, LONGEST, max(8, _WORK // self.run.model.num_parameters()))

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
        return f"{what}{far}{'' if self.precision == torch.float64 else ', in float32'}"

    def alike(self, ours: Tensor, theirs: Tensor, where: str, limit: float | None = None) -> Finding:
        """Two ways to the same numbers; the `limit` is the run's where none is given."""
        return at_most(difference(ours, theirs), self.limit if limit is None else limit, RELATIVE, where)

    def require_head(self) -> None:
        """Skip a check of a run that predicts nothing."""
        if not self.run.config.model.predicts_tokens:
            raise Skipped("the run has no head that predicts tokens")

    def recipe(self, data: PreparedDataset) -> Recipe:
        """The run's recipe; of an imported one, the default training of its model where the model is."""
        recipe, run = self.run.recipe, self.run
        if not recipe.is_imported:
            return recipe
        train = replace(recipe.train, device=run.device.type)  # type: ignore[arg-type]
        return decide(replace(recipe, origin=OriginSection(), train=train), run.tokenizer, data)

    def reading(self, length: int) -> ModelInputs:
        """Texts of one length, side by side; the sources of an encoder-decoder have different ones, and padding."""
        is_pair = self.run.architecture == "encoder-decoder"
        return self.padded_reading(length) if is_pair else ModelInputs(self.ids(length))

    def padded_reading(self, length: int) -> ModelInputs:
        """As `reading`, and what any encoder reads is padded."""
        if self.run.architecture == "encoder-decoder":
            return ModelInputs(self.ids(length), *self._padded(self.sources(length)))
        tokens, mask = self._padded(self.ids(length))
        return ModelInputs(tokens, mask=mask)

    def alone(self, ids: Sequence[int], prompt: int, source: Sequence[int] | None = None) -> Tensor:
        """Every prediction of one text, (T, Vocab), read at once; its first `prompt` tokens, or a source, are given."""
        device = self.run.device
        given = None if source is None else torch.tensor([self.roles.source(source)], device=device)
        prefix = torch.tensor([prompt], device=device) if self.run.recipe.objective == "prefix" else None
        return predict(self.model, ModelInputs(torch.tensor([list(ids)], device=device), given), prefix=prefix)[0]

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

    @contextmanager
    def dataset(self) -> Iterator[PreparedDataset]:
        """The run's own dataset where it is there; else a made-up one, in a folder that goes afterwards."""
        if self.data is not None:
            yield self.data
            return
        with temporary_folder() as folder:
            path = folder / "dataset"
            training, validation = map(self._made_up_source, (1, 2))
            prepare(TrainValidationSplit(training, "file", 0.5, validation=validation), self.run.tokenizer, path)
            yield PreparedDataset.open(path)

    def _padded(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Ids (B, T) made `ragged` and filled up on the right, and the mask that says what is text."""
        lengths = torch.tensor([[len(row)] for row in ragged(ids)], device=ids.device)
        mask = torch.arange(ids.shape[1], device=ids.device) < lengths
        return ids.masked_fill(~mask, self.roles.pad), mask

    @cached_property
    def _ordinary(self) -> NDArray[np.int64]:
        """The ids of all tokens that are no special ones."""
        vocabulary = self.run.config.model.vocab_size
        assert vocabulary is not None
        return np.setdiff1d(np.arange(min(vocabulary, self.run.tokenizer.vocab_size)), self.roles.ids())

    @cached_property
    def _texts(self) -> NDArray[np.int64]:
        if self.data is None:
            return self._made_up(1)
        if self.run.recipe.reads_pairs:
            pairs = self.data.pairs("validation")
            return self._joined(pairs.target if self.run.recipe.train.task is None else pairs.source)
        view = self.data.text("validation")
        return view.padded(np.array([0]), np.array([min(len(view), _ENOUGH)]), self.roles.pad)[0]

    @cached_property
    def _sources(self) -> NDArray[np.int64]:
        if self.data is None:
            return self._made_up(2)
        if self.run.recipe.reads_pairs:
            return self._joined(self.data.pairs("validation").source)
        return self._texts[~np.isin(self._texts, self.roles.ids())]

    def _made_up(self, seed: int) -> NDArray[np.int64]:
        return np.random.default_rng(seed).choice(self._ordinary, _ENOUGH)

    def _joined(self, side: SequencesView) -> NDArray[np.int64]:
        """The sequences of one side, one after the other, without special tokens."""
        number = 1 + int(np.searchsorted(np.cumsum(side.lengths), _ENOUGH))
        joined = np.concatenate([side.sequence(one) for one in range(min(number, len(side)))])
        kept = joined[~np.isin(joined, self.roles.ids())]
        return kept if len(kept) else self._made_up(2)

    def _windows(self, stream: NDArray[np.int64], length: int, rows: int) -> Tensor:
        """Windows spread over a stream, which begins again where it ends."""
        starts = np.arange(rows) * max(1, len(stream) // rows)
        return torch.from_numpy(stream[(starts[:, None] + np.arange(length)) % len(stream)]).to(self.run.device)

    def _made_up_source(self, seed: int) -> Source:
        pairs, draw = self.run.recipe.reads_pairs, np.random.default_rng(seed)
        longest = max(2, min(_LONGEST_DOCUMENT, self.run.config.model.max_seq_len // 2 - 2))

        def text() -> str:
            return self.run.tokenizer.decode(draw.choice(self._ordinary, int(draw.integers(2, longest + 1)))) or "a"

        documents: list[Document] = [Pair(text(), text()) if pairs else text() for _ in range(_DOCUMENTS)]
        kind: Literal["pairs", "text"] = "pairs" if pairs else "text"
        return Source(("made-up text",), kind, lambda: iter(documents), lambda: digest("made up", seed))


@dataclass(frozen=True)
class Proof:
    """A claim and the function that looks whether it holds."""

    name: str
    claim: str
    look: Callable[[VerifiedRun], Finding | Iterable[Finding]]

    def check(self, subject: VerifiedRun) -> Check:
        """Look. Whatever goes wrong on the way is a failure of the check, and ends no other."""
        made = partial(Check, self.name, self.claim)
        try:
            found = self.look(subject)
            finding = found if isinstance(found, Finding) else worst(found)
        except Skipped as skipped:
            return made("skipped", reason=str(skipped))
        except TfcliError as error:
            return made("failed", reason=error.problem)
        except Exception as error:
            return made("failed", reason=f"{type(error).__name__}: {first_lines(error)}")
        status: Status = "failed" if not finding.holds else "noted" if finding.note else "passed"
        reason = finding.note if finding.holds else finding.where
        return made(status, finding.measured, finding.limit, finding.unit, reason)


def proof(name: str) -> Callable[[Callable[[VerifiedRun], Finding | Iterable[Finding]]], Proof]:
    """Make a function a `Proof` of what its docstring claims."""
    return lambda look: Proof(name, " ".join((look.__doc__ or "").split()), look)


def predict(
    model: Transformer, read: ModelInputs, weights: AttentionWeights | None = None, prefix: Tensor | None = None
) -> Tensor:
    """The logits of a pass, (B, T, Vocab); of a model without a head, the last vectors, (B, T, D). `weights` takes the
    explicit attention; of a decoder, the first `prefix` tokens, (B,), see each other both ways."""
    inputs = (read.tokens,) if read.source is None else (read.source, read.tokens)
    hidden = model.hidden(*inputs, read.mask, weights=weights, **({} if prefix is None else {"prefix": prefix}))
    return logits_of(model, hidden)


def logits_of(model: Transformer, hidden: Tensor) -> Tensor:
    """The logits of the last vectors, or these vectors themselves if the model has no head."""
    return hidden if model.section.head == "none" else model.head(hidden)


def mixed(logits: Tensor) -> Tensor:
    """One number of many by random weights, always the same: its gradient is a mixture in which nothing cancels."""
    return (logits * torch.randn(logits.shape, generator=torch.Generator().manual_seed(0)).to(logits)).sum()


@contextmanager
def leaves(model: Transformer) -> Iterator[dict[str, Tensor]]:
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
