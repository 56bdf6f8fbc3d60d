"""Every idea of the lectures has a command, an output that it printed, and a test."""

import re

import pytest

from tests.docs.lectures import OUTPUTS, Row, rows

ROWS = rows()
# The ideas by lecture: Bishop, UDL, CS224n, INF721, the encoder notes.
IDEAS = [
    *("B1", "B2", "B3", "B4", "B4a", "B4b", "B5", "B6", "B7", "B8", "B9", "B10"),
    *("U1", "U2", "U3", "U4", "U5", "U6", "U6a", "U7", "U8"),
    *("C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8"),
    *("I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9"),
    *("E1", "E2", "E3", "E4", "E5"),
]


def test_every_idea_has_a_row_and_no_output_is_left_over() -> None:
    assert [row.name for row in ROWS] == IDEAS
    assert {path.name for path in OUTPUTS.iterdir()} == {f"{name}.txt" for name in IDEAS}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_leads_to_what_its_command_printed_and_to_a_test(row: Row) -> None:
    """Outputs come from trained runs, so that their numbers are not compared; that they are of this command is."""
    first, empty, *lines = row.output.read_text(encoding="utf-8").splitlines()
    assert (first, empty) == (f"$ {row.command}", "")
    assert len(lines) > 5
    assert max(map(len, lines)) <= 80
    assert re.search(r"^def test_", row.test.read_text(encoding="utf-8"), re.MULTILINE)
