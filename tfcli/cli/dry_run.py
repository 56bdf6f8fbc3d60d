"""``tfcli train --dry-run``: what would be trained."""

from pathlib import Path
from typing import TYPE_CHECKING

from tfcli.cli.terminal import Terminal

if TYPE_CHECKING:
    from tfcli.recipe.recipe import Recipe


def show_plan(terminal: Terminal, recipe: "Recipe", init: Path | None, json: bool) -> None:
    """Print the resolved recipe, and the parameters and tokens that follow from it.

    Args:
        init: the run whose weights would be taken, and its tokenizer with them.
    """
    from dataclasses import asdict, replace

    from tfcli.models.build import weightless
    from tfcli.recipe.saving import to_toml
    from tfcli.render.numbers import short
    from tfcli.tokenization.load import load_tokenizer

    recipe = recipe.resolved()
    model = recipe.model
    found = _tokenizer_path(recipe, init)
    # A tokenizer that is yet to be trained may come out smaller than asked for; this is the most it can be.
    ids = recipe.tokenizer.vocab_size if found is None else load_tokenizer(found).vocab_size
    section = replace(model, vocab_size=model.vocab_size or ids)
    parameters = weightless(section).num_parameters()
    train = recipe.train
    sequences = train.batch_size * train.grad_accumulation
    tokens = sequences * (train.context or model.max_seq_len) * train.steps
    if json:
        figures = {"parameters": parameters, "vocab_size": section.vocab_size, "tokens": tokens, "steps": train.steps}
        terminal.json({**figures, "recipe": asdict(recipe)})
        return
    terminal.text(to_toml(recipe))
    steps = f"{train.steps} steps of {sequences} sequences, {short(tokens)} tokens at most"
    assumed = " at most" if found is None and model.vocab_size is None else ""
    terminal.text(f"# {short(parameters)} parameters with a vocabulary of {section.vocab_size}{assumed}; {steps}")


def _tokenizer_path(recipe: "Recipe", init: Path | None) -> Path | None:
    """The tokenizer that is there already; None where one would be trained."""
    from tfcli.pipeline.datasets import prepared_folder
    from tfcli.runs.directory import existing_run

    initial = init or recipe.train.init
    if initial is not None:
        return existing_run(Path(initial)).tokenizer
    if recipe.tokenizer.path is not None:
        return Path(recipe.tokenizer.path)
    return prepared_folder(recipe.data)
