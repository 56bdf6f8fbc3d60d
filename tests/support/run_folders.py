"""Run directories made by hand, with metrics of one's choice: nothing is trained."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from tests.support.runs import Settings, tiny_recipe
from tfcli.files import digest, read_json, write_json
from tfcli.recipe.loading import to_toml
from tfcli.records.roles import TokenRoles
from tfcli.records.runs import Evaluated, SettingChanged, StepsDone
from tfcli.runs.checkpoint import WITHOUT_DIGEST
from tfcli.runs.config import RUN_DATA_VERSION, RunConfig, write_config
from tfcli.runs.directory import RunDirectory
from tfcli.runs.metrics import append_metrics

PARAMETERS = 12 * 4 + 4

Event = StepsDone | Evaluated | SettingChanged


def write_run(
    path: Path,
    events: Sequence[Event] = (),
    *settings: Settings,
    architecture: str = "decoder",
    tokenizer: str = "0123456789abcdef",
    source: str = "builtin:stories",
    finished: bool = True,
) -> Path:
    """A run that has gone as far as its events say, with weights of PARAMETERS numbers."""
    run = RunDirectory(path)
    recipe = tiny_recipe(architecture, *settings).resolved()
    recipe = replace(recipe, model=replace(recipe.model, vocab_size=12), data=replace(recipe.data, source=source))
    step = max((event.step for event in events), default=0)
    state = run.checkpoint(step)
    state.mkdir(parents=True)
    run.recipe.write_text(to_toml(recipe), encoding="utf-8")
    write_config(
        run.config,
        RunConfig(recipe.model, TokenRoles(0, 1, 2, 3 if architecture == "encoder" else None), tokenizer, "run"),
    )
    facts = {"kind": "text", "sources": [source], "split": "hash", "fingerprint": f"{tokenizer}da7a"}
    counts = {"train_documents": 900, "validation_documents": 100}
    write_json(run.data, {"format_version": RUN_DATA_VERSION, **facts, **counts})
    save_file({"embedding": np.zeros((12, 4), np.float32), "gain": np.ones(4, np.float32)}, run.weights)
    write_json(state / "state.json", {"format_version": WITHOUT_DIGEST, "step": step, "finished": finished})
    write_json(run.tokenizer, {})
    run.metrics.touch()
    for event in events:
        append_metrics(run.metrics, event)
    return path


def signed(state: Path, **change: Any) -> None:
    """Other counters in a `state.json`, under a digest as if they were right."""
    values = {**read_json(state), **change}
    counters = {k: v for k, v in values.items() if k not in ("format_version", "belongs_to", "digest")}
    write_json(state, {**values, "digest": digest(counters, values["belongs_to"])})


def falling(
    steps: int, lowest: float = 1.9, *, every: int = 10, rate: float = 3e-3, seconds: float = 0.1
) -> list[Event]:
    """A loss that falls as exp(−step/200) from 4 to `lowest`, evaluated ten times; the same events every time."""
    events: list[Event] = []
    best = math.inf
    for step in range(every, steps + 1, every):
        loss = lowest + (4.0 - lowest) * math.exp(-step / 200)
        noise = 0.05 * math.sin(step * 1.7) * loss
        share = 0.5 + 0.5 * math.cos(math.pi * step / steps)
        speed = 1024 / seconds
        events.append(
            StepsDone(
                step, steps, step * 1024, loss + noise, rate * share, 0.5, speed, step * seconds, 0.0, padding=0.03
            )
        )
        if step % max(every, steps // 10) == 0:
            score = loss + 0.1 + max(0.0, (step / steps - 0.8) * 0.2)
            events.append(Evaluated(step, 5000, score, 0.4, score < best, 0.4))
            best = min(best, score)
    return events
