"""Models of `transformers`, written by others, with lively weights; and ours, filled from them as an import would."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from tfcli.interop.checkpoint import CheckpointConfig
from tfcli.interop.families.layout import CheckpointFamily
from tfcli.interop.tensors import canonical_names, checkpoint_of_parameters, parameters_of_checkpoint, settled_section
from tfcli.models.build import build_model
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import TokenRoles
from tfcli.runs.weights import fill_model, model_tensors

CONFIG, WEIGHTS = Path("config.json"), Path("model.safetensors")
ROLES = TokenRoles(pad=0, bos=1, eos=2, mask=3, unk=4)


def lively(model: nn.Module, seed: int = 0) -> Any:
    """Weights large enough that every part of the function shows, in eval mode.

    Matrices keep a unit vector near unit size, biases lie around 0 and gains around 1. Tied parameters are drawn once,
    and fixed tables of positions stay.
    """
    generator = torch.Generator().manual_seed(seed)
    logit_biases = [buffer[0] for name, buffer in model.named_buffers() if name.endswith("final_logits_bias")]
    with torch.no_grad():
        for tensor in [p for p in model.parameters() if p.requires_grad] + logit_biases:
            noise = torch.randn(tensor.shape, generator=generator)
            if tensor.ndim == 1:
                tensor.add_(0.3 * noise)
            else:
                tensor.copy_(noise / tensor.shape[-1] ** 0.5)
    return model.eval()


def read_config(layout: CheckpointFamily, values: Mapping[str, Any]) -> ModelSection:
    """The section of a config.json with these values."""
    return layout.read(CheckpointConfig(json.loads(json.dumps(dict(values))), CONFIG))


def section_of(layout: CheckpointFamily, theirs: Any) -> ModelSection:
    """The section of a model's config. The file that is saved, which leaves common defaults out, must say the same."""
    section = read_config(layout, theirs.config.to_dict())
    assert section == read_config(layout, theirs.config.to_diff_dict())
    return section


def ours_of(
    layout: CheckpointFamily, theirs: Any, dtype: torch.dtype | None = None, tensors: Mapping[str, Tensor] | None = None
) -> Transformer:
    """Our model of the same function, in eval mode.

    Args:
        dtype: None: that of `theirs`.
        tensors: the checkpoint, where it is not the model's own state.
    """
    section = section_of(layout, theirs)
    in_file = theirs.state_dict() if tensors is None else tensors
    named = canonical_names(layout, in_file)
    section = settled_section(layout, section, named, in_file)
    parameters, _ = parameters_of_checkpoint(layout, section, named, WEIGHTS, in_file)
    return filled(section, parameters, dtype or theirs.dtype)


def filled(section: ModelSection, parameters: Mapping[str, Tensor], dtype: torch.dtype) -> Transformer:
    """A model with these parameters, in eval mode."""
    model = build_model(section).to(dtype)
    fill_model(model, {name: tensor.to(dtype) for name, tensor in parameters.items()}, WEIGHTS)
    return model.eval()


def export(folder: Path, layout: CheckpointFamily, section: ModelSection, parameters: Mapping[str, Tensor]) -> Path:
    """A folder as `transformers` loads it."""
    (folder / CONFIG).write_text(json.dumps(layout.write(section, ROLES)))
    save_file(checkpoint_of_parameters(layout, section, parameters), folder / WEIGHTS, {"format": "pt"})
    return folder


def parameters_of(model: Transformer) -> dict[str, Tensor]:
    """A model's parameters, detached."""
    return {name: tensor.detach() for name, tensor in model_tensors(model).items()}
