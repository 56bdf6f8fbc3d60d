"""``[generate]``: how text is made from a trained model."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Le, Lt


@dataclass(frozen=True)
class GenerateSection:
    """Sampling, beam search, and what `tfcli run` shows after training."""

    __pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}  # noqa: RUF012 (read by pydantic, never changed)

    prompts: tuple[str, ...] = ()
    """Prompts that `tfcli run` continues, fills or translates at the end; none: one empty prompt for a decoder."""

    max_new_tokens: Annotated[int, Ge(1)] = 128
    """Stop after this many tokens, if the end token has not come first."""

    temperature: Annotated[float, Ge(0)] = 1.0
    """Divides the logits; 0 is greedy. An encoder-decoder is greedy unless a temperature is given."""

    top_k: Annotated[int, Ge(0)] = 0
    """Sample from the k best tokens alone; 0: all. For an encoder: how many tokens to show a mask (0: 5)."""

    top_p: Annotated[float, Gt(0), Le(1)] = 1.0
    """Sample from the smallest set of tokens that holds this probability (Holtzman et al. 2020)."""

    beam: Annotated[int, Ge(1)] = 1
    """Hypotheses kept by beam search; 1: none."""

    num_samples: Annotated[int, Ge(1)] = 1
    """Continuations a prompt."""

    seed: Annotated[int, Ge(0), Lt(2**63)] = 0
    """Seed of the sampling."""
