"""What checkpoints call the activations of an ungated feed-forward."""

from tfcli.recipe.model import Activation

ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "relu2": "relu2",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
"""Their names and ours; several of theirs are one function, computed in other steps."""

WRITTEN: dict[Activation, str] = {
    "relu": "relu",
    "relu2": "relu2",
    "gelu": "gelu",
    "gelu_tanh": "gelu_new",
    "silu": "silu",
}
"""The name that an exported checkpoint gives each."""
