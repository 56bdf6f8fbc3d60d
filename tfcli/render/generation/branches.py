"""A tree of beginnings as lines: a branch runs to the right as long as it lives; what leaves it hangs below the token
where it does."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from tfcli.records.generation import BeamNode
from tfcli.render.safe import fit, token_label

_LEAST_ROOM = 20
_LONGEST_LABEL = 16


@dataclass(frozen=True)
class Signs:
    """What a tree is drawn with, in the terminal's encoding."""

    start: str
    chosen: str
    ended: str
    pruned: str
    fork: str
    last_fork: str
    trunk: str
    total: str


UNICODE = Signs("○", "●", "✓", "✂", "├─ ", "└─ ", "│", "Σ ln p")
ASCII = Signs("o", "*", "+", "x", "|- ", "`- ", "|", "sum")


class Family:
    """Who descends from whom."""

    def __init__(self, nodes: Sequence[BeamNode]) -> None:
        self.nodes = nodes
        self._children: dict[int | None, list[int]] = {}
        for number, node in enumerate(nodes):
            self._children.setdefault(node.parent, []).append(number)
        self._worth = [(node.chosen, node.fate == "ended", node.step, node.score) for node in nodes]
        for number in reversed(range(len(nodes))):
            parent = nodes[number].parent
            if parent is not None:
                self._worth[parent] = max(self._worth[parent], self._worth[number])

    def children(self, number: int | None, *, pruned: bool) -> list[int]:
        """The extensions of a node (None: of the start) that lived on, the most telling first, or that were pruned, the
        most probable first."""
        found = [n for n in self._children.get(number, []) if (self.nodes[n].fate == "pruned") == pruned]
        return sorted(found, key=lambda n: self.nodes[n].score if pruned else self._worth[n], reverse=True)

    def way(self, number: int) -> list[int]:
        """From a node to the end that tells most: the chosen one, else one that ended, else the longest."""
        way = [number]
        while following := self.children(way[-1], pruned=False):
            way.append(following[0])
        return way


@dataclass(frozen=True)
class BranchLine:
    """A branch on one line: what it looks like, and the nodes it begins and ends with. One that others share the line
    with has them in `nodes`, each beginning and end at once."""

    text: str
    nodes: tuple[int, ...]
    is_shared: bool = False


def branch_lines(
    family: Family, siblings: Sequence[int], room: int, signs: Signs, *, trunk_goes_on: bool = False
) -> list[BranchLine]:
    """Nodes with one parent, each with all that came of it; those of which nothing came share one line.

    Args:
        room: cells a line may take.
        trunk_goes_on: whether what they hang off goes on below them.
    """
    blocks = [_block(family, n, room - 3, signs) for n in siblings if _lived(family, n)]
    brief = [n for n in siblings if not _lived(family, n)]
    if brief:
        blocks.append([BranchLine(fit_labels(family, brief, room - 3), tuple(brief), is_shared=True)])
    lines = []
    for place, block in enumerate(blocks):
        is_last = place == len(blocks) - 1 and not trunk_goes_on
        for row, line in enumerate(block):
            joint = (
                (signs.last_fork if is_last else signs.fork) if row == 0 else (" " if is_last else signs.trunk) + "  "
            )
            lines.append(BranchLine(joint + line.text, line.nodes, line.is_shared))
    return lines


def fit_labels(family: Family, numbers: Sequence[int], room: int) -> str:
    """As many labels with their ln p as there is room for, and how many are missing."""
    shown = ""
    for place, number in enumerate(numbers):
        node = family.nodes[number]
        one = f"{_label(node)} {node.log_probability:.2f}"
        rest = len(numbers) - place - 1
        more = f"  +{rest}" if rest else ""
        if shown and cell_len(f"{shown}  {one}{more}") > room:
            return f"{shown}  +{rest + 1}"
        shown = f"{shown}  {one}" if shown else one
    return shown


def _block(family: Family, number: int, room: int, signs: Signs) -> list[BranchLine]:
    """A branch's own line, and below it what left it, the latest first, so that no two lines cross."""
    way = family.way(number)
    text = ""
    leaving: dict[int, list[int]] = {}
    for place, (parent, child) in enumerate(zip([None, *way], way, strict=False)):
        column = min(cell_len(text), max(room - _LEAST_ROOM, 0))
        if place:
            others = [n for n in family.children(parent, pruned=False) if n != child]
            leaving[column] = leaving.get(column, []) + others
        text += _label(family.nodes[child]) + " "
    text = text[:-1]
    lines = [BranchLine(fit(text, room) if cell_len(text) > room else text, (way[0], way[-1]))]
    columns = sorted(column for column, others in leaving.items() if others)
    while columns:
        column = columns.pop()
        before = "".join(signs.trunk if cell in columns else " " for cell in range(column))
        below = branch_lines(family, leaving[column], room - column, signs)
        lines += [BranchLine(before + line.text, line.nodes, line.is_shared) for line in below]
    return lines


def _lived(family: Family, number: int) -> bool:
    return family.nodes[number].fate == "ended" or bool(family.children(number, pruned=False))


def _label(node: BeamNode) -> str:
    label = token_label(node.token)
    return fit(label, _LONGEST_LABEL) if cell_len(label) > _LONGEST_LABEL else label
