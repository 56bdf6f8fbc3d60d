"""Batches made ahead: the same ones in the same order, never too many, and nothing is left behind."""

import itertools
import threading
import time
from collections.abc import Iterator

import pytest
import torch

from tfcli.training.loop import ahead, prefetched


def makers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("batches")]


def test_the_same_items_in_the_same_order():
    assert list(prefetched(iter(range(50)))) == list(range(50))


def test_no_more_are_made_ahead_than_may_wait():
    made: list[int] = []
    items = prefetched((made.append(n) or n for n in itertools.count()), depth=2)  # type: ignore[func-returns-value]
    assert next(items) == 0
    time.sleep(0.3)
    assert made == [0, 1, 2, 3], "one taken, two waiting, one in the hand of the thread"
    items.close()  # type: ignore[attr-defined]


def test_an_error_in_the_thread_is_raised_where_the_item_is_asked_for():
    def broken() -> Iterator[int]:
        yield 1
        raise ValueError("a shard is gone")

    items = prefetched(broken())
    assert next(items) == 1
    with pytest.raises(ValueError, match="a shard is gone"):
        next(items)


def test_closing_it_ends_the_thread():
    items = prefetched(itertools.count())
    next(items)
    assert makers()
    items.close()  # type: ignore[attr-defined]
    for thread in makers():
        thread.join(timeout=2)
    assert not makers()


def test_on_a_cpu_nothing_is_made_ahead():
    items = iter(range(3))
    assert ahead(items, torch.device("cpu")) is items
