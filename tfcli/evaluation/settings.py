"""What a user may choose about an evaluation."""

from dataclasses import dataclass

from tfcli.recipe.train import Windows


@dataclass(frozen=True)
class EvaluationSettings:
    """The defaults score every token once and translate as the run's recipe says."""

    stride: int | None = None
    """Tokens between the starts of a decoder's windows, each scored in the first that holds it; None: the context, so
    that windows do not overlap."""

    windows: Windows | None = None
    """What a decoder or an encoder reads at a time; None: as it was trained, and an imported run a document."""

    context: int | None = None
    """Tokens of a window; None: as in training."""

    pseudo: bool = False
    """Score an encoder's tokens masked one by one as well."""

    beam: int | None = None
    """Hypotheses kept while translating; None: the recipe's."""


AS_IT_IS = EvaluationSettings()
"""Nothing chosen."""
