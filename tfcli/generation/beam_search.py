"""Beam search: the best few beam hypotheses are kept at every step, of many prompts at once.
Shape legend: R rows (all hypotheses of all prompts that are still read), k options a row, Vocab.

Texts are ranked by ln P(Y) / lp(Y), with the length penalty lp(Y) = ((5 + |Y|) / 6)^α of Wu et al. (2016, equation 14,
without its coverage term); |Y| counts the end token. What penalties take is taken from ln P(Y). Diverse beam search
(Vijayakumar et al. 2018) is left out: docs/decisions/0043-no-diverse-beams.md."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from operator import itemgetter, methodcaller
from typing import Unpack

import torch
from torch import Tensor

from tfcli.generation import decoding
from tfcli.generation.decoding import Continuation, Forced, Model, Prompts
from tfcli.generation.kv_cache import least_moves
from tfcli.generation.sampling import against_repetition, never_generated, ruled_out
from tfcli.recipe.recipe import GenerateSection
from tfcli.records.generation import BeamNode, Fate
from tfcli.records.roles import TokenRoles

ObserveNode = Callable[[int, BeamNode], None]  # told of every extension: a prompt's number, a node without its label

Options = Sequence[Sequence[float]]
"""What may follow a row: token ids, their log-probabilities, and what the search counts for them, in nats; −∞: not."""


def length_penalty(length: int, alpha: float) -> float:
    """lp(Y) of a text of so many tokens."""
    return float(((5 + length) / 6) ** alpha)


@dataclass(slots=True)
class Hypothesis:
    """A text so far. `value` is what the search counts (nats): its log-probability less what was taken from it."""

    token_ids: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    value: float
    row: int  # of the batch; of a new extension, that of what it extends
    node: int | None  # its number among what was looked at

    def ranking(self, alpha: float) -> float:
        """What it is ranked by: its value over its length penalty."""
        return self.value / length_penalty(len(self.token_ids), alpha)


@dataclass
class PromptBeams:
    """The search over row number `prompt`, for at most `limit` tokens that `stops` end; the best that `ended` are kept.
    `observe` is told of as many extensions that are pruned as may be kept."""

    settings: GenerateSection
    stops: frozenset[int]
    prompt: int
    limit: int
    ends: decoding.StoppingCriterion | None = None
    observe: ObserveNode | None = None
    _looked_at: int = 0

    def __post_init__(self) -> None:
        self.live, self.ended = [Hypothesis((), (), 0.0, self.prompt, None)], list[Hypothesis]()

    def extend(self, options: Sequence[Options]) -> None:
        """Keep the best of all rows' `options`; those that end leave (Sutskever et al. 2014): a beam of 1 is greedy."""
        parents, self.live, width, alpha = self.live, [], self.settings.beam, self.settings.length_penalty
        extensions = [
            (parent.value + counted, parent, token, log_probability)
            for parent in parents
            for token, log_probability, counted in zip(*options[parent.row], strict=True)
        ]
        extensions.sort(key=itemgetter(0), reverse=True)
        looked_at = extensions[: width if self.observe is None else 2 * width]
        ranked = [extension for extension in looked_at if extension[0] > -math.inf]
        for place, (value, parent, token, log_probability) in enumerate(ranked):
            ids, each = (*parent.token_ids, int(token)), (*parent.log_probabilities, log_probability)
            text = Hypothesis(ids, each, value, row=parent.row, node=self._looked_at)
            self._looked_at += 1
            is_over = ids[-1] in self.stops or len(ids) == self.limit or (self.ends and self.ends(ids))
            fate: Fate = "pruned" if place >= width else "ended" if is_over else "kept"
            if fate != "pruned":
                (self.ended if fate == "ended" else self.live).append(text)
            if self.observe is not None:
                what = len(ids) - 1, parent.node, ids[-1], "", log_probability, sum(each), text.ranking(alpha)
                self.observe(self.prompt, BeamNode(*what, fate=fate, chosen=False))
        if not ranked:
            self.ended += parents  # nothing that may follow: they stay as they are
        most = self.settings.num_samples
        self.ended = sorted(self.ended, key=methodcaller("ranking", alpha), reverse=True)[:most]
        if self.live and len(self.ended) == most:
            # A value can only fall, and its penalty is that of the longest text at most.
            hope = max(text.value for text in self.live) / length_penalty(self.limit, alpha)
            if self.ended[-1].ranking(alpha) >= hope:
                self.live = []


