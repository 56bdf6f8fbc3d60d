"""Every printed matrix of an attention, against numpy by hand and against torch's own attention."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.cli.commands import tfcli
from tfcli.errors import UsageError
from tfcli.inspection.attention.compute import attention
from tfcli.inspection.explain import Explanation, Matrix, NotationName
from tfcli.inspection.explain.attention import angles_between, explain_attention
from tfcli.inspection.explain.layer import explain_layer, trace_shapes
from tfcli.inspection.explain.subject import drawn, of_run, toy
from tfcli.models.build import build_model
from tfcli.recipe.model import ModelSection
from tfcli.runs.load import load_run

NOTATIONS: tuple[NotationName, ...] = get_args(NotationName)


def matrices(explanation: Explanation) -> dict[str, NDArray[np.float32]]:
    """Every matrix by its name; the last of a name wins."""
    return {matrix.name: matrix.values for step in explanation.steps for matrix in step.matrices}


def in_order(explanation: Explanation) -> list[Matrix]:
    return [matrix for step in explanation.steps for matrix in step.matrices]


def softmax(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def close(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> bool:
    return ours.shape == theirs.shape and bool(np.allclose(ours, theirs, atol=1e-5))


def test_every_matrix_is_what_its_formula_says():
    """From O, E, R and the weights alone, in numpy: INF721's example, d_model 9 in three heads, each shown in turn."""
    subject, heads = toy("Lucas will travel", d_model=9, heads=3), []
    for head, number in enumerate("₁₂₃"):
        shown = matrices(explain_attention(subject, head=head))
        x = shown["O"] @ shown["E"] + shown["R"]
        assert close(shown["X"], x)
        q, k, v = (x @ shown[f"W{number}⁽{name}⁾"] for name in "qkv")
        assert close(shown[f"Q{number}"], q) and close(shown[f"K{number}"], k) and close(shown[f"V{number}"], v)
        assert close(shown[f"Q{number}K{number}ᵀ"], q @ k.T)
        assert close(shown[f"L{number}"], q @ k.T / 3**0.5)
        weights = softmax(q @ k.T / 3**0.5)
        assert close(shown[f"A{number}"], weights)
        heads.append(weights @ v)
        assert close(shown[f"H{number}"], heads[-1])
    assert close(shown["H"], np.hstack(heads))
    assert close(shown["Y"], np.hstack(heads) @ shown["W⁽o⁾"])


def test_one_head_is_shown_step_by_step_and_of_the_others_weights_and_outputs():
    names = [matrix.name for matrix in in_order(explain_attention(toy(), head=1))]
    assert {"Q₂", "L₂", "A₁", "A₂", "A₃", "H₁", "H₃"} <= set(names)
    assert not {"Q₁", "L₁", "W₃⁽q⁾"} & set(names)


def test_the_columns_of_a_head_are_those_it_is_cut_from():
    shown = {matrix.name: matrix for matrix in in_order(explain_attention(toy(), head=1))}
    assert shown["Q₂"].columns == shown["W₂⁽q⁾"].columns == shown["H₂"].columns == ("3", "4", "5")


def test_positions_are_those_of_the_lecture():
    """Position 2 of 9 dimensions: sin 2, cos 2, then both of 2 / 10000^(2/9)."""
    [*_, last] = matrices(explain_attention(toy()))["R"]
    slower = 2 / 10000 ** (2 / 9)
    assert last[:4] == pytest.approx([np.sin(2), np.cos(2), np.sin(slower), np.cos(slower)], abs=1e-6)


def test_the_output_is_that_of_torchs_own_attention():
    subject = toy("one two three four", d_model=8, heads=2, seed=3)
    first, shown = (matrices(explain_attention(subject, head=head)) for head in range(2))
    theirs = torch.nn.MultiheadAttention(8, 2, bias=False, batch_first=True)
    names = ["W₁⁽q⁾", "W₂⁽q⁾", "W₁⁽k⁾", "W₂⁽k⁾", "W₁⁽v⁾", "W₂⁽v⁾"]
    joined = np.hstack([(first | shown)[name] for name in names]).T
    with torch.inference_mode():
        theirs.in_proj_weight.copy_(torch.tensor(joined))
        theirs.out_proj.weight.copy_(torch.tensor(shown["W⁽o⁾"].T))
        x = torch.tensor(shown["X"])[None]
        output, weights = theirs(x, x, x, average_attn_weights=False)
    assert close(shown["Y"], output[0].numpy())
    assert close(shown["A₂"], weights[0, 1].numpy())


