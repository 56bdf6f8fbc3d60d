"""The sentences of builtin:pt-en with a second clause: when, because, that."""

from tfcli.corpora.pt_en_actions import PAST_PERSONS, PROGRESSIVE, an_object
from tfcli.corpora.pt_en_draw import Draw
from tfcli.corpora.pt_en_grammar import Phrase, english_only, join, word
from tfcli.corpora.pt_en_phrases import (
    THE,
    THE_MANY,
    adjectives_of,
    agreeing,
    anyone,
    arriving,
    auxiliary,
    gerund,
    noun_phrase,
    objects_of,
    other,
    past,
    subject,
)
from tfcli.corpora.pt_en_verbs import ARRIVE, IS, STAYS, VERBS, WAS
from tfcli.corpora.pt_en_words import NEEDS, PLACES, STATES

_VERBS = {verb.pt: verb for verb in VERBS}
_STATES = {state.head: state for state in STATES}
_NEEDS = {need[0]: need for need in NEEDS}

# What makes people feel so, and what they do because they feel so.
REASONS = tuple(
    (_STATES[state], _VERBS[verb])
    for state, verbs in (
        ("feliz", "encontrar comprar vender ver"),
        ("triste", "perder vender quebrar"),
        ("cansado", "limpar pintar consertar"),
        ("nervoso", "perder quebrar"),
    )
    for verb in verbs.split()
)
NEEDED = tuple(
    (_NEEDS[need], _VERBS[verb])
    for need, verb in (
        ("fome", "comer"),
        ("sede", "beber"),
        ("medo", "esconder"),
        ("sono", "perder"),
        ("sono", "quebrar"),
    )
)


def when_arrived(draw: Draw) -> Phrase:
    """Quando Ana chegou ao parque, Lucas estava lendo = When Ana arrived at the park, Lucas was reading."""
    who, verb = anyone(draw), draw.one(PROGRESSIVE)
    someone = other(draw, who)
    where = draw.one(PLACES)
    return join(
        "{when} {who} {arrived} {there}, {someone} {was} {doing} {what}",
        "{when} {who} {arrived} {there}, {someone} {was} {doing} {what}",
        (ARRIVE.pt, where.pt),
        when=word("quando", "when"),
        who=who,
        arrived=past(ARRIVE, who),
        there=arriving(where),
        someone=someone,
        was=auxiliary(WAS, someone),
        doing=gerund(verb),
        what=an_object(draw, verb),
    )


def happy_because(draw: Draw) -> Phrase:
    """Ana está feliz porque comprou um livro = Ana is happy because she bought a book."""
    state, verb = draw.one(REASONS)
    who = subject(draw, PAST_PERSONS)
    did = past(verb, who)
    return join(
        "{who} {am} {happy} {because} {did} {what}",
        "{who} {am} {happy} {because} {she} {did} {what}",
        who=who,
        am=auxiliary(STAYS, who),
        happy=agreeing(state, who),
        because=word("porque", "because"),
        she=english_only(_pronoun(who), did),
        did=did,
        what=an_object(draw, verb),
    )


def ate_because(draw: Draw) -> Phrase:
    """Ana comeu o bolo porque estava com fome = Ana ate the cake because she was hungry."""
    (need, hungry), verb = draw.one(NEEDED)
    who = subject(draw, PAST_PERSONS)
    was = word(WAS.pt[who.person], WAS.en[who.person])
    return join(
        "{who} {did} {what} {because} {was} com {hungry}",
        "{who} {did} {what} {because} {she} {was} {hungry}",
        who=who,
        did=past(verb, who),
        what=an_object(draw, verb),
        because=word("porque", "because"),
        she=english_only(_pronoun(who), was),
        was=was,
        hungry=word(need, hungry),
    )


def _pronoun(who: Phrase) -> str:
    """The English subject that Portuguese leaves out."""
    if who.person == "3s":
        return "she" if who.gender == "f" else "he"
    return {"1s": "I", "2s": "you", "3p": "they"}[who.person]


def that_was_bought(draw: Draw) -> Phrase:
    """O livro que Ana comprou é vermelho = The book that Ana bought is red."""
    verb = draw.one([verb for verb in VERBS if verb.pt not in ("comer", "beber", "perder")])
    noun = draw.one(objects_of(verb))
    adjective = draw.one(adjectives_of(noun))
    who = subject(draw, PAST_PERSONS)
    plural = bool(noun.pt_plural) and "drink" not in noun.kinds and draw.chance(0.3)
    what = noun_phrase(noun, THE_MANY if plural else THE, plural=plural)
    return join(
        "{what} {that} {who} {did} {is_} {red}",
        "{what} {that} {who} {did} {is_} {red}",
        (verb.pt, noun.pt),
        (noun.pt, adjective.head),
        what=what,
        that=word("que", "that"),
        who=who,
        did=past(verb, who),
        is_=auxiliary(IS if adjective.verb == "ser" else STAYS, what),
        red=agreeing(adjective, what),
    )
