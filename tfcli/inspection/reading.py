"""What a model reads of a text: the ids of its two sides, as generation and training give them to it."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tfcli.errors import Remark, UsageError
from tfcli.generation.beam_search import prompt_beams
from tfcli.generation.generate import translate
from tfcli.inspection.attention import AttentionKind
from tfcli.layers.embedding import TokenEmbedding
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.models.transformer import Decoder, Encoder, EncoderDecoder, Stack, Transformer
from tfcli.runs.foreign import remark_if_foreign
from tfcli.runs.load import LoadedRun


@dataclass(frozen=True)
class Inputs:
    """Ids of the two sides; an encoder or a decoder has one of them."""

    encoder: tuple[int, ...] | None = None
    decoder: tuple[int, ...] | None = None

    def tensors(self, device: torch.device) -> list[Tensor]:
        """What the model's `hidden` takes.

        Shape:
            returns: (1, S) and (1, T), of those there are
        """
        return [torch.tensor([side], device=device) for side in (self.encoder, self.decoder) if side is not None]


def read_text(
    run: LoadedRun,
    text: str,
    target: str | None = None,
    *,
    beam: int | None = None,
    max_new_tokens: int | None = None,
    remark: bool = True,
) -> Inputs:
    """The ids that a model reads of a text.

    A decoder reads ``<s> text``, an encoder ``<s> text </s>``, an encoder-decoder ``text </s>`` and ``<s> target``, as
    their texts begin and end; without a target it reads its own translation, as its recipe's `[generate]` has it.

    Args:
        beam: follow a search with so many beams: the target is the best text that it finds, and a decoder reads the
            best continuation behind the text.
        max_new_tokens: for that search; None: the recipe's.
        remark: say by a `Remark` where the text is foreign to the run, or its translation has no end.

    Raises:
        UsageError: the model takes no target or no beam, a source is empty, or a side is longer than the context.
    """
    if target is not None and run.architecture != "encoder-decoder":
        raise UsageError(f"This {run.architecture} reads one text, and --target is a second one", "leave --target out")
    if beam is not None and target is not None:
        raise UsageError("--target gives the text that --beam would find", "leave one of the two out")
    if beam is not None and run.architecture == "encoder":
        raise UsageError("An encoder writes no text, and --beam searches for one", "leave --beam out")
    roles, tokenizer = run.config.roles, run.tokenizer
    ids = tokenizer.encode_masked(text) if run.architecture == "encoder" else tokenizer.encode(text)
    if run.architecture == "encoder":
        inputs = framed(run, ids)
    elif run.architecture == "decoder":
        inputs = framed(run, ids if beam is None else ids + _best(run, roles.prompt(ids), beam, max_new_tokens))
    elif not ids:
        raise UsageError("The text is empty", "give a sentence to translate")
    elif target is not None:
        inputs = framed(run, ids, tokenizer.encode(target))
    elif beam is not None:
        inputs = framed(run, ids, _best(run, ids, beam, max_new_tokens))
    else:
        assert isinstance(run.model, EncoderDecoder)
        room = run.config.model.max_seq_len - len(roles.target_prefix)
        most = min(run.recipe.generate.max_new_tokens, room)
        own = replace(run.recipe.generate, max_new_tokens=most, beyond_context="stop")
        output = translate(run.model, [ids], roles, own)[0]
        if remark and len(output) == most:
            said = f"The run's own translation has no end within {most} tokens; --target TEXT gives another."
            warnings.warn(said, Remark, stacklevel=2)
        inputs = framed(run, ids, output)
    require_room(run, inputs)
    if remark:
        remark_if_foreign(run, text)
    return inputs


def framed(run: LoadedRun, ids: Sequence[int], target: Sequence[int] = ()) -> Inputs:
    """The ids of a text as a model reads them, among its special tokens.

    Args:
        ids: of the text, or of an encoder-decoder's source. target: of its other side.
    """
    roles = run.config.roles
    if run.architecture == "decoder":
        return Inputs(decoder=tuple(roles.prompt(ids)))
    if run.architecture == "encoder":
        return Inputs(encoder=tuple(roles.text(ids)))
    return Inputs(tuple(roles.source(list(ids))), (*roles.target_prefix, *target))


def text_ids(run: LoadedRun, text: str) -> tuple[int, ...]:
    """What a model reads of one text, without another side; an encoder-decoder's encoder reads it.

    Raises:
        UsageError: it is longer than the context, or empty.
    """
    inputs = read_text(run, text, "" if run.architecture == "encoder-decoder" else None, remark=False)
    ids = inputs.decoder if inputs.encoder is None else inputs.encoder
    assert ids is not None
    return ids


def require_room(run: LoadedRun, inputs: Inputs) -> None:
    """Refuse what is longer than a model's context, or nothing at all.

    Raises:
        UsageError: naming the side and both lengths.
    """
    decoded, longest = "text" if inputs.encoder is None else "target", run.config.model.max_seq_len
    for side, ids in (("text", inputs.encoder), (decoded, inputs.decoder)):
        if ids == ():
            raise UsageError(f"The {side} is empty, and no token of this run begins a text", f"give a {side}")
        if ids is not None and len(ids) > longest:
            raise UsageError(f"The {side} has {len(ids)} tokens and the context holds {longest}", f"shorten the {side}")


def _best(run: LoadedRun, ids: list[int], beam: int, max_new_tokens: int | None) -> list[int]:
    """The best text of a beam search, without the end token, as long as it can be read with what it continues."""
    assert isinstance(run.model, Decoder | EncoderDecoder)
    own, longest = run.recipe.generate, run.config.model.max_seq_len
    before = ids if run.architecture == "decoder" else run.config.roles.target_prefix
    if len(before) >= longest:
        problem = f"The text has {len(before)} tokens, and the context of {longest} leaves no room for a new one"
        raise UsageError(problem, "shorten the text")
    most = min(max_new_tokens or own.max_new_tokens, longest - len(before))
    settings = replace(own, beam=beam, beam_groups=1, num_samples=1, max_new_tokens=most, beyond_context="stop")
    [[best]] = prompt_beams(run.model, [ids], run.config.roles, settings)
    return [token for token in best.token_ids if token not in run.config.roles.ends]


@dataclass(frozen=True)
class Tower:
    """The embedding and the stack that read a text; an encoder-decoder's encoder."""

    embedding: TokenEmbedding
    stack: Stack

    def hidden(self, ids: Tensor) -> Tensor:
        """Shape: ids (1, T); returns (T, D)."""
        hidden: Tensor = self.stack(self.embedding(ids))
        return hidden[0]

    @property
    def masked(self) -> bool:
        """Whether a token is kept from seeing those after it."""
        return any(attention.causal for attention in self.attentions())

    def attentions(self) -> list[MultiHeadAttention]:
        """The self-attention of every layer."""
        return [module for module in self.stack.modules() if isinstance(module, MultiHeadAttention)]