@settings(max_examples=8, deadline=None)
@given(
    size=st.sampled_from([(6, 2), (4, 1), (9, 3), (5, 5)]),
    words=st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4),
    score=st.sampled_from(["scaled_dot", "dot", "additive"]),
    seed=st.integers(0, 100),
)
def test_a_notation_changes_names_and_layout_but_no_number(size, words, score, seed):
    """Ours (Bishop's) has a token a row; UDL has every matrix transposed; CS224n its O alone. What a lecture alone
    speaks of stands on its page alone: θ in degrees, two maps in a row, two values to be averaged."""
    subject = toy(" ".join(words), d_model=size[0], heads=size[1], score=score, seed=seed)
    ours = in_order(explain_attention(subject, "bishop", with_cosines=True))
    for name in NOTATIONS:
        pages = explain_attention(subject, name, with_cosines=True).steps
        theirs = [m for step in pages if "Two" not in step.title for m in step.matrices if "degrees" not in m.name]
        assert len(theirs) == len(ours)
        for one, other in zip(ours, theirs, strict=True):
            if name == "udl" or (name == "cs224n" and other.name == "O"):
                assert np.array_equal(one.values, other.values.T)
                assert (one.rows, one.columns) == (other.columns, other.rows)
            else:
                assert np.array_equal(one.values, other.values)
                assert (one.rows, one.columns) == (other.rows, other.columns)


def test_biases_and_shared_keys_are_shown_as_they_are():
    """Four heads of queries, two of keys and values, affine maps: U2's β + Ω x."""
    section = ModelSection(
        vocab_size=2,
        d_model=8,
        num_layers=1,
        num_heads=4,
        num_kv_heads=2,
        positions="learned",
        attention_bias=True,
        query_key_norm=True,
    )
    subject = drawn(section, ("a", "b"), ("a", "b"), "a model")
    shown = matrices(explain_attention(subject, "udl", head=3))
    assert shown["β_v₄"].shape == (2, 1) and shown["Ω_v₄"].shape == (2, 8)
    values = shown["β_v₄"] + shown["Ω_v₄"] @ subject.attention_pass.value_source.numpy().T
    assert close(shown["V₄"], values)
    third = matrices(explain_attention(subject, "udl", head=2))
    assert np.array_equal(third["Ω_v₃"], shown["Ω_v₄"])  # heads 3 and 4 share their keys and values
    assert not np.array_equal(third["Ω_q₃"], shown["Ω_q₄"])
    ours = explain_attention(subject, "bishop")
    assert "4 heads of queries share 2 of keys and values" in ours.steps[1].note
    assert "A bias is added to every row" in ours.steps[1].note


@pytest.mark.parametrize(("name", "axis"), [("bishop", 1), ("udl", 0)])
def test_weights_sum_to_one_over_the_keys_of_each_query(name: NotationName, axis: int):
    shown = [m for m in in_order(explain_attention(toy(), name)) if m.kind == "weights"]
    assert len(shown) == 3
    for matrix in shown:
        assert matrix.sums == ("rows", "columns")[1 - axis]
        assert matrix.values.sum(axis=axis) == pytest.approx(1.0)
        assert (matrix.values >= 0).all()


@pytest.mark.parametrize(
    ("name", "divisor"),
    [("bishop", "√D_k"), ("udl", "√D_q"), ("cs224n", "√(d/k)"), ("inf721", "√d_k"), ("encoder", "√d_k")],
)
def test_it_says_which_dimension_the_scores_are_divided_by(name: NotationName, divisor: str):
    [scaled] = [step for step in explain_attention(toy(d_model=8, heads=2), name).steps if step.title == "Scaled"]
    assert scaled.note.startswith(f"Divided by {divisor} = √4 = 2: the size of one head, not of the model (√8 = 2.828)")
    assert divisor in scaled.formula


def test_parameter_free_attention_is_a_softmax_of_x_with_itself():
    shown = matrices(explain_attention(toy(d_model=3, heads=1, score="parameter_free")))
    x = shown["X"]
    assert close(shown["XXᵀ"], x @ x.T)
    assert close(shown["A"], softmax(x @ x.T))
    assert close(shown["Y"], softmax(x @ x.T) @ x)
    assert not any(name.startswith("W") for name in shown)


def test_additive_scores_are_those_of_bahdanau_beside_the_scaled_dot_product():
    shown = matrices(explain_attention(toy("a b", d_model=4, heads=2, score="additive"), head=1))
    q, k = shown["Q₂"], shown["K₂"]
    by_hand = np.array([[shown["u₂"][0] @ np.tanh(q[t] + k[s]) for s in range(2)] for t in range(2)])
    assert close(shown["L₂"], by_hand)
    assert close(shown["A₂"], softmax(by_hand))
    assert close(shown["scaled A₂"], softmax(q @ k.T / 2**0.5))


