"""``tfcli explain``: computations step by step."""

import typer

from tfcli.inspection.explain.command import attention, decoding, layer, masking, positions

explain_app = typer.Typer()
for _command in (attention, masking, positions, layer, decoding):
    explain_app.command()(_command)
