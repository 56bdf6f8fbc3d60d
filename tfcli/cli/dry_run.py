"""``--dry-run``: the shapes, parameters, operations and memory estimate of a training that is not begun."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tfcli.cli.terminal import Terminal

if TYPE_CHECKING:
    from tfcli.recipe.recipe import Recipe


def show_plan(
    terminal: Terminal,
    recipe: "Recipe",
    *,
    out: Path | None,
    json: bool,
    init: Path | None = None,
    preset: str | None = None,
    size: str | None = None,
) -> None:
    """Print the shapes, the parameters, the operations and the memory of a training, and its recipe with --verbose.

    What the machine decides is decided as the training would; nothing is begun.

    Args:
        init: the run whose weights would be taken, and its tokenizer with them.
        preset, size: as they were asked for; what of the preset is not its paper's is said.

    Raises:
        TfcliError: the training would refuse to begin.
    """
    from tfcli.data.dataset import PreparedDataset
    from tfcli.models.presets import APART
    from tfcli.pipeline.datasets import prepared_folder
    from tfcli.pipeline.training import require_trainable
    from tfcli.planning.outline import outline
    from tfcli.recipe.saving import to_toml
    from tfcli.render.planning import OutlineView
    from tfcli.training.assembly import decide_for_machine
    from tfcli.training.job import with_batches

    tokenizer = require_trainable(recipe, out, init)
    recipe = recipe.resolved()
    if tokenizer is not None and (prepared := prepared_folder(recipe.data)) is not None:
        recipe = replace(recipe, train=with_batches(recipe, PreparedDataset.open(prepared), tokenizer.roles))
    # A tokenizer that is yet to be trained may come out smaller than asked for; this is the most it can be.
    ids = recipe.tokenizer.vocab_size if tokenizer is None else tokenizer.vocab_size
    model = replace(recipe.model, vocab_size=recipe.model.vocab_size or ids)
    decided = replace(recipe, model=model, train=decide_for_machine(model, recipe.train))
    result = outline(
        decided,
        vocab_size_is_most=tokenizer is None and recipe.model.vocab_size is None,
        roles=tokenizer.roles if tokenizer else None,
    )
    apart = APART.get(preset or "", ())
    if apart and size:
        apart = (f"--size {size} has a shape, steps, batch and learning rate of its own", *apart)
    if json:
        terminal.json({**asdict(result), "apart": apart, "recipe": asdict(recipe)})
        return
    terminal.detail(to_toml(recipe))
    terminal.show(OutlineView(result))
    for one in apart:
        terminal.note(f"{preset}, apart from the paper: {one}.")
