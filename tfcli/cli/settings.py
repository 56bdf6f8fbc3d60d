"""From the command line to a recipe. Precedence: flag, --set, recipe, size, preset, default."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
) -> "Recipe":
    """Merge what was typed into one checked recipe."""
    from tfcli.models import presets
    from tfcli.recipe.loading import build_recipe, parse_assignments, read_recipe

    flags: dict[str, dict[str, Any]] = {
        "model": {"architecture": arch},
        "data": {"source": data},
        "train": {"seed": seed, "device": None if device == "auto" else device, "threads": threads or None},
    }
    given = {section: {k: v for k, v in values.items() if v is not None} for section, values in flags.items()}
    return build_recipe(
        presets.preset(preset) if preset else {},
        presets.size(size) if size else {},
        read_recipe(recipe) if recipe else {},
        parse_assignments(assignments or []),
        given,
    )
