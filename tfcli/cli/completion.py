"""``tfcli completion``: what makes a shell complete commands, options, keys and names."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tfcli.console.options import command
from tfcli.console.terminal import Terminal


@command
def completion(
    terminal: Terminal,
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(metavar="bash|zsh|fish", help="Your shell.", show_default=False)
    ],
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
