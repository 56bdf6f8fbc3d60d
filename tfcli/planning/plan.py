"""Which size, and how many steps, for a corpus and a time. The size is the largest whose training reads 20 tokens for
every parameter, which is where more parameters and more text gain alike (Hoffmann et al. 2022, table 3). Text that is
read again is worth less each time: R repetitions of U tokens are worth U (1 + 15.4 (1 − e^(−R / 15.4))) new ones,
nearly as many up to 4 epochs (Muennighoff et al. 2023, section 3.1 and equation 5). It ends after 16 epochs."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tfcli.inspection.model.compute import parameter_groups
from tfcli.interop.exporting import exportable
from tfcli.models.build import meta_model
from tfcli.models.device import choose_device
from tfcli.models.flops import training_flops
from tfcli.models.presets import SIZES
from tfcli.planning import FOUND, Candidate, TrainingOutline
from tfcli.planning.measure import measure_steps
from tfcli.recipe.recipe import Recipe
from tfcli.records.roles import TokenRoles
from tfcli.training.checkpoint import checkpoints_to_keep, weights_to_keep
from tfcli.training.job import resolve_for_machine
from tfcli.training.memory import count_parameters, memory_of, predict_memory, sequences_per_batch

Compose = Callable[..., Recipe]  # the user's own settings over those of a size, and under others that follow

TOKENS_A_PARAMETER, MOST_EPOCHS, REPETITIONS_WORTH = 20, 16, 15.4
TOKENS_A_STEP = 4096  # of a micro-batch, a side: enough for a quiet gradient, few enough for many steps
FEWEST_STEPS = 20
EVALUATIONS = 10  # at most; and they and the checkpoints may take a tenth of the time
KEPT = 0.95  # share of the time that is planned: machines are not always equally fast
SHARE_OF_MEMORY = 0.8
LONGEST_PROBING, SHORTEST_PROBING, SHARE_OF_PROBING = 60.0, 15.0, 0.1


def candidates(
    compose: Compose, dataset: Path, minutes: float, sizes: Sequence[str], modules: Sequence[str]
) -> Iterator[Candidate]:
    """Measure one size after the other, the smallest first, up to the first that would read too little, and one more
    after the smallest; none is begun once the probing has lasted its share of the time."""
    began, found = time.perf_counter(), list[Candidate]()
    probing = max(SHORTEST_PROBING, min(LONGEST_PROBING, SHARE_OF_PROBING * 60 * minutes))
    for size in sizes:
        hopeless = len(found) > 1 and found[-1].worth < TOKENS_A_PARAMETER * found[-1].parameters
        if hopeless or time.perf_counter() - began > probing:
            return
        recipe, fits = _fitting(compose, size)
        if not fits:
            parameters, rate = meta_model(recipe.model).num_parameters(), recipe.train.learning_rate
            yield Candidate(size, parameters, recipe.context, batch_tokens=1, learning_rate=rate, fits=False)
            return
        found.append(_candidate(size, recipe, measure_steps(recipe, dataset, probing / 8, modules), minutes))
        yield found[-1]


def choose(found: Sequence[Candidate]) -> list[Candidate]:
    """The candidates, of those with enough steps the best marked: the largest that gets its tokens, else the first."""
    possible = [candidate for candidate in found if candidate.fits and candidate.steps >= FEWEST_STEPS]
    served = [c for c in possible if c.worth >= TOKENS_A_PARAMETER * c.parameters]
    best = next(iter(served[-1:] or possible[:1]), None)
    return [replace(candidate, chosen=candidate is best) for candidate in found]


def least_minutes(smallest: Candidate) -> float:
    """How long the fewest steps that are a training take."""
    each = smallest.batch_tokens / smallest.tokens_per_second if smallest.tokens_per_second else 0.0
    return (smallest.seconds + (FEWEST_STEPS - smallest.steps) * each) / KEPT / 60


def worth(tokens: float, unique: float) -> float:
    """New tokens that so many of a text of `unique` are worth.

    >>> round(worth(500, 1000)), round(worth(4000, 1000)), round(worth(16_000, 1000))
    (500, 3726, 10586)
    """
    if tokens <= unique:
        return tokens
    return unique * (1 + REPETITIONS_WORTH * (1 - math.exp((1 - tokens / unique) / REPETITIONS_WORTH)))


def settings_of(candidate: Candidate) -> dict[str, dict[str, int]]:
    """The recipe settings that a candidate says, beside those of its size: those of [train] named in `FOUND`."""
    steps, every = candidate.steps, max(1, math.ceil(candidate.steps / candidate.evaluations))
    warmup = min(100, max(1, steps // 10))
    return {"train": dict(zip(FOUND, (steps, candidate.batch_tokens, warmup, every, every), strict=True))}


def _fitting(compose: Compose, size: str) -> tuple[Recipe, bool]:
    """The recipe of a size with a batch that fits into the memory; false where a single sequence does not."""
    recipe = compose(SIZES[size]).resolved()
    sides = 2 if recipe.model.objective == "seq2seq" else 1
    least, batch = sides * recipe.context, sides * max(recipe.context, TOKENS_A_STEP)
    there = SHARE_OF_MEMORY * memory_of(choose_device(recipe.train.device))
    while True:
        recipe = compose(SIZES[size], {"train": {"batch_tokens": batch}}).resolved()
        needed = predict_memory(resolve_for_machine(recipe))
        fits = needed.peak - needed.allocator <= there
        if fits or batch == least:
            return recipe, fits
        batch = max(least, batch // 2)


def _candidate(size: str, recipe: Recipe, measured: Mapping[str, float], minutes: float) -> Candidate:
    start, ending, a_step = (measured[f"{name}_seconds"] for name in ("start", "ending", "step"))
    an_epoch, tokens_a_step = measured["steps_per_epoch"], measured["tokens_per_step"]
    time_left = KEPT * 60 * minutes - start - ending
    each = measured["evaluation_seconds"] + measured["save_seconds"]
    evaluations = max(1, min(EVALUATIONS, math.floor(0.1 * time_left / each) if each else EVALUATIONS))
    steps = max(0, min(math.floor(MOST_EPOCHS * an_epoch), math.floor((time_left - evaluations * each) / a_step)))
    tokens = round(steps * tokens_a_step)
    return Candidate(
        size=size,
        parameters=int(measured["parameters"]),
        context=recipe.context,
        batch_tokens=recipe.train.batch_tokens or 0,
        learning_rate=recipe.train.learning_rate,
        steps=steps,
        evaluations=evaluations,
        tokens=tokens,
        tokens_per_second=tokens_a_step / a_step,
        epochs=steps / an_epoch,
        worth=worth(tokens, tokens_a_step * an_epoch),
        seconds=start + steps * a_step + evaluations * each + ending,
        memory=int(measured["memory"]),
    )


_AS_SET = ("batch_tokens", "epochs", "device", "precision", "attention", "compile", "threads")


def outline(recipe: Recipe, *, vocab_size_is_most: bool, roles: TokenRoles | None = None) -> TrainingOutline:
    """Shapes, parameters, operations and memory of a training of full batches, of a recipe decided for the machine."""
    model, train = recipe.model, recipe.train
    assert model.vocab_size is not None
    built, context = meta_model(model), recipe.context
    sequences = sequences_per_batch(recipe) * train.grad_accumulation
    labelled = round(train.mask_probability * sequences * context) if model.objective == "mlm" else None
    flops = training_flops(model, sequences, context, labelled=labelled, frozen=train.adapter is not None)
    tokens = sequences * context * (2 if model.objective == "seq2seq" else 1)
    memory, (parameters, trained) = predict_memory(recipe), count_parameters(recipe)
    adapters, every = trained if train.adapter else 0, filter(None, (train.save_every, train.keep_every))
    saved = {train.steps, *(step for steps in every for step in range(0, train.steps, steps))}
    whole, of_weights = len(checkpoints_to_keep(saved, train)), len(weights_to_keep(saved, train))
    on_disk = 4 * (parameters + adapters) * (whole + of_weights) + memory.optimizer * whole
    return TrainingOutline(
        architecture=model.architecture,
        groups=tuple(parameter_groups(built)),
        parameters=built.num_parameters(),
        vocab_size=model.vocab_size,
        vocab_size_is_most=vocab_size_is_most,
        sequences=sequences,
        context=context,
        batch_size=train.rows,
        equal_tokens=not (train.batch_tokens or train.batch_size or train.windows == "stream"),
        steps=None if train.epochs else train.steps,
        tokens=None if train.epochs else tokens * train.steps,
        flops_per_step=flops,
        flops_per_token=round(flops / tokens),
        **{name: getattr(train, name) for name in _AS_SET},
        memory=memory,
        exportable=exportable(model, roles),
        adapter_parameters=adapters,
        checkpoints=None if train.epochs else (whole, of_weights),
        checkpoint_bytes=None if train.epochs else on_disk,
    )
