"""Optimizers and weight decay: AdamW for everything, or Muon for the matrices inside the layers and AdamW elsewhere."""

from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from tfcli.models.head import Head
from tfcli.models.transformer import Transformer
from tfcli.recipe.train import TrainSection
from tfcli.training.muon import Muon


def build_optimizers(model: Transformer, train: TrainSection) -> list[Optimizer]:
    """The optimizers that together update every parameter once. Each group knows the "peak" of its learning rate.

    AdamW is that of Loshchilov and Hutter 2019, algorithm 2; the fused kernel updates all tensors in one pass.
    """
    by_muon = layer_matrices(model) if train.optimizer == "muon" else []
    taken = {id(p) for p in by_muon}
    rest = [p for p in model.parameters() if id(p) not in taken]
    decayed = {id(p) for p in _decayed(model, train)}
    groups = [
        {"params": [p for p in rest if id(p) in decayed], "weight_decay": train.weight_decay},
        {"params": [p for p in rest if id(p) not in decayed], "weight_decay": 0.0},
    ]
    optimizers: list[Optimizer] = [
        AdamW(
            [{**group, "peak": train.learning_rate} for group in groups if group["params"]],
            lr=train.learning_rate,
            betas=(train.beta1, train.beta2),
            eps=train.adam_eps,
            fused=True,
        )
    ]
    if by_muon:
        optimizers.append(
            Muon(
                [{"params": by_muon, "peak": train.muon_learning_rate}],
                lr=train.muon_learning_rate,
                weight_decay=train.weight_decay,
                momentum=train.muon_momentum,
            )
        )
    return optimizers


def layer_matrices(model: Transformer) -> list[Tensor]:
    """What a layer multiplies with: neither embeddings, whose rows are met one at a time, nor the head."""
    return [
        module.weight
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and not name.startswith("head")
    ]


def _decayed(model: Transformer, train: TrainSection) -> list[Tensor]:
    """Shrinking gains and biases only distorts; that of embeddings is a choice."""
    if train.decayed == "linear":
        multiplying = [m for m in model.modules() if isinstance(m, nn.Linear | Head)]
        return [module.weight for module in multiplying]
    return [p for p in model.parameters() if train.decayed == "all" or p.ndim >= 2]
