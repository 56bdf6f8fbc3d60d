"""The entry point: the commands, and the one place where errors become a sentence and an exit code."""

import os
import sys

import typer

from tfcli.cli.evaluate import evaluate
from tfcli.cli.generate import generate
from tfcli.cli.inspect import inspect_app
from tfcli.cli.prepare import prepare
from tfcli.cli.recipes import recipes_app
from tfcli.cli.run import run
from tfcli.cli.signals import INTERRUPTED
from tfcli.cli.terminal import Terminal
from tfcli.cli.tokenize import tokenize_app
from tfcli.cli.train import train
from tfcli.errors import TfcliError

app = typer.Typer(
    name="tfcli",
    help="Transformers from the terminal: train, generate, score and look inside.\n\n"
    "Start with: tfcli run quickstart",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        import tfcli

        typer.echo(f"tfcli {tfcli.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    """Nothing is shared by all commands but --version."""


app.command("run")(run)
app.add_typer(recipes_app, name="recipes")
app.add_typer(tokenize_app, name="tokenize")
app.command("prepare")(prepare)
app.command("train")(train)
app.command("generate")(generate)
app.command("evaluate")(evaluate)
app.add_typer(inspect_app, name="inspect")


def main() -> None:
    """Run the command line and exit with the documented code."""
    try:
        app()
    except TfcliError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        _fail("Stopped; nothing is left half-written.", INTERRUPTED)
    except BrokenPipeError:
        # The reader has gone (`| head`): the end of the output is no error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except MemoryError:
        _fail("There is not enough memory; use a smaller model, batch or context.", 1)


def _fail(sentence: str, exit_code: int) -> None:
    if "--debug" in sys.argv:
        raise  # noqa: PLE0704 (called from the handler above, to show the traceback)
    from tfcli.render.safe import printable

    Terminal().err.print(f"tfcli: {printable(sentence)}", markup=False, highlight=False, soft_wrap=True)
    raise SystemExit(exit_code)
