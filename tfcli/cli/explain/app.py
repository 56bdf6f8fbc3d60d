"""``tfcli explain``: computations step by step."""

import typer

from tfcli.cli.explain.attention import attention
from tfcli.cli.explain.decoding import decoding
from tfcli.cli.explain.layer import layer
from tfcli.cli.explain.masking import masking
from tfcli.cli.explain.positions import positions

explain_app = typer.Typer()
for _command in (attention, masking, positions, layer, decoding):
    explain_app.command()(_command)
