"""A text as a model reads it, and one forward pass with all that it computes recorded. Nothing is computed a second
time: the values are those that the model itself computes on the explicit path. Shape legend: T queries, S keys, D
model, H heads, Hkv key-value heads, Dh size of a head, F feed-forward."""

import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor, nn

from tfcli.errors import Remark, UsageError
from tfcli.generation.beam_search import prompt_beams
from tfcli.generation.generate import translate
from tfcli.inspection.attention import AttentionKind
from tfcli.layers.attention import Score, attention_mask
from tfcli.layers.embedding import TokenEmbedding
from tfcli.layers.layer import TransformerLayer
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.layers.positions import NO_SIGNAL, PositionSignal
from tfcli.models.transformer import Decoder, Encoder, EncoderDecoder, Stack, Transformer
from tfcli.recipe.model import ModelSection
from tfcli.records.heads import HeadPlace, require_head
from tfcli.runs.load import LoadedRun, remark_if_foreign

_EACH = 7  # of so many own tokens of an encoder's text, one is masked to be predicted, always the same


@dataclass(frozen=True)
class Inputs:
    """Ids of the two sides; an encoder or a decoder has one of them."""

    encoder: tuple[int, ...] | None = None
    decoder: tuple[int, ...] | None = None

    @property
    def sides(self) -> list[tuple[int, ...]]:
        """Those there are."""
        return [side for side in (self.encoder, self.decoder) if side is not None]

    def tensors(self, device: torch.device) -> list[Tensor]:
        """What the model's `hidden` takes. Shape: (1, S) and (1, T), of those there are."""
        return [torch.tensor([side], device=device) for side in self.sides]


def read_text(
    run: LoadedRun,
    text: str,
    target: str | None = None,
    *,
    beam: int | None = None,
    max_new_tokens: int | None = None,
    remark: bool = True,
) -> Inputs:
    """The ids that a model reads of a text: a decoder ``<s> text``, an encoder ``<s> text </s>``, an encoder-decoder
    ``text </s>`` and ``<s> target``; without a target its own translation, as its recipe's `[generate]` has it. With a
    `beam`, the best text that so many beams find is the target, or what a decoder reads behind the text. A `Remark`
    says, if asked for, where the text is foreign to the run or its translation has no end; a UsageError, where the
    model takes no target or no beam, a source is empty, or a side is longer than the context."""
    if target is not None and run.architecture != "encoder-decoder":
        raise UsageError(f"This {run.architecture} reads one text, and --target is a second one", "leave --target out")
    if beam is not None and target is not None:
        raise UsageError("--target gives the text that --beam would find", "leave one of the two out")
    if beam is not None and run.architecture == "encoder":
        raise UsageError("An encoder writes no text, and --beam searches for one", "leave --beam out")
    roles, tokenizer, own = run.config.roles, run.tokenizer, run.recipe.generate
    ids = tokenizer.encode_masked(text) if run.architecture == "encoder" else tokenizer.encode(text)
    if run.architecture == "encoder-decoder" and not ids:
        raise UsageError("The text is empty", "give a sentence to translate")
    output: list[int] = []
    if target is not None:
        output = tokenizer.encode(target)
    elif beam is not None:
        output = _best(run, ids, beam, max_new_tokens)
    elif isinstance(run.model, EncoderDecoder):
        most = min(own.max_new_tokens, run.config.model.max_seq_len - len(roles.target_prefix))
        [output] = translate(run.model, [ids], roles, replace(own, max_new_tokens=most, beyond_context="stop"))
        if remark and len(output) == most:
            said = f"The run's own translation has no end within {most} tokens; --target TEXT gives another."
            warnings.warn(said, Remark, stacklevel=2)
    inputs = framed(run, ids, output) if run.architecture == "encoder-decoder" else framed(run, [*ids, *output])
    require_room(run, inputs)
    if remark:
        remark_if_foreign(run, text)
    return inputs


def framed(run: LoadedRun, ids: Sequence[int], target: Sequence[int] = ()) -> Inputs:
    """The `ids` of a text, or of an encoder-decoder's source and `target`, as it reads them: among special tokens."""
    roles = run.config.roles
    if run.architecture == "decoder":
        return Inputs(decoder=tuple(roles.prompt(ids)))
    if run.architecture == "encoder":
        return Inputs(encoder=tuple(roles.text(ids)))
    return Inputs(tuple(roles.source(list(ids))), (*roles.target_prefix, *target))