def tower(model: Transformer) -> Tower:
    """What of a model reads a text."""
    assert isinstance(model, Decoder | Encoder | EncoderDecoder)
    return Tower(model.embedding, model.encoder if isinstance(model, EncoderDecoder) else model.stack)


KINDS: dict[str, tuple[AttentionKind, ...]] = {
    "decoder": ("decoder_self",),
    "encoder": ("encoder_self",),
    "encoder-decoder": ("encoder_self", "decoder_self", "cross"),
}
"""By architecture, in the order in which they are shown."""


def chosen_kinds(
    run: LoadedRun, kind: AttentionKind | None, place: tuple[int, int | None] | None = None
) -> tuple[AttentionKind, ...]:
    """The kind that is asked for, or all that the model has.

    Args:
        place: a layer and a head, or a layer alone, that one of them has to have.

    Raises:
        UsageError: the model has no attention of that kind, or no such head; naming those it has.
    """
    kinds = KINDS[run.architecture]
    if kind is not None:
        if kind not in kinds:
            raise UsageError(f"This {run.architecture} has no {kind} attention", f"choose {' or '.join(kinds)}")
        kinds = (kind,)
    if place is not None:
        model, decodes = run.config.model, run.architecture == "encoder-decoder"
        layers = max(model.decoder_layers if decodes and one != "encoder_self" else model.num_layers for one in kinds)
        if place[0] >= layers or (place[1] or 0) >= model.num_heads:
            raise UsageError(
                f"{run.directory.path} has no head {place[0]}.{place[1] or 0}",
                f"name LAYER.HEAD, both from 0: layers to {layers - 1}, heads to {model.num_heads - 1}",
            )
    return kinds


def query_ids(kind: AttentionKind, inputs: Inputs) -> tuple[int, ...]:
    """The ids that look."""
    return (inputs.encoder if kind == "encoder_self" else inputs.decoder) or ()


def key_ids(kind: AttentionKind, inputs: Inputs) -> tuple[int, ...]:
    """The ids that are looked at."""
    return (inputs.decoder if kind == "decoder_self" else inputs.encoder) or ()
