"""Options that several commands share, each written once."""

import copy
import functools
import inspect
import os
import shlex
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from tfcli.addresses import AddressNeeded, typed, typed_in
from tfcli.console import settings, signals, usage
from tfcli.console.terminal import Color, Terminal
from tfcli.draw.themes import Theme
from tfcli.errors import Misnamed, Remark, UsageError, shortened
from tfcli.outputs import about, describe, require_output, write_output, written
from tfcli.threads import forget_threads

if TYPE_CHECKING:
    from tfcli.draw.tables import CsvTable
    from tfcli.recipe.model import ModelSection, WeightPrecision
    from tfcli.runs.load import LoadedRun

_output = functools.partial(typer.Option, rich_help_panel=settings.OUTPUT)
argument = functools.partial(typer.Argument, show_default=False)  # one that has no default, or none to show

Json = Annotated[bool, _output("--json", help="Print JSON with stable keys instead of text.")]
Csv = Annotated[bool, _output("--csv", help="Print the numbers as CSV instead.")]
Svg = Annotated[Path | None, _output("--svg", metavar="F", help="Also write the picture as SVG.")]
Html = Annotated[Path | None, _output("--html", metavar="F", help="Also write the picture as a web page.")]
_THEME = "Colours of files: light, dark, or as their reader has it (auto)."
ThemeOption = Annotated[Theme, _output("--theme", help=_THEME)]
StepByStep = Annotated[bool, _output("--step", help="Show one step at a time: Enter goes on, Backspace back, q ends.")]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help=settings.SEED_HELP, show_default=settings.SEED_USUAL)]
TextSeed = Annotated[int | None, typer.Option(min=0, help="Seed of the built-in generators of text.", show_default="0")]
Device = Annotated[settings.Devices, typer.Option("--device", help=settings.DEVICE_HELP)]
Threads = Annotated[int, typer.Option("--threads", min=0, max=1024, help=settings.THREADS_HELP)]
Checkpoint = Annotated[str, typer.Option(metavar="best|last|STEP", help="Which weights of the run to use.")]
Text = Annotated[str, argument(metavar="TEXT", help="The text to read; - for stdin.")]
_TARGET = "The target text of an encoder-decoder."
Target = Annotated[str | None, typer.Option(metavar="TEXT", help=_TARGET, show_default="its translation")]
Kind = Literal["encoder_self", "decoder_self", "cross"]  # of attention
LAYER_HELP = "One layer, from 0: all of its heads."
HEAD_HELP = "One head as LAYER.HEAD, both from 0, such as 1.0; or its number beside --layer."
Run = Annotated[Path, argument(metavar="RUN", help="A run: its name in `tfcli runs list`, last, or a folder.")]


@dataclass(frozen=True)
class Weights:
    """Which weights of a run, and where to compute with them. A command that takes it has these options."""

    checkpoint: Checkpoint = "best"
    device: Device = "auto"
    threads: Threads = 0

    def load(self, run: Path) -> "LoadedRun":
        """The run's model, ready to compute. Raises what `open_run` raises."""
        use_threads(self.threads, measured=True)
        return open_run(run, self.checkpoint, self.device)


@dataclass(frozen=True)
class Outputs:
    """Where a command puts its picture, as options; a UsageError where two contradict, or a file cannot be written."""

    csv: Csv = False
    svg: Svg = None
    html: Html = None
    json: Json = False
    theme: ThemeOption = "auto"

    def __post_init__(self) -> None:
        require_picture(self.theme, self.svg, self.html, getattr(self, "answers", None))
        if self.csv and self.json:
            raise UsageError("--csv and --json are two forms of one result", "give one of the two")
        for name, path in vars(self).items():
            if isinstance(path, Path):
                require_output(path, f"--{name}")


def require_picture(theme: Theme, *files: Path | None) -> None:
    """Refuse a theme where no picture goes to a file: a terminal has its own colours."""
    if theme != "auto" and not any(files):
        raise UsageError(f"--theme {theme} is for a picture in a file, and none is written", "add --svg FILE")


