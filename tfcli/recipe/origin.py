"""``[origin]``: where an imported run comes from. A run that was trained here has none."""

from dataclasses import dataclass


@dataclass(frozen=True)
class OriginSection:
    """What `tfcli import` read. It stands in place of the stages, which happened elsewhere."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 (read by pydantic, never changed)

    source: str = ""
    """The folder, or hf:owner/name, as it was given."""

    layout: str = ""
    """The family of the checkpoint: gpt2, bert, llama, …"""

    weights: str = ""
    """Fingerprint of all tensors as they were read."""

    ignored: tuple[str, ...] = ()
    """Settings of the checkpoint that it was read without, as --ignore-setting named them."""
    bos: str | None = None
    """The token that texts begin with, or none, where `--bos` named it."""
