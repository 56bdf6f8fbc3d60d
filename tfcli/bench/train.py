"""Training benchmark: tokens a second, share of the peak FLOP/s (MFU), peak memory; alone or against another."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from statistics import median

from tfcli.bench import MatrixPeak, TrainingSide, TrainingSpeed
from tfcli.bench.machine import SQUARES, best_peaks, describe_machine, describe_model, largest_products, require_sides
from tfcli.bench.measure import SideProcess, Taken, Tell, measure, spread
from tfcli.bench.transformers_side import opponent_of
from tfcli.models.flops import training_flops
from tfcli.models.head import require_head
from tfcli.recipe.recipe import Recipe
from tfcli.training.job import resolve_for_machine
from tfcli.training.memory import require_memory, sequences_per_batch, synthetic_batches

WARMUP = 3  # steps that do not count: they allocate, choose kernels and compile
_PRECISIONS = ("float32", "bfloat16")


def bench_training(
    recipe: Recipe, steps: int, *, transformers: bool = False, tell: Tell = lambda _: None
) -> TrainingSpeed:
    """Measure the steps of a recipe (with a vocabulary) on random ids, every side in a process of its own; with
    `transformers` there too, in float32 and under bfloat16 autocast. A UsageError where that cannot be, or does not
    fit; a TfcliError where a side fails."""
    recipe = _decided(recipe, transformers)
    model, train, length, sequences = recipe.model, recipe.train, recipe.context, sequences_per_batch(recipe)
    batch = next(synthetic_batches(recipe))
    tokens = train.grad_accumulation * batch.tokens
    flops = train.grad_accumulation * training_flops(model, sequences, length, labelled=batch.target_tokens)
    with ExitStack() as stack:
        shapes = largest_products(model, sequences * length, batch.target_tokens)
        machine = {"device": train.device, "threads": train.threads}
        request = {"open": "products", "shapes": [*SQUARES, *shapes], "precisions": _PRECISIONS, **machine}
        tell("starting matrix products")
        products = stack.enter_context(SideProcess("matrix products", request))
        products.step()
        sides = []
        for name in ("tfcli", *(f"transformers {precision}" for precision in _PRECISIONS if transformers)):
            tell(f"starting {name}")
            kind, _, precision = name.partition(" ")
            asked = {"open": kind, "recipe": asdict(recipe), "precision": precision}
            sides.append(stack.enter_context(SideProcess(name, asked)))
        measured = measure(sides, steps, warmup=WARMUP, tell=tell, unit="step")
        tell("matrix products")
        products.step()
    peaks = best_peaks(products.answers)
    return TrainingSpeed(
        **describe_model(recipe),
        length=length,
        sequences=sequences,
        micro_batches=train.grad_accumulation,
        tokens_per_step=tokens,
        flops_per_step=flops,
        attention=train.attention,
        compiled=train.compile == "on",
        steps=steps,
        warmup=WARMUP,
        machine=describe_machine(train.device, train.threads),
        peaks=peaks,
        sides=tuple(_side(taken, tokens, flops, peaks) for taken in measured),
        differences=opponent_of(model).differences if transformers else (),
    )


def _decided(recipe: Recipe, transformers: bool) -> Recipe:
    """Refuse what cannot be measured, and fill in what the machine decides, the same for all sides."""
    require_sides(recipe.train.threads, transformers=transformers)
    require_head(recipe.model)
    if transformers:
        opponent_of(recipe.model)
    recipe = resolve_for_machine(recipe.resolved())
    require_memory(recipe)
    return recipe


def _side(taken: Taken, tokens: int, flops: int, peaks: Sequence[MatrixPeak]) -> TrainingSide:
    about, seconds = taken.side.about, median(taken.seconds)
    peak = next(peak for peak in peaks if peak.precision == about["precision"])
    return TrainingSide(
        name=taken.side.name,
        **about,
        tokens_per_second=tokens / seconds,
        step_seconds=spread(taken.seconds),
        peak_share=flops / seconds / peak.flops_per_second,
        **taken.beside,
    )
