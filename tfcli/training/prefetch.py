"""Prefetching: batches are made ready while the device works."""

import queue
import threading
from collections.abc import Iterator
from typing import TypeVar

import torch

Item = TypeVar("Item")
Entry = tuple[Item | None, BaseException | None]

DEPTH = 2
"""Batches that wait, at most."""


def ahead(items: Iterator[Item], device: torch.device) -> Iterator[Item]:
    """The items, made ahead where the device works by itself. On a CPU all cores are busy with the step, and a batch
    takes a thousandth of it (docs/benchmarks.md)."""
    return items if device.type == "cpu" else prefetched(items)


def prefetched(items: Iterator[Item], depth: int = DEPTH) -> Iterator[Item]:
    """The same items in the same order, made by a thread that is at most `depth` ahead. What goes wrong in the thread
    is raised where the item is asked for. Closing the iterator ends the thread."""
    ready: queue.Queue[Entry[Item]] = queue.Queue(depth)
    closed = threading.Event()

    def make() -> None:
        try:
            for item in items:
                if not _put(ready, (item, None), closed):
                    return
            _put(ready, (None, StopIteration()), closed)
        except BaseException as error:  # handed on, whatever it is
            _put(ready, (None, error), closed)

    threading.Thread(target=make, name="batches", daemon=True).start()
    try:
        while True:
            item, error = ready.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item  # type: ignore[misc]
    finally:
        closed.set()


def _put(ready: "queue.Queue[Entry[Item]]", entry: Entry[Item], closed: threading.Event) -> bool:
    """Wait for a free place; False once nobody asks any more."""
    while not closed.is_set():
        try:
            ready.put(entry, timeout=0.1)
            return True
        except queue.Full:
            continue
    return False
