"""What a model's answer owes to each part: the answer when the part comes from another text."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tfcli.inspection.attention import AttentionKind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PatchPart = Literal["residual", "attention", "cross_attention", "feed_forward", "heads", "patterns", "values", "paths"]
SUBLAYERS = {"residual": "residual", "attention": "attention", "cross_attention": "cross", "feed_forward": "MLP"}
HEADS = {"heads": "output", "patterns": "pattern", "values": "values"}
KINDS = {"encoder_self": "encoder head", "decoder_self": "decoder head", "cross": "cross-attention head"}


@dataclass(frozen=True)
class PatchedSide:
    """The tokens that one side of the model reads in either text, of equal number."""

    side: Literal["encoder", "decoder"]
    clean: tuple[str, ...]
    corrupt: tuple[str, ...]

    @property
    def differing(self) -> list[int]:
        """The positions where the texts differ."""
        return [place for place, (one, other) in enumerate(zip(self.clean, self.corrupt, strict=True)) if one != other]


@dataclass(frozen=True)
class PatchGrid:
    """The effects of one part: a row a layer; a column a position of `side`, or a head of an attention `kind`, or, of
    "paths", a receiver: its heads, then the MLP. NaN where there is none.
    Shape: effects (L, T), (L, H) or (L, H + 1)."""

    part: PatchPart
    side: Literal["encoder", "decoder"]
    kind: AttentionKind | None
    effects: "NDArray[np.float32]"

    def name(self, layer: int, column: int, *, sides: bool) -> str:
        """A cell in words, without its position. The last receiver of paths is the MLP, but of cross-attention."""
        is_last = (self.part, column) == ("paths", self.effects.shape[1] - 1)
        if self.kind is None or (is_last and self.kind != "cross"):
            return f"{self.side} " * sides + f"{SUBLAYERS.get(self.part, 'MLP')} {layer}"
        return f"{KINDS[self.kind] if sides else 'head'} {layer}.{column}"


@dataclass(frozen=True)
class Patching:
    """The logit of `token` less that of `against` at a `position` is `clean` on one text and `corrupt` on the other. An
    effect is the share of the way from the patched text's number to the other's. "denoising" patches the corrupt text
    with the clean one's values, "noising" the other way. What is below `rounding`, in logits, reads 0.
    `sender` and `direct`: of path patching, the head and its effect on the logits by no later part."""

    sides: tuple[PatchedSide, ...]
    position: int
    token: str
    against: str
    clean: float
    corrupt: float
    direction: Literal["denoising", "noising"]
    grids: tuple[PatchGrid, ...]
    rounding: float
    sender: str | None = None
    direct: float | None = None
