"""The sentences of builtin:pt-en in which somebody does something."""

from tfcli.corpora.pt_en_draw import Draw
from tfcli.corpora.pt_en_grammar import NOTHING, Phrase, english_only, join, linked, word
from tfcli.corpora.pt_en_phrases import (
    NO_DETERMINER,
    A,
    auxiliary,
    definite,
    future_time,
    gerund,
    indefinite,
    infinitive,
    inside,
    maybe_timed,
    noun_phrase,
    objects_of,
    other,
    out_of,
    past,
    past_base,
    past_time,
    subject,
    thing,
    timed,
    toward,
)
from tfcli.corpora.pt_en_verbs import (
    CAN,
    DOES,
    GIVING,
    GO,
    GOES,
    HAS,
    LIKES,
    MEETING,
    NEEDS_TO,
    RETURN,
    STAYS,
    TRAVEL,
    VERBS,
    WANTS,
    WILL,
    Verb,
)
from tfcli.corpora.pt_en_words import (
    CITIES,
    DRINKS,
    NOW,
    OFTEN,
    PARTS_OF_DAY,
    PLACES,
    THINGS,
    Place,
)

# The simple past of "nós" is left out: in -ar verbs it is spelled like the present.
PAST_PERSONS = "1s 2s 3s 3p"
PROGRESSIVE = tuple(verb for verb in VERBS if verb.progressive)
HABITS = tuple(verb for verb in VERBS if verb.habit)
ANYWHERE = ("comprar", "vender", "ver", "encontrar", "perder")
GIFTS = tuple(noun for noun in THINGS if noun.kinds & {"text", "clothes", "object", "food"})
# Object pronouns stand before the verb; me and nos need a subject other than eu.
ME_US = (("me", "me"), ("nos", "us"))
HIM_HER = (("o", "him"), ("a", "her"))


def an_object(draw: Draw, verb: Verb) -> Phrase:
    """Something the verb can be done to; that the two met is a combination."""
    what = thing(draw, draw.one(objects_of(verb)))
    return join("{what}", "{what}", (verb.pt, what.head), head=what.head, what=what)


def did_something(draw: Draw) -> Phrase:
    """Ana comprou um livro vermelho no mercado ontem."""
    verb, who = draw.one(VERBS), subject(draw, PAST_PERSONS)
    clause = join(
        "{who} {did} {what} {where}",
        "{who} {did} {what} {where}",
        who=who,
        did=past(verb, who),
        what=an_object(draw, verb),
        where=inside(draw.one(PLACES)) if verb.pt in ANYWHERE and draw.chance(0.25) else NOTHING,
    )
    return maybe_timed(draw, clause, past_time(draw))


def did_not(draw: Draw) -> Phrase:
    """Ana não comprou o livro = Ana did not buy the book."""
    verb, who = draw.one(VERBS), subject(draw, PAST_PERSONS)
    bought = past_base(verb, who)
    clause = join(
        "{who} {no} {bought} {what}",
        "{who} {did} {no} {bought} {what}",
        who=who,
        no=word("não", "not"),
        did=english_only("did", bought),
        bought=bought,
        what=an_object(draw, verb),
    )
    return maybe_timed(draw, clause, past_time(draw)) if draw.chance(0.5) else clause


def is_doing(draw: Draw) -> Phrase:
    """Ana está lendo o jornal agora; Ana não está lendo."""
    verb, who = draw.one(PROGRESSIVE), subject(draw)
    denied = draw.chance(0.25)
    clause = join(
        "{who} {no} {am} {doing} {what}",
        "{who} {am} {no} {doing} {what}",
        who=who,
        no=word("não", "not") if denied else NOTHING,
        am=auxiliary(STAYS, who),
        doing=gerund(verb),
        what=an_object(draw, verb),
    )
    return timed(clause, linked(*draw.one(NOW)), fronted=draw.chance(0.4)) if draw.chance(0.4) else clause


