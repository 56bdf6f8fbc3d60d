"""All of one run: what it is made of, how far it came, and its curves."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from tfcli.records.runs import EvaluationPoint, RunDetail, RunSummary, RunText
from tfcli.render.numbers import duration, exact, percent, plural, short
from tfcli.render.runs.curves import run_plots
from tfcli.render.safe import printable

_MOST_SPIKES = 6
_OF = {"moving_average": " of the moving average", "checkpoints": " of the last checkpoints' mean"}


@dataclass(frozen=True)
class RunView:
    """A run's page."""

    run: RunDetail

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _title(self.run.summary)
        yield _grid(_facts(self.run))
        if self.run.settings:
            yield Text("\nSettings that are not the default", style="bold")
            yield _settings(self.run)
        for plot in run_plots(self.run.history):
            yield ""
            yield plot
        if self.run.kept:
            yield Text("\nOn the disk", style="bold")
            yield _grid((kept.name, short(kept.bytes, "B")) for kept in self.run.kept)


def _title(summary: RunSummary) -> Text:
    about = [summary.architecture or "-", summary.state]
    if summary.parameters is not None:
        about.insert(1, f"{short(summary.parameters)} parameters")
    about.append(f"{duration(summary.age_seconds)} old")
    return Text.assemble((printable(summary.name), "bold"), (f"  {', '.join(about)}", "dim"))


def _grid(rows: Any) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(Text(printable(name), "dim"), Text(printable(value)))
    return grid


def _settings(run: RunDetail) -> Table:
    grid = _grid(())
    grid.add_column(no_wrap=True)
    for setting in run.settings:
        default = Text(f"not {value_text(setting.default)}" if setting.default is not None else "", "dim")
        grid.add_row(Text(setting.key, "dim"), Text(value_text(setting.value)), default)
    return grid


def _facts(run: RunDetail) -> Iterator[tuple[str, str]]:
    summary, history = run.summary, run.history
    if run.origin is not None:
        yield "imported from", run.origin
    if run.text is not None:
        yield "text", _text(run.text)
    yield "tokenizer", _tokenizer(run)
    yield "model", model_text(run.model)
    if summary.total_steps is not None:
        yield "training", _training(summary)
    if history.best is not None:
        bits = f", {run.bits_per_byte:.4f} bits per byte" if run.bits_per_byte is not None else ""
        yield "best", _evaluation(history.best) + bits
        last = (history.whole or history.validation)[-1]
        if last != history.best:
            yield "last", _evaluation(last)
    if history.padding:
        yield "padding", f"{percent(history.padding)} of the places in batches"
    spikes = [point.step for point in history.training if point.spike]
    if spikes:
        more = f" and {len(spikes) - _MOST_SPIKES} more" if len(spikes) > _MOST_SPIKES else ""
        yield "spikes", f"at step {', '.join(map(exact, spikes[:_MOST_SPIKES]))}{more}"
    for change in history.changes:
        was, now = value_text(change.from_), value_text(change.to)
        rates = ""
        if change.rate_before is not None and change.rate_after is not None:
            rates = f" (learning rate {change.rate_before:.2e}, then {change.rate_after:.2e})"
        yield "changed", f"after step {exact(change.step)}: {change.key} from {was} to {now}{rates}"


def _text(text: RunText) -> str:
    counts = f"{plural(text.train_documents, 'document')}, {exact(text.validation_documents)} more for validation"
    return f"{', '.join(text.sources)} ({counts}; split {text.split})"


def _tokenizer(run: RunDetail) -> str:
    tokenizer = run.tokenizer
    words = [tokenizer.algorithm or "", f"{exact(tokenizer.vocab_size)} ids" if tokenizer.vocab_size else ""]
    return ", ".join(word for word in words if word) + f" ({tokenizer.fingerprint})"


def model_text(model: Mapping[str, Any]) -> str:
    """A model in a line or two."""
    heads = f"{model['num_heads']} heads"
    if model.get("num_kv_heads") not in (None, model["num_heads"]):
        heads += f" ({model['num_kv_heads']} for keys)"
    parts = (
        f"{plural(model['num_layers'], 'layer')} of {model['d_model']}, {heads}, context {model['max_seq_len']}",
        f"{model['positions']} positions",
        f"{model['norm']} ({model['norm_placement']})",
        f"{model['activation']}",
    )
    return ", ".join(parts)


def _training(summary: RunSummary) -> str:
    text = f"{exact(summary.step or 0)} of {exact(summary.total_steps or 0)} steps"
    if summary.tokens is not None and summary.seconds is not None:
        text += f", {short(summary.tokens)} tokens in {duration(summary.seconds)}"
    return text


def _evaluation(point: EvaluationPoint) -> str:
    loss = "not finite" if point.loss is None else f"{point.loss:.4f}"
    accuracy = f", accuracy {percent(point.accuracy)}" if point.accuracy is not None else ""
    part = f" on a sample of {short(point.scored_tokens)} tokens" if point.part == "sample" else ""
    return f"validation loss {loss} at step {exact(point.step)}{_OF.get(point.of, '')}{part}{accuracy}"


def value_text(value: Any) -> str:
    """A setting's value as a person reads it, on one line."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(value_text, value))
    return printable(str(value))
