"""The text that a run was trained on, opened again."""

from collections.abc import Iterator
from contextlib import contextmanager

from tfcli.addresses import AddressNeeded
from tfcli.corpora import Kind
from tfcli.corpora.split import TrainValidationSplit, open_split
from tfcli.recipe.loading import words_naming
from tfcli.recipe.recipe import Recipe
from tfcli.runs.directory import RunDirectory


@contextmanager
def naming_run(run: RunDirectory, recipe: Recipe) -> Iterator[None]:
    """Refuse the addresses of a run's text with the run and with the command that gives them."""
    try:
        yield
    except AddressNeeded as error:
        command = ["tfcli", "train", "--resume", str(run.path), *words_naming(recipe.data)]
        raise error.with_details(recipe=str(run.recipe), command=command) from error


def open_text_of_run(run: RunDirectory, recipe: Recipe, kind: Kind, *, as_before: bool = False) -> TrainValidationSplit:
    """The sources of a run's own recipe, divided as for its training.

    Args:
        run: The run.
        recipe: Its recipe.
        kind: What its objective learns from.
        as_before: Whether tables are read as versions before `data.header` read them.

    Raises:
        AddressNeeded: One of them is a network address that this user has never typed, or that lacks its secret.
    """
    with naming_run(run, recipe):
        return open_split(recipe.data, kind, as_before=as_before)
