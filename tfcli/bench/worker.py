"""Benchmark worker: one side in a process of its own, with its own settings, threads, allocator and peak of memory."""

import json
import os
import sys
from pathlib import Path
from typing import TextIO

from tfcli.bench.measure import Answer, Side
from tfcli.errors import TfcliError, first_lines
from tfcli.machine import peak_process_memory


def serve(requests: TextIO, replies: TextIO) -> None:
    """Answer requests until "stop", or until nobody asks any more."""
    side: Side | None = None
    for line in requests:
        request = json.loads(line)
        try:
            if side is None:
                side = open_side(request)
                answer = side.about()
            else:
                answer = side.step() if request["do"] == "step" else {"memory": _held(side)}
        except TfcliError as error:
            answer = {"problem": error.problem, "remedy": error.remedy, "exit_code": error.exit_code}
        except (RuntimeError, ValueError, MemoryError) as error:
            library = "PyTorch" if "torch" in sys.modules else "A library"
            answer = {"problem": f"{library} failed ({first_lines(error)})", "remedy": "", "exit_code": 1}
        replies.write(json.dumps(answer) + "\n")
        replies.flush()
        if request.get("do") == "stop":
            return


def open_side(request: Answer) -> Side:
    """Build the side that "open" names."""
    kind = request["open"]
    if kind in ("prepare", "encode_batch_fast", "datasets.map"):
        from tfcli.bench.data_sides import encoded, mapped, prepared

        folder = Path(request["folder"])
        if kind == "datasets.map":
            return mapped(folder, request["context"])
        return prepared(folder) if kind == "prepare" else encoded(folder)

    from tfcli.bench.machine import Bandwidth, Products
    from tfcli.bench.transformers_side import TransformersGeneration, TransformersLoop
    from tfcli.bench.work import GenerationWork, SavedWeights, TfcliGeneration, TfcliSteps
    from tfcli.recipe.loading import build_recipe

    if kind == "products":
        return Products(map(tuple, request["shapes"]), request["precisions"], request["device"], request["threads"])
    if kind == "bandwidth":
        return Bandwidth(request["device"], request["threads"])
    recipe = build_recipe(request["recipe"])
    if kind == "weights":
        return SavedWeights(recipe, Path(request["folder"]))
    if "work" in request:
        work = GenerationWork(**request["work"])
        if kind == "tfcli":
            return TfcliGeneration(recipe, work, request["precision"])
        return TransformersGeneration(recipe, work, request["precision"], request["folder"])
    return TfcliSteps(recipe) if kind == "tfcli" else TransformersLoop(recipe, request["precision"])


def _held(side: Side) -> int:
    if side.device is None:
        return peak_process_memory()
    from tfcli.training.memory import peak_memory

    return peak_memory(side.device)


def main() -> None:
    """Speak through what stdout was; what a library prints goes to stderr."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin, replies)


if __name__ == "__main__":
    main()
