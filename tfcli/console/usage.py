"""Usage errors and command groups: what typer finds wrong, said in a sentence. All that typer does not promise stands
here alone: where it has that otherwise, help takes longer or a sentence says less, and every command still works."""

import re
import shlex
import sys
import types
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tfcli.addresses import AddressNeeded, masked
from tfcli.console.mistakes import Mistake
from tfcli.console.terminal import Terminal
from tfcli.errors import Misnamed, UsageError, near, shortened
from tfcli.outputs import begin_command, command_line

if TYPE_CHECKING:
    from tfcli.recipe.keys import Meant

try:
    from typer.core import TyperGroup
except ImportError:  # groups are then loaded at once, and typer draws its own boxes
    TyperGroup = None  # type: ignore[assignment, misc]


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

    load: Callable[[str], typer.Typer]

    def main(self, args: Sequence[str] | None = None, *others: Any, **settings: Any) -> Any:
        """Run a command line and exit with its code."""
        begin_command(sys.argv[1:] if args is None else args)
        words = _plain_spelling(command_line)
        _refuse_file_after_flag(words)
        try:
            code = super().main(words, *others, **{**settings, "standalone_mode": False})  # type: ignore[misc]
        except typer.Abort:
            Terminal().error("Stopped.")
            code = 1
        except typer.TyperException as error:
            mistake = Mistake(error)
            if mistake.message:
                problem, remedy = self._problem_and_remedy(mistake, [word for word in words if word not in _HELP])
                Terminal().error(f"{_cut(problem)}; {remedy}.")
            code = mistake.exit_code
        raise SystemExit(code)

    def _problem_and_remedy(self, mistake: Mistake, words: list[str]) -> tuple[str, str]:
        from tfcli.console import corrections

        groups = {name: list(command.commands) for name, command in self._groups().items()}
        corrector = corrections.Corrector(self._mistake_in, lambda: groups)
        found, lines = corrector.correct(words, mistake)
        return corrections.sentence(found, lines, f"see `{self._command()} --help`")

    def _groups(self) -> dict[str, Any]:
        commands: Mapping[str, Any] = getattr(self, "commands", {})
        return {name: command for name, command in commands.items() if hasattr(command, "commands")}

    def _mistake_in(self, words: Sequence[str]) -> Mistake | None:
        """The first mistake in a line that is only parsed, and not run."""
        if not words:
            return Mistake(typer.TyperException("Missing command."))  # typer shows help instead
        command: Any = typer.main.get_command(self.load(words[0] if words else ""))
        try:
            context = command.make_context("tfcli", list(words))
            while hasattr(command, "commands"):
                rest = [*getattr(context, "_protected_args", ()), *context.args]
                if not rest:
                    return Mistake(typer.TyperException("Missing command."))
                name, command, rest = command.resolve_command(context, rest)
                if hasattr(command, "commands") and not rest:
                    return None  # its help
                context = command.make_context(name, rest, parent=context)
        except typer.TyperException as error:
            return Mistake(error)
        return None

    def _command(self) -> str:
        """The command that is meant, as far as it is known."""
        path = ["tfcli"]
        group: Any = self
        for word in command_line:
            if (group := getattr(group, "commands", {}).get(word)) is None:
                break
            path.append(word)
        return " ".join(path)


def _refuse_file_after_flag(words: Sequence[str]) -> None:
    """Refuse `--csv FILE.csv`: the flag takes no value, and the file would be read as a text."""
    if not words or words[0] not in _TEXT_COMMANDS:
        return
    for place, flag in enumerate(words[:-1]):
        name = words[place + 1]
        if flag not in ("--csv", "--json") or not name.endswith(f".{flag[2:]}") or Path(name).exists():
            continue
        line = shlex.join(["tfcli", *words[: place + 1], *words[place + 2 :]])
        problem = f"{flag} writes to stdout, and takes no file"
        Terminal().error(f"{problem}; type `{line} > {shlex.quote(shortened(name))}`.")
        raise SystemExit(2)


