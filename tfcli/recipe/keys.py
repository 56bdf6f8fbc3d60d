"""The keys of a recipe: what each accepts, its default and unit, what it means and where the idea is from."""

import ast
import functools
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import chain, pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt, Unit

from tfcli.errors import UsageError, near, shortened
from tfcli.files import packaged
from tfcli.recipe.recipe import SECTIONS, Recipe, known_keys

# The section that records what a run reached: nothing that a user sets.
RESULT = "result"
SYNONYMS: dict[str, str] = packaged(__file__, "synonyms.toml")  # other programs' names for a key or an option


class Meant(NamedTuple):
    """What a word from elsewhere is called here: a key or an option, and its value, "" for the one that was given."""

    name: str
    value: str = ""


@functools.cache
def _meanings() -> dict[str, list[Meant]]:
    found: dict[str, list[Meant]] = {}
    for name, words in SYNONYMS.items():
        for word, _, value in (word.partition("=") for word in words.split()):
            found.setdefault(word, []).append(Meant(name, value))
    for section, kind in SECTIONS.items():
        if section == RESULT:
            continue
        for field in fields(kind):
            if (key := Meant(f"{section}.{field.name}")) not in found.setdefault(field.name, []):
                found[field.name].append(key)
    return found


def known_words(section: str = "") -> list[str]:
    """Every word that has a meaning (in this section): synonyms, and keys without their section."""
    return [word for word, meant in _meanings().items() if any(one.name.startswith(section) for one in meant)]


def meanings(word: str) -> list[Meant]:
    """What a word can mean in a recipe or as an option; meanings in the section that it names come first."""
    if re.fullmatch("-[^-].*", word) and word in _meanings():  # some programs have short options of their own
        return _meanings()[word]
    section, _, last = word.lstrip("-").replace("-", "_").lower().rpartition(".")
    return sorted(_meanings().get(last, []), key=lambda meant: not meant.name.startswith(f"{section}."))


def key_meant(name: str) -> tuple[str, Meant | None]:
    """Words and what was meant by a name that is no key: one called so elsewhere, or spelled nearly so, if any."""
    for meant in meanings(name):
        if meant.name in known_keys() or meant.name.startswith("--"):
            return "it is called", meant
    section, dot, last = name.rpartition(".")
    if not dot and (top := near(name, [key for key in known_keys() if "." not in key])):
        return "did you mean", Meant(top[0])
    inside = [f"{one}." for one in ([section] if section in SECTIONS else near(section, SECTIONS))]
    if not dot or inside:
        for word in near(last, known_words(*inside)):
            for meant in meanings(".".join((*(one[:-1] for one in inside), word))):
                if meant.name in known_keys():
                    return "did you mean", meant
    return "find it with", None


_SIGNS = {Ge: ("≥", "ge"), Gt: (">", "gt"), Le: ("≤", "le"), Lt: ("<", "lt")}
_KINDS = {str: "string", int: "whole number", float: "number", tuple: "list of strings"}
_PAPER = re.compile(
    r"[A-Z]\w+(?: and [A-Z]\w+| et al\.| Team)? (?:19|20)\d\d(?:, (?:section |equation )?[A-Z]?\.?\d(?:[\d.]*\d)?)?"
)


@dataclass(frozen=True)
class RecipeKey:
    """One setting, as ``section.field``."""

    name: str
    """With its section."""
    default: Any
    """None: the key is left out, and its meaning says what then holds."""
    kinds: tuple[str, ...]
    """What it accepts beside its choices, in words with bounds and unit."""
    choices: tuple[str, ...]
    """Its names for values, where it has some."""
    unit: str
    """Of a number, where it has one."""
    meaning: str
    """The docstring under the field."""
    sources: tuple[str, ...]
    """Papers that the idea is from, with the section or equation."""
    synonyms: tuple[str, ...]
    """Its names elsewhere."""

    @property
    def spelled_default(self) -> str:
        """As TOML has it; nothing where it is left out or empty."""
        if self.default in (None, "", ()):
            return ""
        return str(self.default).lower() if isinstance(self.default, bool) else str(self.default)


def recipe_keys() -> list[RecipeKey]:
    """Every key, in the order of the sections: what is read from their fields and the docstrings under them."""
    return [key for section, kind in {"": Recipe, **SECTIONS}.items() for key in _keys_of(section, kind)]


def find_keys(word: str) -> list[RecipeKey]:
    """The keys that a word names, here or elsewhere, then those with it in their name, then in their meaning."""
    called, part = [meant.name for meant in meanings(word)], re.sub(r"\W|_", " ", word.lower()).strip()
    keys, ranks = recipe_keys(), list[list[RecipeKey]]([[], [], []])
    for key in keys:
        texts = (key.name, " ".join(key.synonyms), key.meaning)
        has = [re.search(rf"\b{part}", re.sub(r"\W|_", " ", text.lower())) for text in texts]
        if key.name in called or word == key.name or word in key.choices:
            ranks[0].append(key)
        elif part and any(has):
            ranks[1 if has[0] else 2].append(key)
    if not any(ranks):
        guess = near(word, [key.name for key in keys] + known_words())
        remedy = f"did you mean {guess[0]}" if guess else "see them all with `tfcli recipes keys`"
        raise UsageError(f"No recipe key has {shortened(word)!r} in its name or meaning", remedy)
    return [*chain.from_iterable(ranks)]


def _keys_of(section: str, kind: type) -> Iterator[RecipeKey]:
    hints, meanings_of = get_type_hints(kind, include_extras=True), field_docstrings(kind)
    for field in fields(kind):
        if field.name in SECTIONS and not section:
            continue
        name = f"{section}.{field.name}" if section else field.name
        accepted = list(_accepted(hints[field.name]))
        meaning = re.sub(r"\bNone: ", "Left out: ", meanings_of[field.name])  # TOML has no None
        yield RecipeKey(
            name=name,
            default=field.default,
            kinds=tuple(words for words, _, _ in accepted if words),
            choices=tuple(choice for _, choices, _ in accepted for choice in choices),
            unit=next((unit for _, _, unit in accepted if unit), ""),
            meaning=meaning,
            sources=tuple(dict.fromkeys(_PAPER.findall(meaning))),
            synonyms=tuple(word.partition("=")[0] for word in SYNONYMS.get(name, "").split()),
        )


def field_docstrings(section: type) -> dict[str, str]:
    """The string under each field of a dataclass, on one line."""
    [body] = ast.parse(inspect.getsource(section)).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, after in pairwise(body.body):
        match field, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split())
    return found


def _accepted(kind: Any) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """What a type hint accepts: a kind of value in words, or choices; and the unit."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        yield from chain.from_iterable(map(_accepted, arguments))
    elif origin is Literal:
        yield "", arguments, ""
    elif kind is bool:
        yield "", ("true", "false"), ""
    elif origin is Annotated:
        [(words, _, _)] = _accepted(arguments[0])
        unit = next((limit.unit for limit in arguments[1:] if isinstance(limit, Unit)), "")
        bounds = [_bound(limit) for limit in arguments[1:] if type(limit) in _SIGNS]
        yield f"{words} {', '.join(bounds)}".rstrip() + (f" ({unit})" if unit else ""), (), unit
    elif kind is not NoneType:
        yield _KINDS[origin or kind], (), ""


def _bound(limit: Any) -> str:
    sign, name = _SIGNS[type(limit)]
    bound = getattr(limit, name)
    return f"{sign} {'2⁶³' if bound == 2**63 else bound}"
