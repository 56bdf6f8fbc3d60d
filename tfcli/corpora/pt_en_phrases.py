"""The phrases of builtin:pt-en: noun phrases, subjects, verbs, places and times, each with its agreement."""

from dataclasses import replace
from functools import cache

from tfcli.corpora.pt_en_draw import Draw
from tfcli.corpora.pt_en_grammar import NOTHING, Phrase, Word, join, linked, word
from tfcli.corpora.pt_en_verbs import Auxiliary, Verb
from tfcli.corpora.pt_en_words import (
    DAYS,
    DRINKS,
    FUTURE,
    MONTHS,
    NAMES,
    NUMBERS,
    PAST,
    PEOPLE,
    QUALITIES,
    RELATIVES,
    THING_ADJECTIVES,
    THINGS,
    Adjective,
    Noun,
    Place,
)

Determiner = tuple[str, str, str]
"""Portuguese masculine, Portuguese feminine, English."""

THE: Determiner = ("o", "a", "the")
THE_MANY: Determiner = ("os", "as", "the")
A: Determiner = ("um", "uma", "a")
MY: Determiner = ("meu", "minha", "my")
OUR: Determiner = ("nosso", "nossa", "our")
YOUR: Determiner = ("seu", "sua", "your")
THIS: Determiner = ("este", "esta", "this")
THAT: Determiner = ("aquele", "aquela", "that")
MANY: Determiner = ("muitos", "muitas", "many")
SOME: Determiner = ("alguns", "algumas", "some")
NO_DETERMINER: Determiner = ("", "", "")

DEFINITE = (THE, THE, MY, OUR)
DEFINITE_OR_A = (THE, THE, A, A, MY, THIS, THAT)
COUNTS = (*NUMBERS, *NUMBERS, MANY, MANY, SOME, SOME)

YOU = ("você", "you", "2s", "m")
PRONOUNS = (
    ("eu", "I", "1s", "m"),
    YOU,
    ("ele", "he", "3s", "m"),
    ("ela", "she", "3s", "f"),
    ("nós", "we", "1p", "m"),
    ("eles", "they", "3p", "m"),
    ("elas", "they", "3p", "f"),
)
# Eu and nós alone have verb forms of their own, so they come up more often.
_OFTEN_FIRST = (*PRONOUNS, *(row for row in PRONOUNS if row[2] in ("1s", "1p")), *(PRONOUNS[0],) * 2)

# Noun phrases


def noun_phrase(
    noun: Noun,
    determiner: Determiner,
    adjective: Adjective | None = None,
    *,
    owner: Phrase = NOTHING,
    plural: bool = False,
) -> Phrase:
    """o livro vermelho de Ana = Ana's red book: adjective and owner follow in Portuguese, lead in English."""
    person = "3p" if plural else "3s"
    thing = word(noun.pt_plural, noun.en_plural) if plural else word(noun.pt, noun.en)
    quality = word(adjective.pt[noun.gender + person], adjective.en) if adjective else NOTHING
    combinations = [(noun.pt, adjective.head)] if adjective else []
    if owner.head:
        combinations.append((noun.pt, owner.head))
    masculine, feminine, english = determiner
    phrase = join(
        "{the} {thing} {quality} {owner}",
        "{owner} {quality} {thing}" if owner.head else "{the} {quality} {thing}",
        *combinations,
        the=word(masculine if noun.gender == "m" else feminine, english),
        thing=thing,
        quality=quality,
        owner=owner,
    )
    return replace(phrase, head=noun.pt, gender=noun.gender, person=person)


def named(name: str) -> Phrase:
    """A person by name, the same in both languages."""
    return word(name, name, head=name, gender="f" if name in NAMES["f"] else "m")


def someone_named(draw: Draw) -> Phrase:
    return named(draw.one(NAMES[draw.one("fm")]))


def pronoun(row: tuple[str, str, str, str]) -> Phrase:
    pt, en, person, gender = row
    return word(pt, en, head=pt, gender=gender, person=person)


def anyone(draw: Draw) -> Phrase:
    """A person in the singular, with no pronoun: Ana, o médico, o aluno alto, meu irmão, a irmã de Ana."""
    kind = draw.one(("name", "name", "name", "person", "person", "relative"))
    if kind == "name":
        return someone_named(draw)
    if kind == "person":
        noun = draw.one(PEOPLE)
        adjective = draw.one(qualities_of(noun)) if draw.chance(0.3) else None
        return noun_phrase(noun, THE, adjective)
    noun = draw.one(RELATIVES)
    if draw.chance(0.5):
        return noun_phrase(noun, THE, owner=possessive(someone_named(draw)))
    return noun_phrase(noun, draw.one((MY, OUR)))


def subject(draw: Draw, persons: str = "1s 2s 3s 1p 3p") -> Phrase:
    """Who does it: a person, several persons or a pronoun, in one of the persons that the verb has here."""
    kind = draw.one(("someone", "someone", "pronoun", "pronoun", "people"))
    if kind == "pronoun":
        return pronoun(draw.one([row for row in _OFTEN_FIRST if row[2] in persons]))
    if kind == "people" and "3p" in persons:
        noun = draw.one(PEOPLE)
        adjective = draw.one(qualities_of(noun)) if draw.chance(0.35) else None
        return noun_phrase(noun, THE_MANY, adjective, plural=True)
    return anyone(draw)


def other(draw: Draw, than: Phrase) -> Phrase:
    """Another person than the one given."""
    while (person := anyone(draw)).head == than.head:
        pass
    return person


