"""A layer step by step, against torch's own encoder layer; norms against numpy; shapes by hand."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.inspection.test_explain_attention import NOTATIONS, close, in_order, matrices
from tfcli.errors import UsageError
from tfcli.inspection.explain.attention import explain_attention
from tfcli.inspection.explain.layer import explain_layer, trace_shapes
from tfcli.inspection.explain.subject import of_run, toy
from tfcli.recipe.model import NormPlacement
from tfcli.runs.load import load_run


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_a_layer_is_torchs_own(placement: NormPlacement):
    subject = toy("Lucas will travel", d_model=6, heads=2, norm_placement=placement, seed=1)
    shown, pages = (
        matrices(explain_layer(subject)),
        [matrices(explain_attention(subject, head=head)) for head in (0, 1)],
    )
    attention = pages[0] | pages[1]
    theirs = torch.nn.TransformerEncoderLayer(
        6, 2, 24, dropout=0.0, batch_first=True, norm_first=placement == "pre", bias=False
    ).eval()
    joined = np.hstack([attention[f"W{number}⁽{name}⁾"] for name in "qkv" for number in "₁₂"])
    with torch.no_grad():
        for parameter, values in (
            (theirs.self_attn.in_proj_weight, joined),
            (theirs.self_attn.out_proj.weight, attention["W⁽o⁾"]),
            (theirs.linear1.weight, shown["W₁"]),
            (theirs.linear2.weight, shown["W₂"]),
        ):
            parameter.copy_(torch.tensor(values.T))
        expected = theirs(torch.tensor(shown["X"])[None])[0].numpy()
    assert close(shown["X̃"], expected)


def test_post_norm_step_by_step():
    shown = matrices(explain_layer(toy()))
    total = shown["Y(X)"] + shown["X"]
    assert close(shown["Y(X) + X"], total)
    normed = (total - total.mean(1, keepdims=True)) / np.sqrt(total.var(1, keepdims=True) + 1e-5)
    assert close(shown["Z"], normed)
    assert close(shown["inner"], np.maximum(normed @ shown["W₁"], 0))
    assert close(shown["MLP(Z)"], shown["inner"] @ shown["W₂"])
    last = shown["MLP(Z)"] + normed
    assert close(shown["X̃"], (last - last.mean(1, keepdims=True)) / np.sqrt(last.var(1, keepdims=True) + 1e-5))


def test_pre_norm_leaves_the_residual_stream_as_it_is():
    shown = matrices(explain_layer(toy(norm_placement="pre")))
    assert close(shown["Z"], shown["X"] + shown["Y(LN(X))"])
    assert close(shown["X̃"], shown["Z"] + shown["MLP(LN(Z))"])
    assert shown["LN(Z)"].mean(1) == pytest.approx(0, abs=1e-6)
    assert shown["LN(X)"].std(1) == pytest.approx(1, abs=1e-4)


def test_the_statistics_of_a_norm_are_those_of_each_token():
    first, *_ = [step for step in explain_layer(toy()).steps if step.title.startswith("LayerNorm")]
    before, after, behind = first.matrices
    total = matrices(explain_layer(toy()))["Y(X) + X"]
    variance = ((total - total.mean(1, keepdims=True)) ** 2).sum(1) / 9  # biased: divided by D, not by D − 1
    expected = np.stack((total.mean(1), variance, np.sqrt(variance + 1e-5)), axis=1)
    assert before.values == pytest.approx(expected, abs=1e-5)
    assert before.axes == ("N", "3") and before.columns == ("mean", "variance", "√(σ²+ε)")
    assert behind.values[:, 0] == pytest.approx(0, abs=1e-6) and behind.values[:, 1] == pytest.approx(1, abs=1e-4)
    assert after.name == "Z"
    assert all(measure.value < 1e-4 for measure in first.measures)


def test_statistics_across_tokens_would_leak():
    *_, across = explain_layer(toy(), "udl").steps
    per_token, of_all = across.measures
    assert per_token.value == 0
    x = matrices(explain_layer(toy()))["X"].astype(np.float64)
    other = np.vstack((x[:-1], 2 * x[-1:] + 1))
    each, changed = ((y - y.mean(0)) / np.sqrt(y.var(0) + 1e-5) for y in (x, other))  # a dimension over the tokens
    assert of_all.value == pytest.approx(np.abs(changed - each)[:-1].max(), abs=1e-4) and of_all.value > 0.1


@pytest.mark.parametrize("name", NOTATIONS)
def test_notations_agree_and_name_their_slips(name):
    subject = toy(d_model=6, heads=2, norm_placement="pre")
    ours, explanation = in_order(explain_layer(subject)), explain_layer(subject, name)
    for one, other in zip(ours, in_order(explanation), strict=True):
        assert np.array_equal(one.values, other.values.T if name == "udl" else other.values)
    said = {"bishop": "linear transformation", "udl": "across tokens", "cs224n": "leave out ε", "inf721": "X_e = E X"}
    [slip] = explanation.slips
    assert (said | {"encoder": "standard deviation"})[name] in slip


def test_a_runs_layer_with_rmsnorm_gates_and_cross_attention(trained: Callable[[str], Path]):
    decoder = of_run(load_run(trained("decoder")), "Tom swam", layer=1)
    pair = of_run(load_run(trained("encoder-decoder")), "O gato dorme.", target="The cat")
    shown = matrices(explain_layer(decoder))
    x = shown["X"]
    gain = decoder.layer.attention_residual.norm.weight.detach().numpy()  # type: ignore[union-attr, operator]
    assert close(shown["LN(X)"], x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5) * gain)
    assert {"W_g", "W₁", "W₂"} <= shown.keys()
    titles = [step.title for step in explain_layer(pair, "inf721").steps]
    assert titles.index("Cross-attention and residual") > titles.index("Attention and residual")


def test_shapes_in_rows_split_the_heads_off_and_make_them_a_batch_axis():
    """Two words, d = 12, k = 3: d/k = 4, and the feed-forward is 4 d wide."""
    subject = toy("Lucas travels", d_model=12, heads=3)
    rows = {one.name: (one.axes, one.shape) for one in trace_shapes(subject, "cs224n").tensors}
    assert rows["Q"] == (("d", "k·(d/k)"), (12, 12))
    assert rows["reshape q"] == (("n", "k", "d/k"), (2, 3, 4))
    assert rows["transpose k"] == (("k", "n", "d/k"), (3, 2, 4))
    assert rows["scores"] == (("k", "n", "n"), (3, 2, 2))
    assert rows["inner"] == (("n", "d_ff"), (2, 48))
    assert rows["W₂"] == (("d_ff", "d"), (48, 12))
    columns = {one.name: one.shape for one in trace_shapes(subject, "udl").tensors}
    assert columns["X"] == (12, 2) and columns["reshape V"] == (3, 4, 2) and columns["Ω₁"] == (48, 12)
    assert not any("transpose" in name for name in columns)


def test_shapes_of_a_run_that_shares_keys(trained: Callable[[str], Path]):
    trace = trace_shapes(of_run(load_run(trained("decoder")), "Tom"), "bishop")
    shapes = {one.name: one.shape for one in trace.tensors}
    section = load_run(trained("decoder")).config.model
    assert shapes["LN(X)"] == shapes["X̃"] == (len("<Tom"), section.d_model)  # <s>, and a character a token
    assert shapes["W_g"] == (section.d_model, section.inner_size)


def test_a_layer_of_parallel_sublayers_is_refused_by_name(trained: Callable[[str], Path]):
    subject = of_run(load_run(trained("decoder")), "Tom swam")
    object.__setattr__(subject.section, "parallel_residual", True)
    for picture in (explain_layer, trace_shapes):
        with pytest.raises(UsageError, match=r"model\.parallel_residual = true"):
            picture(subject)
