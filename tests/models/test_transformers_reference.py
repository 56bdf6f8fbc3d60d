"""Whole models against Hugging Face's GPT-2 and Llama, written by others, with the same weights."""

import pytest
import torch

from tfcli.models.build import build_model
from tfcli.models.transformer import Transformer

from .small import VOCAB, ids, section

transformers = pytest.importorskip("transformers", reason="the dev extra brings transformers")


def lively(model: torch.nn.Module) -> torch.nn.Module:
    """Weights large enough that nothing is nearly linear, and biases and gains that are seen."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.4, generator=generator)
    return model.double().eval()


def copy(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    with torch.no_grad():
        for ours, theirs in pairs:
            assert ours.shape == theirs.shape
            ours.copy_(theirs)


def gpt2() -> tuple[Transformer, torch.nn.Module]:
    """GPT-2 keeps its matrices transposed, and queries, keys and values in one."""
    config = transformers.GPT2Config(
        vocab_size=VOCAB, n_positions=16, n_embd=16, n_layer=2, n_head=2, activation_function="gelu"
    )
    theirs = lively(transformers.GPT2LMHeadModel(config))
    wanted = section(
        positions="learned",
        norm="layernorm",
        activation="gelu",
        attention_bias=True,
        feed_forward_bias=True,
        scale_embeddings=False,
    )
    ours = build_model(wanted).double().eval()
    body = theirs.transformer
    pairs = [(ours.embedding.weight, body.wte.weight), (ours.embedding.positions, body.wpe.weight)]
    for layer, block in zip(ours.stack.layers, body.h, strict=True):
        attention, forward = layer.attention, layer.feed_forward
        for part, weight, bias in zip(
            (attention.query, attention.key, attention.value),
            block.attn.c_attn.weight.chunk(3, dim=1),
            block.attn.c_attn.bias.chunk(3),
            strict=True,
        ):
            pairs += [(part.weight, weight.T), (part.bias, bias)]
        for part, linear in (
            (attention.output, block.attn.c_proj),
            (forward.up, block.mlp.c_fc),
            (forward.output, block.mlp.c_proj),
        ):
            pairs += [(part.weight, linear.weight.T), (part.bias, linear.bias)]
        for norm, other in (
            (layer.attention_residual.norm, block.ln_1),
            (layer.feed_forward_residual.norm, block.ln_2),
        ):
            pairs += [(norm.weight, other.weight), (norm.bias, other.bias)]
    pairs += [(ours.stack.final_norm.weight, body.ln_f.weight), (ours.stack.final_norm.bias, body.ln_f.bias)]
    copy(pairs)
    return ours, theirs


def llama() -> tuple[Transformer, torch.nn.Module]:
    """Rotary positions, RMSNorm, SwiGLU, four query heads on two key-value heads."""
    config = transformers.LlamaConfig(
        vocab_size=VOCAB,
        max_position_embeddings=16,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        rms_norm_eps=1e-5,
        tie_word_embeddings=False,
    )
    theirs = lively(transformers.LlamaForCausalLM(config))
    wanted = section(num_heads=4, num_kv_heads=2, d_ff=24, tie_embeddings=False, scale_embeddings=False)
    ours = build_model(wanted).double().eval()
    pairs = [
        (ours.embedding.weight, theirs.model.embed_tokens.weight),
        (ours.head.weight, theirs.lm_head.weight),
        (ours.stack.final_norm.weight, theirs.model.norm.weight),
    ]
    for layer, block in zip(ours.stack.layers, theirs.model.layers, strict=True):
        pairs += [
            (layer.attention.query.weight, block.self_attn.q_proj.weight),
            (layer.attention.key.weight, block.self_attn.k_proj.weight),
            (layer.attention.value.weight, block.self_attn.v_proj.weight),
            (layer.attention.output.weight, block.self_attn.o_proj.weight),
            (layer.feed_forward.gate.weight, block.mlp.gate_proj.weight),
            (layer.feed_forward.up.weight, block.mlp.up_proj.weight),
            (layer.feed_forward.output.weight, block.mlp.down_proj.weight),
            (layer.attention_residual.norm.weight, block.input_layernorm.weight),
            (layer.feed_forward_residual.norm.weight, block.post_attention_layernorm.weight),
        ]
    copy(pairs)
    return ours, theirs


@pytest.mark.parametrize("pair", [gpt2, llama], ids=["gpt2", "llama"])
def test_the_logits_are_theirs(pair):
    ours, theirs = pair()
    tokens = ids(2, 12)
    with torch.no_grad():
        torch.testing.assert_close(ours(tokens), theirs(tokens).logits, atol=1e-6, rtol=0)
