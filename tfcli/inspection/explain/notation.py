"""How a lecture writes the quantities of a transformer: symbols, formulas, and which way round.

The numbers are the same in all of them. Ours, and those of the model's tensors, have a token a row; a notation whose
tokens are columns writes every matrix transposed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from tfcli.inspection.explain import Matrix, MatrixKind, NotationName
from tfcli.records.arrays import frozen

Axis = Literal["tokens", "vocab", "model", "head", "heads", "joined", "shared", "inner", "one"]
"""N; |V|; D; Dh; H; H · Dh; Hkv · Dh; F; 1."""

Axes = tuple[Axis, Axis]
VECTORS: Axes = ("tokens", "model")
PAIRS: Axes = ("tokens", "tokens")
"""Of queries and keys."""

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Notation:
    """One lecture's way of writing.

    Args:
        axes: the symbol of every axis.
        names: the symbol of every quantity; {sub} and {sup} take the number of a head.
        formulas: what a step computes; {x} and {m} stand for what queries and keys are projected from, {scores} for
            what goes into the softmax.
        scores: the formula of each attention score.
        root: what scaled scores are divided by.
        columns_are_tokens: matrices stand transposed.
        turned: quantities that alone stand transposed.
    """

    name: NotationName
    axes: Mapping[Axis, str]
    names: Mapping[str, str]
    formulas: Mapping[str, str]
    scores: Mapping[str, str]
    root: str
    columns_are_tokens: bool = False
    turned: frozenset[str] = frozenset()

    def symbol(self, quantity: str, head: int | None = None) -> str:
        """How a quantity is called, of one head where it has one for each."""
        number = "" if head is None else str(head)
        sub, sup = number.translate(_SUBSCRIPTS), f"⁽{number.translate(_SUPERSCRIPTS)}⁾" if number else ""
        return self.names[quantity].format(sub=sub, sup=sup)

    def matrix(
        self,
        quantity: str,
        values: Tensor,
        rows: Sequence[str],
        columns: Sequence[str],
        axes: Axes,
        *,
        head: int | None = None,
        kind: MatrixKind = "signed",
        sums: bool = False,
    ) -> Matrix:
        """A quantity as this notation writes it, from how our tensors hold it.

        Shape:
            values: (R, C), with a token a row where rows are tokens
        """
        turned = self.columns_are_tokens or quantity in self.turned
        labels, symbols = (tuple(rows), tuple(columns)), (self.axes[axes[0]], self.axes[axes[1]])
        if turned:
            values, labels, symbols = values.T, labels[::-1], symbols[::-1]
        return Matrix(
            self.symbol(quantity, head),
            frozen(values.detach().float().cpu().numpy()),
            *labels,
            symbols,
            kind,
            ("columns" if turned else "rows") if sums else None,
        )


def numbered(size: int) -> tuple[str, ...]:
    """Labels of dimensions: 0, 1, 2 …"""
    return tuple(map(str, range(size)))


def notation(name: NotationName) -> Notation:
    """A lecture's notation by its name."""
    return {"bishop": BISHOP, "udl": UDL, "cs224n": CS224N, "inf721": INF721}[name]


