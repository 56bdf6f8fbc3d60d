"""What may be changed of a run while it goes on: ``tfcli train --resume RUN --set KEY=VALUE``."""

import shlex
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tfcli.errors import UsageError, shortened
from tfcli.recipe.loading import Settings, build_recipe, load_recorded, recorded_settings
from tfcli.recipe.recipe import DECISIVE, Change, Recipe, changes_between

CHANGEABLE = {
    # Beyond the end of a finished run, too.
    "how long": ("train.steps", "train.epochs", "train.patience", "train.schedule", "train.schedule_steps"),
    # What one changes after a loss that diverged, from the last good checkpoint on.
    "how fast": (
        "train.learning_rate",
        "train.muon_learning_rate",
        "train.final_learning_rate",
        "train.clip_norm",
        "train.skip_nonfinite",
    ),
    # None of them touches the weights.
    "how often": (
        "train.evaluate_every",
        "train.save_every",
        "train.log_every",
        "train.keep_checkpoints",
        "train.average_checkpoints",
    ),
    # The same computation, up to rounding, on another machine.
    "where": (
        "train.device",
        "train.threads",
        "train.parallel",
        "train.attention",
        "train.compile",
        "train.activation_checkpointing",
    ),
}
"""The keys that a resume may change, by what they say. All others make the run what it is: the text and its order, the
model, the state of its optimizer. With another value it would be another run."""


def changed_recipe(path: Path, settings: Settings, typed: Mapping[str, str] | None = None) -> tuple[Recipe, Recipe]:
    """A run's recipe, and the same with some settings changed, checked as a whole.

    Args:
        typed: how each key was, on a command line.

    Raises:
        UsageError: a key is unknown or may not change (names it and those that may), or a value is out of range.
        BrokenInputError: the recipe is damaged.
    """
    recorded = load_recorded(path)
    if not settings:
        return recorded, recorded
    recipe = build_recipe(recorded_settings(path), settings)
    typed = typed or {}
    for key, before, after in changes_between(recorded, recipe):
        if not may_change(key):
            may = "; ".join(f"{what}: {', '.join(keys)}" for what, keys in CHANGEABLE.items())
            was, wanted = ("left out" if value is None else shortened(repr(value)) for value in (before, after))
            takes_weights = not key.startswith(("model.", "tokenizer.")) or key.endswith("dropout")
            init = f"--init {shlex.quote(str(path.parent))}"
            begin = f"with its weights: tfcli train {init}" if takes_weights else f"({init} fits no other): tfcli train"
            words = " ".join(["--recipe", shlex.quote(str(path)), *dict.fromkeys(typed.values())])
            problem = f"{key} is {was} in this run, and with {typed.get(key, wanted)} it would be another one"
            raise UsageError(problem, f"begin a new one {begin} {words}; or change only {may}")
    return recorded, recipe


def settings_that_decide(recipe: Recipe) -> dict[str, dict[str, Any]]:
    """The sections of a recipe that say what is computed. The others shape only what is shown."""
    settings = {section: asdict(getattr(recipe, section)) for section in DECISIVE}
    return {name: {k: v for k, v in section.items() if v is not None} for name, section in settings.items()}


def edits_since(trained_by: Settings, recorded: Recipe) -> list[Change]:
    """What was changed in a run's recipe since it was trained by these settings, those of `settings_that_decide`."""
    changes = changes_between(build_recipe(trained_by), recorded)
    return [change for change in changes if change.key.partition(".")[0] in DECISIVE]


def may_change(key: str) -> bool:
    """Whether a resume may change it."""
    return any(key in keys for keys in CHANGEABLE.values())
