"""Shipped recipes, found in the installed package, else in the repository it is run from."""

from pathlib import Path

import tfcli
from tfcli.errors import Misnamed, UsageError, near


def recipes_folder() -> Path:
    """The folder of the shipped recipes: inside the package, where a wheel carries it; else the repository's own."""
    package = Path(tfcli.__file__).parent
    packaged = package / "recipes"
    return packaged if packaged.is_dir() else package.parent / "recipes"


def shipped_recipes() -> dict[str, Path]:
    """Name and path of every shipped recipe, in order."""
    return {path.stem: path for path in sorted(recipes_folder().glob("*.toml"))}


def find_recipe(name_or_path: str) -> Path:
    """A TOML file by its path, or a shipped recipe by its name; else a UsageError, Misnamed where one was meant."""
    shipped = shipped_recipes()
    if name_or_path in shipped:
        return shipped[name_or_path]
    path = Path(name_or_path)
    if path.is_file():
        return path
    for run in (path, Path("runs", path)):
        if (run / "recipe.toml").is_file():
            recipe = str(run / "recipe.toml")
            raise Misnamed(f"{name_or_path!r} is a run, not a recipe", f"its recipe is {recipe}", name_or_path, recipe)
    if path.suffix == ".toml" or len(path.parts) > 1:
        raise UsageError(f"There is no recipe file {name_or_path!r}", "check the path, or see `tfcli recipes list`")
    if (own := path.with_name(f"{path.name}.toml")).is_file():
        raise Misnamed(f"There is no recipe {name_or_path!r}", f"there is {own}", name_or_path, str(own))
    guess = near(name_or_path, shipped)
    remedy = f"did you mean {guess[0]!r}" if guess else f"choose one of {', '.join(shipped)}"
    raise UsageError(f"There is no recipe {name_or_path!r}", remedy)
