"""``[data]``: the text, and its train/validation split."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Lt, MinLen, Unit

from tfcli.errors import UsageError

Split = Literal["hash", "tail", "file"]


@dataclass(frozen=True)
class DataSection:
    """Where the text comes from and how it is divided into training and validation."""

    __pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}  # noqa: RUF012 (read by pydantic, never changed)

    source: str | tuple[str, ...] | None = None
    """Paths, globs, `-`, builtin:NAME or hf:owner/name. None: builtin:stories, or builtin:pt-en for pairs."""

    validation: Annotated[str, MinLen(1)] | None = None
    """The source of the validation part, where `split` is "file"."""

    split: Split | None = None
    """How the validation part is held out (train/validation split). hash: by content, so that adding documents moves
    none of the others. tail: the last share of the text. file: `validation` names it. None: file where `validation` is
    given; else the source's own division, if it has one; else hash, or tail below 100 documents."""

    validation_fraction: Annotated[float, Gt(0), Lt(1), Unit("share")] = 0.1
    """Share of the validation part: of the documents for hash, of the characters for tail."""

    columns: tuple[str, ...] | None = None
    """Columns to read from tables: one for text, two (source, target) for pairs. None: they are found by their
    names."""

    max_documents: Annotated[int, Ge(1), Unit("documents")] | None = None
    """Read no more documents than this. None: all, or a built-in generator's own number."""

    seed: Annotated[int, Ge(0), Lt(2**63)] = 0
    """Seed of the built-in generators."""

    def __post_init__(self) -> None:
        for name in (self.source,) if isinstance(self.source, str) else self.source or ():
            if not name.strip():
                raise UsageError("data.source has an empty name", "name a source, or leave data.source out")
        if self.source == ():
            raise UsageError("data.source = [] names no source", "name one, or leave data.source out")