@dataclass(frozen=True)
class Showing(Outputs):
    """How the steps of a picture are shown, and where they go, as options."""

    step: StepByStep = False
    hide: Annotated[str | None, _output(metavar="NAME,…", help="Leave holes for weights, scores … or by name.")] = None
    answers: Annotated[Path | None, _output(metavar="F", help="Write it whole: .svg, .html, .tex or text.")] = None
    latex: Annotated[Path | None, _output(metavar="F", help="Also write formulas and matrices as LaTeX.")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step and (self.json or self.csv):
            raise UsageError("--step shows pictures, and --json and --csv print none", "leave one of the two out")
        if self.answers and not self.hide:
            raise UsageError("--answers holds what --hide leaves out, and nothing is hidden", "add --hide weights")


_COMMON = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])
    for name, kind, default, option in (
        ("color", Color, "auto", _output("--color", help="Colour; auto: in a terminal, without NO_COLOR.")),
        ("quiet", bool, False, _output("--quiet", "-q", help="Show no progress and no notes.")),
        ("verbose", bool, False, _output("--verbose", "-v", help="Say more on stderr: settings, figures, time.")),
        ("debug", bool, False, _output("--debug", help="Show the traceback of an error.")),
    )
]
_TEXTS = ("TEXT", "PROMPT", "TOKEN", "ID")  # may be empty, by the name in help; all others are paths and names
_ARGUMENT = type(typer.Argument())
_PATH = type("path", (Path,), {})  # of which help shows the name


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that all have, its exit codes, and its function a `terminal`. A parameter that is
    `Asked` or a dataclass of options stands for these, or for those that it names beside it:
    ``Annotated[Asked, SHAPE, ("lr",)]``. Those of `Outputs` come last."""
    own: list[inspect.Parameter] = []
    groups: dict[str, tuple[Callable[..., Any], list[str]]] = {}
    parameters = inspect.signature(function, eval_str=True).parameters
    kind: Any
    for name, parameter in sorted(parameters.items(), key=lambda item: item[0] == "outputs"):
        kind, *rest = get_args(parameter.annotation) or (parameter.annotation,)
        if kind is settings.Asked:
            inside = settings.option_parameters([one for names in rest for one in names])
        elif isinstance(kind, type) and is_dataclass(kind) and kind is not Terminal:
            fields = inspect.signature(kind, eval_str=True).parameters
            inside = [fields[one] for one in (rest[0] if rest else fields)]
        else:
            inside = [] if name == "terminal" else [parameter]
        if inside and inside != [parameter]:
            groups[name] = kind, [one.name for one in inside]
        own += map(_never_empty, inside)
    infos = {p.name: get_args(p.annotation)[1] for p in own}
    flags = {name: info.default for name, info in infos.items() if type(info) is not _ARGUMENT}
    options = [flag if isinstance(flag, str) else settings.flag_of(name) for name, flag in flags.items()]

    @functools.wraps(function)
    def wrapper(**values: Any) -> None:
        terminal = Terminal(values.pop("color"), values.pop("quiet"), values.pop("verbose"))
        debug = values.pop("debug")
        forget_threads()
        with signals.stop_on_signals(), signals.exit_codes(terminal, debug=debug), warnings.catch_warnings():
            warnings.showwarning = functools.partial(_remark, terminal, warnings.showwarning, set())
            began = time.perf_counter()
            for name, value in values.items():
                for text in map(str, _each(value)):  # bytes that are no text fit into no recipe, manifest or JSON
                    if text.encode(errors="replace").decode() != text:
                        raise UsageError(f"{text!a} is not valid UTF-8", "write or rename it in UTF-8")
                if isinstance(value, int) and abs(value) >= 2**63:  # fits into no machine's word
                    problem = f"{settings.flag_of(name)} {shortened(str(value))} is out of range"
                    raise UsageError(problem, "give a number below 2^63")
            try:
                values |= _sources_typed(infos, values)
                values |= _runs_meant(terminal, infos, values)
                describe(_given(values, "run"), _given(values, "text"))
                usage.refuse_unknown_keys(values.get("assignments") or (), options)
                typed_device = values.get("device")
                for name, (made_of, names) in groups.items():
                    values[name] = made_of(**{one: values.pop(one) for one in names})
                _require_devices(typed_device, values)
                function(terminal=terminal, **values)
            except AddressNeeded as error:
                raise usage.with_address(error) from error
            except Misnamed as error:
                raise usage.with_command(error, takes_checkpoint="checkpoint" in infos) from None
            finally:
                for path, size in written.items():
                    from tfcli.draw.numbers import short

                    terminal.note(f"Wrote {path} ({short(size, 'B')}).")
            terminal.detail(f"Took {time.perf_counter() - began:.1f} s.")

    shown = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + _COMMON
    wrapper.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in shown}
    return wrapper


def _sources_typed(infos: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The sources on the command line, from now on known as typed by this user, and without their secrets."""
    found: dict[str, Any] = {}
    for name, info in infos.items():
        value = values[name]
        if "SOURCE" in (info.metavar or "").split("|"):
            found[name] = [typed(one) for one in value] if isinstance(value, list) else value and typed(value)
    assignments = values.get("assignments")
    if assignments:
        is_data = [one.strip().startswith("data") for one in assignments]
        found["assignments"] = [typed_in(one) if of else one for one, of in zip(assignments, is_data, strict=True)]
    return found


