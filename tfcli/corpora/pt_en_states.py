"""The sentences of builtin:pt-en that say what something is like and where it is."""

from dataclasses import replace

from tfcli.corpora.pt_en_draw import Draw
from tfcli.corpora.pt_en_grammar import NOTHING, Phrase, english_only, join, linked, word
from tfcli.corpora.pt_en_phrases import (
    NO_DETERMINER,
    PRONOUNS,
    THE,
    YOU,
    YOUR,
    adjectives_of,
    agreeing,
    anyone,
    auxiliary,
    definite,
    indefinite,
    inside,
    noun_phrase,
    other,
    pronoun,
    someone_named,
    subject,
)
from tfcli.corpora.pt_en_verbs import DOES, DWELLING, HAS, IS, STAYS, Auxiliary
from tfcli.corpora.pt_en_words import (
    CITIES,
    HELLO,
    NEEDS,
    NUMBERS,
    PEOPLE,
    PLACES,
    QUALITIES,
    RELATIONS,
    RELATIVES,
    STATES,
    THINGS,
    Adjective,
)

MOVABLE = {"text", "food", "clothes", "object", "animal"}
SMALL_THINGS = tuple(noun for noun in THINGS if noun.kinds & MOVABLE and "large" not in noun.kinds)
FAMILIES = {"text", "clothes", "furniture", "vehicle"}
COMPARED = tuple(noun for noun in THINGS if noun.kinds & FAMILIES)
LANDMARKS = {noun.pt: noun for noun in THINGS if "landmark" in noun.kinds}


def greeting(hello: Phrase, who: Phrase, *, called: Phrase = NOTHING) -> Phrase:
    """Olá, como vai você = Hello, how are you; Olá, Ana, como vai você = Hello, Ana, how are you."""
    to = "{hello}, {called}," if called.pt else "{hello},"
    return join(
        f"{to} {{how}} {{are}} {{who}}",
        f"{to} {{how}} {{are}} {{who}}",
        (hello.head, who.head),
        hello=hello,
        called=called,
        how=word("como", "how"),
        are=word("vai", IS.en[who.person]),
        who=who,
    )


def greets(draw: Draw) -> Phrase:
    """A greeting with a question after somebody."""
    pt, en = draw.one(HELLO)
    hello = replace(linked(pt, en), head=pt)
    if draw.chance(0.4):
        return greeting(hello, pronoun(YOU), called=someone_named(draw))
    if draw.chance(0.5):
        return greeting(hello, noun_phrase(draw.one(RELATIVES), YOUR))
    return greeting(hello, someone_named(draw))


def located(what: Phrase, relation: str, landmark: Phrase) -> Phrase:
    """O livro está em cima da mesa = The book is on the table."""
    return join(
        "{what} {is_} {where}",
        "{what} {is_} {where}",
        what=what,
        is_=auxiliary(STAYS, what),
        where=beside(what, relation, landmark),
    )


def beside(what: Phrase, relation: str, landmark: Phrase) -> Phrase:
    """em cima da mesa = on the table; that the two things met is a combination."""
    return join(
        "{on} {landmark}",
        "{on} {landmark}",
        (what.head, landmark.head),
        on=word(relation, RELATIONS[relation][0]),
        landmark=landmark,
    )


def is_located(draw: Draw) -> Phrase:
    """Something stands near something else; now and then it does not."""
    what = definite(draw, draw.one(SMALL_THINGS))
    relation = draw.one(tuple(RELATIONS))
    landmark = _landmark(draw, relation)
    if draw.chance(0.8):
        return located(what, relation, landmark)
    return join(
        "{what} {no} {is_} {where}",
        "{what} {is_} {no} {where}",
        what=what,
        no=word("não", "not"),
        is_=auxiliary(STAYS, what),
        where=beside(what, relation, landmark),
    )


def _landmark(draw: Draw, relation: str) -> Phrase:
    return definite(draw, LANDMARKS[draw.one(RELATIONS[relation][1].split())], adjective=0.2, plural=0.0, owned=0.1)


def somewhere(draw: Draw, what: Phrase) -> Phrase:
    """Where a thing is: near another or in a place."""
    if draw.chance(0.5):
        relation = draw.one(tuple(RELATIONS))
        return beside(what, relation, _landmark(draw, relation))
    place = draw.one(PLACES)
    return join("{where}", "{where}", (what.head, place.pt), where=inside(place))


def is_somewhere(draw: Draw) -> Phrase:
    """Meu irmão está na praia; Ana não está na escola."""
    who, place = subject(draw), draw.one(PLACES)
    return join(
        "{who} {no} {am} {where}",
        "{who} {am} {no} {where}",
        (who.head, place.pt),
        who=who,
        no=word("não", "not") if draw.chance(0.3) else NOTHING,
        am=auxiliary(STAYS, who),
        where=inside(place),
    )


def there_is(draw: Draw) -> Phrase:
    """Há dois livros em cima da mesa = There are two books on the table."""
    noun = draw.one(SMALL_THINGS)
    if draw.chance(0.2):
        what = noun_phrase(noun, NO_DETERMINER, plural=True)
        return join(
            "{no} {are} {what} {where}",
            "there {are} {no} {what} {where}",
            no=word("não", "no"),
            are=word("há", "are"),
            what=what,
            where=somewhere(draw, what),
        )
    what = indefinite(draw, noun, plural=0.6)
    return join(
        "{is_} {what} {where}",
        "there {is_} {what} {where}",
        is_=word("há", "are" if what.person == "3p" else "is"),
        what=what,
        where=somewhere(draw, what),
    )


