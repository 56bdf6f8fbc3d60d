"""Usage errors and command groups: what typer finds wrong, said in a sentence. All that typer does not promise stands
here alone: where it has that otherwise, help takes longer or a sentence says less, and every command still works."""

import re
import shlex
import sys
import types
from collections.abc import Mapping, MutableMapping, Sequence
from importlib import import_module
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tfcli.addresses import AddressNeeded, masked
from tfcli.console.terminal import Terminal
from tfcli.errors import Misnamed, UsageError, near, shortened
from tfcli.outputs import begin_command, command_line

if TYPE_CHECKING:
    from tfcli.recipe.keys import Meant

try:
    from typer.core import TyperGroup
except ImportError:  # groups are then loaded at once, and typer draws its own boxes
    TyperGroup = None  # type: ignore[assignment, misc]


class Parameter:
    """An option or an argument of a command."""

    def __init__(self, found: Any) -> None:
        self.name: str = getattr(found, "name", "")
        self.options: list[str] = list(getattr(found, "opts", ()))
        self.metavar: str = getattr(found, "metavar", "") or ""
        self.is_argument: bool = getattr(found, "param_type_name", "") == "argument"


class Mistake:
    """What typer finds wrong with a command line; what it does not tell is empty. The message has no full stop, and is
    empty where help was shown; `value` is what is wrong with that of `parameter`, `option` one that is not there. The
    `command` has `tfcli` and its groups before it, `given` is what was read, and `commands` are those of a group."""

    def __init__(self, error: typer.TyperException) -> None:
        context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
        message, command = getattr(error, "message", ""), getattr(context, "command", None)
        self.message = error.format_message().rstrip(".")
        self.value: str = message if isinstance(error, typer.BadParameter) and parameter is not None else ""
        self.parameter = None if parameter is None else Parameter(parameter)
        self.option: str = getattr(error, "option_name", "") if hasattr(error, "possibilities") else ""
        self.command: str = getattr(context, "command_path", "")
        self.parameters = [Parameter(one) for one in getattr(command, "params", ())]
        self.given: Mapping[str, Any] = getattr(context, "params", {})
        self.commands = list(getattr(command, "commands", {}))
        self.exit_code: int = getattr(error, "exit_code", 2)


def group(place: str, help_text: str, alone: str = "") -> typer.Typer:
    """A group that stands for a Typer app ("module:name") or for commands ("module:one another") until it is needed.
    Without a command, it shows its help, or is the one that it is `alone`."""

    def app() -> typer.Typer:
        module, _, names = place.partition(":")
        found = [getattr(import_module(module), name) for name in names.split()]
        app = found.pop() if isinstance(found[0], typer.Typer) else typer.Typer()
        for one in found:
            app.command()(one)
        return app

    if TyperGroup is None:
        whole = typer.Typer(help=help_text, no_args_is_help=True, add_completion=False)
        whole.registered_commands = app().registered_commands
        return whole

    class Group(TyperGroup):
        _loaded: MutableMapping[str, Any] | None = None

        @property
        def commands(self) -> MutableMapping[str, Any]:
            """By name, in the order in which they were registered."""
            if self._loaded is None:
                self._loaded = typer.main.get_command(app()).commands  # type: ignore[attr-defined]
            return self._loaded

        @commands.setter
        def commands(self, none: Any) -> None:
            """Typer hands in those that it knows of: none yet."""

        def parse_args(self, context: Any, words: list[str]) -> list[str]:
            """Read the words behind the group's name, which may be no more than options of the command it is alone."""
            if alone and (not words or (words[0].startswith("-") and words[0] not in ("-h", "--help"))):
                words = [alone, *words]
            return super().parse_args(context, words)

    return typer.Typer(cls=Group, help=help_text, no_args_is_help=not alone, add_completion=False)


def leave_out_what_help_never_draws() -> None:
    """Keep typer from loading rich's Markdown and tracebacks, which would take a quarter of the time of help."""
    for name in ("Markdown", "Traceback"):
        unused = types.ModuleType(f"rich.{name.lower()}")
        setattr(unused, name, object)
        sys.modules.setdefault(unused.__name__, unused)


def quoted(texts: Sequence[str]) -> str:
    """The command that was typed, with these words quoted as one text; only that where they are not side by side."""
    one, count = " ".join(texts), len(texts)
    for place in range(len(command_line)):
        if command_line[place : place + count] == list(texts):
            return shlex.join(["tfcli", *command_line[:place], one, *command_line[place + count :]])
    return shlex.quote(one)