def _require_devices(typed: str | None, values: Mapping[str, Any]) -> None:
    """Refuse a device that is not there, whether --device or --set names it."""
    devices = [typed]
    for value in values.values():
        if isinstance(value, settings.Asked):
            devices.append(value.settings.get("train", {}).get("device"))
    for device in devices:
        if device is not None:
            settings.require_device(device)


def _each(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _given(values: Mapping[str, Any], name: str) -> str:
    return " · ".join(map(str, _each(values.get(name) or values.get(f"{name}s") or ())))


def _remark(
    terminal: Terminal, show: Callable[..., None], noted: set[str], message: Warning, *where: Any, **more: Any
) -> None:
    """Print a `Remark` as a note, once for each text; show any other warning as Python does."""
    if isinstance(message, Remark):
        if str(message) not in noted:
            noted.add(str(message))
            terminal.note(str(message))
    else:
        show(message, *where, **more)


def _never_empty(parameter: inspect.Parameter) -> inspect.Parameter:
    """The same parameter, which refuses an empty path or name: that of a variable of the shell that is not set."""
    annotation, *rest = get_args(parameter.annotation)
    kinds = {kind for part in (annotation, *get_args(annotation)) for kind in (part, *get_args(part))}
    info = copy.copy(rest[0])
    if Path not in kinds and (str not in kinds or not info.metavar or any(word in info.metavar for word in _TEXTS)):
        return parameter

    def parse(value: Any) -> Any:
        if not str(value).strip():
            raise ValueError("is empty, and names nothing")
        return Path(value) if Path in kinds else value

    info.parser = parse
    return parameter.replace(annotation=Annotated[_PATH if annotation in (Path, Path | None) else annotation, info])


def _runs_meant(terminal: Terminal, infos: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The paths of all values that name runs, before anything is loaded that takes long."""
    from tfcli.runs.directory import LAST, RunDirectory, is_run

    found: dict[str, Any] = {}
    for name, info in infos.items():
        kinds, value = (info.metavar or "").split("|"), values[name]
        names_run = kinds[-1].startswith("RUN")
        if value is None or not (names_run or name == "out"):
            continue
        if name == "out":
            hides = value.name == LAST if names_run else os.path.normpath(value) == LAST
            if hides and not RunDirectory(value).holds_run():
                problem = f"--out {str(value)!r}: {LAST} means the run that was trained last"
                raise UsageError(problem, "choose another --out")
            continue
        beside = [one for one in infos if one != name and {type(info), type(infos[one])} == {_ARGUMENT}]
        texts = [str(text) for one in beside for text in _each(values[one]) if text]
        reads = any(word in (infos[one].metavar or "") for one in beside for word in ("TEXT", "PROMPT"))
        is_text = reads and not texts and isinstance(value, Path) and " " in str(value)
        if is_text and not os.path.lexists(value) and not is_run(value) and is_run(Path(LAST)):
            raise usage.behind(value, LAST)
        paths = [_run_meant(terminal, path, kinds, texts) for path in _each(value)]
        found[name] = paths if isinstance(value, list) else paths[0]
        if isinstance(value, Path):
            _note_old_import(terminal, paths[0])
    return found


def _run_meant(terminal: Terminal, path: Path, kinds: Sequence[str], texts: Sequence[str]) -> Path:
    """The run, or where another kind of thing is taken too, that thing."""
    from tfcli.runs.directory import LAST, existing_run, is_run

    if len(kinds) > 1 and (os.path.exists(path) or path.suffix == ".json"):  # noqa: PTH110
        return path
    try:
        run = existing_run(path).path
    except UsageError:
        if (named := next((text for text in texts if is_run(Path(text))), None)) is not None:
            raise usage.behind(path, named) from None
        raise
    if str(path) == LAST and run != path:
        terminal.note(f"{LAST} is {run}.")
    return run


def _note_old_import(terminal: Terminal, path: Path) -> None:
    """Say of a run that its texts are begun as the one that imported it begins them."""
    if not os.path.isfile(path / "config.json"):  # noqa: PTH113 (which fails over a path that cannot be)
        return
    from tfcli.runs.config import imported_by_old_rule

    if source := imported_by_old_rule(path):
        again = f"to import it again: tfcli import {shlex.quote(source)} --out NEW"
        terminal.note(f"{path} was imported by an old rule for the tokens that begin and end texts; {again}")


def use_threads(threads: int, *, measured: bool = False) -> None:
    """Compute with this many CPU threads.

    Args:
        threads: The number that the user asks for. 0 leaves it to the machine.
        measured: Let the models that are loaded choose between one thread and all by the time that their layers
            take, unless the user or the environment names a number. Else 0 means one thread for each free core.
    """
    from tfcli.machine import choose_threads, environment_fixes_threads, wait_asleep_if_busy
    from tfcli.threads import begin_choosing, keep_threads

    wait_asleep_if_busy(threads)
    import torch

    usual = torch.get_num_threads()
    if measured and not threads and usual > 1 and not environment_fixes_threads():
        vector = torch.ones(1 << 17)
        begin_choosing(usual, torch.set_num_threads, lambda: vector.add_(1))
        return
    number = choose_threads(threads, usual)
    torch.set_num_threads(number)
    keep_threads(number)


def open_run(
    run: Path, checkpoint: str = "best", device: str = "auto", precision: "WeightPrecision | None" = None
) -> "LoadedRun":
    """A run's model on the device that was asked for; a UsageError where there is no such run, checkpoint or device."""
    from tfcli.models.device import choose_device
    from tfcli.runs.load import load_run

    return load_run(run, checkpoint, choose_device(device), precision)


def first_given(options: Mapping[str, Any]) -> str | None:
    """The first of these options that the user gave, to be refused by name."""
    return next((option for option, value in options.items() if value is not None), None)


_POSITION = "Position to look at, from 0."
Position = Annotated[int | None, typer.Option(min=0, help=_POSITION, show_default="the last, or the first mask")]
_EVOLUTION = "Measure at every checkpoint that the run keeps (train.keep_every), beside the loss."
Evolution = Annotated[bool, typer.Option("--evolution", help=_EVOLUTION)]
Words = Annotated[bool, typer.Option("--words", help="Merge the pieces of each word into one.")]
RunOrRecipe = Annotated[Path | None, argument(metavar="RUN", help="A run; without one, the options name a shape.")]


def section_of(
    terminal: Terminal, run: Path | None, asked: settings.Asked, *, vocabulary: bool = True
) -> "ModelSection":
    """The model section of a run, of which no weights are read, or of the shape that the options name; with the size of
    its `vocabulary`, if asked for, also where only the published model of a preset says it, or the tokenizer."""
    from tfcli.runs import config, directory

    if run is not None:
        refuse_beside_run(run, asked)
        return config.read_config(directory.existing_run(run).config).model
    chosen = settings.recipe_from(asked)
    if vocabulary and chosen.model.vocab_size is None and (own := published(asked)):
        terminal.note(f"The vocabulary is that of the published {asked.given['preset']}: {own['vocab_size']:,} ids.")
        return replace(chosen.model, vocab_size=own["vocab_size"])
    return settings.with_vocabulary(terminal, chosen).model if vocabulary else chosen.model


def published(asked: settings.Asked) -> "Mapping[str, Any]":
    """What `presets.PUBLISHED` says of the preset that was named, where no size, recipe or tokenizer was."""
    from tfcli.models.presets import PUBLISHED

    apart = {"size", "recipe"} & asked.given.keys() or "tokenizer" in asked.settings
    return {} if apart else PUBLISHED.get(asked.given.get("preset", ""), {})


def refuse_beside_run(run: Path, asked: settings.Asked) -> None:
    """Refuse the first option of a shape that was given beside a run."""
    if words := asked.words():
        raise UsageError(f"The run {run} has a shape of its own", f"leave {words[0]} out, or leave the run out")


def present(
    terminal: Terminal,
    outputs: Outputs,
    view: Any,
    record: Any,
    table: "Callable[[Any], CsvTable]",
    *,
    json: Callable[[Any], Any] | None = None,
    svg: Callable[[Theme], str] | None = None,
    html: Callable[[Theme], str] | None = None,
) -> None:
    """Write the files that the options name, then print the view, or JSON or CSV (of the `table`) instead. Files show
    the view 120 columns wide, unless `svg` or `html` draw their own; `json` makes values of a form of their own; the
    steps of a stepwise one are `Showing`'s."""
    from tfcli.draw.svg import captioned, picture_html, picture_svg
    from tfcli.draw.tables import to_csv, to_json

    for option, path, draw in (
        ("--svg", outputs.svg, svg or (lambda theme: picture_svg(view, theme=theme))),
        ("--html", outputs.html, html or (lambda theme: picture_html(view, theme=theme))),
    ):
        if path is not None:
            write_output(path, option, captioned(draw(outputs.theme), **about))
    if outputs.json:
        terminal.json((json or to_json)(record))
    elif outputs.csv:
        terminal.write(to_csv(table(record)))
    elif isinstance(outputs, Showing) and outputs.step:
        terminal.step_through(view)
    else:
        terminal.show(view)
