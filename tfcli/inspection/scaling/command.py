"""``tfcli inspect scaling``, softmax saturation: why scores are divided by √D_k."""

from typing import Annotated

import typer

from tfcli.console.options import Outputs, command, present
from tfcli.console.terminal import Terminal
from tfcli.errors import UsageError

_MOST = 250_000  # products for each D_k: some seconds' worth


@command
def scaling(
    terminal: Terminal,
    outputs: Outputs,
    queries: Annotated[int, typer.Option(min=2, max=100_000, help="Queries drawn for each D_k.")] = 1000,
    keys: Annotated[int, typer.Option(min=2, max=10_000, help="Keys that each query meets.")] = 32,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
) -> None:
    """Measure what dividing the scores by √D_k does, for D_k = 4 to 1024.

    Random queries and keys: the variance of their products, which is D_k, and of
    the softmax over them the largest weight, the gradient and the entropy, once
    unscaled and once scaled.

    Examples:

      tfcli inspect scaling
      tfcli inspect scaling --keys 8 --queries 200 --csv
    """
    from tfcli.inspection.scaling.compute import measured_scaling
    from tfcli.inspection.scaling.view import ScalingView, scaling_table

    if queries * keys > _MOST:
        asked = f"--queries {queries} and --keys {keys} are {queries * keys:,} products for each D_k"
        raise UsageError(f"{asked}, and {_MOST:,} take seconds", "lower one of the two")
    record = measured_scaling(queries, keys, seed)
    present(terminal, outputs, ScalingView(record), record, scaling_table)