class _Root:
    """The root of all commands. What typer finds wrong ends in a sentence, where typer would draw a box."""

    def main(self, args: Sequence[str] | None = None, *others: Any, **settings: Any) -> Any:
        """Run a command line and exit with its code."""
        begin_command(sys.argv[1:] if args is None else args)
        try:
            code = super().main(command_line.copy(), *others, **{**settings, "standalone_mode": False})  # type: ignore[misc]
        except typer.Abort:
            Terminal().error("Stopped.")
            code = 1
        except typer.TyperException as error:
            found = Mistake(error)
            if found.message:
                problem, remedy = _problem_and_remedy(found)
                Terminal().error(f"{_cut(problem)}; {remedy or f'see `{self._command()} --help`'}.")
            code = found.exit_code
        raise SystemExit(code)

    def _command(self) -> str:
        """The command that is meant, as far as it is known."""
        path = ["tfcli"]
        group: Any = self
        for word in command_line:
            if (group := getattr(group, "commands", {}).get(word)) is None:
                break
            path.append(word)
        return " ".join(path)


# The class of the root, for typer; None for typer's own.
Commands = None if TyperGroup is None else type("Commands", (_Root, TyperGroup), {})


def with_command(error: Misnamed, *, takes_checkpoint: bool) -> UsageError:
    """The same refusal, with the command line that was meant; for a checkpoint's folder, with --checkpoint."""
    step = re.fullmatch(r"step-0*(\d+)", Path(error.given).name)
    named = step and takes_checkpoint and not any(word.startswith("--checkpoint") for word in command_line)
    for place, word in reversed([*enumerate(command_line)]):
        option, equals, value = word.partition("=") if re.match("-.*=", word) else ("", "", word)
        if Path(value) == Path(error.given):  # a name, which may stand behind an option's =
            words = [*command_line[:place], f"{option}{equals}{error.instead}", *command_line[place + 1 :]]
            return UsageError(error.problem, _write([*words, *(("--checkpoint", step[1]) if step and named else ())]))
    return UsageError(error.problem, error.remedy)


def with_address(error: AddressNeeded) -> AddressNeeded:
    """The same refusal, with the command line that was typed, in which the address is to be given."""
    words = list(map(masked, command_line))
    if any(error.address in word for word in words):
        return error.with_details(command=["tfcli", *words])
    if words[:1] == ["train"]:
        return error.with_details(command=["tfcli", *words, *_as_option(error.settings)])
    if words[:1] == ["run"] or not error.command:
        return error.with_details(command=["tfcli", *words, *error.settings])
    return error


def _as_option(settings: Sequence[str]) -> list[str]:
    """A source alone as --data, which `tfcli train` has."""
    words: list[str] = []
    for word in settings:
        if word.startswith("data.source=") and not word.startswith("data.source=["):
            words[-1] = "--data"
            word = word.removeprefix("data.source=")
        words.append(word)
    return words


def behind(first: Path, run: str) -> UsageError:
    """The refusal of a run that stands behind the text it belongs before, or that was left out."""
    words = [word for word in command_line if word != run]
    words.insert(next((place for place, word in enumerate(words) if Path(word) == first), len(words)), run)
    what = f"{run!r} behind it is one" if run in command_line else "none stands before it"
    return UsageError(f"{shortened(str(first))!r} is no run, and {what}", _write(words))


def _write(words: Sequence[str]) -> str:
    return f"write `{shlex.join(['tfcli', *words])}`"


def _problem_and_remedy(found: Mistake) -> tuple[str, str]:
    """Both without their full stop; the remedy is empty where there is no near guess."""
    from tfcli.runs.directory import LAST, is_run

    if found.value and found.parameter:
        return _bad_value(found.value, found.parameter), ""
    if found.option:
        return f"No such option: {found.option}", _option_meant(found)
    if found.message.startswith("Got unexpected extra argument") and (text := _text_in_words(found)):
        if is_run(Path(text[0])) and any("--run" in one.options for one in found.parameters):
            place = command_line.index(text[0])
            meant = [*command_line[:place], " ".join(text[1:]), "--run", text[0], *command_line[place + len(text) :]]
            return f"{text[0]!r} is a run, and stands behind --run", _write(meant)
        return f"The text was read as {len(text)} words", f"quote it: {quoted(text)}"
    if found.parameter and found.parameter.metavar == "RUN" and found.message.startswith("Missing argument"):
        return found.message, _write([*command_line, LAST]) if is_run(Path(LAST)) else ""
    problem = found.message.partition(" Did you mean ")[0].partition(" Choose from:")[0].rstrip(".")
    if problem.startswith("No such command") and found.command:
        # The message quotes the first word that is no command, which stands right behind its group.
        typed = command_line[len(found.command.split()) - 1]
        guess = COMMANDS.get(typed.lower(), "") or " or ".join(map(repr, near(typed, found.commands)))
        return problem, f"did you mean {guess}" if guess else ""
    return problem, ""


COMMANDS = {  # what other programs call a command
    **dict.fromkeys(("sample", "chat", "complete", "translate", "predict", "infer"), "`tfcli generate RUN`"),
    **dict.fromkeys(("fit", "pretrain"), "`tfcli train`"),
    **dict.fromkeys(("finetune", "fine-tune"), "`tfcli train --init RUN`"),
    **dict.fromkeys(("test", "score", "perplexity"), "`tfcli evaluate RUN`"),
    **dict.fromkeys(("ls", "list"), "`tfcli runs list` or `tfcli recipes list`"),
    **dict.fromkeys(("convert", "download", "pull"), "`tfcli import FOLDER` or `tfcli export RUN`"),
}