BISHOP = Notation(
    name="bishop",
    axes={
        "tokens": "N",
        "vocab": "|V|",
        "model": "D",
        "head": "D_k",
        "heads": "C",
        "joined": "C·D_k",
        "shared": "C_kv·D_k",
        "inner": "F",
        "one": "1",
    },
    names={
        "one_hot": "O",
        "table": "E",
        "embedded": "O E",
        "positions": "R",
        "input": "X",
        "memory": "X_enc",
        "w_query": "W⁽q⁾",
        "w_key": "W⁽k⁾",
        "w_value": "W⁽v⁾",
        "b_query": "b⁽q⁾",
        "b_key": "b⁽k⁾",
        "b_value": "b⁽v⁾",
        "query": "Q{sub}",
        "key": "K{sub}",
        "value": "V{sub}",
        "score_vector": "u",
        "raw": "Q{sub}K{sub}ᵀ",
        "raw_alone": "XXᵀ",
        "scaled": "L{sub}",
        "bias": "B{sub}",
        "mask": "M",
        "masked": "L′{sub}",
        "weights": "A{sub}",
        "weights_beside": "scaled A{sub}",
        "weights_printed": "printed",
        "next": "P(next)",
        "cosine": "cos θ{sub}",
        "mixed": "H{sub}",
        "mixed_alone": "Y",
        "joined": "H",
        "w_output": "W⁽o⁾",
        "b_output": "b⁽o⁾",
        "output": "Y",
        "attended": "Y(X)",
        "first_sum": "Y(X) + X",
        "middle": "Z",
        "inner": "inner",
        "mlp": "MLP(Z)",
        "second_sum": "MLP(Z) + Z",
        "out": "X̃",
        "normed_input": "LN(X)",
        "normed_middle": "LN(Z)",
        "crossed": "Z",
        "normed_crossing": "LN(Z)",
        "attended_across": "Cross(Z)",
        "crossed_sum": "Cross(Z) + Z",
        "w_up": "W₁",
        "w_gate": "W_g",
        "w_down": "W₂",
        "statistics": "",
    },
    formulas={
        "embed": "X = O E + R",
        "enter": "X, a token a row",
        "project": "Q = {x} W⁽q⁾   K = {m} W⁽k⁾   V = {v} W⁽v⁾",
        "split": "Q = (Q_0, …, Q_C−1), and so K and V",
        "scaled": "L_c = {scores}",
        "masked": "L′_c = {scores}",
        "weights": "A_c = softmax({scores}), row by row",
        "weights_alone": "A = softmax({scores}), row by row",
        "mix": "H_c = A_c V_c",
        "join": "H = (H_0, …, H_C−1)   Y = H W⁽o⁾",
        "mix_alone": "Y = A X",
        "norm": "LayerNorm(x) = (x − μ) / √(σ² + ε)",
        "rms": "RMSNorm(x) = x / √(mean(x²) + ε)",
        "post_attention": "Z = LayerNorm(Y(X) + X)",
        "post_mlp": "X̃ = LayerNorm(MLP(Z) + Z)",
        "pre_attention": "Z = Y(LayerNorm(X)) + X",
        "pre_mlp": "X̃ = MLP(LayerNorm(Z)) + Z",
        "post_cross": "Z ← LayerNorm(Cross(Z) + Z)",
        "pre_cross": "Z ← Cross(LayerNorm(Z)) + Z",
        "mlp": "MLP(z) = {act}(z W₁) W₂",
        "mlp_gated": "MLP(z) = ({act}(z W_g) ⊙ z W₁) W₂",
    },
    scores={
        "scaled_dot": "Q_c K_cᵀ / √D_k",
        "dot": "Q_c K_cᵀ",
        "additive": "uᵀ tanh(q_n + k_m)",
        "parameter_free": "X Xᵀ",
    },
    root="√D_k",
)


