"""A recipe as TOML text: every setting written out, so that the file alone reproduces the run."""

import json
from dataclasses import fields
from typing import Any

from tfcli.recipe.recipe import SECTIONS, Recipe


def to_toml(recipe: Recipe) -> str:
    """The recipe as TOML. Settings that are None have no line, for TOML has no null; nor has a name that is none."""
    top = {f.name: getattr(recipe, f.name) for f in fields(recipe) if f.name not in SECTIONS}
    lines = [f"{name} = {_value(value)}" for name, value in top.items() if value or name != "name"]
    for section in SECTIONS:
        settings = getattr(recipe, section)
        if recipe.is_imported and section in ("tokenizer", "data", "train"):
            continue  # these stages happened elsewhere
        written = [(f.name, getattr(settings, f.name)) for f in fields(settings)]
        if section in ("check", "result", "inspect", "origin") and settings == SECTIONS[section]():
            continue
        lines += ["", f"[{section}]", *(f"{name} = {_value(value)}" for name, value in written if value is not None)]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, float):
        return repr(value)  # Python's shortest round-trip form is TOML too
    # JSON's strings are TOML's, but for the delete character, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
