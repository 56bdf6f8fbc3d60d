"""``tfcli inspect``: what is inside."""

import typer

from tfcli.cli.inspect.attention import attention
from tfcli.cli.inspect.attribution import attribution
from tfcli.cli.inspect.cost import cost
from tfcli.cli.inspect.equivariance import equivariance
from tfcli.cli.inspect.gradients import gradients
from tfcli.cli.inspect.heads import heads
from tfcli.cli.inspect.lens import lens
from tfcli.cli.inspect.losses import losses
from tfcli.cli.inspect.model import model
from tfcli.cli.inspect.neighbours import neighbours
from tfcli.cli.inspect.positions import positions
from tfcli.cli.inspect.predictions import predictions
from tfcli.cli.inspect.scaling import scaling
from tfcli.cli.inspect.tokens import tokens
from tfcli.cli.inspect.training import training

inspect_app = typer.Typer()
inspect_app.command("attention")(attention)
inspect_app.command("positions")(positions)
inspect_app.command("predictions")(predictions)
inspect_app.command("losses")(losses)
inspect_app.command("lens")(lens)
inspect_app.command("attribution")(attribution)
inspect_app.command("training")(training)
inspect_app.command("cost")(cost)
inspect_app.command("neighbours")(neighbours)
inspect_app.command("heads")(heads)
inspect_app.command("equivariance")(equivariance)
inspect_app.command("model")(model)
inspect_app.command("tokens")(tokens)
inspect_app.command("scaling")(scaling)
inspect_app.command("gradients")(gradients)
