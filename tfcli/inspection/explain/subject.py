"""What an explanation speaks of: one attention, in its layer, in its model, on one text."""

from dataclasses import dataclass

from torch import Tensor

from tfcli.errors import UsageError
from tfcli.inspection.passes import AttentionPass, LayerPass, ModelPass
from tfcli.layers.layer import TransformerLayer
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.layers.positions import PositionSignal
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection


@dataclass(frozen=True)
class Words:
    """How a toy's text becomes numbers: its vocabulary, the id of each of its words, and where E and R are.

    Shape:
        table: (|V|, D); positions: (T, D)
    """

    vocabulary: tuple[str, ...]
    ids: Tensor
    table: Tensor
    positions: Tensor


@dataclass(frozen=True)
class Subject:
    """One layer of a model that has read a text.

    Args:
        label: what is explained, in a few words.
        attention, attention_pass: that of the layer that is explained, its own or the one across.
        inputs: the ids that the model has read.
        words: of a toy.
    """

    label: str
    model: Transformer
    passed: ModelPass
    inputs: tuple[Tensor, ...]
    layer: TransformerLayer
    layer_pass: LayerPass
    attention: MultiHeadAttention
    attention_pass: AttentionPass
    signal: PositionSignal
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    words: Words | None = None

    @property
    def section(self) -> ModelSection:
        """The model's shape."""
        return self.model.section

    @property
    def has_projections(self) -> bool:
        """Whether queries, keys and values are more than X itself."""
        return self.section.attention_score != "parameter_free"

    def require_sublayers_in_turn(self) -> None:
        """Refuse what shows a layer as its sublayers one after the other.

        Raises:
            UsageError: they read the same vectors.
        """
        if self.section.parallel_residual:
            raise UsageError(
                "With model.parallel_residual = true attention and feed-forward stand side by side, and this picture "
                "has them one after the other",
                "see `tfcli explain attention`, or name another run",
            )

    @property
    def is_plain(self) -> bool:
        """Whether attention is softmax(XXᵀ)X and nothing else."""
        return not self.has_projections and self.attention.num_heads == 1

    @property
    def is_cross(self) -> bool:
        """Whether keys and values are those of another text."""
        return self.attention.cross
