"""Benchmark protocol: what a benchmark and its sides say to each other: a JSON object a line.

    {"open": "tfcli", "recipe": {…}}       → {"model": "decoder", "parameters": 842368, …}
    {"do": "step"}                         → {"seconds": 0.217, "loss": 4.17}
    {"do": "stop"}                         → {"memory": 531628032}, and the side's process ends

Whatever fails is answered by {"problem": …, "remedy": …, "exit_code": 1}.
"""

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

Answer = dict[str, Any]
"""One line, as JSON has it."""


class Side(Protocol):
    """What a side's process builds at "open"."""

    @property
    def device(self) -> "torch.device | None":
        """Whose memory is measured; None: the machine's, of a side without PyTorch."""

    def about(self) -> Answer:
        """What it is."""

    def step(self) -> Answer:
        """Do what is measured, once, and wait for it."""
