"""The four pairs of the lecture, built by the same patterns as all the others."""

from dataclasses import replace

from tfcli.corpora.pt_en_actions import travelling
from tfcli.corpora.pt_en_grammar import Phrase, linked
from tfcli.corpora.pt_en_phrases import THE, YOU, named, noun_phrase, pronoun
from tfcli.corpora.pt_en_states import greeting, located
from tfcli.corpora.pt_en_words import CITIES, HELLO, MONTHS, THINGS

_THINGS = {noun.pt: noun for noun in THINGS}
_RIO = next(city for city in CITIES if city.pt == "Rio")


def _to_rio(*, fronted: bool) -> Phrase:
    return travelling(named("Lucas"), _RIO, linked(*MONTHS[-1]), fronted=fronted)


LECTURE: tuple[tuple[Phrase, str], ...] = (
    (greeting(replace(linked(*HELLO[0]), head=HELLO[0][0]), pronoun(YOU)), "?"),
    (located(noun_phrase(_THINGS["livro"], THE), "em cima de", noun_phrase(_THINGS["mesa"], THE)), "."),
    (_to_rio(fronted=False), "."),
    (_to_rio(fronted=True), "."),
)
