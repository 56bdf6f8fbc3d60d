"""Model sections drawn at random: small sizes, and every variant of every setting."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tfcli.errors import UsageError
from tfcli.recipe import model as recipe
from tfcli.recipe.model import ModelSection

from .small import ARCHITECTURES, VOCAB

CONTEXT = 24
"""Rows of every context here: room for the longest batch of a test."""

FLAG = (False, True)
VALUES: Mapping[str, tuple[Any, ...]] = {
    "architecture": ARCHITECTURES,
    "vocab_size": (VOCAB,),
    "max_seq_len": (CONTEXT,),
    "d_model": (8, 6, 12, 7),
    "num_layers": (2, 1),
    "num_decoder_layers": (None, 1, 3),
    "num_heads": (2, 1, 3, 4),
    "num_kv_heads": (None, 1, 2),
    "head_dim": (None, 4, 2, 5),
    "d_ff": (None, 5),
    "positions": get_args(recipe.Positions),
    "position_merge": get_args(recipe.PositionMerge),
    "position_layout": (None, *get_args(recipe.PositionLayout)),
    "position_base": (10_000.0, 20.0),
    "position_offset": (0, 2),
    "position_scaling": (1.0, 2.5),
    "position_scaling_kind": get_args(recipe.PositionScaling),
    "position_trained_len": (None, 9),
    "position_low_turns": (1.0, 0.5),
    "position_high_turns": (None, 3.0),
    "position_gain": (None, 1.5),
    "position_dim": (None, 2, 3),
    "position_buckets": (32, 6, 4),
    "position_max_distance": (128, 7, 2),
    "token_types": (0, 1, 2),
    "embedding_norm": FLAG,
    "norm": get_args(recipe.Norm),
    "norm_affine": (True, False),
    "norm_bias": (None, True, False),
    "norm_placement": get_args(recipe.NormPlacement),
    "residuals": (True, False),
    "parallel_residual": FLAG,
    "norm_eps": (1e-5, 1e-2),
    "attention_score": get_args(recipe.AttentionScore),
    "attention_bias": FLAG,
    "attention_output_bias": (None, True, False),
    "query_key_norm": FLAG,
    "sliding_window": (None, 1, 2, 3, 50),
    "attention_softcap": (None, 0.5, 20.0),
    "activation": get_args(recipe.Activation),
    "feed_forward_bias": FLAG,
    "tie_embeddings": (True, False),
    "share_embeddings": (True, False),
    "scale_embeddings": (None, True, False),
    "scale_logits": FLAG,
    "head": get_args(recipe.HeadKind),
    "head_bias": FLAG,
    "labels": (None, ("a", "b", "c")),
    "dropout": (0.0, 0.3),
    "embedding_dropout": (None, 0.2),
    "attention_dropout": (None, 0.2),
    "activation_dropout": (0.0, 0.2),
    "initialization": get_args(recipe.Initialization),
    "init_std": (0.02, 0.3),
}
"""What each setting is drawn from; the tamest value first, towards which a failing example shrinks."""

assert set(VALUES) == {field.name for field in fields(ModelSection)}, "every setting is drawn"


def settings_of_any_kind() -> SearchStrategy[dict[str, Any]]:
    """Settings drawn without a thought for each other, up to eight beside their defaults; most make no sense."""
    always = ("architecture", "vocab_size", "max_seq_len", "d_model")
    names = st.lists(st.sampled_from([name for name in VALUES if name not in always]), max_size=8, unique=True)
    return names.flatmap(
        lambda drawn: st.fixed_dictionaries({name: st.sampled_from(VALUES[name]) for name in (*always, *drawn)})
    )


@st.composite
def sections(draw: DrawFn, **fixed: Any) -> ModelSection:
    """Sections that are accepted, every setting drawn; `fixed` holds some of them."""
    drawn = {name: draw(st.sampled_from(values), label=name) for name, values in VALUES.items()} | fixed
    tame = {name: values[0] for name, values in VALUES.items()}
    for names in _clashes(drawn):
        drawn |= {name: tame[name] for name in names if name not in fixed}
    try:
        return ModelSection(**drawn)
    except UsageError:
        assume(False)
        raise


def _clashes(drawn: dict[str, Any]) -> list[tuple[str, ...]]:
    """Settings that say nothing beside the others, so that most draws are accepted. The rules themselves are not
    repeated here: a draw that they refuse is thrown away."""
    clashes: list[tuple[str, ...]] = []
    positions = drawn["positions"]
    if positions not in ("sinusoidal", "learned"):
        clashes.append(("position_merge", "position_offset"))
    if positions not in ("sinusoidal", "learned", "rotary"):
        clashes.append(("position_dim",))
    if positions != "rotary":
        clashes.append(("position_scaling_kind", "position_gain"))
    if positions != "rotary" or drawn["position_scaling_kind"] not in ("llama3", "yarn"):
        clashes.append(("position_trained_len", "position_low_turns", "position_high_turns"))
    if positions not in ("sinusoidal", "rotary"):
        clashes.append(("position_layout", "position_base", "position_scaling"))
    if positions != "t5":
        clashes.append(("position_buckets", "position_max_distance"))
    elif drawn["position_max_distance"] <= drawn["position_buckets"] // 2:
        clashes.append(("position_max_distance",))
    if positions != "rotary" and drawn["position_merge"] != "concat":
        clashes.append(("position_dim",))
    if drawn["architecture"] != "encoder-decoder":
        clashes.append(("num_decoder_layers", "share_embeddings"))
    if drawn["architecture"] != "encoder":
        clashes.append(("token_types",))
        if drawn["head"] == "none":
            clashes.append(("head",))
    elif drawn["head"] == "none":
        clashes.append(("head_bias", "scale_logits"))
    if drawn["tie_embeddings"] or drawn["head"] != "linear" or drawn["architecture"] == "encoder-decoder":
        clashes.append(("labels",))
    if drawn["attention_score"] == "parameter_free":
        clashes.append(("num_kv_heads", "head_dim", "attention_bias", "attention_output_bias"))
    if drawn["norm_placement"] == "post" or drawn["architecture"] == "encoder-decoder":
        clashes.append(("parallel_residual",))
    if drawn["parallel_residual"]:
        clashes.append(("residuals",))
    if drawn["norm"] == "rmsnorm" or not drawn["norm_affine"]:
        clashes.append(("norm_bias",))
    if drawn["num_heads"] % (drawn["num_kv_heads"] or 1):
        clashes.append(("num_kv_heads",))
    if drawn["head_dim"] is None and drawn["d_model"] % drawn["num_heads"]:
        clashes.append(("d_model", "num_heads", "num_kv_heads"))
    return clashes
