"""Gradient norms layer by layer: with residuals and without, norms before and after (Xiong et al. 2020, section 3);
rank collapse (Dong et al. 2021); layer norm's backward pass (Xu et al. 2019).
Two backward passes through the project's own layers, in float64. For the second one every weight is moved by a few of
its last bits: what the passes do not agree on is rounding, and no measurement.
Shape legend: B sequences, T tokens, D model, L layers."""

import copy
import math
from dataclasses import fields, replace
from itertools import product
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from tfcli.data.batch import IGNORED, Batch
from tfcli.errors import UsageError
from tfcli.inspection.gradients import GradientProfile, GradientsRecord, NormGradients, StackGradients
from tfcli.inspection.passes import Inputs
from tfcli.layers.layer import Residual, TransformerLayer
from tfcli.layers.norms import LayerNorm, RMSNorm
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
_MOST_PARAMETERS = 1 << 27
_LAST_BITS = 2.0**-50  # of a weight in float64, which has 52
_AGREED = 0.1
# A part smaller than this share of what it is a part of is what sums in float64 leave of numbers that cancel: both
# passes may round alike.
_SMALLEST_PART = 2.0**-46
_MASK_EVERY = 5  # tokens of an encoder's text


def initial_gradients(section: ModelSection, seed: int = 0) -> GradientsRecord:
    """A recipe's model before its first step, on random tokens: both placements of the norms, with residuals and
    without, and last with neither. A UsageError where the model has no head, or is too large."""
    _require_gradients(section)
    draw, length = np.random.default_rng(seed), min(_LONGEST, section.max_seq_len)
    batch = synthetic_batch(section, _SEQUENCES, length, draw, mask_probability=1 / _MASK_EVERY)
    return _record(section, seed, batch)


def run_gradients(run: LoadedRun, inputs: Inputs, seed: int = 0) -> GradientsRecord:
    """A trained model on a text, and `initial_gradients` on it; a UsageError where nothing of it can be predicted."""
    _require_gradients(section := run.config.model)
    batch = _batch_of(inputs, run.config.roles)
    return _record(section, seed, batch, _profile(run.model, batch, section.norm_placement, trained=True))


def _record(section: ModelSection, seed: int, batch: Batch, *of_text: GradientProfile) -> GradientsRecord:
    profiles, shape = [*of_text], (section.architecture, section.initialization, section.d_model)
    for residuals, placement in (*product((True, False), _PLACEMENTS), (False, None)):
        parallel = section.parallel_residual and residuals and placement == "pre"
        form = replace(section, norm_placement=placement or "post", parallel_residual=parallel, residuals=residuals)
        model = build_model(form, seed)
        for layer in model.transformer_layers if placement is None else ():  # a post-norm stack has none at its end
            for residual in (one for one in layer.children() if isinstance(one, Residual)):
                residual.norm = nn.Identity()
        profiles.append(_profile(model, batch, placement))
    return GradientsRecord(*shape, len(batch.input_ids), batch.target_tokens, bool(of_text), tuple(profiles))


_Ends = dict[nn.Module, tuple[Tensor, Tensor]]  # what enters and leaves a module, or gradients by it; (B, T, D)


def _profile(model: Transformer, batch: Batch, placement: Placement | None, trained: bool = False) -> GradientProfile:
    model = copy.deepcopy(model).double().eval()  # without dropout: the same for all
    stacks = {name: module for name, module in model.named_children() if isinstance(module, Stack)}
    went, came = _Ends(), _Ends()
    for layer in model.transformer_layers:
        for module in (layer, layer.attention_residual.norm):
            module.register_forward_hook(lambda at, x, y: went.update({at: (x[0].detach(), y.detach())}))
            module.register_full_backward_hook(lambda at, by_x, by_y: came.update({at: (*by_x, *by_y)}))

    def passed() -> tuple[float, list[list[dict[str, Tensor]]]]:
        model.zero_grad()
        hidden, labels = labelled_hidden(model, batch, model.device)
        loss = F.cross_entropy(model.head(hidden), labels, ignore_index=IGNORED)
        loss.backward()
        return float(loss.detach()), [[_vectors(one, went, came) for one in stack.layers] for stack in stacks.values()]

    loss, first = passed()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(1 + _LAST_BITS * torch.randn(weights.shape, generator=generator).to(weights))
    sides = [model.section.architecture if name == "stack" else name for name in stacks]
    compared = tuple(map(_compared, sides, first, passed()[1]))
    return GradientProfile(placement, model.section.residuals, trained, loss, compared)