def _option_meant(found: Mistake) -> str:
    """What an option that a command does not have is called there, ready to be typed; else where to look for it."""
    from tfcli.recipe import keys, loading

    typed, options = found.option, [one for each in found.parameters for one in each.options if one.startswith("--")]
    if not typed.startswith("--"):  # -lr is read as -l
        typed = next((word.partition("=")[0] for word in command_line if word.startswith(typed)), typed)
    plain = typed.lstrip("-").replace("_", "-")
    if f"--{plain}" in options:
        return f"did you mean --{plain}"
    value, known = _value([typed]) or "", keys.meanings(plain)
    value = "" if value.startswith("--") else value
    places = [one.metavar.strip("[]") for one in found.parameters if one.is_argument]
    for meant in known:
        for number, place in enumerate(places):
            if meant.name in [_set_by(part.lower()) for part in place.split("|")]:
                given = meant.value or (shlex.quote(value) if value else place)
                return f"write {place} without an option: {' '.join([found.command, *places[:number], given])}"
        if ways := ways_to_write(meant, value, options):
            return f"it is called {meant.name}: {ways}"
    if known:
        return f"it is called {known[0].name}, and has no effect in `{found.command}`"
    if guess := near(plain, [option[2:] for option in options]):
        return f"did you mean {' or '.join(f'--{option}' for option in guess)}"
    return f"see `{found.command} --help`, or {loading.as_keys(plain)}" if "--set" in options else ""


def ways_to_write(meant: "Meant", typed: str, options: Sequence[str]) -> str:
    """A key with its value, by a command's own option and by --set; nothing where the command has neither."""
    from tfcli.recipe import keys, loading

    key = next((key for key in keys.recipe_keys() if key.name == meant.name), None)
    usual = "true" if key and "true" in key.choices else key.unit.upper() if key else ""
    value = meant.value or typed or usual or "VALUE"
    if key and value not in key.choices and (allowed := near(value, key.choices)):
        value = allowed[0]
    ways = [f"{option} {shlex.quote(value)}" for option in options if _set_by(option) == meant.name]
    if key and "--set" in options:
        ways.append(f"--set {shlex.quote(f'{meant.name}={value}')} ({loading.as_keys(meant.name)} says more)")
    return ", or ".join(ways)


def _set_by(option: str) -> str:
    """The key that an option or an argument sets: the first meaning of its name."""
    from tfcli.recipe.keys import SYNONYMS, meanings

    found = [] if option in SYNONYMS else meanings(option)
    return found[0].name if found else option


def refuse_unknown_keys(assignments: Sequence[str], options: Sequence[str]) -> None:
    """Refuse a key of --set that does not exist, with the key that was meant, as this command takes it."""
    from tfcli.recipe import keys, loading, recipe

    for assignment in assignments:
        name, equals, value = (part.strip() for part in assignment.partition("="))
        if name and equals and name not in (*recipe.known_keys(), *recipe.SECTIONS):
            said, meant = keys.key_meant(name)
            ways = ways_to_write(meant, value, options) if meant else ""
            remedy = f"{said} {meant.name}: {ways}" if meant and ways else f"{said} {loading.as_keys(name)}"
            raise UsageError(f"{shortened(name)!r} is not a recipe key", remedy)


def _text_in_words(found: Mistake) -> list[str]:
    """A text without quotes, word by word, where it is the last argument that the command takes."""
    arguments = [one for one in found.parameters if one.is_argument]
    if not arguments or "TEXT" not in arguments[-1].metavar:
        return []
    behind_first = dropwhile(lambda word: word != found.given.get(arguments[-1].name), command_line)
    text = list(takewhile(lambda word: word[:1] != "-", behind_first))
    return text if len(text) > 1 else []


def _bad_value(message: str, parameter: Parameter) -> str:
    """The option, the value, and what was expected of it: "--beam 'two' should be a valid integer"."""
    expected = message.removeprefix("Value error, ").partition(", unable to")[0].rstrip(".")
    name = next(iter(parameter.options), parameter.name)
    if not name.startswith("-"):  # an argument, which help calls by what is wanted
        return f"{parameter.metavar or name} {expected}"
    value = _value(parameter.options)
    if value is None or expected.startswith(repr(value)):
        return f"{name} {expected}"
    return f"{name} {value!r} {expected.removeprefix('Input ')}"


def _value(options: Sequence[str]) -> str | None:
    """The last value that an option was given."""
    for place in reversed(range(len(command_line))):
        name, equals, value = command_line[place].partition("=")
        if name in options and (equals or place + 1 < len(command_line)):
            return value if equals else command_line[place + 1]
    return None


def _cut(problem: str) -> str:
    """The sentence with no more of a word of the command line than a sentence can quote."""
    values = [value for word in command_line for value in (word, word.partition("=")[2])]
    for spelled in (one for value in values for one in (value, repr(value)[1:-1])):
        problem = problem.replace(spelled, shortened(spelled))
    return problem
