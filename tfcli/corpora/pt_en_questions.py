"""The questions of builtin:pt-en: English needs "do" and another word order, Portuguese mostly does not."""

from tfcli.corpora.pt_en_actions import PROGRESSIVE, an_object
from tfcli.corpora.pt_en_draw import Draw
from tfcli.corpora.pt_en_grammar import Phrase, english_only, join, linked, word
from tfcli.corpora.pt_en_phrases import (
    NO_DETERMINER,
    YOUR,
    agreeing,
    auxiliary,
    definite,
    gerund,
    noun_phrase,
    objects_of,
    past,
    past_base,
    past_time,
    subject,
    toward,
)
from tfcli.corpora.pt_en_states import SMALL_THINGS, somewhere
from tfcli.corpora.pt_en_verbs import STAYS, TRAVEL, VERBS, WILL
from tfcli.corpora.pt_en_words import CITIES, DRINKS, NOW, STATES, THINGS

COUNTING = tuple(verb for verb in VERBS if verb.pt != "beber")


def where_is(draw: Draw) -> Phrase:
    """Onde está o livro vermelho de Ana = Where is Ana's red book."""
    noun = draw.one(SMALL_THINGS)
    what = noun_phrase(noun, YOUR) if draw.chance(0.25) else definite(draw, noun)
    return join(
        "{where} {is_} {what}",
        "{where} {is_} {what}",
        ("onde", what.head),
        where=word("onde", "where"),
        is_=auxiliary(STAYS, what),
        what=what,
    )


def how_many_are(draw: Draw) -> Phrase:
    """Quantos livros há em cima da mesa = How many books are there on the table."""
    noun = draw.one(SMALL_THINGS)
    what = noun_phrase(noun, NO_DETERMINER, plural=True)
    return join(
        "{how} {what} {are} {where}",
        "{how} {what} {are} there {where}",
        how=word("quantos" if noun.gender == "m" else "quantas", "how many"),
        what=what,
        are=word("há", "are"),
        where=somewhere(draw, what),
    )


def how_many_bought(draw: Draw) -> Phrase:
    """Quantos livros Ana comprou ontem = How many books did Ana buy yesterday."""
    verb = draw.one(COUNTING)
    noun = draw.one([noun for noun in objects_of(verb) if noun not in DRINKS])
    who = subject(draw, "2s 3s 3p")
    bought = past_base(verb, who)
    return _then(
        draw,
        join(
            "{how} {what} {who} {bought}",
            "{how} {what} {did} {who} {bought}",
            (verb.pt, noun.pt),
            how=word("quantos" if noun.gender == "m" else "quantas", "how many"),
            what=noun_phrase(noun, NO_DETERMINER, plural=True),
            did=english_only("did", bought),
            who=who,
            bought=bought,
        ),
    )


def did_buy(draw: Draw) -> Phrase:
    """Você comprou o livro = Did you buy the book."""
    verb, who = draw.one(VERBS), subject(draw, "2s 3s 3p")
    bought = past_base(verb, who)
    return _then(
        draw,
        join(
            "{who} {bought} {what}",
            "{did} {who} {bought} {what}",
            did=english_only("did", bought),
            who=who,
            bought=bought,
            what=an_object(draw, verb),
        ),
    )


def is_reading(draw: Draw) -> Phrase:
    """Ana está lendo o jornal agora = Is Ana reading the newspaper now."""
    verb, who = draw.one(PROGRESSIVE), subject(draw, "2s 3s 3p")
    return join(
        "{who} {is_} {doing} {what} {now}",
        "{is_} {who} {doing} {what} {now}",
        who=who,
        is_=auxiliary(STAYS, who),
        doing=gerund(verb),
        what=an_object(draw, verb),
        now=linked(*draw.one(NOW)),
    )


def who_bought(draw: Draw) -> Phrase:
    """Quem comprou o livro = Who bought the book."""
    verb = draw.one(VERBS)
    who = word("quem", "who")
    return _then(
        draw,
        join(
            "{who} {did} {what}",
            "{who} {did} {what}",
            who=who,
            did=past(verb, who),
            what=an_object(draw, verb),
        ),
    )


def what_bought(draw: Draw) -> Phrase:
    """O que Ana comprou ontem = What did Ana buy yesterday."""
    verb, who = draw.one(VERBS), subject(draw, "2s 3s 3p")
    bought = past_base(verb, who)
    return _then(
        draw,
        join(
            "{what} {who} {bought}",
            "{what} {did} {who} {bought}",
            (who.head, verb.pt),
            what=word("o que", "what"),
            did=english_only("did", bought),
            who=who,
            bought=bought,
        ),
    )


def when_travels(draw: Draw) -> Phrase:
    """Quando Lucas irá viajar ao Rio = When is Lucas travelling to Rio."""
    who, to = subject(draw, "2s 3s 3p"), draw.one(CITIES)
    return join(
        "{when} {who} {will} {go} {there}",
        "{when} {will} {who} {go} {there}",
        (who.head, to.pt),
        when=word("quando", "when"),
        who=who,
        will=auxiliary(WILL, who),
        go=word(TRAVEL.pt, TRAVEL.ing),
        there=toward(to),
    )


def why_is(draw: Draw) -> Phrase:
    """Por que Ana está triste = Why is Ana sad."""
    who, adjective = subject(draw, "2s 3s 3p"), draw.one(STATES)
    return join(
        "{why} {who} {is_} {sad}",
        "{why} {is_} {who} {sad}",
        (who.head, adjective.head),
        why=word("por que", "why"),
        who=who,
        is_=auxiliary(STAYS, who),
        sad=agreeing(adjective, who),
    )


def how_much(draw: Draw) -> Phrase:
    """Quanto custa o carro vermelho = How much does the red car cost."""
    noun = draw.one([noun for noun in THINGS if "animal" not in noun.kinds])
    what = definite(draw, noun, adjective=0.6)
    many = what.person == "3p"
    cost = word("custam" if many else "custa", "cost")
    return join(
        "{how} {cost} {what}",
        "{how} {does} {what} {cost}",
        ("custar", noun.pt),
        how=word("quanto", "how much"),
        cost=cost,
        does=english_only("do" if many else "does", cost),
        what=what,
    )


def _then(draw: Draw, question: Phrase) -> Phrase:
    """The question, often with a time in the past."""
    if draw.chance(0.4):
        return question
    return join("{question} {when}", "{question} {when}", question=question, when=past_time(draw))
