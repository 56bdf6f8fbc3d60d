"""``tfcli train --dry-run``: what would be trained."""

from typing import TYPE_CHECKING

from tfcli.cli.terminal import Terminal

if TYPE_CHECKING:
    from tfcli.recipe.recipe import Recipe


def show_plan(terminal: Terminal, recipe: "Recipe", json: bool) -> None:
    """Print the resolved recipe, and the parameters and tokens that follow from it."""
    from dataclasses import asdict, replace

    import torch

    from tfcli.models.build import ARCHITECTURES
    from tfcli.recipe.saving import to_toml
    from tfcli.render.numbers import short

    recipe = recipe.resolved()
    model = recipe.model
    # The tokenizer may come out smaller than asked for; this is the most it can be.
    section = replace(model, vocab_size=model.vocab_size or recipe.tokenizer.vocab_size)
    with torch.device("meta"):
        parameters = ARCHITECTURES[section.architecture](section).num_parameters()
    train = recipe.train
    sequences = train.batch_size * train.grad_accumulation
    tokens = sequences * (train.context or model.max_seq_len) * train.steps
    if json:
        terminal.json({"parameters": parameters, "tokens": tokens, "steps": train.steps, "recipe": asdict(recipe)})
        return
    terminal.text(to_toml(recipe))
    steps = f"{train.steps} steps of {sequences} sequences, {short(tokens)} tokens at most"
    terminal.text(f"# {short(parameters)} parameters; {steps}")
