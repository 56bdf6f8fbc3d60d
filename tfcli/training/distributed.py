"""Distributed data parallel (DDP) and fully sharded (FSDP) training: every process holds all weights, or a shard.

As many processes as the world size, each with its rank: those that `--nproc` or torchrun start. What FSDP needs is
imported where it is called, since most trainings have one process."""

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tfcli.data.batch import IGNORED, Batch
from tfcli.errors import TfcliError, UsageError, first_lines
from tfcli.machine import LAUNCH
from tfcli.recipe.train import TrainSection
from tfcli.training.objective import TrainingLoss

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule

T = TypeVar("T")
_PATIENCE = timedelta(days=1)  # how long others wait while the first one makes a tokenizer, dataset or checkpoint
OWN_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
"""The environment variable that makes torchrun open a new store, without the addresses of the dead, at a restart."""

_PLACE = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


class WorkerLostError(TfcliError):
    """Another worker has ended, so that this one cannot go on. Whoever started them starts all of them again."""


class WorkerFailedError(TfcliError):
    """One worker has failed, and all the others end with it: it says why, for no other one can."""


@dataclass(frozen=True)
class Workers:
    """One of `size` processes that share every micro-batch; the first writes and reports. `local_`: on this machine."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    _patient: Any = field(default=None, repr=False)

    @property
    def is_first(self) -> bool:
        """Whether this is the one that writes."""
        return self.rank == 0

    def any(self, flag: bool, group: Any = None) -> bool:
        """Whether one of them says yes: all get the same answer."""
        if self.size == 1:
            return flag
        flags = torch.tensor(int(flag))
        dist.all_reduce(flags, dist.ReduceOp.MAX, group=group)
        return bool(flags)

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum of the tensors of all of them, which have one shape."""
        if self.size == 1:
            return tensor
        total = tensor.clone()
        dist.all_reduce(total)
        return total

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all of them, in the order of their ranks; of one shape, on the CPU."""
        if self.size == 1:
            return [tensor]
        everyone = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(everyone, tensor)
        return everyone

    def share(self, batch: Batch) -> Batch:
        """Every `size`-th row of a micro-batch from row `rank` on; the first, unscored, where there is none."""
        if self.size == 1:
            return batch
        if self.rank < len(batch.labels):
            return batch.rows(slice(self.rank, None, self.size))
        return unscored(batch.rows(slice(0, 1)))

    def shares(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Every `size`-th of the batches from number `rank` on, unscored ones added so that all have as many."""
        while round_ := [*itertools.islice(batches, self.size)]:
            yield round_[self.rank] if self.rank < len(round_) else unscored(round_[0].rows(slice(0, 1)))

    @contextmanager
    def together(self) -> Iterator[None]:
        """What fails in one of them inside the block fails in all, with a TfcliError; all wait for all at its end."""
        failure: TfcliError | OSError | None = None
        try:
            yield
        except (TfcliError, OSError) as error:
            failure = error
        if self.any(failure is not None, self._patient):
            if failure is not None and not self.is_first and not isinstance(failure, WorkerFailedError):
                said = failure.problem if isinstance(failure, TfcliError) else str(failure)
                raise WorkerFailedError(f"Worker {self.rank}: {said}", "all workers have ended with it") from failure
            raise failure or TfcliError("Another worker has failed", "its own message says why")

    def first_does(self, action: Callable[[], object]) -> None:
        """The first one does it, and the others wait for it."""
        with self.together():
            if self.is_first:
                action()

    def first_then_all(self, action: Callable[[], T]) -> T:
        """The first one does it, and then the others, who find it done."""
        results = []
        for turn in (True, False):
            with self.together():
                if self.is_first is turn:
                    results.append(action())
        return results[0]

    def require_device(self, device: torch.device) -> None:
        """Refuse, before any work, a device that this one cannot have for itself."""
        if self.size > 1 and device.type == "mps":
            raise UsageError("Several processes cannot train on Apple's MPS together", "use one, or --device cpu")
        if device.type == "cuda" and self.local_size > (gpus := torch.cuda.device_count()):
            raise UsageError(f"There are fewer GPUs ({gpus}) than processes ({self.local_size})", f"use --nproc {gpus}")

    def threads(self, wanted: int) -> int:
        """CPU threads of this one: those of a machine are divided among its workers."""
        return max(1, wanted // self.local_size)

    def seed(self, seed: int, step: int = 0) -> int:
        """Where this one's dropout begins at a step: elsewhere than that of all others. Alone: at `seed`."""
        if self.size == 1 and step == 0:
            return seed
        return int(np.random.SeedSequence((seed, step, self.rank, self.size)).generate_state(1, np.uint64)[0] >> 1)


SINGLE_PROCESS = Workers()  # one process that trains by itself


def unscored(batch: Batch) -> Batch:
    """The same inputs with nothing to predict."""
    return replace(batch, labels=np.full_like(batch.labels, IGNORED))


def require_work_for_all(train: TrainSection, size: int) -> None:
    """Refuse more workers than a micro-batch has rows; batches of a number of tokens have rows as they come."""
    if train.batch_tokens is None and train.rows < size:
        problem = f"{size} processes cannot share train.batch_size = {train.rows}"
        raise UsageError(problem, f"use {train.rows} processes or fewer, or raise train.batch_size")


def one_of_several() -> bool:
    """Whether `--nproc` or torchrun has started this process beside others."""
    is_placed = os.environ.keys() >= {*_PLACE} and (LAUNCH in os.environ or "MASTER_ADDR" in os.environ)
    return is_placed and int(os.environ["WORLD_SIZE"]) > 1


@contextmanager
def process_group() -> Iterator[Workers]:
    """Join the other processes, if any, for the block: by a file in the launcher's folder, or torchrun's store."""
    if not one_of_several():
        yield SINGLE_PROCESS
        return
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and os.environ["TORCHELASTIC_MAX_RESTARTS"] != "0":
        problem = "After a restart by torchrun, workers would look for those that have died"
        raise UsageError(problem, f"set {OWN_STORE}=1 before torchrun")
    rank, size, local_rank, local_size = (int(os.environ[name]) for name in _PLACE)
    cuda = torch.cuda.is_available()
    if cuda and local_rank < torch.cuda.device_count():
        torch.cuda.set_device(local_rank)
    try:
        backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
        if LAUNCH in os.environ:
            store = dist.FileStore(f"{os.environ[LAUNCH]}/store", size)
            dist.init_process_group(backend, store=store, rank=rank, world_size=size)
        else:
            dist.init_process_group(backend)
        yield Workers(rank, size, local_rank, local_size, dist.new_group(backend="gloo", timeout=_PATIENCE))
        dist.destroy_process_group()
    except RuntimeError as error:  # how all of torch.distributed fails
        signs = ("gloo", "nccl", "connection", "process group")
        if not isinstance(error, dist.DistError) and not any(sign in str(error).lower() for sign in signs):
            raise
        raise WorkerLostError(f"Another worker has ended ({first_lines(error)})", "all begin again") from error


def parallelized(objective: TrainingLoss, train: TrainSection, workers: Workers, device: torch.device) -> nn.Module:
    """Put the loss on its device, and wrap it so that its gradients are the mean over all workers, each with its share
    of the batch. ddp is `DistributedDataParallel` (Li et al. 2020). fsdp is `fully_shard` (Zhao et al. 2023): weights
    of a layer, or of all outside, are gathered at their turn; parameters become parts, before optimizers are built."""
    if workers.size == 1:
        return objective.to(device)
    if train.parallel == "ddp":
        return DistributedDataParallel(objective.to(device), gradient_as_bucket_view=True)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (workers.size,))
    for layer in objective.model.transformer_layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(objective, mesh=mesh)
    return objective


def gradients_exchanged(objective: nn.Module, now: bool) -> AbstractContextManager[None]:
    """Whether backward inside the block ends with all workers' gradients: only a step's last micro-batch has to."""
    if _is_fsdp(objective):
        objective.set_requires_gradient_sync(now)
    return objective.no_sync() if isinstance(objective, DistributedDataParallel) and not now else nullcontext()


@contextmanager
def gathered(objective: nn.Module) -> Iterator[None]:
    """The model can be called by itself: of what FSDP has divided, all that lies outside the layers is whole."""
    with ExitStack() as stack:
        if _is_fsdp(objective):
            objective.unshard()
            stack.callback(objective.reshard)
        yield


def _is_fsdp(objective: nn.Module) -> "TypeGuard[FSDPModule]":
    return hasattr(objective, "set_requires_gradient_sync")
