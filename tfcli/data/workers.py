"""Workers that encode a corpus together: processes on this machine, or a Ray cluster (Ray Data).

Run as ``python -m tfcli.data.workers`` with the request as JSON on standard input; answers in JSON lines."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tfcli import addresses
from tfcli.corpora import Kind
from tfcli.data.chunks import Encoded, Progress, Share, counted, encode_share, encoded_chunks
from tfcli.errors import BrokenInputError, Remark, TfcliError, UsageError, first_lines
from tfcli.files import replacing
from tfcli.machine import PIPE, child, cores
from tfcli.records.dataset import SkippedRecords
from tfcli.tokenization.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from tfcli.corpora.split import TrainValidationSplit
    from tfcli.recipe.data import DataSection
    from tfcli.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class Origin:
    """What another process opens the same corpus and tokenizer by: the data section, and a file or a run."""

    section: DataSection
    tokenizer: Path

    def asked(self, kind: Kind) -> dict[str, Any]:
        """The same as JSON."""
        section = {name: value for name, value in asdict(self.section).items() if value is not None}
        tokenizer = str(self.tokenizer.absolute())
        return {"data": section, "kind": kind, "tokenizer": tokenizer, "addresses": addresses.shared()}


class WorkerError(TfcliError):
    """A worker has ended before its share was done."""


def _open(asked: Mapping[str, Any]) -> tuple[TrainValidationSplit, Tokenizer]:
    from tfcli.corpora.split import open_split
    from tfcli.recipe.loading import build_recipe

    addresses.share(asked["addresses"])
    warnings.simplefilter("ignore", Remark)  # the process that asks has printed it
    section = build_recipe({"data": asked["data"]}).data
    return open_split(section, asked["kind"]), load_tokenizer(Path(asked["tokenizer"]))


def _told(found: Encoded | TfcliError) -> dict[str, Any]:
    if isinstance(found, TfcliError):
        return {"problem": found.problem, "remedy": found.remedy, "exit_code": found.exit_code}
    chunks, skipped = found
    return {"chunks": chunks, "skipped": [skipped.count, skipped.first]}


def _heard(answer: Mapping[str, Any]) -> Encoded:
    if "problem" in answer:
        kind = {kind.exit_code: kind for kind in (TfcliError, UsageError, BrokenInputError)}
        raise kind[answer["exit_code"]](answer["problem"], answer["remedy"])
    count, first = answer["skipped"]
    return tuple(answer["chunks"]), SkippedRecords(count, tuple(first))


def encode_by_workers(asked: dict[str, Any], folder: Path, workers: int, progress: Progress) -> Encoded:
    """Have each worker encode its share of what `Origin.asked` says; each reads all of the text."""
    asked |= {"folder": str(folder.absolute()), "of": workers}
    environment = {"RAYON_NUM_THREADS": str(max(1, cores() // workers)), "TOKENIZERS_PARALLELISM": "true"}
    heard: list[dict[str, Any]] = [{} for _ in range(workers)]
    with ExitStack() as stack:
        listeners = []
        for number in range(workers):
            process = stack.enter_context(child("tfcli.data.workers", stdin=PIPE, stdout=PIPE, environment=environment))
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(json.dumps({**asked, "number": number}))
            process.stdin.close()

            def listen(answers: Iterable[str] = process.stdout, number: int = number) -> None:
                for line in answers:
                    heard[number] |= json.loads(line)

            listeners.append((process, threading.Thread(target=listen, daemon=True)))
            listeners[-1][1].start()
        for number, (process, listener) in enumerate(listeners):
            while listener.is_alive():
                listener.join(0.2)
                if progress:
                    progress(sum(one.get("documents", 0) for one in heard), sum(one.get("tokens", 0) for one in heard))
            if "problem" not in heard[number] and (process.wait() or "chunks" not in heard[number]):
                problem = f"Worker {number + 1} of {workers} ended (exit code {process.returncode})"
                raise WorkerError(problem, "give the command again: it goes on with what is done")
            encoded = _heard(heard[number])
    return encoded


def _work(asked: dict[str, Any]) -> None:
    """One worker's share, told of on standard output."""

    def tell(answer: Mapping[str, Any]) -> None:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()

    def progress(documents: int, tokens: int) -> None:
        tell({"documents": documents, "tokens": tokens})

    try:
        folder, share = Path(asked["folder"]), Share(asked["number"], asked["of"])
        tell(_told(encode_share(*_open(asked), folder, share, progress, is_whole=True)))
    except TfcliError as error:
        tell(_told(error))


def encode_by_ray(asked: dict[str, Any], folder: Path, workers: int, progress: Progress, address: str) -> Encoded:
    """Have the processes of a Ray cluster encode a share each, and bring the chunks here. Ray Data gives what a process
    that died had to do to another one."""
    try:
        import ray
    except ImportError as error:
        raise UsageError("--engine ray needs the library ray", "pip install 'tfcli[ray]'") from error
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # it would warn of what will change
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UsageError(f"There is no Ray cluster at {address} ({first_lines(error)})", "check --address") from error
    done = np.zeros(2, np.int64)
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        of = workers if workers > 1 else max(2, int(ray.cluster_resources().get("CPU", 2)))
        asked |= {"of": of, "there": [path.name for path in folder.glob("*.npz")]}
        shares = ray.data.range(of, override_num_blocks=of)
        for row in shares.map_batches(_ray_share, batch_size=1, fn_args=(asked,)).iter_rows():
            name, content = row["name"], row["content"]
            if not name:
                encoded = _heard(json.loads(content))
                continue
            if content:
                with replacing(folder / name, durable=False) as temporary:
                    temporary.write_bytes(content)
            if progress:
                done += counted(folder / name)
                progress(*done.tolist())
    except ray.exceptions.RayError as error:
        problem = f"The Ray cluster at {address} failed ({first_lines(error)})"
        raise WorkerError(problem, "give the command again") from error
    finally:
        ray.shutdown()
    return encoded


def _ray_share(batch: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The chunks of one share, as they are encoded: names and bytes; at last, without a name, how many there are."""

    def row(name: str, content: bytes) -> dict[str, Any]:
        return {"name": np.array([name]), "content": np.array([content], object)}

    numbers = []
    try:
        share, there = Share(int(batch["id"][0]), asked["of"]), frozenset(asked["there"])
        division, tokenizer = _open(asked)
        for found in encoded_chunks(division, tokenizer, share, there.__contains__, is_whole=True):
            if isinstance(found, int):
                numbers.append(found)
            else:
                name, chunk = found
                yield row(name, b"" if chunk is None else chunk.content())
        told = _told((tuple(numbers), division.skipped()))
    except TfcliError as error:
        told = _told(error)
    yield row("", json.dumps(told).encode())


if __name__ == "__main__":
    _work(json.load(sys.stdin))
