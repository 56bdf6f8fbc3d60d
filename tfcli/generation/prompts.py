"""Prompts, chat templates and prefixes: the ids that a model reads, and the refusal of what it cannot read."""

import re

from tfcli.errors import UsageError
from tfcli.generation.decoding import read_of, read_of_source, token_limits
from tfcli.generation.fill_mask import masked
from tfcli.models.transformer import Decoder, Encoder, EncoderDecoder, Transformer
from tfcli.recipe.generate import GenerateSection
from tfcli.tokenization.tokenizer import Tokenizer

_OPEN, _CLOSE = "\ufdd0", "\ufdd1"  # around what spells a special token; no text has these two, which are no characters


def prompt_ids(model: Transformer, tokenizer: Tokenizer, prompt: str, settings: GenerateSection) -> list[int]:
    """``<s> prompt`` for a decoder, begun as its texts are; the bare source for an encoder-decoder, ended later.

    Raises:
        UsageError: the prompt is empty, or the chat template refuses it.
        BrokenInputError: the chat template fails.
    """
    roles = tokenizer.roles
    if settings.chat:
        ids = _chat_ids(tokenizer, prompt, settings)
    else:
        ids = tokenizer.encode_special(prompt) if settings.special_tokens else tokenizer.encode(prompt)
    if isinstance(model, Decoder):
        begun = roles.text_prefix
        # A template writes itself what a text begins with, and so may whoever types special tokens.
        is_begun = settings.chat or (settings.special_tokens and begun and tuple(ids[: len(begun)]) == begun)
        read = ids if ids and is_begun else roles.prompt(ids)
        if not read:
            raise UsageError("The prompt is empty, and no token of this run begins a text", "give it a text")
        return read
    if not ids:
        raise UsageError(f"The prompt {prompt!r} is empty, and this run translates", "give it a sentence")
    return ids


def _chat_ids(tokenizer: Tokenizer, prompt: str, settings: GenerateSection) -> list[int]:
    """A user's prompt in the chat template, whose special tokens are read by their spelling. Those that the prompt
    itself spells stay text, unless they are asked for."""
    assert tokenizer.chat is not None
    spelled = "|".join(map(re.escape, sorted(tokenizer.special_names, key=len, reverse=True)))

    def said(text: str) -> str:
        return text if settings.special_tokens or not spelled else re.sub(spelled, rf"{_OPEN}\g<0>{_CLOSE}", text)

    system = [{"role": "system", "content": said(settings.system)}] if settings.system else []
    text = tokenizer.chat.text([*system, {"role": "user", "content": said(prompt)}])
    pieces = re.split(f"{_OPEN}({spelled}){_CLOSE}", text) if _OPEN in text else [text]
    ids: list[int] = []
    for number, piece in enumerate(pieces):
        ids += tokenizer.encode(piece) if number % 2 else tokenizer.encode_special(piece)
    return ids


def prefix_ids(model: Transformer, tokenizer: Tokenizer, settings: GenerateSection) -> list[int]:
    """What every translation begins with; nothing for a decoder.

    Raises:
        UsageError: it alone takes as many tokens as a text may get or the context holds, or it holds a stop text.
    """
    ids = tokenizer.encode(settings.prefix) if isinstance(model, EncoderDecoder) else []
    if len(ids) >= settings.max_new_tokens:
        raise UsageError(
            f"The prefix has {len(ids)} tokens, and max_new_tokens = {settings.max_new_tokens} leaves no room for more",
            "shorten it, or raise the limit",
        )
    begun, context = len(tokenizer.roles.target_prefix) + len(ids), model.section.max_seq_len
    if settings.beyond_context == "stop" and begun > context:
        raise UsageError(
            f"The prefix has {len(ids)} tokens, and the model's context of {context} leaves no room for more",
            f"shorten it to {context - len(tokenizer.roles.target_prefix)} tokens at most",
        )
    found = [stop for stop in settings.stop if stop in settings.prefix]
    if ids and found:
        raise UsageError(f"The stop text {found[0]!r} is in the prefix itself", "choose another one")
    return ids


def require_prompt(model: Transformer, tokenizer: Tokenizer, prompt: str, settings: GenerateSection) -> None:
    """Refuse a prompt that does not fit, as making something of it would, without making anything of it."""
    if isinstance(model, Encoder):
        masked(model, tokenizer, prompt)
        return
    ids = prompt_ids(model, tokenizer, prompt, settings)
    if isinstance(model, Decoder):
        read = read_of(ids, model.section, settings.beyond_context)
        token_limits(model.section, [len(read)], settings.max_new_tokens, settings.beyond_context)
    else:
        read_of_source(ids, model.section, tokenizer.roles)
