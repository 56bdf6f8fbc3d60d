"""Training metrics: what is summed up between two reports, throughput, and how far updates move the weights.

‖Δw‖ / ‖w‖ near 1e-3 is a rule of thumb (Karpathy, "A Recipe for Training Neural Networks", 2019, and the lectures of
"Zero to Hero"): far below, the weights hardly learn; far above, they are thrown about."""

import math
import time
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from tfcli.data.batch import Batch
from tfcli.layers.lora import trained
from tfcli.models.transformer import Transformer, part_of_parameter
from tfcli.runs.checkpoint import Progress
from tfcli.runs.weights import full_tensor


class Meter:
    """Throughput, and sums over the steps since the last report. Losses and norms stay on the device until they are
    asked for. `steps` and `steps_tokens` are those of this process alone, for they go with its time."""

    def __init__(self, progress: Progress, device: torch.device) -> None:
        """Begin with what the checkpoint had not reported yet."""
        self._device, self._began = device, time.perf_counter() - progress.seconds
        self.evaluation = 0.0  # seconds that the last one took
        self.reset()
        plain, minimised = progress.pending_loss, progress.pending_objective
        self.loss_sums += torch.tensor([plain, plain if minimised is None else minimised], device=device)
        self.targets = progress.pending_targets
        self.tokens, self.places = progress.pending_tokens, progress.pending_places

    def reset(self) -> None:
        """Begin the sums again, behind a report."""
        self.loss_sums, self.norm = torch.zeros(2, device=self._device), torch.zeros((), device=self._device)
        self.targets = self.tokens = self.places = self.steps = self.steps_tokens = 0
        self._steps_began = time.perf_counter()
        self._unread: list[tuple[int, Tensor, Tensor]] = []

    def run_seconds(self) -> float:
        """Of training and evaluation since the run began, across interruptions."""
        return time.perf_counter() - self._began

    def keep(self, progress: Progress) -> None:
        """Put into the counters the time, and what is not reported yet."""
        progress.seconds = self.run_seconds()
        progress.pending_loss, progress.pending_objective = self.loss_sums.tolist()
        progress.pending_targets, progress.pending_tokens = self.targets, self.tokens
        progress.pending_places = self.places

    def add(self, step: int, loss: Tensor, norm: Tensor, batches: Sequence[Batch]) -> None:
        """A step that was taken; loss: (2,), the means over its target tokens, plain and minimised; norm: ()."""
        targets = sum(batch.target_tokens for batch in batches)
        self.loss_sums += loss * targets
        self.targets += targets
        self._unread.append((step, loss, norm))
        self.leave_out(norm, batches)

    def leave_out(self, norm: Tensor, batches: Sequence[Batch]) -> None:
        """A step that changed nothing: it has read its tokens, and its loss counts nowhere."""
        tokens = sum(batch.tokens for batch in batches)
        self.norm, self.steps = norm, self.steps + 1
        self.tokens += tokens
        self.places += sum(batch.places for batch in batches)
        self.steps_tokens += tokens

    def pause(self, seconds: float) -> None:
        """Leave out time that was not spent on steps."""
        self._steps_began += seconds

    def seconds(self) -> float:
        """Spent on the steps so far; true once the device has caught up, as reading the loss makes it."""
        return time.perf_counter() - self._steps_began

    def losses(self) -> tuple[float, float]:
        """The means over the target tokens, plain and minimised; NaN where there was none."""
        plain, minimised = (total / self.targets if self.targets else math.nan for total in self.loss_sums.tolist())
        return plain, minimised

    def padding(self) -> float:
        """The share of places without a token among all places read, of both sides of pairs."""
        return 1 - self.tokens / self.places if self.places else 0.0

    def first_not_finite(self) -> tuple[int, str, float] | None:
        """The first unread step whose loss or gradient norm is not finite, which of the two, and its value. Waits."""
        unread, self._unread = self._unread, []
        values = torch.stack([torch.stack((loss.sum(), norm)) for _, loss, norm in unread]).tolist() if unread else []
        for (step, _, _), (loss, norm) in zip(unread, values, strict=True):
            for what, value in (("loss", loss), ("gradient norm", norm)):
                if not math.isfinite(value):
                    return step, what, value
        return None


def weight_groups(model: Transformer) -> dict[str, list[Tensor]]:
    """Trained parameters by part: embeddings (with a head that shares them), attention, feed_forward, norms, head."""
    groups: dict[str, list[Tensor]] = {}
    for name, parameter in trained(model).items():
        part = part_of_parameter(name)
        groups.setdefault("attention" if part == "cross_attention" else part, []).append(parameter)
    return groups


class UpdateSizes:
    """A block around an update of a model's weights, which measures it and holds a copy of them while it lasts; all
    workers enter it together. What it finds stays on the device until `norms` or `ratios` ask for it."""

    def __init__(self, model: Transformer) -> None:
        self._groups = weight_groups(model)
        self._before: dict[str, list[Tensor]] = {}
        self._sizes = torch.empty(0)

    def __enter__(self) -> "UpdateSizes":
        self._before = {name: [p.detach().clone() for p in group] for name, group in self._groups.items()}
        return self

    @torch.no_grad()
    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            return
        sizes = []
        for name, group in self._groups.items():
            moved = [before.sub_(p) for before, p in zip(self._before[name], group, strict=True)]
            sizes.append(torch.stack([full_tensor(get_total_norm(tensors)).float() for tensors in (group, moved)]))
        self._sizes = torch.stack(sizes)
        self._before = {}

    def norms(self) -> dict[str, float | None]:
        """‖w‖ behind the update, of every group and of all; None where it is not finite. Waits for the device."""
        return {name: finite(norm) for name, (norm, _) in self._measured().items()}

    def ratios(self) -> dict[str, float | None]:
        """‖Δw‖ / ‖w‖; None where it is not finite, and for weights that are all zero."""
        return {name: finite(moved / norm) if norm else None for name, (norm, moved) in self._measured().items()}

    def _measured(self) -> dict[str, tuple[float, float]]:
        rows: list[list[float]] = self._sizes.tolist()
        total = [math.hypot(*column) for column in zip(*rows, strict=True)]
        return {name: (norm, moved) for name, (norm, moved) in zip(["all", *self._groups], [total, *rows], strict=True)}


def finite(value: float) -> float | None:
    """The number; None where it is not finite."""
    return value if math.isfinite(value) else None
