"""Direct logit attribution: what a token's logit owes to each part of a model. It is h · W[token] + b, and h is a sum
over parts (`decomposed`), so the logit is one too (Elhage et al. 2021; Nanda 2022, "direct logit attribution"). What a
part does by way of later parts counts as theirs.

Sublayers add to the residual stream, so that it is a sum; a norm is linear once its scale is taken as it is at this
position (Elhage et al. 2021, A mathematical framework for transformer circuits, "Handling layer normalization"). With
the norm after the residual, every layer divides what is there already, and every summand is divided with it. Computed
in float64 from the values of the model's own pass. Shape legend: T queries, D model, H heads, Dh size of a head."""

import torch
from torch import Tensor, nn

from tfcli.inspection.attribution import Attribution, Contribution, Part, PartKind
from tfcli.inspection.passes import AttentionPass, LayerPass, ModelPass, record_model, require_residuals
from tfcli.inspection.predictions.compute import Asked, answer, ask, named
from tfcli.layers.attention import Span
from tfcli.layers.embedding import TokenEmbedding
from tfcli.layers.layer import Residual, TransformerLayer
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.layers.norms import LayerNorm, RMSNorm
from tfcli.models.head import Head, TransformHead
from tfcli.models.transformer import EncoderDecoder, Stack, Transformer
from tfcli.runs.load import LoadedRun

Summands = dict[Part, Tensor]  # part → the vector that it adds, (D,) in float64


def decomposed(model: Transformer, passed: ModelPass, token_id: int, position: int) -> Summands:
    """What the model multiplies with the output matrix at a position where `token_id` stands, part by part."""
    names = ("target_embedding", "decoder") if isinstance(model, EncoderDecoder) else ("embedding", "stack")
    embedding, stack = map(model.get_submodule, names)
    assert isinstance(embedding, TokenEmbedding) and isinstance(stack, Stack) and isinstance(model.head, Head)
    summands = _embedded(embedding, token_id, position)
    for number, (layer, one) in enumerate(zip(stack.layers, passed.last.layers, strict=True)):
        assert isinstance(layer, TransformerLayer)
        summands = _through_layer(summands, layer, one, number, position)
    return _prepared(_normed(summands, stack.final_norm), model.head)


def _exact(values: Tensor) -> Tensor:
    """In float64, on the CPU: some devices have none."""
    return values.cpu().double()


def _embedded(embedding: TokenEmbedding, token_id: int, position: int) -> Summands:
    """What enters the first layer."""
    rows = {Part("token"): _exact(embedding.weight[token_id]) * embedding.scale}
    if embedding.token_types is not None:
        rows[Part("segment")] = _exact(embedding.token_types[0])
    if embedding.has_positions:
        place = _exact(embedding.position_rows(Span(position, position + 1))[0])
        if embedding.concatenates:
            rows = {part: torch.cat((row, torch.zeros_like(place))) for part, row in rows.items()}
            place = torch.cat((place.new_zeros(len(rows[Part("token")]) - len(place)), place))
        rows[Part("position")] = place
    return _normed(rows, embedding.norm)


def _through_layer(summands: Summands, layer: TransformerLayer, one: LayerPass, number: int, position: int) -> Summands:
    heads = _heads(layer.attention, one.attention, "head", number, position)
    summands = _added(summands, heads, layer.attention_residual, number)
    if one.cross is not None and layer.cross_attention is not None and layer.cross_attention_residual is not None:
        heads = _heads(layer.cross_attention, one.cross, "cross_head", number, position)
        summands = _added(summands, heads, layer.cross_attention_residual, number)
    output, bias = _exact(one.feed_forward[position]), layer.feed_forward.output.bias
    wide = {Part("feed_forward", number): output if bias is None else output - _exact(bias)}
    return _added(summands, _with_bias(wide, bias, number), layer.feed_forward_residual, number)


def _heads(attention: MultiHeadAttention, one: AttentionPass, kind: PartKind, layer: int, position: int) -> Summands:
    """Each head's mixed values times its own columns of Wᵒ; the bias of Wᵒ apart."""
    written, bias = torch.block_diag(*_exact(one.mixed[:, position, None])), None  # (H, H · Dh)
    if isinstance(attention.output, nn.Linear):  # else it is parameter-free
        written, bias = written @ _exact(attention.output.weight).T, attention.output.bias
    return _with_bias({Part(kind, layer, head): row for head, row in enumerate(written)}, bias, layer)


