"""Beam search: the best few beginnings are kept at every step, of many prompts side by side.

Shape legend: R rows (all beginnings of all prompts that are still read), k options a row, Vocab.
"""

from collections.abc import Sequence
from itertools import count

import torch
from torch import Tensor

from tfcli.generation.beam_groups import Beginning, Observe, Options, PromptBeams
from tfcli.generation.best_tokens import best_tokens
from tfcli.generation.decode import Continuation, Ends
from tfcli.generation.reader import Reader, continued, open_reader
from tfcli.generation.repetition import against_repetition, is_against_repetition
from tfcli.generation.rows import least_moves
from tfcli.generation.sampling import never_generated, ruled_out
from tfcli.models.decoder import Decoder
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.recipe.generate import GenerateSection
from tfcli.records.roles import TokenRoles


def prompt_beams(
    model: Decoder | EncoderDecoder,
    prompts: Sequence[Sequence[int]],
    roles: TokenRoles,
    settings: GenerateSection,
    *,
    prefix: Sequence[int] = (),
    ends: Ends | None = None,
    observe: Observe | None = None,
) -> list[list[Continuation]]:
    """As `beam_search`, from the prompts.

    Args:
        prompts: of a decoder with the token that texts begin with; of an encoder-decoder the bare sources.
        prefix: what every text begins with.

    Raises:
        UsageError: a prompt does not fit the context.
    """
    reader = open_reader(model, prompts, roles, settings, rows=len(prompts) * settings.beam)
    return beam_search(reader, roles, settings, texts=prompts, prefix=prefix, ends=ends, observe=observe)


@torch.inference_mode()
def beam_search(
    reader: Reader,
    roles: TokenRoles,
    settings: GenerateSection,
    *,
    texts: Sequence[Sequence[int]],
    prefix: Sequence[int] = (),
    ends: Ends | None = None,
    observe: Observe | None = None,
) -> list[list[Continuation]]:
    """The `num_samples` best texts of every row of a reader, the best first; fewer where groups found the same.

    The search over a prompt is over when no beginning left can overtake the texts found; its rows leave then.

    Args:
        reader: made with room for `beam` rows a prompt.
        texts: the prompt or source of each row. A continuation does not repeat its prompt where `settings` are against
            it; a translation may.
        prefix: the first new tokens of every text, whatever the model predicts.
        ends: is asked with a text's new tokens after each of them, whether the text ends there.
        observe: is told of every extension that is looked at.
    """
    going = searches = [
        PromptBeams(settings, roles.ends, number, limit, ends=ends, observe=observe)
        for number, limit in enumerate(reader.limits)
    ]
    # A beam takes no more than this from one row; who looks on also sees what it does not take.
    most = settings.beam if observe is None else 2 * settings.beam
    predictions = _Predictions(reader, roles, settings, texts, most)
    for step in count():
        is_free = step >= len(prefix)
        found = predictions.best(reader.logits, going) if is_free else _only(prefix[step], reader.logits)
        for search in going:
            search.extend(found, is_free=is_free)
        going = [search for search in going if search.live]
        if not going:
            break
        _read(reader, going)
    return [search.best() for search in searches]


def _read(reader: Reader, searches: Sequence[PromptBeams]) -> None:
    """Let the reader's rows become the searches' texts, and read the last token of each."""
    live: list[Beginning] = []
    for search in searches:
        texts = search.live
        live += [texts[number] for number in least_moves([text.row for text in texts], first=len(live))]
    reader.select([text.row for text in live])
    reader.read(torch.tensor([text.token_ids[-1] for text in live], device=reader.logits.device))
    for row, text in enumerate(live):
        text.row = row


def _only(token: int, logits: Tensor) -> list[Options]:
    """One token as what may follow every row.

    Shape:
        logits: (R, Vocab)
    """
    return [[[token], [one], [one]] for one in logits.log_softmax(-1)[:, token].tolist()]


class _Predictions:
    """The best tokens of every row, with their log-probabilities under the model itself and what the search counts."""

    def __init__(
        self, reader: Reader, roles: TokenRoles, settings: GenerateSection, texts: Sequence[Sequence[int]], most: int
    ) -> None:
        self._settings, self._most = settings, most
        self._not_repeated = continued(reader.model, texts, roles)
        self._banned = ruled_out(never_generated(roles, reader.logits.shape[-1]), reader.logits)
        self._has_penalties = is_against_repetition(settings)

    def best(self, logits: Tensor, searches: Sequence[PromptBeams]) -> list[Options]:
        """The `most` best of each row. What is ruled out or penalised leaves the others as probable as they are: else
        a text would win by being blocked.

        Shape:
            logits: (R, Vocab)
        """
        own = logits.log_softmax(-1)
        counted = own + self._banned
        if self._has_penalties:
            counted = self._penalised(counted, searches)
        values, ids = best_tokens(counted, self._most)
        # One transfer to Python: floats hold ids below 2^24 exactly.
        return torch.stack([ids.to(logits.dtype), own.gather(-1, ids), values], 1).tolist()

    def _penalised(self, predictions: Tensor, searches: Sequence[PromptBeams]) -> Tensor:
        held: list[Sequence[int]] = [()] * len(predictions)
        for search in searches:
            for text in search.live:
                held[text.row] = [*self._not_repeated[search.prompt], *text.token_ids]
        return against_repetition(predictions, held, self._settings)
