"""Preparing text: token ids in shards, encoded chunk by chunk by one process, several, or several machines.

The pieces of a corpus are cut into numbered chunks. A chunk that is encoded lies in a folder of chunks until all of
them are there; then they become the shards, in the order of their numbers. So it is the same whoever encodes which
chunk, and what is killed goes on with the chunks that are missing.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sys
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain, count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from tfcli.corpora import PARTS, PIECE_CHARACTERS, Document, Kind, Pair, Part, Text, pieces
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
from tfcli.errors import BrokenInputError, TfcliError, UsageError, shortened
from tfcli.files import digest, read_versioned, replacing_folder, require_writable, validated, write_json
from tfcli.machine import PIPE, child, cores
from tfcli.records.dataset import DatasetRecord, PartCounts
from tfcli.tokenization.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from tfcli.corpora.split import TrainValidationSplit
    from tfcli.recipe.recipe import DataSection
    from tfcli.tokenization.tokenizer import Tokenizer

BATCH_CHARACTERS = 2**20
"""Pieces are encoded together until they hold so many characters: work for all cores in some 100 MB."""
_GROWTH = 64
"""A chunk is a batch; behind every so many chunks, one batch more: 11,000 chunks of a terabyte."""
TOKENIZER_NAME = "tokenizer.json"
_VERSION = 1
"""Of what is stored: a number that changes would make every dataset anew."""
_SHARE_NAME = "share.json"

Progress = Callable[[int, int], None]
"""Receives the documents and tokens done so far."""


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


@dataclass(frozen=True)
class Share:
    """The chunks of one of several processes or machines: of every `of` chunks the one at place `number`, from 0."""

    number: int = 0
    of: int = 1

    @classmethod
    def of_text(cls, text: str) -> Share:
        """The share that a text such as "2/8" names, counted from 1.

        >>> Share.of_text("2/8")
        Share(number=1, of=8)
        """
        found = re.fullmatch(r"(\d{1,5})/(\d{1,5})", text)
        if not found or not 1 <= int(found[1]) <= int(found[2]):
            raise UsageError(f"--shard {shortened(text)!r} is no share", "write 1/8 to 8/8 for eight machines")
        return cls(int(found[1]) - 1, int(found[2]))


@dataclass(frozen=True)
class Origin:
    """What another process opens the same corpus and tokenizer by: the data section, and a file or a run."""

    section: DataSection
    tokenizer: Path


def prepare(
    division: TrainValidationSplit,
    tokenizer: Tokenizer,
    out: Path,
    *,
    progress: Progress | None = None,
    shard_tokens: int = SHARD_TOKENS,
    workers: int = 1,
    origin: Origin | None = None,
) -> DatasetRecord:
    """Encode a corpus into `out`, with the tokenizer beside it, or find it there already.

    A text document is stored as ``<s> ids </s>``; of a pair the source as ``ids </s>`` and the target as
    ``<s> ids </s>``, or as the roles of the tokenizer say: ``ids </s>`` for GPT-2's text, ``<s> ids </s>`` and
    ``</s> <s> ids </s>`` for BART's pairs.

    The counts of a part: `tokens` are the stored ids but those that begin a document, which are never news (a
    document of n ids counts n + 1, and a pair counts both sides); `bytes` (UTF-8) and `characters` are of the
    text itself, of a pair's target; `unknown` are ids of the unknown token, `words` what stands between white space,
    of both sides; `spread` is √(Σ (pieces − mean · words)² / Σ words) over the texts.

    Args:
        workers: processes that encode, which open the corpus by `origin`; 1: this one does, with a thread a core.

    Raises:
        UsageError: `out` holds something else, or cannot be written to, or a part has no text.
        TfcliError: a worker has died. What is done stays, and the same call goes on with it.
    """
    if found := _existing(division, tokenizer, out):
        return found
    require_writable(out)
    fingerprint = dataset_fingerprint(division, tokenizer)
    try:
        with _chunk_folder(out, fingerprint) as folder:
            if workers > 1:
                assert origin is not None
                chunks = _encode_by_workers(_Request(origin, division.source.kind, folder, workers), progress)
            else:
                chunks = encode_share(division, tokenizer, folder, Share(), progress)
            with replacing_folder(out) as made:
                writer = _Writer(division.source.kind, tokenizer, made, shard_tokens)
                writer.write(folder / _chunk_name(number) for number in range(chunks))
                manifest = writer.finish(division.source.names, division.split, fingerprint)
    except (TfcliError, FileNotFoundError):
        # Of two processes that prepare the same for a shared cache, the later one takes what the other made.
        if found := _existing(division, tokenizer, out):
            return found
        raise
    return manifest.record(out)


def prepare_share(
    division: TrainValidationSplit, tokenizer: Tokenizer, out: Path, share: Share, progress: Progress | None = None
) -> None:
    """Encode one machine's chunks into the folder `out`, for `merge`.

    Raises:
        UsageError: `out` holds something, or cannot be written to.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} is there already", "choose another output folder")
    require_writable(out)
    fingerprint, source = dataset_fingerprint(division, tokenizer), division.source
    with _chunk_folder(out, f"{fingerprint}.{share.number}.{share.of}") as folder:
        chunks = encode_share(division, tokenizer, folder, share, progress)
        with replacing_folder(out) as made:
            tokenizer.save(made / TOKENIZER_NAME)
            about = _ShareManifest(
                fingerprint, tokenizer.fingerprint, source.kind, tuple(source.names), division.split, share, chunks
            )
            write_json(made / _SHARE_NAME, {"format_version": _VERSION, **asdict(about)})
            for number in range(share.number, chunks, share.of):
                (folder / _chunk_name(number)).rename(made / _chunk_name(number))


