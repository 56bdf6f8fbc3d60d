"""The entry point: the commands under their names."""

import json
import os
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

import typer

from tfcli.console.options import argument, command
from tfcli.console.signals import exit_codes
from tfcli.console.terminal import Lossy, Named, Terminal
from tfcli.console.usage import group, leave_out_what_help_never_draws, root_class

_HELP = """Transformers from the terminal: train, generate, score and look inside.

Begin with one of these:

  tfcli run quickstart                a small model in 1 to 2 minutes
  tfcli train mytext.txt              one of your own text
  tfcli explain attention "It fell"   every matrix, without a model
"""


def _show_version(wanted: bool) -> None:
    if wanted:
        import tfcli

        typer.echo(f"tfcli {tfcli.__version__}")
        raise typer.Exit


def _root(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    """Nothing is shared by all commands but --version."""


@command
def completion(
    terminal: Terminal,
    shell: Annotated[Literal["bash", "zsh", "fish"], argument(metavar="bash|zsh|fish", help="Your shell.")],
) -> None:
    """Print what turns completion on: commands, options, keys, recipes, runs.

    Once, into the file that the shell reads when it begins; new shells know
    it then:

      tfcli completion bash >> ~/.bashrc
      tfcli completion zsh >> ~/.zshrc
      tfcli completion fish > ~/.config/fish/completions/tfcli.fish
    """
    # The shell asks `tfcli` with the line up to the cursor; __main__.py answers before it loads the commands.
    terminal.write(Path(__file__).with_name(f"completion.{shell}").read_text(encoding="utf-8"))


_COMMANDS: dict[str, str | typer.Typer] = {
    "run": "tfcli.cli.run:run",
    "recipes": group("tfcli.recipe.command:recipes_app", "List and show the shipped recipes."),
    "runs": group("tfcli.runs.command:runs_app", "List runs, show one with its curves, compare several."),
    "tokenize": group(
        "tfcli.tokenization.command:tokenize_app", "Train a tokenizer; turn text into token ids and back."
    ),
    "data": group("tfcli.inspection.corpus.command:data_app", "Look at a corpus before anything is trained on it."),
    "prepare": "tfcli.data.command:prepare",
    "train": "tfcli.cli.train:train",
    "plan": "tfcli.planning.command:plan",
    "generate": "tfcli.generation.command:generate",
    "evaluate": "tfcli.evaluation.command:evaluate",
    "embed": "tfcli.inspection.embeddings.command:embed",
    "inspect": group("tfcli.cli.inspect:inspect_app", "Look inside a model, with or without a run."),
    "explain": group(
        "tfcli.inspection.explain.command:attention masking positions layer decoding",
        "Go through a computation step by step, with every matrix.",
    ),
    "lectures": group(
        "tfcli.cli.lectures:lectures_app", "Five lectures: every idea with the command that shows it.", alone="show"
    ),
    "explore": "tfcli.explorer.command:explore",
    "doctor": "tfcli.doctor.command:doctor",
    "cache": group(
        "tfcli.data.command:cache_app", "Prepared datasets and tokenizers that runs share: list them, remove them."
    ),
    "bench": group("tfcli.bench.command:bench_app", "Measure speed on this machine."),
    "verify": "tfcli.verification.command:verify",
    "import": "tfcli.interop.command:import_",
    "export": "tfcli.interop.command:export",
    "completion": "tfcli.cli.main:completion",
}


def commands(wanted: str | None = None) -> typer.Typer:
    """The commands under their names. Where one is `wanted`, the others are not loaded: their help has one line."""
    app = typer.Typer(
        name="tfcli",
        cls=root_class(commands),
        help=_HELP,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    known = {} if wanted is None else json.loads(Path(__file__).with_name("commands.json").read_text(encoding="utf-8"))
    for name, found in _COMMANDS.items():
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        elif wanted in (None, name):
            module, _, function = found.partition(":")
            app.command(name)(getattr(import_module(module), function))
        else:
            app.command(name, help=known["commands"][name]["help"])(lambda: None)
    return app


def main() -> None:
    """Run the command line and exit with the documented code."""
    # A stream that the caller has closed (`>&-`) is None: what is meant for it is written nowhere, and nothing is read.
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: PTH123, SIM115
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal's encoding lacks is shown as "?", and stops nothing.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    if not re.fullmatch("0*[1-9][0-9]{0,3}", os.environ.get("COLUMNS", "80")):
        del os.environ["COLUMNS"]  # no width that anything could be shown in
    sys.stdout, sys.stderr = Named(sys.stdout), Lossy(sys.stderr)
    if sys.argv[1:] in (["--help"], ["-h"], ["help"], []):
        leave_out_what_help_never_draws()
    with exit_codes(Terminal()):
        commands(next((word for word in sys.argv[1:] if word in _COMMANDS), ""))(prog_name="tfcli")
