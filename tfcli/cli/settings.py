"""From the command line to a recipe. Precedence: flag, --set, recipe, size, preset, default."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfcli.cli.terminal import Terminal
    from tfcli.recipe.recipe import Recipe


def recipe_from(
    *,
    arch: str | None = None,
    recipe: str | None = None,
    size: str | None = None,
    preset: str | None = None,
    assignments: list[str] | None = None,
    data: str | None = None,
    seed: int | None = None,
    device: str = "auto",
    threads: int = 0,
    init: Path | None = None,
) -> "Recipe":
    """Merge what was typed into one checked recipe. What nothing is said of comes from the run whose weights are the
    beginning."""
    from dataclasses import asdict

    from tfcli.models import presets
    from tfcli.recipe.loading import build_recipe, parse_assignments, read_recipe
    from tfcli.runs.config import read_config
    from tfcli.runs.directory import existing_run

    flags: dict[str, dict[str, Any]] = {
        "model": {"architecture": arch},
        "data": {"source": data},
        "train": {"seed": seed, "device": None if device == "auto" else device, "threads": threads or None},
        "generate": {"seed": seed},
    }
    given = {section: {k: v for k, v in values.items() if v is not None} for section, values in flags.items()}
    return build_recipe(
        {} if init is None else {"model": asdict(read_config(existing_run(init).config).model)},
        presets.preset(preset) if preset else {},
        presets.size(size) if size else {},
        {} if recipe is None else read_recipe(recipe),
        parse_assignments(assignments or []),
        given,
    )


def require_own_text(name: str | None, recipe: "Recipe") -> None:
    """Refuse to begin with a shipped recipe that is given no text for the file it names in its place.

    Raises:
        UsageError: naming the setting that takes the text.
    """
    from pathlib import Path

    from tfcli.errors import UsageError
    from tfcli.recipe.loading import read_toml
    from tfcli.recipe.shipped import shipped_recipes

    shipped = shipped_recipes()
    if name not in shipped:
        return
    written = read_toml(shipped[name]).get("data", {})
    for key in ("source", "validation"):
        file = getattr(recipe.data, key)
        if file is None or file != written.get(key) or file.startswith(("builtin:", "hf:")) or Path(file).exists():
            continue
        raise UsageError(
            f"The recipe {name} needs your own text, and there is no file {file!r}",
            f"give it with `--set data.{key}=FILE`",
        )


def with_vocabulary(terminal: "Terminal", recipe: "Recipe") -> "Recipe":
    """The vocabulary is a size of the model: that of the recipe's tokenizer, where the model says none."""
    from dataclasses import replace

    from tfcli.tokenization.load import load_tokenizer

    if recipe.model.vocab_size is not None:
        return recipe
    if recipe.tokenizer.path is not None:
        ids = load_tokenizer(Path(recipe.tokenizer.path)).vocab_size
    else:
        ids = recipe.tokenizer.vocab_size
        terminal.note(f"The vocabulary is taken as tokenizer.vocab_size = {ids}; set another with model.vocab_size.")
    return replace(recipe, model=replace(recipe.model, vocab_size=ids))
