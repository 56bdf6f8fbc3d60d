"""Preparing text: token ids in shards, encoded chunk by chunk by one process, several, or several machines.

The pieces of a corpus are cut into numbered chunks. A chunk that is encoded lies in a folder of chunks until all of
them are there; then they become the shards, in the order of their numbers. So it is the same whoever encodes which
chunk, and what is killed goes on with the chunks that are missing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tfcli.corpora import PARTS, TASKS
from tfcli.data.chunks import TOKENIZER_NAME, Encoded, Progress, Share, decide, encode_share
from tfcli.data.dataset import PreparedDataset
from tfcli.data.shards import MANIFEST_NAME, SHARD_TOKENS, read_manifest, write_manifest
from tfcli.data.share_files import read_share, require_sound_chunks, write_share
from tfcli.data.workers import Origin, WorkerError, encode_by_ray, encode_by_workers
from tfcli.data.writer import ChunkWriter, Encoding, Weighted, appended_fingerprint
from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.files import Lock, digest, replacing_folder, require_writable, sweep
from tfcli.records.dataset import NONE_SKIPPED, DatasetRecord
from tfcli.tokenization.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from tfcli.corpora.split import TrainValidationSplit
    from tfcli.tokenization.tokenizer import Tokenizer

_VERSION = 1  # of what is stored: a number that changes would make every dataset anew
_NEW = ".appended"
_LONGEST_NAME = 80  # characters of a name that go into that of its folder of chunks


def prepare(
    division: TrainValidationSplit,
    tokenizer: Tokenizer,
    out: Path,
    *,
    progress: Progress = None,
    shard_tokens: int = SHARD_TOKENS,
    workers: int = 1,
    origin: Origin | None = None,
    ray: str | None = None,
) -> DatasetRecord:
    """Encode a corpus into `out`, with the tokenizer beside it, or find it there already.

    A text document is stored as ``<s> ids </s>``; of a pair the source as ``ids </s>`` and the target as
    ``<s> ids </s>``, or as the roles of the tokenizer say: ``ids </s>`` for GPT-2's text, ``<s> ids </s>`` and
    ``</s> <s> ids </s>`` for BART's pairs.

    The counts of a part: `tokens` are the stored ids but those that begin a document (a document of n ids counts n + 1,
    and a pair both sides); `bytes` (UTF-8) and `characters` are of the text itself, of a pair's target; `words`, what
    stands between white space, of both sides; `spread` is √(Σ (pieces − mean · words)² / Σ words) over the texts.

    So many `workers` are processes that open the corpus by `origin`; 1: this one encodes, with a thread a core. `ray`
    is the address of a Ray cluster whose processes do ("local": one that is started here). A UsageError where `out`
    holds something else or cannot be written to, or a part has no text; a TfcliError where a worker has died: what is
    done stays, and the same call goes on with it."""
    fingerprint = dataset_fingerprint(division, tokenizer)
    if found := _existing(division, tokenizer, out):
        shutil.rmtree(_chunks_of(out, fingerprint), ignore_errors=True)  # of one that was killed at its very end
        return found
    require_writable(out)
    try:
        if division.source.kind in TASKS:
            from tfcli.data.labelled import write_labelled

            with replacing_folder(out) as made:
                about = _encoding(division, tokenizer, ((), NONE_SKIPPED), Share())
                manifest = write_labelled(division, tokenizer, made, about)
                division.require_unchanged()
            return manifest.record(out)
        with _chunk_folder(out, fingerprint) as folder:
            if origin is not None and (workers > 1 or ray is not None):
                decide(division, folder)
                encode = encode_by_workers if ray is None else partial(encode_by_ray, address=ray)
                encoded = encode(origin.asked(division.source.kind), folder, workers, progress)
            else:
                encoded = encode_share(division, tokenizer, folder, Share(), progress, is_whole=True)
            division.require_unchanged()
            return _written(_encoding(division, tokenizer, encoded, Share()), tokenizer, [folder], out, shard_tokens)
    except (TfcliError, FileNotFoundError):
        # Of two processes that prepare the same for a shared cache, the later one takes what the other made.
        if found := _existing(division, tokenizer, out):
            return found
        raise


def _encoding(division: TrainValidationSplit, tokenizer: Tokenizer, encoded: Encoded, share: Share) -> Encoding:
    mixture = tuple(
        Weighted(
            source=", ".join(share.split.source.names),
            weight=float(share.weight),
            max_epochs=share.max_epochs,
            text_field=share.text_field,
        )
        for share in division.mixture
    )
    return Encoding(
        fingerprint=dataset_fingerprint(division, tokenizer),
        tokenizer_fingerprint=tokenizer.fingerprint,
        kind=division.source.kind,
        sources=tuple(division.source.names),
        split=division.split,
        share=share,
        chunks=encoded[0],
        mixture=mixture,
        skipped=encoded[1],
        removed=division.removed,
        tables=division.tables(),
    )


def _written(about: Encoding, tokenizer: Tokenizer, folders: Sequence[Path], out: Path, size: int) -> DatasetRecord:
    with replacing_folder(out) as made:
        writer = ChunkWriter(about, tokenizer, made, size)
        writer.write(folders)
        manifest = writer.finish()
    return manifest.record(out)


def prepare_share(
    division: TrainValidationSplit, tokenizer: Tokenizer, out: Path, share: Share, progress: Progress = None
) -> None:
    """Encode one machine's chunks into the folder `out`, which must be free, for `merge`."""
    _require_free(out)
    with _chunk_folder(out, f"{dataset_fingerprint(division, tokenizer)}.{share.number}.{share.of}") as folder:
        encoded = encode_share(division, tokenizer, folder, share, progress, is_whole=True)
        with replacing_folder(out) as made:
            tokenizer.save(made / TOKENIZER_NAME)
            about = _encoding(division, tokenizer, encoded, share)
            division.require_unchanged()
            write_share(made, about)
            for file in folder.glob("[0-9]*.npz"):
                file.rename(made / file.name)


