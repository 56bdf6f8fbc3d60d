"""Context extension: positions beyond those that a model was trained on."""

from tfcli.errors import UsageError
from tfcli.layers.embedding import TokenEmbedding
from tfcli.layers.positions import AttentionPositions
from tfcli.models.transformer import Transformer


def extend_context(model: Transformer, length: int) -> None:
    """Make room for `length` positions in a model's tables. Formulas go on; ALiBi and T5's biases have no end.

    What the model makes of positions it has not been trained on is another matter.

    Raises:
        UsageError: its positions are learned, and there are no vectors for others.
    """
    require_extendable(model)
    for module in model.modules():
        if isinstance(module, TokenEmbedding | AttentionPositions):
            module.extend(model.section, length)


def require_extendable(model: Transformer) -> None:
    """Refuse to go beyond the context where positions end there.

    Raises:
        UsageError: they are learned.
    """
    if model.section.positions == "learned":
        raise UsageError(
            f"This model has learned its {model.section.max_seq_len} positions one by one, and has none beyond them",
            "choose --beyond-context slide, or stop",
        )
