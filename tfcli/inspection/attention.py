"""The attention weights of a trained model on a text."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tfcli.errors import UsageError
from tfcli.generation.beam import prompt_beams
from tfcli.generation.translate import translate
from tfcli.inspection.focus import focused
from tfcli.models.decoder import Decoder
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.models.transformer import AttentionWeights
from tfcli.records.arrays import frozen
from tfcli.records.attention import AttentionKind, AttentionRecord
from tfcli.runs.load import LoadedRun

_KINDS: dict[str, tuple[AttentionKind, ...]] = {
    "decoder": ("decoder_self",),
    "encoder": ("encoder_self",),
    "encoder-decoder": ("encoder_self", "decoder_self", "cross"),
}


@dataclass(frozen=True)
class _Inputs:
    """Ids of the two sides; an encoder or a decoder has one of them."""

    encoder: list[int] | None = None
    decoder: list[int] | None = None


def attention(
    run: LoadedRun,
    text: str,
    target: str | None = None,
    kind: AttentionKind | None = None,
    *,
    beam: int | None = None,
    max_new_tokens: int | None = None,
) -> list[AttentionRecord]:
    """The weights of every layer and head, of one kind or of all that the model has.

    A decoder reads ``<s> text``, an encoder ``<s> text </s>``, an encoder-decoder ``text </s>`` and ``<s> target``;
    without a target it reads its own translation, as its recipe's `[generate]` has it. Row t of a decoder's weights is
    what it looks at to predict the token after t.

    Args:
        beam: follow a search with so many beams: the target is the best text that it finds, and a decoder reads the
            best continuation behind the text.
        max_new_tokens: for that search; None: the recipe's.

    Raises:
        UsageError: the model has no attention of that kind or takes no target or beam, or a text is longer than the
            context.
    """
    kinds = _KINDS[run.architecture]
    if kind is not None and kind not in kinds:
        raise UsageError(f"This {run.architecture} has no {kind} attention", f"choose {' or '.join(kinds)}")
    if target is not None and run.architecture != "encoder-decoder":
        raise UsageError(f"This {run.architecture} reads one text, and --target is a second one", "leave --target out")
    if beam is not None and target is not None:
        raise UsageError("--target gives the text that --beam would find", "leave one of the two out")
    if beam is not None and run.architecture == "encoder":
        raise UsageError("An encoder writes no text, and --beam searches for one", "leave --beam out")
    inputs = _inputs(run, text, target, beam, max_new_tokens)
    decoded = "text" if inputs.encoder is None else "target"
    for side, ids in (("text", inputs.encoder), (decoded, inputs.decoder)):
        longest = run.config.model.max_seq_len
        if ids is not None and len(ids) > longest:
            raise UsageError(f"The {side} has {len(ids)} tokens and the context holds {longest}", f"shorten the {side}")
    weights = _weights(run, inputs)
    return [_record(run, one, inputs, weights[one]) for one in kinds if kind in (None, one)]


def _inputs(run: LoadedRun, text: str, target: str | None, beam: int | None, max_new_tokens: int | None) -> _Inputs:
    roles, tokenizer = run.config.roles, run.tokenizer
    if run.architecture == "decoder":
        ids = [roles.bos, *tokenizer.encode(text)]
        return _Inputs(decoder=ids if beam is None else ids + _best(run, ids, beam, max_new_tokens))
    if run.architecture == "encoder":
        return _Inputs(encoder=[roles.bos, *tokenizer.encode_masked(text), roles.eos])
    source = tokenizer.encode(text)
    if not source:
        raise UsageError("The text is empty", "give a sentence to translate")
    if target is not None:
        output = tokenizer.encode(target)
    elif beam is not None:
        output = _best(run, source, beam, max_new_tokens)
    else:
        assert isinstance(run.model, EncoderDecoder)
        own = replace(run.recipe.generate, beyond_context="stop")
        output = translate(run.model, [source], roles, own)[0]
    return _Inputs(encoder=roles.source(source), decoder=[*roles.target_prefix, *output])


def _best(run: LoadedRun, ids: list[int], beam: int, max_new_tokens: int | None) -> list[int]:
    """The best text of a beam search, without the end token."""
    assert isinstance(run.model, Decoder | EncoderDecoder)
    own = run.recipe.generate
    settings = replace(
        own,
        beam=beam,
        beam_groups=1,
        num_samples=1,
        max_new_tokens=max_new_tokens or own.max_new_tokens,
        beyond_context="stop",
    )
    [[best]] = prompt_beams(run.model, [ids], run.config.roles, settings)
    return [token for token in best.token_ids if token != run.config.roles.eos]


@torch.inference_mode()
def _weights(run: LoadedRun, inputs: _Inputs) -> AttentionWeights:
    weights: AttentionWeights = {}
    ids = [torch.tensor([side], device=run.device) for side in (inputs.encoder, inputs.decoder) if side is not None]
    run.model.hidden(*ids, weights=weights)
    return weights


def _record(run: LoadedRun, kind: AttentionKind, inputs: _Inputs, layers: list[Tensor]) -> AttentionRecord:
    queries = inputs.encoder if kind == "encoder_self" else inputs.decoder
    keys = inputs.decoder if kind == "decoder_self" else inputs.encoder
    assert queries is not None and keys is not None
    table = frozen(torch.stack([layer[0] for layer in layers]).cpu().numpy())
    labels = run.tokenizer.labels
    return focused(AttentionRecord(kind, tuple(labels(queries)), tuple(labels(keys)), table))
