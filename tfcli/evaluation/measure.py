"""Loss, perplexity, accuracy, and the pseudo-perplexity of masked language models.
Shape legend: N labels of a batch, C cells.

Salazar et al. 2020, Masked language model scoring, equations 1 and 3. It costs a pass over a window for every token,
and so of a long text some windows are taken, evenly spread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tfcli.data.batch import IGNORED, Batch
from tfcli.data.dataset import PreparedDataset, TokenStreamView
from tfcli.data.loader import CompletionBatches, LabelBatches, PairBatches, build_batches
from tfcli.data.windows import DrawnBatches
from tfcli.errors import UsageError
from tfcli.evaluation import windows
from tfcli.evaluation.classification import Told, told
from tfcli.evaluation.translation import Translated, translated
from tfcli.evaluation.windows import AS_IT_IS, Cells, EvaluationSettings, Extent, Placed, SlidingWindows
from tfcli.models.objective import scores_of_labels
from tfcli.models.transformer import Transformer
from tfcli.recipe.recipe import Recipe
from tfcli.records.roles import TokenRoles
from tfcli.records.runs import StageStarted
from tfcli.runs.load import LoadedRun

MOST_TOKENS = 5000  # tokens that are masked, about: in a text with more, windows are left out between the others


@dataclass(frozen=True, eq=False)
class LoneMasks:
    """The windows whose tokens, but special and unknown ones, are masked one by one, in batches of so many `tokens`,
    one window at least. Shape: starts, lengths (windows,)."""

    view: TokenStreamView
    roles: TokenRoles
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    tokens: int

    def __iter__(self) -> Iterator[Placed]:
        assert self.roles.mask is not None
        for start, length in zip(self.starts, self.lengths, strict=True):
            window, places = self.view.padded(start[None], length[None], 0)[0], np.arange(length)
            hidden = np.flatnonzero(~np.isin(window, self.roles.ids()))
            rows = max(1, self.tokens // int(length))
            for first in range(0, len(hidden), rows):
                masked = hidden[first : first + rows, None] == places
                batch = Batch(np.where(masked, self.roles.mask, window), np.where(masked, window, IGNORED))
                yield Placed(batch, start + places[None])


def lone_masks(view: TokenStreamView, roles: TokenRoles, batches: DrawnBatches, tokens: int) -> LoneMasks:
    """The windows that `batches` are made of: all, or some for about `MOST_TOKENS` tokens."""
    spans = list(batches.spans())
    starts, lengths = (np.concatenate([getattr(one, name) for one in spans]) for name in ("starts", "lengths"))
    order = np.argsort(starts)
    wanted = min(len(order), -(-MOST_TOKENS * len(order) // int(lengths.sum())))
    chosen = order[(np.arange(wanted) * len(order)) // wanted]
    return LoneMasks(view, roles, starts[chosen], lengths[chosen], tokens)


@dataclass(frozen=True)
class Totals:
    """Of a whole set: `nats` of −log p of its right `tokens`, of which `correct` were predicted first."""

    nats: float
    tokens: int
    correct: int
    f1: float | None = None  # of a task head: of entities or spans, else macro-F1

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
        return windows.perplexity(self.loss)


@dataclass(frozen=True, eq=False)
class Sums:
    """Of each cell: `nats` of −log p of its right tokens, `tokens` labelled, `correct` predicted first, labels that are
    the `unknown` token, and the probability that went to `nameless` ids, which no token has. Shape: each (C,)."""

    nats: NDArray[np.float64]
    tokens: NDArray[np.int64]
    correct: NDArray[np.int64]
    unknown: NDArray[np.int64]
    nameless: NDArray[np.float64]

    @property
    def total(self) -> Totals:
        """Over all cells."""
        return Totals(float(self.nats.sum()), int(self.tokens.sum()), int(self.correct.sum()))

    @classmethod
    def zeros(cls, cells: int) -> Sums:
        """Nothing yet."""
        (nats, nameless), (tokens, correct, unknown) = np.zeros((2, cells)), np.zeros((3, cells), np.int64)
        return cls(nats, tokens, correct, unknown, nameless)

    def grouped(self, group: NDArray[np.int64], number: int) -> Sums:
        """The sums of `number` groups, cell c belonging to ``group[c]``."""
        sums = Sums.zeros(number)
        for name, values in vars(self).items():
            np.add.at(getattr(sums, name), group, values)
        return sums


@torch.inference_mode()
def sum_cells(
    model: Transformer,
    batches: Iterable[Placed],
    cells: Cells,
    device: torch.device,
    *,
    unknown: int | None = None,
    nameless: Sequence[int] = (),
) -> Sums:
    """Score every labelled token once, in float32 and without dropout, in one pass; a `UsageError` where there is none.
    `nameless` are the model's ids that no token has: they are in its softmax as the others are."""
    sums, firsts = Sums.zeros(len(cells)), cells.firsts
    with windows.scoring(model):
        for placed in batches:
            labels = placed.batch.labels
            scored = (labels != IGNORED).ravel()
            if not scored.any():
                continue
            found = scores_of_labels(model, placed.batch, device, nameless)
            kept = found.labels != IGNORED
            places = np.broadcast_to(placed.places, labels.shape).ravel()[scored]
            where = places if firsts is None else np.searchsorted(firsts, places, side="right") - 1
            np.add.at(sums.nats, where, found.nats[kept].cpu().double().numpy())
            np.add.at(sums.correct, where, found.correct[kept].cpu().numpy())
            np.add.at(sums.tokens, where, 1)
            np.add.at(sums.nameless, where, found.nameless[kept].cpu().double().numpy())
            if unknown is not None:
                np.add.at(sums.unknown, where, labels.ravel()[scored] == unknown)
    windows.require_tokens(int(sums.tokens.sum()))
    return sums


