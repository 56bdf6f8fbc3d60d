"""Loading recipes: shipped ones by name, TOML files, `--set`, and what a run's recipe may still change."""

import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from tfcli.addresses import AddressNeeded, hidden, is_network
from tfcli.errors import BrokenInputError, UsageError, shortened
from tfcli.files import type_adapter
from tfcli.outputs import reading_from
from tfcli.recipe import Section
from tfcli.recipe.data import DataSection
from tfcli.recipe.keys import key_meant
from tfcli.recipe.recipe import DECIDED_BY_THE_RUN, DECISIVE, SECTIONS, GenerateSection, Recipe, known_keys
from tfcli.recipe.shipped import find_recipe

Settings = Mapping[str, Any]  # nested settings as TOML reads them: ``{"model": {"d_model": 64}}``
LONGEST_NAME = 100  # bytes of a recipe's name
_INSTEAD = {
    "train": (("batch_size", "batch_tokens"), ("steps", "epochs"), ("epochs", "steps")),
    "data": (("source", "sources"), ("sources", "source")),
}
"""Pairs of keys of a section: where a later layer names only the first, an earlier layer's second is dropped."""
_GONE = {"beam_groups": 1, "diversity": 0.5}  # [generate]: keys of diverse beam search, with what was usual
_TAKE_OUT = "take the line out of [generate]"
_RESTORE = "restore it, or train the run again"
_MOST_BYTES = 4 << 20
_MOST_PARTS = 32  # of a key, joined by dots. The library takes a minute and 6 GB for a hundred thousand
_WRITTEN_WHERE_SET = ("evaluate", "inspect", "check", "result", "origin")  # sections without a line of defaults
_DEEPEST, _LARGEST = 16, 2**63
_WORDS = re.compile(
    r"""\#[^\n]*|"{3}(?:[^"\\]|\\[\s\S]?|"(?!""))*+"{0,5}|'{3}(?:[^']|'(?!''))*+'{0,5}"""  # comments and long texts
    r"""|(?P<part>[\w-]+|"(?:[^"\\\n]|\\.)*"?|'[^'\n]*'?)|(?P<dot>[ \t]*\.[ \t]*)|[^\w]"""
)


class WrittenNumber(float):
    """A number with a fraction that remembers how a TOML text writes it: 1.10 is the float 1.1, and not the head 1.1.

    Attributes:
        text: The number as it is written.
    """

    text: str

    def __new__(cls, text: str) -> "WrittenNumber":
        """Read a number of TOML, in which digits may be parted by underscores."""
        number = super().__new__(cls, text)
        number.text = text
        return number


def build_recipe(*layers: Settings) -> Recipe:
    """Merge layers of settings, later ones winning, and check the whole. None stands for the default. A UsageError
    tells of an unknown key, with the one that is meant, of a wrong type, or of a value out of range. No recipe holds
    the secret of an address (`addresses.hidden`)."""
    from pydantic import ValidationError

    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            for name, other in _INSTEAD.get(key, ()) if isinstance(value, Mapping) else ():
                if value.get(name) is not None and value.get(other) is None:
                    merged.get(key, {}).pop(other, None)
                elif name == "steps" and None not in (value.get(name), value.get(other)):
                    raise _twice(f"train.{one} = {shortened(repr(value[one]))}" for one in (name, other))
            _put(merged, key, value)
    merged = with_sources(merged, hidden)
    for name, usual in _GONE.items():
        if (value := merged.get("generate", {}).pop(name, usual)) != usual:
            raise UsageError(f"generate.{name} = {shortened(repr(value))}: diverse beam search is gone", _TAKE_OUT)
    _refuse_unknown_keys(merged)
    inspected = merged.get("inspect", {})
    if isinstance(inspected.get("head"), WrittenNumber):
        inspected["head"] = inspected["head"].text
    for key, value in merged.items():
        _require_plain(key, value)
    try:  # JSON mode lets arrays become tuples and yet never turns "3" into 3
        recipe: Recipe = type_adapter(Recipe).validate_json(json.dumps(merged, default=str), strict=True)
    except ValidationError as error:
        raise _as_usage_error(error.errors()) from error
    if "name" in merged and (not recipe.name or as_name(recipe.name) != recipe.name):
        remedy = f"use letters, digits, '.', '_' and '-', {LONGEST_NAME} at most, and do not begin with a dot"
        raise UsageError(f"name = {shortened(recipe.name)!r} cannot be the name of a run", remedy)
    return recipe