@dataclass(frozen=True)
class _ShareManifest:
    """What one machine has encoded."""

    fingerprint: str
    tokenizer_fingerprint: str
    kind: Kind
    sources: tuple[str, ...]
    split: str
    share: Share
    chunks: int


def merge(shares: Sequence[Path], out: Path, *, shard_tokens: int = SHARD_TOKENS) -> DatasetRecord:
    """Make one dataset, the same as one machine would have made, of the folders of `prepare_share`.

    Raises:
        UsageError: one is missing, is of another text or tokenizer, or is no share; or `out` holds something.
        BrokenInputError: one is damaged.
    """
    about = {path: _read_share(path) for path in shares}
    (first, wanted), *others = about.items()
    for path, one in others:
        if replace(one, share=wanted.share) != replace(wanted, share=wanted.share) or one.share.of != wanted.share.of:
            problem = f"{path} and {first} are shares of different datasets"
            raise UsageError(problem, "merge the shares of one text, one tokenizer and one division alone")
    by_number = {one.share.number: path for path, one in about.items()}
    of = wanted.share.of
    if missing := [f"{number + 1}/{of}" for number in range(of) if number not in by_number]:
        raise UsageError(f"The share {missing[0]} is missing ({len(by_number)} of {of} are there)", "name it, too")
    if len(by_number) < len(shares):
        raise UsageError("One share is there twice", "name each once")
    tokenizer = load_tokenizer(first / TOKENIZER_NAME)
    if tokenizer.fingerprint != wanted.tokenizer_fingerprint:
        raise BrokenInputError(f"{first / TOKENIZER_NAME} has changed", "prepare the share again")
    chunks = [by_number[number % of] / _chunk_name(number) for number in range(wanted.chunks)]
    for chunk in chunks:
        if not chunk.is_file():
            raise BrokenInputError(f"{chunk} is missing", f"prepare the share {chunk.parent} again")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} is there already", "choose another output folder")
    require_writable(out)
    with replacing_folder(out) as made:
        writer = _Writer(wanted.kind, tokenizer, made, shard_tokens)
        writer.write(chunks)
        return writer.finish(wanted.sources, wanted.split, wanted.fingerprint).record(out)