Report = Callable[[Any], None]
Targets = Callable[[], list[str] | None]


@dataclass(frozen=True, eq=False)
class Measured:
    """Sums over the cells of a text. `extent` is None where the nats do not cover the text; `lengths` are the tokens
    of each document, or of each pair's source, without those that frame it. `unscored` are first tokens before which
    nothing stands. Shape: lengths (documents,)."""

    run: LoadedRun
    data: PreparedDataset
    cells: Cells
    sums: Sums
    lengths: NDArray[np.int64]
    stride: int | None = None
    extent: Extent | None = None
    left_out: int = 0
    unscored: int = 0
    pseudo: Sums | None = None
    translated: Translated | None = None
    told: Told | None = None


def measure(
    run: LoadedRun,
    data: PreparedDataset,
    settings: EvaluationSettings = AS_IT_IS,
    report: Report = lambda event: None,
    *,
    targets: Targets = lambda: None,
    like: Measured | None = None,
) -> Measured:
    """Score the validation part of `data`; for pairs, translate all of it as well. A `UsageError` where the dataset was
    made with another tokenizer or holds the wrong kind, or windows do not fit. `targets` are those of pairs as they are
    read from their source, or None where they cannot be; it is asked where the tokenizer does not give them back.
    `like` is what it is to be compared with: the same share of tokens is masked, and the references are the same."""
    data.require_tokenizer(run.tokenizer)
    run = read_as_asked(run, settings)
    if run.recipe.train.task is not None:
        return _labelled(run, data, run.recipe.train.task)
    if run.recipe.reads_pairs:
        return _pairs(run, data, settings, targets, like)
    if run.recipe.objective == "clm":
        return _text(run, data, settings.stride)
    return _drawn(run, data, settings.pseudo, report, like)


