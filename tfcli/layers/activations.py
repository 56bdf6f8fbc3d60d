"""Activation functions by their recipe names: ReLU, GELU, SiLU, and those of the gates of SwiGLU and GEGLU."""

from collections.abc import Callable, Mapping

from torch import Tensor
from torch.nn import functional as F

from tfcli.recipe.model import Activation


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
