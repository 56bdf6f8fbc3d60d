"""Throughput and memory by a few real steps on the prepared text, in a process whose peak of memory is its own:
``python -m tfcli.planning.measure DATASET SECONDS MODULE…`` with the recipe as TOML on stdin, and the answer in JSON.
"""

import importlib
import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tfcli.errors import TfcliError
from tfcli.machine import PIPE, child, temporary_folder
from tfcli.recipe.loading import to_toml
from tfcli.recipe.recipe import Recipe

WARM_UP_STEPS, FEWEST_STEPS, MOST_STEPS = 2, 3, 30


def measure_steps(recipe: Recipe, dataset: Path, seconds: float, modules: Sequence[str]) -> dict[str, float]:
    """Time steps for about so many seconds, three or more, an evaluation and a checkpoint, with `modules` loaded."""
    began = time.perf_counter()
    arguments = [str(dataset), str(seconds), *modules]
    with child("tfcli.planning.measure", *arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
        out, err = process.communicate(to_toml(recipe))
    took = time.perf_counter() - began
    if process.returncode:
        lines = err.strip().splitlines() or [f"exit code {process.returncode}"]
        raise TfcliError(f"A few steps of the size at hand failed: {lines[-1]}", "lower --set train.context")
    answer = json.loads(out)
    if "problem" in answer:
        raise TfcliError(answer["problem"], answer["remedy"])
    return {"start_seconds": took - answer.pop("measured_seconds"), **answer}


def _measure(recipe: Recipe, dataset: Path, seconds: float) -> dict[str, float]:
    from tfcli.data.dataset import PreparedDataset
    from tfcli.data.loader import build_batches
    from tfcli.evaluation.measure import total_loss
    from tfcli.runs.weights import model_tensors, save_tensors
    from tfcli.tokenization.tokenizer import load_tokenizer
    from tfcli.training.job import StepBenchmark, decide
    from tfcli.training.memory import peak_memory, require_memory

    tokenizer, data = load_tokenizer(dataset), PreparedDataset.open(dataset)
    recipe = decide(recipe, tokenizer, data)
    require_memory(recipe)  # as training does, so that the process holds what that one would
    batches = build_batches(recipe, data, "train", tokenizer.roles)
    data.compare_first_shards()
    drawn = batches.training()
    for _ in range((WARM_UP_STEPS + MOST_STEPS) * recipe.train.grad_accumulation):
        next(drawn)  # compares, before the clock runs, the other shards that the steps read from
    benchmark = StepBenchmark(recipe, batches.training())
    model, device = benchmark.parts.model, benchmark.parts.device
    began, steps, tokens = time.perf_counter(), list[float](), list[int]()
    for number in range(WARM_UP_STEPS + MOST_STEPS):
        before = time.perf_counter()
        float(benchmark.step())
        benchmark.wait()
        if number >= WARM_UP_STEPS:
            steps.append(time.perf_counter() - before)
            tokens.append(benchmark.tokens)
        if len(steps) >= FEWEST_STEPS and time.perf_counter() - began > seconds:
            break
    scored, before = 0, time.perf_counter()
    for batch in build_batches(recipe, data, "validation", tokenizer.roles).whole():
        total_loss(model, [batch], device)
        scored += batch.tokens
        if time.perf_counter() - before > seconds / 4:
            break
    whole, sample = data.record().validation.tokens, recipe.train.evaluate_tokens or math.inf
    a_token = (time.perf_counter() - before) / scored
    before = time.perf_counter()
    with temporary_folder() as folder:
        save_tensors(folder / "model.safetensors", model_tensors(model), {})
    saved = time.perf_counter() - before
    return {
        "parameters": model.num_parameters(),
        "step_seconds": median(steps),
        "tokens_per_step": sum(tokens) / len(tokens),
        "evaluation_seconds": a_token * min(whole, sample),
        "ending_seconds": 2 * a_token * whole if sample < whole else 0.0,  # of the best weights and the last ones
        "save_seconds": 4 * saved,  # weights and two moments in the checkpoint, and the best weights beside it
        "steps_per_epoch": batches.batches_per_epoch / recipe.train.grad_accumulation,
        "memory": peak_memory(device),
        "measured_seconds": time.perf_counter() - began,
    }


if __name__ == "__main__":
    from tfcli.recipe.loading import build_recipe, parse_toml

    for module in sys.argv[3:]:
        importlib.import_module(module)
    wanted = build_recipe(parse_toml(sys.stdin.read()))
    try:
        told = json.dumps(_measure(wanted, Path(sys.argv[1]), float(sys.argv[2])))
    except TfcliError as error:
        told = json.dumps({"problem": error.problem, "remedy": error.remedy})
    sys.stdout.write(told)
