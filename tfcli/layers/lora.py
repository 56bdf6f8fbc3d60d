"""LoRA, low-rank adaptation (Hu et al. 2021): an adapter B A beside each frozen matrix W, and W + α/r B A merged.
Rank r; A (r, in), B (out, r), W (out, in)."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfcli.errors import UsageError
from tfcli.layers.kernels import Linear, for_products

FACTORS = (".lora_a", ".lora_b")  # how the names of A and B end


class LoraLinear(Linear):
    """h = x Wᵀ + b + s (x Aᵀ) Bᵀ with s = α/r (equation 3). W and b are those of a linear layer, and no longer trained;
    A begins as N(0, 1/in), B at zero, so that nothing changes at first."""

    def __init__(self, linear: nn.Linear, rank: int, scale: float, generator: torch.Generator) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias, self.scale = linear.weight, linear.bias, scale
        drawn = torch.randn(rank, self.in_features, generator=generator, device="cpu") * self.in_features**-0.5
        self.lora_a = nn.Parameter(drawn.to(self.weight))
        self.lora_b = nn.Parameter(self.weight.new_zeros(self.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        """x: (…, in) → (…, out)."""
        rows = x.flatten(0, -2)  # one product adds to the other's result: fewer large tensors come and go
        found = super().forward(rows).addmm_(F.linear(rows, self.lora_a), for_products(self.lora_b).T, alpha=self.scale)
        return found.unflatten(0, x.shape[:-1])


def adapt(model: nn.Module, rank: int, scale: float, seed: int = 0, *, new_head: bool = False) -> None:
    """Freeze a model, and put an adapter beside every matrix of its layers, which alone is trained from now on; with a
    `new_head` the head, too. A rank that a matrix does not have is refused."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(new_head and name.startswith("head."))
    generator = torch.Generator().manual_seed(seed)
    for name, module in list(model.named_modules()):
        if not isinstance(module, Linear) or name.startswith("head"):
            continue
        if rank > min(shape := module.weight.shape):
            problem = f"train.adapter_rank = {rank} is more than a matrix of {shape[0]}×{shape[1]} ({name}) has"
            raise UsageError(problem, f"set {min(shape)} at most")
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, LoraLinear(module, rank, scale, generator))


def trained(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that training changes, by name: all, or those of adapters alone."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def num_trained(model: nn.Module) -> int:
    """Numbers that training changes; a tied matrix counts once."""
    return sum(parameter.numel() for parameter in trained(model).values())


class Merged(Mapping[str, Tensor]):
    """A model's tensors by name, with W + s B A where there are W, A and B, each made when it is asked for: those of a
    model that has no adapters and computes the same. Without adapters, the tensors as they are."""

    def __init__(self, tensors: Mapping[str, Tensor], scale: float) -> None:
        self._tensors, self._scale = tensors, scale
        self._names = [name for name in tensors if not name.endswith(FACTORS)]

    def __getitem__(self, name: str) -> Tensor:
        tensor = self._tensors[name]
        a, b = (name.removesuffix(".weight") + factor for factor in FACTORS)
        return tensor if a not in self._tensors else tensor + self._scale * self._tensors[b] @ self._tensors[a]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
