"""The context limit of a text: how long it may become, and what is read of a prompt that is too long."""

from collections.abc import Sequence

from tfcli.errors import UsageError
from tfcli.recipe.generate import BeyondContext
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import TokenRoles


def kept_columns(context: int) -> int:
    """Tokens that are read again where a text slides: three quarters of the context; the rest is room for new ones
    until the next time."""
    return max(1, context * 3 // 4)


def token_limits(
    section: ModelSection, lengths: Sequence[int], max_new_tokens: int, beyond: BeyondContext
) -> list[int]:
    """How many tokens each text may get that begins with `lengths` of them.

    Raises:
        UsageError: a beginning is longer than the context.
    """
    context = section.max_seq_len
    if beyond != "stop":
        return [max_new_tokens] * len(lengths)
    longest = max(lengths)
    if longest > context:
        raise UsageError(
            f"The prompt has {longest} tokens, the beginning-of-text token included, "
            f"and the model's context of {context} leaves no room for a new one",
            f"shorten it to {context} tokens at most, or choose --beyond-context slide",
        )
    # The last one need not be read: it is predicted at the context's last position.
    return [min(max_new_tokens, context - length + 1) for length in lengths]


def read_of(prompt: Sequence[int], section: ModelSection, beyond: BeyondContext) -> list[int]:
    """What is read of a prompt: where texts slide, the last part of one that is longer than the context."""
    if beyond == "slide" and len(prompt) > section.max_seq_len:
        return list(prompt[-kept_columns(section.max_seq_len) :])
    return list(prompt)


def read_of_source(source: Sequence[int], section: ModelSection, roles: TokenRoles) -> list[int]:
    """What is read of a source: ``ids </s>``.

    Raises:
        UsageError: it is longer than the context.
    """
    framed, context = roles.source(source), section.max_seq_len
    if len(framed) > context:
        raise UsageError(
            f"The source has {len(framed)} tokens, the end token included, and the model's context is {context}",
            f"shorten it to {context - len(roles.source(()))} tokens at most",
        )
    return framed
