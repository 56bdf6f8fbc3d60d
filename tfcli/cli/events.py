"""What a command reports, each kind in its form: a drawing for people, a named line of JSON for programs."""

from typing import Any

from tfcli.cli.terminal import is_terminal
from tfcli.records.pipeline import StageStarted


def drawn(record: Any, *, translation: bool = False) -> Any:
    """The renderable of a record; a translation stands under its source, not behind it."""
    from rich.console import Group

    from tfcli.inspection.words import attention_in_words
    from tfcli.records.attention import AttentionRecord
    from tfcli.records.dataset import DatasetRecord
    from tfcli.records.evaluation import Scores
    from tfcli.records.generation import Filled, Generated
    from tfcli.records.pipeline import CheckResult
    from tfcli.records.positions import PositionsRecord
    from tfcli.records.tokenization import TokenizerReport
    from tfcli.render import checks, dataset
    from tfcli.render.attention.row import AttentionEnding
    from tfcli.render.evaluation import scores as evaluation
    from tfcli.render.generation import texts as generation
    from tfcli.render.positions import view as positions
    from tfcli.render.tokenization import tokens

    match record:
        case TokenizerReport():
            return tokens.tokenizer_view(record)
        case DatasetRecord():
            return dataset.DatasetView(record)
        case Scores():
            return evaluation.ScoresView(record)
        case Generated():
            return generation.GeneratedView(record, translation)
        case Filled():
            return generation.FilledView(record)
        case AttentionRecord():
            return AttentionEnding(attention_in_words(record), is_terminal())
        case PositionsRecord():
            return positions.PositionsView(record)
        case CheckResult():
            return checks.check_line(record)
        case list():
            return Group(*(drawn(one, translation=translation) for one in record))
    raise AssertionError(f"nothing draws a {type(record).__name__}")


def is_result(event: Any) -> bool:
    """Whether stdout gets it; what is made on the way there goes to stderr."""
    from tfcli.records.dataset import DatasetRecord
    from tfcli.records.tokenization import TokenizerReport

    return not isinstance(event, DatasetRecord | TokenizerReport)


def named(event: Any) -> dict[str, Any]:
    """The event as JSON that says under "event" what it is; training events say so themselves."""
    from tfcli.records.attention import AttentionRecord
    from tfcli.records.dataset import DatasetRecord
    from tfcli.records.evaluation import Scores
    from tfcli.records.generation import Filled
    from tfcli.records.pipeline import CheckResult
    from tfcli.records.positions import PositionsRecord
    from tfcli.records.tokenization import TokenizerReport
    from tfcli.render.as_json import to_json

    if isinstance(event, list):
        return {"event": "generated", "texts": to_json(event)}
    names = {
        StageStarted: "stage",
        TokenizerReport: "tokenizer",
        DatasetRecord: "dataset",
        Scores: "scores",
        Filled: "filled",
        AttentionRecord: "attention",
        PositionsRecord: "positions",
        CheckResult: "check",
    }
    name = names.get(type(event))
    return {"event": name, **to_json(event)} if name else to_json(event)
