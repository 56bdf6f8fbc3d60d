"""What a user may choose about an evaluation."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EvaluationSettings:
    """The defaults score every token once and translate as the run's recipe says."""

    stride: int | None = None
    """Tokens between the starts of a decoder's windows, each scored in the first that holds it; None: the context, so
    that windows do not overlap."""

    pseudo: bool = False
    """Score an encoder's tokens masked one by one as well."""

    beam: int | None = None
    """Hypotheses kept while translating; None: the recipe's."""


AS_IT_IS = EvaluationSettings()
"""Nothing chosen."""
