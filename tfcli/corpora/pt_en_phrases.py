"""Bilingual phrase grammar of builtin:pt-en: inflection, agreement, word order and word alignment.

A phrase has a Portuguese and an English side. Every word carries links; a Portuguese and an English word that share
a link are aligned. A template a side arranges phrases in different orders, so an alignment survives any reordering:

    >>> book, red = join("livro = book"), join("vermelho = red")
    >>> text(join("o {book} {red} = the {red} {book}", book=book, red=red))
    ('o livro vermelho', 'the red book')

The words stand in `pt_en.toml`."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from inspect import signature
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from tfcli.corpora.stories import Draw
from tfcli.files import packaged

_DATA = packaged(__file__, "pt_en.toml")
_CONTRACTIONS = {(first, second): melted for first, second, melted in map(str.split, _DATA["contractions"])}
Combination = tuple[str, str]  # two dictionary forms that meet, as ("livro", "vermelho"): what validation holds out
STEPS: dict[str, Callable[..., Any]] = {}  # what the rules call by its name, each with the draw first
F = TypeVar("F", bound=Callable[..., Any])


def step(function: F) -> F:
    """Offer a function to the rules, whether it needs the draw or not."""
    draws = next(iter(signature(function).parameters)) == "draw"
    STEPS[function.__name__] = function if draws else lambda draw, *arguments: function(*arguments)
    return function


class Word(NamedTuple):
    """A word of one side and the links it shares with words of the other."""

    text: str
    links: tuple[object, ...] = ()


class Phrase(NamedTuple):
    """Both sides of a phrase, with what its neighbours must agree with. `person` is 1s, 2s (você), 3s, 1p or 3p;
    `gender` m or f; `head` the dictionary form of the main word."""

    pt: tuple[Word, ...] = ()
    en: tuple[Word, ...] = ()
    head: str = ""
    gender: str = "m"
    person: str = "3s"
    combinations: tuple[Combination, ...] = ()


Forms = str | dict[str, str]  # a spelling, or one for every person


@step
def word(
    pt: Forms, en: Forms, who: Phrase | None = None, head: str = "", gender: str = "m", person: str = "3s"
) -> Phrase:
    """A phrase whose words are all linked to all of the other side ("em cima de", "on"), in the person of `who`."""
    links = (object(),)
    return Phrase(_words(pt, who, links), _words(en, who, links), head, gender, person)


@step
def english_only(en: Forms, like: Phrase, who: Phrase | None = None) -> Phrase:
    """English words without a Portuguese one, linked to what expresses them there ("did" and "comprou")."""
    return Phrase((), _words(en, who, like.pt[0].links))


def _words(forms: Forms, who: Phrase | None, links: tuple[object, ...]) -> tuple[Word, ...]:
    if not isinstance(forms, str):
        assert who
        forms = forms[who.person]
    return tuple([Word(text, links) for text in forms.split()])


_BEFORE_VOWEL = re.compile(r"(?<!\S)a(?= [aeiou])")
_PIECE = re.compile(r"\{(\w+)\}|([^\s{}]+)")


def join(template: str, /, **parts: Any) -> Phrase:
    """Arrange phrases by a template a side, "{book} {red} = {red} {book}", or one for both: words and {slots}; a comma
    sticks to the slot before it. Words that share a number translate each other ("semana:1 passada:2 = last:2 week:1");
    without slots and numbers, all do. A slot that holds None stays empty. The combinations of the parts add up."""
    *both, all_linked = _sides(template)
    mark = (object(),)
    sides: list[tuple[Word, ...]] = []
    met: list[Combination] = []
    for number, pieces in enumerate(both):
        words: list[Word] = []
        for slot, literal, label in pieces:
            if slot:
                if phrase := parts[slot]:
                    words += phrase[number]
                    met += () if number else phrase.combinations
            elif literal == ",":
                words[-1] = Word(words[-1].text + ",", words[-1].links)
            else:
                words.append(Word(literal, mark if all_linked else ((mark, label),) if label else ()))
        sides.append(tuple(words))
    return Phrase(sides[0], sides[1], combinations=tuple(met))


@cache
def _sides(template: str) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]], bool]:
    """(slot, word, number) by (slot, word, number) of each side, and whether all words are linked."""
    pt, _, en = template.partition(" = ")
    ours, theirs = ([(slot, *word.partition(":")[::2]) for slot, word in _PIECE.findall(one)] for one in (pt, en or pt))
    return ours, theirs, bool(en) and "{" not in template and ":" not in template


def contracted(words: Sequence[Word]) -> list[Word]:
    """Melt a preposition and an article that meet into one word with the links of both: de + o = do."""
    melted: list[Word] = []
    for current in words:
        if melted and (contraction := _CONTRACTIONS.get((melted[-1].text, current.text))):
            current = Word(contraction, melted.pop().links + current.links)
        melted.append(current)
    return melted


def text(phrase: Phrase) -> tuple[str, str]:
    """The two sides as plain text, contractions made; English "a" becomes "an" before a vowel."""
    en = " ".join(word.text for word in phrase.en)
    return " ".join(word.text for word in contracted(phrase.pt)), _BEFORE_VOWEL.sub("an", en)


def alignment(phrase: Phrase) -> tuple[tuple[int, int], ...]:
    """The pairs (Portuguese word index, English word index) that share a link, sorted."""
    positions: dict[object, list[int]] = {}
    for index, current in enumerate(phrase.en):
        for link in current.links:
            positions.setdefault(link, []).append(index)
    sources = enumerate(contracted(phrase.pt))
    found = {(source, at) for source, one in sources for link in one.links for at in positions.get(link, ())}
    return tuple(sorted(found))


# Words with their inflections: `pt` is the dictionary form, `kinds` what can be said of it or done with it.


class Noun(NamedTuple):
    """Both sides in singular and plural; its gender is the Portuguese one."""

    pt: str
    pt_plural: str
    gender: str
    en: str
    en_plural: str
    kinds: frozenset[str]


class Adjective(NamedTuple):
    """Portuguese forms by gender and number; its kinds are ser (a quality) or estar (a state), and comparable."""

    pt: str
    forms: dict[str, str]
    en: str
    kinds: frozenset[str]
    fits: frozenset[str]
    more_pt: str
    more_en: str


class Place(NamedTuple):
    """`inside` is the English preposition for being there and for arriving."""

    pt: str
    article: str
    en_article: str
    en: str
    inside: str


class Verb(NamedTuple):
    """Forms are by person; `takes` holds the kinds of its objects; `habit` is the present of verbs of daily life."""

    pt: str
    gerund: str
    past: dict[str, str]
    en: str
    past_en: str
    ing: str
    takes: frozenset[str]
    kinds: frozenset[str]
    habit: dict[str, str]
    habit_en: dict[str, str]


class Auxiliary(NamedTuple):
    """A verb before another verb, or be and have: forms by person on both sides, and English beside "does"."""

    pt: str
    forms: dict[str, str]
    en: dict[str, str]
    base: str


class Determiner(NamedTuple):
    """Portuguese masculine and feminine, and English; a number is one, too."""

    pt: str
    feminine: str
    en: str


class Relation(NamedTuple):
    """Where a thing can be from its landmarks."""

    pt: str
    en: str
    landmarks: tuple[Noun, ...]


def _noun(pt: str, gender: str, en: str, kinds: str) -> Noun:
    pt, _, pt_plural = pt.partition("/")
    en, _, en_plural = en.partition("/")
    return Noun(pt, pt_plural or pt + "s", gender, en, en_plural or en + "s", kinds=frozenset(kinds.split()))


def _adjective(pt: str, en: str, verb: str, fits: str, more_pt: str = "", more_en: str = "") -> Adjective:
    forms = pt.split("/")
    if len(forms) == 1:
        feminine = pt[:-1] + "a" if pt.endswith("o") else pt
        forms = [pt, feminine, pt + "s", feminine + "s"]
    shapes = dict(zip(("m3s", "f3s", "m3p", "f3p"), forms, strict=True))
    kinds = frozenset({verb, "comparable"} if more_en else {verb})
    return Adjective(forms[0], shapes, en, kinds=kinds, fits=frozenset(fits.split()), more_pt=more_pt, more_en=more_en)


def _verb(pt: str, past: str, en: str, takes: str = "", kinds: str = "", habit: str = "//") -> Verb:
    first, third, *irregular = past.split("/")
    they = irregular[0] if irregular else third.removesuffix("ou") + "aram"
    forms = {"1s": first, "2s": third, "3s": third, "3p": they}
    base, past_en, ing = en.split("/")
    he, them, he_en = habit.split("/")
    said = (pt, pt[:-1] + "ndo", forms, base, past_en, ing, frozenset(takes.split()), frozenset(kinds.split()))
    return Verb(*said, {"3s": he, "3p": them}, {"3s": he_en, "3p": base})


def _auxiliary(name: str, pt: str, en: str) -> Auxiliary:
    first, third, we, they = pt.split("/")
    i, he, others = en.split("/")
    forms = {"1s": first, "2s": third, "3s": third, "1p": we, "3p": they}
    return Auxiliary(name, forms, {"1s": i, "2s": others, "3s": he, "1p": others, "3p": others}, others)


def _relation(pt: str, en: str, landmarks: str) -> Relation:
    things = {noun.pt: noun for noun in LEXICON["things"]}
    return Relation(pt, en, tuple(things[name] for name in landmarks.split()))


LEXICON: dict[str, Any] = {}  # lists of words, auxiliaries, determiners and pronouns, by the names that rules use

_MAKERS: dict[str, Callable[..., Any]] = {
    "nouns": _noun,
    "adjectives": _adjective,
    "places": Place,
    "verbs": _verb,
    "phrases": lambda pt, en, head="": join(f"{pt} = {en}")._replace(head=head or pt),
    "counts": Determiner,
    "relations": _relation,
}
for _room, _make in _MAKERS.items():
    LEXICON |= {name: tuple(_make(*row) for row in rows) for name, rows in _DATA[_room].items()}
LEXICON |= {name: _auxiliary(name, *sides) for name, sides in _DATA["auxiliaries"].items()}
LEXICON |= {name: Determiner(*row) for name, row in _DATA["determiners"].items()}
PRONOUNS = {pt: word(pt, en, None, pt, gender, person=person) for pt, en, person, gender in _DATA["pronouns"]}
LEXICON |= {name: tuple(names.split()) for name, names in _DATA["names"].items()}
_HEADS = {state.pt: state for state in LEXICON["states"]} | {need.head: need for need in LEXICON["needs"]}
_HEADS |= {number.pt: number for number in LEXICON["numbers"]} | PRONOUNS | LEXICON
_HEADS |= {verb.pt: verb for verb in LEXICON["verbs"]}
LEXICON["places_and_cities"] = LEXICON["places"] + LEXICON["cities"]
for _name, _rows in _DATA["lists"].items():  # of words that stand elsewhere, each as often as it is named; or of pairs
    _listed = [tuple(_HEADS[h] for h in row.split("+")) for row in (_rows.split() if isinstance(_rows, str) else _rows)]
    LEXICON[_name] = tuple(row if len(row) > 1 else row[0] for row in _listed)
THE, THE_MANY, A, MY = (LEXICON[name] for name in ("the", "the_many", "an", "my"))
RULE_TABLES: dict[str, dict[str, Any]] = _DATA["rules"]
PATTERN_TABLES: dict[str, dict[str, Any]] = _DATA["patterns"]
FAMILIES = frozenset({"text", "clothes", "furniture", "vehicle"})  # things are compared within one of these kinds


@step
def one(draw: Draw, *options: Any) -> Any:
    """One of several, or of a list."""
    return draw.one(options[0] if len(options) == 1 else options)


@step
def noun_phrase(
    noun: Noun,
    determiner: tuple[str, str, str],
    adjective: Adjective | None = None,
    owner: Phrase | None = None,
    plural: object = False,
) -> Phrase:
    """O livro vermelho de Ana = Ana's red book: adjective and owner follow in Portuguese, lead in English."""
    person = "3p" if plural else "3s"
    masculine, feminine, english = determiner
    phrase = join(
        f"{{the}} {{thing}} {{quality}} {{owner}} = {{{'owner' if owner else 'the'}}} {{quality}} {{thing}}",
        the=word(masculine if noun.gender == "m" else feminine, english),
        thing=word(noun.pt_plural, noun.en_plural) if plural else word(noun.pt, noun.en),
        quality=word(adjective.forms[noun.gender + person], adjective.en) if adjective else None,
        owner=owner,
    )
    met = [(noun.pt, adjective.pt)] if adjective else []
    met += [(noun.pt, owner.head)] if owner else []
    return phrase._replace(head=noun.pt, gender=noun.gender, person=person, combinations=(*phrase.combinations, *met))