def append(division: TrainValidationSplit, tokenizer: Tokenizer, folder: Path, tell: Progress = None) -> DatasetRecord:
    """Add documents to a dataset, which gets a new fingerprint. Its shards stay as they are, and so do the trainings
    that have begun on them: they go on with what the dataset was then. What is killed changes nothing. UsageError where
    the two do not fit together, or are not both divided by hash, and where another process appends to the dataset."""
    dataset = PreparedDataset.open(folder)
    dataset.require_tokenizer(tokenizer)
    dataset.require_kind(division.source.kind)
    for what, split in ((str(folder), dataset.manifest.split), (", ".join(division.source.names), division.split)):
        if split != "hash":
            problem = f"{what} is divided by {split}, where documents that are added would move others"
            raise UsageError(problem, "divide both by hash: --split hash")
    if dataset.manifest.mixture or division.mixture:
        raise UsageError("A mixture cannot be added to, nor added", "prepare the whole mixture again")
    if division.cleaning and division.cleaning.compares:
        problem = "data.deduplicate cannot compare with documents that are prepared already"
        raise UsageError(problem, "prepare all of them again, or leave data.deduplicate out")
    try:
        lock = Lock(folder)
    except OSError as error:
        raise UsageError(f"{folder} is in use by another process", "wait until that one has ended") from error
    try:
        old, added = read_manifest(folder), dataset_fingerprint(division, tokenizer)
        if old.earlier and old.fingerprint == appended_fingerprint(old.earlier[-1].fingerprint, added):
            return old.record(folder, reused=True)
        shutil.rmtree(folder / _NEW, ignore_errors=True)  # of one that was killed
        sweep(folder / _NEW)
        with _chunk_folder(folder, added) as chunks, replacing_folder(folder / _NEW) as made:
            encoded = encode_share(division, tokenizer, chunks, Share(), tell, is_whole=False)
            first = {part: len(old.part(part).shards) for part in PARTS}
            writer = ChunkWriter(_encoding(division, tokenizer, encoded, Share()), tokenizer, made, SHARD_TOKENS, first)
            writer.write([chunks])
            manifest = writer.appended(old)
            division.require_unchanged()
        for file in (folder / _NEW).iterdir():  # which are on the disk by now
            file.replace(folder / file.name)
        (folder / _NEW).rmdir()
        write_manifest(folder, manifest)
        return manifest.record(folder)
    finally:
        lock.release()


