"""The claim of each lecture that an explanation shows, a test a row: against the model's own weights, in NumPy."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.inspection.test_explain_attention import close, in_order, matrices, softmax
from tfcli.inspection.explain import Explanation, NotationName, Step
from tfcli.inspection.explain.attention import explain_attention, explain_scores
from tfcli.inspection.explain.layer import explain_layer, trace_shapes
from tfcli.inspection.explain.own import square_scores
from tfcli.inspection.explain.subject import Subject, toy


def step(explanation: Explanation, title: str) -> Step:
    return next(one for one in explanation.steps if one.title.startswith(title))


def weight(subject: Subject, name: str) -> NDArray[np.float32]:
    """A matrix of the attention as the lectures have it, (in, out)."""
    values: NDArray[np.float32] = getattr(subject.attention, name).weight.detach().numpy().T
    return values


def normed(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Over the numbers of each row, with the biased variance and ε = 1e-5."""
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


def test_b1_attention_without_parameters_is_a_softmax_of_x_with_itself():
    page = explain_attention(toy("Lucas will travel far", d_model=3, heads=1, score="parameter_free"))
    shown = matrices(page)
    assert close(shown["Y"], softmax(shown["X"] @ shown["X"].T) @ shown["X"])
    [weights] = step(page, "Weights").matrices[:1]
    assert weights.sums == "rows" and (weights.values >= 0).all()
    assert weights.values.sum(axis=1) == pytest.approx(1.0)
    assert not any(name.startswith("W") for name in shown)


def test_b2_values_may_have_another_size_than_queries_and_keys():
    """D = 5, two heads, D_k = 3 and D_v = 2: W⁽q⁾ is D × D_k, and not N × D_k; W⁽o⁾ is C·D_v × D."""
    subject = toy("Lucas will travel", d_model=5, heads=2, head_dim=3, value_dim=2)
    shown = {one.name: one for one in in_order(explain_attention(subject, head=1))}
    sizes = {"W₂⁽q⁾": (5, 3), "W₂⁽k⁾": (5, 3), "W₂⁽v⁾": (5, 2), "Q₂": (3, 3), "V₂": (3, 2), "H₁": (3, 2), "H": (3, 4)}
    for name, size in (sizes | {"W⁽o⁾": (4, 5), "Y": (3, 5)}).items():
        assert shown[name].values.shape == size
    assert (shown["W₂⁽v⁾"].axes, shown["W⁽o⁾"].axes) == (("D", "D_v"), ("C·D_v", "D"))
    x = shown["X"].values
    assert close(shown["Q₂"].values, x @ weight(subject, "query")[:, 3:])
    assert close(shown["V₂"].values, x @ weight(subject, "value")[:, 2:])
    heads = [
        softmax(x @ weight(subject, "query")[:, k] @ (x @ weight(subject, "key")[:, k]).T / 3**0.5)
        @ (x @ weight(subject, "value")[:, v])
        for k, v in ((slice(0, 3), slice(0, 2)), (slice(3, 6), slice(2, 4)))
    ]
    assert close(shown["Y"].values, np.hstack(heads) @ weight(subject, "output"))
    rows = {one.name: one.shape for one in trace_shapes(subject, "bishop").tensors}
    assert rows["transpose V"] == (2, 3, 2) and rows["transpose K"] == (2, 3, 3) and rows["W⁽o⁾"] == (4, 5)


@pytest.mark.parametrize("seed", range(3))
def test_b4b_the_output_is_linear_in_the_values_and_not_in_x(seed: int):
    """Both figures are those of the matrices beside them, and these are what they say, computed anew."""
    subject = toy(seed=seed)
    shown, found = matrices(explain_attention(subject, head=1)), step(explain_attention(subject, head=1), "Linear in V")
    weights, value, x = shown["A₂"], shown["V₂"], shown["X"]
    assert close(shown["f(V₂) + f(V₂′)"], weights @ value + weights @ value[::-1])
    assert close(shown["f(V₂ + V₂′)"], weights @ (value + value[::-1]))
    q, k, v = (2 * x @ weight(subject, name)[:, 3:6] for name in ("query", "key", "value"))
    assert close(shown["f(2 X)"], softmax(q @ k.T / 3**0.5) @ v) and close(shown["2 f(X)"], 2 * shown["H₂"])
    linear, nonlinear = (measure.value for measure in found.measures)
    assert linear == np.abs(shown["f(V₂ + V₂′)"] - shown["f(V₂) + f(V₂′)"]).max() < 1e-5
    assert nonlinear == np.abs(shown["f(2 X)"] - shown["2 f(X)"]).max() > 0.01


