"""Beam search: the best few beginnings are kept at every step, for a decoder and an encoder-decoder alike.

Finished texts are ranked by ln P(Y) / lp(Y), with the length penalty lp(Y) = ((5 + |Y|) / 6)^α of Wu et al.
(2016, equation 14, without its coverage term); |Y| counts the end token.
"""

import torch
from torch import Tensor

from tfcli.generation.decode import Continuation
from tfcli.generation.reader import Reader
from tfcli.generation.sampling import never_generated, rule_out
from tfcli.records.roles import TokenRoles

LENGTH_PENALTY = 0.6
"""α, as Wu et al. 2016 used it. 0 would rank by probability alone and favour short texts."""


def length_penalty(length: int) -> float:
    """lp(Y) of a text of so many tokens."""
    return float(((5 + length) / 6) ** LENGTH_PENALTY)


def ranking(text: Continuation) -> float:
    """What texts are ranked by: their log-probability over their length penalty."""
    return text.score / length_penalty(len(text.token_ids))


@torch.inference_mode()
def beam_search(reader: Reader, roles: TokenRoles, *, beam: int, best: int = 1) -> list[Continuation]:
    """The `best` texts found, the best first, from a reader with one row.

    At every step the `beam` best extensions are kept; those that end leave the beam (Sutskever et al. 2014,
    section 3.2), so that a beam of 1 is greedy decoding. The search is over when no beginning left can
    overtake the texts found: its log-probability can only fall, and its penalty is that of the
    longest text at most.
    """
    banned = never_generated(roles, reader.logits.shape[-1])
    finished: list[Continuation] = []
    live = [Continuation((), 0.0)]
    for last in reversed(range(reader.limit)):
        extended, parents = _extend(live, _log_distribution(reader.logits, banned), beam)
        ended = [text.token_ids[-1] == roles.eos or last == 0 for text in extended]
        finished += [text for text, is_over in zip(extended, ended, strict=True) if is_over]
        finished = sorted(finished, key=ranking, reverse=True)[:best]
        going = [place for place, is_over in enumerate(ended) if not is_over]
        live = [extended[place] for place in going]
        if not live or _is_settled(finished, live, best, reader.limit):
            break
        reader.select([parents[place] for place in going])
        reader.read(torch.tensor([text.token_ids[-1] for text in live], device=reader.logits.device))
    return finished


def _log_distribution(logits: Tensor, banned: list[int]) -> Tensor:
    """ln p of every token under the model itself, −∞ for those that are never generated.

    Shape:
        logits: (R, Vocab) → (R, Vocab)
    """
    return rule_out(logits.log_softmax(-1), banned)


def _extend(live: list[Continuation], log_probabilities: Tensor, beam: int) -> tuple[list[Continuation], list[int]]:
    """The `beam` best one-token extensions, the best first, and which text each extends."""
    # On the CPU, where there is float64 whatever the device: float32 sums would reorder beams that are nearly equal.
    scores = torch.tensor([text.score for text in live], dtype=torch.float64)
    totals = (scores[:, None] + log_probabilities.cpu()).flatten()
    values, places = totals.topk(min(beam, len(totals)))
    extended, parents = [], []
    for score, place in zip(values.tolist(), places.tolist(), strict=True):
        if score == -torch.inf:
            break
        parent, token = divmod(place, log_probabilities.shape[1])
        extended.append(Continuation((*live[parent].token_ids, token), score))
        parents.append(parent)
    return extended, parents


def _is_settled(finished: list[Continuation], live: list[Continuation], best: int, limit: int) -> bool:
    """Whether no live text can still end among the best."""
    hope = max(text.score for text in live) / length_penalty(limit)
    return len(finished) == best and ranking(finished[-1]) >= hope