@step
def possessive(who: Phrase) -> Phrase:
    """De Ana = Ana's."""
    last = who.en[-1]
    return who._replace(pt=(Word("de", last.links), *who.pt), en=(*who.en[:-1], Word(last.text + "'s", last.links)))


@step
def she(who: Phrase, verb: Phrase) -> Phrase:
    """The English subject that Portuguese leaves out."""
    return english_only({"1s": "I", "2s": "you", "3s": "she" if who.gender == "f" else "he", "3p": "they"}, verb, who)


@step
def object_noun(draw: Draw, verb: Verb, *lists: tuple[Noun, ...]) -> Noun:
    """What the verb can be done to: of these lists, or a thing or a drink."""
    nouns = chain.from_iterable(lists or (LEXICON["things"], LEXICON["drinks"]))
    return draw.one([noun for noun in nouns if noun.kinds & verb.takes])


def adjectives_of(noun: Noun, words: Sequence[Adjective] = LEXICON["looks"]) -> list[Adjective]:
    """Which of the words can be said of a thing or a person."""
    return [adjective for adjective in words if adjective.fits & noun.kinds]


@step
def look(draw: Draw, noun: Noun, *lists: tuple[Adjective, ...]) -> Adjective:
    """A word that can be said of a thing or a person."""
    return draw.one(adjectives_of(noun, *lists))


