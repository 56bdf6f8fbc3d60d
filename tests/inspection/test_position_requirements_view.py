"""Requirements, shifts and losses by position on fixed consoles."""

import numpy as np
import pytest
from rich.cells import cell_len

from tests.support.consoles import printed
from tfcli.draw.tables import to_csv
from tfcli.inspection.positions import (
    BeyondContext,
    Described,
    LossBand,
    PositionsRecord,
    Requirement,
    Requirements,
    ShiftRecord,
)
from tfcli.inspection.positions.view import (
    BeyondContextView,
    ComparisonView,
    RequirementsView,
    ShiftView,
    requirements_table,
    shift_table,
)
from tfcli.records.arrays import frozen

BOUNDED = Requirement("bounded", False, 319.5, "largest |value|")
UNIQUE = Requirement("unique", True, 1.25e-5, "smallest difference")
LENGTH = Requirement("beyond its length", True, 1280.0, "positions")
UNKNOWN = Requirement("consistent distance", None, None, "too few")
OPEN = Requirement("unique", None, None, "run it")
FOUND = Requirements("alibi", "formula", "added to the scores, every layer", (BOUNDED, UNIQUE, LENGTH, UNKNOWN))


def test_requirements_line_by_line() -> None:
    assert printed(RequirementsView(FOUND), 80).splitlines() == [
        "What a positional encoding should be",
        "bounded              not met         320  largest |value|",
        "unique               met           1e-05  smallest difference",
        "beyond its length    met           1,280  positions",
        "consistent distance  not measured         too few",
        "how it joins the tokens: added to the scores, every layer",
    ]


def test_requirements_as_csv() -> None:
    assert to_csv(requirements_table([(comparison()[0][0], FOUND)])).splitlines()[:2] == [
        "encoding,origin,joins,requirement,met,value,measured",
        'alibi,formula,"added to the scores, every layer",bounded,False,319.5,largest |value|',
    ]


def comparison() -> list[Described]:
    table = frozen(np.tile([0.0, 1.0], (8, 8)))
    vectors = [
        PositionsRecord(name, None, 8, 16, table, frozen(np.linspace(1, 0, 8)))
        for name in ("sinusoidal", "learned", "rotary")
    ]
    bias = frozen(-np.arange(8.0)[:, None] * [0.5, 0.25])
    biases = [PositionsRecord(name, None, 8, None, bias, None, "distance", "head") for name in ("alibi", "t5")]
    tables = (*vectors, *biases)
    return [(one, Requirements(one.encoding, "formula", "joined", (BOUNDED, OPEN))) for one in tables]


@pytest.mark.parametrize("width", [60, 80, 140])
def test_every_encoding_is_there_at_every_width(width: int) -> None:
    lines = printed(ComparisonView(comparison()), width).splitlines()
    assert max(map(cell_len, lines)) <= width
    text = "\n".join(lines)
    for name in ("sinusoidal", "learned", "rotary", "alibi", "t5"):
        assert f"{name} · formula" in text
    at = next(number for number, line in enumerate(lines) if line.startswith("bounded"))
    assert lines[at].split() == ["bounded", *["not", "met"] * 5]
    assert lines[at + 1].split() == ["320"] * 5
    assert lines[at + 2].split() == ["unique", *["not"] * 5]
    assert lines[at + 3].split() == ["measured"] * 5
    assert "a sinusoidal   b learned   c rotary   d alibi   e t5" in text or width < 80


def test_what_several_have_in_common_is_said_once() -> None:
    text = printed(ComparisonView(comparison()), 140)
    assert text.count("largest |value|") == 1
    assert "sinusoidal, learned, rotary, alibi, t5: largest |value|" in text


def test_a_rotation_with_its_angles() -> None:
    matrix = [[0.54, 0.84, 0], [-0.84, 0.54, 0], [0, 0, 0]]
    shift = ShiftRecord("sinusoidal", 1, frozen(matrix), frozen([1.0]), frozen([[0, 1]], np.int64), 2e-8, alone=1)
    lines = printed(ShiftView(shift), 140).splitlines()
    assert lines[0] == "From position n to n + 1"
    assert lines[1].strip() == "r_n+1 = R_1 r_n; each pair: [cos kω  sin kω; −sin kω  cos kω], ω = L^(−2i/D), any n"
    assert [line.split() for line in lines[4:7]] == [
        ["0", "0.54", "0.84", "0.00"],
        ["1", "-0.84", "0.54", "0.00"],
        ["2", "0.00", "0.00", "0.00"],
    ]
    assert lines[7].split()[:5] == ["pair", "0", "(0,", "1)", "1"]
    assert lines[-1].strip() == "the last dimension is a sine without its cosine: no matrix carries it"
    assert to_csv(shift_table(shift)).splitlines()[:3] == ["row,column,value", "0,0,0.54", "0,1,0.84"]


def test_a_fitted_map_is_said_to_be_one() -> None:
    text = printed(ShiftView(ShiftRecord("learned", 2, frozen(np.eye(10)), None, None, 1.4)), 140)
    assert "r_n+2 ≈ R_2 r_n, R_2 of least squares" in text
    assert "The first 8 of 10 dimensions; the others likewise." in text


def test_a_large_rotation_is_cropped_to_whole_pairs() -> None:
    pairs = frozen([[i, i + 6] for i in range(6)], np.int64)
    shift = ShiftRecord("sinusoidal", 1, frozen(np.eye(12)), frozen(np.ones(6)), pairs, 0.0)
    lines = printed(ShiftView(shift), 140).splitlines()
    assert lines[3].split() == ["0", "1", "2", "3", "6", "7", "8", "9"]


def test_the_loss_within_the_context_and_beyond() -> None:
    bands = (LossBand(0, 8, 2.0), LossBand(8, 16, 2.5), LossBand(16, 32, 3.0))
    lines = printed(BeyondContextView(BeyondContext(8, 3, bands, 8, frozen([2, 2.5, 3, 3]))), 80).splitlines()
    assert lines[:4] == [
        "Loss by position · context 8 · 3 texts",
        "positions 0 to 7    2.000  within the context",
        "positions 8 to 15   2.500  +25% beyond it",
        "positions 16 to 31  3.000  +50% beyond it",
    ]
    assert "┊ end of the context" in lines[-1]
    assert sum("┊" in line for line in lines[4:-1]) >= 8, "a line from top to bottom"


def test_learned_positions_end_with_the_context() -> None:
    text = printed(BeyondContextView(BeyondContext(8, 1, (LossBand(0, 8, 2.0),), 4, frozen([2, 1]), learned=True)), 80)
    assert "Positions are learned: there are none beyond the context." in text
    assert "end of the context" not in text
