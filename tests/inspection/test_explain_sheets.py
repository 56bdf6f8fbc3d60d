"""Exercises with holes, LaTeX, and the algorithms as code: what leaves an explanation holds its numbers, or none."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.commands import tfcli
from tests.support.consoles import printed
from tfcli.draw.svg import picture_html, picture_svg
from tfcli.draw.tables import to_csv, to_json
from tfcli.errors import UsageError
from tfcli.inspection.explain import Explanation, Matrix, Measure, NotationName, Step
from tfcli.inspection.explain.attention import explain_attention, explain_masking, explain_scores
from tfcli.inspection.explain.handout import flow, listing, with_holes
from tfcli.inspection.explain.latex_view import explanation_latex, in_math, in_text
from tfcli.inspection.explain.layer import explain_layer
from tfcli.inspection.explain.own import square_scores
from tfcli.inspection.explain.positions import explain_positions, toy_embeddings
from tfcli.inspection.explain.subject import Subject, toy
from tfcli.inspection.explain.view import ExplanationView, explanation_table
from tfcli.records.arrays import frozen

NAMES = get_args(NotationName)


def explanations(name: NotationName) -> list[Explanation]:
    return [
        explain_attention(toy(), name, with_cosines=True),
        explain_attention(toy(score="parameter_free", heads=1, d_model=3), name),
        explain_layer(toy(norm_placement="pre", d_model=3, heads=1), name),
        explain_masking(toy(architecture="decoder"), name),
        explain_positions(toy_embeddings("Lucas will travel", 4), name).explanation,
    ]


# Holes.


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("hidden", ["weights", "scores", "output", "values"])
def test_no_number_that_is_hidden_is_left_on_the_page(name: NotationName, hidden: str) -> None:
    """Neither as a number of another matrix or a sentence, nor as a colour, in any form."""
    whole = explain_attention(toy(d_model=6, heads=2), name)
    sheet = with_holes(whole, [hidden])
    holes = [one.name for step in sheet.steps for one in step.matrices if one.holes]
    secret = {
        value
        for step in whole.steps
        for one in step.matrices
        if one.name in holes
        for value in one.values.flat
        if np.isfinite(value) and value % 1
    }
    assert len(secret) >= 9
    left = {value for step in sheet.steps for one in step.matrices for value in one.values.flat}
    assert not secret & left
    said = json.dumps(to_json(sheet)) + to_csv(explanation_table(sheet))
    assert not [value for value in secret if str(value) in said]
    sentences = " ".join(f"{step.note} {[one.meaning for one in step.measures]}" for step in sheet.steps)
    written = set(re.findall(r"\d*\.\d{3,}", sentences))
    assert not written & {f"{abs(value):.3f}" for value in secret}
    for step, before in zip(sheet.steps, whole.steps, strict=True):
        if all(one.holes for one in step.matrices) and step.matrices:
            picture = picture_svg(ExplanationView(Explanation("", "", None, (step,))))
            assert picture.count("fill='#") <= picture.count("<text") + 1, "no cell has a colour"
            assert not before.measures or all(np.isnan(one.value) for one in step.measures)


def test_what_is_not_hidden_stays() -> None:
    whole = explain_attention(toy(d_model=6, heads=2))
    sheet = with_holes(whole, ["A₁"])
    holes = {one.name for step in sheet.steps for one in step.matrices if one.holes}
    assert holes == {"A₁"}, "one head's alone"
    shown = [one for step in sheet.steps for one in step.matrices if not one.holes]
    there = [one for step in whole.steps for one in step.matrices if one.name != "A₁"]
    assert all(np.array_equal(one.values, two.values) for one, two in zip(shown, there, strict=True))


def test_a_matrix_that_holds_hidden_numbers_is_hidden_too() -> None:
    """H of all heads holds that of one; masked scores are the scores; two maps give Q again, but for rounding."""
    toys = toy(d_model=6, heads=2), toy(architecture="decoder", d_model=6, heads=2)
    for page, name, other in (
        (explain_attention(toys[0]), "H₁", "H"),
        (explain_masking(toys[1]), "L₁", "L′₁"),
        (explain_attention(toy(d_model=4, heads=2, head_dim=4), "encoder"), "Q⁽¹⁾", "Q W_q⁽¹⁾"),
    ):
        assert {one.name for step in with_holes(page, [name]).steps for one in step.matrices if one.holes} == {
            name,
            other,
        }


def test_holes_are_as_wide_as_a_number_and_all_alike() -> None:
    """Nothing is told by their width: exact zeros, −∞ and .123 leave the same hole."""
    values = Matrix("A", frozen([[1.0, 0.0], [0.25, 0.75]]), ("a", "b"), ("a", "b"), ("N", "N"), "weights", "rows")
    sheet = with_holes(Explanation("", "", "bishop", (Step("t", "", (values,)),)), ["A"])
    assert [line.split() for line in printed(ExplanationView(sheet)).splitlines() if "____" in line] == [
        ["a", "____", "____"],
        ["b", "____", "____"],
    ]
    assert "exactly 0" not in printed(ExplanationView(sheet)) and "sum" not in printed(ExplanationView(sheet))


def every_form(page: Explanation) -> str:
    """A page as text, SVG, HTML, JSON, CSV and LaTeX."""
    view = ExplanationView(page)
    data = json.dumps(to_json(page)) + to_csv(explanation_table(page))
    return printed(view) + picture_svg(view) + picture_html(view) + data + explanation_latex(page)


def test_a_hidden_number_leaves_no_sign_no_width_and_no_meaning() -> None:
    """Two tables with other signs, sizes and order leave the same sheet, in every form."""

    def sheet(values: list[list[float]], note: str, meaning: str) -> Explanation:
        secret = Matrix("R", frozen(values), ("a", "b"), ("0", "1"), ("N", "D"))
        step = Step("t", "f", (secret,), (Measure("largest", max(map(max, values)), meaning),), note)
        return with_holes(Explanation("", "", "bishop", (step,)), ["R"])

    first = sheet([[-0.4161, 0.9093], [0.25, -12.5]], "sin 2 = 0.9093, cos 2 = -0.4161", "θ = 25°: b")
    second = sheet([[0.5403, 0.8415], [-3.25, 0.5]], "sin 2 = 0.8415, cos 2 = 0.5403", "θ = 57°: a")
    assert every_form(first) == every_form(second)


@pytest.mark.parametrize("name", NAMES)
def test_hidden_positions_leave_no_sign_in_the_worked_numbers(name: NotationName) -> None:
    page = explain_positions(toy_embeddings("Lucas will travel", 4), name).explanation
    sheet = with_holes(page, ["positions"])
    lines = "\n".join(step.note for step in sheet.steps)
    assert "= ____" in lines and "-____" not in lines and "−____" not in lines


@pytest.mark.parametrize("name", NAMES)
def test_hidden_cosines_hide_their_angles_and_the_pairs_they_choose(name: NotationName) -> None:
    page = explain_attention(toy(d_model=4, heads=2), name, with_cosines=True)
    chosen = "cos θ⁽¹⁾" if name in ("cs224n", "encoder") else "cos θ₁"
    for hidden in ("cosines", chosen):
        step = next(step for step in with_holes(page, [hidden]).steps if step.title.startswith("Cosines"))
        assert all(one.holes for one in step.matrices if "θ" in one.name)
        assert not any("°" in one.meaning or "q of" in one.name + one.meaning for one in step.measures)


def test_whole_numbers_are_hidden_in_every_matrix_that_repeats_them() -> None:
    """INF721's scores are whole numbers, which the masked scores repeat; the mask itself is no secret."""
    scores, tokens, slide = square_scores(None, None)
    page = explain_scores(scores, 3, tokens, "inf721", slide)
    for hidden in ("scores", "QKᵀ"):
        holes = {one.name: one.holes for step in with_holes(page, [hidden]).steps for one in step.matrices}
        assert holes["QKᵀ"] and holes["QKᵀ + Mask"] and not holes["Mask"]
    masked = tfcli("explain", "masking", "--hide", "QKᵀ", "--json").stdout
    assert not re.search(r"(?<![\d.])(31|42)(\.0)?(?![\d.])", masked)