@step
def rival_of(draw: Draw, noun: Noun, adjective: Adjective) -> Noun:
    """Another thing of the same family of which the same can be said."""
    rivals = [rival for rival in LEXICON["things"] if rival != noun and rival.kinds & noun.kinds & FAMILIES]
    return draw.one([rival for rival in rivals if adjective in adjectives_of(rival)])


@step
def agreeing(adjective: Adjective, who: Phrase) -> Phrase:
    """The adjective after ser or estar, in the subject's gender and number."""
    return word(adjective.forms[who.gender + ("3p" if who.person in ("1p", "3p") else "3s")], adjective.en)


@step
def more(adjective: Adjective, who: Phrase) -> Phrase:
    """Maior and menor are one word; the others take mais, and English decides between -er and more."""
    if adjective.more_pt:
        return word(adjective.more_pt + ("es" if who.person == "3p" else ""), adjective.more_en)
    return word(f"mais {agreeing(adjective, who).pt[0].text}", adjective.more_en)


@step
def placed(place: Place, pt: str, en: str) -> Phrase:
    """A place behind a preposition, with its articles: a + o mercado = to + the market."""
    articles = [f"{article}:2" if article else "" for article in (place.article, place.en_article)]
    return join(f"{pt}:1 {articles[0]} {place.pt}:3 = {en}:1 {articles[1]} {place.en}:3")._replace(head=place.pt)
