"""A beam search as a tree: the chosen text is the trunk, a row a token, and what was tried beside it hangs off it."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.records.generation import BeamNode, BeamTree
from tfcli.render.generation.branches import ASCII, UNICODE, BranchLine, Family, Signs, branch_lines, fit_labels
from tfcli.render.numbers import plural
from tfcli.render.safe import fit, printable, token_label

_RIGHT = 23
_STRUCK = "dim strike"


@dataclass(frozen=True)
class BeamTreeView:
    """A row begins with its step and ln p of its first token there, and ends with the sum and the fate of its last one.

    What was kept for a single step, and what was pruned at once, stands together on a row.
    """

    tree: BeamTree

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        tree, signs = self.tree, ASCII if options.ascii_only else UNICODE
        groups = len({node.group for node in tree.nodes})
        among = f" in {groups} groups" if groups > 1 else ""
        yield Text(f"Beam search · beam {tree.beam}{among} · length penalty {tree.length_penalty:g}", style="bold")
        yield Text(_counts(tree.nodes), style="dim")
        yield from _Drawing(tree, signs, options.max_width).rows()
        yield Text(
            f"{signs.chosen} chosen   {signs.ended} ended: rank, ln p over length penalty   "
            f"{signs.pruned} pruned: at which step",
            style="dim",
        )
        for number, text in enumerate(tree.texts, start=1):
            line = Text().append(f"{number}. ", "dim")
            yield line.append(printable(text.text, keep_newlines=True), "bold" if number == 1 else "")


def _counts(nodes: tuple[BeamNode, ...]) -> str:
    fates = Counter(node.fate for node in nodes)
    steps = 1 + max((node.step for node in nodes), default=-1)
    return (
        f"{plural(steps, 'step')}; {plural(len(nodes), 'extension')} looked at: "
        f"{fates['kept']} kept, {fates['ended']} ended, {fates['pruned']} pruned"
    )


class _Drawing:
    def __init__(self, tree: BeamTree, signs: Signs, width: int) -> None:
        self._tree, self._signs = tree, signs
        self._family = Family(tree.nodes)
        self._has_groups = len({node.group for node in tree.nodes}) > 1
        self._left = 22 if self._has_groups else 15
        self._room = max(width - self._left - _RIGHT, 24)
        self._last_step: dict[int, int] = {}
        for node in tree.nodes:
            self._last_step[node.group] = max(node.step, self._last_step.get(node.group, 0))
        ended = [number for number, node in enumerate(tree.nodes) if node.fate == "ended"]
        ended.sort(key=lambda number: tree.nodes[number].ranking, reverse=True)
        self._rank = {number: rank for rank, number in enumerate(ended, start=1)}

    def rows(self) -> Iterator[Text]:
        group = "  group" if self._has_groups else ""
        start = Text(no_wrap=True, overflow="crop").append(f"step{group}     ln p  ", "dim")
        start.append(fit(f"{self._signs.start} {printable(self._tree.prompt)}", self._room))
        yield start.append(f"  {self._signs.total:>7}  fate", style="dim")
        parent = None
        while lived := self._family.children(parent, pruned=False):
            trunk, *others = lived
            for line in branch_lines(self._family, others, self._room, self._signs, trunk_goes_on=True):
                yield self._branch(line)
            pruned = self._family.children(parent, pruned=True)
            if pruned:
                yield self._pruned(pruned)
            yield self._trunk(trunk)
            parent = trunk

    def _trunk(self, number: int) -> Text:
        node = self._family.nodes[number]
        row = self._begun(node)
        row.append(fit(f"{self._signs.chosen} {token_label(node.token)}", self._room), "bold")
        return row.append(self._end(number), "bold" if node.fate == "ended" else "")

    def _branch(self, line: BranchLine) -> Text:
        node = self._family.nodes[line.nodes[0]]
        row = self._begun(node, with_probability=not line.is_shared)
        row.append(fit(line.text, self._room), "dim" if line.is_shared else "")
        if line.is_shared:
            return row.append(f"{'':>9}  {self._fate(line.nodes[0])}", "dim")
        return row.append(
            self._end(line.nodes[-1]), "" if self._family.nodes[line.nodes[-1]].fate == "ended" else "dim"
        )

    def _pruned(self, numbers: list[int]) -> Text:
        row = self._begun(self._family.nodes[numbers[0]], with_probability=False)
        row.append(self._signs.fork, "dim")
        room = self._room - len(self._signs.fork)
        labels = fit_labels(self._family, numbers, room)
        row.append(labels, _STRUCK).append(" " * (room - cell_len(labels)))
        return row.append(f"{'':>9}  {self._signs.pruned} at once", "dim")

    def _begun(self, node: BeamNode, *, with_probability: bool = True) -> Text:
        group = f"{node.group + 1:>7}" if self._has_groups else ""
        probability = f"{node.log_probability:9.2f}" if with_probability else " " * 9
        row = Text(no_wrap=True, overflow="crop")
        return row.append(f"{node.step + 1:>4}{group}{probability}  ", "dim")

    def _end(self, number: int) -> str:
        return f"{self._family.nodes[number].score:>9.2f}  {self._fate(number)}"

    def _fate(self, number: int) -> str:
        node = self._family.nodes[number]
        if node.fate == "ended":
            return f"{self._signs.ended} {self._rank[number]}. {node.ranking:.2f}"
        if node.chosen:
            return ""
        if node.step == self._last_step[node.group]:
            return "given up"
        return f"{self._signs.pruned} at {node.step + 2}"
