"""What the head that is looked at does with this text, in numbers."""

from rich.segment import Segment

from tfcli.explorer.drawn import Drawn
from tfcli.explorer.paint import BOLD, DIM
from tfcli.explorer.scene import Scene
from tfcli.records.heads import HeadStatistics
from tfcli.render.cells import Line
from tfcli.render.numbers import weight
from tfcli.render.safe import fit

_ROLES = ("first token", "itself", "previous token", "next token", "same place")
_SCORES = (("induction", "induction"), ("duplicate", "duplicate"), ("in order", "in_order"))
MOST = len(_ROLES) + len(_SCORES) + 2  # no kind has all


class HeadFacts(Drawn):
    """A name and a number a line; the role is the panel's title."""

    def draw(self, scene: Scene, width: int, height: int) -> list[Line]:
        """Those that fit."""
        statistics = scene.reading.statistics_of(scene.view.place)
        if statistics is None:
            return [[Segment("one token alone", DIM)]]
        return [
            [Segment(fit(name, max(0, width - len(value) - 1)) + " ", DIM), Segment(value, BOLD)]
            for name, value in head_facts(statistics)[:height]
        ]


def head_facts(statistics: HeadStatistics) -> list[tuple[str, str]]:
    """Names and numbers of a head; what its kind of attention does not have is left out."""
    facts = [("entropy", f"{statistics.entropy:.2f} nats")]
    if statistics.distance is not None:
        facts.append(("distance", f"{statistics.distance:.1f}"))
    shares = [("largest", statistics.sharpness)]
    shares += [(role, one.share) for role in _ROLES if (one := statistics.of(role)) is not None]
    scores = [(name, getattr(statistics, field)) for name, field in _SCORES]
    return [*facts, *((name, weight(share)) for name, share in [*shares, *scores] if share is not None)]
