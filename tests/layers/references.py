"""Independent references: PyTorch's own modules with the weights of ours, and attention by its definition."""

import math

import torch
from torch import Tensor, nn

from tfcli.layers.layer import TransformerLayer
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.layers.positions import PositionSignal
from tfcli.layers.rotary import Rotation, rotary_frequencies, rotation
from tfcli.recipe.model import ModelSection, PositionLayout


def whole_rotation(
    positions: Tensor, size: int, base: float, *, layout: PositionLayout = "halves", scaling: float = 1.0
) -> Rotation:
    """The rotation of a head of so many dimensions, all of them turned and stretched alike."""
    section = ModelSection(head_dim=size, position_base=base, position_scaling=scaling)
    return rotation(positions, rotary_frequencies(section), layout)


def randomize(module: nn.Module, seed: int = 0) -> None:
    """Every parameter from N(0, 0.3²), so that no bias or gain is at a value that hides its absence."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0.0, 0.3, generator=generator)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def attention_reference(ours: MultiHeadAttention, d_model: int) -> nn.MultiheadAttention:
    """The same attention as PyTorch has it. Shared key-value heads are written out once for each query
    head."""
    bias = ours.query.bias is not None
    theirs = nn.MultiheadAttention(d_model, ours.num_heads, bias=bias, batch_first=True, dtype=torch.float64)
    group = ours.num_heads // ours.num_kv_heads

    def repeated(tensor: Tensor) -> Tensor:
        heads = tensor.unflatten(0, (ours.num_kv_heads, ours.head_dim))
        return torch.cat([heads[i // group] for i in range(ours.num_heads)])

    with torch.no_grad():
        rows = [ours.query.weight, repeated(ours.key.weight), repeated(ours.value.weight)]
        theirs.in_proj_weight.copy_(torch.cat(rows))
        theirs.out_proj.weight.copy_(ours.output.weight)
        if bias:
            theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, repeated(ours.key.bias), repeated(ours.value.bias)]))
            theirs.out_proj.bias.copy_(ours.output.bias)
    return theirs


def layer_reference(
    ours: TransformerLayer, section: ModelSection
) -> nn.TransformerEncoderLayer | nn.TransformerDecoderLayer:
    """PyTorch's encoder layer, or its decoder layer where ours has cross-attention."""
    kind = nn.TransformerEncoderLayer if ours.cross_attention is None else nn.TransformerDecoderLayer
    theirs = kind(
        section.d_model,
        section.num_heads,
        section.inner_size,
        dropout=0.0,
        activation=section.activation,
        layer_norm_eps=section.norm_eps,
        batch_first=True,
        norm_first=section.norm_placement == "pre",
        bias=section.feed_forward_bias,
        dtype=torch.float64,
    )
    norms = [ours.attention_residual.norm, ours.feed_forward_residual.norm]
    theirs.self_attn = attention_reference(ours.attention, section.d_model)
    if ours.cross_attention is not None:
        theirs.multihead_attn = attention_reference(ours.cross_attention, section.d_model)
        norms.insert(1, ours.cross_attention_residual.norm)
    assert ours.feed_forward.gate is None, "PyTorch's layers have no gate"
    theirs.linear1.load_state_dict(ours.feed_forward.up.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.output.state_dict())
    for number, norm in enumerate(norms, 1):
        getattr(theirs, f"norm{number}").load_state_dict(norm.state_dict())
    return theirs


def attention_by_definition(
    ours: MultiHeadAttention, section: ModelSection, x: Tensor, memory: Tensor, seen: Tensor, positions: PositionSignal
) -> Tensor:
    """Every head, query and key in a loop of its own, from the papers' formulas.

    Shape:
        x: (B, T, D); memory: (B, S, D), in self-attention x itself
        seen: (B, T, S), True = may attend
        returns: (B, T, D)
    """
    state, size = ours.state_dict(), section.size_per_head
    added = torch.zeros(x.shape[1], section.d_model, dtype=x.dtype) if positions.added is None else positions.added
    keyed = memory + added if memory is x else memory
    queries, keys, values = (
        _linear(state, "query", x + added),
        _linear(state, "key", keyed),
        _linear(state, "value", memory),
    )
    rows = []
    for b in range(len(x)):
        for t in range(x.shape[1]):
            heads = []
            for h in range(section.num_heads):
                g = h // (section.num_heads // section.kv_heads)
                here, there = slice(h * size, (h + 1) * size), slice(g * size, (g + 1) * size)
                query = _placed(section, state, "query_norm", queries[b, t, here], positions, t)
                scores = {
                    s: _score(
                        section, state, query, _placed(section, state, "key_norm", keys[b, s, there], positions, s), h
                    )
                    + (0.0 if positions.bias is None else positions.bias[0, h, t, s])
                    for s in range(memory.shape[1])
                    if seen[b, t, s]
                }
                total = sum(torch.exp(score - max(scores.values())) for score in scores.values())
                head = torch.zeros(size, dtype=x.dtype)
                for s, score in scores.items():
                    head = head + torch.exp(score - max(scores.values())) / total * values[b, s, there]
                heads.append(head)
            rows.append(_linear(state, "output", torch.cat(heads)))
    return torch.stack(rows).unflatten(0, x.shape[:2])


def _linear(state: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    if f"{name}.weight" not in state:
        return x
    return x @ state[f"{name}.weight"].T + state.get(f"{name}.bias", torch.zeros((), dtype=x.dtype))


def _placed(
    section: ModelSection, state: dict[str, Tensor], name: str, x: Tensor, positions: PositionSignal, at: int
) -> Tensor:
    """Normalised and turned, where the recipe says so."""
    if section.query_key_norm:
        if section.norm == "layernorm":
            x = x - x.mean()
        x = x / (x.square().mean() + section.norm_eps).sqrt() * state.get(f"{name}.weight", 1.0)
        x = x + state.get(f"{name}.bias", 0.0)
    if positions.rotation is None:
        return x
    size = section.position_dim or len(x)
    half, turned = size // 2, x.clone()
    for i in range(half):
        first, second = (i, i + half) if section.layout == "halves" else (2 * i, 2 * i + 1)
        angle = at / section.position_scaling * section.position_base ** (-2 * i / size)
        turned[first] = x[first] * math.cos(angle) - x[second] * math.sin(angle)
        turned[second] = x[second] * math.cos(angle) + x[first] * math.sin(angle)
    return turned


def _score(section: ModelSection, state: dict[str, Tensor], query: Tensor, key: Tensor, head: int) -> Tensor:
    if section.attention_score == "additive":
        score = state["score.weight"][head] @ torch.tanh(query + key)
    else:
        score = query @ key
    if section.attention_score == "scaled_dot":
        score = score / math.sqrt(len(query))
    cap = section.attention_softcap
    return score if cap is None else cap * torch.tanh(score / cap)
