"""Recipes: everything a run is made from, as frozen dataclasses and TOML."""

from typing import ClassVar


class Section:
    """What pydantic is told of every section: it has no other keys, and no number that is infinite or none."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}
