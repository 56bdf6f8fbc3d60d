"""One optimizer update."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from tfcli.data.batch import Batch
from tfcli.evaluation.objective import target_of
from tfcli.models.transformer import Transformer


def optimizer_step(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    batches: Sequence[Batch],
    *,
    learning_rate: float,
    label_smoothing: float,
    clip_norm: float,
    bfloat16: bool,
    device: torch.device,
) -> tuple[Tensor, Tensor]:
    """Accumulate the micro-batches' gradients and update the weights once.

    The loss is the mean over the target tokens of all micro-batches together, so that accumulation changes nothing
    but memory.

    Shape:
        returns: the loss in nats a token and the gradient norm before clipping, both () and left on the device
    """
    tokens = max(sum(batch.target_tokens for batch in batches), 1)  # windows of special tokens have no target
    total = torch.zeros((), device=device)
    for batch in batches:
        with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
            target = target_of(model, batch, device)
        loss = smoothed_cross_entropy(target.logits.float(), target.labels, label_smoothing) / tokens
        loss.backward()
        total += loss.detach()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm or torch.inf)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return total, norm


def smoothed_cross_entropy(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """−Σ q log p with q = (1 − ε) one-hot + ε / Vocab (Szegedy et al. 2016, section 7), summed over tokens.

    Shape:
        logits: (N, Vocab); labels: (N,)
        returns: ()
    """
    return F.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
