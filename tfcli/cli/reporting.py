"""Draws what stages, training and results say: live in a terminal, as plain lines elsewhere, as JSON on request."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tfcli.cli.signals import StopRequest, stop_on_signals
from tfcli.cli.terminal import Terminal, is_terminal
from tfcli.errors import Interrupted
from tfcli.records.pipeline import StageProgress, StageStarted
from tfcli.records.training import TrainingEvent, TrainingFinished, TrainingStarted

if TYPE_CHECKING:
    from rich.live import Live

_STAGES = {
    "tokenizer": "Tokenizer",
    "data": "Data",
    "training": "Training",
    "evaluation": "Evaluation",
    "generation": "Samples",
    "inspection": "Inside",
}


class Reporter:
    """Called with every event and record of a command. stdout gets results, stderr all the rest."""

    def __init__(self, terminal: Terminal, stop: StopRequest, *, json: bool, stream: bool, recipe: str | None) -> None:
        self.terminal, self.stop = terminal, stop
        self.json, self.stream, self.recipe = json, stream, recipe
        self.live: Live | None = None
        self.view: Any = None
        self.finished: TrainingFinished | None = None

    def __call__(self, event: Any) -> None:
        if isinstance(event, StageStarted | StageProgress):
            self._stage(event)
        elif isinstance(event, TrainingEvent):
            self._training(event)
        elif self.json:
            if self.stream:
                self.terminal.json(_named(event))
        elif _is_result(event):
            self._draw(event)
        elif not self.terminal.quiet:
            self.terminal.err.print(drawn(event))

    def result(self, record: Any) -> None:
        """Print the one result of a command on stdout."""
        from tfcli.render.as_json import to_json

        self._end_live()
        if self.json:
            self.terminal.json(to_json(record))
        else:
            self.terminal.show(drawn(record))

    def should_stop(self) -> bool:
        """Asked by the training loop after every step."""
        return self.stop.asked()

    def close(self, finished: TrainingFinished) -> None:
        """End a training command: say where the run is, or how to go on."""
        self._end_live()
        self.finished = finished
        self.stop_if_asked()
        if not self.json:
            from tfcli.render.safe import printable

            self.terminal.text(printable(finished.run))
        self.hint()

    def stop_if_asked(self) -> None:
        """Raise the documented exit where training was stopped by a signal."""
        finished = self.finished
        if finished is not None and finished.reason == "interrupted":
            again = f"tfcli run {self.recipe} --out {finished.run}" if self.recipe else f"tfcli train --resume {finished.run}"
            raise Interrupted(
                f"Stopped after step {finished.step}, which is saved in {finished.run}",
                f"go on with `{again}`",
                exit_code=self.stop.exit_code or 130,
            )

    def hint(self) -> None:
        """What to type next."""
        if self.finished is not None and not self.json:
            self.terminal.note(f"Try: tfcli generate {self.finished.run} · tfcli inspect attention {self.finished.run} TEXT")

    def _stage(self, event: StageStarted | StageProgress) -> None:
        if self.json and self.stream and isinstance(event, StageStarted):
            self.terminal.json(_named(event))
        if self.terminal.quiet:
            return
        if isinstance(event, StageProgress):
            self._progress(event)
            return
        self._end_live()
        from rich.text import Text

        from tfcli.render.safe import printable

        reused = " · unchanged, reused" if event.reused else ""
        self.terminal.err.print(
            Text.assemble((_STAGES[event.stage], "bold cyan"), f"  {printable(event.detail)}", (reused, "dim"))
        )

    def _progress(self, event: StageProgress) -> None:
        from rich.text import Text

        from tfcli.render.numbers import exact, short

        if not is_terminal(sys.stderr):
            return
        tokens = f", {short(event.tokens)} tokens" if event.tokens is not None else ""
        self._show_live(Text(f"  {exact(event.documents)} documents{tokens}", style="dim"), transient=True)

    def _training(self, event: TrainingEvent) -> None:
        self.stop.armed = not isinstance(event, TrainingFinished)
        if isinstance(event, TrainingFinished):
            self.finished = event
        if self.json and self.stream:
            self.terminal.json(_named(event))
        if self.terminal.quiet:
            return
        if not is_terminal(sys.stderr):
            from tfcli.render.training import event_line

            print(event_line(event), file=sys.stderr, flush=True)
            return
        if isinstance(event, TrainingStarted):
            from tfcli.render.training import TrainingView

            self._end_live()
            self.view = TrainingView()
        self.view.update(event)
        self._show_live(self.view, transient=False)
        if isinstance(event, TrainingFinished):
            self._end_live()

    def _draw(self, record: Any) -> None:
        self._end_live()
        self.terminal.show(drawn(record))
        self.terminal.text("")

    def _show_live(self, renderable: Any, *, transient: bool) -> None:
        from rich.live import Live

        if self.live is None:
            self.live = Live(
                renderable, console=self.terminal.err, transient=transient, auto_refresh=False, redirect_stdout=False
            )
            self.live.start()
        self.live.update(renderable, refresh=True)

    def _end_live(self) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None


@contextmanager
def reporting(
    terminal: Terminal, *, json: bool, stream: bool = False, recipe: str | None = None
) -> Iterator[Reporter]:
    """A reporter that answers signals and leaves the terminal as it was.

    Args:
        stream: with `json`, print events and intermediate records too, one a line, named under "event".
        recipe: the recipe that `tfcli run` was given, for the sentence that says how to go on.
    """
    with stop_on_signals() as stop:
        reporter = Reporter(terminal, stop, json=json, stream=stream, recipe=recipe)
        try:
            yield reporter
        finally:
            reporter._end_live()


def drawn(record: Any) -> Any:
    """The renderable of a record."""
    from rich.console import Group

    from tfcli.records.attention import AttentionRecord
    from tfcli.records.dataset import DatasetRecord
    from tfcli.records.evaluation import Scores
    from tfcli.records.generation import Filled, Generated
    from tfcli.records.pipeline import CheckResult
    from tfcli.records.positions import PositionsRecord
    from tfcli.records.tokenization import TokenizerReport
    from tfcli.render import attention, attention_overview, checks, dataset, evaluation, generation, positions, tokens

    match record:
        case TokenizerReport():
            return tokens.tokenizer_view(record)
        case DatasetRecord():
            return dataset.DatasetView(record)
        case Scores():
            return evaluation.scores_view(record)
        case Generated():
            return generation.GeneratedView(record)
        case Filled():
            return generation.FilledView(record)
        case AttentionRecord():
            last = record.weights.shape[0] - 1
            return Group(attention_overview.AttentionOverview(record), "", attention.AttentionTable(record, last, 0))
        case PositionsRecord():
            return positions.PositionsView(record)
        case CheckResult():
            return checks.check_line(record)
        case list():
            return Group(*(drawn(one) for one in record))
    raise AssertionError(f"nothing draws a {type(record).__name__}")


def _is_result(event: Any) -> bool:
    from tfcli.records.dataset import DatasetRecord
    from tfcli.records.tokenization import TokenizerReport

    return not isinstance(event, DatasetRecord | TokenizerReport)


def _named(event: Any) -> dict[str, Any]:
    from tfcli.render.as_json import to_json

    if isinstance(event, list):
        return {"event": "generated", "texts": to_json(event)}
    values = to_json(event)
    return values if "event" in values else {"event": type(event).__name__.lower(), **values}