def with_sources(settings: Settings, change: Callable[[str], str]) -> dict[str, Any]:
    """The settings with every name of a source changed. They need not be checked yet."""
    data = settings.get("data")
    if not isinstance(data, Mapping):
        return dict(settings)

    def changed(value: Any) -> Any:
        if isinstance(value, str):
            return change(value)
        if isinstance(value, list | tuple):
            return [changed(one) for one in value]
        if isinstance(value, Mapping) and "source" in value:
            return {**value, "source": changed(value["source"])}
        return value

    named = {key: changed(data[key]) for key in ("source", "sources", "validation") if key in data}
    return {**settings, "data": {**data, **named}}


def words_naming(data: DataSection) -> list[str]:
    """The words of a command line that set those sources of a recipe which are on other machines."""
    words = []
    if any(is_network(name) for name in data.names):
        key = "source" if data.sources is None else "sources"
        value = getattr(data, key)
        text = value if isinstance(value, str) else _value(value)
        words += ["--set", f"data.{key}={text}"]
    if data.validation is not None and is_network(data.validation):
        words += ["--set", f"data.validation={data.validation}"]
    return words


@contextmanager
def naming_text(data: DataSection) -> Iterator[None]:
    """Refuse the addresses of a recipe's text with the sources and the settings that give it."""
    try:
        yield
    except AddressNeeded as error:
        names = data.names if data.validation is None else (data.validation,)
        raise error.with_details(names=names, settings=words_naming(data)) from error


def _twice(lengths: Iterable[str]) -> UsageError:
    return UsageError(f"{' and '.join(lengths)} both say how long to train", "leave one of them out")


def as_name(text: str) -> str:
    """The text as the name of a run and its folder: what cannot stand there becomes "-"."""
    return re.sub(r"[^\w.-]+", "-", text).lstrip(".").encode()[:LONGEST_NAME].decode(errors="ignore")


def generation_settings(recipe: Recipe, given: Mapping[str, Any]) -> GenerateSection:
    """A recipe's own [generate] section with what is given, and not None, over it; raises as `build_recipe`."""
    chosen = {key: value for key, value in given.items() if value is not None}
    return build_recipe({"generate": asdict(recipe.generate)}, {"generate": chosen}).generate


def read_recipe(name_or_path: str) -> dict[str, Any]:
    """The settings of a shipped recipe or of a TOML file, as they are written there."""
    return read_toml(find_recipe(name_or_path))


def read_toml(path: Path) -> dict[str, Any]:
    """The settings in a TOML file; a UsageError where it cannot be read, is larger than any recipe, or is no TOML."""
    if path.exists() and not path.is_file():
        raise UsageError(f"The recipe {path} is no plain file", "name a file")
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"Cannot read the recipe {path}: {error.strerror}", "check the path") from error
    if len(data) > _MOST_BYTES:
        raise UsageError(f"The recipe {path} is larger than {_MOST_BYTES:,} bytes", "name a smaller file")
    try:
        return parse_toml(data.decode("utf-8-sig"))
    except ValueError as error:
        raise UsageError(f"The recipe {path} is not valid TOML ({error})", "correct it at that place") from error


