"""The texts that heads are measured on: one that is given, a sample of a validation part, or built-in pairs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tfcli.corpora.open import DEFAULT
from tfcli.corpora.pt_en import DEFAULT_DOCUMENTS, PtEnPair, pairs
from tfcli.data.dataset import PreparedDataset
from tfcli.data.windows import document_windows
from tfcli.errors import UsageError
from tfcli.inspection.reading import Inputs, read_text
from tfcli.runs.load import LoadedRun
from tfcli.tokenization.tokenizer import Tokenizer

_TEXTS = 96
_TOKENS = 8192
_LONGEST = 256
_LABELLED_PAIRS = 256  # the first of the part, for the grammar makes them one after the other
_SEED = 0
HELD_OUT_SEED = 1_000_003
"""Added to a run's own: other built-in sentences than it was trained on."""


@dataclass(frozen=True)
class Surface:
    """The text of ids, special tokens by their names, and from where to where each id stands in it."""

    text: str
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Material:
    """What was read.

    Args:
        measured_on: in words.
        stories: whether the grammar of builtin:stories made it, which knows who acts.
        aligned: of a text of builtin:pt-en, by its number, the pair with its alignment.
    """

    measured_on: str
    texts: tuple[Inputs, ...]
    stories: bool
    aligned: dict[int, PtEnPair]


def given(run: LoadedRun, text: str, target: str | None) -> Material:
    """One text.

    Raises:
        UsageError: it is longer than the context or shorter than two tokens, or the model takes no target.
    """
    inputs = read_text(run, text, target)
    if run.architecture == "encoder" and not run.tokenizer.encode_masked(text):
        raise UsageError("The text is empty", "give a few words")
    if min(len(side) for side in (inputs.encoder, inputs.decoder) if side is not None) < 2:
        raise UsageError("The text has one token, which can look at nothing else", "give a longer text")
    return Material("the text", (inputs,), False, {})


def sampled(run: LoadedRun, data: PreparedDataset, part: str) -> Material:
    """A sample of a dataset's validation part, which is called `part`; always the same.

    Raises:
        UsageError: it was made with another tokenizer, or no text of it has two tokens.
    """
    data.require_tokenizer(run.tokenizer)
    longest = min(run.config.model.max_seq_len, _LONGEST)
    draw = np.random.default_rng(_SEED)
    sources = data.record().sources
    if run.architecture == "encoder-decoder":
        view = data.pairs("validation")
        labelled = tuple(sources) == (DEFAULT["pairs"],)
        numbers = draw.permutation(min(len(view), _LABELLED_PAIRS) if labelled else len(view))
        read = [
            Inputs(_ids(view.source.sequence(n)[:longest]), _ids(view.target.sequence(n)[:longest]))
            for n in _within(numbers, np.maximum(view.source.lengths, view.target.lengths), longest)
        ]
        total, noun = len(view), "pairs"
        aligned = _aligned(run, read) if labelled else {}
    else:
        text = data.text("validation")
        starts, lengths = document_windows(text.documents, 0, longest)
        starts, lengths = starts[lengths > 1], lengths[lengths > 1]
        chosen = _within(draw.permutation(len(starts)), lengths, longest)
        rows = [_ids(text.padded(starts[n : n + 1], lengths[n : n + 1], 0)[0]) for n in chosen]
        read = [Inputs(encoder=ids) if run.architecture == "encoder" else Inputs(decoder=ids) for ids in rows]
        total, aligned = len(starts), {}
        noun = "documents" if total == text.documents.shape[1] else f"pieces of up to {longest} tokens"
    read = [one for one in read if all(side is None or len(side) > 1 for side in (one.encoder, one.decoder))]
    if not read:
        raise UsageError(f"No text of {part} has two tokens", "name longer texts with --on")
    few, seed = (f"{len(read):,}", "") if len(read) == total else (f"{len(read):,} of {total:,}", f" (seed {_SEED})")
    return Material(f"{few} {noun} of {part}{seed}", tuple(read), tuple(sources) == (DEFAULT["text"],), aligned)


def surface(tokenizer: Tokenizer, ids: Sequence[int]) -> Surface:
    """The text of ids, as it was written where it is cut into the same ids again, else label by label."""
    text, spans = "", list[tuple[int, int]]()
    for is_special, run in groupby(ids, key=lambda token_id: token_id in tokenizer.special_ids):
        part = list(run)
        written = "" if is_special else tokenizer.decode(part)
        [(again, offsets)] = tokenizer.encode_spans([written])
        if is_special or again != part:
            joined = is_special or tokenizer.words_carry_spaces or tokenizer.algorithm == "char"
            offsets, written = [], ""
            for label in tokenizer.labels(part):
                own = label if is_special else label.removeprefix("##")
                written += " " if written and not joined and own == label else ""
                offsets.append((len(written), len(written) + len(own)))
                written += own
        for start, end in offsets:
            blank = 0 if is_special else len(written[start:end]) - len(written[start:end].lstrip())
            spans.append((len(text) + start + (blank if blank < end - start else 0), len(text) + end))
        text += written
    return Surface(text, tuple(spans))


def _within(numbers: NDArray[np.int64], lengths: NDArray[np.int64], longest: int) -> list[int]:
    """The first texts that together have no more than so many tokens, and one at least."""
    numbers = numbers[:_TEXTS]
    until = int((np.minimum(lengths[numbers], longest).cumsum() <= _TOKENS).sum())
    found: list[int] = numbers[: max(1, until)].tolist()
    return found


def _ids(row: NDArray[np.int64]) -> tuple[int, ...]:
    return tuple(row.tolist())


def _aligned(run: LoadedRun, read: Sequence[Inputs]) -> dict[int, PtEnPair]:
    """The pairs of the grammar that have these texts."""
    first = islice(own_pairs(run, "validation"), _LABELLED_PAIRS)
    known = {tuple(run.config.roles.source(run.tokenizer.encode(pair.source))): pair for pair in first}
    return {n: known[one.encoder] for n, one in enumerate(read) if one.encoder in known}


def own_pairs(run: LoadedRun, part: Literal["train", "validation"]) -> Iterator[PtEnPair]:
    """The pairs of builtin:pt-en that a run has read, or those that were held out, with their alignments."""
    data = run.recipe.data
    own = islice(pairs(data.seed), data.max_documents or DEFAULT_DOCUMENTS)
    return (pair for pair in own if pair.validation == (part == "validation"))


def require_trained_on(run: LoadedRun, kind: Literal["text", "pairs"], knows: str, remedy: str) -> None:
    """Refuse a run of another corpus than the built-in one, whose grammar `knows` something, by a UsageError."""
    corpus = DEFAULT[kind]
    if run.recipe.origin.source or (run.recipe.data.source or corpus) != corpus:
        raise UsageError(f"{run.directory.path} was not trained on {corpus}, whose grammar knows {knows}", remedy)