CS224N = Notation(
    name="cs224n",
    axes={
        "tokens": "n",
        "vocab": "|V|",
        "model": "d",
        "head": "d/k",
        "heads": "k",
        "joined": "k·(d/k)",
        "shared": "k_kv·(d/k)",
        "inner": "d_ff",
        "one": "1",
    },
    names={
        "one_hot": "w₁:ₙ",
        "table": "E",
        "embedded": "w₁:ₙE",
        "positions": "p₁:ₙ",
        "input": "x₁:ₙ",
        "memory": "h_enc",
        "w_query": "Q",
        "w_key": "K",
        "w_value": "V",
        "b_query": "b_Q",
        "b_key": "b_K",
        "b_value": "b_V",
        "query": "q{sup}",
        "key": "k{sup}",
        "value": "v{sup}",
        "score_vector": "u",
        "raw": "q{sup}k{sup}ᵀ",
        "raw_alone": "x₁:ₙx₁:ₙᵀ",
        "scaled": "e{sup}",
        "bias": "b{sup}",
        "mask": "mask",
        "masked": "e′{sup}",
        "weights": "α{sup}",
        "weights_beside": "scaled α{sup}",
        "weights_printed": "printed",
        "next": "P(next)",
        "cosine": "cos θ{sup}",
        "mixed": "h{sup}",
        "mixed_alone": "h₁:ₙ",
        "joined": "[h⁽⁰⁾; …]",
        "w_output": "O",
        "b_output": "b_O",
        "output": "h₁:ₙ",
        "attended": "f(h)",
        "first_sum": "f(h) + h",
        "middle": "h′",
        "inner": "inner",
        "mlp": "f(h′)",
        "second_sum": "f(h′) + h′",
        "out": "h″",
        "normed_input": "LN(h)",
        "normed_middle": "LN(h′)",
        "crossed": "h′",
        "normed_crossing": "LN(h′)",
        "attended_across": "cross(h′)",
        "crossed_sum": "cross(h′) + h′",
        "w_up": "W₁",
        "w_gate": "W_g",
        "w_down": "W₂",
        "statistics": "",
    },
    formulas={
        "embed": "x₁:ₙ = w₁:ₙ E + p₁:ₙ",
        "enter": "x₁:ₙ, a token a row",
        "project": "q = {x} Q   k = {m} K   v = {v} V",
        "split": "(n, d) → (n, k, d/k) → (k, n, d/k): the heads become a batch axis",
        "scaled": "e⁽ℓ⁾ = {scores}",
        "masked": "e′⁽ℓ⁾ = {scores}",
        "weights": "α⁽ℓ⁾ = softmax({scores}), row by row",
        "weights_alone": "α = softmax({scores}), row by row",
        "mix": "h_i⁽ℓ⁾ = Σ_j α_ij⁽ℓ⁾ v_j⁽ℓ⁾",
        "join": "h_i = O [h_i⁽⁰⁾; …; h_i⁽ᵏ⁻¹⁾], a token at a time",
        "mix_alone": "h₁:ₙ = α x₁:ₙ",
        "norm": "LN(h_i) = (h_i − μ̂_i) / √(σ̂_i² + ε)",
        "rms": "RMSNorm(h_i) = h_i / √(mean(h_i²) + ε)",
        "post_attention": "h′ = LN(f(h) + h), f: attention",
        "post_mlp": "h″ = LN(f(h′) + h′), f: feed-forward",
        "pre_attention": "h′ = f(LN(h)) + h, f: attention",
        "pre_mlp": "h″ = f(LN(h′)) + h′, f: feed-forward",
        "post_cross": "h′ = LN(f(h′) + h′), f: cross-attention",
        "pre_cross": "h′ = f(LN(h′)) + h′, f: cross-attention",
        "mlp": "f(h) = {act}(h W₁) W₂",
        "mlp_gated": "f(h) = ({act}(h W_g) ⊙ h W₁) W₂",
    },
    scores={
        "scaled_dot": "x₁:ₙ Q⁽ℓ⁾ K⁽ℓ⁾ᵀ x₁:ₙᵀ / √(d/k)",
        "dot": "x₁:ₙ Q⁽ℓ⁾ K⁽ℓ⁾ᵀ x₁:ₙᵀ",
        "additive": "uᵀ tanh(q_i + k_j)",
        "parameter_free": "x₁:ₙ x₁:ₙᵀ",
    },
    root="√(d/k)",
    turned=frozenset({"w_output"}),
)