def read_as_asked(run: LoadedRun, settings: EvaluationSettings) -> LoadedRun:
    """The run with the windows that it is scored in: those of its training, a document at a time where
    `train.document_masking` has shown it that or it was imported, unless others are asked for. A `UsageError` where
    they do not fit."""
    train, longest, stride = run.recipe.train, run.config.model.max_seq_len, settings.stride
    if settings.context is not None and settings.context > longest:
        problem = f"--context {settings.context} is longer than the {longest} tokens that {run.directory.path} can read"
        raise UsageError(problem, f"choose at most {longest}")
    if stride is not None and run.recipe.objective != "clm":
        problem = f"--stride is for a run that predicts every next token, and {run.directory.path} does not"
        raise UsageError(problem, "leave it out")
    if run.recipe.reads_pairs:
        if option := "--windows" if settings.windows else "--context" if settings.context else "":
            trained_on = "pairs" if run.recipe.train.task is None else "labelled texts"
            problem = f"{option} is for a decoder or an encoder of text, and {run.directory.path} read {trained_on}"
            raise UsageError(problem, "leave it out")
        return run
    own = "documents" if run.recipe.is_imported or train.document_masking else train.windows
    train = replace(train, windows=settings.windows or own, document_masking=False)
    run = replace(run, recipe=replace(run.recipe, train=replace(train, context=settings.context or train.context)))
    if stride is not None and stride > (context := run.recipe.context):
        problem = f"--stride {stride} is longer than the context of {context} tokens that {run.directory.path} has"
        raise UsageError(problem, "choose a stride of at most the context; half of it is usual")
    return run


def _text(run: LoadedRun, data: PreparedDataset, stride: int | None) -> Measured:
    view, context, roles = data.text("validation"), run.recipe.context, run.config.roles
    stride = stride or context
    documents = run.recipe.train.windows == "documents"
    placed = SlidingWindows(view, roles, context, stride=stride, documents=documents, tokens=_tokens_at_a_time(run))
    whole = _of_text(run, data, placed, unknown=roles.unk)
    firsts = view.offsets[: (-1 if documents else 1) if not roles.text_prefix else 0]
    spread = windows.text_extent(view, whole.cells, run.tokenizer, data.record().validation, firsts)
    return replace(whole, stride=stride, extent=spread, unscored=len(firsts))


def _drawn(run: LoadedRun, data: PreparedDataset, pseudo: bool, report: Report, like: Measured | None) -> Measured:
    """Windows as in training, of which the same parts are masked, left out, or read both ways, for every run."""
    recipe, roles, view = _scored(run), run.config.roles, data.text("validation")
    masks = recipe.objective == "mlm"
    if masks and like is not None:
        theirs = like.run.recipe.train
        hidden = replace(recipe.train, mask_probability=theirs.mask_probability, whole_words=theirs.whole_words)
        recipe = replace(recipe, train=hidden)
    batches = build_batches(recipe, data, "validation", roles)
    assert isinstance(batches, DrawnBatches)

    def placed() -> Iterator[Placed]:
        for batch, spans in zip(batches.whole(), batches.spans(), strict=True):
            # Labels that stand behind sentinels have no place of their own: they count where their window begins.
            in_place = masks or batch.prefix is not None
            behind = np.arange(batch.labels.shape[1]) + (not masks) if in_place else int(roles.is_shared)
            yield Placed(batch, spans.starts[:, None] + behind)

    measured = _of_text(run, data, placed(), unknown=None if masks else roles.unk)
    if not (masks and pseudo):
        return measured
    lone = lone_masks(view, roles, batches, _tokens_at_a_time(run))
    part = f"{int(lone.lengths.sum()):,} of {len(view):,} tokens"
    report(StageStarted("evaluation", f"{part}, each masked alone: {int((lone.lengths**2).sum()):,} tokens to read"))
    return replace(measured, pseudo=sum_cells(run.model, lone, measured.cells, run.device))


def _of_text(run: LoadedRun, data: PreparedDataset, placed: Iterable[Placed], unknown: int | None) -> Measured:
    view, roles = data.text("validation"), run.config.roles
    cells = windows.text_cells(view)
    sums = sum_cells(run.model, placed, cells, run.device, unknown=unknown, nameless=nameless_ids(run))
    return Measured(run, data, cells, sums, np.diff(view.offsets) - len(roles.stored_start()) - len(roles.end))