def is_going_to(draw: Draw) -> Phrase:
    """Amanhã, Ana vai comprar um livro = Ana is going to buy a book tomorrow."""
    verb, who = draw.one(PROGRESSIVE), subject(draw)
    clause = join(
        "{who} {will} {do} {what}",
        "{who} {will} {do} {what}",
        who=who,
        will=auxiliary(GOES, who),
        do=infinitive(verb),
        what=an_object(draw, verb),
    )
    return maybe_timed(draw, clause, future_time(draw))


def wants(draw: Draw) -> Phrase:
    """Ana quer comprar um livro, precisa comprar, pode comprar."""
    verb, who, mood = draw.one(PROGRESSIVE), subject(draw), draw.one((WANTS, NEEDS_TO, CAN, CAN))
    return join(
        "{who} {wants} {do} {what}",
        "{who} {wants} {do} {what}",
        who=who,
        wants=auxiliary(mood, who),
        do=infinitive(verb),
        what=an_object(draw, verb),
    )


def does_not_want(draw: Draw) -> Phrase:
    """Ana não quer comprar o livro = Ana does not want to buy the book."""
    verb, who = draw.one(PROGRESSIVE), subject(draw)
    pt, want = draw.one(((WANTS, "want to"), (NEEDS_TO, "need to")))
    wanted = word(pt.pt[who.person], want)
    return join(
        "{who} {no} {want} {do} {what}",
        "{who} {does} {no} {want} {do} {what}",
        who=who,
        no=word("não", "not"),
        does=english_only(DOES[who.person], wanted),
        want=wanted,
        do=infinitive(verb),
        what=an_object(draw, verb),
    )


def habit(draw: Draw) -> Phrase:
    """Ana sempre lê jornais de manhã = Ana always reads newspapers in the morning."""
    verb, who = draw.one(HABITS), subject(draw, "3s 3p")
    noun = draw.one(objects_of(verb))
    assert verb.habit
    singular, plural, english = verb.habit
    clause = join(
        "{who} {often} {does} {what}",
        "{who} {often} {does} {what}",
        (verb.pt, noun.pt),
        who=who,
        often=word(*draw.one(OFTEN)),
        does=word(plural, verb.en) if who.person == "3p" else word(singular, english),
        what=noun_phrase(noun, NO_DETERMINER, plural=noun not in DRINKS),
    )
    if draw.chance(0.3):
        return clause
    return timed(clause, linked(*draw.one(PARTS_OF_DAY)), fronted=draw.chance(0.3))


def likes(draw: Draw) -> Phrase:
    """Ana gosta de café; eles não gostam do livro vermelho."""
    who = subject(draw)
    drink = draw.chance(0.25)
    noun = draw.one(DRINKS if drink else THINGS)
    what = noun_phrase(noun, NO_DETERMINER) if drink else definite(draw, noun)
    return _liking(draw, who, what, ("gostar", noun.pt))


def likes_doing(draw: Draw) -> Phrase:
    """Ana gosta de ler revistas = Ana likes reading magazines."""
    who, verb = subject(draw), draw.one(HABITS)
    noun = draw.one(objects_of(verb))
    what = noun_phrase(noun, NO_DETERMINER, plural=noun not in DRINKS)
    doing = join("{do} {what}", "{do} {what}", do=word(verb.pt, verb.ing), what=what)
    return _liking(draw, who, doing, (verb.pt, noun.pt))


def _liking(draw: Draw, who: Phrase, what: Phrase, combination: tuple[str, str]) -> Phrase:
    if not draw.chance(0.3):
        return join(
            "{who} {likes} de {what}",
            "{who} {likes} {what}",
            combination,
            who=who,
            likes=auxiliary(LIKES, who),
            what=what,
        )
    like = word(LIKES.pt[who.person], "like")
    return join(
        "{who} {no} {like} de {what}",
        "{who} {does} {no} {like} {what}",
        combination,
        who=who,
        no=word("não", "not"),
        does=english_only(DOES[who.person], like),
        like=like,
        what=what,
    )


