"""The plain form of settings: what most families have alike, and a family that has it otherwise says so."""

from collections.abc import Collection

from tfcli.interop.activations import WRITTEN
from tfcli.interop.layout import Inexpressible, require
from tfcli.recipe.model import ModelSection

PLAIN = ModelSection(
    num_kv_heads=None,
    head_dim=None,
    position_merge="add",
    position_offset=0,
    position_scaling=1.0,
    position_scaling_kind="linear",
    position_trained_len=None,
    position_low_turns=1.0,
    position_high_turns=None,
    position_gain=None,
    position_dim=None,
    token_types=0,
    embedding_norm=False,
    norm_affine=True,
    parallel_residual=False,
    attention_score="scaled_dot",
    query_key_norm=False,
    sliding_window=None,
    attention_softcap=None,
    scale_embeddings=False,
    scale_logits=False,
    head="linear",
    head_bias=False,
    activation_dropout=0.0,
)
"""What a family's section starts from. Each of these is said here, so that no default of recipes decides about it."""


def check_plain(section: ModelSection, family: str, own: Collection[str] = ()) -> None:
    """Check that a run has the plain form of every setting, but for those of the family's own.

    Args:
        family: its name, for the reason.
        own: settings that the family has in another form, or in several: it checks them itself.

    Raises:
        Inexpressible: at the first that differs.
    """
    forms: dict[str, tuple[object, str]] = {
        "position_merge": (PLAIN.position_merge, "adds positions to the embeddings"),
        "position_offset": (PLAIN.position_offset, "numbers positions from 0"),
        "token_types": (PLAIN.token_types, "has no token types"),
        "embedding_norm": (PLAIN.embedding_norm, "does not normalise embeddings"),
        "num_kv_heads": ((None, section.num_heads), "has keys and values for every head"),
        "head_dim": ((None, section.d_model / section.num_heads), "divides d_model among its heads"),
        "parallel_residual": (PLAIN.parallel_residual, "has its sublayers one after the other"),
        "attention_score": (PLAIN.attention_score, "has scaled dot products"),
        "query_key_norm": (PLAIN.query_key_norm, "does not normalise queries and keys"),
        "sliding_window": (PLAIN.sliding_window, "attends to the whole text"),
        "attention_softcap": (PLAIN.attention_softcap, "has no bound on scores"),
        "activation": (tuple(WRITTEN), "has no gate in its feed-forward"),
        "head": (PLAIN.head, "has one matrix as its head"),
        "head_bias": (PLAIN.head_bias, "has no bias for the logits"),
        "scale_logits": (PLAIN.scale_logits, "does not scale logits"),
    }
    for name, (value, reason) in forms.items():
        if name not in own:
            require(section, f"{family} {reason}", **{name: value})
    # What counts is the factor: a setting of None leaves it to others.
    if section.embedding_scale != 1 and "scale_embeddings" not in own:
        raise Inexpressible("scale_embeddings", True, f"{family} does not scale embeddings")
