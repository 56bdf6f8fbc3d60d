"""Linear layers, packed and quantized (int8), and the kernels of torch that make them and attention fast. No other
module asks for torch's underscored functions, `torch.ops` or `torch._dynamo`. Each is looked for when this module is
imported; one that is gone, or takes other arguments by now, gives way to what stands behind it."""

import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from tfcli.machine import cpu_flags

_CHANGED = (AttributeError, NotImplementedError, RuntimeError, TypeError)
"""How a private function says that it takes other arguments than it did."""
_BFLOAT16_FLAGS = {"avx512bw", "avx512dq", "avx512vl"}  # what oneDNN needs of an x86 processor for products in bfloat16
_TYPICAL_ROWS = 32  # rows of x that a weight is packed for; for few it is slower with many, this one as fast with one


def find(name: str) -> Any:
    """What stands at `torch.name`; None where there is nothing of that name."""
    try:
        return attrgetter(name)(torch)
    except (AttributeError, ImportError, RuntimeError):
        return None


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
    """X Wᵀ + b, (…, in) → (…, out), with the bias added by oneDNN's matrix product itself; without it, as PyTorch has
    it. The weight is (out, in), or as `packed` gives it."""
    product = _first(linear_pointwise, rows, weight, bias, "none", [], "")
    return F.linear(rows, weight, bias) if product is None else product


def packed(weight: Tensor) -> Tensor:
    """A weight, (out, in), in oneDNN's own blocks, for `biased_product`; the weight itself where there are none."""
    weight = weight.detach().contiguous()
    try:
        blocks: Tensor = reorder_linear_weight(weight, _TYPICAL_ROWS)
        biased_product(weight.new_zeros(1, weight.shape[1]), blocks, None)
    except _CHANGED:
        return weight
    return blocks


def int8_product(rows: Tensor, quantized: Tensor, scale: Tensor) -> Tensor:
    """X (s ⊙ q)ᵀ, (N, in) → (N, out) in bfloat16, for a weight q in eight bits, (out, in), with a scale s a row."""
    product = _first(int8_matmul, rows, quantized, scale)
    return rows @ quantized.to(rows.dtype).T * scale if product is None else product


def softmax_gradient(gradient: Tensor, weights: Tensor) -> Tensor:
    """P ⊙ (G − rowsum(P ⊙ G)): the gradient of a softmax P by what it was taken of, from that by P; all (…, S)."""
    if (found := _first(softmax_backward_data, gradient, weights, -1, weights.dtype)) is not None:
        return found
    precise = torch.promote_types(weights.dtype, torch.float32)
    g, p = gradient.to(precise), weights.to(precise)
    return (p * (g - (p * g).sum(-1, keepdim=True))).to(weights.dtype)


def dropped_out(x: Tensor, rate: float) -> tuple[Tensor, Tensor]:
    """Dropout that tells what it has kept: x / (1 − rate) where it survives and 0 elsewhere, and a mask."""
    if (found := _first(native_dropout, x, rate, True)) is not None:
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


Operation = tuple[str, tuple[Any, ...]]  # the name of an operation, as "aten::index", and its arguments


@contextmanager
def fake_tensors(made: Callable[[Tensor, Operation], None], instead: Callable[[Operation], Any]) -> Iterator[None]:
    """Tensors have shapes and no numbers inside the block, so that a step takes neither memory nor time. `made` hears
    of every tensor that an operation returns; `instead` gives the result of one where that depends on numbers. Raises
    NotImplementedError where this PyTorch has no fake tensors, or has them elsewhere."""
    try:
        fakes = importlib.import_module("torch._subclasses.fake_tensor").FakeTensorMode()
        modes: Any = importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode
    except (ImportError, *_CHANGED) as error:
        raise NotImplementedError("this PyTorch has no fake tensors") from error

    class Watch(modes):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            operation = func.name().partition(".")[0], args
            if (result := instead(operation)) is None:
                result = func(*args, **(kwargs or {}))
            for tensor in result if isinstance(result, tuple | list) else (result,):
                if isinstance(tensor, Tensor):
                    made(tensor, operation)
            return result

    with fakes, Watch():
        yield


def for_products(x: Tensor) -> Tensor:
    """`x` as matrix products read it. Autocast would cast it again for each of them, there and back."""
    if x.is_meta:  # a tensor of a shape alone has no precision to save on, and PyTorch no answer for it
        return x
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x


_INT8_COLUMNS = 16  # the int8 kernel reads so many columns at a time, and past the end where they do not come out even


class Linear(nn.Linear):
    """PyTorch's own, with another way to the same numbers for training in bfloat16 on a CPU: the matrix product adds
    the bias itself, which PyTorch would first write into every row."""

    def forward(self, x: Tensor) -> Tensor:
        """X Wᵀ + b; x: (…, in) → (…, out)."""
        is_mixed = self.training and x.is_cpu and torch.is_autocast_enabled("cpu")
        if self.bias is None or not (is_mixed and has_bfloat16_products()):
            return F.linear(x, self.weight, self.bias)
        rows = for_products(x).flatten(0, -2)
        return _BiasedProduct.apply(rows, self.weight, self.bias).unflatten(0, x.shape[:-1])


class _BiasedProduct(torch.autograd.Function):
    """Y = X Wᵀ + b; with a gradient G of Y: dX = G W, dW = Gᵀ X, db = the sum of the rows of G."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        matrix = weight.to(rows.dtype)
        ctx.save_for_backward(rows, matrix)
        return biased_product(rows, matrix, bias.to(rows.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, matrix = ctx.saved_tensors
        by_weight, by_bias = ctx.needs_input_grad[1:]
        d_weight = (gradient.T @ rows).float() if by_weight else None
        return gradient @ matrix, d_weight, gradient.sum(0).float() if by_bias else None


class PrepackedLinear(nn.Module):
    """A product with a weight that changes no more, laid out once as oneDNN's kernels of the CPU read it."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.packed = packed(weight)
        self.bias = None if bias is None else bias.detach().to(weight.dtype)

    def forward(self, x: Tensor) -> Tensor:
        """X Wᵀ + b; x: (…, in) → (…, out)."""
        return biased_product(x, self.packed, self.bias)


class Int8Linear(nn.Module):
    """Quantization to int8: W rounded to eight bits, each row by a scale of its own: W[i] ≈ s[i] q[i], s[i] = max
    |W[i]| / 127 (Dettmers et al. 2022, section 2.1, by rows and of weights alone)."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        weight = weight.detach().float()
        self.fill = -weight.shape[1] % _INT8_COLUMNS
        # The kernel wants scales in bfloat16: rounded before they divide, they add no error of their own.
        self.scale = (weight.abs().amax(1) / 127).clamp(min=torch.finfo(torch.bfloat16).tiny).bfloat16()
        self.quantized = F.pad((weight / self.scale[:, None]).round().clamp(-127, 127).to(torch.int8), (0, self.fill))
        self.bias = None if bias is None else bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        """X Wᵀ + b in the precision of x, of products in bfloat16; x: (…, in) → (…, out)."""
        rows = x.reshape(-1, x.shape[-1]).bfloat16()
        if self.fill:
            rows = F.pad(rows, (0, self.fill))
        product = int8_product(rows, self.quantized, self.scale).to(x.dtype)
        return (product if self.bias is None else product + self.bias).view(*x.shape[:-1], -1)
