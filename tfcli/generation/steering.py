"""Activation steering: a direction added to the residual stream behind a layer while a model reads and writes.

Turner et al. 2023, algorithm 1; Rimsky et al. 2024, section 3. At every position, so that a cache changes nothing."""

import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from tfcli.errors import Remark, TfcliError, UsageError, shortened
from tfcli.models.transformer import EncoderDecoder, Transformer
from tfcli.runs.config import read_header
from tfcli.runs.load import LoadedRun
from tfcli.runs.metrics import read_evaluations
from tfcli.runs.weights import load_tensors, require_tensors


def layer_at(model: Transformer, at: str) -> Any:
    """A layer by its number, from 0, of an encoder-decoder the decoder's, or "encoder.0". A UsageError without it."""
    is_pair = isinstance(model, EncoderDecoder)
    stacks: dict[str, Any] = {"": model.decoder, "encoder.": model.encoder} if is_pair else {"": model.stack}
    layers = {f"{side}{number}": layer for side, stack in stacks.items() for number, layer in enumerate(stack.layers)}
    if at not in layers:
        problem = f"This {model.section.architecture} has no layer {shortened(at)!r}"
        raise UsageError(problem, f"choose one of {', '.join(layers)}")
    return layers[at]


def steered(model: Transformer, direction: Tensor, at: str, strength: float) -> RemovableHandle:
    """Let a model add `strength` × `direction`, (D,), to what leaves the layer `at`, until the context is left; with 0
    it computes what it always does. A UsageError where there is no such layer, or the strength is beyond ± 1000."""
    layer, added = layer_at(model, at), strength * direction
    if not abs(strength) <= 1000:  # what is no number neither
        raise UsageError(f"--strength {strength} is out of range", "choose one from -1000 to 1000")
    return layer.register_forward_hook(lambda module, inputs, output: output + added.to(output) if strength else None)


def step_of(run: LoadedRun, checkpoint: str) -> str:
    """The step of the weights that `--checkpoint` names; "" where it is not recorded."""
    if checkpoint != "best":
        return str(max(run.directory.checkpoints()) if checkpoint == "last" else int(checkpoint))
    with suppress(TfcliError):
        return str(best.step) if (best := read_evaluations(run.directory.metrics).best) else ""
    return ""


def load_direction(path: Path, run: LoadedRun, checkpoint: str = "best") -> tuple[Tensor, str]:
    """A direction, (D,), and the layer it was made behind. A UsageError, before it is read, where the file is no vector
    or one of another run; a BrokenInputError of a damaged one. A Remark where it was made of the weights of another
    step than those that `checkpoint` names."""
    size, where = run.config.model.d_model, run.directory.path
    remedy = f"make one with tfcli inspect steer {where} --from TEXT --to TEXT --out FILE"
    try:
        shapes, _, about = read_header(path)
    except TfcliError as error:
        raise type(error)(error.problem, remedy) from error
    if shapes != {"direction": (size,)}:
        raise UsageError(f"{path} is no steering vector of {size} numbers, as {where} takes", remedy)
    if about.get("run_id") != run.config.run_id:
        raise UsageError(f"{path} was made of another run than {where}, and its direction means another thing", remedy)
    if (made := about.get("step", "")) and (step := step_of(run, checkpoint)) and made != step:
        said = f"{path} was made of the weights of step {made}, and these are of step {step}: what it does to them"
        warnings.warn(f"{said} was not measured.", Remark, stacklevel=2)
    require_tensors(tensors := load_tensors(path)[0], {"direction": torch.empty(size, device="meta")}, path)
    return tensors["direction"], about.get("at", "")
