"""What ``tfcli inspect attention`` shows of the records it has."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfcli.cli.inspect.attention_options import Choice
    from tfcli.inspection.reading import Inputs
    from tfcli.records.attention import AttentionRecord
    from tfcli.render.attention.forms import Forms
    from tfcli.runs.load import LoadedRun


def shown_heads(records: "Sequence[AttentionRecord]", choice: "Choice") -> "Forms":
    """Weights, or scores beside them, or the strongest weights; of an encoder-decoder, of its cross-attention."""
    from tfcli.inspection.attention.edges import strongest_edges
    from tfcli.render.attention.forms import edges_forms, heads_forms

    if choice.top_k is not None:
        return edges_forms(strongest_edges(records[-1], *records[-1].focus, choice.top_k))
    return heads_forms(records, choice.layer, choice.head, scores=choice.scores, kept=choice.first)


def shown_row(
    run: "LoadedRun", inputs: "Inputs", whole: "AttentionRecord", record: "AttentionRecord", choice: "Choice"
) -> "Forms":
    """Where one query looks, and what the model predicts behind it, where it predicts the next token.

    Args:
        record: the row of `whole`, which is the record of the whole text in tokens.
    """
    from tfcli.inspection.predictions.predictions import candidates_at
    from tfcli.render.attention.forms import row_forms

    at = whole.query_words[record.rows[0]].places[-1] if choice.words else record.rows[0]
    predicts = whole.kind != "encoder_self" and run.config.model.head != "none"
    return row_forms(record, candidates_at(run, inputs, at) if predicts else (), choice.layer, choice.head)


def require_few(records: "Sequence[AttentionRecord]", choice: "Choice", form: str) -> None:
    """Refuse to print more numbers than anything could read.

    Raises:
        UsageError: naming the count and the limit.
    """
    from tfcli.errors import UsageError
    from tfcli.render.attention.forms import MOST_NUMBERS

    numbers = sum(record.narrowed(choice.layer, choice.head).weights.size for record in records)
    if numbers > MOST_NUMBERS:
        raise UsageError(
            f"{numbers:,} weights are too many for {form} (at most {MOST_NUMBERS:,})",
            "choose --layer and --head, or --rows and --columns, or write them with --npz FILE",
        )