def possessive(who: Phrase) -> Phrase:
    """de Ana = Ana's."""
    last = who.en[-1]
    return replace(
        who,
        pt=(Word("de", last.links), *who.pt),
        en=(*who.en[:-1], Word(last.text + "'s", last.links)),
    )


def owner(draw: Draw) -> Phrase:
    """Whose it is: de Ana, do médico, de meu irmão, dele."""
    kind = draw.one(("name", "name", "person", "person", "relative", "relative", "pronoun"))
    if kind == "name":
        return possessive(someone_named(draw))
    if kind == "person":
        return possessive(noun_phrase(draw.one(PEOPLE), THE))
    if kind == "relative":
        return possessive(noun_phrase(draw.one(RELATIVES), MY))
    return draw.one((word("dele", "his", head="ele"), word("dela", "her", head="ela")))


def definite(draw: Draw, noun: Noun, *, adjective: float = 0.35, plural: float = 0.25, owned: float = 0.25) -> Phrase:
    """A thing that is known: o livro, meu livro vermelho, os livros de Ana; chances of each part."""
    quality = _adjective(draw, noun, adjective)
    many = noun not in DRINKS and draw.chance(plural)
    if draw.chance(owned):
        return noun_phrase(noun, THE_MANY if many else THE, quality, owner=owner(draw), plural=many)
    return noun_phrase(noun, THE_MANY if many else draw.one(DEFINITE), quality, plural=many)


def indefinite(draw: Draw, noun: Noun, *, adjective: float = 0.35, plural: float = 0.5) -> Phrase:
    """A thing that is new: um livro, dois livros, muitos livros velhos."""
    quality = _adjective(draw, noun, adjective)
    many = draw.chance(plural)
    return noun_phrase(noun, draw.one(COUNTS) if many else A, quality, plural=many)


def thing(draw: Draw, noun: Noun) -> Phrase:
    """The object of a verb, in any shape."""
    if noun in DRINKS or draw.chance(0.2):
        return definite(draw, noun)
    if draw.chance(0.4):
        return indefinite(draw, noun, plural=1.0)
    return noun_phrase(noun, draw.one(DEFINITE_OR_A), _adjective(draw, noun, 0.4))


def objects_of(verb: Verb) -> tuple[Noun, ...]:
    """What the verb can be done to."""
    return _of_kinds(verb.takes)


@cache
def _of_kinds(kinds: frozenset[str]) -> tuple[Noun, ...]:
    return tuple(noun for noun in (*THINGS, *DRINKS) if noun.kinds & kinds)


@cache
def adjectives_of(noun: Noun) -> tuple[Adjective, ...]:
    """What can be said of a thing."""
    return tuple(adjective for adjective in THING_ADJECTIVES if adjective.fits & noun.kinds)


@cache
def qualities_of(noun: Noun) -> tuple[Adjective, ...]:
    """What can be said of a person."""
    return tuple(adjective for adjective in QUALITIES if adjective.fits & noun.kinds)


def _adjective(draw: Draw, noun: Noun, chance: float) -> Adjective | None:
    return draw.one(adjectives_of(noun)) if draw.chance(chance) else None


# Verbs


def past(verb: Verb, who: Phrase) -> Phrase:
    return word(verb.past_pt[who.person], verb.past_en)


def past_base(verb: Verb, who: Phrase) -> Phrase:
    """The past beside "did", which carries the tense in English: comprou = (did) buy."""
    return word(verb.past_pt[who.person], verb.en)


def infinitive(verb: Verb) -> Phrase:
    return word(verb.pt, verb.en)


def gerund(verb: Verb) -> Phrase:
    return word(verb.gerund, verb.ing)


def auxiliary(table: Auxiliary, who: Phrase) -> Phrase:
    return word(table.pt[who.person], table.en[who.person])


def agreeing(adjective: Adjective, who: Phrase) -> Phrase:
    """The adjective after ser or estar, in the subject's gender and number."""
    number = "3p" if who.person in ("1p", "3p") else "3s"
    return word(adjective.pt[who.gender + number], adjective.en)


# Places and times


def _placed(place: Place, pt: str, en: str) -> Phrase:
    article = f"{place.en_article}:2" if place.en_article else ""
    words = linked(f"{pt}:1 {place.article and place.article + ':2'} {place.pt}:3", f"{en}:1 {article} {place.en}:3")
    return replace(words, head=place.pt)


def inside(place: Place) -> Phrase:
    """no mercado = at the market."""
    return _placed(place, "em", place.inside)


def toward(place: Place) -> Phrase:
    """ao mercado = to the market."""
    return _placed(place, "a", "to")


def arriving(place: Place) -> Phrase:
    """(chegar) ao mercado = (arrive) at the market."""
    return _placed(place, "a", place.inside)


def out_of(place: Place) -> Phrase:
    """do mercado = from the market."""
    return _placed(place, "de", "from")


def past_time(draw: Draw) -> Phrase:
    return linked(*draw.one(draw.one((PAST, PAST, DAYS, MONTHS))))


def future_time(draw: Draw) -> Phrase:
    return linked(*draw.one(draw.one((FUTURE, FUTURE, DAYS, MONTHS))))


def timed(clause: Phrase, when: Phrase, *, fronted: bool) -> Phrase:
    """The time may come first in Portuguese; in English it stays last."""
    pt = "{when}, {clause}" if fronted else "{clause} {when}"
    return join(pt, "{clause} {when}", clause=clause, when=when)


def maybe_timed(draw: Draw, clause: Phrase, when: Phrase) -> Phrase:
    """With the time, in either place, or without it."""
    if draw.chance(0.45):
        return clause
    return timed(clause, when, fronted=draw.chance(0.5))
