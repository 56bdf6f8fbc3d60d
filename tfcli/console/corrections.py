"""A mistyped command line, corrected: the exact line to type instead.

A line is corrected mistake by mistake. After each correction it is parsed again, until nothing is wrong with it, so
the line that is printed is one that tfcli accepts. `habits.toml` and the recipe's `synonyms.toml` have what people
type who know other programs.
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfcli.console.mistakes import Mistake, Parameter, bad_value
from tfcli.errors import near, shortened
from tfcli.files import packaged
from tfcli.runs.directory import LAST, RUNS, is_run

if TYPE_CHECKING:
    from tfcli.recipe.keys import Meant

# A line has fewer mistakes; this ends a correction that would go in a circle.
MOST_MISTAKES = 20
# Longer lines are not printed.
LONGEST_LINE = 500
TEXT_FILES = r"\.(txt|md|jsonl|csv|tsv|parquet|arrow|json|epub|pdf|docx|html?)(\.gz|\.zst)?$"
NOT_AVAILABLE = "the nearest that tfcli has"
# What a search tries if no learning rates were typed.
LEARNING_RATES = "1e-3 3e-4"
BOOLEANS = ("true", "false", "yes", "no", "on", "off", "0", "1")

HABITS: dict[str, Any] = packaged(__file__, "habits.toml")


@dataclass(frozen=True)
class Correction:
    """What to write instead of one mistake.

    Attributes:
        problem: What is wrong, without a full stop.
        remedy: In words, without a full stop. It may be empty.
        words: The whole line after `tfcli` without this mistake; None if it is not known.
        instead: The words that replace an option.
        option: The unknown option, if the mistake is one.
        shell_lines: Lines for the shell in place of the one that was typed.
    """

    problem: str
    remedy: str = ""
    words: list[str] | None = None
    instead: list[str] = field(default_factory=list)
    option: str = ""
    shell_lines: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class TypedOption:
    """An unknown option as it was typed: the index of its word, and its value, "" if there is none."""

    name: str
    place: int
    value: str
    has_equals_sign: bool

    @property
    def plain_name(self) -> str:
        """Without its dashes, and spelled as options are here."""
        return self.name.lstrip("-").replace("_", "-")


class Corrector:
    """Corrects command lines.

    Args:
        parse: Returns the first mistake in a line's words, None if there is none.
        groups: The names of the commands in each group.
    """

    def __init__(
        self, parse: Callable[[Sequence[str]], Mistake | None], groups: Callable[[], Mapping[str, Sequence[str]]]
    ) -> None:
        self._parse = parse
        self._groups = groups

    def correct(self, words: Sequence[str], mistake: Mistake | None) -> tuple[list[Correction], list[str]]:
        """Correct a line, mistake by mistake, beginning with one that is known.

        Returns:
            The corrections, and the lines to type; none if a mistake cannot be corrected.
        """
        words = list(words)
        corrections: list[Correction] = []
        is_complete = True
        while mistake is not None and len(corrections) < MOST_MISTAKES:
            correction = self._correction(mistake, words)
            corrections.append(correction)
            if correction.shell_lines:
                return corrections, correction.shell_lines if is_complete else []
            if correction.words is not None:
                words = correction.words
            elif mistake.option:
                is_complete = False
                words = without_option(words, typed_option(mistake, words), takes_value=True)
            else:
                return corrections, []
            mistake = self._parse(words)
        if mistake is not None or not is_complete:
            return corrections, []
        return corrections, [shlex.join(["tfcli", *words])]

    def _correction(self, mistake: Mistake, words: list[str]) -> Correction:
        if mistake.option:
            return self._of_option(mistake, words)
        if mistake.value and mistake.parameter:
            return _of_value(mistake, words)
        if mistake.message.startswith("No such command"):
            return self._of_command(mistake, words)
        if mistake.message.startswith("Got unexpected extra argument"):
            return self._of_extra_argument(mistake, words)
        if mistake.message.startswith("Missing ") and mistake.parameter:
            return self._of_missing(mistake, mistake.parameter, words)
        return Correction(mistake.message)

    # Commands

    def _of_command(self, mistake: Mistake, words: list[str]) -> Correction:
        problem = mistake.message.partition(" Did you mean ")[0].partition(" Choose from:")[0].rstrip(".")
        depth = _depth(mistake)
        if len(words) <= depth:
            return Correction(problem)
        typed = words[depth]
        rest = words[depth + 1 :]
        name = typed.lower().replace("_", "-")
        if typed == "version":
            return Correction("'version' takes no options", shell_lines=["tfcli version"])
        if depth > 0:
            return self._of_command_in_group(problem, mistake, words)
        for section in ("commands", "missing-commands"):
            for names, lines in HABITS[section].items():
                if name in names.split():
                    remedy = NOT_AVAILABLE if section == "missing-commands" else ""
                    return self._from_table(problem, remedy, lines, rest, here="")
        guesses = near(typed, mistake.commands)
        if guesses:
            remedy = f"did you mean {' or '.join(map(repr, guesses))}"
            return Correction(problem, remedy, [guesses[0], *rest] if len(guesses) == 1 else None)
        for group, names in self._groups().items():
            if name in names:
                return Correction(problem, "", [group, name, *rest])
        return self._from_table(problem, "", HABITS["first-word"]["word"], words, here="")

    def _of_command_in_group(self, problem: str, mistake: Mistake, words: list[str]) -> Correction:
        depth = _depth(mistake)
        group = words[:depth]
        typed = words[depth]
        rest = words[depth + 1 :]
        guesses = near(typed, mistake.commands)
        if guesses:
            remedy = f"did you mean {' or '.join(map(repr, guesses))}"
            return Correction(problem, remedy, [*group, guesses[0], *rest] if len(guesses) == 1 else None)
        for names, lines in HABITS["commands"].items():
            meant = lines.get("any", "").split()
            if typed.lower() in names.split() and len(meant) > 1 and meant[1] in mistake.commands:
                return Correction(problem, "", [*group, meant[1], *rest])
        return self._from_table(problem, "", HABITS["groups"].get(group[0], {}), words[depth:], here="")

    # Options

    def _of_option(self, mistake: Mistake, words: list[str]) -> Correction:
        typed = typed_option(mistake, words)
        problem = f"No such option: {typed.name}"
        options = _long_options(mistake)
        spelled = f"--{typed.plain_name}"
        if spelled in options:
            return _renamed(problem, f"did you mean {spelled}", words, typed, spelled)
        if _depth(mistake) == 0:
            return _moved_behind_command(problem, mistake, words)
        if "--set" in options:
            pair = _joined_pair(problem, mistake, words, typed)
            if pair is not None:
                return pair
        from_table = self._option_of_table(problem, mistake, words, typed, options)
        if from_table is not None:
            return from_table
        return _by_its_meaning(problem, mistake, words, typed, options)

    def _option_of_table(
        self, problem: str, mistake: Mistake, words: list[str], typed: TypedOption, options: Sequence[str]
    ) -> Correction | None:
        for section in ("options", "missing-options"):
            for names, lines in HABITS[section].items():
                if typed.plain_name not in names.split():
                    continue
                has_its_like = "--steps" in options if lines["needs"] == "train" else f"--{lines['needs']}" in options
                if not has_its_like:
                    continue
                is_missing = section == "missing-options"
                remedy = NOT_AVAILABLE if is_missing else lines["says"]
                takes_value = lines["needs"] == "train"
                typed, words = _with_one_value(typed, words)
                others = without_option(words, typed, takes_value=takes_value)
                depth = _depth(mistake)
                _, repaired = self.correct(others, self._parse(others))
                rest = shlex.split(repaired[0])[1 + depth :] if len(repaired) == 1 else []
                here = shlex.join(words[:depth])
                value = _seeds(typed.value) if is_missing else typed.value or "10"
                correction = self._from_table(problem, remedy, lines, rest, here=here, value=value)
                if not correction.shell_lines:
                    # The command that is meant lacks an option of the other one.
                    correction = self._from_table(problem, remedy, lines, [], here=here, value=value)
                return Correction(problem, correction.remedy, option=typed.name, shell_lines=correction.shell_lines)
        return None

    # Arguments

    def _of_extra_argument(self, mistake: Mistake, words: list[str]) -> Correction:
        text = text_in_words(mistake, words)
        if text:
            place = words.index(text[0])
            behind = words[place + len(text) :]
            takes_run = any("--run" in parameter.options for parameter in mistake.parameters)
            if takes_run and is_run(Path(text[0])):
                meant = [*words[:place], " ".join(text[1:]), "--run", text[0], *behind]
                return Correction(f"{text[0]!r} is a run, which is named by --run", "", meant)
            problem = f"The text was read as {len(text)} words"
            return Correction(problem, "quote it", [*words[:place], " ".join(text), *behind])
        problem = mistake.message.rstrip(".")
        operands = _operands(mistake, words)
        if words[0] == "run" and operands and "run" in _kinds(operands[0]):
            meant = ["generate", operands[0], " ".join(operands[1:])]
            return Correction(f"{operands[0]!r} is a run, not a recipe", "", meant)
        with_extra = _with_extra(problem, mistake, words)
        if with_extra is not None:
            return with_extra
        if words[0] == "run" and _kinds(operands[0]) == ["any"] and "sentence" in _kinds(operands[-1]):
            # `ollama run MODEL PROMPT`
            meant = ["generate", LAST, " ".join(operands[1:])]
            return Correction(f"There is no recipe {operands[0]!r}, and `run` takes no text", "", meant)
        return Correction(problem)

    def _of_missing(self, mistake: Mistake, missing: Parameter, words: list[str]) -> Correction:
        problem = mistake.message.partition(" Choose from:")[0].rstrip(".")
        name = next(iter(missing.options), "")
        if name.startswith("--"):
            with_extra = _with_extra(problem, mistake, words)
            if with_extra is not None:
                return with_extra
        else:
            name = missing.metavar
        if name == "RUN":
            return Correction(problem, "", [*words, LAST])
        command = " ".join(mistake.command.split()[1:])
        value = HABITS["missing"].get(f"{command} {name}")
        if value is None:
            return Correction(problem)
        operands = _operands(mistake, words)
        value = value.replace("{name}", Path(operands[0]).name if operands else LAST)
        if name.startswith("--"):
            return Correction(problem, "", _with_options(words, [name, value]))
        return Correction(problem, "", [*words, value])

    # The table of habits

    def _from_table(
        self, problem: str, remedy: str, lines: Mapping[str, str], rest: list[str], *, here: str, value: str = ""
    ) -> Correction:
        """The correction that a row of `habits.toml` describes, with each of its lines corrected in turn."""
        rest = _with_run_first(rest)
        first = rest[0] if rest and not rest[0].startswith("-") else ""
        line = next((lines[kind] for kind in _kinds(first) if kind in lines), None)
        if line is None:
            return Correction(problem, remedy)
        if line.startswith("for "):
            rates = LEARNING_RATES
            if "{rates}" in line:
                rates, rest = _learning_rates(rest)
            if any(word.startswith("-") and "$" in word for word in rest):
                return Correction(problem, remedy)
            filled = line.format(words=shlex.join(rest), here=here, value=value, rates=rates)
            return Correction(problem, remedy, shell_lines=[re.sub(" +", " ", filled)])
        typed_lines = []
        for step in line.split(" && "):
            words = _filled(step, rest, here=here, value=value)
            _, corrected = self.correct(words, self._parse(words))
            if len(corrected) != 1:
                return Correction(problem, remedy)
            typed_lines.append(corrected[0])
        return Correction(problem, remedy, shell_lines=typed_lines)


def sentence(corrections: Sequence[Correction], lines: Sequence[str], see: str) -> tuple[str, str]:
    """The problem and the remedy, without full stops.

    Args:
        corrections: Of each mistake, the first one first.
        lines: What to type; empty if it is not known.
        see: Where to look if there is no remedy.
    """
    first = corrections[0]
    # One that was typed twice is answered once.
    unknown = list({correction.option: correction for correction in corrections if correction.option}.values())
    if len("".join(lines)) > LONGEST_LINE:
        lines = []
    if len(unknown) > 1 and first.option:
        problem = f"No such options: {', '.join(correction.option for correction in unknown)}"
        remedies = [f"{correction.option}: {_in_words(correction, see)}" for correction in unknown]
        if lines:
            remedies.append(_type(lines))
        return problem, "; ".join(remedies)
    if lines:
        typed = _type(lines)
        if first.remedy:
            return first.problem, f"{first.remedy}: {typed.removeprefix('type ')}"
        return first.problem, typed
    return first.problem, _in_words(first, see)


def _in_words(correction: Correction, see: str) -> str:
    if correction.remedy and correction.instead:
        return f"{correction.remedy}: {shlex.join(map(shortened, correction.instead))}"
    return correction.remedy or see


def _type(lines: Sequence[str]) -> str:
    """The lines to type, with how to make a run if they are about the last one and there is none."""
    quoted = [f"`{line}`" for line in lines]
    if any(LAST in shlex.split(line) for line in lines) and not is_run(Path(LAST)):
        quoted.insert(0, "`tfcli run quickstart` for a run")
    return f"type {', then '.join(quoted)}"


# Options


def typed_option(mistake: Mistake, words: Sequence[str]) -> TypedOption:
    """Where an unknown option is in the line, and what follows it."""
    name = mistake.option
    start = _depth(mistake)
    place = start
    for index in range(start, len(words)):
        word, equals_sign, _ = words[index].partition("=")
        # `-lr` is refused as -l.
        is_combined = not name.startswith("--") and word.startswith(name) and not word.startswith("--")
        if word == name or is_combined:
            place = index
            name = word
            break
    _, equals_sign, value = words[place].partition("=") if place < len(words) else ("", "", "")
    following = words[place + 1] if place + 1 < len(words) else ""
    if not equals_sign and not re.match(r"-[^\d.]", following):
        value = following
    return TypedOption(name, place, value, bool(equals_sign))


def without_option(words: Sequence[str], typed: TypedOption, *, takes_value: bool) -> list[str]:
    """The line without an option, and without its value if it takes one."""
    count = 2 if takes_value and typed.value and not typed.has_equals_sign else 1
    return [*words[: typed.place], *words[typed.place + count :]]


def _replaced(words: Sequence[str], typed: TypedOption, instead: Sequence[str], *, takes_value: bool) -> list[str]:
    shorter = without_option(words, typed, takes_value=takes_value)
    return [*shorter[: typed.place], *instead, *shorter[typed.place :]]


def _renamed(problem: str, remedy: str, words: Sequence[str], typed: TypedOption, name: str) -> Correction:
    """The same option under its name here; its value stays where it is."""
    instead = words[typed.place].replace(typed.name, name, 1)
    corrected = [*words[: typed.place], instead, *words[typed.place + 1 :]]
    return Correction(problem, remedy, corrected, option=typed.name)


def _moved_behind_command(problem: str, mistake: Mistake, words: list[str]) -> Correction:
    """Options of a command that were typed before its name."""
    for index, word in enumerate(words):
        if word in mistake.commands:
            moved = [*words[index:], *words[:index]]
            return Correction(problem, "options follow the command", moved, option=mistake.option)
    return Correction(problem, option=mistake.option)


def _joined_pair(problem: str, mistake: Mistake, words: list[str], typed: TypedOption) -> Correction | None:
    """The two files of `--src A --tgt B` as one source, A,B."""
    sides = [HABITS["pairs"]["source"].split(), HABITS["pairs"]["target"].split()]
    side = next((number for number, names in enumerate(sides) if typed.plain_name in names), None)
    if side is None or not typed.value:
        return None
    others = without_option(words, typed, takes_value=True)
    for index, word in enumerate(others):
        name, equals_sign, value = word.partition("=")
        if not name.startswith("--") or name[2:].replace("_", "-") not in sides[1 - side]:
            continue
        following = others[index + 1] if index + 1 < len(others) else ""
        other = TypedOption(name, index, value if equals_sign else following, bool(equals_sign))
        if not other.value:
            return None
        files = [typed.value, other.value] if side == 0 else [other.value, typed.value]
        rest = without_option(others, other, takes_value=True)
        depth = _depth(mistake)
        corrected = [*rest[:depth], ",".join(files), *rest[depth:]]
        return Correction(problem, "the two sides of pairs are one source", corrected, option=typed.name)
    return None


def _by_its_meaning(
    problem: str, mistake: Mistake, words: list[str], typed: TypedOption, options: Sequence[str]
) -> Correction:
    """What a word from elsewhere is called here, or the nearest by spelling."""
    from tfcli.recipe import keys, loading

    meanings = keys.meanings(typed.name)
    for meant in meanings:
        as_argument = _as_argument(problem, mistake, words, typed, meant)
        if as_argument is not None:
            return as_argument
        as_option = _as_option(problem, words, typed, meant, options)
        if as_option is not None:
            return as_option
    if meanings:
        remedy = f"it sets {meanings[0].name}, and has no effect in `{mistake.command}`"
        is_flag = bool(meanings[0].value) and typed.value not in BOOLEANS
        corrected = without_option(words, typed, takes_value=not is_flag)
        return Correction(problem, remedy, corrected, option=typed.name)
    guesses = near(typed.plain_name, [option[2:] for option in options])
    if guesses:
        remedy = f"did you mean {' or '.join(f'--{guess}' for guess in guesses)}"
        if len(guesses) == 1:
            return _renamed(problem, remedy, words, typed, f"--{guesses[0]}")
        return Correction(problem, remedy, option=typed.name)
    remedy = f"see `{mistake.command} --help`"
    if "--set" in options:
        remedy = f"{remedy}, or {loading.as_keys(typed.plain_name)}"
    return Correction(problem, remedy, option=typed.name)


def _as_argument(
    problem: str, mistake: Mistake, words: list[str], typed: TypedOption, meant: "Meant"
) -> Correction | None:
    """The value as an argument, if that is what the option is here."""
    places = [parameter.metavar.strip("[]") for parameter in mistake.parameters if parameter.is_argument]
    for number, place in enumerate(places):
        if meant.name not in [set_by(part.lower()) for part in place.split("|")]:
            continue
        remedy = f"write {place.partition('|')[0]} without an option"
        if not typed.value or typed.value.startswith("-"):
            return Correction(problem, remedy, option=typed.name)
        rest = without_option(words, typed, takes_value=True)
        depth = _depth(mistake)
        if number == 0:
            rest.insert(depth, typed.value)
        else:
            rest.append(typed.value)
        return Correction(problem, remedy, rest, [typed.value], option=typed.name)
    return None


def _as_option(
    problem: str, words: list[str], typed: TypedOption, meant: "Meant", options: Sequence[str]
) -> Correction | None:
    """The option that sets the same, or --set; None if the command has neither."""
    from tfcli.recipe import keys

    key = next((key for key in keys.recipe_keys() if key.name == meant.name), None)
    option = next((option for option in options if set_by(option) == meant.name), None)
    if option is None and (key is None or "--set" not in options):
        return None
    remedy = f"it is called {meant.name}"
    is_unit = meant.value.isupper()
    # A word that means one value, such as --bf16, is a flag.
    is_flag = bool(meant.value) and not is_unit and typed.value.lower() not in BOOLEANS
    value = meant.value or typed.value
    takes_value = not is_flag
    if key is not None:
        is_boolean = "true" in key.choices
        if is_boolean and not meant.value and typed.value.lower() not in BOOLEANS:
            value = "true"
            takes_value = False
        if value and value not in key.choices:
            value = next(iter(near(value, key.choices)), value)
    if is_unit or not value:
        unit = value or (key.unit.upper() if key is not None else "") or "VALUE"
        instead = _as_words(meant.name, option, unit)
        return Correction(problem, remedy, None, instead, option=typed.name)
    instead = _as_words(meant.name, option, value)
    corrected = _replaced(words, typed, instead, takes_value=takes_value)
    if instead[-1] == "train.adapter=lora" and "--init" not in words:
        corrected = _with_options(corrected, ["--init", LAST])
    return Correction(problem, remedy, corrected, instead, option=typed.name)


def _as_words(key: str, option: str | None, value: str) -> list[str]:
    return ["--set", f"{key}={value}"] if option is None else [option, value]


def set_by(option: str) -> str:
    """The key that an option or an argument sets: the first meaning of its name."""
    from tfcli.recipe.keys import SYNONYMS, meanings

    if option in SYNONYMS:
        return option
    meant = meanings(option)
    return meant[0].name if meant else option


def means_a_time(name: str) -> bool:
    """Whether other programs limit the time of a training by this name."""
    plain = name.rpartition(".")[2].replace("_", "-").lower()
    return any(plain in names.split() for names in HABITS["options"])


def _seeds(value: str) -> str:
    """What a loop of the shell goes through: as many seeds as were asked for, or those that were named."""
    if value.isdecimal() and 0 < int(value) <= 20:
        return " ".join(str(seed) for seed in range(1, int(value) + 1))
    named = re.findall(r"\d+", value)
    return " ".join(named) if len(named) > 1 else "1 2 3"


def _with_one_value(typed: TypedOption, words: list[str]) -> tuple[TypedOption, list[str]]:
    """The option and the line with numbers that follow one another, as in `--seeds 0 1 2`, as one value."""
    if typed.has_equals_sign or not typed.value.isdecimal():
        return typed, words
    start = typed.place + 1
    end = start
    while end < len(words) and words[end].isdecimal():
        end += 1
    value = ",".join(words[start:end])
    joined = TypedOption(typed.name, typed.place, value, has_equals_sign=False)
    return joined, [*words[:start], value, *words[end:]]


def _learning_rates(words: Sequence[str]) -> tuple[str, list[str]]:
    """The learning rates that were typed, as a loop of the shell goes through them, and the line without them."""
    for index, word in enumerate(words):
        name, equals_sign, value = word.partition("=")
        if not name.startswith("--") or set_by(name) != "train.learning_rate":
            continue
        end = index + 1
        if not equals_sign:
            while end < len(words) and re.match(r"[\d.]", words[end]):
                end += 1
            value = " ".join(words[index + 1 : end])
        rates = re.findall(r"[\d.]+(?:e-?\d+)?", value)
        rest = [*words[:index], *words[end:]]
        return " ".join(rates) or LEARNING_RATES, rest
    return LEARNING_RATES, list(words)


# Values


def _of_value(mistake: Mistake, words: list[str]) -> Correction:
    """What a value from elsewhere is called here, or the nearest by spelling."""
    assert mistake.parameter is not None
    problem = bad_value(mistake.value, mistake.parameter, words)
    for index in reversed(range(len(words))):
        option, equals_sign, value = words[index].partition("=")
        place = index
        if option not in mistake.parameter.options:
            continue
        if not equals_sign:
            place = index + 1
            value = words[place] if place < len(words) else ""
        card = re.fullmatch(r"(?:cuda|gpu):?(\d+)", value, re.IGNORECASE)
        if option == "--device" and card and card[1] != "0":
            meant = [*words[:place], words[place].replace(value, "cuda"), *words[place + 1 :]]
            line = f"CUDA_VISIBLE_DEVICES={card[1]} {shlex.join(['tfcli', *meant])}"
            return Correction(problem, "choose the GPU so", shell_lines=[line])
        guess = _value_meant(option, value, _choices(mistake.value))
        if guess is None:
            return Correction(problem)
        instead = f"{option}={guess}" if equals_sign else guess
        return Correction(problem, "", [*words[:place], instead, *words[place + 1 :]])
    return Correction(problem)


def _value_meant(option: str, value: str, choices: Sequence[str]) -> str | None:
    for meant, names in HABITS["values"].get(option, {}).items():
        if value.lower() in names.split():
            return str(meant)
    guesses = near(value, choices)
    return guesses[0] if len(guesses) == 1 else None


def _choices(message: str) -> list[str]:
    """The values that a message of typer lists."""
    return re.findall("'([^']+)'", message.partition("is not one of")[2])


# Arguments


def _with_extra(problem: str, mistake: Mistake, words: list[str]) -> Correction | None:
    """An argument more than the command takes, under the option that it is meant for."""
    lines = HABITS["extra"].get(" ".join(mistake.command.split()[1:]))
    operands = _operands(mistake, words)
    arguments = [parameter for parameter in mistake.parameters if parameter.is_argument]
    if lines is None or len(operands) != len(arguments) + 1:
        return None
    extra = operands[-1]
    line = next((lines[kind] for kind in _kinds(extra) if kind in lines), None)
    if line is None:
        return None
    place = max(index for index, word in enumerate(words) if word == extra)
    added = [part.replace("{extra}", extra) for part in line.split()]
    return Correction(problem, "", _with_options([*words[:place], *words[place + 1 :]], added))


def _with_options(words: Sequence[str], options: Sequence[str]) -> list[str]:
    """The line with more options: at its end, or before a `--`, after which nothing is an option."""
    end = words.index("--") if "--" in words else len(words)
    return [*words[:end], *options, *words[end:]]


def _operands(mistake: Mistake, words: Sequence[str]) -> list[str]:
    """The arguments of the command in a line: what is neither an option nor the value of one."""
    with_value = {
        option
        for parameter in mistake.parameters
        if not parameter.is_argument and not parameter.is_flag
        for option in parameter.options
    }
    operands = []
    is_value = False
    for word in words[_depth(mistake) :]:
        if is_value:
            is_value = False
        elif word in with_value:
            is_value = True
        elif not word.startswith("-") or word == "-":
            operands.append(word)
    return operands


def text_in_words(mistake: Mistake, words: Sequence[str]) -> list[str]:
    """A text without quotes, word by word, if it is the last argument that the command takes."""
    arguments = [parameter for parameter in mistake.parameters if parameter.is_argument]
    if not arguments or "TEXT" not in arguments[-1].metavar:
        return []
    first = mistake.given.get(arguments[-1].name)
    if first not in words:
        return []
    text: list[str] = []
    for word in words[words.index(first) :]:
        if word.startswith("-"):
            break
        text.append(word)
    return text if len(text) > 1 else []


def _depth(mistake: Mistake) -> int:
    """How many words of a line are groups and the command."""
    return max(0, len(mistake.command.split()) - 1)


def _long_options(mistake: Mistake) -> list[str]:
    return [option for parameter in mistake.parameters for option in parameter.options if option.startswith("--")]


# What a word is


def _kinds(word: str) -> list[str]:
    """What a word may be, as `habits.toml` calls it; what fits best comes first."""
    from tfcli.recipe.shipped import shipped_recipes

    if not word:
        return ["none", "any"]
    kinds = []
    path = Path(word)
    if "\0" not in word and len(word) < 256:
        if word == LAST or is_run(path) or path.parts[:1] == (str(RUNS),):
            kinds.append("run")
        elif (
            word.startswith(("builtin:", "./", "~/"))
            or "*" in word
            or path.exists()
            or re.search(TEXT_FILES, word.lower())
        ):
            kinds.append("file")
        elif re.fullmatch(r"hf:\S+|[\w.-]+/[\w.-]+", word):
            kinds.append("hf")
    if word in shipped_recipes():
        kinds.append("recipe")
    if " " in word:
        kinds.append("sentence")
    return [*kinds, "any"]


def _names_file(word: str) -> bool:
    if word.startswith(("builtin:", "./", "~/")) or "*" in word:
        return True
    return re.search(TEXT_FILES, word.lower()) is not None or Path(word).exists()


def _with_run_first(rest: list[str]) -> list[str]:
    """The words after a command; a run that was named by an option, such as --model, comes first."""
    from tfcli.recipe.keys import meanings

    if rest and not rest[0].startswith("-"):
        return rest
    for index, word in enumerate(rest):
        name, equals_sign, value = word.partition("=")
        if not equals_sign:
            value = rest[index + 1] if index + 1 < len(rest) else ""
        names_run = name.startswith("-") and any(meant.name == "RUN" for meant in meanings(name))
        if names_run and "run" in _kinds(value):
            typed = TypedOption(name, index, value, bool(equals_sign))
            return [value, *without_option(rest, typed, takes_value=True)]
    return rest


def _filled(line: str, rest: Sequence[str], *, here: str, value: str) -> list[str]:
    """The words of a line of `habits.toml`."""
    operands = []
    for word in rest:
        if word.startswith("-"):
            break
        operands.append(word)
    options = list(rest[len(operands) :])
    first = operands[0] if operands else LAST
    several = {
        "{words}": list(rest),
        "{rest}": [*operands[1:], *options],
        "{options}": options,
        "{here}": here.split(),
        "{text}": [" ".join(operands)] if operands else [],
    }
    model = first.removeprefix("hf:")
    single = {"{first}": first, "{name}": Path(model).name, "{model}": f"hf:{model}", "{value}": value}
    words = []
    for part in line.split():
        if part in several:
            words += several[part]
            continue
        for placeholder, text in single.items():
            part = part.replace(placeholder, text)
        words.append(part)
    return words
