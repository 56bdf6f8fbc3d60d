"""Fill the masks of a text: what an encoder was trained to do (Devlin et al. 2019, section 3.1)."""

import torch
from torch import Tensor

from tfcli.errors import UsageError
from tfcli.generation.sampling import rule_out
from tfcli.models.encoder import Encoder
from tfcli.records.generation import Candidate, Filled
from tfcli.tokenization.tokenizer import Tokenizer

CANDIDATES = 5
"""Shown for each mask where no number is asked for."""


def fill(model: Encoder, tokenizer: Tokenizer, prompt: str, top_k: int = CANDIDATES) -> Filled:
    """The `top_k` best tokens for every mask of a prompt, each mask judged with all the others still masked.

    The model reads ``<s> prompt </s>``, as documents are stored for training. Probabilities are those of the
    softmax over the whole vocabulary; special tokens fill no mask and are left out.

    Raises:
        UsageError: the prompt holds no mask, or is longer than the context.
    """
    roles = tokenizer.roles
    ids = [roles.bos, *tokenizer.encode_masked(prompt), roles.eos]
    masks = [place for place, token in enumerate(ids) if token == roles.mask]
    if not masks:
        assert roles.mask is not None
        name = tokenizer.labels([roles.mask])[0]
        raise UsageError(
            f"The prompt {prompt!r} has no {name}, and an encoder fills masks",
            f"put {name} where a word is to be found: 'the {name} sat on the mat'",
        )
    context = model.section.max_seq_len
    if len(ids) > context:
        raise UsageError(
            f"The prompt has {len(ids)} tokens, those of beginning and end included, "
            f"and the model's context is {context}",
            f"shorten it to {context - 2} tokens at most",
        )
    assert model.section.vocab_size is not None
    special = [*roles.ids(), *range(tokenizer.vocab_size, model.section.vocab_size)]
    probabilities, candidates = _best(
        model, ids, masks, special, min(top_k, model.section.vocab_size - len(set(special)))
    )
    for place, tokens in zip(masks, candidates, strict=True):
        ids[place] = tokens[0]
    return Filled(
        prompt,
        tuple(
            tuple(map(Candidate, tokenizer.labels(tokens), row))
            for tokens, row in zip(candidates, probabilities, strict=True)
        ),
        tokenizer.decode(ids),
    )


@torch.inference_mode()
def _best(
    model: Encoder, ids: list[int], masks: list[int], special: list[int], top_k: int
) -> tuple[list[list[float]], list[list[int]]]:
    """Probabilities and ids of the best tokens for each mask."""
    input_ids = torch.tensor([ids], device=model.device)
    logits: Tensor = model.head(model.hidden(input_ids)[0, masks])
    scores = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    best = rule_out(scores, special).topk(top_k)
    return best.values.exp().tolist(), best.indices.tolist()