def parse_toml(text: str) -> dict[str, Any]:
    """The settings in a TOML text; a ValueError where it is none, or holds what the library does not bear."""
    parts = 0
    for word in _WORDS.finditer(text):
        parts = parts + 1 if word["part"] else parts if word["dot"] else 0
        if parts > _MOST_PARTS:
            raise ValueError(f"a key has more than {_MOST_PARTS} parts")
    try:
        return tomllib.loads(text, parse_float=WrittenNumber)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:  # of Python, which reads no longer ones
        raise ValueError("a number has thousands of digits") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def recorded_settings(path: Path) -> dict[str, Any]:
    """The settings in a run's recipe. The name of an old run is mended where it would be refused today."""
    try:
        settings = read_toml(path)
    except UsageError as error:  # which names the file
        raise BrokenInputError(error.problem, _RESTORE) from error
    if isinstance(settings.get("name"), str):
        name = as_name(settings.pop("name"))
        settings |= {"name": name} if name else {}
    return settings


def load_recorded(path: Path) -> Recipe:
    """The recipe a run was made with; a BrokenInputError where it is damaged, or names settings that this version does
    not know, and a UsageError where a source of its text is to be written by this command."""
    try:
        recipe = build_recipe(recorded_settings(path))
    except UsageError as error:
        remedy = _TAKE_OUT if error.remedy == _TAKE_OUT else _RESTORE
        raise BrokenInputError(f"{path} cannot be read ({error.problem})", remedy) from error
    for source in filter(None, (*recipe.data.names, recipe.data.validation)):
        reading_from(source)
    return recipe


def parse_assignments(assignments: Sequence[str]) -> dict[str, Any]:
    """``["model.norm=layernorm", "train.steps=50"]`` as settings; values are TOML, or bare words, one a key."""
    return typed_settings(assignments, ())[0]


def typed_settings(
    assignments: Sequence[str], options: Iterable[tuple[str, str, Any]]
) -> tuple[dict[str, Any], dict[str, str]]:
    """As `parse_assignments`, with options (as typed, key, value); with the settings comes how each key was typed."""
    settings: dict[str, Any] = {}
    typed: dict[str, str] = {}
    values: dict[str, Any] = {}
    for words, key, value in (*options, *((f"--set {shlex.quote(one)}", *_assigned(one)) for one in assignments)):
        section, dot, name = key.partition(".")
        given = {name: value} if dot else value
        for one, part in _flat(section, given).items():
            if one in typed and values[one] != part:
                problem = f"{shortened(typed[one])} and {shortened(words)} give {shortened(one)} two values"
                raise UsageError(problem, "leave one of them out")
            typed.setdefault(one, words)
            values[one] = part
        _put(settings, section, given)
    if len(both := {"train.steps", "train.epochs"} & typed.keys()) == 2:
        raise _twice(shortened(typed[key]) for key in sorted(both))
    return settings, typed


def _flat(key: str, value: Any) -> dict[str, Any]:
    """What is set inside a section, each under its whole name; or the one value."""
    return {f"{key}.{name}": one for name, one in value.items()} if isinstance(value, Mapping) else {key: value}