def merge(shares: Sequence[Path], out: Path, *, shard_tokens: int = SHARD_TOKENS) -> DatasetRecord:
    """Make one dataset, the same as one machine would have made, of the folders of `prepare_share`.

    The shares stay as they are. Each is read twice: to be checked, then to be written.

    Raises:
        UsageError: A share is missing, there twice, of another text or tokenizer, or no share, or
            `out` holds something.
        BrokenInputError: A share is damaged.
    """
    abouts = {path: read_share(path) for path in shares}
    first, *others = abouts
    about = abouts[first]
    for path in others:
        other = abouts[path]
        if other.share.of != about.share.of or replace(other, share=about.share) != about:
            problem = f"{path} and {first} are shares of different datasets"
            raise UsageError(problem, "merge the shares of one text, one tokenizer and one division alone")

    by_number = {other.share.number: path for path, other in abouts.items()}
    num_shares = about.share.of
    for number in range(num_shares):
        if number not in by_number:
            problem = f"The share {number + 1}/{num_shares} is missing ({len(by_number)} of {num_shares} are there)"
            raise UsageError(problem, "name it, too")
    if len(by_number) < len(shares):
        raise UsageError("One share is there twice", "name each once")

    tokenizer = load_tokenizer(first / TOKENIZER_NAME)
    if tokenizer.fingerprint != about.tokenizer_fingerprint:
        raise BrokenInputError(f"{first / TOKENIZER_NAME} has changed", f"prepare the share {first} again")
    _require_free(out)
    folders = [by_number[number] for number in range(num_shares)]
    for folder in folders:
        require_sound_chunks(folder, abouts[folder], tokenizer.vocab_size)
    return _written(about, tokenizer, folders, out, shard_tokens)


def _require_free(out: Path) -> None:
    """Refuse an output folder that holds something, or that cannot be written to."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} is there already", "choose another output folder")
    require_writable(out)


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
    there = manifest.tokenizer_fingerprint, manifest.kind, ", ".join(manifest.sources), manifest.split
    here = tokenizer.fingerprint, source.kind, ", ".join(source.names), division.split
    compared = zip(("tokenizer", "kind", "source", "split"), there, here, strict=True)
    differences = (f"its {name} is {old}, not {new}" for name, old, new in compared if old != new)
    why = next(differences, "the text, or how it is divided, has changed since")
    problem = f"{out} already holds another prepared dataset: {why}"
    raise UsageError(problem, "choose another output folder or remove this one")


def _chunks_of(out: Path, name: str) -> Path:
    return out.with_name(f".{out.name[:_LONGEST_NAME]}.{name}.chunks")


@contextmanager
def _chunk_folder(out: Path, name: str) -> Iterator[Path]:
    """The hidden folder beside `out` in which chunks lie until they are shards.

    It is locked, shared with other processes that encode the same. A kill leaves it, and so does
    Ctrl-C, where there is something in it; an error in the text does not. When all is well, those
    that a kill has left of other texts for the same `out` are removed.
    """
    folder = _chunks_of(out, name)
    made = [path for path in out.parents if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    lock = _shared_lock(folder)
    try:
        yield folder
        shutil.rmtree(folder, ignore_errors=True)
        _remove_abandoned_chunks(out)
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt | WorkerError):
            shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # there is a chunk in it
            for path in (folder, *made):
                path.rmdir()
        raise
    finally:
        if lock is not None:
            lock.release()


def _shared_lock(folder: Path) -> Lock | None:
    """The lock of a folder of chunks; None on a file system that has none."""
    try:
        return Lock(folder, shared=True)
    except OSError:
        return None


def _remove_abandoned_chunks(out: Path) -> None:
    """Remove the folders of chunks for `out` that no process holds."""
    if out.name != out.name[:_LONGEST_NAME]:
        return  # names that are cut off may be those of another folder
    pattern = re.compile(rf"\.{re.escape(out.name)}\.[0-9a-f]{{16}}(\.\d+\.\d+)?\.chunks")
    for folder in out.parent.glob(".*.chunks"):
        if not pattern.fullmatch(folder.name) or folder.is_symlink() or not folder.is_dir():
            continue
        try:
            lock = Lock(folder)
        except OSError:  # a process encodes into it, or it cannot be locked
            continue
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()
