"""How a training went: its losses, the sizes of its gradients and weights, and how far its updates moved them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class TrainingCurves:
    """A run's reports, oldest first. NaN: not recorded, or not finite. Losses are in nats a token.

    `groups` are "all" parameters, then what they are part of; () where the run was trained before these figures were
    recorded. `typical_ratios` are the medians of `update_ratios` over the reports at which anything moved.

    Shape:
        steps, losses, objectives, learning_rates, grad_norms: (N,); objectives where labels are smoothed
        weight_norms, update_ratios: (G, N), ‖w‖ and ‖Δw‖ / ‖w‖ of the last step before each report
        typical_ratios: (G,)
        evaluated_steps, evaluated_losses: (E,)
    """

    run: str
    groups: tuple[str, ...]
    steps: NDArray[np.int64]
    losses: NDArray[np.float64]
    objectives: NDArray[np.float64]
    learning_rates: NDArray[np.float64]
    grad_norms: NDArray[np.float64]
    weight_norms: NDArray[np.float64]
    update_ratios: NDArray[np.float64]
    typical_ratios: NDArray[np.float64]
    evaluated_steps: NDArray[np.int64]
    evaluated_losses: NDArray[np.float64]
