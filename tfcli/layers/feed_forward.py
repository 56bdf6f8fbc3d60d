"""The position-wise feed-forward: each token's vector alone, D → F → D."""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from tfcli.recipe.model import ModelSection


class FeedForward(nn.Module):
    """f(x W₁) W₂ with f = relu or gelu (Vaswani et al. 2017, equation 2).

    Shape:
        x: (…, D) → (…, D)
    """

    def __init__(self, model: ModelSection) -> None:
        super().__init__()
        self.activation: Callable[[Tensor], Tensor] = F.relu if model.activation == "relu" else F.gelu
        self.up = nn.Linear(model.d_model, model.inner_size, bias=model.feed_forward_bias)
        self.output = nn.Linear(model.inner_size, model.d_model, bias=model.feed_forward_bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.activation(self.up(x)))


class GatedFeedForward(nn.Module):
    """SwiGLU: (silu(x W) ⊙ x V) W₂ (Shazeer 2020, equation 6).

    Shape:
        x: (…, D) → (…, D)
    """

    def __init__(self, model: ModelSection) -> None:
        super().__init__()
        self.gate = nn.Linear(model.d_model, model.inner_size, bias=model.feed_forward_bias)
        self.up = nn.Linear(model.d_model, model.inner_size, bias=model.feed_forward_bias)
        self.output = nn.Linear(model.inner_size, model.d_model, bias=model.feed_forward_bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(F.silu(self.gate(x)) * self.up(x))


def build_feed_forward(model: ModelSection) -> nn.Module:
    """The feed-forward that the recipe names."""
    return GatedFeedForward(model) if model.activation == "swiglu" else FeedForward(model)
