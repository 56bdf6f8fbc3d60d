"""``tfcli explain``: computations step by step."""

import typer

from tfcli.cli.explain.attention import attention
from tfcli.cli.explain.masking import masking
from tfcli.cli.explain.positions import positions

explain_app = typer.Typer(
    help="Go through a computation step by step, with every matrix.", no_args_is_help=True, add_completion=False
)
explain_app.command("attention")(attention)
explain_app.command("masking")(masking)
explain_app.command("positions")(positions)
