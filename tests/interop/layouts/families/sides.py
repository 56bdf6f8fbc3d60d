"""What the descriptions of BART and Marian share: the sizes of two sides, and settings that neither has."""

from typing import Any

from hypothesis import strategies as st

from tfcli.interop.families.layout import ACTIVATIONS

SMALL: dict[str, Any] = {
    "vocab_size": 11,
    "max_position_embeddings": 9,
    "d_model": 12,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 10,
    "decoder_ffn_dim": 10,
}

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"decoder_attention_heads": 2}, "decoder_attention_heads"),
    ({"decoder_ffn_dim": 20}, "decoder_ffn_dim"),
    ({"normalize_before": True}, "normalize_before"),
    ({"add_final_layer_norm": True}, "add_final_layer_norm"),
    ({"tie_word_embeddings": False}, "tie_word_embeddings"),
    ({"is_encoder_decoder": False}, "is_encoder_decoder"),
    ({"is_decoder": True}, "is_decoder"),
]
"""Settings that mean another model than either, and what is named."""


@st.composite
def settings(draw: st.DrawFn, multiple: int = 1) -> dict[str, Any]:
    """Settings that both families have.

    Args:
        multiple: what d_model is a multiple of.
    """
    heads, inner = draw(st.integers(1, 4)), draw(st.integers(1, 33))
    return {
        "vocab_size": draw(st.integers(3, 30)),
        "max_position_embeddings": draw(st.integers(2, 17)),
        "d_model": heads * multiple * draw(st.integers(4 // multiple, 7)),
        "encoder_layers": draw(st.integers(1, 3)),
        "decoder_layers": draw(st.integers(1, 3)),
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": inner,
        "decoder_ffn_dim": inner,
        "activation_function": draw(st.sampled_from(sorted(ACTIVATIONS))),
        "scale_embedding": draw(st.booleans()),
    }
