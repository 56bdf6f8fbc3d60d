"""``tfcli inspect equivariance``: what a model makes of the order of its tokens."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tfcli.cli.inspect.subject import RunOrRecipe
from tfcli.cli.options import Checkpoint, Json, Seed, Set, command
from tfcli.cli.pictures import Csv, Html, Outputs, Svg, present
from tfcli.cli.terminal import Terminal
from tfcli.cli.train import Arch, Preset, Size

if TYPE_CHECKING:
    from tfcli.models.transformer import Transformer

_TEXT = "The man ate the fish"


@command
def equivariance(
    terminal: Terminal,
    run: RunOrRecipe = None,
    texts: Annotated[
        list[str] | None,
        typer.Option(
            "--text", metavar="TEXT", help="The text; twice: the same tokens in two orders.", show_default=_TEXT
        ),
    ] = None,
    perturb: Annotated[
        int | None,
        typer.Option("--perturb", metavar="TOKEN", min=0, help="Change this token, from 0: which rows move?"),
    ] = None,
    permutations: Annotated[int, typer.Option("--permutations", min=1, max=10_000, help="Random orders to try.")] = 10,
    arch: Arch = None,
    preset: Preset = None,
    size: Size = None,
    assignments: Set = None,
    checkpoint: Checkpoint = "best",
    seed: Seed = None,
    csv: Csv = False,
    svg: Svg = None,
    html: Html = None,
    json: Json = False,
) -> None:
    """Show what a model makes of the order of its tokens.

    Without positions and mask, permuting the input permutes the output: measured
    on a run, or on random weights of any shape, where a token is a word.
    --perturb follows one token through the layers: attention mixes tokens, the
    MLP works on each alone. Two texts of the same tokens are compared token by
    token. Of an encoder-decoder the encoder is looked at.

    Examples:

      tfcli inspect equivariance --arch encoder --size tiny
      tfcli inspect equivariance runs/decoder-1 --text "Tom swam" --perturb 1
      tfcli inspect equivariance --size tiny --text "man ate fish" --text "fish ate man"
    """
    from tfcli.cli.inspect.subject import refuse_beside_run
    from tfcli.cli.stdin import read_text
    from tfcli.errors import UsageError

    outputs = Outputs(json=json, csv=csv, svg=svg, html=html)
    given = [read_text(text) for text in texts or [_TEXT]]
    if len(given) > 2:
        raise UsageError(f"{len(given)} texts are more than two orders of the same tokens", "give --text at most twice")
    if len(given) == 2 and perturb is not None:
        raise UsageError("--perturb follows a token of one text", "give --text once")
    if run is not None:
        shape: dict[str, object] = {"--arch": arch, "--preset": preset, "--size": size, "--set": assignments}
        refuse_beside_run(run, shape)
        model, tokens = _of_run(run, checkpoint, given)
        name = str(run)
    else:
        model, tokens = _of_words(arch, preset, size, assignments, seed, given)
        name = "random weights"
    _show(terminal, outputs, model, tokens, name, perturb, permutations, seed or 0)


Tokens = list[tuple[tuple[int, ...], tuple[str, ...]]]
"""Ids and labels of each text."""


def _show(
    terminal: Terminal,
    outputs: Outputs,
    model: "Transformer",
    tokens: Tokens,
    name: str,
    perturb: int | None,
    permutations: int,
    seed: int,
) -> None:
    from rich.console import Group
    from rich.text import Text

    from tfcli.inspection.equivariance.permutations import equivariance as compute
    from tfcli.inspection.equivariance.perturbation import perturbation
    from tfcli.inspection.equivariance.two_orders import order
    from tfcli.render.as_json import to_json
    from tfcli.render.equivariance.permutations import EquivarianceView, equivariance_table
    from tfcli.render.equivariance.perturbation import PerturbationView, perturbation_table
    from tfcli.render.equivariance.two_orders import OrderView, order_table

    record = compute(model, *tokens[0], name, permutations=permutations, seed=seed)
    parts: list[Any] = [EquivarianceView(record)]
    pushed = reordered = None
    table = equivariance_table(record)
    if perturb is not None:
        pushed = perturbation(model, *tokens[0], name, perturb, seed=seed)
        parts += [Text(), PerturbationView(pushed)]
        table = perturbation_table(pushed)
    if len(tokens) == 2:
        (first, labels), (second, others) = tokens
        reordered = order(model, first, second, (labels, others), name)
        parts += [Text(), OrderView(reordered)]
        table = order_table(reordered)

    def as_json() -> Any:
        return {
            **to_json(record),
            "perturbation": pushed and to_json(pushed),
            "order": reordered and to_json(reordered),
        }

    present(terminal, outputs, Group(*parts), json=as_json, table=lambda: table)


def _of_run(path: Path, checkpoint: str, texts: list[str]) -> "tuple[Transformer, Tokens]":
    """A run, and the ids that it reads of the texts."""
    from tfcli.inspection.reading import read_text
    from tfcli.runs.load import load_run

    run = load_run(path, checkpoint)
    target = "" if run.architecture == "encoder-decoder" else None  # the encoder alone is looked at
    inputs = [read_text(run, text, target) for text in texts]
    ids = [one.encoder or one.decoder or () for one in inputs]
    return run.model, [(one, tuple(run.tokenizer.labels(one))) for one in ids]


def _of_words(
    arch: str | None,
    preset: str | None,
    size: str | None,
    assignments: list[str] | None,
    seed: int | None,
    texts: list[str],
) -> "tuple[Transformer, Tokens]":
    """A freshly initialised model whose vocabulary is the words of the texts."""
    from dataclasses import replace

    from tfcli.cli.settings import recipe_from
    from tfcli.errors import UsageError
    from tfcli.models.build import build_model

    words = [tuple(text.split()) for text in texts]
    numbers = {word: number for number, word in enumerate(dict.fromkeys(word for text in words for word in text))}
    recipe = recipe_from(arch=arch, preset=preset, size=size, assignments=assignments, seed=seed)
    longest = max(map(len, words))
    if longest > recipe.model.max_seq_len:
        raise UsageError(
            f"The text has {longest} words and the context holds {recipe.model.max_seq_len}", "shorten the text"
        )
    section = replace(recipe.model, vocab_size=max(len(numbers), 1))
    model = build_model(section, recipe.train.seed).eval()
    return model, [(tuple(numbers[word] for word in text), text) for text in words]
