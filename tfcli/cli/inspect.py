"""``tfcli inspect``: what is inside."""

import typer

from tfcli.inspection.ablation.command import ablate
from tfcli.inspection.attention.command import attention
from tfcli.inspection.attribution.command import attribution
from tfcli.inspection.circuits.command import circuits
from tfcli.inspection.cost.command import cost
from tfcli.inspection.embeddings.command import embeddings, neighbours, tokens
from tfcli.inspection.equivariance.command import equivariance
from tfcli.inspection.gradients.command import gradients
from tfcli.inspection.heads.command import heads
from tfcli.inspection.model.command import model
from tfcli.inspection.patching.command import patch
from tfcli.inspection.positions.command import positions
from tfcli.inspection.predictions.command import lens, losses, predictions
from tfcli.inspection.probe.command import probe
from tfcli.inspection.recurrent.command import recurrent
from tfcli.inspection.scaling.command import scaling
from tfcli.inspection.steer.command import steer
from tfcli.runs.command import training

inspect_app = typer.Typer()
for _command in (
    *(attention, positions, predictions, losses, lens, attribution, ablate, patch, steer, circuits, training, cost),
    *(neighbours, embeddings, probe, heads, equivariance, model, tokens, scaling, gradients, recurrent),
):
    inspect_app.command()(_command)