def own_places(run: LoadedRun, ids: Sequence[int], *, sample: bool = False) -> list[int]:
    """Where a text's own tokens stand, neither special nor unknown; or a `sample` of them, one at least."""
    special = run.config.roles.ids()
    own = [place for place, token in enumerate(ids) if token not in special]
    return (sample and own[_EACH // 2 :: _EACH]) or own


def with_masks(run: LoadedRun, ids: Sequence[int], places: Collection[int]) -> tuple[int, ...]:
    """What an encoder reads where the tokens of some places are hidden from it."""
    mask = run.config.roles.mask or 0  # which an encoder always has
    return tuple(mask if place in places else token for place, token in enumerate(ids))


def text_ids(run: LoadedRun, text: str) -> tuple[int, ...]:
    """What a model, or its encoder, reads of one text. A UsageError where it is longer than the context, or empty."""
    return read_text(run, text, "" if run.architecture == "encoder-decoder" else None, remark=False).sides[0]


def require_room(run: LoadedRun, inputs: Inputs) -> None:
    """Refuse what is longer than a model's context, or nothing at all, by a UsageError that names the side."""
    longest = run.config.model.max_seq_len
    for side, ids in zip(("text", "target"), inputs.sides, strict=False):
        if not ids:
            raise UsageError(f"The {side} is empty, and no token of this run begins a text", f"give a {side}")
        if len(ids) > longest:
            raise UsageError(f"The {side} has {len(ids)} tokens and the context holds {longest}", f"shorten the {side}")


def _best(run: LoadedRun, ids: list[int], beam: int, max_new_tokens: int | None) -> list[int]:
    """The best text of a beam search, without the end token, as long as it can be read with what it continues."""
    assert isinstance(run.model, Decoder | EncoderDecoder)
    own, longest, roles = run.recipe.generate, run.config.model.max_seq_len, run.config.roles
    prompt = roles.prompt(ids) if run.architecture == "decoder" else ids
    before = prompt if run.architecture == "decoder" else roles.target_prefix
    if len(before) >= longest:
        problem = f"The text has {len(before)} tokens, and the context of {longest} leaves no room for a new one"
        raise UsageError(problem, "shorten the text")
    most = min(max_new_tokens or own.max_new_tokens, longest - len(before))
    settings = replace(own, beam=beam, num_samples=1, max_new_tokens=most, beyond_context="stop")
    [[best]] = prompt_beams(run.model, [prompt], roles, settings)
    return [token for token in best.token_ids if token not in roles.ends]


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


KINDS: dict[str, tuple[AttentionKind, ...]] = {  # by architecture, in the order in which they are shown
    "decoder": ("decoder_self",),
    "encoder": ("encoder_self",),
    "encoder-decoder": ("encoder_self", "decoder_self", "cross"),
}


def chosen_kinds(run: LoadedRun, kind: AttentionKind | None) -> tuple[AttentionKind, ...]:
    """The kind that is chosen, or all that the model has; a UsageError where it has no attention of that kind."""
    kinds = KINDS[run.architecture]
    if kind is None:
        return kinds
    if kind not in kinds:
        raise UsageError(f"This {run.architecture} has no {kind} attention", f"choose {' or '.join(kinds)}")
    return (kind,)


def place_in_run(
    run: LoadedRun, kind: AttentionKind | None, place: HeadPlace, option: str = "--head"
) -> tuple[int, int | None] | None:
    """Return the layer and the head of a choice, the layer alone, or None where nothing is chosen.

    Raises:
        UsageError: The model has no such kind of attention, or the longest stack with it has no such place.
    """
    model = run.config.model
    counts = []
    for chosen in chosen_kinds(run, kind):
        is_of_decoder = run.architecture == "encoder-decoder" and chosen != "encoder_self"
        counts.append(model.decoder_layers if is_of_decoder else model.num_layers)
    layer, head = require_head(place, max(counts), model.num_heads, option)
    return None if layer is None else (layer, head)


def query_ids(kind: AttentionKind, inputs: Inputs) -> tuple[int, ...]:
    """The ids that look."""
    return (inputs.encoder if kind == "encoder_self" else inputs.decoder) or ()


def key_ids(kind: AttentionKind, inputs: Inputs) -> tuple[int, ...]:
    """The ids that are looked at."""
    return (inputs.decoder if kind == "decoder_self" else inputs.encoder) or ()


def require_residuals(section: ModelSection, remedy: str = "name a run that has residual connections") -> None:
    """Refuse, by a UsageError, to read what the layers add to each other where they add nothing."""
    if not section.residuals:
        problem = "This picture reads the sum of what the layers add, and model.residuals = false has none"
        raise UsageError(problem, remedy)


@dataclass(frozen=True)
class AttentionPass:
    """One multi-head attention on one text. Queries and keys are normalised and turned by their positions as the recipe
    has it; groups share keys, which are repeated."""

    x: Tensor  # (T, D), what queries are projected from
    memory: Tensor  # (S, D), what keys are
    value_source: Tensor  # (S, D), what values are
    query: Tensor  # (H, T, Dh)
    key: Tensor  # (H, S, Dh)
    value: Tensor  # (H, S, Dh)
    bias: Tensor | None  # (H, T, S), what positions add to the scores; None: nothing
    scores: Tensor  # (H, T, S), with the bias, before the mask; empty, as weights are, where these were not wanted
    mask: Tensor  # (T, S), True = may attend
    weights: Tensor  # (H, T, S)
    mixed: Tensor  # (H, T, Dh), weights times values
    output: Tensor  # (T, D)


@dataclass(frozen=True)
class LayerPass:
    """One layer on one text. Shape: (T, D) each; inner (T, F)."""

    before: Tensor  # the residual stream, as between sublayers and `after` them
    attention: AttentionPass
    after_attention: Tensor
    cross: AttentionPass | None
    after_cross: Tensor | None
    feed_forward_input: Tensor  # normalised where the norm comes before
    inner: Tensor
    feed_forward: Tensor
    after: Tensor

    @property
    def has_feed_forward(self) -> bool:
        """Whether there is one: of an attention-only model there is not."""
        return self.inner.shape[-1] > 0


@dataclass(frozen=True)
class StackPass:
    """A stack on one text."""

    embedded: Tensor  # (T, D), what enters the first layer
    layers: tuple[LayerPass, ...]
    hidden: Tensor  # (T, D), what leaves, behind the last norm where there is one


@dataclass(frozen=True)
class ModelPass:
    """A model on one text; an encoder or a decoder has one of the two stacks."""

    encoder: StackPass | None
    decoder: StackPass | None

    @property
    def last(self) -> StackPass:
        """The stack that the head reads."""
        stack = self.decoder or self.encoder
        assert stack is not None
        return stack

    def attentions(self, kind: AttentionKind) -> list[AttentionPass]:
        """Every layer's attention of a kind."""
        stack = self.encoder if kind == "encoder_self" else self.decoder
        found = [layer.cross if kind == "cross" else layer.attention for layer in (stack.layers if stack else ())]
        return [one for one in found if one is not None]


def record_model(model: Transformer, inputs: Sequence[Tensor], *, weights: bool = True) -> ModelPass:
    """Run `model.hidden` on what it takes, each (1, T), and keep everything, or all but scores and weights."""
    kinds: dict[str, list[Tensor]] = {}
    with _listening(model, dropped=None if weights else kinds) as calls:
        model.hidden(*inputs, weights=kinds)
    if isinstance(model, EncoderDecoder):
        encoder = _stack_pass(model.encoder, "encoder", calls, kinds["encoder_self"])
        return ModelPass(encoder, _stack_pass(model.decoder, "decoder", calls, kinds["decoder_self"], kinds["cross"]))
    assert isinstance(model.stack, Stack)
    [(kind, found)] = kinds.items()
    stack = _stack_pass(model.stack, "stack", calls, found)
    return ModelPass(stack, None) if kind == "encoder_self" else ModelPass(None, stack)


def record_attention(
    attention: MultiHeadAttention, x: Tensor, memory: Tensor | None = None, positions: PositionSignal = NO_SIGNAL
) -> AttentionPass:
    """Run one attention on its own, on x (1, T, D) and memory (1, S, D), None for self-attention; keep everything."""
    weights: list[Tensor] = []
    with _listening(attention) as calls:
        attention(x, memory, positions=positions, weights=weights)
    return _attention_pass(attention, "", calls, positions, weights[0])


_Calls = dict[str, tuple[tuple[Any, ...], Any]]


@contextmanager
def _listening(root: nn.Module, dropped: dict[str, list[Tensor]] | None = None) -> Iterator[_Calls]:
    """What every module below `root` took and gave last, by its dotted name ("" is the root's own); `dropped` weights,
    and scores with them, are emptied layer by layer."""
    calls: _Calls = {}

    def keep(name: str, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        calls[name] = inputs, output if dropped is None or not isinstance(module, Score) else output.new_empty(1, 0)
        for weights in dropped.values() if dropped and isinstance(module, MultiHeadAttention) else ():
            weights[:] = [one.new_empty(1, 0) for one in weights]

    with ExitStack() as hooks:
        for name, module in root.named_modules():
            hooks.enter_context(module.register_forward_hook(partial(keep, name)))
        yield calls


def _stack_pass(
    stack: Stack, name: str, calls: _Calls, weights: list[Tensor], cross: Sequence[Tensor | None] = ()
) -> StackPass:
    (_, positions), layers = calls[f"{name}.positions"], []
    for index, (layer, own, across) in enumerate(zip_longest(stack.layers, weights, cross)):
        assert isinstance(layer, TransformerLayer)
        layers.append(_layer_pass(layer, f"{name}.layers.{index}.", calls, positions=positions, own=own, across=across))
    (embedded, *_), hidden = calls[name]
    return StackPass(embedded[0], tuple(layers), hidden[0])


def _layer_pass(
    layer: TransformerLayer, prefix: str, calls: _Calls, positions: PositionSignal, own: Tensor, across: Tensor | None
) -> LayerPass:
    def took(name: str) -> Tensor:
        return calls[prefix + name][0][0][0]

    def gave(name: str) -> Tensor:
        return calls[prefix + name][1][0]

    cross = after_cross = None
    if layer.cross_attention is not None and across is not None:
        cross = _attention_pass(layer.cross_attention, f"{prefix}cross_attention.", calls, NO_SIGNAL, across)
        after_cross = gave("cross_attention_residual")
    return LayerPass(
        before=took("attention_residual"),
        attention=_attention_pass(layer.attention, f"{prefix}attention.", calls, positions, own),
        after_attention=gave("attention_residual"),
        cross=cross,
        after_cross=after_cross,
        feed_forward_input=took("feed_forward"),
        inner=took("feed_forward.output"),
        feed_forward=gave("feed_forward"),
        after=gave("feed_forward_residual"),
    )


def _attention_pass(
    attention: MultiHeadAttention, prefix: str, calls: _Calls, positions: PositionSignal, weights: Tensor
) -> AttentionPass:
    (query, key), scores = calls[f"{prefix}score"]
    (combined, *_), output = calls[f"{prefix}output"]
    # A model that is made ready to predict has one matrix for queries, keys and values.
    names = ("query", "key", "value") if attention.joined is None else ("joined",) * 3
    three = [calls[f"{prefix}{name}"] for name in names]
    x, memory, value_source = (given[0][0] for given, _ in three)
    projected = three[2][1] if attention.joined is None else three[2][1].split(attention.widths, dim=-1)[2]
    value = projected.unflatten(-1, (attention.num_kv_heads, -1)).transpose(1, 2)
    bias = None if positions.bias is None else positions.bias[0]
    lengths = query.shape[2], key.shape[2]
    mask = attention_mask(None, *lengths, causal=attention.causal, window=attention.window, device=query.device)
    everywhere = torch.ones(lengths, dtype=torch.bool, device=query.device)
    return AttentionPass(
        x=x,
        memory=memory,
        value_source=value_source,
        query=query[0],
        key=key[0],
        value=value[0].repeat_interleave(attention.num_heads // attention.num_kv_heads, dim=0),
        bias=bias,
        scores=scores[0] if bias is None or not weights.numel() else scores[0] + bias,
        mask=everywhere if mask is None else mask.expand(1, 1, *lengths)[0, 0],
        weights=weights[0],
        mixed=combined[0].unflatten(-1, (attention.num_heads, -1)).transpose(0, 1),
        output=output[0],
    )
