"""Tiny trainings: a second or less each, on one core."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from tfcli.models.presets import preset, size
from tfcli.pipeline.training import resume_run, train_recipe
from tfcli.recipe.loading import build_recipe
from tfcli.recipe.recipe import Recipe
from tfcli.records.runs import TrainingFinished
from tfcli.runs.weights import load_tensors

ARCHITECTURES = ("decoder", "encoder", "encoder-decoder")

Settings = Mapping[str, Mapping[str, Any]]
Event = TypeVar("Event")

_SIZES: Settings = {
    "tokenizer": {"algorithm": "char", "vocab_size": 200},
    "data": {"max_documents": 120},
    "model": {"d_model": 16, "num_layers": 1, "num_heads": 2, "max_seq_len": 32},
    "train": {
        "steps": 12,
        "batch_size": 4,
        "learning_rate": 1e-2,
        "warmup_steps": 2,
        "evaluate_every": 4,
        "save_every": 4,
        "log_every": 2,
        "threads": 1,
        "device": "cpu",
    },
}
_KINDS: Mapping[str, Settings] = {
    "decoder": {},
    "encoder": {"model": {"positions": "learned", "norm": "layernorm", "norm_placement": "post"}},
    "encoder-decoder": {
        "tokenizer": {"algorithm": "word", "vocab_size": 400},
        "model": {"positions": "sinusoidal", "activation": "relu"},
    },
}


def tiny_recipe(architecture: str = "decoder", *settings: Settings) -> Recipe:
    """A recipe on the built-in corpus, with a few settings of one's own; later ones win."""
    chosen: Settings = {"model": {"architecture": architecture}}
    return build_recipe(_SIZES, _KINDS[architecture], chosen, *settings)


def preset_recipe(name: str, *settings: Settings) -> Recipe:
    """A preset at size tiny, trained as briefly as `tiny_recipe`, with a few settings of one's own."""
    short = {**_SIZES, "model": {"max_seq_len": 32}}
    return build_recipe(preset(name), size("tiny"), short, *settings)


class Events(list[Any]):
    """What a pipeline reported, in order."""

    def of(self, kind: type[Event]) -> list[Event]:
        """The events of one kind."""
        return [event for event in self if isinstance(event, kind)]

    def names(self) -> list[str]:
        """The kinds of all events."""
        return [type(event).__name__ for event in self]


def stop_after(steps: int) -> Callable[[], bool]:
    """A `should_stop` that says yes at the n-th question."""
    asked = 0

    def should_stop() -> bool:
        nonlocal asked
        asked += 1
        return asked >= steps

    return should_stop


def never() -> bool:
    """A `should_stop` that never says yes."""
    return False


def train_tiny(
    recipe: Recipe, out: Path, *, stop: Callable[[], bool] = never, init: Path | None = None
) -> tuple[TrainingFinished, Events]:
    """Train into `out`, and keep the events."""
    events = Events()
    return train_recipe(recipe, out, events.append, stop, init), events


def resume_tiny(run: Path, *, stop: Callable[[], bool] = never) -> tuple[TrainingFinished, Events]:
    """Go on with a run, and keep the events."""
    events = Events()
    return resume_run(run, events.append, stop), events


def weights(file: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    return load_tensors(file)[0]


def same(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> bool:
    """Whether two sets of tensors are equal to the last bit."""
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch on one thread: sums are then taken in one order only."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
