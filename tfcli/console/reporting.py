"""Progress and results of stages and training: live in a terminal, else as plain lines or JSON Lines."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from tfcli.addresses import masked
from tfcli.console.launching import launched_with
from tfcli.console.signals import INTERRUPTED, UNREAD, StopRequest, discard_unwritten, exit_code_of, stop_on_signals
from tfcli.console.terminal import Terminal, is_terminal
from tfcli.draw.numbers import exact, short
from tfcli.draw.safe import printable
from tfcli.draw.tables import to_json
from tfcli.errors import Interrupted, TfcliError
from tfcli.inspection.attention import AttentionRecord
from tfcli.inspection.positions import PositionsRecord
from tfcli.records.dataset import DatasetRecord, TokenizerReport, VocabularyExtension
from tfcli.records.evaluation import Scores
from tfcli.records.generation import Filled, Generated
from tfcli.records.runs import CheckResult, StageProgress, StageStarted, TrainingEvent, TrainingFinished

if TYPE_CHECKING:
    from rich.live import Live

_STAGES = {"generation": "Samples", "inspection": "Inside"}  # what stages are called that do not have their own name
_RECORDS: dict[type, tuple[str, str]] = {
    StageStarted: ("stage", ""),
    TokenizerReport: ("tokenizer", "tfcli.tokenization.view:tokenizer_view"),
    VocabularyExtension: ("extended", "tfcli.tokenization.view:extension_view"),
    DatasetRecord: ("dataset", "tfcli.data.view:DatasetView"),
    Scores: ("scores", "tfcli.evaluation.view:ScoresView"),
    Filled: ("filled", "tfcli.generation.view:FilledView"),
    AttentionRecord: ("attention", ""),
    PositionsRecord: ("positions", "tfcli.inspection.positions.view:PositionsView"),
    CheckResult: ("check", "tfcli.console.reporting:check_line"),
}
"""What JSON Lines call a record, and what draws it. Training events carry their own name."""
# What tells of the way to a result, and not of one.
_ON_THE_WAY = StageStarted | StageProgress | TrainingEvent | DatasetRecord | TokenizerReport | VocabularyExtension


def _named(event: Any) -> dict[str, Any]:
    if isinstance(event, list):
        return {"event": "generated", "texts": to_json(event)}
    name, _ = _RECORDS.get(type(event), ("", ""))
    return {"event": name, **to_json(event)} if name else to_json(event)


def _drawn(record: Any, *, translation: bool = False) -> Any:
    """The renderable of a record; a translation stands under its source, not behind it."""
    if isinstance(record, list):
        return Group(*(_drawn(one, translation=translation) for one in record))
    if isinstance(record, Generated):
        from tfcli.generation.view import GeneratedView

        return GeneratedView(record, translation)
    if isinstance(record, AttentionRecord):
        from tfcli.inspection.attention.view import AttentionEnding
        from tfcli.inspection.words import attention_in_words

        return AttentionEnding(attention_in_words(record), is_terminal())
    module, _, view = _RECORDS[type(record)][1].partition(":")
    return getattr(import_module(module), view)(record)


def check_line(result: CheckResult) -> Text:
    """The limit, the figure, and whether it is met."""
    measured = "not measured" if result.measured is None else f"{result.measured:.4g}"
    word, style = ("met", "green") if result.passed else ("missed", "bold red")
    return Text.assemble(f"{result.name} {result.limit:g}: {measured}, ", (word, style))


@dataclass
class Reporter:
    """Called with every event and record of a command. stdout gets results, stderr all the rest."""

    terminal: Terminal
    stop: StopRequest
    json: bool
    stream: bool
    again: Sequence[str]
    translates: bool
    live: "Live | None" = None
    view: Any = None
    run: str | None = None
    said_stopping: bool = False
    finished: TrainingFinished | None = None
    why: str = "nobody reads the output any more"

    @property
    def redraws(self) -> bool:
        """Whether stderr is a terminal in which lines can be drawn again."""
        return is_terminal(sys.stderr) and not self.terminal.err.is_dumb_terminal

    def __call__(self, event: Any) -> None:
        """Report it, as far as somebody reads."""
        try:
            self._report(event)
        except OSError as error:  # of stdout: nobody reads it any more, or its disk is full
            if not self.stream:
                raise
            self._unread(error)

    def _report(self, event: Any) -> None:
        if isinstance(event, TrainingEvent):
            self.run = getattr(event, "run", self.run)
            self.finished = event if isinstance(event, TrainingFinished) else self.finished
            self.stop.armed = not isinstance(event, TrainingFinished)
        if self.json and self.stream and not isinstance(event, StageProgress):
            self.terminal.json(_named(event))
        if not isinstance(event, _ON_THE_WAY):
            if not self.json:
                self._draw(event)
        elif self.terminal.quiet:
            return
        elif isinstance(event, StageStarted | StageProgress):
            self._stage(event)
        elif isinstance(event, TrainingEvent):
            self._training(event)
        elif not self.json:
            self.end_live()
            self.terminal.err.print(_drawn(event))

    def result(self, record: Any) -> None:
        """Print the one result of a command on stdout."""
        self.end_live()
        self.terminal.result(record, _drawn, json=self.json)

    def should_stop(self) -> bool:
        """Asked by the training loop after every step."""
        if self.stop.asked() and not self.said_stopping:
            self.said_stopping = True
            self.terminal.note("Stopping: this step is being saved. Ctrl-C again stops at once.")
        return self.stop.asked()

    def close(self, finished: TrainingFinished) -> None:
        """End a training command: say where the run is, or how to go on."""
        self.end_live()
        already, self.finished = self.finished is None, finished
        self.stop_if_asked()
        if not self.json:
            self.terminal.text(finished.run)
        elif already:  # no training had to be reported
            self.terminal.json(_named(finished))
        if not self.json and not self.terminal.quiet:
            self._say_what_was_reached(finished)

    def _say_what_was_reached(self, finished: TrainingFinished) -> None:
        """The loss next to chance, and what to type next."""
        from tfcli.pipeline.ending import ending_of
        from tfcli.training.view import loss_in_words

        try:
            ending = ending_of(finished)
        except TfcliError:  # of a run that was trained elsewhere, the text may not be here
            self.hint()
            return
        if sentence := loss_in_words(ending):
            self.terminal.note(sentence)
        self.hint(ending.commands)

    def stop_if_asked(self) -> None:
        """Raise the documented exit where training was stopped by a signal."""
        finished = self.finished
        if finished is not None and finished.reason == "interrupted":
            unread = f", for {self.why}" if self.stop.exit_code == UNREAD else ""
            problem = f"Stopped after step {finished.step}, which is saved in {finished.run}{unread}"
            raise Interrupted(problem, self.remedy(finished.run), exit_code=self.stop.exit_code or INTERRUPTED)

    def remedy(self, run: str) -> str:
        """How to go on with a run that was stopped."""
        command = [*self.again, "--out", run] if self.again else ["tfcli", "train", "--resume", run, *launched_with()]
        return f"go on with `{shlex.join(command)}`"

    def hint(self, commands: Sequence[Sequence[str]] = ()) -> None:
        """What to type next: these commands; none: those that take a run, with capitals for what else they read."""
        if commands and not self.json:
            self.terminal.note("\n".join(["Try:", *map(shlex.join, commands)]))
        elif self.finished is not None and not self.json:
            run = shlex.quote(self.finished.run)
            ways = (f"generate {run} PROMPT", f"inspect attention {run} TEXT", f"inspect heads {run}")
            self.terminal.note("Try: " + "\n     ".join(f"tfcli {way}" for way in ways))

    def _stage(self, event: StageStarted | StageProgress) -> None:
        if isinstance(event, StageProgress):
            tokens = f", {short(event.tokens)} tokens" if event.tokens is not None else ""
            if self.redraws:
                self._show_live(Text(f"  {exact(event.documents)} documents{tokens}", style="dim"), transient=True)
            return
        self.end_live()
        reused = " · unchanged, reused" if event.reused else ""
        title = _STAGES.get(event.stage, event.stage.capitalize()), "bold cyan"
        detail = printable(masked(event.detail))
        self.terminal.err.print(Text.assemble(title, f"  {detail}", (reused, "dim")))

    def _unread(self, error: OSError) -> None:
        """A training is stopped and saved; what follows one is finished unseen, and ends with its own code."""
        discard_unwritten()
        if not isinstance(error, BrokenPipeError):
            self.why = f"the output cannot be written ({error.strerror})"
        if self.stop.armed:
            self.stop.exit_code = self.stop.exit_code or UNREAD
        elif self.finished is None:
            raise TfcliError(f"{self.why[0].upper()}{self.why[1:]}, so nothing was trained", "write it to a file")

    def _training(self, event: TrainingEvent) -> None:
        from tfcli.training.view import TrainingView, event_line

        if not self.redraws:
            print(event_line(event), file=sys.stderr, flush=True)
            return
        if self.view is None:
            self.end_live()
            self.view = TrainingView()
        self.view.update(event)
        self._show_live(self.view, transient=False)
        if isinstance(event, TrainingFinished):
            self.end_live()

    def _draw(self, record: Any) -> None:
        self.end_live()
        if isinstance(record, Scores):
            self.run = record.run
        if isinstance(record, PositionsRecord) and is_terminal() and self.run is not None:  # longer than a screen
            self.terminal.note(f"Positions: {shlex.join(['tfcli', 'inspect', 'positions', self.run])}")
            return
        self.terminal.show(_drawn(record, translation=self.translates))
        self.terminal.text("")

    def _show_live(self, renderable: Any, *, transient: bool) -> None:
        from rich.live import Live

        if self.live is None:
            how: Any = {"transient": transient, "auto_refresh": False, "redirect_stdout": False}
            self.live = Live(renderable, console=self.terminal.err, **how)
            self.live.start()
        self.live.update(renderable, refresh=True)

    def end_live(self) -> None:
        """Leave the live display as it stands."""
        if self.live is not None:
            self.live.stop()
            self.live = None


@contextmanager
def reporting(
    terminal: Terminal, *, json: bool, stream: bool = False, again: Sequence[str] = (), translates: bool = False
) -> Iterator[Reporter]:
    """A reporter that answers signals and leaves the terminal as it was. With `json` and `stream`, events and records
    on the way are printed, too, a line each. `again` is the command that goes on with an interrupted run, once --out is
    added; none: `tfcli train --resume`. `translates`: whether generated texts are translations."""
    with stop_on_signals() as stop:
        reporter = Reporter(terminal, stop, json=json, stream=stream, again=again, translates=translates)
        try:
            yield reporter
        except KeyboardInterrupt as signal:
            if (run := reporter.run) is None:
                raise
            problem = f"Stopped at once; what {run} had saved before is kept"
            raise Interrupted(problem, reporter.remedy(run), exit_code=exit_code_of(signal)) from None
        finally:
            reporter.end_live()
