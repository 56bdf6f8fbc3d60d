"""From a prompt to what a model reads, and the refusal of one that it cannot read."""

from tfcli.errors import UsageError
from tfcli.generation.context import read_of, read_of_source, token_limits
from tfcli.generation.fill_mask import masked
from tfcli.models.decoder import Decoder
from tfcli.models.encoder import Encoder
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.models.transformer import Transformer
from tfcli.recipe.generate import GenerateSection
from tfcli.tokenization.tokenizer import Tokenizer


def prompt_ids(model: Transformer, tokenizer: Tokenizer, prompt: str) -> list[int]:
    """``<s> prompt`` for a decoder, begun as its texts are; the bare source for an encoder-decoder, ended later.

    Raises:
        UsageError: there is nothing to translate, or nothing to go on from.
    """
    ids = tokenizer.encode(prompt)
    if isinstance(model, Decoder):
        read = tokenizer.roles.prompt(ids)
        if not read:
            raise UsageError("The prompt is empty, and no token of this run begins a text", "give it a text")
        return read
    if not ids:
        raise UsageError(f"The prompt {prompt!r} is empty, and this run translates", "give it a sentence")
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
    """Refuse a prompt that does not fit, without making anything of it.

    Raises:
        UsageError: as making something of it would.
        BrokenInputError: it is no text.
    """
    if isinstance(model, Encoder):
        masked(model, tokenizer, prompt)
        return
    ids = prompt_ids(model, tokenizer, prompt)
    if isinstance(model, Decoder):
        read = read_of(ids, model.section, settings.beyond_context)
        token_limits(model.section, [len(read)], settings.max_new_tokens, settings.beyond_context)
    else:
        read_of_source(ids, model.section, tokenizer.roles)
