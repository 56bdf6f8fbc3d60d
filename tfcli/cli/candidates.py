"""Shell completion: what can stand where the cursor is. It loads no typer; a generated file has the commands."""

import json
import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

Candidates = Iterable[tuple[str, str]]  # values, each with what it means


def answer(shell: str, line: str = "") -> None:
    """Print what can stand at the end of a line: for bash a value a line, else with a tab and its meaning."""
    for value, about in candidates(line):
        if value.isprintable():  # a name of several lines, or that steers a terminal, is left out
            print(shlex.quote(value) if shell == "bash" else f"{value}\t{about}")


def candidates(line: str) -> Candidates:
    """What the last word of a command line can be, as far as it is written."""
    *typed, word = _words(line)[1:] or [""]
    command = known = json.loads(Path(__file__).with_name("commands.json").read_text(encoding="utf-8"))
    places: list[str] = []
    option, options_end = "", False
    for before in typed:
        if option:
            option = ""
        elif before.startswith("-") and len(before) > 1 and not options_end:
            options_end = before == "--"
            option = before if command.get("options", {}).get(before, [""])[0] else ""
        elif before in command.get("commands", {}):
            command = command["commands"][before]
        else:
            places.append(before)
    options, head = command.get("options", {}), ""
    if not option and word.startswith("-") and not options_end:
        option, equals, rest = word.partition("=")
        if not equals:
            return [(name, about) for name, (_, about) in options.items() if name.startswith(word)]
        head, word = f"{option}=", rest
    if option:
        found = _values(option, options.get(option, [""])[0], word, known["keys"], places)
    elif "commands" in command:
        found = ((name, inner["help"]) for name, inner in command["commands"].items() if not places)
    else:
        arguments = command.get("arguments", [])
        place = arguments[min(len(places), len(arguments) - 1)] if arguments else ""
        found = _values("", place, word, known["keys"], places)
    return [(head + value, about) for value, about in found if value.startswith(word)]


def _words(line: str) -> list[str]:
    """The words of a line that need not be complete, quotes taken off; the last one may be empty."""
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    try:
        words.extend(lexer)
    except ValueError:  # a quote is open
        return [*words, lexer.token]
    return [*words, ""] if line[-1:].isspace() or len(words) < 2 else words


def _values(option: str, place: str, word: str, keys: dict[str, Any], places: list[str]) -> Candidates:
    """What an option or an argument can be, by its name in help, whose lower-case parts are values themselves."""
    for part in [option] if option in ("--preset", "--recipe", "--out") else place.split("|"):
        if part == "KEY=VALUE":
            yield from _settings(word, keys)
        elif part == "--preset":
            from tfcli.models.presets import PRESETS

            yield from ((name, "") for name in PRESETS)
        elif part in ("RECIPE", "--recipe"):
            from tfcli.recipe.shipped import shipped_recipes

            yield from ((name, "") for name in shipped_recipes())
            yield from _paths(word, ".toml")
        elif part.startswith("RUN"):
            from tfcli.runs.directory import LAST, run_names

            names = run_names()
            yield from ((LAST, "the run written to last"),) if names else ()
            yield from ((name, "") for name in names)
            yield from _paths(word)
        elif part == "SOURCE":
            yield from _sources(word)
        elif part == "IDEA":
            from tfcli.lectures import lectures

            for lecture in lectures().lectures:
                yield from ((lecture.name, lecture.title), *((idea.id, idea.idea) for idea in lecture.ideas))
        elif part == "STEP":
            from tfcli.errors import UsageError
            from tfcli.runs.directory import existing_run

            with suppress(UsageError):  # it names none
                yield from ((str(step), "") for run in places[:1] for step in existing_run(Path(run)).steps())
        elif part.islower():
            yield part, ""


def _settings(word: str, keys: dict[str, Any]) -> Candidates:
    """Keys of a recipe, and what a key can be, its default first."""
    key, equals, value = word.partition("=")
    if not equals:
        yield from ((f"{name}=", about) for name, (_, about) in keys.items())
    elif key in ("data.source", "data.validation"):
        yield from ((f"{key}={source}", about) for source, about in _sources(value))
    elif key in keys:
        yield from ((f"{key}={one}", "") for one in keys[key][0])


def _sources(word: str) -> Candidates:
    from tfcli.corpora.open import KINDS, PREFIX

    sides, comma, begun = word.rpartition(",")  # of pairs in two files
    yield from ((f"{PREFIX}{name}", "") for name in KINDS)
    yield from ((f"{sides}{comma}{path}", about) for path, about in _paths(begun, ""))


def _paths(word: str, *endings: str) -> Iterator[tuple[str, str]]:
    """Folders and files in the working folder; a path that is longer is left to the shell."""
    if "/" not in word:
        for entry in sorted(os.scandir(), key=lambda entry: entry.name):
            if not entry.name.startswith(".") and (entry.is_dir() or entry.name.endswith(endings)):
                yield f"{entry.name}/" if entry.is_dir() else entry.name, ""
