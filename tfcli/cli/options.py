"""Options that several commands share, each written once."""

import copy
import functools
import inspect
import os
import shlex
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer
from typer.models import ArgumentInfo

from tfcli.cli.exits import exit_codes
from tfcli.cli.settings import OUTPUT, Asked, option_parameters
from tfcli.cli.signals import stop_on_signals
from tfcli.cli.terminal import Color, Terminal
from tfcli.cli.usage import behind, refuse_unknown_keys, with_command
from tfcli.errors import Misnamed
from tfcli.outputs import describe, written

if TYPE_CHECKING:
    from tfcli.recipe.model import WeightPrecision
    from tfcli.runs.load import LoadedRun

_output = functools.partial(typer.Option, rich_help_panel=OUTPUT)

Json = Annotated[bool, _output("--json", help="Print JSON with stable keys instead of text.")]
Csv = Annotated[bool, _output("--csv", help="Print the numbers as CSV instead.")]
Svg = Annotated[Path | None, _output("--svg", metavar="F", help="Write the picture as SVG, too.")]
Html = Annotated[Path | None, _output("--html", metavar="F", help="Write the picture as a web page, too.")]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        min=0,
        help="Seed of weights, order, masks, dropout and samples; data.seed is the text's.",
        show_default="the recipe's, else 0",
    ),
]
TextSeed = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="Seed of the built-in generators of text.", show_default="0"),
]
Device = Annotated[
    Literal["auto", "cpu", "cuda", "mps"],
    typer.Option("--device", help="Where to compute; auto: CUDA, else CPU."),
]
Threads = Annotated[int, typer.Option("--threads", min=0, max=1024, help="CPU threads; 0: one a free core.")]
Checkpoint = Annotated[str, typer.Option("--checkpoint", metavar="best|last|STEP", help="Which weights of the run.")]
Text = Annotated[str, typer.Argument(metavar="TEXT", help="The text to read; - for stdin.", show_default=False)]
Target = Annotated[
    str | None,
    typer.Option("--target", metavar="TEXT", help="Target of an encoder-decoder.", show_default="its translation"),
]
Kind = Literal["encoder_self", "decoder_self", "cross"]
"""Of attention."""
Run = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="A run: its name in `tfcli runs list`, last, or a folder.", show_default=False),
]


@dataclass(frozen=True)
class Outputs:
    """Where the picture of a command goes. A command that takes it has these options.

    Raises:
        UsageError: --csv and --json together, two pictures in one file, or a file that cannot be written.
    """

    csv: Csv = False
    svg: Svg = None
    html: Html = None
    json: Json = False

    def __post_init__(self) -> None:
        from tfcli.errors import UsageError
        from tfcli.outputs import require_output

        if self.csv and self.json:
            raise UsageError("--csv and --json are two forms of one result", "give one of the two")
        for option, path in (("--svg", self.svg), ("--html", self.html)):
            if path is not None:
                require_output(path, option)