def test_a_single_token_has_no_weights_that_could_move():
    _, nonlinear = step(explain_attention(toy("Lucas")), "Linear in V").measures
    assert nonlinear.value < 1e-5 and nonlinear.meaning == "one token has weight 1, whatever X is"


def test_b5_the_norm_stands_behind_the_sum_or_before_the_sublayer():
    post, pre = (matrices(explain_layer(toy(d_model=4, heads=2, norm_placement=where))) for where in ("post", "pre"))
    assert close(post["Z"], normed(post["Y(X)"] + post["X"]))
    assert close(post["X̃"], normed(post["MLP(Z)"] + post["Z"]))
    assert close(pre["Z"], pre["Y(LN(X))"] + pre["X"]) and close(pre["X̃"], pre["MLP(LN(Z))"] + pre["Z"])
    assert close(pre["LN(X)"], normed(pre["X"])) and close(pre["LN(Z)"], normed(pre["Z"]))
    for shown, read, mlp in ((post, post["Z"], "MLP(Z)"), (pre, pre["LN(Z)"], "MLP(LN(Z))")):
        assert close(shown[mlp], np.maximum(read @ shown["W₁"], 0) @ shown["W₂"])
    attended = matrices(explain_attention(toy(d_model=4, heads=2, norm_placement="pre")))
    assert close(attended["Y"], pre["Y(LN(X))"])
    assert not np.allclose(pre["Y(LN(X))"], post["Y(X)"], atol=0.01)


def test_u2_queries_keys_and_values_are_affine():
    """β 1ᵀ + Ω X with β of a toy that are not 0; without --bias the page says that they are."""
    subject = toy(d_model=4, heads=2, bias=True)
    shown = matrices(explain_attention(subject, "udl", head=1))
    for letter, name in zip("qkv", ("query", "key", "value"), strict=True):
        beta, omega = shown[f"β_{letter}₂"], shown[f"Ω_{letter}₂"]
        assert beta.shape == (2, 1) and np.abs(beta).min() > 1e-3
        assert np.array_equal(beta[:, 0], getattr(subject.attention, name).bias.detach().numpy()[2:])
        assert close(shown[f"{letter.upper()}₂"], beta + omega @ shown["X"])
    plain = explain_attention(toy(d_model=4, heads=2), "udl")
    assert "every β is 0" in step(plain, "Queries").note
    assert "every β is 0" not in step(explain_attention(subject, "udl"), "Queries").note


def test_u3_the_dot_product_is_a_similarity_and_an_angle_in_degrees():
    page = explain_attention(toy(), "udl", with_cosines=True)
    found, shown = step(page, "Cosines"), matrices(page)
    q, k = shown["Q₁"], shown["K₁"]  # a token a column
    cosines = (k.T @ q) / (np.linalg.norm(k, axis=0)[:, None] * np.linalg.norm(q, axis=0))
    assert close(shown["cos θ₁"], cosines)
    assert shown["θ in degrees"] == pytest.approx(np.degrees(np.arccos(cosines)), abs=0.01)
    parallel, orthogonal, opposite = found.measures
    assert parallel.value == pytest.approx(cosines.max()) and opposite.value == pytest.approx(cosines.min())
    assert abs(orthogonal.value) == pytest.approx(np.abs(cosines).min(), abs=1e-6)
    for one, ideal in ((parallel, "θ = 0°"), (orthogonal, "θ = 90°"), (opposite, "θ = 180°")):
        assert one.meaning.startswith(f"θ = {np.degrees(np.arccos(one.value)):.0f}°: ") and ideal in one.name
    assert "θ in degrees" not in matrices(explain_attention(toy(), "bishop", with_cosines=True))