INF721 = Notation(
    name="inf721",
    axes={
        "tokens": "T_x",
        "vocab": "|V|",
        "model": "d_model",
        "head": "d_k",
        "heads": "h",
        "joined": "h·d_k",
        "shared": "h_kv·d_k",
        "inner": "d_ff",
        "one": "1",
    },
    names={
        "one_hot": "X",
        "table": "E",
        "embedded": "X_e",
        "positions": "PE",
        "input": "X_epe",
        "memory": "C_enc",
        "w_query": "W^q",
        "w_key": "W^k",
        "w_value": "W^v",
        "b_query": "b^q",
        "b_key": "b^k",
        "b_value": "b^v",
        "query": "Q{sub}",
        "key": "K{sub}",
        "value": "V{sub}",
        "score_vector": "v_a",
        "raw": "Q{sub}K{sub}ᵀ",
        "raw_alone": "X_epe X_epeᵀ",
        "scaled": "S{sub}",
        "bias": "B{sub}",
        "mask": "Mask",
        "masked": "S′{sub}",
        "weights": "softmax{sub}",
        "weights_beside": "scaled softmax{sub}",
        "weights_printed": "printed",
        "next": "P(next)",
        "cosine": "cos θ{sub}",
        "mixed": "C{sub}",
        "mixed_alone": "C",
        "joined": "Concat",
        "w_output": "W^o",
        "b_output": "b^o",
        "output": "C",
        "attended": "C",
        "first_sum": "X_epe + C",
        "middle": "Z₁",
        "inner": "inner",
        "mlp": "MLP(Z₁)",
        "second_sum": "Z₁ + MLP(Z₁)",
        "out": "Z₂",
        "normed_input": "Norm(X_epe)",
        "normed_middle": "Norm(Z₁)",
        "crossed": "Z₁",
        "normed_crossing": "Norm(Z₁)",
        "attended_across": "Cross(Z₁)",
        "crossed_sum": "Z₁ + Cross(Z₁)",
        "w_up": "W₁",
        "w_gate": "W_g",
        "w_down": "W₂",
        "statistics": "",
    },
    formulas={
        "embed": "X_e = X E   X_epe = X_e + PE",
        "enter": "X_epe, a token a row",
        "project": "Q = {x} W^q   K = {m} W^k   V = {v} W^v",
        "split": "Q_i = X_epe W_i^q, and so K_i and V_i, with d_k = d_model / h",
        "scaled": "S_i = {scores}",
        "masked": "S′_i = {scores}",
        "weights": "softmax({scores}), row by row",
        "weights_alone": "softmax({scores}), row by row",
        "mix": "C_i = softmax(…) V_i",
        "join": "C = Multihead(Q, K, V) = Concat(C_0, …, C_h−1) W^o",
        "mix_alone": "C = softmax(…) X_epe",
        "norm": "Norm(x) = (x − μ) / √(σ² + ε)",
        "rms": "RMSNorm(x) = x / √(mean(x²) + ε)",
        "post_attention": "Z₁ = Norm(X_epe + C)",
        "post_mlp": "Z₂ = Norm(Z₁ + MLP(Z₁))",
        "pre_attention": "Z₁ = X_epe + C, with C of Norm(X_epe)",
        "pre_mlp": "Z₂ = Z₁ + MLP(Norm(Z₁))",
        "post_cross": "Z₁ ← Norm(Z₁ + Cross(Z₁))",
        "pre_cross": "Z₁ ← Z₁ + Cross(Norm(Z₁))",
        "mlp": "MLP(z) = {act}(z W₁) W₂",
        "mlp_gated": "MLP(z) = ({act}(z W_g) ⊙ z W₁) W₂",
    },
    scores={
        "scaled_dot": "Q_i K_iᵀ / √d_k",
        "dot": "Q_i K_iᵀ",
        "additive": "v_aᵀ tanh(q^<t> + k^<t'>)",
        "parameter_free": "X_epe X_epeᵀ",
    },
    root="√d_k",
)