def feels(draw: Draw) -> Phrase:
    """As meninas estão cansadas; Ana não está com fome = Ana is not hungry."""
    who = subject(draw)
    if draw.chance(0.3):
        need, state = draw.one(NEEDS)
        feeling, head = join("com {need}", "{need}", need=word(need, state)), f"com {need}"
    else:
        adjective = draw.one(STATES)
        feeling, head = agreeing(adjective, who), adjective.head
    return _being(draw, who, STAYS, feeling, head)


def is_like(draw: Draw) -> Phrase:
    """Ana é alta; nós não somos ricos."""
    who, adjective = subject(draw), draw.one(QUALITIES)
    return _being(draw, who, IS, agreeing(adjective, who), adjective.head)


def thing_is(draw: Draw) -> Phrase:
    """O carro de Ana é vermelho; as janelas não estão limpas."""
    noun = draw.one(THINGS)
    adjective = draw.one(adjectives_of(noun))
    what = definite(draw, noun, adjective=0.0, plural=0.4)
    return _being(draw, what, IS if adjective.verb == "ser" else STAYS, agreeing(adjective, what), adjective.head)


def _being(draw: Draw, who: Phrase, verb: Auxiliary, what: Phrase, head: str) -> Phrase:
    return join(
        "{who} {no} {am} {what}",
        "{who} {am} {no} {what}",
        (who.head, head),
        who=who,
        no=word("não", "not") if draw.chance(0.25) else NOTHING,
        am=auxiliary(verb, who),
        what=what,
    )


def compares_things(draw: Draw) -> Phrase:
    """O carro é mais caro do que a bicicleta = The car is more expensive than the bicycle: within one family."""
    noun = draw.one(COMPARED)
    rivals = [rival for rival in COMPARED if rival != noun and rival.kinds & noun.kinds & FAMILIES]
    adjective = draw.one([adjective for adjective in adjectives_of(noun) if adjective.more_en])
    against = draw.one([rival for rival in rivals if adjective in adjectives_of(rival)])
    what = definite(draw, noun, adjective=0.0, plural=0.4)
    return _comparing(draw, what, adjective, definite(draw, against, adjective=0.0))


def compares_people(draw: Draw) -> Phrase:
    """Ana é mais alta do que Lucas; Ana é tão alta quanto Lucas = Ana is as tall as Lucas."""
    who = anyone(draw)
    return _comparing(draw, who, draw.one(QUALITIES), other(draw, who))


def _comparing(draw: Draw, who: Phrase, adjective: Adjective, than: Phrase) -> Phrase:
    """Maior and menor are one word; the others take mais, and English decides between -er and more."""
    tall = agreeing(adjective, who)
    equal = draw.chance(0.3)
    if equal:
        pt, taller = "{who} {am} tão {tall} {than}", tall
    elif adjective.more_pt:
        plural = "es" if who.person == "3p" else ""
        pt, taller = "{who} {am} {tall} {than}", word(adjective.more_pt + plural, adjective.more_en)
    else:
        pt, taller = "{who} {am} {tall} {than}", word(f"mais {tall.pt[0].text}", adjective.more_en)
    return join(
        f"{pt} {{rival}}",
        f"{{who}} {{am}} {'as ' if equal else ''}{{tall}} {{than}} {{rival}}",
        (who.head, adjective.head),
        who=who,
        am=auxiliary(IS, who),
        tall=taller,
        than=word("quanto", "as") if equal else word("do que", "than"),
        rival=than,
    )


def age(draw: Draw) -> Phrase:
    """Ana tem dez anos = Ana is ten years old."""
    child = noun_phrase(draw.one([noun for noun in PEOPLE if "child" in noun.kinds]), THE)
    who = draw.one((child, pronoun(draw.one(PRONOUNS)), someone_named(draw)))
    number = draw.one(NUMBERS)
    return join(
        "{who} {am} {ten} {years}",
        "{who} {am} {ten} {years} old",
        (who.head, number[0]),
        who=who,
        am=word(HAS.pt[who.person], IS.en[who.person]),
        ten=word(number[0], number[2]),
        years=word("anos", "years"),
    )


def dwells(draw: Draw) -> Phrase:
    """Ana mora em Lisboa; os alunos não trabalham na biblioteca."""
    who, verb = subject(draw), draw.one(tuple(DWELLING))
    place = draw.one(CITIES if verb == "morar" else (*PLACES, *CITIES))
    forms = DWELLING[verb]
    denied = draw.chance(0.3)
    live = word(forms.pt[who.person], forms.en["3p" if denied else who.person])
    return join(
        "{who} {no} {live} {where}",
        "{who} {does} {no} {live} {where}",
        (verb, place.pt),
        who=who,
        no=word("não", "not") if denied else NOTHING,
        does=english_only(DOES[who.person], live) if denied else NOTHING,
        live=live,
        where=inside(place),
    )