def test_u4_values_times_a_softmax_down_the_columns_of_keys_and_queries():
    """V · Softmax[KᵀQ / √D_q] with a token a column, from the model's weights."""
    subject = toy(d_model=6, heads=1)
    shown = {one.name: one for one in in_order(explain_attention(subject, "udl"))}
    x = shown["X"].values
    assert shown["X"].columns == ("Lucas", "will", "travel") and x.shape == (6, 3)
    q, k, v = (weight(subject, name).T @ x for name in ("query", "key", "value"))
    down = softmax((k.T @ q / 6**0.5).T).T  # each query is a column
    assert close(shown["Softmax"].values, down) and shown["Softmax"].sums == "columns"
    assert close(shown["Sa[X]"].values, v @ down)
    assert close(shown["MhSa[X]"].values, weight(subject, "output").T @ v @ down)


def test_u7_statistics_across_tokens_would_tell_the_past_of_the_future():
    subject = toy("The man ate the fish", d_model=4, heads=2)
    page = explain_layer(subject, "udl")
    per_token, across = step(page, "Statistics across tokens").measures
    x = matrices(explain_layer(subject))["X"].astype(np.float64)
    other = np.vstack((x[:-1], 2 * x[-1:] + 1))
    (a, b) = (normed(y.T).T for y in (x, other))  # each dimension over the tokens
    assert across.value == pytest.approx(np.abs(a - b)[:-1].max(), abs=1e-4) and across.value > 0.1
    assert per_token.value == np.abs(normed(x) - normed(other))[:-1].max() == 0
    shown = matrices(page)
    assert close(shown["X′"].T, normed((shown["X"] + shown["MhSa[X]"]).T))  # X + MhSa, LayerNorm: of each token
    assert close(shown["X″"].T, normed((shown["X′"] + shown["mlp[X′]"]).T))
    assert not any("across" in one.title for one in explain_layer(subject, "bishop").steps)


def test_c2_heads_become_a_batch_axis_by_a_reshape_and_a_transpose():
    """(n, d) → (n, k, d/k) → (k, n, d/k), and the numbers go where the names say."""
    subject = toy("Lucas will travel to Rio", d_model=12, heads=3)
    rows = {one.name: (one.axes, one.shape) for one in trace_shapes(subject, "cs224n").tensors}
    for name in "qkv":
        assert rows[f"reshape {name}"] == (("n", "k", "d/k"), (5, 3, 4))
        assert rows[f"transpose {name}"] == (("k", "n", "d/k"), (3, 5, 4))
    assert rows["α"] == (("k", "n", "n"), (3, 5, 5)) and rows["[h⁽¹⁾; …]"] == (("n", "k·(d/k)"), (5, 12))
    passed = subject.attention_pass
    for name, parts in (("query", passed.query), ("key", passed.key), ("value", passed.value)):
        joined = passed.x.numpy() @ weight(subject, name)
        assert close(parts.numpy(), joined.reshape(5, 3, 4).transpose(1, 0, 2))


def test_c3_layer_norm_takes_the_statistics_of_each_token_alone():
    page = explain_layer(toy(d_model=5, heads=1), "cs224n")
    first = step(Explanation("", "", None, (page.steps[2],)), "LayerNorm of every token")
    before, after, behind = first.matrices
    total = matrices(page)["f₁(h) + h"]
    mean = total.sum(1) / 5
    variance = ((total - mean[:, None]) ** 2).sum(1) / 5  # biased: over d, and not d − 1
    assert before.values == pytest.approx(np.stack((mean, variance, np.sqrt(variance + 1e-5)), 1), abs=1e-5)
    assert close(after.values, (total - mean[:, None]) / np.sqrt(variance + 1e-5)[:, None])
    assert behind.values == pytest.approx(np.stack((after.values.mean(1), after.values.std(1)), 1), abs=1e-5)
    assert "√(σ̂_i² + ε)" in first.formula and "never across tokens" in first.note


