"""Gradient norms layer by layer: with residuals and without, norms before and after (Xiong et al. 2020, section 3).

A real backward pass through the project's own layers, in float64, so that what vanishes is not rounded away.
Shape legend: B sequences, T tokens, D model, L layers.
"""

import copy
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from torch import Tensor, nn
from torch.nn import functional as F

from tfcli.data.batch import IGNORED, Batch
from tfcli.errors import UsageError
from tfcli.inspection.gradients import GradientProfile, GradientsRecord, StackGradients
from tfcli.inspection.passes import Inputs
from tfcli.layers.layer import Residual, TransformerLayer
from tfcli.models.build import build_model, meta_model
from tfcli.models.head import require_head
from tfcli.models.objective import labelled_hidden
from tfcli.models.transformer import Stack, Transformer
from tfcli.recipe.model import ModelSection
from tfcli.records.arrays import frozen
from tfcli.records.roles import TokenRoles
from tfcli.runs.load import LoadedRun
from tfcli.training.memory import synthetic_batch

Placement = Literal["pre", "post"]
_PLACEMENTS: tuple[Placement, ...] = ("pre", "post")
_SEQUENCES, _LONGEST = 4, 32
_MOST_PARAMETERS = 1 << 28
_MASK_EVERY = 5  # tokens of an encoder's text


class WithoutResidual(nn.Module):
    """What `Residual` computes, less the road around the sublayer; without its norm, too: f(x)."""

    def __init__(self, residual: Residual, *, norms: bool) -> None:
        super().__init__()
        self.placement, self.norm = residual.placement, residual.norm if norms else nn.Identity()

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], source: Tensor | None = None) -> Tensor:
        """pre: f(norm(x)), post: norm(f(x)), for f the sublayer; beside another one that has given x,
        x + f(norm(source)). Shape: (B, T, D) → (B, T, D)."""
        if source is not None:
            return x + sublayer(self.norm(source))
        return sublayer(self.norm(x)) if self.placement == "pre" else self.norm(sublayer(x))


def initial_gradients(section: ModelSection, seed: int = 0) -> GradientsRecord:
    """A recipe's model before its first step, on random tokens: both placements of the norms, with residuals and
    without, and last with neither. A UsageError where the model has no head, or is too large."""
    _require_gradients(section)
    draw, length = np.random.default_rng(seed), min(_LONGEST, section.max_seq_len)
    batch = synthetic_batch(section, _SEQUENCES, length, draw, mask_probability=1 / _MASK_EVERY)
    profiles = [
        _initial(section, placement, seed, batch, residuals=residuals)
        for residuals, placements in ((True, _PLACEMENTS), (False, (*_PLACEMENTS, None)))
        for placement in placements
    ]
    return _record(section, batch, profiles, text=False)


def run_gradients(run: LoadedRun, inputs: Inputs, seed: int = 0) -> GradientsRecord:
    """A trained model on a text, with its residuals and without them; beside it both placements of the norms before the
    first step. A UsageError as of `initial_gradients`, and where nothing of the text can be predicted."""
    section = run.config.model
    _require_gradients(section)
    batch, own = _batch_of(inputs, run.config.roles), section.norm_placement
    profiles = [
        _profile(run.model, batch, own, trained=True),
        _profile(without_residuals(run.model), batch, own, residuals=False, trained=True),
        *(_initial(section, placement, seed, batch) for placement in _PLACEMENTS),
    ]
    return _record(section, batch, profiles, text=True)


def without_residuals(model: Transformer, *, norms: bool = True) -> Transformer:
    """A copy whose layers have no road around their sublayers, and with `norms` off no norms there either."""
    bare = copy.deepcopy(model)
    for layer in bare.modules():
        if isinstance(layer, TransformerLayer):
            for name, child in list(layer.named_children()):
                if isinstance(child, Residual):
                    setattr(layer, name, WithoutResidual(child, norms=norms))
    return bare


