"""``tfcli explain``: computations step by step."""

import typer

from tfcli.cli.explain.attention import attention
from tfcli.cli.explain.decoding import decoding
from tfcli.cli.explain.layer import layer
from tfcli.cli.explain.masking import masking
from tfcli.cli.explain.positions import positions

explain_app = typer.Typer()
explain_app.command("attention")(attention)
explain_app.command("masking")(masking)
explain_app.command("positions")(positions)
explain_app.command("layer")(layer)
explain_app.command("decoding")(decoding)
