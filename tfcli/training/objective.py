"""The training objective as one module, so that whatever wraps modules (DDP, FSDP, torch.compile) holds all of it."""

import torch
from torch import Tensor, nn

from tfcli.data.batch import Batch
from tfcli.evaluation.objective import labelled_hidden
from tfcli.layers.autocast import for_products
from tfcli.models.head import Head
from tfcli.models.transformer import Transformer
from tfcli.recipe.train import TrainSection
from tfcli.training.cross_entropy import linear_cross_entropy


class TrainingLoss(nn.Module):
    """The cross-entropy of a batch, summed over its target tokens, and the same with label smoothing, which is what is
    minimised; the model runs in the precision of the recipe."""

    def __init__(self, model: Transformer, train: TrainSection) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = train.label_smoothing or 0.0
        self.autocasts, self.translated = train.precision == "bfloat16", train.compile == "on"

    def forward(self, batch: Batch) -> Tensor:
        """Nats, summed: plain, through which no gradient comes, and to be minimised.

        Shape:
            returns: (2,), float32
        """
        device = self.model.device
        head = self.model.head
        assert isinstance(head, Head), "a model without a head is refused before training"
        with torch.autocast(device.type, torch.bfloat16, enabled=self.autocasts):
            hidden, labels = labelled_hidden(self.model, batch, device)
            vectors = for_products(head.prepared(hidden))
        minimised, plain = linear_cross_entropy(
            vectors, head.weight, head.bias, labels, self.label_smoothing, translated=self.translated
        )
        return torch.stack((plain, minimised))
