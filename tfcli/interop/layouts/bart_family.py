"""What BART and Marian share: Vaswani et al.'s encoder-decoder (2017), with a norm after every sublayer and biases
everywhere, under the same names of settings and tensors."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from tfcli.interop.activations import ACTIVATIONS, WRITTEN
from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import TensorMap, require
from tfcli.interop.layouts.encoder_decoders import check_both_sides, written_tokens
from tfcli.interop.layouts.parts import affine, norm
from tfcli.interop.layouts.plain import PLAIN, check_plain
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import TokenRoles

CONSTANTS = (r"model\.(encoder|decoder)\.version",)
"""Tensors of old files that number the format."""

HEADS = (r"classification_head\..*", r"qa_outputs\..*", r"classifier\..*")
"""Heads of other tasks than generation."""

_ALIASES = {
    "hidden_size": "d_model",
    "num_hidden_layers": "encoder_layers",
    "num_attention_heads": "encoder_attention_heads",
}

_NORM_EPS = 1e-5
"""Not a setting of these families."""

_WITHOUT_EFFECT = (
    # The head's bias is read whatever this says.
    "add_bias_logits",
    # Of generation, and of a head for another task.
    "force_bos_token_to_be_generated", "classif_dropout", "output_past",
    # Left behind by the training of distilled checkpoints.
    "replacing_rate", "save_step", "student_decoder_layers", "student_encoder_layers",
)  # fmt: skip


def read(config: CheckpointConfig, without_effect: Collection[str] = (), **own: Any) -> ModelSection:
    """The section of a checkpoint of these families.

    Args:
        without_effect: settings of the family that change nothing.
        own: what the family adds to what both share.
    """
    check_both_sides(config, _ALIASES)
    heads, d_ff = _on_both_sides(config, "attention_heads"), _on_both_sides(config, "ffn_dim")
    for name in ("normalize_before", "add_final_layer_norm", "do_blenderbot_90_layernorm"):
        config.fixed(name, False, reason="tfcli reads this family with a norm after every sublayer and no other")
    for name in ("encoder_layerdrop", "decoder_layerdrop"):
        config.fixed(name, 0, reason="tfcli leaves out no layers in training")
    dropout = config.number("dropout", 0.1)
    section = replace(
        PLAIN,
        architecture="encoder-decoder",
        vocab_size=config.integer("vocab_size"),
        max_seq_len=config.integer("max_position_embeddings"),
        d_model=config.integer("d_model"),
        num_layers=config.integer("encoder_layers"),
        num_decoder_layers=config.integer("decoder_layers"),
        num_heads=heads,
        d_ff=d_ff,
        norm="layernorm",
        norm_bias=True,
        norm_placement="post",
        norm_eps=_NORM_EPS,
        attention_bias=True,
        attention_output_bias=True,
        activation=config.choice("activation_function", ACTIVATIONS, "gelu"),
        feed_forward_bias=True,
        scale_embeddings=config.flag("scale_embedding", False),
        head_bias=True,
        dropout=dropout,
        embedding_dropout=dropout,
        attention_dropout=config.number("attention_dropout", 0.0),
        activation_dropout=config.number("activation_dropout", 0.0),
        initialization="bert",
        init_std=config.number("init_std", 0.02),
        **own,
    )
    config.finish((*_WITHOUT_EFFECT, *without_effect))
    return section


def _on_both_sides(config: CheckpointConfig, name: str) -> int:
    value = config.integer(f"encoder_{name}")
    config.integer(f"decoder_{name}")
    config.fixed(f"decoder_{name}", value, reason=f"encoder_{name} is {value}, where tfcli's sides have the same")
    return value


def tensors(section: ModelSection) -> list[TensorMap]:
    """The layers of both sides, and the head's bias."""
    assert section.vocab_size is not None
    maps = []
    for side, layers in (("encoder", section.num_layers), ("decoder", section.decoder_layers)):
        for i in range(layers):
            maps += layer(f"model.{side}.layers.{i}", f"{side}.layers.{i}", section, cross=side == "decoder")
    row = (1, section.vocab_size)
    maps.append(TensorMap("final_logits_bias", ("head.bias",), absent=(0.0, row), theirs_shape=row, optional=True))
    return maps


def layer(theirs: str, ours: str, section: ModelSection, *, cross: bool) -> list[TensorMap]:
    """One layer, as OPT has it too."""
    size, inner = section.d_model, section.inner_size
    maps = _attention(f"{theirs}.self_attn", f"{ours}.attention", size)
    if cross:
        maps += _attention(f"{theirs}.encoder_attn", f"{ours}.cross_attention", size)
    return [
        *maps,
        *affine(f"{theirs}.fc1", f"{ours}.feed_forward.up", size=inner),
        *affine(f"{theirs}.fc2", f"{ours}.feed_forward.output", size=size),
        *norm(f"{theirs}.final_layer_norm", f"{ours}.feed_forward_residual.norm", size),
    ]


def _attention(theirs: str, ours: str, size: int) -> list[TensorMap]:
    maps = norm(f"{theirs}_layer_norm", f"{ours}_residual.norm", size)
    for letter, name in (("q", "query"), ("k", "key"), ("v", "value"), ("out", "output")):
        maps += affine(f"{theirs}.{letter}_proj", f"{ours}.{name}", size=size)
    return maps


def check(section: ModelSection, family: str, own: Collection[str] = ()) -> None:
    """Refuse what neither family has.

    Args:
        family: its name, for the reason.
        own: settings that it has in another form than most: it checks them itself.

    Raises:
        Inexpressible: names the first setting in the way.
    """
    require(section, f"{family} has LayerNorm", norm="layernorm", norm_eps=_NORM_EPS)
    require(section, f"{family} normalises after every sublayer", norm_placement="post")
    check_plain(section, family, own=("scale_embeddings", "head_bias", *own))


def write(section: ModelSection, roles: TokenRoles) -> dict[str, Any]:
    """The settings that both families have. Generation ends where the model says so: no end is forced."""
    return {
        "is_encoder_decoder": True,
        "vocab_size": section.vocab_size,
        "max_position_embeddings": section.max_seq_len,
        "d_model": section.d_model,
        "encoder_layers": section.num_layers,
        "decoder_layers": section.decoder_layers,
        "encoder_attention_heads": section.num_heads,
        "decoder_attention_heads": section.num_heads,
        "encoder_ffn_dim": section.inner_size,
        "decoder_ffn_dim": section.inner_size,
        "activation_function": WRITTEN[section.activation],
        "scale_embedding": section.embedding_scale != 1,
        "dropout": section.dropout,
        "attention_dropout": section.attention_dropout_rate,
        "activation_dropout": section.activation_dropout,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "init_std": section.init_std,
        "use_cache": True,
        "forced_eos_token_id": None,
        **written_tokens(roles),
    }
