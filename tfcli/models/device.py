"""The device, and a model made ready for inference on it."""

import ctypes
import platform
import sys
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from tfcli.errors import Remark, UsageError
from tfcli.layers.kernels import Int8Linear, PrepackedLinear, has_bfloat16_products
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.models.head import Head
from tfcli.models.transformer import Stack, Transformer
from tfcli.recipe.model import WeightPrecision
from tfcli.threads import ThreadChooser


def choose_device(wanted: str) -> torch.device:
    """CUDA where there is one, else the CPU, never MPS unasked; one that is not there is refused."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if wanted == "auto":
        wanted = "cuda" if there["cuda"] else "cpu"
        if wanted == "cpu" and there["mps"]:
            warnings.warn("--device mps is untried: the CPU is used; name it to try it.", Remark, stacklevel=2)
    if not there[wanted]:
        raise UsageError(f"There is no {wanted} device on this machine", "use --device auto")
    return torch.device(wanted)


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all that it was given."""
    if device.type != "cpu":
        getattr(torch, device.type).synchronize()


_MALLOPT = {-4: 0, -1: -1, -2: 64 << 20}  # glibc's M_MMAP_MAX: none; M_TRIM_THRESHOLD: never; M_TOP_PAD, bytes


def keep_freed_memory() -> None:
    """Let glibc keep what is freed for what is allocated next: new pages for every large tensor, each zeroed at its
    first touch, take up to a fifth of a training step on a CPU. Other systems are left as they are."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    if mallopt is not None:  # other C libraries have none
        for parameter, value in _MALLOPT.items():
            mallopt(parameter, value)


def measure_layers(model: Transformer, chooser: ThreadChooser) -> list[RemovableHandle]:
    """Let a chooser set the number of CPU threads by the time that each layer takes, from the next pass on."""
    handles = []
    stacks = [module for module in model.modules() if isinstance(module, Stack)]
    for number, stack in enumerate(stacks):

        def before(layer: nn.Module, inputs: tuple[Tensor, ...], stack_number: int = number) -> None:
            rows, length = inputs[0].shape[:2]
            chooser.before_layer(stack_number, rows * length)

        def after(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            chooser.after_layer()

        for layer in stack.layers:
            handles.append(layer.register_forward_pre_hook(before))
            handles.append(layer.register_forward_hook(after))
    return handles


_LARGE = 2**17  # smaller matrices stay with PyTorch's usual product: a call of oneDNN takes a dozen microseconds more


def prepare_for_inference(model: Transformer, precision: WeightPrecision = "float32") -> None:
    """Lay a model's matrices out for prediction, in place. It can be neither trained nor saved any more. On an x86
    processor they are packed for oneDNN, which is up to twice as fast as the library that PyTorch asks otherwise;
    queries, keys and values come from one product. The numbers differ by rounding alone, but with "int8", where the
    matrices (the embeddings aside) are rounded to eight bits, and "bfloat16", where everything is; int8 is refused
    where it has no kernel. On a CPU, the process keeps the memory that it frees from now on."""
    if precision == "bfloat16":
        model.bfloat16()
    if precision == "int8" and not _can_pack(model, torch.bfloat16):
        there = f"the model is on {model.device.type}, {platform.machine()}"
        problem = f"int8 weights need an x86 processor with bfloat16, and {there}"
        raise UsageError(problem, "choose --precision float32 or bfloat16")
    if _can_pack(model, model.dtype):
        _lay_out(model, Int8Linear if precision == "int8" else _fastest)
    if model.device.type == "cpu":
        keep_freed_memory()  # from here on: the matrices as they were are given back


def _lay_out(model: Transformer, lay_out: Callable[[Tensor, Tensor | None], nn.Module]) -> None:
    # Nothing else may hold a matrix that has been laid out: it goes before the next one is.
    for module in [module for module in model.modules() if not isinstance(module, nn.Linear)]:
        if isinstance(module, MultiHeadAttention) and not module.cross and model.section.position_merge != "query_key":
            module.join_projections(lay_out)
        for name, child in module.named_children():
            if isinstance(child, nn.Linear):
                setattr(module, name, lay_out(child.weight, child.bias))
        if isinstance(module, Head):
            module.lay_out(lay_out, keeps_weight=model.section.tie_embeddings)


def _can_pack(model: Transformer, dtype: torch.dtype) -> bool:
    is_x86 = model.device.type == "cpu" and platform.machine().lower() in ("x86_64", "amd64")
    if not (is_x86 and torch.backends.mkldnn.is_available()):
        return False
    return dtype == torch.float32 or (dtype == torch.bfloat16 and has_bfloat16_products())


def _fastest(weight: Tensor, bias: Tensor | None) -> nn.Module:
    if weight.numel() >= _LARGE:
        return PrepackedLinear(weight, bias)
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta").requires_grad_(False)
    parts = {"weight": weight, "bias": bias}
    linear.load_state_dict({name: part.detach() for name, part in parts.items() if part is not None}, assign=True)
    return linear
