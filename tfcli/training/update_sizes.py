"""Update-to-weight ratios: how far an update moves the weights, beside how long they are. The first thing
to look at when a training goes wrong.

‖Δw‖ / ‖w‖ near 1e-3 is a rule of thumb (Karpathy, "A Recipe for Training Neural Networks", 2019, and the lectures of
"Zero to Hero"): far below, the weights hardly learn; far above, they are thrown about.
"""

import math
from types import TracebackType

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from tfcli.models.parameter_parts import part_of
from tfcli.models.transformer import Transformer
from tfcli.runs.parts import whole

WHOLE = "all"
"""What the group of all parameters is called."""


def weight_groups(model: Transformer) -> dict[str, list[Tensor]]:
    """The parameters by what they are part of, each once: embeddings, attention, feed_forward, norms, head; of those
    there are. A matrix that embedding and head share belongs to the embeddings."""
    groups: dict[str, list[Tensor]] = {}
    for name, parameter in model.named_parameters():
        part = part_of(name)
        groups.setdefault("attention" if part == "cross_attention" else part, []).append(parameter)
    return groups


class UpdateSizes:
    """A block around an update of a model's weights, which measures it. Of parameters that several processes share out,
    all of them enter it together.

    It holds a copy of the weights while it lasts, when the step's activations are gone. What it finds stays on the
    device until `norms` or `ratios` ask for it.
    """

    def __init__(self, model: Transformer) -> None:
        self._model = model
        self._groups: dict[str, list[Tensor]] = {}
        self._before: dict[str, list[Tensor]] = {}
        self._sizes = torch.empty(0)

    def __enter__(self) -> "UpdateSizes":
        self._groups = weight_groups(self._model)
        self._before = {name: [p.detach().clone() for p in group] for name, group in self._groups.items()}
        return self

    @torch.no_grad()
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return
        sizes = []
        for name, group in self._groups.items():
            moved = [before.sub_(p) for before, p in zip(self._before[name], group, strict=True)]
            sizes.append(torch.stack([whole(get_total_norm(tensors)).float() for tensors in (group, moved)]))
        self._sizes = torch.stack(sizes)
        self._before = {}

    def norms(self) -> dict[str, float | None]:
        """‖w‖ behind the update, of every group and of all; None where it is not finite. Waits for the device."""
        return {name: _finite(norm) for name, (norm, _) in self._measured().items()}

    def ratios(self) -> dict[str, float | None]:
        """‖Δw‖ / ‖w‖; None where it is not finite, and for weights that are all zero."""
        found = self._measured().items()
        return {name: _finite(moved / norm) if norm else None for name, (norm, moved) in found}

    def _measured(self) -> dict[str, tuple[float, float]]:
        rows: list[list[float]] = self._sizes.tolist()
        total = [math.hypot(*column) for column in zip(*rows, strict=True)]
        return {name: (norm, moved) for name, (norm, moved) in zip([WHOLE, *self._groups], [total, *rows], strict=True)}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