UDL = Notation(
    name="udl",
    axes={
        "tokens": "N",
        "vocab": "|V|",
        "model": "D",
        "head": "D_q",
        "heads": "H",
        "joined": "H·D_q",
        "shared": "H_kv·D_q",
        "inner": "D_h",
        "one": "1",
    },
    names={
        "one_hot": "T",
        "table": "Ω_e",
        "embedded": "Ω_e T",
        "positions": "Π",
        "input": "X",
        "memory": "X_enc",
        "w_query": "Ω_q",
        "w_key": "Ω_k",
        "w_value": "Ω_v",
        "b_query": "β_q",
        "b_key": "β_k",
        "b_value": "β_v",
        "query": "Q{sub}",
        "key": "K{sub}",
        "value": "V{sub}",
        "score_vector": "ω",
        "raw": "K{sub}ᵀQ{sub}",
        "raw_alone": "XᵀX",
        "scaled": "Z{sub}",
        "bias": "B{sub}",
        "mask": "M",
        "masked": "Z′{sub}",
        "weights": "Softmax{sub}",
        "weights_beside": "scaled Softmax{sub}",
        "weights_printed": "printed",
        "next": "P(next)",
        "cosine": "cos θ{sub}",
        "mixed": "Sa{sub}[X]",
        "mixed_alone": "Sa[X]",
        "joined": "[Sa₀ᵀ, …]ᵀ",
        "w_output": "Ω_c",
        "b_output": "β_c",
        "output": "MhSa[X]",
        "attended": "MhSa[X]",
        "first_sum": "X + MhSa[X]",
        "middle": "X′",
        "inner": "inner",
        "mlp": "mlp[X′]",
        "second_sum": "X′ + mlp[X′]",
        "out": "X″",
        "normed_input": "LN[X]",
        "normed_middle": "LN[X′]",
        "crossed": "X′",
        "normed_crossing": "LN[X′]",
        "attended_across": "MhCa[X′]",
        "crossed_sum": "X′ + MhCa[X′]",
        "w_up": "Ω₁",
        "w_gate": "Ω_g",
        "w_down": "Ω₂",
        "statistics": "",
    },
    formulas={
        "embed": "X = Ω_e T + Π",
        "enter": "X, a token a column",
        "project": "Q = β_q 1ᵀ + Ω_q {x}   K = β_k 1ᵀ + Ω_k {m}   V = β_v 1ᵀ + Ω_v {v}",
        "split": "Q_h = β_qh 1ᵀ + Ω_qh X, and so K_h and V_h: D/H rows of each for a head",
        "scaled": "Z_h = {scores}",
        "masked": "Z′_h = {scores}",
        "weights": "Softmax[{scores}], column by column",
        "weights_alone": "Softmax[{scores}], column by column",
        "mix": "Sa_h[X] = V_h · Softmax[…]",
        "join": "MhSa[X] = Ω_c [Sa_0[X]ᵀ, …, Sa_H−1[X]ᵀ]ᵀ",
        "mix_alone": "Sa[X] = X · Softmax[…]",
        "norm": "LayerNorm[x_n] = (x_n − m) / √(s² + ε)",
        "rms": "RMSNorm[x_n] = x_n / √(mean(x_n²) + ε)",
        "post_attention": "X ← X + MhSa[X]   X ← LayerNorm[X]",
        "post_mlp": "x_n ← x_n + mlp[x_n]   X ← LayerNorm[X]",
        "pre_attention": "X ← X + MhSa[LayerNorm[X]]",
        "pre_mlp": "x_n ← x_n + mlp[LayerNorm[x_n]]",
        "post_cross": "X ← X + MhCa[X]   X ← LayerNorm[X]",
        "pre_cross": "X ← X + MhCa[LayerNorm[X]]",
        "mlp": "mlp[x] = β₂ + Ω₂ {act}[β₁ + Ω₁ x]",
        "mlp_gated": "mlp[x] = β₂ + Ω₂ ({act}[Ω_g x] ⊙ Ω₁ x)",
    },
    scores={
        "scaled_dot": "K_hᵀ Q_h / √D_q",
        "dot": "K_hᵀ Q_h",
        "additive": "ωᵀ tanh[k_m + q_n]",
        "parameter_free": "Xᵀ X",
    },
    root="√D_q",
    columns_are_tokens=True,
)
