"""The token that a user names: as tables show it, or as a word."""

from tfcli.inspection.neighbours import token_of
from tfcli.tokenization.tokenizer import Tokenizer


def chosen_token(tokenizer: Tokenizer, text: str) -> int:
    """The id of the token that is labelled so, special ones too ("·" is a space); else that of a word.

    Raises:
        UsageError: there is none; says what the text is made of.
    """
    labels = tokenizer.labels(range(tokenizer.vocab_size))
    for label in (text, text.replace("·", " ")):
        if text and label in labels:
            return labels.index(label)
    return token_of(tokenizer, text)
