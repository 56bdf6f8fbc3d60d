"""Which device and which precision are chosen, on machines that are pretended."""

import pytest
import torch

from tfcli import machine as hardware
from tfcli.errors import UsageError
from tfcli.models.device import choose_device
from tfcli.recipe.model import ModelSection
from tfcli.training import precision
from tfcli.training.precision import choose_precision

CPU, CUDA, MPS = torch.device("cpu"), torch.device("cuda"), torch.device("mps")
SMALL, LARGE = ModelSection(d_model=126, num_heads=2, head_dim=64), ModelSection(d_model=128)


def machine(patch: pytest.MonkeyPatch, *, cuda: bool = False, mps: bool = False, flags: str = "") -> None:
    patch.setattr(torch.cuda, "is_available", lambda: cuda)
    patch.setattr(torch.backends.mps, "is_available", lambda: mps)
    patch.setattr(precision, "cpu_flags", lambda: set(flags.split()))


@pytest.mark.parametrize(
    ("cuda", "mps", "chosen"),
    [(True, True, "cuda"), (True, False, "cuda"), (False, True, "cpu"), (False, False, "cpu")],
)
def test_auto_takes_the_fastest_device_there_is(monkeypatch: pytest.MonkeyPatch, cuda: bool, mps: bool, chosen: str):
    machine(monkeypatch, cuda=cuda, mps=mps)
    assert choose_device("auto").type == chosen
    assert choose_device("cpu").type == "cpu", "a device that is named is taken"


@pytest.mark.parametrize("wanted", ["cuda", "mps"])
def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch, wanted: str):
    machine(monkeypatch)
    with pytest.raises(UsageError, match=f"There is no {wanted} device on this machine; use --device auto"):
        choose_device(wanted)


@pytest.mark.parametrize(
    ("flags", "model", "chosen"),
    [
        ("fpu avx512_bf16", LARGE, "bfloat16"),
        ("amx_bf16 fpu", LARGE, "bfloat16"),
        ("fpu avx512f amx_tile amx_int8", LARGE, "float32"),
        ("", LARGE, "float32"),
        ("amx_bf16 avx512_bf16", SMALL, "float32"),
    ],
)
def test_a_cpu_takes_bfloat16_with_matrix_units_and_a_large_enough_model(
    monkeypatch: pytest.MonkeyPatch, flags: str, model: ModelSection, chosen: str
):
    machine(monkeypatch, flags=flags)
    assert choose_precision("auto", CPU, model) == chosen


@pytest.mark.parametrize(("supported", "chosen"), [(True, "bfloat16"), (False, "float32")])
def test_a_gpu_takes_bfloat16_where_it_has_it(monkeypatch: pytest.MonkeyPatch, supported: bool, chosen: str):
    """Older GPUs emulate it, which PyTorch counts by default and which is slower than float32."""
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation or supported
    )
    assert choose_precision("auto", CUDA, SMALL) == chosen


def test_mps_stays_in_float32(monkeypatch: pytest.MonkeyPatch):
    machine(monkeypatch, mps=True, flags="amx_bf16")
    assert choose_precision("auto", MPS, LARGE) == "float32"


@pytest.mark.parametrize("device", [CPU, CUDA, MPS], ids=str)
@pytest.mark.parametrize("wanted", ["float32", "bfloat16"])
def test_a_precision_that_is_named_is_taken(monkeypatch: pytest.MonkeyPatch, device: torch.device, wanted: str):
    machine(monkeypatch)
    assert choose_precision(wanted, device, SMALL) == wanted


def test_the_flags_are_those_of_the_first_processor(monkeypatch: pytest.MonkeyPatch):
    listed = "processor\t: 0\nflags\t\t: fpu amx_bf16\nbugs\t\t: x\nflags\t\t: other\n"
    monkeypatch.setattr(hardware.Path, "is_file", lambda path: True)
    monkeypatch.setattr(hardware.Path, "read_text", lambda path: listed)
    assert {"fpu", "amx_bf16"} <= hardware.cpu_flags()
    assert "other" not in hardware.cpu_flags()
    monkeypatch.setattr(hardware.Path, "is_file", lambda path: False)
    assert hardware.cpu_flags() == set()
