"""Fill-mask, or masked language modelling: what an encoder was trained to do (Devlin et al. 2019, section 3.1).
Shape legend: B prompts, S tokens of the longest, M masks of them all."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tfcli.errors import UsageError, shortened
from tfcli.generation.decoding import padded
from tfcli.generation.sampling import ruled_out
from tfcli.models.transformer import Encoder
from tfcli.records.generation import Candidate, Filled
from tfcli.tokenization.tokenizer import Tokenizer

CANDIDATES = 5  # shown for each mask where no number is asked for
_Best = tuple[list[int], list[float]]  # the best tokens for one mask, the best first, and their probabilities


@dataclass
class _Masked:
    """A prompt as the model reads it, the places of its masks, and what each has got, in the order it got it."""

    prompt: str
    ids: list[int]
    masks: list[int]
    got: dict[int, _Best] = field(default_factory=dict)

    @property
    def open(self) -> list[int]:
        return [place for place in self.masks if place not in self.got]


def fill_all(
    model: Encoder, tokenizer: Tokenizer, prompts: Sequence[str], top_k: int = CANDIDATES, *, joint: bool = False
) -> list[Filled]:
    """The `top_k` best tokens for every mask of prompts that are read side by side, ``<s> prompt </s>``; a `UsageError`
    where one holds no mask, or is longer than the context. Probabilities are those of the softmax over the whole
    vocabulary; special tokens fill no mask and are left out.
    With `joint`, the surest mask of a prompt, the one whose best token is the most probable, is filled and read before
    the others are judged, as Ghazvininejad et al. (2019) decode, a mask a pass; else each is judged with all masked."""
    waiting = texts = [masked(model, tokenizer, prompt) for prompt in prompts]
    assert model.section.vocab_size is not None
    roles = tokenizer.of_model(model.section.vocab_size).roles
    special = sorted({*roles.ids(), *roles.without_token(model.section.vocab_size)})
    count = min(top_k, model.section.vocab_size - len(special))
    while waiting:
        for text, found in zip(waiting, _best(model, waiting, roles.pad, special, count), strict=True):
            for place in sorted(found, key=lambda place: found[place][1][0], reverse=True)[:1] if joint else text.masks:
                text.got[place] = found[place]
                text.ids[place] = found[place][0][0]
        waiting = [text for text in waiting if text.open]
    filled = []
    for text in texts:
        got = (text.got[place] for place in text.masks)
        predictions = tuple(tuple(map(Candidate, tokenizer.labels(ids), values)) for ids, values in got)
        order = tuple([*text.got].index(place) for place in text.masks) if joint else None
        filled.append(Filled(text.prompt, predictions, tokenizer.decode(text.ids), order))
    return filled


def masked(model: Encoder, tokenizer: Tokenizer, prompt: str) -> _Masked:
    """A prompt as the model reads it, nothing filled yet; a `UsageError` where it has no mask, or is too long."""
    roles = tokenizer.roles
    ids = roles.text(tokenizer.encode_masked(prompt))
    masks = [place for place, token in enumerate(ids) if token == roles.mask]
    if not masks:
        assert roles.mask is not None
        name = tokenizer.labels([roles.mask])[0]
        problem = f"The prompt {shortened(prompt)!r} has no {name}, and an encoder fills masks"
        raise UsageError(problem, f"put {name} where a word is to be found: 'the {name} sat on the mat'")
    context = model.section.max_seq_len
    if len(ids) > context:
        problem = f"The prompt has {len(ids)} tokens, those of beginning and end included, and the model's context is "
        raise UsageError(f"{problem}{context}", f"shorten it to {context - len(roles.text(()))} tokens at most")
    return _Masked(prompt, ids, masks)


@torch.inference_mode()
def _best(model: Encoder, texts: Sequence[_Masked], pad: int, special: list[int], count: int) -> list[dict[int, _Best]]:
    """For every text its open masks' best tokens, by place."""
    places = [(row, place) for row, text in enumerate(texts) for place in text.open]
    rows_and_columns = tuple(zip(*places, strict=True))
    vectors = model.hidden(*padded([text.ids for text in texts], pad, model.device))[rows_and_columns]  # (M, D)
    logits: Tensor = model.head(vectors)
    scores = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    best = (scores + ruled_out(special, scores)).topk(count)
    found: list[dict[int, _Best]] = [{} for _ in texts]
    for (row, place), ids, values in zip(places, best.indices.tolist(), best.values.exp().tolist(), strict=True):
        found[row][place] = ids, values
    return found
