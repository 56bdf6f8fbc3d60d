"""Preparing a dataset: a train/validation split is tokenized once and stored on disk."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from tfcli.corpora.source import PARTS, PIECE_CHARACTERS, Document, Pair, Part, Text, pieces
from tfcli.data.dataset import PreparedDataset
from tfcli.data.shards import (
    MANIFEST_NAME,
    SHARD_TOKENS,
    SIDES,
    Manifest,
    PartManifest,
    PartWriter,
    token_dtype,
    write_manifest,
)
from tfcli.errors import TfcliError, UsageError
from tfcli.files import digest, replacing_folder, require_writable
from tfcli.records.dataset import DatasetRecord, PartCounts

if TYPE_CHECKING:
    from tfcli.corpora.split import TrainValidationSplit
    from tfcli.tokenization.tokenizer import Tokenizer


BATCH_CHARACTERS = 2**20
"""Pieces are encoded together until they hold so many characters: work for all cores in some 100 MB."""


@dataclass(frozen=True)
class Piece:
    """A stretch of one side of a document; `side` is "" for text, else "source" or "target"."""

    part: Part
    side: str
    text: str
    first: bool
    last: bool


def document_pieces(documents: Iterable[tuple[Part, Document]], limit: int = PIECE_CHARACTERS) -> Iterator[Piece]:
    """The pieces of every document in order; of a pair the source before the target.

    A document of more than `limit` characters is cut where a line ends, as in training a tokenizer.
    """
    for part, document in documents:
        sides: dict[str, Text] = vars(document) if isinstance(document, Pair) else {"": document}
        for side, text in sides.items():
            stretches: Iterator[str | None] = chain(pieces(text, limit), [None])
            for number, (piece, after) in enumerate(pairwise(stretches)):
                assert piece is not None
                yield Piece(part, side, piece, first=number == 0, last=after is None)


def batched(stream: Iterable[Piece], characters: int = BATCH_CHARACTERS) -> Iterator[list[Piece]]:
    """Group pieces into lists of about `characters`, at most one piece over."""
    batch: list[Piece] = []
    held = 0
    for piece in stream:
        batch.append(piece)
        # An empty text counts as well: a list of them must end, too.
        held += len(piece.text) + 1
        if held >= characters:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


TOKENIZER_NAME = "tokenizer.json"
_VERSION = 1
"""Of what is stored: a number that changes would make every dataset anew."""


def prepare(
    division: TrainValidationSplit,
    tokenizer: Tokenizer,
    out: Path,
    *,
    progress: Callable[[int, int], None] | None = None,
    shard_tokens: int = SHARD_TOKENS,
) -> DatasetRecord:
    """Encode a corpus into `out`, with the tokenizer beside it, or find it there already.

    A text document is stored as ``<s> ids </s>``; of a pair the source as ``ids </s>`` and the target as
    ``<s> ids </s>``, or as the roles of the tokenizer say: ``ids </s>`` for GPT-2's text, ``<s> ids </s>`` and
    ``</s> <s> ids </s>`` for BART's pairs.
    `progress` receives the documents and tokens done so far.

    The counts of a part: `tokens` are the stored ids but those that begin a document, which are never news (a
    document of n ids counts n + 1, and a pair counts both sides); `bytes` (UTF-8) and `characters` are of the
    text itself, of a pair's target; `unknown` are ids of the unknown token, `words` what stands between white space,
    of both sides; `spread` is √(Σ (pieces − mean · words)² / Σ words) over the texts.

    Raises:
        UsageError: `out` holds something else, or cannot be written to, or a part has no text.
    """
    if found := _existing(division, tokenizer, out):
        return found
    require_writable(out)
    try:
        with replacing_folder(out) as folder:
            manifest = _write(division, tokenizer, folder, progress, shard_tokens)
    except TfcliError:
        # Of two processes that prepare the same for a shared cache, the later one takes what the other made.
        if found := _existing(division, tokenizer, out):
            return found
        raise
    return manifest.record(out)


def dataset_fingerprint(division: TrainValidationSplit, tokenizer: Tokenizer) -> str:
    """What a dataset of this text, this division and this tokenizer is known by."""
    return digest("prepared dataset", _VERSION, division.fingerprint, tokenizer.fingerprint)


def _existing(division: TrainValidationSplit, tokenizer: Tokenizer, out: Path) -> DatasetRecord | None:
    """The record of the same dataset in `out`; None where `out` is free."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    if not (out / MANIFEST_NAME).exists():
        what = "already holds other files" if out.is_dir() else "is a file, not a folder"
        raise UsageError(f"{out} {what}", "choose another output folder")
    dataset = PreparedDataset.open(out)
    if dataset.manifest.fingerprint == dataset_fingerprint(division, tokenizer):
        return dataset.record(reused=True)
    manifest, source = dataset.manifest, division.source
    compared = {
        "tokenizer": (manifest.tokenizer_fingerprint, tokenizer.fingerprint),
        "kind": (manifest.kind, source.kind),
        "source": (", ".join(manifest.sources), ", ".join(source.names)),
        "split": (manifest.split, division.split),
    }
    differences = (f"its {name} is {there}, not {here}" for name, (there, here) in compared.items() if there != here)
    why = next(differences, "the text, or how it is divided, has changed since")
    problem = f"{out} already holds another prepared dataset: {why}"
    raise UsageError(problem, "choose another output folder or remove this one")


