"""``tfcli inspect equivariance``, permutation equivariance: what a model makes of the order of its tokens."""

from typing import Annotated, Any

import typer

from tfcli.console.options import Outputs, RunOrRecipe, Seed, Weights, command, present, refuse_beside_run, use_threads
from tfcli.console.settings import Asked, recipe_from
from tfcli.console.stdin import read_text
from tfcli.console.terminal import Terminal
from tfcli.errors import UsageError

_TEXT = "The man ate the fish"
_TWICE = "The text; twice: the same tokens in two orders."


@command
def equivariance(
    terminal: Terminal,
    outputs: Outputs,
    asked: Annotated[Asked, ("arch", "preset", "size", "assignments")],
    *,
    run: RunOrRecipe = None,
    texts: Annotated[list[str] | None, typer.Option("--text", metavar="TEXT", help=_TWICE, show_default=_TEXT)] = None,
    perturb: Annotated[int | None, typer.Option(metavar="TOKEN", min=0, help="Change it, from 0: what moves?")] = None,
    permutations: Annotated[int, typer.Option(min=1, max=10_000, help="Random orders to try.")] = 10,
    weights: Weights,
    seed: Seed = None,
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
    from rich.console import Group
    from rich.text import Text

    from tfcli.draw.tables import to_json
    from tfcli.inspection.equivariance import compute, view
    from tfcli.inspection.passes import text_ids
    from tfcli.models.device import choose_device

    given = [read_text(text) for text in texts or [_TEXT]]
    if len(given) > 2:
        raise UsageError(f"{len(given)} texts are more than two orders of the same tokens", "give --text at most twice")
    if len(given) == 2 and perturb is not None:
        raise UsageError("--perturb follows a token of one text", "give --text once")
    if run is not None:
        refuse_beside_run(run, asked)
        loaded = weights.load(run)
        ids = [text_ids(loaded, text) for text in given]
        model, read = loaded.model, [(one, tuple(loaded.tokenizer.labels(one))) for one in ids]
    else:
        use_threads(weights.threads)
        recipe = recipe_from(asked)
        model, read = compute.model_of_words(recipe.model, given, recipe.train.seed if seed is None else seed)
        model = model.to(choose_device(weights.device))
    name = "random weights" if run is None else str(run)
    record = compute.equivariance(model, *read[0], name, permutations=permutations, seed=seed or 0)
    parts: list[Any] = [view.EquivarianceView(record)]
    more, table = {"perturbation": None, "order": None}, view.equivariance_table(record)
    if perturb is not None:
        pushed = compute.perturbation(model, *read[0], name, perturb, seed=seed or 0)
        parts += [Text(), view.PerturbationView(pushed)]
        more["perturbation"], table = to_json(pushed), view.perturbation_table(pushed)
    if len(read) == 2:
        reordered = compute.order(model, read[0], read[1], name)
        parts += [Text(), view.OrderView(reordered)]
        more["order"], table = to_json(reordered), view.order_table(reordered)
    present(terminal, outputs, Group(*parts), record, lambda _: table, json=lambda one: to_json(one) | more)