def test_what_is_not_on_the_page_cannot_be_hidden() -> None:
    with pytest.raises(UsageError, match=r"'wieghts' names nothing on this page; choose from weights, scores,.*, A₁"):
        with_holes(explain_attention(toy()), ["wieghts"])


def test_a_sheet_and_its_answers(tmp_path: Path) -> None:
    answers = [tmp_path / f"a{ending}" for ending in (".txt", ".svg", ".html", ".tex")]
    sheets = []
    for file in answers:
        sheet = tfcli("explain", "masking", "Lucas will travel", "--hide", "weights", "--answers", file, "--seed", "3")
        assert sheet.exit_code == 0 and "____" in sheet.stdout and "____" not in file.read_text("utf-8")
        sheets.append(sheet.stdout)
    assert len(set(sheets)) == 1
    plain = tfcli("explain", "masking", "Lucas will travel", "--seed", "3").stdout
    assert answers[0].read_text("utf-8").split() == plain.split(), "the same page, whole"
    other = tfcli("explain", "masking", "Lucas will travel", "--hide", "weights", "--seed", "4").stdout
    assert other != sheets[0], "a new seed is a new sheet"
    latex = tmp_path / "sheet.tex"
    tfcli("explain", "masking", "--hide", "softmax", "--latex", latex)
    assert latex.read_text("utf-8").count(r"\underline{\hspace{2em}}") == 9


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["attention", "--answers", "a.txt"], "--answers holds what --hide leaves out, and nothing is hidden"),
        (["attention", "--hide", "weights", "--code"], "--code computes what --hide leaves out"),
        (["positions", "--hide", "weights"], "--hide 'weights' names nothing on this page; choose from"),
        (["layer", "--latex", "a.svg", "--svg", "a.svg"], "are both 'a.svg'"),
    ],
)
def test_sheets_that_cannot_be(
    arguments: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = tfcli("explain", *arguments)
    assert (result.exit_code, result.stdout) == (2, "") and problem in " ".join(result.stderr.split())
    assert not list(tmp_path.iterdir())


# LaTeX.


def balanced(document: str) -> bool:
    depth = 0
    for sign in re.findall(r"(?<!\\)[{}]", document):
        depth += 1 if sign == "{" else -1
        if depth < 0:
            return False
    return depth == 0


AMSMATH = {
    *("documentclass", "usepackage", "setcounter", "setlength", "parindent", "begin", "end", "section", "subsection"),
    *("text", "sqrt", "hat", "tilde", "quad", "qquad", "underline", "hspace", "cdots", "vdots", "ddots", "infty"),
    *("times", "cdot", "top", "ell", "ldots", "sum", "odot", "leftarrow", "rightarrow", "circ", "sin", "cos", "tanh"),
    *("alpha", "beta", "theta", "mu", "pi", "sigma", "omega", "varepsilon", "Pi", "Omega", "ln", "max", "backslash"),
    *("le", "ge", "ne", "in", "pm", "div", "tau", "approx", "sim", "surd", "prime"),
}


@pytest.mark.parametrize("name", NAMES)
def test_latex_is_balanced_uses_amsmath_alone_and_has_the_numbers(name: NotationName) -> None:
    for page in explanations(name):
        document = explanation_latex(page)
        assert re.findall(r"usepackage\{(.*?)\}", document) == ["amsmath"]
        assert balanced(document)
        assert document.count("\\[") == document.count("\\]")
        assert re.findall(r"\\begin\{(.*?)\}", document).count("bmatrix") == document.count(r"\end{bmatrix}")
        assert set(re.findall(r"\\([A-Za-z]+)", document)) <= AMSMATH
        assert not [sign for sign in re.sub(r"\\text\{[^{}]*\}", "", document) if ord(sign) > 127]
        assert not re.search(r"\}\^\{[^{}]*\}\^|\}_\{[^{}]*\}_", document), "two scripts one behind the other"
        matrices = [one for step in page.steps for one in step.matrices]
        written = re.findall(r"\\begin\{bmatrix\}\n(.*?)\n\\end", document, re.DOTALL)
        assert len(written) == len(matrices)
        for one, text in zip(matrices, written, strict=True):
            rows = [[cell.strip().replace(r"\infty", "inf") for cell in row.split("&")] for row in text.split(r"\\")]
            np.testing.assert_allclose(np.array(rows, dtype=float), one.values, atol=0.0051)
        columns = int(re.search(r"MaxMatrixCols\}\{(\d+)", document)[1])  # type: ignore[index]
        assert columns >= max(one.values.shape[1] for one in matrices)


@pytest.mark.parametrize(
    ("written", "latex"),
    [
        ("L_c = Q₀K₀ᵀ / √D_k, row by row", r"L_{c} = Q_{0}K_{0}^{\top } / \sqrt{D_{k}},\text{ row by row}"),
        ("softmax(Q⁽ℓ⁾ᵀ)", r"\text{softmax}(Q^{(\ell )\top })"),
        ("Q⁽ℓ⁾ K⁽ℓ⁾ᵀ / √(d/k)", r"Q^{(\ell )} K^{(\ell )\top } / \sqrt{d/k}"),
        ("√(mean(x²) + ε)", r"\sqrt{\text{mean}(x^{2}) + \varepsilon }"),
        ("Q = (Q_0, …, Q_C−1)", r"Q = (Q_{0}, \ldots , Q_{C-1})"),
        ("x₁:ₙ = w₁:ₙ E", "x_{1:n} = w_{1:n} E"),
        ("μ̂_i, X̃, q^<t>", r"\hat{\mu }_{i}, \tilde{X}, q^{<t>}"),
        ("X_e = X E   d_model", r"X_{e} = X E\qquad d_{\text{model}}"),
    ],
)
def test_formulas_in_latex(written: str, latex: str) -> None:
    assert in_math(written) == latex


def test_a_document_has_the_code_and_no_heading_without_anything() -> None:
    subject = toy(d_model=4, heads=2)
    page = explain_attention(subject)
    steps = (*flow(subject, page, 0), *page.steps[:1], listing(subject))
    document = explanation_latex(Explanation("", "", "bishop", steps))
    assert re.findall(r"subsection\*\{(\d)", document) == ["3", "4"]
    assert f"\n\\begin{{verbatim}}\n{steps[-1].lines}\n\\end{{verbatim}}\n" in document


def test_sentences_in_latex() -> None:
    assert in_text("50 % of d_model, −∞") == r"50 $\%$ of d$\_$model, $-$$\infty $"


@given(st.text(max_size=30))
def test_whatever_a_text_holds_breaks_no_document(text: str) -> None:
    for made in (in_math(text), in_text(text)):
        assert balanced(made.replace(r"\\", ""))
        assert not re.search(r"(?<!\\)[#%&~]", made)


def test_a_wide_matrix_has_dots() -> None:
    values = frozen(np.arange(20 * 30).reshape(20, 30))
    rows, columns = (tuple(map(str, range(size))) for size in values.shape)
    document = explanation_latex(
        Explanation("", "", None, (Step("", "", (Matrix("W", values, rows, columns, ("D", "F")),)),))
    )
    assert (
        "7 & \\cdots & 29" in document
        and "\\vdots & \\ddots & \\vdots" in document
        and "577 & \\cdots & 599" in document
    )
    assert "D \\times F = 20 \\times 30" in document


# Code and diagrams.


def ran(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(code.replace("print(", "shown = ("), names)
    return names


@pytest.mark.parametrize(
    "subject",
    [
        toy(),
        toy("one two three four", d_model=8, heads=2, seed=5),
        toy(architecture="decoder"),
        toy(score="dot", heads=1),
        toy(score="parameter_free", heads=1, d_model=3),
        toy(d_model=5, heads=2, head_dim=3, value_dim=2, bias=True),
    ],
    ids=["lecture", "two heads", "causal", "dot", "plain", "sizes and biases"],
)
def test_the_code_computes_what_the_steps_show(subject: Subject) -> None:
    """Executed as it is printed, to float32's rounding; and of each head, Algorithm 1."""
    passed = subject.attention_pass
    torch.testing.assert_close(ran(listing(subject).lines)["shown"], passed.output, rtol=1e-5, atol=1e-5)
    if not subject.is_plain:
        for head in range(subject.attention.num_heads):
            names = ran(listing(subject, head).lines)
            for name in ("Q", "K", "V"):
                expected = getattr(passed, {"Q": "query", "K": "key", "V": "value"}[name])[head]
                torch.testing.assert_close(names[name], expected, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(names["shown"], passed.mixed[head], rtol=1e-5, atol=1e-5)


def test_the_code_is_the_lectures_algorithm_with_the_numbers_of_the_page() -> None:
    result = tfcli("explain", "attention", "--d-model", "4", "--heads", "2", "--code", "--json")
    steps = json.loads(result.stdout)["steps"]
    names = ran(steps[-1]["lines"])
    shown = {one["name"]: one["values"] for step in steps for one in step["matrices"]}
    np.testing.assert_allclose(names["shown"], shown["Y"], atol=1e-5)
    assert names["W_q"][:, :2].tolist() == pytest.approx(np.array(shown["W₁⁽q⁾"])), "exactly the page's"
    assert len(steps[-1]["lines"].split("# Algorithm 2")[1].splitlines()) <= 12, "short"
    assert max(map(len, steps[-1]["lines"].splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--score", "additive"], "has additive scores; leave --code out."),
        (["--d-model", "60"], "--code prints every number, and these are 14,580; at most 2,000 can be read"),
    ],
)
def test_what_has_no_code(arguments: list[str], problem: str) -> None:
    result = tfcli("explain", "attention", "--code", *arguments)
    assert (result.exit_code, result.stdout) == (2, "") and problem in " ".join(result.stderr.split())


@pytest.mark.parametrize(("arguments", "last"), [([], "H"), (["--head", "1"], "H₂"), (["--wo", "wo.txt"], "Y")])
def test_the_code_has_numbers_of_one_s_own(arguments: list[str], last: str, tmp_path: Path, monkeypatch: Any) -> None:
    """With and without a W⁽o⁾, and of one head."""
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    for name, shape in {"x": (3, 5), "wq": (5, 4), "wk": (5, 4), "wv": (5, 2), "wo": (2, 5)}.items():
        np.savetxt(f"{name}.txt", draw.normal(size=shape).round(2))
    own = [word for name in ("x", "wq", "wk", "wv") for word in (f"--{name}", f"{name}.txt")]
    shown = tfcli("explain", "attention", *own, "--heads", "2", "--code", "--json", *arguments)
    steps = json.loads(shown.stdout)["steps"]
    matrices = {one["name"]: one["values"] for step in steps for one in step["matrices"]}
    assert ran(steps[-1]["lines"])["X"].tolist() == pytest.approx(np.loadtxt("x.txt"))
    np.testing.assert_allclose(ran(steps[-1]["lines"])["shown"], matrices[last], atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("heads", [1, 2])
def test_a_symbol_has_one_value_on_a_page(name: NotationName, heads: int) -> None:
    """Of another length than the text's, the table of positions is called otherwise; statistics are no symbols."""
    embeddings = toy_embeddings("Lucas will travel", 4)
    pages = [explain_positions(embeddings, name, length=length).explanation for length in (None, 2, 7)]
    pages.append(explain_attention(toy(d_model=6, heads=heads, value_dim=3), name, with_cosines=True))
    pages += [explain_layer(toy(d_model=6, heads=heads), name), explain_masking(toy(architecture="decoder"), name)]
    for page in pages:
        sizes, values = dict[str, int](), dict[str, Any]()
        for one in (one for step in page.steps for one in step.matrices):
            for axis, size in zip(one.axes, one.values.shape, strict=True):
                assert sizes.setdefault(axis, size) == size, axis
            np.testing.assert_allclose(one.values, values.setdefault(one.name, one.values), atol=1e-4, err_msg=one.name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("heads", [1, 2, 3, 6])
def test_the_diagrams_have_the_shapes_of_the_matrices(name: NotationName, heads: int) -> None:
    subject = toy("a b c d", d_model=6, heads=heads)
    page = explain_attention(subject, name)
    one, every = (step.lines for step in flow(subject, page, 0))
    for step in page.steps:
        for matrix in step.matrices:
            size = " × ".join(map(str, matrix.values.shape))
            if matrix.name.startswith(("A", "H₁", "Softmax₁", "softmax₁", "α⁽¹⁾")):
                assert f"{matrix.name}  {size}" in one or not matrix.name.endswith(("₁", "⁽¹⁾"))
            if step.title == "Concatenate, and recombine":
                assert f"{matrix.name}  {size}" in every
    assert max(map(len, (one + "\n" + every).splitlines())) <= 60
    rows = one.splitlines()
    arrows = next(row for row in rows if row.count("▼") == 3)
    assert [at for at, sign in enumerate(arrows) if sign == "▼"] == [6, 20, 34]


def test_the_page_has_a_step_a_section_and_the_diagrams_first() -> None:
    page = picture_html(ExplanationView(explain_attention(toy(d_model=4, heads=2))))
    assert page.count("<section data-step>") == len(explain_attention(toy(d_model=4, heads=2)).steps) + 1  # the slips
    assert "https://" not in page and "src=" not in page
    shown = tfcli("explain", "attention", "--d-model", "4", "--heads", "2").stdout
    assert shown.index("1 How the numbers of a head flow") < shown.index("3 Words and positions")


@pytest.mark.parametrize("notation", ["bishop", "udl", "cs224n", "inf721", "encoder"])
def test_one_head_of_given_numbers_without_an_output_matrix_has_one_drawing(notation: str, tmp_path: Path) -> None:
    (path := tmp_path / "x").write_text("1 2\n3 4\n")
    given = [word for name in ("x", "wq", "wk", "wv") for word in (f"--{name}", path)]
    shown = tfcli("explain", "attention", "a b", *given, "--notation", notation)
    assert shown.exit_code == 0, shown.stderr
    assert "How the numbers of a head flow" in shown.stdout and "those of all heads" not in shown.stdout