def _vectors(layer: nn.Module, went: _Ends, came: _Ends) -> dict[str, Tensor]:
    """What norms are taken of, by the name in the record; parts along a direction are (B, T)."""
    assert isinstance(layer, TransformerLayer)
    norm, left = layer.attention_residual.norm, went[layer][1]
    vectors = {
        # A parameter that the loss does not reach has no gradient.
        "parameters": torch.cat([one.grad.flatten() for one in layer.parameters() if one.grad is not None]),
        "inputs": came[layer][0],
        "left": left,
        "apart": left - left.mean(dim=1, keepdim=True),
    }
    if isinstance(norm, LayerNorm | RMSNorm):
        x, (leaving, entering) = went[norm][0], came[norm]
        entering = entering if norm.weight is None else entering * norm.weight.detach()
        if isinstance(norm, LayerNorm):
            x = x - x.mean(dim=-1, keepdim=True)
            vectors["along_ones"] = entering.sum(-1) / x.shape[-1] ** 0.5
        vectors["along_output"] = (entering * F.normalize(x, dim=-1)).sum(-1)
        vectors["deviation"] = (x.square().mean(dim=-1) + norm.eps).sqrt()
        vectors |= {"entering": entering, "leaving": leaving}
    return vectors


def _compared(side: Any, first: list[dict[str, Tensor]], second: list[dict[str, Tensor]]) -> StackGradients:
    """Norms of what two passes agree on, and NaN where they do not."""
    layers = list(zip(first, second, strict=True))
    known = {name: np.array([_known(one[name], again[name]) for one, again in layers]) for name in first[0]}
    known["apart"] = _share(known["apart"], known["left"])
    norms = None
    if "entering" in known:
        known["deviation"] = np.array([float(one["deviation"].mean()) for one in first])
        for name in ("along_ones", "along_output"):
            part = known.get(name, np.zeros(len(layers)))
            known[name] = _share(part, known["entering"]) ** 2
        norms = NormGradients(**{one.name: frozen(known[one.name], np.float64) for one in fields(NormGradients)})
    own = {name: frozen(known[name], np.float64) for name in ("parameters", "inputs", "apart")}
    return StackGradients(side, **own, norms=norms)


def _known(one: Tensor, again: Tensor) -> float:
    norm = float(one.norm())
    return norm if float((one - again).norm()) < _AGREED * norm else math.nan


def _share(parts: NDArray[np.float64], wholes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Norms of parts over norms of wholes; NaN where a part is rounding, and 0 where it is exactly 0."""
    shares = parts / wholes
    is_rounding = (shares > 0) & (shares < _SMALLEST_PART)
    return np.where(is_rounding, math.nan, shares)


def _require_gradients(section: ModelSection) -> None:
    require_head(section)
    if (parameters := meta_model(section).num_parameters()) > _MOST_PARAMETERS:
        problem = f"{parameters:,} parameters and their gradients in float64 are too many for this picture"
        raise UsageError(problem, "choose a smaller --size")


def _batch_of(inputs: Inputs, roles: TokenRoles) -> Batch:
    """A text with labels, as training has them; of an encoder, every fifth token is masked."""
    source, target = inputs.encoder, inputs.decoder
    if target is not None and source is not None:
        return Batch(_row(source), _row([*target[1:], roles.eos]), decoder_input_ids=_row(target))
    if target is not None:
        if len(target) < 2:
            raise UsageError("The text is empty, and there is no next token to predict", "give a text")
        return Batch(_row(target[:-1]), _row(target[1:]))
    assert source is not None and roles.mask is not None, "an encoder is trained with a mask"
    ids, labels = list(source), [IGNORED] * len(source)
    for place in range(1, len(ids) - 1, _MASK_EVERY):
        if ids[place] != roles.mask:
            ids[place], labels[place] = roles.mask, ids[place]
    if set(labels) == {IGNORED}:
        raise UsageError("The text has no token that could be masked and predicted", "give a sentence")
    return Batch(_row(ids), _row(labels))


def _row(ids: Any) -> Any:
    return np.array([ids], dtype=np.int64)
