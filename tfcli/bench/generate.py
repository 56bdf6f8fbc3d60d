"""Generation benchmark: tokens a second, share of the memory bandwidth, peak memory; alone or against another."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from itertools import zip_longest
from typing import Any

from tfcli.bench import GenerationSide, GenerationSpeed
from tfcli.bench.machine import describe_machine, describe_model, require_sides
from tfcli.bench.measure import Answer, SideProcess, Taken, Tell, measure, spread
from tfcli.bench.transformers_side import opponent_of
from tfcli.bench.work import GenerationWork, weights_of_a_token
from tfcli.errors import UsageError
from tfcli.interop.exporting import exportable
from tfcli.machine import temporary_folder
from tfcli.models.build import meta_model
from tfcli.models.device import choose_device
from tfcli.recipe.model import WeightPrecision
from tfcli.recipe.recipe import Recipe
from tfcli.training.job import resolve_for_machine
from tfcli.training.memory import memory_of

WARMUP = 1  # rounds that do not count. Their ids are those that are compared.
_BYTES: dict[WeightPrecision, int] = {"float32": 4, "bfloat16": 2, "int8": 1}  # of a weight


def bench_generation(
    recipe: Recipe,
    work: GenerationWork,
    rounds: int,
    *,
    precision: WeightPrecision = "float32",
    transformers: bool = False,
    tell: Tell = lambda _: None,
) -> GenerationSpeed:
    """Measure how fast a recipe's model (with a vocabulary) generates with random weights, every side in a process of
    its own and in turns; with `transformers` there too, with the same weights where it has the model. A UsageError
    where that cannot be or does not fit; a TfcliError where a side fails."""
    recipe = _decided(recipe, work, transformers)
    is_same = transformers and bool(exportable(recipe.model).family)
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        common: Answer = {"recipe": asdict(recipe), "work": asdict(work), "folder": str(folder) if is_same else None}
        if is_same:
            tell("writing the weights")
            with SideProcess("weights", {**common, "open": "weights"}) as writer:
                writer.step()

        def start(name: str, **own: Any) -> SideProcess:
            tell(f"starting {name}")
            return stack.enter_context(SideProcess(name, {**common, **own, "open": name}))

        bandwidth = start("bandwidth", device=recipe.train.device, threads=recipe.train.threads)
        bandwidth.step()
        # The other library has no int8 for processors of its own.
        precisions = {"tfcli": precision, "transformers": "float32" if precision == "int8" else precision}
        sides = [start(name, precision=precisions[name]) for name in ("tfcli", "transformers")[: 1 + transformers]]
        measured = measure(sides, rounds, warmup=WARMUP, tell=tell)
        tell("bandwidth")
        bandwidth.step()
    read_bandwidth = max(answer["bytes_per_second"] for answer in bandwidth.answers)
    weights = weights_of_a_token(meta_model(recipe.model))
    return GenerationSpeed(
        **describe_model(recipe),
        **{name: getattr(work, name) for name in ("batch", "new_tokens", "beam")},
        prompt_tokens=float(work.prompt_tokens),
        rounds=rounds,
        warmup=WARMUP,
        weight_bytes=weights * _BYTES[precision],
        read_bandwidth=read_bandwidth,
        machine=describe_machine(recipe.train.device, recipe.train.threads),
        sides=tuple(_side(taken, work, reading=weights / read_bandwidth) for taken in measured),
        same_ids=_same_ids(sides) if is_same else None,
        differences=opponent_of(recipe.model).differences if transformers and not is_same else (),
    )


def _decided(recipe: Recipe, work: GenerationWork, transformers: bool) -> Recipe:
    """Refuse what cannot be measured, and fill in what the machine decides, the same for all sides."""
    require_sides(recipe.train.threads, transformers=transformers)
    recipe = recipe.resolved()
    # With a context that holds a decoder's prompt and new tokens; of an encoder-decoder, either side.
    before = 1 if recipe.model.architecture == "encoder-decoder" else work.prompt_tokens
    longest = max(work.prompt_tokens, before + work.new_tokens, recipe.model.max_seq_len)
    model = replace(recipe.model, max_seq_len=longest)
    if model.architecture == "encoder":
        raise UsageError("An encoder generates no text", "choose --arch decoder or --arch encoder-decoder")
    recipe = resolve_for_machine(replace(recipe, model=model))
    there, parameters = memory_of(choose_device(recipe.train.device)), meta_model(model).num_parameters()
    needed = _BYTES["float32"] * parameters * (1 + transformers)
    if needed > there:
        take = f"{parameters:,} parameters, whose weights take {needed / 1e9:.3g} GB in all processes"
        problem = f"The model has {take}, and the {recipe.train.device} has {there / 1e9:.3g} GB"
        raise UsageError(problem, "choose a smaller one, as with --size small")
    return recipe


def _same_ids(sides: Sequence[SideProcess]) -> float:
    """Share of the new ids that are the same at the same place of the same text."""
    ours, theirs = (side.answers[0]["ids"] for side in sides)
    pairs = [pair for here, there in zip(ours, theirs, strict=True) for pair in zip_longest(here, there)]
    return sum(here == there for here, there in pairs) / len(pairs)


def _side(taken: Taken, work: GenerationWork, *, reading: float) -> GenerationSide:
    """A side's figures; `reading` a token's weights takes so many seconds, at a byte each."""
    side, answers, seconds = taken.side, taken.side.answers[WARMUP:], spread(taken.seconds)
    later = share = None
    if work.new_tokens > 1:
        later = spread([(answer["seconds"] - answer["prefill"]) / (work.new_tokens - 1) for answer in answers])
        if work.batch == work.beam == 1:
            share = _BYTES[side.about["precision"]] * reading / later.p50
    return GenerationSide(
        name=side.name,
        **side.about,
        tokens_per_second=work.batch * work.new_tokens / seconds.p50,
        seconds=seconds,
        prefill_seconds=spread([answer["prefill"] for answer in answers]),
        token_seconds=later,
        bandwidth_share=share,
        **taken.beside,
    )
