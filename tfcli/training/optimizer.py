"""The optimizers (AdamW, Muon) with weight decay, and one optimizer step: gradient accumulation, gradient clipping."""

from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from tfcli.data.batch import Batch
from tfcli.layers.lora import trained
from tfcli.models.head import Head
from tfcli.models.transformer import Transformer
from tfcli.recipe.train import TrainSection
from tfcli.runs.weights import full_tensor
from tfcli.training import distributed, metrics, muon


def build_optimizers(model: Transformer, train: TrainSection) -> list[Optimizer]:
    """The optimizers that together update every parameter once; each group knows the "peak" of its learning rate. AdamW
    is that of Loshchilov and Hutter 2019, algorithm 2, fused: all tensors are updated in one pass."""
    by_muon = layer_matrices(model) if train.optimizer == "muon" else []
    taken = {id(p) for p in by_muon}
    rest = [p for p in trained(model).values() if id(p) not in taken]
    decayed = {id(p) for p in _decayed(model, train)}
    rate, betas = train.learning_rate, (train.beta1, train.beta2)
    groups = [
        {"params": parameters, "weight_decay": decay, "peak": rate}
        for shrinks, decay in ((True, train.weight_decay), (False, 0.0))
        if (parameters := [p for p in rest if (id(p) in decayed) is shrinks])
    ]
    optimizers: list[Optimizer] = [AdamW(groups, lr=rate, betas=betas, eps=train.adam_eps, fused=True)]
    if by_muon:
        group = {"params": by_muon, "peak": train.muon_learning_rate}
        optimizers.append(muon.Muon([group], train.muon_learning_rate, train.muon_momentum, train.weight_decay))
    return optimizers


def layer_matrices(model: Transformer) -> list[Tensor]:
    """What a layer multiplies with: neither embeddings, whose rows are met one at a time, nor the head."""
    return [m.weight for name, m in model.named_modules() if isinstance(m, nn.Linear) and not name.startswith("head")]


def _decayed(model: Transformer, train: TrainSection) -> list[Tensor]:
    """Shrinking gains and biases only distorts; that of embeddings is a choice."""
    if train.decayed == "linear" and not train.adapter:  # an adapter has nothing else
        return [m.weight for m in model.modules() if isinstance(m, nn.Linear | Head)]
    return [p for p in model.parameters() if train.decayed == "all" or p.ndim >= 2]


def optimizer_step(
    objective: nn.Module,  # gives the summed losses of a batch, plain and to be minimised, as `TrainingLoss` does
    optimizers: Sequence[Optimizer],
    batches: Sequence[Batch],
    *,
    learning_rate_factor: float,  # the learning rate, as a share of each parameter group's "peak"
    clip_norm: float,
    only_finite: bool = False,  # change nothing where loss or norm is not finite; to know it waits for the device
    workers: distributed.Workers = distributed.SINGLE_PROCESS,  # each takes its share of every micro-batch
    measured: metrics.UpdateSizes | None = None,  # finds how far the update moves the weights
) -> tuple[Tensor, Tensor]:
    """Accumulate the micro-batches' gradients and update the weights once, by the mean loss over all target tokens.
    Returns both losses in nats a token, (2,), and the gradient norm before clipping, (), of all workers' shares
    together; left on the device."""
    tokens = max(sum(batch.target_tokens for batch in batches), 1)  # windows of special tokens have no target
    losses = []
    for index, batch in enumerate(batches, start=1):
        with distributed.gradients_exchanged(objective, now=index == len(batches)):
            loss = objective(workers.share(batch)) / tokens
            (workers.size * loss[1]).backward()  # their gradients are averaged, and shall be summed
        losses.append(loss.detach())
    loss = workers.sum(torch.stack(losses).sum(0))
    norm = full_tensor(torch.nn.utils.clip_grad_norm_(objective.parameters(), clip_norm or torch.inf))
    taken = not only_finite or bool(torch.isfinite(loss).all() & torch.isfinite(norm))
    with measured or nullcontext():
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate_factor * group["peak"]
            if taken:
                optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    return loss, norm
