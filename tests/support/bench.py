"""Sides of a benchmark in this process: what they say goes through JSON, and no process is started."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tfcli.bench.worker import open_side

TINY = {
    "model": {
        "d_model": 16,
        "num_layers": 1,
        "num_decoder_layers": None,
        "num_heads": 2,
        "d_ff": None,
        "max_seq_len": 8,
        "vocab_size": 24,
    },
    "train": {"batch_size": 2, "threads": 1, "device": "cpu"},
}


class SideHere:
    """In the place of `SideProcess`."""

    def __init__(self, name: str, request: Mapping[str, Any], environment: object = None) -> None:
        self.name, self.answers = name, list[Any]()
        self._side = open_side(json.loads(json.dumps(request)))
        self.about = json.loads(json.dumps(self._side.about()))

    def step(self) -> Any:
        self.answers.append(json.loads(json.dumps(self._side.step())))
        return self.answers[-1]

    def stop(self) -> Any:
        return {"memory": 123_000_000}

    def __enter__(self) -> "SideHere":
        return self

    def __exit__(self, *_: object) -> None:
        pass


def measure_here(patch: pytest.MonkeyPatch) -> None:
    """Sides take their steps in this process, and the machine's limits are those of tiny products."""
    for bench in ("train", "generate", "data"):
        patch.setattr(f"tfcli.bench.{bench}.SideProcess", SideHere)
    patch.setattr("tfcli.bench.machine._ROWS", 16)
    patch.setattr("tfcli.bench.train.SQUARES", ((8, 8, 8),))
    patch.setattr("tfcli.bench.machine._SECONDS", 0.0)
