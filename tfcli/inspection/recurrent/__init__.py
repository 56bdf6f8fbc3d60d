"""Bahdanau attention in recurrent networks (RNNs) beside a transformer, trained on the same pairs and compared."""

from dataclasses import dataclass

from tfcli.inspection.attention import AttentionRecord
from tfcli.records.evaluation import Interval


@dataclass(frozen=True)
class ComparedModel:
    """One of the three. A distance is the steps of recurrence between two words in the RNN without attention."""

    name: str
    parameters: int
    loss: float  # nats per token of held-out pairs
    interval: Interval | None  # of the loss
    step_seconds: float  # the median
    gradient: tuple[tuple[int, float], ...]  # distance, root mean square of ‖∂ logit of the right word / ∂ source word‖
    alignment: AttentionRecord | None  # of a translation: each word predicts the next


@dataclass(frozen=True)
class RecurrentRecord:
    """An RNN, one with attention and a transformer, after the same steps on the same batches; `pairs` are held out."""

    steps: int
    seed: int
    threads: int
    pairs: int
    models: tuple[ComparedModel, ...]
