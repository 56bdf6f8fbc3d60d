"""An explanation as a LaTeX document that pdflatex compiles, with amsmath alone."""

import re
import tomllib
import unicodedata
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from tfcli.draw.colors import NO_VALUE_MARK
from tfcli.draw.safe import printable
from tfcli.inspection.explain import Explanation, Matrix, Step
from tfcli.inspection.explain.view import HIDDEN, formatter

_HOLE = r"\underline{\hspace{2em}}"

# A matrix with more rows or columns than this is written with dots.
_MOST_LINES = 12
# The first rows or columns of such a matrix, before its dots; the last one follows them.
_LINES_BEFORE_DOTS = 8

_LATEX: dict[str, Any] = tomllib.loads((files(__package__) / "latex.toml").read_text("utf-8"))
_END_OF_LISTING = r"\end{verbatim}"


def explanation_latex(explanation: Explanation) -> str:
    """A LaTeX document with a formula and its matrices for each step.

    A listing is written as it is. Drawings, measures and notes are left out.
    """
    sections = []
    for number, step in enumerate(explanation.steps, start=1):
        body = _step_latex(step)
        if body:
            sections.append(f"\\subsection*{{{number} {in_text(step.title)}}}\n{body}")
    title = in_text(explanation.title)
    subtitle = in_text(explanation.subtitle)
    return str(_LATEX["document"]).format(title=title, about=subtitle, steps="".join(sections))


def _step_latex(step: Step) -> str:
    displayed = [in_math(step.formula)]
    for matrix in step.matrices:
        displayed.append(_matrix_latex(matrix))
    text = ""
    for line in displayed:
        if line:
            text += f"\\[ {line} \\]\n"
    is_listing = step.lines.isascii() and _END_OF_LISTING not in step.lines
    if step.lines and is_listing:
        text += f"\\begin{{verbatim}}\n{step.lines}\n{_END_OF_LISTING}\n"
    return text


def _matrix_latex(matrix: Matrix) -> str:
    num_rows, num_columns = matrix.values.shape
    columns = _written_lines(num_columns)
    lines = []
    for row in _written_lines(num_rows):
        cells = [_cell_latex(matrix, row, column) for column in columns]
        lines.append(" & ".join(cells))
    body = " \\\\\n".join(lines)
    name = in_math(matrix.name)
    axes = r" \times ".join(in_math(axis) for axis in matrix.axes)
    sizes = f"{num_rows} \\times {num_columns}"
    return f"{name} = \\begin{{bmatrix}}\n{body}\n\\end{{bmatrix}} \\quad {axes} = {sizes}"


def _written_lines(size: int) -> list[int | None]:
    """The rows or columns of a matrix that are written; None stands for dots."""
    if size <= _MOST_LINES:
        return list(range(size))
    return [*range(_LINES_BEFORE_DOTS), None, size - 1]


def _cell_latex(matrix: Matrix, row: int | None, column: int | None) -> str:
    if row is None and column is None:
        return r"\ddots"
    if row is None:
        return r"\vdots"
    if column is None:
        return r"\cdots"
    if matrix.holes:
        return _HOLE
    number = formatter(matrix.values, matrix.kind)(float(matrix.values[row, column]))
    if number == HIDDEN:
        return r"-\infty"
    if number == NO_VALUE_MARK:
        return "0"
    return number


@dataclass
class _Scripts:
    """The scripts of one sign: TeX takes one above it and one below it, so several are joined."""

    primes: int = 0
    above: str = ""
    below: str = ""

    def latex(self) -> str:
        """Both scripts, after the sign that they belong to."""
        text = ""
        if self.below:
            text += f"_{{{self.below}}}"
        if self.above:
            primes = r"\prime " * self.primes
            text += f"^{{{primes}{self.above}}}"
        else:
            text += "'" * self.primes
        return text


def in_math(formula: str) -> str:
    """A formula as the notations write it, for LaTeX's mathematics."""
    text = ""
    scripts = _Scripts()
    has_base = False
    for match in re.finditer(_LATEX["pattern"], printable(formula)):
        kind = match.lastgroup or "sign"
        content = match[kind]
        is_script = kind in _LATEX["superscripts"] or kind in _LATEX["subscripts"]
        if is_script:
            if not has_base:
                text += "{}"  # a script needs a sign before it
                has_base = True
            _add_script(scripts, kind, content)
            continue
        text += scripts.latex() + _piece_latex(kind, content)
        scripts = _Scripts()
        has_base = not content.isspace()
    return text + scripts.latex()


def _add_script(scripts: _Scripts, kind: str, content: str) -> None:
    if kind == "primes":
        scripts.primes += content.count("′") + content.count("'") + 2 * content.count("″")
    elif kind == "degrees":
        scripts.above += r"\circ "
    elif kind in _LATEX["superscripts"]:
        scripts.above += in_math(_on_the_line(content))
    else:
        scripts.below += in_math(_on_the_line(content))


def _on_the_line(text: str) -> str:
    """A text whose superscript and subscript signs are ordinary ones: "⁽ℓ⁾ᵀ" becomes "(ℓ)⊤"."""
    signs = ""
    for sign in text:
        style, _, code = unicodedata.decomposition(sign).partition(" ")
        if sign == "ᵀ":
            signs += "⊤"
        elif style in ("<super>", "<sub>"):
            signs += "".join(chr(int(point, 16)) for point in code.split())
        else:
            signs += sign
    return signs


def _piece_latex(kind: str, content: str) -> str:
    """A part of a formula that is no script."""
    if kind == "sign":
        if content in _LATEX["signs"]:
            return str(_LATEX["signs"][content])
        return content if content.isascii() else rf"\text{{{_letter_latex(content)}}}"
    if kind in _LATEX["nested"]:
        content = in_math(content)
    return str(_LATEX["forms"][kind] % content)


def in_text(sentence: str) -> str:
    """A sentence for LaTeX, its signs in mathematics."""
    text = ""
    for sign in unicodedata.normalize("NFC", printable(sentence)):
        if sign in _LATEX["signs"]:
            text += f"${_LATEX['signs'][sign]}$"
        elif sign.isascii():
            text += sign
        elif _on_the_line(sign) != sign:
            text += f"${in_math(sign)}$"
        else:
            text += _letter_latex(sign)
    return text


def _letter_latex(sign: str) -> str:
    """A sign beyond ASCII as pdflatex writes it without a package; its code point if that has no way to write it."""
    if sign in _LATEX["letters"]:
        return str(_LATEX["letters"][sign])
    decomposed = unicodedata.normalize("NFD", sign)
    base, accent = decomposed[0], decomposed[1:]
    if base.isascii() and base.isalpha() and accent in _LATEX["accents"]:
        return f"{_LATEX['accents'][accent]}{{{base}}}"
    return f"[U+{ord(sign):04X}]"
