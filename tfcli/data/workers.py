"""Workers that encode a corpus together: processes on this machine, or a Ray cluster (Ray Data).

Run as ``python -m tfcli.data.workers`` with the request as JSON on standard input; answers in JSON lines.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tfcli.corpora import Kind
from tfcli.data.chunks import Progress, Share, counted, encode_share, encoded_chunks, skipped_records
from tfcli.errors import BrokenInputError, TfcliError, UsageError, first_lines
from tfcli.files import replacing
from tfcli.machine import PIPE, child, cores
from tfcli.records.dataset import SkippedRecords
from tfcli.tokenization.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from tfcli.corpora.split import TrainValidationSplit
    from tfcli.recipe.recipe import DataSection
    from tfcli.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class Origin:
    """What another process opens the same corpus and tokenizer by: the data section, and a file or a run."""

    section: DataSection
    tokenizer: Path


class WorkerError(TfcliError):
    """A worker has ended before its share was done."""


@dataclass(frozen=True)
class Request:
    """What workers are asked for: the chunks of a corpus, in a folder."""

    origin: Origin
    kind: Kind
    folder: Path
    workers: int

    def opened_by(self) -> dict[str, Any]:
        """What another process opens the corpus and the tokenizer by (`_open`), as JSON."""
        section = {name: value for name, value in asdict(self.origin.section).items() if value is not None}
        return {"data": section, "kind": self.kind, "tokenizer": str(self.origin.tokenizer.absolute())}


def _open(asked: Mapping[str, Any]) -> tuple[TrainValidationSplit, Tokenizer]:
    from tfcli.corpora.split import open_split
    from tfcli.recipe.loading import build_recipe

    section = build_recipe({"data": asked["data"]}).data
    return open_split(section, asked["kind"]), load_tokenizer(Path(asked["tokenizer"]))


def _raise(answer: Mapping[str, Any]) -> None:
    kind = {kind.exit_code: kind for kind in (TfcliError, UsageError, BrokenInputError)}
    raise kind[answer["exit_code"]](answer["problem"], answer["remedy"])


def _told(error: TfcliError) -> dict[str, Any]:
    return {"problem": error.problem, "remedy": error.remedy, "exit_code": error.exit_code}


Encoded = tuple[tuple[int, ...], SkippedRecords]
"""The number of all chunks of each source, and what was left out."""


def _answer(numbers: Sequence[int], division: TrainValidationSplit) -> dict[str, Any]:
    skipped = skipped_records(division)
    return {"chunks": numbers, "skipped": [skipped.count, skipped.first]}


def _encoded(answer: Mapping[str, Any]) -> Encoded:
    count, first = answer["skipped"]
    return tuple(answer["chunks"]), SkippedRecords(count, tuple(first))


def encode_by_workers(request: Request, progress: Progress | None) -> Encoded:
    """Have each worker encode its share; each reads all of the text."""
    asked = {**request.opened_by(), "folder": str(request.folder.absolute()), "of": request.workers}
    threads = str(max(1, cores() // request.workers))
    heard: list[dict[str, Any]] = [{} for _ in range(request.workers)]
    with ExitStack() as stack:
        listeners = []
        for number in range(request.workers):
            environment = {"RAYON_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "true"}
            worker = child("tfcli.data.workers", stdin=PIPE, stdout=PIPE, environment=environment)
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
                _raise(heard[number])
            if process.wait() or "chunks" not in heard[number]:
                problem = f"Worker {number + 1} of {request.workers} ended (exit code {process.returncode})"
                raise WorkerError(problem, "give the command again: it goes on with what is done")
    return _encoded(heard[0])


def _work(asked: dict[str, Any]) -> None:
    """One worker's share, told of on standard output."""

    def tell(**answer: Any) -> None:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()

    def progress(documents: int, tokens: int) -> None:
        tell(documents=documents, tokens=tokens)

    try:
        share = Share(asked["number"], asked["of"])
        division, tokenizer = _open(asked)
        numbers = encode_share(division, tokenizer, Path(asked["folder"]), share, progress)
        tell(**_answer(numbers, division))
    except TfcliError as error:
        tell(**_told(error))


def encode_by_ray(request: Request, progress: Progress | None, address: str) -> Encoded:
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
    done, answer = np.zeros(2, np.int64), {}
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        of = request.workers if request.workers > 1 else max(2, int(ray.cluster_resources().get("CPU", 2)))
        there = [path.name for path in request.folder.glob("*.npz")]
        asked = {**request.opened_by(), "of": of, "there": there}
        shares = ray.data.range(of, override_num_blocks=of)
        for row in shares.map_batches(_ray_share, batch_size=1, fn_args=(asked,)).iter_rows():
            name, content = row["name"], row["content"]
            if not name:
                answer = json.loads(content)
                if "problem" in answer:
                    _raise(answer)
                continue
            if content:
                with replacing(request.folder / name, durable=False) as temporary:
                    temporary.write_bytes(content)
            if progress:
                done += counted(request.folder / name)
                progress(*done.tolist())
    except ray.exceptions.RayError as error:
        raise WorkerError(
            f"The Ray cluster at {address} failed ({first_lines(error)})", "give the command again"
        ) from error
    finally:
        ray.shutdown()
    return _encoded(answer)


def _ray_share(batch: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The chunks of one share, as they are encoded: names and bytes; at last, without a name, how many there are."""

    def row(name: str, content: bytes) -> dict[str, Any]:
        return {"name": np.array([name]), "content": np.array([content], object)}

    numbers = []
    try:
        share, there = Share(int(batch["id"][0]), asked["of"]), frozenset(asked["there"])
        division, tokenizer = _open(asked)
        for found in encoded_chunks(division, tokenizer, share, there.__contains__):
            if isinstance(found, int):
                numbers.append(found)
            else:
                name, chunk = found
                yield row(name, b"" if chunk is None else chunk.content())
    except TfcliError as error:
        yield row("", json.dumps(_told(error)).encode())
    else:
        yield row("", json.dumps(_answer(numbers, division)).encode())


if __name__ == "__main__":
    _work(json.load(sys.stdin))
