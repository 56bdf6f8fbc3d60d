"""The language modelling head: from a token's last vector to one logit for every token of the vocabulary; weight tying
with the embeddings. The classification head: to one logit for every label."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfcli.errors import UsageError
from tfcli.layers import kernels, layer, norms
from tfcli.recipe.model import ModelSection


def without_head(model: ModelSection) -> UsageError:
    """The error for asking a base model for predictions."""
    kind = "transform" if model.architecture == "encoder" else "linear"
    return UsageError(
        "A model without a head (model.head = 'none') predicts no tokens",
        "look inside it with `tfcli inspect attention`, or train a head: "
        f"tfcli train --init RUN --set model.head={kind} --data SOURCE",
    )


def require_head(model: ModelSection) -> None:
    """Refuse, before any work, to predict tokens without a head for them."""
    if model.labels:
        problem = "A model with a task head (train.task) tells labels, and predicts no tokens"
        inside = "look inside with `tfcli inspect attention`, heads, tokens or model"
        raise UsageError(problem, f"use `tfcli generate` and `tfcli evaluate`, or {inside}")
    if model.head == "none":
        raise without_head(model)


class Head(nn.Module):
    """h Wᵀ + b; W is the embedding matrix with `tie_embeddings` (Press and Wolf 2017), or has a row a label."""

    def __init__(self, model: ModelSection, embedding: nn.Parameter) -> None:
        super().__init__()
        rows, size = len(model.labels or embedding), model.d_model
        self.scale = size**-0.5 if model.scale_logits else 1.0
        self.weight = embedding if model.tie_embeddings else nn.Parameter(torch.empty(rows, size))
        self.bias = nn.Parameter(torch.empty(rows)) if model.head_bias else None
        self.product: nn.Module | None = None

    def lay_out(self, how: Callable[[Tensor, Tensor | None], nn.Module], *, keeps_weight: bool) -> None:
        """Let another layer multiply with W and add b, for prediction alone; W is kept where the embedding needs it."""
        self.product = how(self.weight, self.bias)
        if not keeps_weight:
            del self.weight

    def prepared(self, h: Tensor) -> Tensor:
        """What is multiplied with W, (…, D) as h is."""
        return h * self.scale if self.scale != 1.0 else h

    def forward(self, h: Tensor) -> Tensor:
        """The logits of a token; h: (…, D) → (…, Vocab)."""
        prepared = self.prepared(h)
        return F.linear(prepared, self.weight, self.bias) if self.product is None else self.product(prepared)


class TransformHead(Head):
    """norm(f(h W + b)) before the logits, as BERT predicts masked tokens (Devlin et al. 2019, and their code)."""

    def __init__(self, model: ModelSection, embedding: nn.Parameter) -> None:
        super().__init__(model, embedding)
        self.transform = kernels.Linear(model.d_model, model.d_model)
        self.activation, self.norm = layer.ACTIVATIONS[model.activation], norms.build_norm(model)

    def prepared(self, h: Tensor) -> Tensor:
        """norm(f(h W + b)), multiplied with W next."""
        return super().prepared(self.norm(self.activation(self.transform(h))))


class NoHead(nn.Module):
    """Stands in for a head that a checkpoint did not bring."""

    def __init__(self, model: ModelSection) -> None:
        super().__init__()
        self.section = model

    def forward(self, h: Tensor) -> Tensor:
        """Raise a UsageError: there are no logits."""
        raise without_head(self.section)


def build_head(model: ModelSection, embedding: nn.Parameter) -> nn.Module:
    """The head that the recipe names, beside the embedding matrix it may share."""
    if model.head == "none":
        return NoHead(model)
    return TransformHead(model, embedding) if model.head == "transform" else Head(model, embedding)