@pytest.mark.parametrize(
    ("sizes", "name", "divisor", "size"),
    [
        ({"d_model": 8, "heads": 2}, "cs224n", "√(d/k)", 4),
        ({"d_model": 8, "heads": 1}, "cs224n", "√(d/k)", 8),
        ({"d_model": 8, "heads": 2, "head_dim": 9}, "cs224n", "√d_q", 9),
        ({"d_model": 9, "heads": 3}, "bishop", "√D_k", 3),
    ],
)
def test_c5_scores_are_divided_by_the_root_of_the_size_of_a_head(
    sizes: dict[str, int], name: NotationName, divisor: str, size: int
):
    """By √(d/k): not by d/k, and not by √d."""
    page = explain_attention(toy(**sizes), name)
    [raw], scaled = step(page, "Scores").matrices, step(page, "Scaled")
    assert scaled.matrices[0].values == pytest.approx(raw.values / np.sqrt(size), rel=1e-5)
    assert scaled.note.startswith(f"Divided by {divisor} = √{size} = {size**0.5:.4g}")
    assert scaled.formula.endswith(f" / {divisor}")
    weights = step(page, "Weights").matrices[0].values
    assert close(weights, softmax(raw.values / np.sqrt(size)))


@pytest.mark.parametrize(("d_model", "head_dim", "fits"), [(4, 4, True), (4, 6, True), (6, 3, False), (9, 8, False)])
def test_e3_two_linear_maps_in_a_row_are_one_and_a_narrow_first_one_loses_dimensions(
    d_model: int, head_dim: int, fits: bool
):
    """X W_q W_q⁽ⁱ⁾ is the head for d_k ≥ D; for d_k < D, W_q⁽ⁱ⁾ is the least-squares best, and something is left."""
    subject = toy("The quick brown fox jumps over", d_model=d_model, heads=2, head_dim=head_dim)
    page = explain_attention(subject, "encoder", head=1)
    first, projected, own, query = (one.values for one in step(page, "Two linear maps").matrices)
    shown = matrices(page)
    x, whole = shown["X"], weight(subject, "query")[:, head_dim:]
    assert first.shape == (d_model, head_dim) and own.shape == (head_dim, head_dim)
    assert close(projected, x @ first) and close(query, projected @ own)
    best = np.linalg.lstsq(first.astype(np.float64), whole.astype(np.float64), rcond=None)[0]
    apart, missed = (measure.value for measure in step(page, "Two linear maps").measures)
    left = np.abs(x @ whole - x @ (first @ best)).max()
    assert missed == pytest.approx(left, abs=1e-4) and (missed < 1e-4) == fits
    assert (left > 0.05) != fits
    assert 0 < apart < 1e-12
    assert shown["W_O"].shape == (2 * head_dim, d_model)
    assert [one.axes for one in in_order(page) if one.name == "W_O"] == [("h·d_v", "D")]


def test_e4_each_row_of_a_sublayers_output_is_normed_to_mean_0_and_deviation_1():
    shown = matrices(explain_layer(toy(d_model=8, heads=2), "encoder"))
    for entered, gave, left in (("X", "MHSA(X)", "Z"), ("Z", "FF(Z)", "Y")):
        total = shown[entered] + shown[gave]
        assert close(shown[left], normed(total))
        assert shown[left].mean(1) == pytest.approx(0, abs=1e-6)
        assert shown[left].std(1) == pytest.approx(np.sqrt(total.var(1) / (total.var(1) + 1e-5)), abs=1e-6)
    deviations = step(explain_layer(toy(d_model=8, heads=2)), "Feed-forward and residual")
    assert deviations.formula == "X̃ = LayerNorm(MLP(Z) + Z)"


def test_i3_one_hot_rows_pick_vectors_of_the_embedding_matrix_and_positions_are_added():
    """The same word twice takes the same row of E, at two positions."""
    subject = toy("Lucas will Lucas", d_model=4, heads=2)
    shown = matrices(explain_layer(subject, "inf721"))
    assert shown["X"].tolist() == [[1, 0], [0, 1], [1, 0]]
    table = subject.model.embedding.weight.detach().numpy()  # type: ignore[union-attr, operator]
    assert np.array_equal(shown["E"], table)
    assert np.array_equal(shown["X_e"], table[[0, 1, 0]])
    pe = [[np.sin(t), np.cos(t), np.sin(t / 100), np.cos(t / 100)] for t in range(3)]  # 10000^(2/4) = 100
    assert shown["PE"] == pytest.approx(np.array(pe), abs=1e-6)
    assert shown["X_epe"] == pytest.approx(shown["X_e"] + np.array(pe), abs=1e-6)


