"""PyTorch's own modules, filled with the weights of ours."""

import torch
from torch import Tensor, nn

from tfcli.layers.feed_forward import FeedForward
from tfcli.layers.layer import TransformerLayer
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.recipe.model import ModelSection


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
        dtype=torch.float64,
    )
    norms = [ours.attention_residual.norm, ours.feed_forward_residual.norm]
    theirs.self_attn = attention_reference(ours.attention, section.d_model)
    if ours.cross_attention is not None:
        theirs.multihead_attn = attention_reference(ours.cross_attention, section.d_model)
        norms.insert(1, ours.cross_attention_residual.norm)
    assert isinstance(ours.feed_forward, FeedForward)
    theirs.linear1.load_state_dict(ours.feed_forward.up.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.output.state_dict())
    for number, norm in enumerate(norms, 1):
        getattr(theirs, f"norm{number}").load_state_dict(norm.state_dict())
    return theirs
