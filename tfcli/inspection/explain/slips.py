"""Where a lecture prints something else than what it computes, and which of it an explanation meets."""

from collections.abc import Mapping
from typing import Literal

from tfcli.records.explain import NotationName

Topic = Literal["attention", "layer"]

SLIPS: Mapping[NotationName, Mapping[Topic, tuple[str, ...]]] = {
    "bishop": {
        "attention": (
            "The slides give W⁽q⁾, W⁽k⁾ and W⁽v⁾ the sizes of Q, K and V, N × D_k and N × D_v: X W needs D × D_k and "
            "D × D_v.",
            "They give W⁽o⁾ the size H·D_v × D after calling the number of heads C: it is C·D_v × D.",
        ),
        "layer": (
            "The slides call Y a linear transformation of X: it is linear in the values, and not in X, as "
            "`explain attention` measures.",
        ),
    },
    "udl": {
        "attention": (
            "The notes leave the prime off the sum below a[x_n, x_m], k_mᵀ q_n inside Σ over m′: it is k_m′ᵀ q_n.",
            "They write xᵀy = |x| |y| θ: it is the cosine of θ.",
            "Their formula adds Π to V, K and Q; their sentence adds it to X, and so do we "
            "(model.position_merge = 'query_key' keeps it from the values).",
        ),
        "layer": (
            "The notes say that LayerNorm takes statistics across tokens: it takes them over the D numbers of a token. "
            "Across tokens they would tell a token of its future.",
        ),
    },
    "cs224n": {
        "attention": (
            "Equation 24 concatenates the values v_i⁽ℓ⁾: it is the heads' outputs h_i⁽ℓ⁾ of equation 22.",
            "The text gives a head's output the size d × d/k and all of them d × d: of n tokens, n × d/k and n × d.",
            "Equation 32 divides by √d, in its notation of a single head; k heads divide by √(d/k).",
        ),
        "layer": (
            "Equations 27 and 28 leave out ε, without which a token of equal numbers is divided by 0, and the hat of "
            "μ̂_i below the root.",
        ),
    },
    "inf721": {
        "attention": ("The slide writes X_e = E X: with one-hot rows it is X E, T_x × |V| times |V| × d_model.",),
        "layer": ("The slide writes X_e = E X: with one-hot rows it is X E, T_x × |V| times |V| × d_model.",),
    },
}

ENCODER_NOTES = (
    "Encoder notes (004) print V = X W_q and K ∈ N × d_v: V = X W_v, and K is N × d_k as Q is, or Q Kᵀ would not be.",
    "They stack the heads on top of each other before W_O: side by side, N × h·d_v, they meet its h·d_v rows.",
)


def slips(name: NotationName, topic: Topic) -> tuple[str, ...]:
    """What the lecture of a notation prints otherwise on a topic."""
    return SLIPS[name].get(topic, ())