def _assigned(assignment: str) -> tuple[str, Any]:
    """The key and the value of what stands behind --set."""
    key, equals, text = (part.strip() for part in assignment.partition("="))
    if text.encode(errors="replace").decode() != text:
        raise UsageError(f"{shortened(key)} = {shortened(ascii(text))} is not plain text", "write it in valid UTF-8")
    if not equals or not key:
        raise UsageError(f"--set {shortened(assignment)!r} is not key=value", "write for example --set train.steps=500")
    try:
        read = parse_toml(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return key, text
    except ValueError as error:
        raise UsageError(f"{shortened(key)} = {shortened(text)} cannot be read: {error}", "give another") from error
    if len(read) > 1:
        problem = f"--set {shortened(key)} has several lines, and more than one setting"
        raise UsageError(problem, "give each setting a --set of its own")
    return key, read["value"]


def _put(settings: dict[str, Any], key: str, value: Any) -> None:
    """Set a key; a section is merged into what is there of it."""
    if key not in SECTIONS:
        settings[key] = value
    elif isinstance(value, Mapping):
        merged = {**settings.get(key, {}), **value}
        settings[key] = {name: setting for name, setting in merged.items() if setting is not None}
    else:
        shown = shortened(repr(value))
        raise UsageError(f"{key} = {shown} is a whole section", f"set one of its keys, as in {key}.KEY={shown}")


def _refuse_unknown_keys(settings: Mapping[str, Any]) -> None:
    """As they stand in a file: what was meant is told with its section."""
    known = {*known_keys(), *SECTIONS}
    for key, value in settings.items():
        for name, given in (_flat(key, value) or {key: value}).items():
            if name not in known:
                said, meant = key_meant(name)
                remedy = f"{said} {meant.name if meant else as_keys(name)}"
                if meant and "--" not in meant.name:
                    section, _, field = meant.name.rpartition(".")
                    text = shortened(json.dumps(meant.value or given, ensure_ascii=False, default=str))
                    text = meant.value if meant.value.isupper() or meant.value.isdigit() else text
                    remedy += f": {field} = {text}{section and f' under [{section}]'} ({as_keys(field)} says more)"
                raise UsageError(f"{shortened(name)!r} is not a recipe key", remedy)


def as_keys(name: str) -> str:
    """The command that shows a key."""
    return shlex.join(["tfcli", "recipes", "keys", *filter(None, [shortened(name.rpartition(".")[2])])]).join("``")


def _require_plain(key: str, value: Any, depth: int = 1) -> None:
    """Refuse what could not be checked: numbers that fit into no machine's word, and deep nesting."""
    if depth > _DEEPEST:
        raise UsageError(f"{shortened(key)} is nested too deeply", "see `tfcli recipes show` for examples")
    if isinstance(value, Mapping):
        for name, setting in value.items():
            _require_plain(f"{key}.{name}" if depth == 1 else key, setting, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _require_plain(key, item, depth + 1)
    elif isinstance(value, int) and abs(value) >= _LARGEST:
        shown = shortened(str(value) if value.bit_length() < 14_000 else hex(value))  # Python spells no longer ones
        raise UsageError(f"{key} = {shown} is out of range", f"it must be less than {_LARGEST}")


_EXPECTED = {"int_type": "a whole number", "int_from_float": "a whole number", "float_type": "a number"}
_EXPECTED |= {"finite_number": "a finite number", "bool_type": "true or false", "string_type": "a text"}
_EXPECTED |= {"string_too_short": "a text with something in it", "tuple_type": "a list"}
_EXPECTED |= {"dataclass_type": "a section of settings"}
_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


def _as_usage_error(errors: Sequence[Mapping[str, Any]]) -> UsageError:
    """The first of the errors that pydantic found; a key with several types has an error for each."""
    error = errors[0]
    key = ".".join([part for part in error["loc"] if isinstance(part, str)][:2])
    value = shortened(json.dumps(error["input"], ensure_ascii=False, default=str))
    context = error.get("ctx", {})
    for bound, words in _BOUNDS.items():
        if bound in context:
            return UsageError(f"{key} = {value} is out of range", f"it must be {words} {context[bound]}")
    if "expected" in context:
        is_switch = any(other["type"] == "bool_type" and other["loc"][:2] == error["loc"][:2] for other in errors)
        choices = f"{context['expected']}, true or false" if is_switch else context["expected"]
        return UsageError(f"{key} = {value} is not known", f"choose {choices}")
    expected = _EXPECTED.get(error["type"], "of the right type")
    return UsageError(f"{key} = {value} is not {expected}", "see `tfcli recipes show` for examples")


def to_toml(recipe: Recipe) -> str:
    """The recipe as TOML. Settings that are None have no line, for TOML has no null; nor has a name that is none."""
    lines = [line for line in _lines(recipe) if line != 'name = ""']
    for section, kind in SECTIONS.items():
        settings = getattr(recipe, section)
        elsewhere = recipe.is_imported and section in ("tokenizer", "data", "train")  # where these stages happened
        if not elsewhere and (section not in _WRITTEN_WHERE_SET or settings != kind()):
            lines += ["", f"[{section}]", *_lines(settings)]
    return "\n".join(lines) + "\n"


def _lines(section: Section) -> list[str]:
    written = {name: value for name, value in vars(section).items() if value is not None and name not in SECTIONS}
    return [f"{name} = {_value(value)}" for name, value in written.items()]


def _value(value: Any) -> str:
    if isinstance(value, Section):
        return "{" + ", ".join(_lines(value)) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, float):
        return repr(value)  # Python's shortest round-trip form is TOML too
    # JSON's strings are TOML's, but for the delete character, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


class Change(NamedTuple):
    """A key, as ``section.field``, with its value before and after."""

    key: str
    before: Any
    after: Any


def changes_between(before: Recipe, after: Recipe) -> list[Change]:
    """Every setting on which two recipes differ."""
    values = [Change(key, setting(before, key), setting(after, key)) for key in known_keys()]
    return [change for change in values if change.before != change.after]


def setting(recipe: Recipe, key: str) -> Any:
    """The value of a key."""
    section, dot, name = key.rpartition(".")
    return getattr(getattr(recipe, section) if dot else recipe, name)


def first_difference(wanted: Recipe, recorded: Recipe) -> Change | None:
    """The first decisive setting, not left open, on which a run's recipe is not the wanted one."""
    for change in changes_between(wanted.resolved(), recorded.resolved()):
        left_open = change.key in DECIDED_BY_THE_RUN and change.before == setting(Recipe(), change.key)
        if change.key.partition(".")[0] in DECISIVE and not left_open:
            return change
    return None


CHANGEABLE = {
    what: [f"train.{name}" for name in names.split()]
    for what, names in {
        # Beyond the end of a finished run, too.
        "how long": "steps epochs patience schedule schedule_steps",
        # What one changes after a loss that diverged, from the last good checkpoint on.
        "how fast": "learning_rate muon_learning_rate final_learning_rate clip_norm skip_nonfinite",
        # None of them touches the weights.
        "how often": "evaluate_every watch save_every log_every keep_checkpoints keep_every average_checkpoints",
        # The same computation, up to rounding, on another machine.
        "where": "device threads parallel attention compile activation_checkpointing",
    }.items()
}
"""The keys that a resume may change, by what they say. With another value of any other it would be another run."""


def changed_recipe(path: Path, settings: Settings, typed: Mapping[str, str] = {}) -> tuple[Recipe, Recipe]:
    """A run's recipe, and the same with some settings changed, checked as a whole: a UsageError where a key is unknown
    or may not change, or a value is out of range. `typed` says how each key was, on a command line."""
    recorded = load_recorded(path)
    if not settings:
        return recorded, recorded
    recipe = build_recipe(recorded_settings(path), settings)
    for key, before, after in changes_between(recorded, recipe):
        if not may_change(key):
            may = "; ".join(f"{what}: {', '.join(keys)}" for what, keys in CHANGEABLE.items())
            was, wanted = ("left out" if value is None else shortened(repr(value)) for value in (before, after))
            takes_weights = not key.startswith(("model.", "tokenizer.")) or key.endswith("dropout")
            init = f"--init {shlex.quote(str(path.parent))}"
            begin = f"with its weights: tfcli train {init}" if takes_weights else f"({init} fits no other): tfcli train"
            words = " ".join(["--recipe", shlex.quote(str(path)), *dict.fromkeys(typed.values())])
            problem = f"{key} is {was} in this run, and with {typed.get(key, wanted)} it would be another one"
            raise UsageError(problem, f"begin a new one {begin} {words}; or change only {may}")
    return recorded, recipe


def settings_that_decide(recipe: Recipe) -> dict[str, dict[str, Any]]:
    """The sections of a recipe that say what is computed. The others shape only what is shown."""
    return {name: {k: v for k, v in asdict(getattr(recipe, name)).items() if v is not None} for name in DECISIVE}


def edits_since(trained_by: Settings, recorded: Recipe) -> list[Change]:
    """What was changed in a run's recipe since it was trained by these settings, those of `settings_that_decide`."""
    changes = changes_between(build_recipe(trained_by), recorded)
    return [change for change in changes if change.key.partition(".")[0] in DECISIVE]


def may_change(key: str) -> bool:
    """Whether a resume may change it."""
    return any(key in keys for keys in CHANGEABLE.values())
