"""Agreement, contraction, reordering and alignment on sentences worked out by hand."""

import pytest

from tfcli.corpora.pt_en import pairs, phrase_of
from tfcli.corpora.pt_en_phrases import (
    LEXICON,
    MY,
    PRONOUNS,
    THE,
    THE_MANY,
    A,
    agreeing,
    alignment,
    contracted,
    english_only,
    join,
    noun_phrase,
    placed,
    possessive,
    text,
    word,
)

THINGS = {noun.pt: noun for noun in LEXICON["things"]}
ADJECTIVES = {adjective.pt: adjective for adjective in LEXICON["looks"]}
PLACES = {place.pt: place for place in LEXICON["places_and_cities"]}
VERBS = LEXICON["verbs"]
BUY = VERBS[0]
ANA = word("Ana", "Ana", None, "Ana", "f")


def test_alignment_of_the_lectures_pairs():
    """Olá,0 como1 vai2 você?3 — Hello,0 how1 are2 you?3: word for word.

    O0 livro1 está2 em3 cima4 da5 mesa.6 — The0 book1 is2 on3 the4 table.5: "em cima de" is "on", so the
    contraction "da" holds both "on" and "the".
    Em0 Dezembro,1 Lucas2 irá3 viajar4 ao5 Rio.6 — Lucas0 is1 travelling2 to3 Rio4 in5 December.6: "ao" holds
    the preposition alone, since Rio has no article in English.
    """
    stream = pairs()
    assert next(stream).alignment == ((0, 0), (1, 1), (2, 2), (3, 3))
    assert next(stream).alignment == ((0, 0), (1, 1), (2, 2), (3, 3), (4, 3), (5, 3), (5, 4), (6, 5))
    assert next(stream).alignment == ((0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6))
    assert next(stream).alignment == ((0, 5), (1, 6), (2, 0), (3, 1), (4, 2), (5, 3), (6, 4))


def test_alignment_of_a_red_book_of_anas():
    """o0 livro1 vermelho2 de3 Ana4 — Ana's0 red1 book2: the article has no partner, de and Ana make Ana's."""
    phrase = noun_phrase(THINGS["livro"], THE, ADJECTIVES["vermelho"], owner=possessive(ANA))
    assert text(phrase) == ("o livro vermelho de Ana", "Ana's red book")
    assert alignment(phrase) == ((1, 2), (2, 1), (3, 0), (4, 0))
    assert set(phrase.combinations) == {("livro", "vermelho"), ("livro", "Ana")}


def test_alignment_of_did_not_buy():
    """Ana0 não1 comprou2 — Ana0 did1 not2 buy3: "did" carries the tense of "comprou"."""
    ana = ANA
    bought = word(BUY.past, BUY.en, ana)
    phrase = join(
        "{who} {no} {bought} = {who} {did} {no} {bought}",
        who=ana,
        no=word("não", "not"),
        did=english_only("did", bought),
        bought=bought,
    )
    assert text(phrase) == ("Ana não comprou", "Ana did not buy")
    assert alignment(phrase) == ((0, 0), (1, 2), (2, 1), (2, 3))


@pytest.mark.parametrize(
    ("noun", "adjective", "determiner", "plural", "expected"),
    [
        ("camisa", "vermelho", THE, False, ("a camisa vermelha", "the red shirt")),
        ("camisa", "azul", THE_MANY, True, ("as camisas azuis", "the blue shirts")),
        ("flor", "branco", THE_MANY, True, ("as flores brancas", "the white flowers")),
        (
            "jornal",
            "interessante",
            THE_MANY,
            True,
            ("os jornais interessantes", "the interesting newspapers"),
        ),
        ("faca", "limpo", MY, False, ("minha faca limpa", "my clean knife")),
        ("carro", "velho", A, False, ("um carro velho", "an old car")),
        ("faca", "novo", ("duas", "duas", "two"), True, ("duas facas novas", "two new knives")),
    ],
)
def test_agreement_in_the_noun_phrase(noun, adjective, determiner, plural, expected):
    assert text(noun_phrase(THINGS[noun], determiner, ADJECTIVES[adjective], plural=plural)) == expected


def test_verbs_agree_with_their_subject():
    eu, eles = PRONOUNS["eu"], PRONOUNS["eles"]
    find, bring = (next(verb for verb in VERBS if verb.pt == name) for name in ("encontrar", "trazer"))
    assert text(word(find.past, find.past_en, eu)) == ("encontrei", "found")
    assert text(word(find.past, find.past_en, eles)) == ("encontraram", "found")
    assert text(word(bring.past, bring.past_en, eles)) == ("trouxeram", "brought")


def test_states_agree_with_people():
    tired = LEXICON["states"][0]
    assert text(agreeing(tired, ANA)) == ("cansada", "tired")
    assert text(agreeing(tired, PRONOUNS["nós"])) == ("cansados", "tired")
    assert text(agreeing(tired, PRONOUNS["elas"])) == ("cansadas", "tired")


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        (placed(PLACES["cozinha"], "em", PLACES["cozinha"].inside), ("na cozinha", "in the kitchen")),
        (placed(PLACES["praia"], "a", "to"), ("à praia", "to the beach")),
        (placed(PLACES["Lisboa"], "a", "to"), ("a Lisboa", "to Lisbon")),
        (placed(PLACES["Rio"], "a", "to"), ("ao Rio", "to Rio")),
        (placed(PLACES["mercado"], "de", "from"), ("do mercado", "from the market")),
        (placed(PLACES["Londres"], "em", PLACES["Londres"].inside), ("em Londres", "in London")),
        (placed(PLACES["parque"], "a", PLACES["parque"].inside), ("ao parque", "at the park")),
        (placed(PLACES["jardim"], "a", PLACES["jardim"].inside), ("ao jardim", "in the garden")),
        (placed(PLACES["escritório"], "em", PLACES["escritório"].inside), ("no escritório", "at the office")),
    ],
)
def test_places_contract_in_portuguese_and_lose_their_article_in_english(phrase, expected):
    assert text(phrase) == expected


def test_a_thing_beside_another_is_a_combination():
    [under] = [relation for relation in LEXICON["near"] if relation.pt == "embaixo de"]
    cat, bed = noun_phrase(THINGS["gato"], THE), noun_phrase(THINGS["cama"], THE)
    phrase = phrase_of("is_located", noun=None, what=cat, relation=under, landmark=bed, no=None)
    assert text(phrase) == ("o gato está embaixo da cama", "the cat is under the bed")
    assert phrase.combinations == (("gato", "cama"),)


def test_a_contraction_keeps_the_links_of_both_words():
    melted = contracted(join("de:1 o:2 menino:3").pt)
    assert [word.text for word in melted] == ["do", "menino"]
    assert len(melted[0].links) == 2


def test_no_two_nouns_share_a_portuguese_spelling():
    """They may share an English one (aluno and aluna: student); the other way a source had two targets."""
    nouns = (noun for name in ("things", "drinks", "people", "relatives") for noun in LEXICON[name])
    spellings = [form for noun in nouns for form in (noun.pt, noun.pt_plural)]
    assert len(spellings) == len(set(spellings))
