"""A pretended Apple GPU: tensors that say they are on "mps", live on the CPU and refuse what the real one refuses.

No float64; no operation that mixes them with the CPU's; no copy that is not waited for. Nothing runs backward.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

MPS = torch.device("mps")
_ASK_THE_DEVICE = {
    *("__getitem__", "__setitem__", "__invert__", "masked_fill", "copy_", "new_empty"),
    *("item", "tolist", "__int__", "__float__", "__bool__"),
}
"""In C++ these ask for a real device, before an operation is dispatched."""

_TAKES_BOTH = {"aten::copy_", "aten::index.Tensor"}


class OnMps(torch.Tensor):
    """A tensor on the pretended device."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> "OnMps":
        if held.dtype == torch.float64:
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64")
        made: OnMps = torch.Tensor._make_wrapper_subclass(
            cls, held.shape, held.stride(), held.storage_offset(), dtype=held.dtype, device=MPS
        )
        made.held = held
        return made

    def __repr__(self) -> str:
        return f"OnMps({self.held})"

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = dict(kwargs or {})
        goes = "device" in named and torch.device(named["device"]).type == "cpu"
        if "device" in named:
            named["device"] = "cpu"
        for one in tree_leaves((args, named)):
            strange = isinstance(one, torch.Tensor) and not isinstance(one, OnMps) and one.ndim
            if strange and operation._schema.name not in _TAKES_BOTH and operation.name() not in _TAKES_BOTH:
                raise RuntimeError(f"{operation}: expected all tensors to be on the same device, but found mps and cpu")
        plain = [tree_map(_plain, each) for each in (args, named)]
        made = operation(*plain[0], **plain[1])
        if operation._schema.name.endswith("_") or "out" in named:
            return args[0]
        return made if goes else tree_map(_carried, made)


class PretendedMps(TorchFunctionMode):
    """While it holds, tensors are made on, and copied to, the pretended device."""

    def __torch_function__(self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = dict(kwargs or {})
        if (
            function is torch.Tensor.to
            and not isinstance(args[0], OnMps)
            and any(map(_is_mps, (*args, *named.values())))
        ):
            assert not named.pop("non_blocking", False), "copied from memory that is not pinned, and not waited for"
            rest = [one for one in args[1:] if not _is_mps(one)]
            named.pop("device", None)
            return OnMps(args[0].detach().to(*rest, **named).clone())
        if getattr(function, "__name__", "") in _ASK_THE_DEVICE and isinstance(args[0], OnMps):
            return _carried(function(*tree_map(_plain, args), **tree_map(_plain, named)))
        if _is_mps(named.get("device")):
            return OnMps(function(*args, **{**named, "device": "cpu"}))
        return function(*args, **named)


def moved(model: nn.Module) -> nn.Module:
    """A model whose parameters and buffers are on the pretended device, to predict with."""
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[name] = nn.Parameter(OnMps(parameter.detach()), requires_grad=False)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = OnMps(buffer)
    return model


def _plain(value: Any) -> Any:
    return value.held if isinstance(value, OnMps) else value


def _carried(made: Any) -> Any:
    return OnMps(made) if isinstance(made, torch.Tensor) and not isinstance(made, OnMps) else made


def _is_mps(value: Any) -> bool:
    return isinstance(value, str | torch.device) and str(value).startswith("mps")
