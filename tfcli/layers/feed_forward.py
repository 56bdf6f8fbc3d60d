"""The position-wise feed-forward network, each token's vector alone, D → F → D; gated, as in SwiGLU."""

from collections.abc import Callable, Mapping

from torch import Tensor, nn
from torch.nn import functional as F

from tfcli.layers.linear import Linear
from tfcli.recipe.model import Activation, ModelSection


def relu2(x: Tensor) -> Tensor:
    """max(x, 0)² (So et al. 2021, section 4)."""
    return F.relu(x).square()


def gelu_tanh(x: Tensor) -> Tensor:
    """½ x (1 + tanh(√(2/π) (x + 0.044715 x³))), which is nearly x Φ(x) (Hendrycks and Gimpel 2016, section 2)."""
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: Mapping[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "relu2": relu2,
    "gelu": F.gelu,
    "gelu_tanh": gelu_tanh,
    "silu": F.silu,
    "swiglu": F.silu,
    "geglu": F.gelu,
    "geglu_tanh": gelu_tanh,
}


class FeedForward(nn.Module):
    """f(x W₁) W₂ with f an activation (Vaswani et al. 2017, equation 2); gated, (f(x W) ⊙ x V) W₂ (Shazeer 2020,
    equation 6)."""

    def __init__(self, model: ModelSection) -> None:
        super().__init__()
        self.activation, self.dropout = ACTIVATIONS[model.activation], model.activation_dropout
        sizes, bias = (model.d_model, model.inner_size), model.feed_forward_bias
        self.gate = Linear(*sizes, bias=bias) if model.is_gated else None
        self.up = Linear(*sizes, bias=bias)
        self.output = Linear(model.inner_size, model.d_model, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Each vector on its own.

        Shape:
            x: (…, D) → (…, D)
        """
        inner = self.activation(self.up(x)) if self.gate is None else self.activation(self.gate(x)) * self.up(x)
        return self.output(F.dropout(inner, self.dropout) if self.training else inner)