_COMMON = {
    "color": (
        Annotated[Color, _output("--color", help="Colour; auto: in a terminal, without NO_COLOR.")],
        "auto",
    ),
    "quiet": (Annotated[bool, _output("--quiet", "-q", help="No progress and no notes.")], False),
    "verbose": (
        Annotated[bool, _output("--verbose", "-v", help="Say more on stderr: settings, figures, time.")],
        False,
    ),
    "debug": (Annotated[bool, _output("--debug", help="Show the traceback of an error.")], False),
}
_TEXTS = ("TEXT", "PROMPT", "TOKEN", "ID")
"""Values that may be empty, by the name that help gives them. All others are paths and names."""
_PATH = type("path", (Path,), {})  # of which help shows the name
_LARGEST = 2**63


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that all have, its exit codes, and its function a `terminal`."""
    own: list[inspect.Parameter] = []
    groups: dict[str, list[str]] = {}
    drawn: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        kind, *rest = get_args(parameter.annotation) or (None,)
        if kind is Asked:
            groups[name] = [one for names in rest for one in names]
            own += map(_never_empty, option_parameters(groups[name]))
        elif parameter.annotation is Outputs:
            drawn = dict(inspect.signature(Outputs).parameters)
        elif name != "terminal":
            own.append(_never_empty(parameter))
    own += map(_never_empty, drawn.values())
    infos = {p.name: get_args(p.annotation)[1] for p in own}
    spelled = [name for info in infos.values() for name in (info.default, *(info.param_decls or ()))]
    options = [str(name) for name in spelled if name is not ...]
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in _COMMON.items()
    ]

    @functools.wraps(function)
    def wrapper(**values: Any) -> None:
        terminal = Terminal(values.pop("color"), values.pop("quiet"), values.pop("verbose"))
        debug = values.pop("debug")
        with stop_on_signals(), exit_codes(terminal, debug=debug), warnings.catch_warnings():
            warnings.showwarning = functools.partial(_remark, terminal, warnings.showwarning)
            began = time.perf_counter()
            for name, value in values.items():
                _require_utf8(value)
                _require_countable(name, value)
            try:
                for name, value in _runs_meant(terminal, infos, values).items():
                    values[name] = value
                    if isinstance(value, Path):
                        _note_old_import(terminal, value)
                describe(_given(values, "run"), _given(values, "text"))
                refuse_unknown_keys(values.get("assignments") or (), options)
                for name, names in groups.items():
                    given = {one: values.pop(one) for one in names}
                    values[name] = Asked({one: value for one, value in given.items() if value not in (None, [])})
                if drawn:
                    values["outputs"] = Outputs(**{one: values.pop(one) for one in drawn})
                function(terminal=terminal, **values)
            except Misnamed as error:
                raise with_command(error, takes_checkpoint="checkpoint" in values) from None
            finally:
                _name_files(terminal)
            terminal.detail(f"Took {time.perf_counter() - began:.1f} s.")

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + common
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapper


def _given(values: Mapping[str, Any], name: str) -> str:
    given = values.get(name) or values.get(f"{name}s") or ()
    return " · ".join(map(str, given if isinstance(given, list | tuple) else [given]))


def _name_files(terminal: Terminal) -> None:
    from tfcli.render.numbers import short

    for path, size in written.items():
        terminal.note(f"Wrote {path} ({short(size, 'B')}).")


def _remark(terminal: Terminal, show: Callable[..., None], message: Warning, *where: Any, **more: Any) -> None:
    """Say a `Remark` of tfcli's own as a note; show any other warning as Python does."""
    from tfcli.errors import Remark

    if isinstance(message, Remark):
        terminal.note(str(message))
    else:
        show(message, *where, **more)


def _never_empty(parameter: inspect.Parameter) -> inspect.Parameter:
    """The same parameter, which refuses an empty path or name: that of a variable of the shell that is not set."""
    annotation, *rest = get_args(parameter.annotation)
    kinds = {kind for part in (annotation, *get_args(annotation)) for kind in (part, *get_args(part))}
    info = copy.copy(rest[0])
    is_text = not info.metavar or any(word in info.metavar for word in _TEXTS)
    if Path not in kinds and (str not in kinds or is_text):
        return parameter

    def parse(value: Any) -> Any:
        if not str(value).strip():
            raise ValueError("is empty, and names nothing")
        return Path(value) if Path in kinds else value

    info.parser = parse
    return parameter.replace(annotation=Annotated[_PATH if annotation in (Path, Path | None) else annotation, info])


