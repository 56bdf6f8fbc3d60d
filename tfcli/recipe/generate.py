"""``[generate]``: how text is made from a trained model."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt, MinLen, Unit

from tfcli.errors import UsageError

BeyondContext = Literal["stop", "slide", "extrapolate"]


@dataclass(frozen=True)
class GenerateSection:
    """Sampling, beam search, and what `tfcli run` shows after training."""

    __pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}  # noqa: RUF012 (read by pydantic, never changed)

    prompts: tuple[str, ...] = ()
    """Prompts that `tfcli run` continues, fills or translates at the end; none: one empty prompt for a decoder."""

    chat: bool = False
    """A prompt is what a user says, written as the chat template of an imported model has it."""

    system: str = ""
    """What the system says before a user does (chat)."""

    special_tokens: bool = False
    """The spelling of a special token in a prompt becomes that token; else it is text."""

    max_new_tokens: Annotated[int, Ge(1), Unit("tokens")] = 128
    """Stop after this many tokens, if the end token has not come first."""

    temperature: Annotated[float, Ge(0)] = 1.0
    """Divides the logits; 0 is greedy. An encoder-decoder is greedy unless a temperature is given."""

    top_k: Annotated[int, Ge(0), Unit("tokens")] = 0
    """Sample from the k best tokens alone; 0: all. For an encoder: how many tokens to show a mask (0: 5)."""

    top_p: Annotated[float, Gt(0), Le(1), Unit("share")] = 1.0
    """Sample from the smallest set of tokens that holds this probability (Holtzman et al. 2020)."""

    min_p: Annotated[float, Ge(0), Le(1), Unit("share")] = 0.0
    """Sample from the tokens at least this share as probable as the best one (Nguyen et al. 2024); 0: all."""

    repetition_penalty: Annotated[float, Gt(0)] = 1.0
    """Divides the positive logits of tokens that the text holds already, and multiplies the negative ones (Keskar et
    al. 2019, section 4.1); beams multiply their log-probabilities; 1: none."""

    no_repeat_ngram: Annotated[int, Ge(0), Unit("tokens")] = 0
    """No sequence of this many tokens comes twice in a text (Paulus et al. 2018, section 2.5); 0: may."""

    stop: tuple[Annotated[str, MinLen(1)], ...] = ()
    """Texts that end a text where they appear; they are left out of it."""

    prefix: str = ""
    """What every translation begins with (an encoder-decoder)."""

    beyond_context: BeyondContext = "stop"
    """When the context is full: stop there; slide, so that the model reads the last part of the text anew; or
    extrapolate, with positions that training has not seen."""

    beam: Annotated[int, Ge(1), Le(1_000), Unit("beams")] = 1
    """Hypotheses kept by beam search; 1: none."""

    length_penalty: Annotated[float, Ge(0)] = 0.6
    """The α of Wu et al. 2016 (equation 14) for beams; 0 ranks by probability alone and favours short texts."""

    beam_groups: Annotated[int, Ge(1), Unit("groups")] = 1
    """Groups of beams that avoid each other's tokens (Vijayakumar et al. 2018); divides `beam`."""

    diversity: Annotated[float, Ge(0), Unit("nats")] = 0.5
    """What a group's token loses for every earlier group that chose it at the same step, in nats."""

    joint: bool = False
    """An encoder fills the surest mask first and reads it before it fills the next; else each mask alone."""

    num_samples: Annotated[int, Ge(1), Le(10_000), Unit("texts")] = 1
    """Continuations a prompt."""

    batch_size: Annotated[int, Ge(1), Le(10_000), Unit("prompts")] = 32
    """Prompts that are read side by side, where there are several."""

    seed: Annotated[int, Ge(0), Lt(2**63)] = 0
    """Seed of the sampling. A text depends on it, on its prompt and on its number among the samples, whatever else is
    in the batch."""

    def __post_init__(self) -> None:
        if self.beam % self.beam_groups:
            raise UsageError(
                f"generate.beam = {self.beam} beams do not divide into generate.beam_groups = {self.beam_groups}",
                "choose a beam that is a multiple of the groups",
            )
