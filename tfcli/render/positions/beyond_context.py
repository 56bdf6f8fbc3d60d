"""A decoder's loss by position, within its context and beyond."""

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.records.positions import BeyondContext
from tfcli.render.curve import Plot, Series
from tfcli.render.facts import Fact, Facts


@dataclass(frozen=True)
class BeyondContextView:
    """The loss of each stretch, then a curve by position with the context's end marked."""

    beyond: BeyondContext

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        first = self.beyond.bands[0].loss
        facts = [
            Fact(f"positions {band.first:,} to {band.last - 1:,}", f"{band.loss:.3f}", _note(band.loss, first, number))
            for number, band in enumerate(self.beyond.bands)
        ]
        yield Facts(f"Loss by position · context {self.beyond.context:,} · {self.beyond.texts} texts", facts)
        if self.beyond.learned:
            yield Text("Positions are learned: there are none beyond the context.", style="dim")
        size = self.beyond.bin
        xs = tuple(size * (number + 0.5) for number in range(len(self.beyond.curve)))
        ys = tuple(self.beyond.curve.tolist())
        steps = tuple(min(ys) + (max(ys) - min(ys)) * i / 8 for i in range(9))
        end = Series("end of the context", (self.beyond.context,) * 9, steps, "red", "┊")
        yield Plot((Series("loss", xs, ys, "cyan"), *(() if self.beyond.learned else (end,))), "position")


def _note(loss: float, first: float, number: int) -> str:
    return "within the context" if number == 0 else f"{loss / first - 1:+.0%} beyond it"