def _runs_meant(terminal: Terminal, infos: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The paths of all values that name runs, before anything is loaded that takes long.

    Raises:
        UsageError: one names none; says what there is, or the command that was meant.
    """
    found = {}
    for name, info in infos.items():
        kinds, value = (info.metavar or "").split("|"), values[name]
        if value is not None and name == "out":
            _refuse_last(value, new_run=kinds[-1].startswith("RUN"))
        if value is None or name == "out" or not kinds[-1].startswith("RUN"):
            continue
        beside = {
            other: one
            for other, one in infos.items()
            if other != name and isinstance(info, ArgumentInfo) and isinstance(one, ArgumentInfo)
        }
        given = [values[other] for other in beside]
        texts = [str(text) for one in given for text in (one if isinstance(one, list) else [one]) if text]
        reads = any(word in (one.metavar or "") for one in beside.values() for word in ("TEXT", "PROMPT"))
        if reads and not texts and isinstance(value, Path) and " " in str(value):
            _require_run_before(value)
        paths = [_run_meant(terminal, path, kinds, texts) for path in (value if isinstance(value, list) else [value])]
        found[name] = paths if isinstance(value, list) else paths[0]
    return found


def _run_meant(terminal: Terminal, path: Path, kinds: Sequence[str], texts: Sequence[str]) -> Path:
    """The run, or where another kind of thing is taken too, that thing."""
    from tfcli.errors import UsageError
    from tfcli.runs.finding import LAST, existing_run, is_run

    if len(kinds) > 1 and (os.path.exists(path) or path.suffix == ".json"):  # noqa: PTH110
        return path
    try:
        run = existing_run(path).path
    except UsageError:
        if (named := next((text for text in texts if is_run(Path(text))), None)) is not None:
            raise behind(path, named) from None
        raise
    if str(path) == LAST and run != path:
        terminal.note(f"{LAST} is {run}.")
    return run


def _require_run_before(text: Path) -> None:
    """Refuse a text alone, where there is a run that may have been meant before it."""
    from tfcli.runs.finding import LAST, is_run

    if not os.path.lexists(text) and not is_run(text) and is_run(Path(LAST)):
        raise behind(text, LAST)


def _refuse_last(out: Path, *, new_run: bool) -> None:
    """Refuse a new run the name that means another one, and all else the place that would hide that."""
    from tfcli.errors import UsageError
    from tfcli.runs.directory import RunDirectory
    from tfcli.runs.finding import LAST

    hides = out.name == LAST if new_run else os.path.normpath(out) == LAST
    if hides and not RunDirectory(out).holds_run():
        raise UsageError(f"--out {str(out)!r}: {LAST} means the run that was trained last", "choose another --out")


def _note_old_import(terminal: Terminal, path: Path) -> None:
    """Say of a run that its texts are begun as the one that imported it begins them."""
    if not os.path.isfile(path / "config.json"):  # noqa: PTH113 (which fails over a path that cannot be)
        return
    from tfcli.runs.config import imported_by_old_rule

    if source := imported_by_old_rule(path):
        terminal.note(
            f"{path} was imported by the old rule: one token begins every text and one ends it, whatever the "
            f"checkpoint says; to import it again: tfcli import {shlex.quote(source)} --out NEW"
        )


def _require_countable(name: str, value: Any) -> None:
    """Refuse a number that fits into no machine's word."""
    from tfcli.errors import UsageError, shortened

    if isinstance(value, int) and abs(value) >= _LARGEST:
        option = f"--{name.replace('_', '-')}"
        raise UsageError(f"{option} {shortened(str(value))} is out of range", "give a number below 2^63")


def _require_utf8(value: Any) -> None:
    """Refuse bytes that are no text: they could be written into no recipe, no manifest and no JSON."""
    from tfcli.errors import UsageError

    for text in value if isinstance(value, list) else [value]:
        if isinstance(text, str | Path):
            try:
                str(text).encode()
            except UnicodeEncodeError:
                raise UsageError(f"{str(text)!a} is not valid UTF-8", "write or rename it in UTF-8") from None


def use_threads(threads: int) -> None:
    """Compute with so many CPU threads; 0: one a free core."""
    from tfcli.machine import choose_threads, wait_asleep_if_busy

    wait_asleep_if_busy(threads)
    import torch

    torch.set_num_threads(choose_threads(threads, torch.get_num_threads()))


def open_run(
    run: Path, checkpoint: str = "best", device: str = "auto", precision: "WeightPrecision | None" = None
) -> "LoadedRun":
    """A run's model on the device that was asked for.

    Raises:
        UsageError: there is no such run, checkpoint or device.
    """
    from tfcli.runs.load import load_run
    from tfcli.training.precision import choose_device

    return load_run(run, checkpoint, choose_device(device), precision)


def first_given(options: Mapping[str, Any]) -> str | None:
    """The first of these options that the user gave, to be refused by name."""
    return next((option for option, value in options.items() if value is not None), None)
