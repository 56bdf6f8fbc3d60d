"""What --latex writes is valid TeX: by pdflatex where it is installed, and by its structure everywhere."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.commands import tfcli
from tfcli.inspection.explain import Explanation, Matrix, NotationName, Step
from tfcli.inspection.explain.latex_view import explanation_latex, in_math, in_text
from tfcli.records.arrays import frozen

NAMES: tuple[NotationName, ...] = get_args(NotationName)
OPTIONS = {
    "attention": [
        [],
        ["--bias"],
        ["--projection", "none", "--d-model", "3"],
        ["--heads", "2", "--d-model", "4", "--bias", "--cosines", "--code"],
        ["--heads", "2", "--d-model", "5", "--head-dim", "3", "--value-dim", "2", "--bias"],
        ["--heads", "2", "--d-model", "4", "--head-dim", "4"],
        ["--heads", "2", "--d-model", "4", "--score", "additive"],
        ["--heads", "12", "--d-model", "12", "--head", "11"],
        ["--score", "dot", "--integers"],
        ["--heads", "2", "--d-model", "4", "--hide", "weights"],
    ],
    "layer": [
        [],
        ["--norm-placement", "pre", "--bias"],
        ["--heads", "1", "--d-model", "3", "--norm-placement", "post"],
    ],
    "masking": [
        [],
        ["Lucas will travel"],
        ["--scores", "2 1; 0 3", "--d-k", "4"],
        ["a b", "--heads", "2", "--d-model", "4", "--seed", "3"],
    ],
    "positions": [
        [],
        ["--d-model", "5", "--length", "3"],
        ["Tom swam", "--d-model", "4", "--base", "100"],
    ],
}
# Letters and signs that have a meaning in TeX or that pdflatex cannot write.
HOSTILE = [
    *("a_b_c", "x^2^3", "x² ²", "Q⁽¹⁾⁽²⁾ᵀᵀ", "V⁽¹⁾′′", "x′₁²′", "Ω_q₁₂", "_", "^", "'", "''", "_(a_(b))"),
    *("50 % of #1 & $2", "\\input{x}", "\\end{document}", "{", "}", "~^_", "a\nb", "x\ty", "<|end|>", "--"),
    *("é", "ção", "Zürich", "中文", "🙂", "ʲ", "ⁿ", "σ̂²", "é" + "\u0301" * 3, "\u0302", "\x1b[31m", "√(", "√x_1²"),
]

PIECE = re.compile(r"\\[A-Za-z]+ ?|\\.|[{}_^']|\s+|.", re.DOTALL)
MATHEMATICS = re.compile(r"\\\[(.*?)\\\]|(?<!\\)\$(.*?)(?<!\\)\$", re.DOTALL)
LISTING = re.compile(r"\\begin\{verbatim\}.*?\\end\{verbatim\}", re.DOTALL)


def script_faults(formula: str) -> list[str]:
    """What TeX refuses: a second script on one side of a sign, a prime after a superscript, a script of nothing.

    This reads TeX by its own rules, without the program's tables.
    """
    faults = []
    levels: list[set[str]] = [set()]  # the scripts that the last sign of each open group has
    expects_argument = False
    last = ""
    for piece in PIECE.findall(formula):
        if piece.isspace():
            continue
        if piece in ("_", "^"):
            if piece in levels[-1]:
                faults.append(f"double {piece} in {formula!r}")
            levels[-1].add(piece)
            expects_argument = True
        elif piece == "'":
            if "^" in levels[-1] and last != "'":
                faults.append(f"prime after a superscript in {formula!r}")
            levels[-1].add("^")
        elif piece == "{":
            if not expects_argument:
                levels[-1] = set()
            expects_argument = False
            levels.append(set())
        elif piece == "}":
            if len(levels) == 1 or expects_argument:
                return [f"unbalanced braces in {formula!r}"]
            levels.pop()
        elif expects_argument:
            expects_argument = False
        else:
            levels[-1] = set()
        last = piece
    if len(levels) != 1 or expects_argument:
        faults.append(f"unbalanced braces in {formula!r}")
    return faults


def document_faults(document: str) -> list[str]:
    """What pdflatex would not take, or would take for something else, as far as structure shows it."""
    faults = [f"{sign!r} is not ASCII" for sign in document if not sign.isascii()]
    _, _, body = LISTING.sub("", document).partition("\\begin{document}")
    for displayed, inline in MATHEMATICS.findall(body):
        formula = displayed or inline
        faults += script_faults(re.sub(r"\\begin\{bmatrix\}.*?\\end\{bmatrix\}", "M", formula, flags=re.DOTALL))
    prose = MATHEMATICS.sub("", body)
    faults += [f"{sign} outside mathematics" for sign in re.findall(r"(?<!\\)[_^$&#%~]", prose)]
    numbers = re.sub(r"\\begin\{bmatrix\}.*?\\end\{bmatrix\}", "", body, flags=re.DOTALL)
    faults += [f"{sign} is not escaped" for sign in re.findall(r"(?<!\\)[&#%]", numbers)]
    return faults


@cache
def documents(notation: NotationName) -> dict[str, str]:
    """What every command line of `OPTIONS` writes in a notation, by its arguments."""
    written = {}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "page.tex"
        for command, choices in OPTIONS.items():
            for options in choices:
                arguments = [command, *options, "--notation", notation]
                result = tfcli("explain", *arguments, "--latex", path)
                assert result.exit_code == 0, result.stderr
                written[" ".join(arguments)] = path.read_text("utf-8")
    return written


def hostile_document() -> str:
    values = frozen([[1.0]])
    steps = []
    for text in HOSTILE:
        matrix = Matrix(text, values, (text,), (text,), (text, text))
        steps.append(Step(text, text, (matrix,)))
    return explanation_latex(Explanation(" ".join(HOSTILE), " ".join(HOSTILE), "bishop", tuple(steps)))


def compile_with_pdflatex(pages: list[str], folder: Path) -> None:
    """Compile pages as one document, stopping at the first error."""
    program = shutil.which("pdflatex")
    if program is None:
        pytest.skip("pdflatex is not installed (Debian: apt-get install texlive-latex-base)")
    head = pages[0].partition("\\begin{document}")[0]
    text = head + "\\begin{document}\n"
    for page in pages:
        text += page.partition("\\begin{document}")[2].rpartition("\\end{document}")[0]
    text += "\\end{document}\n"
    (folder / "all.tex").write_text(text, encoding="utf-8")
    words = [program, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "all.tex"]
    done = subprocess.run(words, cwd=folder, capture_output=True, timeout=120)
    output = done.stdout.decode(errors="replace")
    errors = [line for line in output.splitlines() if line.startswith(("!", "l."))]
    assert done.returncode == 0, "\n".join(errors)
    assert (folder / "all.pdf").stat().st_size > 1_000


@pytest.mark.parametrize("notation", NAMES)
def test_every_page_has_the_structure_of_tex(notation: NotationName) -> None:
    faults = {}
    for arguments, document in documents(notation).items():
        if found := document_faults(document):
            faults[arguments] = found
    assert faults == {}


@pytest.mark.parametrize("notation", NAMES)
def test_pdflatex_compiles_every_page(notation: NotationName, tmp_path: Path) -> None:
    compile_with_pdflatex(list(documents(notation).values()), tmp_path)


def test_hostile_texts_have_the_structure_of_tex() -> None:
    assert document_faults(hostile_document()) == []


def test_pdflatex_compiles_hostile_texts(tmp_path: Path) -> None:
    compile_with_pdflatex([hostile_document()], tmp_path)


@pytest.mark.parametrize("formula", ["\\Omega _{q}_{1}", "v_{a}_{1}", "V^{(1)}'", "x^2 ^3", "x_{", "a}", "x'^{2}'"])
def test_the_structural_check_sees_what_tex_refuses(formula: str) -> None:
    assert script_faults(formula)


@pytest.mark.parametrize("formula", ["x_{1}^{2}", "x'", "x''_{1}", "a_{b_{c}}^{d}", "x^{2}{}^{3}", "\\alpha '"])
def test_the_structural_check_takes_what_tex_takes(formula: str) -> None:
    assert script_faults(formula) == []


@pytest.mark.parametrize(
    ("written", "latex"),
    [
        ("Ω_q₁", r"\Omega _{q1}"),
        ("v_a₁", "v_{a1}"),
        ("V⁽¹⁾′", r"V^{\prime (1)}"),
        ("L′₁", "L_{1}'"),
        ("e′⁽ℓ⁾", r"e^{\prime (\ell )}"),
        ("q⁽ʲ⁾", "q^{(j)}"),
        ("X″", "X''"),
        ("90°", r"90^{\circ }"),
        ("x² ²", "x^{2} {}^{2}"),
    ],
)
def test_scripts_of_one_sign_are_joined(written: str, latex: str) -> None:
    assert in_math(written) == latex


@pytest.mark.parametrize(
    ("written", "latex"),
    [
        ("é", r"\'{e}"),
        ("runs/中", "runs/[U+4E2D]"),
        ("W⁽o⁾", r"W${}^{(}$o${}^{)}$"),
        ("a < b", "a $<$ b"),
    ],
)
def test_letters_in_sentences(written: str, latex: str) -> None:
    assert in_text(written) == latex


@given(st.text(alphabet="xA1 _^'′″°⁽⁾¹²₁ₙᵀ(){}[]\\#&%$~|<√é中\u0302\u0303", max_size=20) | st.text(max_size=20))
def test_whatever_a_formula_holds_is_valid(text: str) -> None:
    assert document_faults(f"\\begin{{document}}\\[ {in_math(text)} \\]") == []
    assert document_faults("\\begin{document}" + in_text(text)) == []
