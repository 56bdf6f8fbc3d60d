"""``tfcli inspect``: what is inside."""

import typer

from tfcli.cli.inspect.attention import attention
from tfcli.cli.inspect.positions import positions

inspect_app = typer.Typer(help="Look inside a model: attention, positions.", no_args_is_help=True, add_completion=False)
inspect_app.command("attention")(attention)
inspect_app.command("positions")(positions)