def _joined(summands: Summands, new: Summands) -> Summands:
    return {**summands, **{part: summands[part] + row if part in summands else row for part, row in new.items()}}


def _added(summands: Summands, new: Summands, residual: Residual, layer: int) -> Summands:
    """X + f(…), normalised where the norm comes after."""
    joined = _joined(summands, new)
    return joined if residual.placement == "pre" else _normed(joined, residual.norm, layer)


def _normed(summands: Summands, norm: nn.Module, layer: int | None = None) -> Summands:
    """Every summand through a norm whose scale is that of their sum."""
    if not isinstance(norm, LayerNorm | RMSNorm):
        return summands
    rows = torch.stack(list(summands.values()))
    if isinstance(norm, LayerNorm):
        rows = rows - rows.mean(-1, keepdim=True)
    rows = rows * (rows.sum(0).square().mean() + norm.eps).rsqrt()
    if norm.weight is not None:
        rows = rows * _exact(norm.weight)
    bias = norm.bias if isinstance(norm, LayerNorm) else None
    return _with_bias(dict(zip(summands, rows, strict=True)), bias, layer)


def _prepared(summands: Summands, head: Head) -> Summands:
    """Through what stands in the head before its matrix. An activation f(z) is z · g with g = f(z) / z as it is."""
    if isinstance(head, TransformHead):
        weight, bias = _exact(head.transform.weight), head.transform.bias
        summands = _with_bias({part: weight @ row for part, row in summands.items()}, bias, None)
        z = torch.stack(list(summands.values())).sum(0)
        gate = torch.where(z == 0, 0.0, head.activation(z) / z)
        summands = _normed({part: row * gate for part, row in summands.items()}, head.norm)
    return {part: row * head.scale for part, row in summands.items()}


def _with_bias(summands: Summands, bias: Tensor | None, layer: int | None) -> Summands:
    return summands if bias is None else _joined(summands, {Part("bias", layer): _exact(bias)})


def attribution(
    run: LoadedRun,
    text: str,
    target: str | None = None,
    *,
    position: int | None = None,
    token: str | None = None,
    against: str | None = None,
) -> Attribution:
    """Divide the logit of a token (None: the likeliest) at a position among the parts of the model, less that of
    `against` where there is one. A UsageError without residuals, or where `ask` or `answer` raises one."""
    require_residuals(run.config.model, "choose a --method that needs none, such as occlusion")
    return divide(run, ask(run, text, target, position), token, against)[0]


@torch.inference_mode()
def divide(run: LoadedRun, asked: Asked, token: str | None, against: str | None) -> tuple[Attribution, int, int | None]:
    """What `attribution` finds, without parts where there are no residuals, and the ids of the two tokens."""
    head, at, label = run.model.head, asked.position, run.tokenizer.labels
    assert isinstance(head, Head)
    passed = record_model(run.model, asked.inputs.tensors(run.device), weights=False)
    logits = head(passed.last.hidden[at])
    scores, wanted = named(run, logits), answer(run, logits, token)
    other = None if against is None else answer(run, logits, against, beside=wanted)
    summands = decomposed(run.model, passed, asked.read[at], at) if run.config.model.residuals else None
    found = Attribution(
        tokens=tuple(label(asked.read)),
        position=at,
        token=label([wanted])[0],
        probability=float(logits.softmax(-1)[wanted]),
        rank=1 + int((scores > logits[wanted]).sum()),
        against=None if other is None else label([other])[0],
        best=tuple(label(scores.topk(min(2, len(scores))).indices.tolist())),
        logit=float(logits[wanted] - (0.0 if other is None else logits[other])),
        parts=() if summands is None else contributions(head, summands, wanted, other),
        gated=isinstance(head, TransformHead),
    )
    return found, wanted, other


def contributions(head: Head, summands: Summands, token: int, against: int | None = None) -> tuple[Contribution, ...]:
    """Each summand's share of a token's logit, less that of another token; the head's own bias counts as bias."""

    def less(of: Tensor) -> Tensor:
        return _exact(of[token]) - (0.0 if against is None else _exact(of[against]))

    direction = less(head.weight)
    values = {part: float(row @ direction) for part, row in summands.items()}
    if head.bias is not None:
        values[Part("bias")] = values.get(Part("bias"), 0.0) + float(less(head.bias))
    return tuple(Contribution(part, value) for part, value in values.items())