def prompt_beams(
    model: Model,
    prompts: Prompts,
    roles: TokenRoles,
    settings: GenerateSection,
    observe: ObserveNode | None = None,
    **forced: Unpack[Forced],
) -> list[list[Continuation]]:
    """As `beam_search`, from prompts as `prefill` takes them."""
    state = decoding.prefill(model, prompts, roles, settings, rows=len(prompts) * settings.beam)
    return beam_search(state, roles, settings, texts=prompts, observe=observe, **forced)


def continuations(
    model: Model, prompts: Prompts, roles: TokenRoles, settings: GenerateSection, **forced: Unpack[Forced]
) -> list[list[Continuation]]:
    """The `num_samples` texts of every prompt: drawn, the likeliest tokens, or the best of a beam search."""
    if settings.beam > 1:
        return prompt_beams(model, prompts, roles, settings, **forced)
    samples = settings.num_samples
    texts = decoding.collect(decoding.prompt_tokens(model, prompts, roles, settings, **forced), len(prompts) * samples)
    return [texts[first : first + samples] for first in range(0, len(texts), samples)]


@torch.inference_mode()
def beam_search(
    state: decoding.DecodingState,
    roles: TokenRoles,
    settings: GenerateSection,
    *,
    texts: Prompts,
    prefix: Sequence[int] = (),
    ends: decoding.StoppingCriterion | None = None,
    observe: ObserveNode | None = None,
) -> list[list[Continuation]]:
    """The `num_samples` best texts of every row of a state with room for `beam` rows a prompt, the best first.
    `texts` are the prompt or source of each row. The search over a prompt ends, and its rows leave, when no hypothesis
    can overtake the texts found. A continuation repeats no prompt if `settings` are against it; a translation may."""
    rows = enumerate(state.limits)
    going = searches = [PromptBeams(settings, roles.ends, *row, ends=ends, observe=observe) for row in rows]
    # A beam takes no more than this from one row; who looks on also sees what it does not take.
    most = settings.beam if observe is None else 2 * settings.beam
    not_repeated = decoding.continued(state.model, texts, roles)
    banned = ruled_out(never_generated(roles, state.logits.shape[-1]), state.logits)
    for step in count():
        log_probabilities = state.logits.log_softmax(-1)
        if step >= len(prefix):
            held: list[Sequence[int]] = [()] * len(log_probabilities)
            for search in going:
                for text in search.live:
                    held[text.row] = [*not_repeated[search.prompt], *text.token_ids]
            found = _best(log_probabilities, against_repetition(log_probabilities + banned, held, settings), most)
        else:  # one token is all that may follow
            found = [[[prefix[step]], [one], [one]] for one in log_probabilities[:, prefix[step]].tolist()]
        for search in going:
            search.extend(found)
        going = [search for search in going if search.live]
        if not going:
            break
        _read(state, going)
    return [[Continuation(text.token_ids, text.log_probabilities) for text in search.ended] for search in searches]


def _read(state: decoding.DecodingState, searches: Sequence[PromptBeams]) -> None:
    """Let the state's rows become the searches' hypotheses, and read the last token of each."""
    live: list[Hypothesis] = []
    for search in searches:
        texts = search.live
        live += [texts[number] for number in least_moves([text.row for text in texts], first=len(live))]
    state.select([text.row for text in live])
    state.read(torch.tensor([text.token_ids[-1] for text in live], device=state.logits.device))
    for row, text in enumerate(live):
        text.row = row


def _best(log_probabilities: Tensor, processed: Tensor, most: int) -> list[Options]:
    """The `most` best of (R, Vocab). What is ruled out leaves the others as probable: no text wins by being blocked."""
    values, ids = processed.topk(min(most, processed.shape[-1]))
    # One transfer to Python: floats hold ids below 2^24 exactly.
    return torch.stack([ids.to(values.dtype), log_probabilities.gather(-1, ids), values], 1).tolist()