def _write(
    division: TrainValidationSplit,
    tokenizer: Tokenizer,
    folder: Path,
    progress: Callable[[int, int], None] | None,
    shard_tokens: int,
) -> Manifest:
    sides = SIDES[division.source.kind]
    dtype = token_dtype(tokenizer.vocab_size)
    with ExitStack() as stack:
        tallies = {
            part: _Tally(stack.enter_context(PartWriter(folder, part, sides, dtype, shard_tokens))) for part in PARTS
        }
        for batch in batched(document_pieces(division.parts())):
            encoded = tokenizer.encode_batch([piece.text for piece in batch])
            for piece, ids in zip(batch, encoded, strict=True):
                tallies[piece.part].add(piece, ids, tokenizer)
            if progress:
                done = tallies.values()
                progress(sum(tally.documents for tally in done), sum(tally.tokens for tally in done))
        for part, tally in tallies.items():
            if tally.characters == 0:
                names = ", ".join(division.source.names)
                problem = (
                    f"The {part} part of {names} has no text (split {division.split}, {tally.documents} documents)"
                )
                raise UsageError(problem, "give more text, or change data.split or data.validation_fraction")
            tally.writer.finish_shard()
    tokenizer.save(folder / TOKENIZER_NAME)
    manifest = Manifest(
        kind=division.source.kind,
        sources=tuple(division.source.names),
        split=division.split,
        fingerprint=dataset_fingerprint(division, tokenizer),
        tokenizer_fingerprint=tokenizer.fingerprint,
        vocab_size=tokenizer.vocab_size,
        roles=tokenizer.roles,
        **{part: PartManifest(tally.counts(), tuple(tally.writer.shards)) for part, tally in tallies.items()},
    )
    write_manifest(folder, manifest)
    return manifest


class _Tally:
    """Writes the pieces of one part and counts them."""

    def __init__(self, writer: PartWriter) -> None:
        self.writer = writer
        self.documents = self.tokens = self.bytes = self.characters = self.unknown = 0
        self.pieces = self.words = self.squares = self.products = self.word_squares = 0

    def add(self, piece: Piece, ids: list[int], tokenizer: Tokenizer) -> None:
        roles = tokenizer.roles
        self.unknown += tokenizer.count_unknown(ids)
        words = len(piece.text.split())
        self.pieces += len(ids)
        self.words += words
        self.squares += len(ids) ** 2
        self.products += len(ids) * words
        self.word_squares += words**2
        self.tokens += len(ids) + len(roles.end) * piece.last
        before = roles.stored_start(piece.side) if piece.first else ()
        self.writer.append(piece.side, [*before, *ids, *(roles.end if piece.last else ())])
        if piece.side != "source":
            self.characters += len(piece.text)
            self.bytes += len(piece.text.encode())
            self.documents += piece.last
        if piece.last:
            self.writer.end_document(piece.side)

    def counts(self) -> PartCounts:
        texts = self.documents, self.tokens, self.bytes, self.characters, self.unknown
        if not self.words:
            return PartCounts(*texts)
        mean = self.pieces / self.words
        deviations = self.squares - 2 * mean * self.products + mean**2 * self.word_squares
        return PartCounts(*texts, self.words, round(math.sqrt(max(0.0, deviations) / self.words), 4))
