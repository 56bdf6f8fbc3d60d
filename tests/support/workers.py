"""Several workers of one training as processes of this machine, without torchrun: a fork of a process that has imported
everything starts in no time."""

import multiprocessing
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.runs import Events, never, stop_after
from tfcli.recipe.recipe import Recipe

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["tests.support.preloaded"])


def in_workers(size: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What a function returns in each of `size` workers, in the order of their ranks; it gets a `Workers` first.

    An exception is returned like a result.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pipes = [_SERVER.Pipe() for _ in range(size)]
    processes = [
        _SERVER.Process(target=_work, args=(pipe, rank, size, port, dict(os.environ), function, arguments))
        for rank, (_, pipe) in enumerate(pipes)
    ]
    for process in processes:
        process.start()
    results = [ours.recv() if ours.poll(60) else TimeoutError("no answer") for ours, _ in pipes]
    for process in processes:
        process.join(5)
        process.kill()
    return results


def _work(
    pipe: Any, rank: int, size: int, port: int, environment: dict[str, str], function: Any, arguments: Any
) -> None:
    import torch

    from tfcli.training.distributed import process_group

    torch.set_num_threads(1)
    place = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size}
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": 1}
    os.environ.update(environment)
    os.environ.update({name: str(value) for name, value in {**place, **where}.items()})
    try:
        with process_group() as workers:
            result = function(workers, *arguments)
    except Exception as error:
        result = error
    pipe.send(result)


def train_among(workers: Any, recipe: Recipe, out: Path, steps: int | None = None) -> Events:
    """Begin a run, or go on with it, and stop it after some steps."""
    from tfcli.pipeline.training import train_recipe

    events = Events()
    train_recipe(recipe, out, events.append, never if steps is None else stop_after(steps), workers=workers)
    return events


def resume_among(workers: Any, run: Path, steps: int | None = None, settings: Any = None) -> Events:
    """Go on with a run, and stop it after some steps."""
    from tfcli.pipeline.training import resume_run

    events = Events()
    resume_run(run, events.append, never if steps is None else stop_after(steps), settings, workers)
    return events
