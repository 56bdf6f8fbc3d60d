"""A layer of a trained run on a text."""

import torch

from tfcli.errors import UsageError
from tfcli.inspection.attention.focus import require_place
from tfcli.inspection.explain.subject import Subject
from tfcli.inspection.kinds import chosen_kinds, key_ids, query_ids
from tfcli.inspection.passes import record_model
from tfcli.inspection.reading import read_text
from tfcli.layers.layer import TransformerLayer
from tfcli.layers.positions import NO_SIGNAL
from tfcli.layers.span import Span
from tfcli.models.stack import Stack
from tfcli.records.attention import AttentionKind
from tfcli.runs.load import LoadedRun


def of_run(
    run: LoadedRun, text: str, *, target: str | None = None, kind: AttentionKind | None = None, layer: int = 0
) -> Subject:
    """One layer of a run, on what it reads of a text; of an encoder-decoder without `kind`, of the decoder's own.

    Raises:
        UsageError: the run has no such layer or no such attention, or the text is empty or too long.
    """
    kinds = chosen_kinds(run, kind)
    kind = "decoder_self" if "decoder_self" in kinds else kinds[0]
    if not text.strip():
        raise UsageError("The text is empty", "give a few words")
    inputs = read_text(run, text, target)
    stack = _stack(run, kind)
    require_place("layer", layer, len(stack.layers))
    tensors = inputs.tensors(run.device)
    with torch.inference_mode():
        passed = record_model(run.model, tensors)
    found = passed.encoder if kind == "encoder_self" else passed.decoder
    module = stack.layers[layer]
    assert found is not None and isinstance(module, TransformerLayer)
    layer_pass = found.layers[layer]
    attention = module.cross_attention if kind == "cross" else module.attention
    attention_pass = layer_pass.cross if kind == "cross" else layer_pass.attention
    assert attention is not None and attention_pass is not None
    queries, keys = query_ids(kind, inputs), key_ids(kind, inputs)
    return Subject(
        label=f"{run.directory.path}, layer {layer}, {kind}",
        model=run.model,
        passed=passed,
        inputs=tuple(tensors),
        layer=module,
        layer_pass=layer_pass,
        attention=attention,
        attention_pass=attention_pass,
        signal=NO_SIGNAL if kind == "cross" else stack.positions(Span(0, len(queries))),
        query_tokens=tuple(run.tokenizer.labels(queries)),
        key_tokens=tuple(run.tokenizer.labels(keys)),
    )


def _stack(run: LoadedRun, kind: AttentionKind) -> Stack:
    if run.architecture == "encoder-decoder":
        stack = run.model.encoder if kind == "encoder_self" else run.model.decoder
    else:
        stack = run.model.stack
    assert isinstance(stack, Stack)
    return stack