def _read_share(folder: Path) -> _ShareManifest:
    path = folder / _SHARE_NAME
    if not path.is_file():
        remedy = f"make it with `tfcli prepare SOURCE --tokenizer FILE --shard 1/4 --out {folder}`"
        raise UsageError(f"{folder} is no share of a dataset", remedy)
    _, values = read_versioned(path, _VERSION, remedy="prepare the share again")
    found: _ShareManifest = validated(_ShareManifest, values, path, "prepare the share again")
    return found


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


@contextmanager
def _chunk_folder(out: Path, name: str) -> Iterator[Path]:
    """The hidden folder beside `out` in which chunks lie until they are shards. A kill leaves it, and so does Ctrl-C,
    where there is something in it; an error in the text does not."""
    folder = out.with_name(f".{out.name[:80]}.{name}.chunks")
    made = [path for path in out.parents if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
        shutil.rmtree(folder, ignore_errors=True)
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt | WorkerError):
            shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # there is a chunk in it
            for path in (folder, *made):
                path.rmdir()
        raise


def _chunk_name(number: int) -> str:
    return f"chunk-{number:06d}.npz"


def _chunks(stream: Iterable[Piece]) -> Iterator[list[list[Piece]]]:
    """The batches of each chunk, which do not depend on who encodes it."""
    batches = batched(stream)
    for number in count():
        chunk = [batch for _, batch in zip(range(1 + number // _GROWTH), batches, strict=False)]
        if not chunk:
            return
        yield chunk


def encode_share(
    division: TrainValidationSplit,
    tokenizer: Tokenizer,
    folder: Path,
    share: Share,
    progress: Progress | None = None,
) -> int:
    """Encode the chunks of a share that are not in `folder` yet; returns the number of all chunks. The text is read to
    its end whatever the share, since a chunk begins where the one before it has ended."""
    documents = tokens = number = 0
    for number, chunk in enumerate(_chunks(document_pieces(division.parts())), start=1):
        if (number - 1) % share.of != share.number:
            continue
        path = folder / _chunk_name(number - 1)
        if not path.exists():
            encoded = _Chunk(division.source.kind, tokenizer)
            for batch in chunk:
                encoded.add(batch)
            encoded.save(path)
        if progress:
            counts = read_counts(path)
            documents += sum(one["documents"] for one in counts.values())
            tokens += sum(one["tokens"] for one in counts.values())
            progress(documents, tokens)
    return number


_COUNTED = ("documents", "tokens", "bytes", "characters", "unknown")
_SUMS = (*_COUNTED, "pieces", "words", "squares", "products", "word_squares")


class _Chunk:
    """The ids of some batches, where documents end in them, and their counts."""

    def __init__(self, kind: Kind, tokenizer: Tokenizer) -> None:
        self._tokenizer, self._dtype = tokenizer, token_dtype(tokenizer.vocab_size)
        places = [(part, side) for part in PARTS for side in SIDES[kind]]
        self._ids = {place: array("H" if self._dtype.itemsize == 2 else "I") for place in places}
        self._ends: dict[tuple[Part, str], list[int]] = {place: [] for place in places}
        self._counts = {part: dict.fromkeys(_SUMS, 0) for part in PARTS}

    def add(self, batch: Sequence[Piece]) -> None:
        """Encode a batch."""
        roles = self._tokenizer.roles
        end = list(roles.end)
        for piece, ids in zip(batch, self._tokenizer.encode_batch([piece.text for piece in batch]), strict=True):
            place = piece.part, piece.side
            stored, counts = self._ids[place], self._counts[piece.part]
            if piece.first:
                stored.fromlist(list(roles.stored_start(piece.side)))
            stored.fromlist(ids)
            size, data = len(ids), piece.text.encode()
            words = _count_words(piece.text, data)
            counts["pieces"] += size
            counts["words"] += words
            counts["squares"] += size * size
            counts["products"] += size * words
            counts["word_squares"] += words * words
            counts["tokens"] += size
            counts["unknown"] += self._tokenizer.count_unknown(ids)
            if piece.last:
                stored.fromlist(end)
                counts["tokens"] += len(end)
                self._ends[place].append(len(stored))
            if piece.side != "source":
                counts["characters"] += len(piece.text)
                counts["bytes"] += len(data)
                counts["documents"] += piece.last

    def save(self, path: Path) -> None:
        """Write it, whole or not at all."""
        arrays: dict[str, NDArray[Any]] = {}
        for (part, side), ids in self._ids.items():
            arrays[f"{part}.{side}.ids"] = np.frombuffer(ids, self._dtype)
            arrays[f"{part}.{side}.ends"] = np.array(self._ends[part, side], np.int64)
        for part, counts in self._counts.items():
            arrays[f"{part}.counts"] = np.array(list(counts.values()), np.int64)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        with temporary.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        temporary.replace(path)  # the system may lose it with its power: its checksum is compared


_SPACE = np.zeros(128, bool)
_SPACE[[ord(one) for one in map(chr, range(128)) if one.isspace()]] = True


def _count_words(text: str, data: bytes) -> int:
    """``len(text.split())``, in a tenth of its time where the text is ASCII."""
    if not data or not text.isascii():
        return len(text.split())
    space = _SPACE[np.frombuffer(data, np.uint8)]
    return int(not space[0]) + int(np.count_nonzero(space[:-1] & ~space[1:]))


def read_counts(path: Path) -> dict[Part, dict[str, int]]:
    """What a chunk counts, a part at a time."""
    with _opened(path) as arrays:
        return {part: dict(zip(_SUMS, arrays[f"{part}.counts"].tolist(), strict=True)) for part in PARTS}


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            yield arrays
    except (ValueError, KeyError, EOFError, BadZipFile) as error:
        path.unlink(missing_ok=True)
        raise BrokenInputError(f"{path} is damaged ({error})", "give the command again: it makes this anew") from error


class _Writer:
    """Chunks as the shards of a dataset."""

    def __init__(self, kind: Kind, tokenizer: Tokenizer, folder: Path, shard_tokens: int) -> None:
        self._kind, self._tokenizer, self._folder = kind, tokenizer, folder
        self._sums = {part: dict.fromkeys(_SUMS, 0) for part in PARTS}
        dtype = token_dtype(tokenizer.vocab_size)
        self._writers = {part: PartWriter(folder, part, SIDES[kind], dtype, shard_tokens) for part in PARTS}

    def write(self, chunks: Iterable[Path]) -> None:
        """Append chunks, in their order."""
        with ExitStack() as stack:
            for writer in self._writers.values():
                stack.enter_context(writer)
            for path in chunks:
                with _opened(path) as arrays:
                    for part, writer in self._writers.items():
                        for name, value in zip(_SUMS, arrays[f"{part}.counts"].tolist(), strict=True):
                            self._sums[part][name] += value
                        names = {side: f"{part}.{side}" for side in SIDES[self._kind]}
                        writer.write({side: (arrays[f"{n}.ids"], arrays[f"{n}.ends"]) for side, n in names.items()})
            for part, sums in self._sums.items():
                if sums["characters"]:
                    self._writers[part].finish_shard()

    def finish(self, sources: Sequence[str], split: str, fingerprint: str) -> Manifest:
        """The manifest, written. A part without text is a UsageError."""
        for part, sums in self._sums.items():
            if not sums["characters"]:
                names = ", ".join(sources)
                problem = f"The {part} part of {names} has no text (split {split}, {sums['documents']} documents)"
                raise UsageError(problem, "give more text, or change data.split or data.validation_fraction")
        self._tokenizer.save(self._folder / TOKENIZER_NAME)
        parts = {
            part: PartManifest(_part_counts(self._sums[part]), tuple(writer.shards))
            for part, writer in self._writers.items()
        }
        tokenizer = self._tokenizer
        manifest = Manifest(
            kind=self._kind,
            sources=tuple(sources),
            split=split,
            fingerprint=fingerprint,
            tokenizer_fingerprint=tokenizer.fingerprint,
            vocab_size=tokenizer.vocab_size,
            roles=tokenizer.roles,
            **parts,
        )
        write_manifest(self._folder, manifest)
        return manifest


def _part_counts(sums: dict[str, int]) -> PartCounts:
    counted = PartCounts(**{name: sums[name] for name in _COUNTED})
    if not sums["words"]:
        return counted
    mean = sums["pieces"] / sums["words"]
    deviations = sums["squares"] - 2 * mean * sums["products"] + mean**2 * sums["word_squares"]
    return replace(counted, words=sums["words"], spread=round(math.sqrt(max(0.0, deviations) / sums["words"]), 4))


class WorkerError(TfcliError):
    """A worker has ended before its share was done."""


@dataclass(frozen=True)
class _Request:
    origin: Origin
    kind: Kind
    folder: Path
    workers: int


def _encode_by_workers(request: _Request, progress: Progress | None) -> int:
    """Have each worker encode its share; returns the number of all chunks."""
    asked = {
        "data": {name: value for name, value in asdict(request.origin.section).items() if value is not None},
        "kind": request.kind,
        "tokenizer": str(request.origin.tokenizer.absolute()),
        "folder": str(request.folder.absolute()),
        "of": request.workers,
    }
    threads = str(max(1, cores() // request.workers))
    heard: list[dict[str, Any]] = [{} for _ in range(request.workers)]
    with ExitStack() as stack:
        listeners = []
        for number in range(request.workers):
            environment = {"RAYON_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "true"}
            worker = child("tfcli.data.prepare", stdin=PIPE, stdout=PIPE, environment=environment)
            process = stack.enter_context(worker)
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(json.dumps({**asked, "number": number}))
            process.stdin.close()

            def listen(answers: Iterable[str] = process.stdout, number: int = number) -> None:
                for line in answers:
                    heard[number] |= json.loads(line)

            listeners.append((process, threading.Thread(target=listen, daemon=True)))
        for _, listener in listeners:
            listener.start()
        for number, (process, listener) in enumerate(listeners):
            while listener.is_alive():
                listener.join(0.2)
                if progress:
                    progress(sum(one.get("documents", 0) for one in heard), sum(one.get("tokens", 0) for one in heard))
            if "problem" in heard[number]:
                kind = {kind.exit_code: kind for kind in (TfcliError, UsageError, BrokenInputError)}
                raise kind[heard[number]["exit_code"]](heard[number]["problem"], heard[number]["remedy"])
            if process.wait() or "chunks" not in heard[number]:
                problem = f"Worker {number + 1} of {request.workers} ended (exit code {process.returncode})"
                raise WorkerError(problem, "give the command again: it goes on with what is done")
    return int(heard[0]["chunks"])


def _work(asked: dict[str, Any]) -> None:
    """One worker's share, told of on standard output."""
    from tfcli.corpora.split import open_split
    from tfcli.recipe.loading import build_recipe

    def progress(documents: int, tokens: int) -> None:
        print(json.dumps({"documents": documents, "tokens": tokens}), flush=True)

    try:
        division = open_split(build_recipe({"data": asked["data"]}).data, asked["kind"])
        tokenizer = load_tokenizer(Path(asked["tokenizer"]))
        share = Share(asked["number"], asked["of"])
        chunks = encode_share(division, tokenizer, Path(asked["folder"]), share, progress)
        print(json.dumps({"chunks": chunks}))
    except TfcliError as error:
        print(json.dumps({"problem": error.problem, "remedy": error.remedy, "exit_code": error.exit_code}))


if __name__ == "__main__":
    _work(json.load(sys.stdin))
