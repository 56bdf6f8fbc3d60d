"""``[generate]``: sampling and beam search from a trained model."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt, MinLen, Unit

from tfcli.errors import UsageError
from tfcli.recipe import Section

BeyondContext = Literal["stop", "slide", "extrapolate"]


@dataclass(frozen=True)
class GenerateSection(Section):
    """Sampling, beam search, and what `tfcli run` shows after training."""

    prompts: tuple[str, ...] = ()
    """Prompts that `tfcli run` continues, fills or translates at the end. Without any, a decoder continues an empty
    one."""

    chat: bool = False
    """Put every prompt into the chat template of an imported model, as what a user says."""

    system: str = ""
    """The system message, which stands before what the user says (with chat)."""

    special_tokens: bool = False
    """Read the spelling of a special token in a prompt as that token; otherwise it is plain text."""

    max_new_tokens: Annotated[int, Ge(1), Unit("tokens")] = 128
    """Stop after this many tokens, unless the end token comes first."""

    temperature: Annotated[float, Ge(0)] = 1.0
    """Divides the logits; 0 is greedy. An encoder-decoder is greedy unless a temperature is given."""

    top_k: Annotated[int, Ge(0), Unit("tokens")] = 0
    """Sample from the k most probable tokens only; 0: from all. For an encoder: how many tokens to show for each mask
    (0: 5)."""

    top_p: Annotated[float, Gt(0), Le(1), Unit("share")] = 1.0
    """Sample from the smallest set of tokens that holds this probability (Holtzman et al. 2020)."""

    min_p: Annotated[float, Ge(0), Le(1), Unit("share")] = 0.0
    """Sample from the tokens at least this share as probable as the best one (Nguyen et al. 2024); 0: all."""

    repetition_penalty: Annotated[float, Gt(0)] = 1.0
    """Divides the positive logits of tokens that the text holds already, and multiplies the negative ones (Keskar et
    al. 2019, section 4.1); beams multiply their log-probabilities; 1: none."""

    no_repeat_ngram: Annotated[int, Ge(0), Unit("tokens")] = 0
    """No sequence of this many tokens occurs twice in a text (Paulus et al. 2018, section 2.5); 0: any may."""

    stop: tuple[Annotated[str, MinLen(1)], ...] = ()
    """Stop texts: a generated text ends before the first of them."""

    prefix: str = ""
    """Text with which every translation of an encoder-decoder begins."""

    beyond_context: BeyondContext = "stop"
    """What happens when the context is full. stop: the text ends. slide: the model reads the last part of the text
    anew. extrapolate: it goes on with positions that training has not seen."""

    beam: Annotated[int, Ge(1), Le(1_000), Unit("beams")] = 1
    """Hypotheses kept by beam search; 1: none."""

    length_penalty: Annotated[float, Ge(0)] = 0.6
    """The α of Wu et al. 2016 (equation 14) for beams; 0 ranks by probability alone and favours short texts."""

    beam_groups: Annotated[int, Ge(1), Unit("groups")] = 1
    """Groups of beams that avoid each other's tokens (Vijayakumar et al. 2018); divides `beam`."""

    diversity: Annotated[float, Ge(0), Unit("nats")] = 0.5
    """Penalty of diverse beam search: what a token's score loses for every earlier group that chose it at the same
    step."""

    joint: bool = False
    """An encoder fills the mask first that it is surest of, and reads the result before it fills the next. Otherwise it
    fills each mask on its own."""

    num_samples: Annotated[int, Ge(1), Le(10_000), Unit("texts")] = 1
    """Texts to generate for each prompt."""

    batch_size: Annotated[int, Ge(1), Le(10_000), Unit("prompts")] = 32
    """Prompts that are computed together, where there are several."""

    seed: Annotated[int, Ge(0), Lt(2**63)] = 0
    """Seed of the sampling. A text depends only on the seed, its prompt and its number among the samples, and not on
    what else is in the batch."""

    def __post_init__(self) -> None:
        if self.beam % self.beam_groups:
            problem = f"generate.beam = {self.beam} beams do not divide into generate.beam_groups = {self.beam_groups}"
            raise UsageError(problem, "choose a beam that is a multiple of the groups")