def _pairs(
    run: LoadedRun, data: PreparedDataset, settings: EvaluationSettings, texts: Targets, like: Measured | None
) -> Measured:
    pairs, roles = data.pairs("validation"), run.config.roles
    batches = build_batches(_scored(run), data, "validation", roles)
    assert isinstance(batches, PairBatches | CompletionBatches)
    numbers = np.arange(len(pairs))
    order = iter(batches.order)
    cells = Cells(None, numbers, numbers, "pairs")
    placed = (Placed(batch, np.array([*islice(order, len(batch.labels))])[:, None]) for batch in batches.whole())
    sums = sum_cells(run.model, placed, cells, run.device, unknown=roles.unk, nameless=nameless_ids(run))
    kept_targets = [run.tokenizer.decode(ids) for ids in windows.without_frame(pairs.target, roles.target_prefix)]
    extent = windows.extent(kept_targets, data.record().validation)
    # Where pairs are left out of the loss, their text must be as well, and be known.
    is_known = extent.exact or not batches.left_out
    measured = Measured(
        run,
        data,
        cells,
        sums,
        lengths=pairs.source.lengths - len(roles.source(())),
        extent=extent if is_known else None,
        left_out=batches.left_out,
    )
    if run.recipe.objective == "completion":
        return measured

    original = kept_targets if extent.exact else texts()
    references = original or kept_targets
    bleu_tokenize = settings.bleu_tokenize or run.recipe.evaluate.bleu_tokenize
    if like is not None and like.translated is not None:
        references = like.translated.references
        bleu_tokenize = like.translated.statistics.bleu_tokenize
    translations = translated(
        run,
        pairs,
        references,
        are_exact=original is not None,
        beam=settings.beam,
        bleu_tokenize=bleu_tokenize,
    )
    return replace(measured, translated=translations)


def _labelled(run: LoadedRun, data: PreparedDataset, task: str) -> Measured:
    view, batches = data.pairs("validation"), build_batches(_scored(run), data, "validation", run.config.roles)
    assert isinstance(batches, LabelBatches)
    found = told(run.model, batches.whole(), task, run.device)
    sums, count = np.zeros((len(view), found.sums.shape[1])), np.arange(len(view))
    sums[batches.order] = found.sums
    windows.require_tokens(int(sums[:, 1].sum()))
    tokens, correct = sums[:, 1:3].astype(np.int64).T
    of_texts = replace(Sums.zeros(len(view)), nats=sums[:, 0], tokens=tokens, correct=correct)
    cells, lengths = Cells(None, count, count, "documents"), view.source.lengths - len(run.config.roles.text(()))
    measured = Measured(run, data, cells, of_texts, lengths, left_out=batches.left_out)
    return replace(measured, told=found._replace(sums=sums))


def nameless_ids(run: LoadedRun) -> list[int]:
    """The ids of the model's vocabulary that no token has."""
    assert run.config.model.vocab_size is not None
    return run.config.roles.without_token(run.config.model.vocab_size)


def _tokens_at_a_time(run: LoadedRun) -> int:
    # A CPU is fastest where a batch's numbers stay in its caches (measured, up to 20 %); other devices want more work
    # at a time, and few enough for the logits of a large vocabulary.
    return 2048 if run.device.type == "cpu" else 8192


def _scored(run: LoadedRun) -> Recipe:
    return replace(run.recipe, train=replace(run.recipe.train, batch_tokens=_tokens_at_a_time(run)))


@torch.inference_mode()
def total_loss(
    model: Transformer,
    batches: Iterable[Batch],
    device: torch.device,
    combined: Callable[[Tensor], Tensor] = lambda sums: sums,
    task: str | None = None,
) -> Totals:
    """Score every labelled token once, in float32 and without dropout; a `UsageError` where there is none. `combined`
    adds what other processes have scored; takes and returns three sums, (3,), or those of a `task`."""
    if task is not None:
        of_each, _, scores = told(model, batches, task, device)
        sums = torch.from_numpy(of_each.sum(0))
    else:
        sums = torch.zeros(3, dtype=torch.float64)
        with windows.scoring(model):
            for batch in batches:
                nats, correct, *_ = scores_of_labels(model, batch, device)
                of_batch = (nats.cpu().double().sum().item(), batch.target_tokens, int(correct.sum()))
                sums += torch.tensor(of_batch, dtype=torch.float64)
    sums = combined(sums)
    windows.require_tokens(int(sums[1]))
    f1 = None if task is None else float([*scores.scores.values()][-1](sums.numpy()))
    return Totals(float(sums[0]), int(sums[1]), int(sums[2]), f1)