def test_i4_three_heads_of_size_3_on_lucas_will_travel():
    """C = Concat(C_1, C_2, C_3) W^o of d_model = 9, from the model's own matrices."""
    subject, outputs = toy("Lucas will travel", d_model=9, heads=3), []
    pages = [explain_attention(subject, "inf721", head=head) for head in range(3)]
    for head, page in enumerate(pages):
        shown, number, part = matrices(page), "₁₂₃"[head], slice(3 * head, 3 * head + 3)
        for letter, name in zip("qkv", ("query", "key", "value"), strict=True):
            assert np.array_equal(shown[f"W{number}^{letter}"], weight(subject, name)[:, part])
            assert close(shown[f"{letter.upper()}{number}"], shown["X_epe"] @ weight(subject, name)[:, part])
        scores = shown[f"Q{number}"] @ shown[f"K{number}"].T / np.sqrt(3)
        outputs.append(softmax(scores) @ shown[f"V{number}"])
        assert close(shown[f"C{number}"], outputs[-1])
        assert f"Head {head + 1} of 3: columns {3 * head} to {3 * head + 2} of all 9" in page.steps[1].note
        assert "d_k = d_model / h = 9 / 3 = 3" in page.steps[1].note
    assert close(shown["Concat"], np.hstack(outputs))
    assert close(shown["C"], np.hstack(outputs) @ weight(subject, "output"))


def test_i7_masked_scores_give_weights_without_a_future():
    """By hand: of 27 and 42 over √3, the first gets 1 / (1 + e^(15/√3)); INF721 prints .3."""
    scores, words, printed = square_scores(None, None)
    assert printed is not None
    page = explain_scores(scores, 3, words, "inf721", printed)
    shown = matrices(page)
    assert shown["QKᵀ"].tolist() == [[31, 27, 22], [27, 42, 31], [22, 31, 37]]
    assert shown["QKᵀ + Mask"].tolist() == [[31, -np.inf, -np.inf], [27, 42, -np.inf], [22, 31, 37]]
    assert shown["S′"][2] == pytest.approx(np.array([22, 31, 37]) / np.sqrt(3))
    second, third = 1 / (1 + np.exp(15 / np.sqrt(3))), np.exp(np.array([22, 31, 37]) / np.sqrt(3))
    assert shown["softmax"] == pytest.approx(
        np.array([[1, 0, 0], [second, 1 - second, 0], third / third.sum()]), rel=1e-4
    )
    assert shown["printed"] == pytest.approx(np.array([[0.1, 0, 0], [0.3, 0.7, 0], [0.3, 0.3, 0.4]]))
    own = matrices(explain_scores(torch.tensor([[2.0, 1.0], [0.0, 3.0]]), 4, ("a", "b")))
    assert own["softmax"][1] == pytest.approx([1 / (1 + np.exp(1.5)), 1 / (1 + np.exp(-1.5))], rel=1e-5)
    assert "printed" not in own


def test_one_head_averages_two_values_while_scores_tie_and_two_heads_do_not_need_them_to():
    """Of scores 10 (1 + ε_a) and 10 (1 + ε_b) the softmax has the logistic function of their difference."""
    page = explain_attention(toy(), "cs224n")
    found = step(page, "Two values")
    one, two = (matrix.values for matrix in found.matrices)
    assert one[0] == pytest.approx([0.5, 0.5, 0], abs=1e-4) and two == pytest.approx(one[0] * np.ones((6, 1)), abs=1e-3)
    assert one.sum(1) == pytest.approx(1) and np.ptp(one[:, 0]) > 0.5
    alone, together = (measure.value for measure in found.measures)
    values = matrices(page)["v⁽¹⁾"]
    names = [found.matrices[0].columns.index(name) for name in ("Lucas", "will")]
    pair = values[[("Lucas", "will", "travel").index(found.matrices[0].columns[name]) for name in names]]
    off = np.abs(one[:, 0] - one[:, 1]).max()  # α_a v_a + α_b v_b is (α_a − α_b) / 2 of their difference off the middle
    assert alone == pytest.approx(off, abs=0.01) and together < 0.01 < alone
    assert np.linalg.norm(pair[0] - pair[1]) > 0
    assert not any(one.title.startswith("Two values") for one in explain_attention(toy(), "bishop").steps)