def _initial(
    section: ModelSection, placement: Placement | None, seed: int, batch: Batch, *, residuals: bool = True
) -> GradientProfile:
    # A stack of the post form has no norm at its end, so that without those of its layers there is none.
    parallel = section.parallel_residual and placement == "pre"
    model = build_model(replace(section, norm_placement=placement or "post", parallel_residual=parallel), seed)
    if not residuals:
        model = without_residuals(model, norms=placement is not None)
    return _profile(model, batch, placement, residuals=residuals)


def _profile(
    model: Transformer, batch: Batch, placement: Placement | None, *, residuals: bool = True, trained: bool = False
) -> GradientProfile:
    model = copy.deepcopy(model).double().eval()  # without dropout: the same for all
    stacks = {name: module for name, module in model.named_children() if isinstance(module, Stack)}
    entered: dict[nn.Module, Tensor] = {}

    def keep(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        inputs[0].retain_grad()
        entered[layer] = inputs[0]

    for stack in stacks.values():
        for layer in stack.layers:
            layer.register_forward_pre_hook(keep)
    hidden, labels = labelled_hidden(model, batch, model.device)
    loss = F.cross_entropy(model.head(hidden), labels, ignore_index=IGNORED)
    loss.backward()
    stack_gradients = tuple(
        StackGradients(
            model.section.architecture if name == "stack" else name,  # type: ignore[arg-type]
            frozen([_norm(layer.parameters()) for layer in stack.layers], np.float64),
            frozen([_norm([entered[layer]]) for layer in stack.layers], np.float64),
        )
        for name, stack in stacks.items()
    )
    return GradientProfile(placement, residuals, trained, float(loss.detach()), stack_gradients)


def _norm(tensors: Iterable[Tensor]) -> float:
    """Of the gradients of several tensors together; a parameter that the loss does not reach has none."""
    return float(sum(float((one.grad**2).sum()) for one in tensors if one.grad is not None) ** 0.5)


def _record(section: ModelSection, batch: Batch, profiles: list[GradientProfile], *, text: bool) -> GradientsRecord:
    return GradientsRecord(
        architecture=section.architecture,
        initialization=section.initialization,
        d_model=section.d_model,
        sequences=len(batch.input_ids),
        labels=batch.target_tokens,
        text=text,
        profiles=tuple(profiles),
    )


def _require_gradients(section: ModelSection) -> None:
    require_head(section)
    parameters = meta_model(section).num_parameters()
    if parameters > _MOST_PARAMETERS:
        problem = f"{parameters:,} parameters and their gradients in float64 are too many for this picture"
        raise UsageError(problem, "choose a smaller --size")


def _batch_of(inputs: Inputs, roles: TokenRoles) -> Batch:
    """A text with labels, as training has them; of an encoder, every fifth token is masked."""
    if inputs.decoder is not None and inputs.encoder is not None:
        labels = [*inputs.decoder[1:], roles.eos]
        return Batch(_row(inputs.encoder), _row(labels), decoder_input_ids=_row(inputs.decoder))
    if inputs.decoder is not None:
        if len(inputs.decoder) < 2:
            raise UsageError("The text is empty, and there is no next token to predict", "give a text")
        return Batch(_row(inputs.decoder[:-1]), _row(inputs.decoder[1:]))
    assert inputs.encoder is not None and roles.mask is not None, "an encoder is trained with a mask"
    ids, labels = list(inputs.encoder), [IGNORED] * len(inputs.encoder)
    for place in range(1, len(ids) - 1, _MASK_EVERY):
        if ids[place] != roles.mask:
            ids[place], labels[place] = roles.mask, ids[place]
    if set(labels) == {IGNORED}:
        raise UsageError("The text has no token that could be masked and predicted", "give a sentence")
    return Batch(_row(ids), _row(labels))


def _row(ids: Any) -> Any:
    return np.array([ids], dtype=np.int64)
