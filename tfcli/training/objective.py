"""What training minimises, as one module: whatever wraps modules (DDP, FSDP, torch.compile) then holds all of it."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfcli.data.batch import Batch
from tfcli.evaluation.objective import target_of
from tfcli.models.transformer import Transformer
from tfcli.recipe.train import TrainSection


class TrainingLoss(nn.Module):
    """The cross-entropy of a batch, summed over its target tokens; the model runs in the precision of the recipe."""

    def __init__(self, model: Transformer, train: TrainSection) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = train.label_smoothing or 0.0
        self.autocasts = train.precision == "bfloat16"

    def forward(self, batch: Batch) -> Tensor:
        """Nats, summed.

        Shape:
            returns: (), float32
        """
        device = self.model.device
        with torch.autocast(device.type, torch.bfloat16, enabled=self.autocasts):
            target = target_of(self.model, batch, device)
        return smoothed_cross_entropy(target.logits.float(), target.labels, self.label_smoothing)


def smoothed_cross_entropy(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """−Σ q log p with q = (1 − ε) one-hot + ε / Vocab (Szegedy et al. 2016, section 7), summed over tokens.

    Shape:
        logits: (N, Vocab); labels: (N,)
        returns: ()
    """
    return F.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
