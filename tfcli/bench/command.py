"""``tfcli bench``: measured speed."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tfcli.console.options import Json, command
from tfcli.console.settings import MACHINE, SHAPE, SIZES, Asked, recipe_from, usual, with_vocabulary
from tfcli.console.terminal import Terminal

bench_app = typer.Typer()

_There = Literal["transformers"]
_TRAIN_THERE = typer.Option(help="Train the same shape there too, in turns, and print the ratio.")
_GENERATE_THERE = typer.Option(help="Generate with the same weights there too, in turns, and print the ratio.")
_TOKENIZE_THERE = typer.Option(help="Tokenize with datasets.map and its tokenizer too, and print the ratio.")
_FILES = "Files, globs, -, builtin:NAME or hf:owner/name\\[:config]\\[@split]."
_SOURCE = typer.Argument(metavar="SOURCE", help=_FILES, show_default="builtin:stories")
_TOKENIZER = "A tokenizer.json or a run."
_WEIGHTS = "Of the weights, on both sides; int8: tfcli's alone."
Rounds = Annotated[int, typer.Option(min=1, help="Rounds to measure, after one to warm up.")]


@bench_app.command("train")
@command
def bench_train(
    terminal: Terminal,
    asked: Annotated[Asked, ("vocab_size",), SHAPE, SIZES, ("batch_size", "precision"), MACHINE],
    steps: Annotated[int, typer.Option(min=1, help="Steps to measure, after three that warm up.")] = 20,
    against: Annotated[_There | None, _TRAIN_THERE] = None,
    json: Json = False,
) -> None:
    """Measure how fast a recipe trains.

    Tokens a second, the spread of the step times, the share of this machine's
    fastest matrix product, and peak memory. The steps are those of `tfcli train`,
    on random ids: no text is read and nothing is written.

    Examples:

      tfcli bench train --size tiny
      tfcli bench train --preset gpt2 --size tiny --against transformers
    """
    from tfcli.bench.train import bench_training
    from tfcli.bench.view import TrainingSpeedView

    settings = with_vocabulary(terminal, recipe_from(asked))
    with terminal.progress() as tell:
        speed = bench_training(settings, steps, transformers=against is not None, tell=tell)
    terminal.result(speed, TrainingSpeedView, json=json)


@bench_app.command("generate")
@command
def bench_generate(
    terminal: Terminal,
    asked: Annotated[Asked, SHAPE, MACHINE],
    batch: Annotated[int, typer.Option(min=1, help="Prompts at once.")] = 1,
    prompt_tokens: Annotated[int, typer.Option(min=2, help="Tokens of each prompt.")] = 32,
    max_new_tokens: Annotated[int | None, usual("the recipe's, 128", "New tokens of each.", min=1)] = None,
    beam: Annotated[int | None, usual("the recipe's, 1", "Beams; 1: greedy.", min=1)] = None,
    rounds: Rounds = 5,
    precision: Annotated[Literal["float32", "bfloat16", "int8"], typer.Option(help=_WEIGHTS)] = "float32",
    against: Annotated[_There | None, _GENERATE_THERE] = None,
    json: Json = False,
) -> None:
    """Measure how fast a recipe's model generates.

    Tokens a second, the time of a token, the share of this machine's read
    bandwidth, and peak memory. Weights and prompts are random: no text is read,
    nothing is written, and no token ends a text.

    Examples:

      tfcli bench generate --size tiny
      tfcli bench generate --preset gpt2 --size tiny --against transformers
    """
    from tfcli.bench.generate import bench_generation
    from tfcli.bench.view import GenerationSpeedView
    from tfcli.bench.work import GenerationWork
    from tfcli.recipe.loading import generation_settings

    settings = recipe_from(asked)
    chosen = generation_settings(settings, {"max_new_tokens": max_new_tokens, "beam": beam})
    settings = with_vocabulary(terminal, settings)
    work = GenerationWork(batch, prompt_tokens, chosen.max_new_tokens, beam=chosen.beam, seed=settings.train.seed)
    how: Any = {"precision": precision, "transformers": against is not None}
    with terminal.progress() as tell:
        speed = bench_generation(settings, work, rounds, **how, tell=tell)
    terminal.result(speed, GenerationSpeedView, json=json)


@bench_app.command("data")
@command
def bench_data(
    terminal: Terminal,
    sources: Annotated[list[str] | None, _SOURCE] = None,
    tokenizer: Annotated[Path | None, usual("trained on the text", _TOKENIZER, metavar="FILE|RUN")] = None,
    context: Annotated[int, typer.Option(min=1, help="Tokens of the windows that --against cuts the text into.")] = 256,
    rounds: Rounds = 5,
    against: Annotated[_There | None, _TOKENIZE_THERE] = None,
    threads: Annotated[int, typer.Option(min=0, max=1024, help="CPU threads of each side; 0: one a core.")] = 0,
    json: Json = False,
) -> None:
    """Measure how fast text becomes a dataset of token ids.

    Bytes and tokens a second, and peak memory, of `tfcli prepare` beside the
    tokenizers library alone, which reads and writes nothing. What is written
    goes to a temporary folder.

    Examples:

      tfcli bench data
      tfcli bench data 'books/*.txt' --tokenizer tokenizer.json --against transformers
    """
    from tfcli.bench.data import bench_data
    from tfcli.bench.view import DataSpeedView

    how: Any = {"rounds": rounds, "context": context, "threads": threads, "transformers": against is not None}
    with terminal.progress() as tell:
        speed = bench_data(sources or ["builtin:stories"], tokenizer, **how, tell=tell)
    terminal.result(speed, DataSpeedView, json=json)


@bench_app.command("patch")
@command
def bench_patch(
    terminal: Terminal,
    asked: Annotated[Asked, SHAPE, MACHINE],
    tokens: Annotated[int, typer.Option(min=2, help="Tokens of each text, of either side.")] = 30,
    rounds: Rounds = 5,
    json: Json = False,
) -> None:
    """Measure how fast activations are patched.

    Every layer, position and head of `tfcli inspect patch` on two texts of
    random ids, beside one whole pass a patch, in turns, and the most that batches
    and the layers before a patch can save. Weights are random.

    Examples:

      tfcli bench patch --recipe quickstart
      tfcli bench patch --preset gpt2 --size tiny --tokens 100
    """
    from tfcli.bench.patch import bench_patching
    from tfcli.bench.view import PatchingSpeedView

    settings = with_vocabulary(terminal, recipe_from(asked))
    with terminal.progress() as tell:
        speed = bench_patching(settings, tokens, rounds, tell)
    terminal.result(speed, PatchingSpeedView, json=json)
