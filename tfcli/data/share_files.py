"""The folder of a share, which may come from another machine: all that it says is checked before a merge."""

import math
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import numpy as np

from tfcli.corpora import PARTS, Part
from tfcli.data.chunk_files import ChunkFile, opened_chunk
from tfcli.data.chunks import COUNTED, SUMS, chunk_name
from tfcli.data.shards import SIDES, token_dtype
from tfcli.data.writer import Encoding
from tfcli.errors import BrokenInputError, UsageError, shortened
from tfcli.files import read_versioned, validated, write_json

_VERSION = 1
_SHARE_NAME = "share.json"
_MOST_SHARES = 99_999  # as --shard takes them
_MOST_CHUNKS = 1_000_000_000
# No sum of a document comes near it, and the sums of a dataset stay within 64 bits.
_LARGEST_SUM = 1 << 52


def write_share(folder: Path, about: Encoding) -> None:
    """Write what a share is into its folder."""
    write_json(folder / _SHARE_NAME, {"format_version": _VERSION, **asdict(about)})


def read_share(folder: Path) -> Encoding:
    """Read what a share is.

    Raises:
        UsageError: The folder is no share.
        BrokenInputError: It contradicts itself, or the files that are there.
    """
    path = folder / _SHARE_NAME
    if not path.is_file():
        remedy = f"make it with `tfcli prepare SOURCE --tokenizer FILE --shard 1/4 --out {folder}`"
        raise UsageError(f"{folder} is no share of a dataset", remedy)
    _, values = read_versioned(path, _VERSION, remedy=_remedy(folder))
    about: Encoding = validated(Encoding, values, path, _remedy(folder))
    for problem in _contradictions(about):
        raise BrokenInputError(f"{path} is damaged at {problem}", _remedy(folder))

    expected = {chunk_name(source, number) for source, number in _own_chunks(about, folder)}
    there = {file.name for file in _chunk_files(folder)}
    for name in sorted(expected ^ there)[:1]:
        if name in there:
            problem = f"{folder / name} is no chunk of the share that {path} describes"
        else:
            problem = f"{folder / name} is missing"
        raise BrokenInputError(problem, _remedy(folder))
    return about


def require_sound_chunks(folder: Path, about: Encoding, vocab_size: int) -> None:
    """Refuse, by a BrokenInputError, a share with a chunk that no text can have. Reads every chunk once."""
    for source, number in _own_chunks(about, folder):
        path = folder / chunk_name(source, number)
        try:
            with opened_chunk(path) as chunk:
                problem = next(_faults(chunk, about, vocab_size), None)
        except BrokenInputError as error:
            raise BrokenInputError(error.problem, _remedy(folder)) from error
        if problem is not None:
            raise BrokenInputError(f"{path} is damaged ({problem})", _remedy(folder))


def _remedy(folder: Path) -> str:
    return f"prepare the share {folder} again"


def _contradictions(about: Encoding) -> Iterator[str]:
    """What the file of no share says: the key, and its value."""
    if not 1 <= about.share.of <= _MOST_SHARES:
        yield f"share.of, which is {shortened(str(about.share.of))}"
    if not 0 <= about.share.number < about.share.of:
        yield f"share.number, which is {shortened(str(about.share.number))}"
    if about.kind not in ("text", "pairs"):
        yield f"kind, which is {about.kind}"
    if len(about.chunks) != (len(about.mixture) or 1):
        yield f"chunks, which are of {len(about.chunks)} sources"
    for count in about.chunks:
        if not 0 <= count <= _MOST_CHUNKS:
            yield f"chunks, of which one source has {shortened(str(count))}"
    for weighted in about.mixture:
        if not 0 < weighted.weight < math.inf:
            yield f"mixture, of which a weight is {weighted.weight}"
        if weighted.max_epochs is not None and weighted.max_epochs < 1:
            yield f"mixture, of which max_epochs is {shortened(str(weighted.max_epochs))}"
    if about.skipped.count < len(about.skipped.first):
        yield f"skipped.count, which is {shortened(str(about.skipped.count))}"
    for reason, count in about.removed.items():
        if count < 0:
            yield f"removed.{shortened(reason)}, which is {shortened(str(count))}"


def _own_chunks(about: Encoding, folder: Path) -> list[tuple[int, int]]:
    """The source and the number of each chunk of a share; as many as its folder has files at most."""
    share = about.share
    numbers = [range(share.number, count, share.of) for count in about.chunks]
    num_expected = sum(map(len, numbers))
    num_files = len(_chunk_files(folder))
    if num_expected > num_files:
        problem = f"{folder} has {num_files} of the {num_expected} chunks of its share"
        raise BrokenInputError(problem, _remedy(folder))
    return [(source, number) for source, owned in enumerate(numbers) for number in owned]


def _chunk_files(folder: Path) -> list[Path]:
    """The chunks in a folder; reading a pipe may never end."""
    return [file for file in folder.glob("[0-9]*.npz") if file.is_file()]


def _faults(chunk: ChunkFile, about: Encoding, vocab_size: int) -> Iterator[str]:
    for part in PARTS:
        yield from _faults_of_sums(chunk, about, part)
        for side in SIDES[about.kind]:
            yield from _faults_of_side(chunk, f"{part}.{side}", vocab_size)


def _faults_of_side(chunk: ChunkFile, name: str, vocab_size: int) -> Iterator[str]:
    ids = chunk[f"{name}.ids"]
    ends = chunk[f"{name}.ends"]
    if ids.ndim != 1 or ids.dtype != token_dtype(vocab_size):
        yield f"{name}.ids has the type {ids.dtype} and {ids.ndim} axes"
    elif len(ids) and int(ids.max()) >= vocab_size:
        yield f"{name}.ids has the id {int(ids.max())}, and the tokenizer has {vocab_size}"
    if ends.ndim != 1 or ends.dtype != np.int64:
        yield f"{name}.ends has the type {ends.dtype} and {ends.ndim} axes"
    elif any(end < begin for begin, end in pairwise([0, *ends.tolist(), len(ids)])):
        yield f"{name}.ends are not in order"


def _faults_of_sums(chunk: ChunkFile, about: Encoding, part: Part) -> Iterator[str]:
    name = f"{part}.sums"
    sums = chunk[name]
    if sums.ndim != 2 or sums.dtype != np.int64 or sums.shape[1] != len(SUMS) or not len(sums):
        yield f"{name} has the type {sums.dtype} and the shape {sums.shape}"
        return
    if sums.min() < 0 or sums.max() > _LARGEST_SUM:
        yield f"{name} has a number that no text brings"
        return

    sides = SIDES[about.kind]
    totals = dict(zip(COUNTED, sums.sum(axis=0).tolist(), strict=False))
    num_documents = len(chunk[f"{part}.{sides[-1]}.ends"])
    num_ids = sum(len(chunk[f"{part}.{side}.ids"]) for side in sides)
    if (totals["documents"], len(sums) - 1) != (num_documents, num_documents):
        yield f"{name} counts {totals['documents']} documents, and {num_documents} end there"
    if totals["tokens"] > num_ids:
        yield f"{name} counts {totals['tokens']} tokens, and there are {num_ids}"
    if not totals["characters"] <= totals["bytes"] <= 4 * totals["characters"]:
        yield f"{name} counts {totals['characters']} characters in {totals['bytes']} bytes"
    keys = f"{part}.keys"
    if keys in chunk and (chunk[keys].dtype != np.uint64 or chunk[keys].shape != (len(sums),)):
        yield f"{keys} has the type {chunk[keys].dtype} and the shape {chunk[keys].shape}"
