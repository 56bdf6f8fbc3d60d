"""Special tokens in text: what spells one stays text."""

import re
from collections.abc import Iterable

from tokenizers import Regex, pre_tokenizers
from tokenizers import Tokenizer as Backend


def first_characters(spellings: Iterable[str]) -> Regex:
    """Matches the first character of every such spelling, behind which a pipeline cuts it."""
    return Regex("|".join(f"{re.escape(one[0])}(?={re.escape(one[1:])})" for one in spellings))


def keep_apart(backend: Backend, special: Iterable[int]) -> None:
    """See to it that no special token can be reached by its spelling.

    The library is told not to look for them, which is enough for most vocabularies. A unigram model, however, holds
    them as pieces like any other (T5's ``</s>``): there, a last step before the model cuts such a spelling behind its
    first character. Nothing else is cut, and a pipeline that needs no such step is left as it is.
    """
    backend.encode_special_tokens = True
    spelled = [backend.id_to_token(token_id) or "" for token_id in sorted(special)]
    reached = [
        token
        for token in spelled
        if token and backend.token_to_id(token) in backend.encode(token, add_special_tokens=False).ids
    ]
    if not (longer := [token for token in reached if len(token) > 1]):
        return
    steps = [pre_tokenizers.Split(first_characters(longer), "isolated")]
    if backend.pre_tokenizer is not None:
        steps.insert(0, backend.pre_tokenizer)
    backend.pre_tokenizer = pre_tokenizers.Sequence(steps)
