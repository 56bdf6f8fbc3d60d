"""A linear probe: what one linear map reads out of the embedding and out of every layer."""

from dataclasses import dataclass
from typing import Literal

Task = Literal["position", "word-class", "sense"]


@dataclass(frozen=True)
class ProbedLayer:
    """Accuracies on held-out texts behind the embedding or a layer; of the `majority`, who always says the commonest
    label, of the `control`, and of the model `untrained`. Selectivity is the accuracy less the control's (Hewitt and
    Liang 2019, section 2); `above` is the distance to the best of the three; `low` and `high` end 95 % intervals over
    texts. `verdict` names those of the three that may be as good, if any."""

    name: str
    verdict: str
    accuracy: float
    low: float
    high: float
    majority: float
    control: float
    untrained: float
    selectivity: float
    above: float
    above_low: float
    above_high: float


@dataclass(frozen=True)
class Probe:
    """A probe at every depth; of the `texts`, `held_out` were not trained on, and have so many `places`."""

    run: str
    task: Task
    source: str
    control: str  # in words
    classes: tuple[str, ...]
    texts: int
    held_out: int
    places: int
    layers: tuple[ProbedLayer, ...]