def test_cosines_and_the_three_cases_of_the_dot_product():
    explanation = explain_attention(toy(), with_cosines=True, head=2)
    shown = matrices(explanation)
    q, k = shown["Q₃"], shown["K₃"]
    lengths = np.linalg.norm(q, axis=1)[:, None] * np.linalg.norm(k, axis=1)
    assert close(shown["cos θ₃"], q @ k.T / lengths)
    [step] = [step for step in explanation.steps if step.title.startswith("Cosines")]
    everything = shown["cos θ₃"]
    parallel, orthogonal, opposite = (measure.value for measure in step.measures)
    assert parallel == pytest.approx(everything.max())
    assert opposite == pytest.approx(everything.min())
    assert abs(orthogonal) == pytest.approx(np.abs(everything).min())


def test_it_is_linear_in_the_values_and_not_in_its_input():
    linear, nonlinear = explain_attention(toy()).steps[-1].measures
    assert linear.value < 1e-5
    assert nonlinear.value > 0.1


def test_a_real_layer_shows_what_the_model_computes(trained: Callable[[str], Path]):
    run = load_run(trained("decoder"))
    explanation = explain_attention(of_run(run, "Tom swam", layer=1), head=1)
    shown = matrices(explanation)
    [record] = attention(run, "Tom swam")
    assert np.array_equal(shown["A₂"], record.weights[1, 1])
    assert record.scores is not None and np.array_equal(shown["L₂"], record.scores[1, 1])
    assert close(shown["Y"], np.asarray(shown["H"] @ shown["W⁽o⁾"]))
    assert "A₁" not in shown
    [mask] = [m for m in in_order(explanation) if m.kind == "mask"]
    assert np.isneginf(mask.values[0, 1:]).all() and (np.tril(mask.values) == 0).all()
    notes = "\n".join(step.note for step in explanation.steps)
    assert "Rotary positions turn queries and keys" in notes
    assert "The norm stands before attention" in notes


def test_cross_attention_takes_keys_and_values_from_the_source(trained: Callable[[str], Path]):
    run = load_run(trained("encoder-decoder"))
    subject = of_run(run, "O gato dorme.", target="The cat", kind="cross")
    explanation = explain_attention(subject, "inf721")
    shown = matrices(explanation)
    assert explanation.title.startswith("Cross-attention")
    assert close(shown["K₁"], shown["C_enc"] @ shown["W₁^k"])
    assert shown["Q₁K₁ᵀ"].shape == (len(subject.query_tokens), len(subject.key_tokens))
    assert subject.passed.encoder is not None
    assert close(shown["C_enc"], subject.passed.encoder.hidden.numpy())


VARIANTS: tuple[dict[str, Any], ...] = (
    {"positions": "alibi"},
    {"positions": "t5"},
    {"positions": "sinusoidal", "position_merge": "query_key"},
    {"attention_softcap": 0.05},
    {"attention_softcap": 0.05, "attention_score": "dot"},
    {"sliding_window": 2},
    {"attention_score": "additive", "positions": "alibi"},
    {"attention_score": "parameter_free", "positions": "learned"},
    {"attention_score": "parameter_free", "positions": "none", "num_heads": 1},
    {"num_kv_heads": 1, "head_dim": 6},
    {"norm": "layernorm", "norm_affine": False, "norm_placement": "post", "attention_bias": True},
    {"activation": "relu", "feed_forward_bias": True},
)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_whatever_a_recipe_has_the_softmax_of_the_last_scores_is_the_weights(
    variant: dict[str, Any], trained: Callable[[str], Path]
):
    run = load_run(trained("decoder"))
    model = build_model(replace(run.config.model, **{"num_layers": 1, "init_std": 0.5, **variant})).eval()
    run = replace(run, model=model, config=replace(run.config, model=model.section))
    subject = of_run(run, "Tom")
    for name in NOTATIONS:
        explain_layer(subject, name)
        trace_shapes(subject, name)
        explain_attention(subject, name, with_cosines=True)
    shown = matrices(explain_attention(subject))
    last = shown.get("L′₁", shown.get("L′"))
    weights = shown.get("A₁", shown.get("A"))
    assert last is not None and weights is not None and close(softmax(last), weights)
    assert close(weights, subject.attention_pass.weights[0].numpy())
    assert any(name.startswith("W") for name in shown) == (variant.get("attention_score") != "parameter_free")


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        (
            "a",
            {"d_model": 10, "heads": 3},
            "--d-model 10 is not divisible by --heads 3; choose a multiple, or --head-dim.",
        ),
        ("  \n", {}, "The text is empty; give a few words."),
        ("a " * 65, {}, "The text has 65 words, and a toy reads at most 64; shorten it."),
    ],
)
def test_toys_that_cannot_be(text: str, options: dict[str, int], problem: str):
    with pytest.raises(UsageError) as error:
        toy(text, **options)  # type: ignore[arg-type]
    assert str(error.value) == problem