def gave(draw: Draw) -> Phrase:
    """Ana deu um livro ao menino = Ana gave the boy a book; Ana me deu um livro = Ana gave me a book."""
    verb, who = draw.one(GIVING), subject(draw, PAST_PERSONS)
    noun = draw.one(GIFTS)
    what = noun_phrase(noun, A) if draw.chance(0.3) else thing(draw, noun)
    clitic = who.person != "1s" and draw.chance(0.35)
    clause = join(
        "{who} {whom} {gave} {what}" if clitic else "{who} {gave} {what} a {whom}",
        "{who} {gave} {whom} {what}",
        (verb.pt, noun.pt),
        who=who,
        whom=word(*draw.one(ME_US)) if clitic else other(draw, who),
        gave=past(verb, who),
        what=what,
    )
    return maybe_timed(draw, clause, past_time(draw)) if draw.chance(0.6) else clause


def met(draw: Draw) -> Phrase:
    """Ana visitou a tia de Pedro; Ana não me viu no parque = Ana did not see me at the park."""
    verb, who = draw.one(MEETING), subject(draw, PAST_PERSONS)
    clitic = draw.chance(0.5)
    clitics = HIM_HER if who.person == "1s" else (*ME_US, *HIM_HER)
    whom = word(*draw.one(clitics)) if clitic else other(draw, who)
    where = draw.one(PLACES) if verb.pt not in ("visitar", "convidar") and draw.chance(0.5) else None
    met_there = ((verb.pt, where.pt),) if where else ()
    denied = draw.chance(0.3)
    saw = past_base(verb, who) if denied else past(verb, who)
    clause = join(
        "{who} {no} {whom} {saw} {where}" if clitic else "{who} {no} {saw} {whom} {where}",
        "{who} {did} {no} {saw} {whom} {where}",
        (who.head, verb.pt),
        *met_there,
        who=who,
        no=word("não", "not") if denied else NOTHING,
        did=english_only("did", saw) if denied else NOTHING,
        saw=saw,
        whom=whom,
        where=inside(where) if where else NOTHING,
    )
    return maybe_timed(draw, clause, past_time(draw)) if draw.chance(0.6) else clause


def travelling(who: Phrase, to: Place, when: Phrase, *, fronted: bool) -> Phrase:
    """Em Dezembro, Lucas irá viajar ao Rio = Lucas is travelling to Rio in December."""
    clause = join(
        "{who} {will} {go} {there}",
        "{who} {will} {go} {there}",
        (who.head, to.pt),
        who=who,
        will=auxiliary(WILL, who),
        go=word(TRAVEL.pt, TRAVEL.ing),
        there=toward(to),
    )
    return timed(clause, when, fronted=fronted)


def travels(draw: Draw) -> Phrase:
    """Somebody's plan to travel."""
    return travelling(subject(draw), draw.one(CITIES), future_time(draw), fronted=draw.chance(0.5))


def went(draw: Draw) -> Phrase:
    """Ontem, Ana foi ao mercado; Ana voltou do mercado; Ana não foi a Lisboa."""
    who, far = subject(draw, PAST_PERSONS), draw.chance(0.35)
    where = draw.one(CITIES if far else PLACES)
    verb = draw.one((GO, GO, RETURN))
    back = verb is RETURN and draw.chance(0.5)
    denied = draw.chance(0.25)
    went = past_base(verb, who) if denied else past(verb, who)
    clause = join(
        "{who} {no} {went} {there}",
        "{who} {did} {no} {went} {there}",
        (verb.pt, where.pt),
        who=who,
        no=word("não", "not") if denied else NOTHING,
        did=english_only("did", went) if denied else NOTHING,
        went=went,
        there=out_of(where) if back else toward(where),
    )
    return maybe_timed(draw, clause, past_time(draw))


def has(draw: Draw) -> Phrase:
    """Ana tem dois gatos pretos = Ana has two black cats."""
    who = subject(draw)
    noun = draw.one([noun for noun in THINGS if "opening" not in noun.kinds])
    return join(
        "{who} {has} {what}",
        "{who} {has} {what}",
        ("ter", noun.pt),
        who=who,
        has=auxiliary(HAS, who),
        what=indefinite(draw, noun, plural=0.65),
    )
