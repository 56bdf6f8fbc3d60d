"""Steps of an explanation on fixed consoles, as text; colour is looked at in the escape codes."""

import numpy as np
import pytest
from rich.cells import cell_len

from tests.inspection.test_explain_masking import explain_lecture_masking
from tests.support.consoles import printed
from tfcli.draw.colors import SIGNED, WEIGHTS
from tfcli.draw.tables import to_csv
from tfcli.inspection.explain import Explanation, Matrix, Measure, Step
from tfcli.inspection.explain.attention import explain_attention
from tfcli.inspection.explain.layer import trace_shapes
from tfcli.inspection.explain.subject import toy
from tfcli.inspection.explain.view import ExplanationView, ShapesView, StepView, explanation_table, shapes_table
from tfcli.records.arrays import frozen

# INF721's scores, masked and as weights: side by side where they fit.
OURS = [
    "  softmax  T_x × T_x = 3 × 3",
    "          Lucas  will travel   sum",
    "   Lucas      1     –      –  1.00",
    "    will  .0002 .9998      –  1.00",
    "  travel  .0002 .0303  .9695  1.00",
]
PRINTED = [
    "  printed  T_x × T_x = 3 × 3",
    "          Lucas will travel   sum",
    "   Lucas   .100    –      –  0.10",
    "    will   .300 .700      –  1.00",
    "  travel   .300 .300   .400  1.00",
]
SIDE_BY_SIDE = [
    "  softmax  T_x × T_x = 3 × 3         printed  T_x × T_x = 3 × 3",
    "          Lucas  will travel   sum    Lucas will travel   sum",
    "   Lucas      1     –      –  1.00     .100    –      –  0.10",
    "    will  .0002 .9998      –  1.00     .300 .700      –  1.00",
    "  travel  .0002 .0303  .9695  1.00     .300 .300   .400  1.00",
]


@pytest.mark.parametrize(("width", "expected"), [(60, [*OURS, "", *PRINTED]), (80, SIDE_BY_SIDE), (140, SIDE_BY_SIDE)])
def test_a_step_at_every_width(width: int, expected: list[str]):
    lines = printed(StepView(explain_lecture_masking().steps[3], 4), width).splitlines()
    assert lines[:2] == ["4 Weights", "  softmax(Q_i K_iᵀ / √d_k + Mask), row by row"]
    assert lines[2 : 2 + len(expected)] == expected
    assert lines[2 + len(expected)] == "  – exactly 0"


def test_what_the_mask_hides():
    lines = printed(StepView(explain_lecture_masking().steps[1], 2)).splitlines()
    assert lines[2:8] == [
        "  Mask  T_x × T_x = 3 × 3     QKᵀ + Mask  T_x × T_x = 3 × 3",
        "          Lucas will travel    Lucas will travel",
        "   Lucas      0   −∞     −∞       31   −∞     −∞",
        "    will      0    0     −∞       27   42     −∞",
        "  travel      0    0      0       22   31     37",
        "  −∞ hidden by the mask",
    ]


def test_columns_of_tokens_have_their_sums_below():
    lines = printed(StepView(explain_lecture_masking("udl").steps[3])).splitlines()
    assert lines[2].startswith("  Softmax  N × N = 3 × 3")
    assert lines[7].startswith("     sum   1.00  1.00   1.00")


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("name", ["bishop", "udl", "cs224n", "inf721", "encoder"])
def test_no_line_is_wider_than_the_console(width: int, name):
    text = printed(ExplanationView(explain_attention(toy("Lucas will travel to Rio"), name)), width)
    assert max(map(cell_len, text.splitlines())) <= width


def matrix(values: object, **options: object) -> Matrix:
    array = frozen(values)
    rows, columns = (tuple(map(str, range(size))) for size in array.shape)
    return Matrix(**{"name": "W", "values": array, "rows": rows, "columns": columns, "axes": ("D", "F"), **options})  # type: ignore[arg-type]


def test_what_does_not_fit_is_left_out_with_its_full_shape():
    lines = printed(StepView(Step("t", "", (matrix(np.arange(20 * 40).reshape(20, 40)),))), 40).splitlines()
    assert lines[1] == "  W  D × F = 20 × 40"
    assert lines[2].split() == ["0", "1", "2", "3", "4", "5", "6", "…", "39"]
    assert [line.split()[0] for line in lines[3:9]] == ["0", "1", "2", "3", "⋮", "19"]
    assert lines[8].split() == ["19", "760", "761", "762", "763", "764", "765", "766", "…", "799"]