def test_a_head_that_is_not_there():
    with pytest.raises(UsageError, match="There is no head 3: the model has 3; choose 0 to 2"):
        explain_attention(toy(), head=3)


@pytest.mark.parametrize(
    ("score", "title", "written"),
    [
        ("scaled_dot", "Scaled and capped", "30 tanh((Q_c K_cᵀ / √D_k) / 30)"),
        ("dot", "Capped", "30 tanh((Q_c K_cᵀ) / 30)"),
        ("additive", "Additive scores", "30 tanh((uᵀ tanh(q_n + k_m)) / 30)"),
    ],
)
def test_a_capped_score_is_written_as_it_is_computed(
    score: str, title: str, written: str, trained: Callable[[str], Path]
):
    run = load_run(trained("decoder"))
    settings: dict[str, Any] = {"attention_score": score, "attention_softcap": 30.0, "positions": "learned"}
    section = replace(run.config.model, num_layers=1, **settings)
    model = build_model(section).eval()
    explanation = explain_attention(of_run(replace(run, model=model, config=replace(run.config, model=section)), "Tom"))
    steps = {step.title: step for step in explanation.steps}
    assert steps[title].formula == f"L_c = {written}"
    assert "c = 30 stays between −30 and 30" in steps[title].note
    assert steps["Mask"].formula == f"L′_c = {written} + M"
    assert steps["Weights"].formula == f"A_c = softmax({written} + M), row by row"


def test_angles_near_0_and_180_degrees_are_exact():
    """Parallel vectors of any length are 0° apart and opposite ones 180°; (1, 1) and (1, 0) are 45° apart."""
    vectors = torch.tensor([[1.0, 2.0, 3.0], [0.1, 0.2, 0.3], [-2.0, -4.0, -6.0]]).double()
    degrees = angles_between(vectors, vectors).rad2deg()
    expected = torch.tensor([[0.0, 0.0, 180.0], [0.0, 0.0, 180.0], [180.0, 180.0, 0.0]]).double()
    torch.testing.assert_close(degrees, expected, atol=1e-5, rtol=0)
    pair = angles_between(torch.tensor([[1.0, 1.0]]).double(), torch.tensor([[1.0, 0.0], [0.0, 0.0]]).double())
    torch.testing.assert_close(pair.rad2deg(), torch.tensor([[45.0, 90.0]]).double())


def test_the_angles_of_parallel_vectors_of_your_own_are_0(tmp_path: Path):
    """In float32 the page showed 0.03° and 179.97°."""
    x, unit = tmp_path / "x.txt", tmp_path / "unit.txt"
    x.write_text("1 2 3\n2 4 6\n-1 -2 -3\n")
    unit.write_text("1 0 0\n0 1 0\n0 0 1\n")
    arguments = ["--x", x, "--wq", unit, "--wk", unit, "--wv", unit, "--cosines", "--notation", "udl", "--json"]
    page = json.loads(tfcli("explain", "attention", *arguments).stdout)
    [angles] = [one["values"] for of in page["steps"] for one in of["matrices"] if one["name"] == "θ in degrees"]
    for row in angles:
        for angle in row:
            assert min(abs(angle), abs(angle - 180)) < 1e-5


@pytest.mark.parametrize(
    ("notation", "vector"), [("udl", "ω₁"), ("inf721", "v_a₁"), ("bishop", "u₁"), ("encoder", "u⁽¹⁾")]
)
def test_additive_attention_names_its_vector_as_the_notation_does_and_defines_it(notation: NotationName, vector: str):
    page = explain_attention(toy(d_model=4, heads=2, score="additive"), notation)
    notes = {of.title: of.note for of in page.steps}
    assert (
        f"{vector} is learned, one vector for each head, with a number for each of the 2 units"
        in notes["Additive scores"]
    )
    assert f"sum of the absolute values of the numbers in {vector};" in notes["Beside scaled dot product"]
    assert "|u|" not in "".join(notes.values())