_HELP = ("--help", "-h")
# Commands that take a text, whose --csv and --json are flags.
_TEXT_COMMANDS = ("inspect", "explain", "generate", "evaluate", "embed")


def _plain_spelling(words: Sequence[str]) -> list[str]:
    """The line, with other spellings of --help and --version as these."""
    if list(words) in (["version"], ["-v"], ["-V"]):
        return ["--version"]
    if not words:
        return ["--help"]
    if words[0] == "help":
        return [*words[1:], "--help"]
    return list(words)


def root_class(load: Callable[[str], typer.Typer]) -> Any:
    """The class of the root, for typer; None for typer's own.

    Args:
        load: Returns the app with the command of this name loaded.
    """
    if TyperGroup is None:
        return None
    return type("Commands", (_Root, TyperGroup), {"load": staticmethod(load)})


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
    text = shortened(str(first))
    if run in command_line:
        return UsageError(f"The run {run!r} comes before the text {text!r}", _write(words))
    return UsageError(f"{text!r} is not a run, and no run is named before it", _write(words))


def _write(words: Sequence[str]) -> str:
    return f"type `{shlex.join(['tfcli', *words])}`"


def ways_to_write(meant: "Meant", typed: str, options: Sequence[str]) -> str:
    """A key with its value, by a command's own option and by --set; nothing where the command has neither."""
    from tfcli.console.corrections import set_by
    from tfcli.recipe import keys, loading

    key = next((key for key in keys.recipe_keys() if key.name == meant.name), None)
    usual = "true" if key and "true" in key.choices else key.unit.upper() if key else ""
    value = meant.value or typed or usual or "VALUE"
    if key and value not in key.choices and (allowed := near(value, key.choices)):
        value = allowed[0]
    ways = [f"{option} {shlex.quote(value)}" for option in options if set_by(option) == meant.name]
    if key and "--set" in options:
        ways.append(f"--set {shlex.quote(f'{meant.name}={value}')} ({loading.as_keys(meant.name)} says more)")
    return ", or ".join(ways)


def refuse_unknown_keys(assignments: Sequence[str], options: Sequence[str]) -> None:
    """Refuse keys of --set that do not exist, each with the key that was meant, as this command takes it."""
    from tfcli.recipe import keys, recipe

    remedies: dict[str, str] = {}
    for assignment in assignments:
        name, equals_sign, value = (part.strip() for part in assignment.partition("="))
        if name.partition(".")[0] == keys.RESULT:
            problem = f"{shortened(name)!r} is a record of what a run has reached, and is not set"
            raise UsageError(problem, "leave it out, or let `tfcli plan --minutes 10` find what fits into a time")
        if name and equals_sign and name not in (*recipe.known_keys(), *recipe.SECTIONS):
            remedies[name] = _key_remedy(name, value, options)
    if len(remedies) == 1:
        [(name, remedy)] = remedies.items()
        raise UsageError(f"{shortened(name)!r} is not a recipe key", remedy)
    if remedies:
        names = ", ".join(repr(shortened(name)) for name in remedies)
        listed = "; ".join(f"{shortened(name)}: {remedy}" for name, remedy in remedies.items())
        raise UsageError(f"{names} are not recipe keys", listed)


def _key_remedy(name: str, value: str, options: Sequence[str]) -> str:
    """What to write instead of a key that does not exist."""
    from tfcli.console.corrections import means_a_time
    from tfcli.recipe import keys, loading

    if means_a_time(name):
        return f"find what fits into a time: `tfcli plan --minutes {shlex.quote(value)}`"
    words, meant = keys.key_meant(name)
    ways = ways_to_write(meant, value, options) if meant else ""
    if meant and ways:
        return f"{words} {meant.name}: {ways}"
    return f"{words} {loading.as_keys(name)}"


def _cut(problem: str) -> str:
    """The sentence with no more of a word of the command line than a sentence can quote."""
    values = [value for word in command_line for value in (word, word.partition("=")[2])]
    for spelled in (one for value in values for one in (value, repr(value)[1:-1])):
        problem = problem.replace(spelled, shortened(spelled))
    return problem
