"""PyTorch's private kernels, each with its public fallback: a new PyTorch costs speed, never a number.

Fused linear layers and packed weights on oneDNN, int8 weights, the gradient of the softmax, the limit of torch.compile
and fake tensors. No other module asks for torch's underscored functions, `torch.ops` or `torch._dynamo`. Each is looked
for when this module is imported; one that is gone, or takes other arguments by now, gives way to what stands behind it.
"""

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tfcli.machine import cpu_flags

_CHANGED = (AttributeError, NotImplementedError, RuntimeError, TypeError)
"""How a private function says that it takes other arguments than it did."""

_BFLOAT16_FLAGS = {"avx512bw", "avx512dq", "avx512vl"}
"""What oneDNN needs of an x86 processor for products in bfloat16."""

_TYPICAL_ROWS = 32
"""Rows of x that a packed weight is laid out for; a layout for few rows is slower with many, and this one as fast with
one."""


def find(name: str) -> Any:
    """What stands at `torch.name`; None where there is nothing of that name."""
    found: Any = torch
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except (AttributeError, ImportError, RuntimeError):
            return None
    return found


def _first(kernel: Any, *arguments: Any) -> Any:
    """What a private function gives; None where there is none, or it takes other arguments by now."""
    try:
        return None if kernel is None else kernel(*arguments)
    except _CHANGED:
        return None


linear_pointwise = find("ops.mkldnn._linear_pointwise.default")
reorder_linear_weight = find("ops.mkldnn._reorder_linear_weight")
is_bfloat16_supported = find("ops.mkldnn._is_mkldnn_bf16_supported")
int8_matmul = find("ops.aten._weight_int8pack_mm.default")
softmax_backward_data = find("_softmax_backward_data")
native_dropout = find("native_dropout")
foreach_lerp = find("_foreach_lerp_")


@functools.cache
def has_bfloat16_products() -> bool:
    """Whether oneDNN is there and multiplies in bfloat16 on this processor."""
    if not torch.backends.mkldnn.is_available():
        return False
    return bool(is_bfloat16_supported()) if is_bfloat16_supported else cpu_flags() >= _BFLOAT16_FLAGS


def biased_product(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """X Wᵀ + b, with the bias added by oneDNN's matrix product itself; without it, as PyTorch has it.

    Shape:
        rows: (…, in); weight: (out, in), or as `packed` gives it; bias: (out,)
        returns: (…, out)
    """
    product = _first(linear_pointwise, rows, weight, bias, "none", [], "")
    return F.linear(rows, weight, bias) if product is None else product


def packed(weight: Tensor) -> Tensor:
    """A weight in oneDNN's own blocks, which `biased_product` reads; the weight itself where there are none.

    Shape:
        weight: (out, in), float32 or bfloat16, on the CPU
    """
    weight = weight.detach().contiguous()
    try:
        blocks: Tensor = reorder_linear_weight(weight, _TYPICAL_ROWS)
        biased_product(weight.new_zeros(1, weight.shape[1]), blocks, None)
    except _CHANGED:
        return weight
    return blocks


def int8_product(rows: Tensor, quantized: Tensor, scale: Tensor) -> Tensor:
    """X (s ⊙ q)ᵀ for a weight in eight bits with a scale a row.

    Shape:
        rows: (N, in), bfloat16; quantized: (out, in), int8; scale: (out,), bfloat16
        returns: (N, out), bfloat16
    """
    product = _first(int8_matmul, rows, quantized, scale)
    return rows @ quantized.to(rows.dtype).T * scale if product is None else product


def softmax_gradient(gradient: Tensor, weights: Tensor) -> Tensor:
    """P ⊙ (G − rowsum(P ⊙ G)): the gradient of a softmax P by what it was taken of, from that by P.

    Shape:
        gradient, weights: (…, S), and the same is returned
    """
    found = _first(softmax_backward_data, gradient, weights, -1, weights.dtype)
    if found is not None:
        return found
    precise = torch.promote_types(weights.dtype, torch.float32)
    g, p = gradient.to(precise), weights.to(precise)
    return (p * (g - (p * g).sum(-1, keepdim=True))).to(weights.dtype)


def dropped_out(x: Tensor, rate: float) -> tuple[Tensor, Tensor]:
    """Dropout that tells what it has kept.

    Shape:
        x: any; returns: x / (1 − rate) where it survives and 0 elsewhere, and a mask, both of x's shape
    """
    found = _first(native_dropout, x, rate, True)
    if found is not None:
        return found
    survivors = torch.rand_like(x, dtype=torch.float32) >= rate
    return x * survivors / (1 - rate), survivors


def lerp_all(tensors: Sequence[Tensor], ends: Sequence[Tensor], weight: float) -> None:
    """X ← x + weight · (end − x) for every tensor, in place and in one pass."""
    try:
        foreach_lerp(tensors, ends, weight)
    except _CHANGED:
        for tensor, end in zip(tensors, ends, strict=True):
            tensor.lerp_(end, weight)


def allow_recompiles(most: int) -> None:
    """Let torch.compile translate a function for so many forms of its input, and leave further ones as they are."""
    try:
        limits = importlib.import_module("torch._dynamo.config")  # takes a second to import
        limits.recompile_limit = max(most, limits.recompile_limit)  # type: ignore[attr-defined]
    except (ImportError, *_CHANGED):
        pass


Operation = tuple[str, tuple[Any, ...]]
"""The name of an operation, as "aten::index", and its arguments."""


@contextmanager
def fake_tensors(
    made: Callable[[Tensor, Operation], None], instead: Callable[[Operation], Tensor | None]
) -> Iterator[None]:
    """Tensors have shapes and no numbers inside the block, so that a step takes neither memory nor time.

    Args:
        made: hears of every tensor that an operation returns.
        instead: an operation's result, where that depends on numbers; None: it does not.

    Raises:
        NotImplementedError: this PyTorch has no fake tensors, or has them elsewhere.
    """
    try:
        fakes = importlib.import_module("torch._subclasses.fake_tensor").FakeTensorMode()
        modes: Any = importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode
    except (ImportError, *_CHANGED) as error:
        raise NotImplementedError("this PyTorch has no fake tensors") from error

    class Watch(modes):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
        ) -> Any:
            operation = func.name().partition(".")[0], args
            result = instead(operation)
            if result is None:
                result = func(*args, **(kwargs or {}))
            for tensor in result if isinstance(result, tuple | list) else (result,):
                if isinstance(tensor, Tensor):
                    made(tensor, operation)
            return result

    with fakes, Watch():
        yield
