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
for _command in (
    attention,
    positions,
    predictions,
    losses,
    lens,
    attribution,
    training,
    cost,
    neighbours,
    heads,
    equivariance,
    model,
    tokens,
    scaling,
    gradients,
):
    inspect_app.command()(_command)
