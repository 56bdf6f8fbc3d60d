"""Beam search: the best few beam hypotheses are kept at every step, of many prompts side by side.

Shape legend: R rows (all hypotheses of all prompts that are still read), k options a row, Vocab.
"""

from collections.abc import Sequence
from itertools import count

import torch
from torch import Tensor

from tfcli.generation.beam_groups import Hypothesis, ObserveNode, Options, PromptBeams
from tfcli.generation.caches import least_moves
from tfcli.generation.decode import Continuation, StoppingCriterion
from tfcli.generation.reader import Reader, continued, prefill
from tfcli.generation.repetition import against_repetition
from tfcli.generation.sampling import never_generated, ruled_out
from tfcli.models.decoder import Decoder
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.recipe.generate import GenerateSection
from tfcli.records.roles import TokenRoles

_CHUNK = 64


def prompt_beams(
    model: Decoder | EncoderDecoder,
    prompts: Sequence[Sequence[int]],
    roles: TokenRoles,
    settings: GenerateSection,
    *,
    prefix: Sequence[int] = (),
    ends: StoppingCriterion | None = None,
    observe: ObserveNode | None = None,
) -> list[list[Continuation]]:
    """As `beam_search`, from the prompts.

    Args:
        prompts: of a decoder with the token that texts begin with; of an encoder-decoder the bare sources.

    Raises:
        UsageError: a prompt does not fit the context.
    """
    state = prefill(model, prompts, roles, settings, rows=len(prompts) * settings.beam)
    return beam_search(state, roles, settings, texts=prompts, prefix=prefix, ends=ends, observe=observe)


@torch.inference_mode()
def beam_search(
    state: Reader,
    roles: TokenRoles,
    settings: GenerateSection,
    *,
    texts: Sequence[Sequence[int]],
    prefix: Sequence[int] = (),
    ends: StoppingCriterion | None = None,
    observe: ObserveNode | None = None,
) -> list[list[Continuation]]:
    """The `num_samples` best texts of every row of a state, the best first; fewer where groups found the same.

    The search over a prompt is over when no hypothesis left can overtake the texts found; its rows leave then.

    Args:
        state: made with room for `beam` rows a prompt.
        texts: the prompt or source of each row. A continuation does not repeat its prompt where `settings` are against
            it; a translation may.
        prefix: the first new tokens of every text, whatever the model predicts.
        observe: is given every extension that is looked at.
    """
    going = searches = [
        PromptBeams(settings, roles.ends, number, limit, ends=ends, observe=observe)
        for number, limit in enumerate(state.limits)
    ]
    # A beam takes no more than this from one row; who looks on also sees what it does not take.
    most = settings.beam if observe is None else 2 * settings.beam
    not_repeated = continued(state.model, texts, roles)
    banned = ruled_out(never_generated(roles, state.logits.shape[-1]), state.logits)
    for step in count():
        log_probabilities = state.logits.log_softmax(-1)
        if is_free := step >= len(prefix):
            held: list[Sequence[int]] = [()] * len(log_probabilities)
            for search in going:
                for text in search.live:
                    held[text.row] = [*not_repeated[search.prompt], *text.token_ids]
            found = _best(log_probabilities, against_repetition(log_probabilities + banned, held, settings), most)
        else:  # one token is all that may follow
            found = [[[prefix[step]], [one], [one]] for one in log_probabilities[:, prefix[step]].tolist()]
        for search in going:
            search.extend(found, is_free=is_free)
        going = [search for search in going if search.live]
        if not going:
            break
        _read(state, going)
    return [search.best() for search in searches]


def _read(state: Reader, searches: Sequence[PromptBeams]) -> None:
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
    """The `most` best of each row, with their log-probabilities under the model itself and what the search counts. What
    is ruled out or penalised leaves the others as probable as they are: else a text would win by being blocked.

    Shape:
        log_probabilities, processed: (R, Vocab)
    """
    values, ids = best_tokens(processed, most)
    # One transfer to Python: floats hold ids below 2^24 exactly.
    return torch.stack([ids.to(values.dtype), log_probabilities.gather(-1, ids), values], 1).tolist()


def best_tokens(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` best logits of every row, the best first, and their ids: `topk`, in a third of its time on a CPU.

    The best tokens lie in the chunks with the best maxima, and maxima are found quickly. Of one token, the first of
    equals, as in greedy decoding.

    Shape:
        logits: (R, Vocab)
        returns: two of (R, count), or of (R, Vocab) where there are fewer
    """
    rows, size = logits.shape
    if count == 1:
        best = logits.max(-1, keepdim=True)
        return best.values, best.indices
    chunks = size // _CHUNK
    if chunks <= count:
        found = logits.topk(min(count, size))
        return found.values, found.indices
    whole = logits[:, : chunks * _CHUNK].unflatten(-1, (chunks, _CHUNK))
    chosen = whole.amax(-1).topk(count).indices  # (R, count)
    ids = (chosen[:, :, None] * _CHUNK + torch.arange(_CHUNK, device=logits.device)).flatten(1)
    rest = torch.arange(chunks * _CHUNK, size, device=logits.device).expand(rows, -1)
    ids = torch.cat([ids, rest], -1)
    found = logits.gather(-1, ids).topk(count)
    return found.values, ids.gather(-1, found.indices)
