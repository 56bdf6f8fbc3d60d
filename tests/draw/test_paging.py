"""Pages of a screen: what fits one is never cut."""

import numpy as np
import pytest
from rich.console import Console, Group
from rich.text import Text

from tfcli.draw.paging import Page, pages
from tfcli.inspection.explain import Matrix, Step
from tfcli.inspection.explain.view import StepView
from tfcli.records.arrays import frozen


def texts(page: Page) -> list[str]:
    return ["".join(segment.text for segment in line).rstrip() for line in page.lines]


def block(letter: str, lines: int) -> Text:
    return Text("\n".join(f"{letter}{number}" for number in range(lines)))


def test_a_part_that_does_not_fit_begins_the_next_page() -> None:
    """Five lines: a0 to a2 leave two, which b0 to b2 do not fit."""
    screens = pages(Group(block("a", 3), Text(""), block("b", 3)), Console(width=20), 5)
    assert [texts(page) for page in screens] == [["a0", "a1", "a2", ""], ["b0", "b1", "b2"]]
    assert [page.is_cut for page in screens] == [False, False]


def test_a_part_higher_than_the_screen_is_cut_and_says_so() -> None:
    screens = pages(Group(block("a", 1), block("b", 7)), Console(width=20), 4)
    assert [texts(page) for page in screens] == [["a0", "b0", "b1", "b2"], ["b3", "b4", "b5", "b6"]]
    assert [page.is_cut for page in screens] == [False, True]


def test_nothing_is_one_empty_page() -> None:
    assert [texts(page) for page in pages(Group(), Console(width=20), 4)] == [[]]


@pytest.mark.parametrize("width", [40, 80, 140])
def test_a_step_of_many_matrices_keeps_each_of_them_whole(width: int) -> None:
    """Six matrices of 9 rows, with their names and heads 11 lines high: none is on two screens of 23 lines."""
    rows, columns = tuple(f"r{row}" for row in range(9)), tuple(map(str, range(9)))
    values = frozen(np.arange(81).reshape(9, 9) / 7)
    matrices = tuple(Matrix(f"W{number}", values, rows, columns, ("D", "D")) for number in range(6))
    screens = pages(StepView(Step("t", "f", matrices), 1), Console(width=width), 23)
    assert len(screens) > 1
    assert not any(page.is_cut for page in screens)
    for page in screens:
        shown = "\n".join(texts(page))
        assert len(page.lines) <= 23
        assert shown.count("r0 ") == shown.count("r8 "), "each matrix has its first and its last row here"
