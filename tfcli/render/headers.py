"""What stands above a table's columns: labels across, labels written downwards, or a ruler of numbers."""

from rich.cells import cell_len

from tfcli.render.safe import fit

TALLEST = 12
"""Lines a downward header may take; longer labels are cut."""


def vertical(labels: tuple[str, ...], cell_width: int) -> list[str]:
    """Each label written downwards over its own column of `cell_width` cells, ending just above it.

    Marks stay with their letter; a character wider than the column is shown as ▯.
    """
    columns = [_letters(label, cell_width) for label in labels]
    height = max(map(len, columns), default=0)
    columns = [[""] * (height - len(column)) + column for column in columns]
    return ["".join(fit(letter, cell_width, "center") for letter in line) for line in zip(*columns, strict=True)]


def beside(first: list[str], rest: list[str], width: int, gap: int) -> list[str]:
    """Two headers of one table, the first `width` cells wide, with `gap` cells between them; both end at the bottom.

    >>> beside(["0"], ["a", "b"], 2, 1)
    ['   a', '0  b']
    """
    height = max(len(first), len(rest))
    left, right = ([""] * (height - len(lines)) + lines for lines in (first, rest))
    return [fit(one, width) + " " * gap + other for one, other in zip(left, right, strict=True)]


def _letters(label: str, cell_width: int) -> list[str]:
    letters: list[str] = []
    for character in label:
        if letters and cell_len(character) == 0:
            letters[-1] += character
        else:
            letters.append(character if cell_len(character) <= cell_width else "▯")
    if len(letters) > TALLEST:
        letters = [*letters[: TALLEST - 1], "⋮"]
    return letters


def ruler(numbers: tuple[int, ...], cell_width: int) -> str:
    """The number of every so many columns, its first digit over its column.

    >>> ruler(tuple(range(24)), 1)
    '0         10        20'
    """
    longest = len(str(max(numbers, default=0)))
    line = ""
    for column in range(0, len(numbers), _step((longest + 2) / cell_width)):
        number, at = str(numbers[column]), column * cell_width
        if at + len(number) <= len(numbers) * cell_width or column == 0:
            line = line.ljust(at) + number
    return line


def _step(least: float) -> int:
    """The least of 1, 2, 10, 20, 100 … from `least` on: even, so that pairs of columns stay in step."""
    power = 1
    while True:
        for digit in (1, 2):
            if digit * power >= least:
                return digit * power
        power *= 10
