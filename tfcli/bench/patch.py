"""Activation patching benchmark: a grid beside one whole pass a patch, and the most that can be gained."""

import time
from dataclasses import replace
from statistics import median

import numpy as np
import torch
from torch import Tensor

from tfcli.bench import PatchingSpeed
from tfcli.bench.machine import describe_machine, describe_model, require_sides
from tfcli.bench.measure import Tell, ratios, spread
from tfcli.bench.work import synthetic_model
from tfcli.inspection.interventions import Part, hook, stack_of, texts_at_a_time
from tfcli.inspection.passes import ModelPass, record_model
from tfcli.inspection.patching.compute import every_grid, replacements
from tfcli.models.build import meta_model
from tfcli.models.device import choose_device, prepare_for_inference
from tfcli.models.head import require_head
from tfcli.models.transformer import EncoderDecoder, Transformer
from tfcli.recipe.recipe import Recipe
from tfcli.training.job import resolve_for_machine


@torch.inference_mode()
def bench_patching(recipe: Recipe, length: int, rounds: int, tell: Tell = lambda _: None) -> PatchingSpeed:
    """Patch a recipe's model (with a vocabulary), of random weights, on two texts of random ids in every way, after a
    round to warm up. A UsageError where it has no head, or not so many threads are there."""
    require_sides(recipe.train.threads, transformers=False)
    recipe = recipe.resolved()
    require_head(recipe.model)
    section = replace(recipe.model, max_seq_len=max(length, recipe.model.max_seq_len))
    recipe = resolve_for_machine(replace(recipe, model=section))
    torch.set_num_threads(recipe.train.threads)
    model = synthetic_model(section, recipe.train.seed).to(choose_device(recipe.train.device))
    prepare_for_inference(model)
    sides = 2 if isinstance(model, EncoderDecoder) else 1
    drawn = np.random.default_rng(recipe.train.seed).integers(2, section.vocab_size, (2, sides, 1, length))
    texts = [list(text) for text in torch.from_numpy(drawn).to(model.device)]

    def passes() -> tuple[ModelPass, ModelPass]:
        return record_model(model, texts[0], weights=False), record_model(model, texts[1], weights=False)

    rows = texts_at_a_time(passes()[0])

    def measure(hidden: Tensor) -> Tensor:
        logits: Tensor = model.head(hidden[:, -1])
        return (logits[:, 2] - logits[:, 3]).cpu()

    def grids() -> Tensor:
        return torch.cat([torch.tensor(one.effects).flatten() for one in every_grid(model, *passes(), measure)])

    def one_by_one() -> Tensor:
        found = []
        for (*_, part), values in replacements(model, *passes()):
            for value in values.split(1):
                with hook(stack_of(model, part.side).layers[part.layer], part.place, value):
                    found.append(measure(model.hidden(*texts[0])))
        return torch.cat(found)

    def in_batches() -> Tensor:
        return measure(model.hidden(*(ids.expand(rows, -1) for ids in texts[0])))

    taken = []
    for number in range(1 + rounds):
        results, clock = [], [time.perf_counter()]
        for work in (grids, one_by_one, in_batches):
            results.append(work())
            clock.append(time.perf_counter())
        taken.append(np.diff(clock))
        tell(f"round {1 + number} of {1 + rounds}")
    parts, shapes = [(part, len(values)) for (*_, part), values in replacements(model, *passes())], meta_model(section)
    weights = sum(number * _behind(shapes, part) for part, number in parts)
    whole = weights / _behind(shapes, parts[0][0])  # behind the stream that enters the first layer: all of them
    seconds, naive, batch = np.transpose(taken[1:]).tolist()
    return PatchingSpeed(
        **describe_model(recipe),
        length=length,
        patches=sum(number for _, number in parts),
        rounds=rounds,
        machine=describe_machine(recipe.train.device, recipe.train.threads),
        seconds=spread(seconds),
        naive=spread(naive),
        **ratios(seconds, naive),  # type: ignore[arg-type]
        most=median(naive) / (whole * median(batch) / rows),
        apart=float((results[0] - results[1]).abs().max()),
    )


_ORDER = ("residual", "attention", "cross_attention", "feed_forward")
_OF_MEMORY = ("cross_attention.key", "cross_attention.value")  # of one text, where no patch changes it


def _behind(model: Transformer, part: Part) -> int:
    """Weights that tokens are still multiplied with where everything up to a part is known."""
    own, found = {"heads": "attention", "cross_heads": "cross_attention"}.get(part.place, part.place), 0
    for number, layer in enumerate(stack_of(model, part.side).layers[part.layer :]):
        for name, weight in layer.named_parameters():
            is_behind = number or name.partition(".")[0] in _ORDER[1 + _ORDER.index(own) :]
            is_behind = is_behind or (own != part.place and name.startswith(f"{own}.output"))
            if is_behind and weight.dim() == 2 and not (part.side == "decoder" and name.startswith(_OF_MEMORY)):
                found += weight.numel()
    if part.side == "encoder" and isinstance(model, EncoderDecoder):
        found += sum(weight.numel() for weight in model.decoder.layers.parameters() if weight.dim() == 2)
    return found