def test_heads_stay_together():
    heads = [matrix([[1.5] * 4], name=f"{name}{number}") for name in "QK" for number in "₀₁"]
    lines = printed(StepView(Step("t", "", tuple(heads))), 90).splitlines()
    assert [line.split()[0] for line in lines if "D × F" in line] == ["Q₀", "K₀"]


def test_colours_are_centred_on_0_and_weights_end_at_1():
    signed = matrix([[-2.0, 0.5]], name="X")
    weights = matrix([[0.25, 0.75]], name="A", kind="weights")
    text = printed(StepView(Step("t", "", (signed, weights))), color="truecolor")
    assert "48;2;{};{};{}".format(*SIGNED.table[0]) in text  # −2 is the furthest: the lowest colour
    assert "48;2;{};{};{}".format(*SIGNED.table[20]) in text  # 0.5 of ± 2: a quarter above the middle of 33
    assert "48;2;{};{};{}".format(*WEIGHTS.table[8]) in text and "48;2;{};{};{}".format(*WEIGHTS.table[24]) in text
    assert "-2 " in text and " 2" in text and "weight" in text


def test_many_weights_are_a_map_with_its_own_legend():
    values = np.tril(np.ones((30, 30))) / np.arange(1, 31)[:, None]
    text = printed(StepView(Step("t", "", (matrix(values, kind="weights"),))))
    assert "  W  D × F = 30 × 30" in text
    assert "██" in text and "weight  –: exactly 0" in text
    assert "  – exactly 0" not in text.splitlines()


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([[0.0004, -0.0123]], "signed", ["0.000", "-0.012"]),
        ([[-0.001, 12.0]], "signed", ["0.00", "12.00"]),
        ([[31.0, 27.0]], "signed", ["31", "27"]),
        ([[0.0, 0.0]], "signed", ["0", "0"]),
        ([[1.0, 0.0]], "weights", ["1", "–"]),
        ([[0.0002, 0.9998]], "weights", [".0002", ".9998"]),
        ([[0.874, 0.126]], "weights", [".874", ".126"]),
    ],
)
def test_numbers(values: list[list[float]], kind: str, expected: list[str]):
    line = printed(StepView(Step("t", "", (matrix(values, kind=kind),)))).splitlines()[3]
    assert line.split()[1:] == expected


def test_tokens_are_shown_safely_and_aligned():
    tokens = (" a", "日本", "\x1b[31m")
    lines = printed(
        StepView(Step("t", "", (matrix(np.eye(3), rows=tokens, columns=tokens),), note="of \x1b[31m"))
    ).splitlines()
    assert "·a" in lines[2] and "日本" in lines[2] and "\\x1b[31m" in lines[2]
    assert "\x1b" not in "\n".join(lines)
    assert len({cell_len(line) for line in lines[2:6]}) == 1


def test_csv_has_every_number_and_every_measure():
    step = Step("t", "f", (matrix([[1.5, -np.inf]], name="M"),), (Measure("gap", 0.25, "small"),))
    assert to_csv(explanation_table(Explanation("e", "s", "bishop", (step,)))).splitlines() == [
        "step,title,matrix,row,column,value",
        "1,t,M,0,0,1.5",
        "1,t,M,0,1,-inf",
        "1,t,gap,,,0.25",
    ]


def test_shapes_as_a_table():
    trace = trace_shapes(toy("Lucas travels", d_model=12, heads=3), "cs224n")
    text = printed(ShapesView(trace))
    assert "reshape q    (n, k, d/k)   (2, 3, 4)" in text
    assert "transpose q  (k, n, d/k)   (3, 2, 4)" in text
    assert "reshape q,n × k × d/k,2 × 3 × 4," in to_csv(shapes_table(trace))


@pytest.mark.parametrize(
    ("residue", "shown"), [(0.0, "<1e-6"), (2.98e-08, "<1e-6"), (1.19e-07, "<1e-6"), (0.25, "0.25")]
)
def test_a_residue_of_rounding_is_a_bound_whatever_the_processor_makes_of_it(residue: float, shown: str) -> None:
    """0 as well: by chance nothing is left on one processor, and something on another."""
    step = Step("t", "f", measures=(Measure("deviation", residue, "rounding", is_residue=True),))
    assert printed(StepView(step), 80).splitlines()[-1].split() == ["deviation", shown, "rounding"]
