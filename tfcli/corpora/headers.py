"""Whether the first row of a CSV or TSV file names its columns, and what such names mean."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Role = Literal["text", "label", "side", "other"]
Row = Sequence[str]


def name_set(text: str) -> frozenset[str]:
    """The names in a text with blanks between them."""
    return frozenset(text.split())


CORE_NAMES = frozenset({"text", "source", "target", "label"})
"""Names that are a header even above rows of single words."""

USUAL_NAMES = CORE_NAMES | name_set(
    "sentence prompt answer completion words tokens tags ner_tags context question answers start"
)
"""The names by which tfcli finds columns."""

_TEXT_NAMES = name_set(
    """
    abstract article body comment comments content description doc document documents email
    feedback headline lyrics message msg note paragraph passage phrase post quote review
    reviews reviewtext sentence sentences sms snippet story summary text texts title tweet
    utterance
    """
)
_LABEL_NAMES = name_set(
    """
    category categories class classes emotion genre intent label labels mood polarity rating
    score sense sentiment spam stars topic toxic toxicity
    """
)
_LANGUAGE_NAMES = name_set(
    """
    arabic chinese czech danish dutch english finnish french german greek hebrew hindi
    hungarian italian japanese korean latin norwegian polish portuguese romanian russian
    spanish swedish turkish ukrainian vietnamese deutsch englisch espanol español francais
    français ingles inglés inglês portugues português
    """
)
_SIDE_NAMES = _LANGUAGE_NAMES | name_set(
    """
    answer answers completion context definition form gloss hypothesis inflected input
    instruction lemma meaning original output plural premise prompt query question reference
    reply response singular source src stem target term tgt token tokens translation trg
    word words
    """
)
_OTHER_NAMES = name_set(
    """
    age author chapter city count country date day end fold freq frequency gender guid id
    ids idx index key keyword keywords lang language length level likes link locale location
    month name num number page row split start tag tags time timestamp uid unnamed url user
    userid username uuid votes weight year
    """
)
_KNOWN_NAMES = _TEXT_NAMES | _LABEL_NAMES | _SIDE_NAMES | _OTHER_NAMES | USUAL_NAMES
_LANGUAGE_CODES = name_set(
    """
    ar bg bn ca cs cy da de el en eo es et eu fa fi fr ga gl hr hu ja ko la lt lv mk ms nb
    nl nn pl pt ro ru sk sl sr sv sw ta te th tr uk ur vi zh
    """
)
_CODES_THAT_ARE_WORDS = name_set("am as be he hi id is it my no or so to")
"""Codes of languages that are English words, too: they count only in a row with another code."""

_NAME = re.compile(r"[^\W\d](?:[\w.-]{0,30}\w)?")
_WORDS_OF_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W\d_A-Za-z]+")
_NUMBER = re.compile(r"[-+]?(?:\d[\d.,]*|\.\d+)(?:e[-+]?\d+)?\s?%?", re.IGNORECASE)
_LONGEST_NAME = 32
_MOST_WORDS_OF_NAME = 4
_FEWEST_WORDS_OF_SENTENCE = 3
_FEWEST_CHARACTERS_OF_SENTENCE = 40
_FEWEST_LABELLED_ROWS = 6
_ROWS_PER_LABEL = 3


@dataclass(frozen=True)
class FirstRow:
    """What the first row of a table is taken for.

    Attributes:
        is_header: Whether it names the columns.
        is_certain: Whether nobody could take it for the opposite, so that nothing has to be said.
    """

    is_header: bool
    is_certain: bool


def judge_first_row(rows: Sequence[Row], columns: Sequence[str] | None = None) -> FirstRow:
    """Decide whether the first row of a table is a header.

    Names decide first: those that the caller asks for, and those that columns usually have. If the
    names say nothing, the other rows decide: numbers below a word, sentences below a single word, a
    few labels below a word that is none of them. Without any such sign, the first row is data.

    Args:
        rows: The first row and some of the others.
        columns: The columns that are asked for. Names that are in the first row make it a header;
            numbers say nothing.
    """
    if not rows:
        return FirstRow(is_header=False, is_certain=True)
    first, others = [cell.strip() for cell in rows[0]], rows[1:]
    names = [cell for cell in first if cell]
    is_named = bool(columns) and not are_numbers(columns or (), len(first))
    if is_named and all(places_of(column, first) for column in columns or ()):
        return FirstRow(is_header=True, is_certain=True)
    if not names or _is_repeated_cell(names):
        return FirstRow(is_header=False, is_certain=True)
    has_text = any(role_of(name) != "other" for name in names)
    if _are_known(names) and (has_text or not _are_like_names(others)):
        return FirstRow(is_header=True, is_certain=_are_certain(names, others))
    if _has_index(first, others):
        return FirstRow(is_header=True, is_certain=True)
    return _judge_unknown_names(first, names, others)


def _judge_unknown_names(first: Row, names: Row, others: Sequence[Row]) -> FirstRow:
    """The verdict on a row with at least one name that nobody knows."""
    if not all(map(_may_be_name, names)):
        return FirstRow(is_header=False, is_certain=True)
    has_usual_name = any(map(is_usual, names))
    is_above = any(_is_above(place, first, others) for place in range(len(first)))
    if is_above and not _recurs(first, others):
        return FirstRow(is_header=True, is_certain=has_usual_name)
    has_core_name = any(name.casefold() in CORE_NAMES for name in names)
    if has_core_name or (has_usual_name and not _are_like_names(others)):
        return FirstRow(is_header=True, is_certain=False)
    looks_like_header = all(map(_NAME.fullmatch, names)) and len(set(names)) == len(names)
    return FirstRow(is_header=False, is_certain=not looks_like_header)


def are_numbers(columns: Sequence[str], width: int) -> bool:
    """Whether all of the columns are numbers of columns, counted from 1.

    >>> are_numbers(["1", "3"], width=3), are_numbers(["1", "text"], width=3)
    (True, False)
    """
    return all(column.isdecimal() and 1 <= int(column) <= width for column in columns)


def places_of(column: str, names: Sequence[str]) -> list[int]:
    """The places of a name, as it is written; if it is nowhere, in whatever case.

    >>> places_of("text", ["id", " Text"]), places_of("a", ["a", "A", "a"])
    ([1], [0, 2])
    """
    exact = [place for place, name in enumerate(names) if name.strip() == column.strip()]
    folded = column.strip().casefold()
    return exact or [place for place, name in enumerate(names) if name.strip().casefold() == folded]


def is_usual(name: str) -> bool:
    """Whether tfcli finds a column by this name."""
    return name.strip().casefold() in USUAL_NAMES


def role_of(name: str) -> Role | None:
    """What a column with this name usually holds; None if the name is not known.

    >>> role_of("reviewText"), role_of("Sentiment"), role_of("user_id"), role_of("hund")
    ('text', 'label', 'other', None)
    """
    words = [name.strip().casefold(), *reversed(_words(name))]
    for word in words:
        if word in _LABEL_NAMES:
            return "label"
        if word in _TEXT_NAMES:
            return "text"
        if word in _OTHER_NAMES:
            return "other"
        if word in _SIDE_NAMES or word in _LANGUAGE_CODES:
            return "side"
    return None


def _words(name: str) -> list[str]:
    return [word.casefold() for word in _WORDS_OF_NAME.findall(name)]


def _are_known(names: Row) -> bool:
    """Whether all names are usual for columns, or codes of languages."""
    codes = [name for name in names if name.casefold() in _LANGUAGE_CODES]
    for name in names:
        is_code = name in codes or (bool(codes) and name.casefold() in _CODES_THAT_ARE_WORDS)
        if not is_code and not _is_known(name):
            return False
    return True


def _is_known(name: str) -> bool:
    if len(name) > _LONGEST_NAME:
        return False
    folded = name.casefold()
    if folded in _KNOWN_NAMES:
        return True
    words = _words(name)
    if not 1 <= len(words) <= _MOST_WORDS_OF_NAME:
        return False
    known = [word in _KNOWN_NAMES for word in words]
    is_joined = re.fullmatch(r"[\w.:-]+", name) is not None and name[-1:] not in ".:-"
    if is_joined:
        return any(known)
    return all(known) and re.fullmatch(r"[\w.: -]+", name) is not None and name[-1] not in ".:-"


def _are_certain(names: Row, others: Sequence[Row]) -> bool:
    """Whether a row of known names needs no word: usual names, above cells that are unlike names."""
    if not any(map(is_usual, names)):
        return False
    return any(name.casefold() in CORE_NAMES for name in names) or not _are_like_names(others)


def _is_repeated_cell(names: Row) -> bool:
    """Whether a row has one word in all of its columns, as "en, en", which names nothing."""
    return len(names) > 1 and len(set(names)) == 1 and not is_usual(names[0])


def _has_index(first: Row, others: Sequence[Row]) -> bool:
    """Whether the first column is the index that pandas writes: whole numbers without a name."""
    if len(first) < 2 or first[0] or not others:
        return False
    return all(row and row[0].isdecimal() for row in others)


def _may_be_name(cell: str) -> bool:
    words = cell.split()
    if len(cell) > _LONGEST_NAME or len(words) > _FEWEST_WORDS_OF_SENTENCE:
        return False
    return all(map(_NAME.fullmatch, words))


def _are_like_names(rows: Sequence[Row]) -> bool:
    """Whether all cells of the other rows are single words, as those of a header are."""
    return all(_NAME.fullmatch(cell.strip()) for row in rows for cell in row if cell.strip())


def _recurs(first: Row, others: Sequence[Row]) -> bool:
    """Whether a cell of the first row is a value of its own column, too."""
    for place, cell in enumerate(first):
        values = {row[place].strip() for row in others if place < len(row)}
        if cell and cell in values:
            return True
    return False


def _is_above(place: int, first: Row, others: Sequence[Row]) -> bool:
    """Whether a cell of the first row is of another kind than all that stands below it."""
    name = first[place]
    values = [row[place].strip() for row in others if place < len(row) and row[place].strip()]
    if not name or not values:
        return False
    if all(map(_NUMBER.fullmatch, values)):
        return True
    is_short = len(name.split()) < _FEWEST_WORDS_OF_SENTENCE
    if is_short and len(values) > 1 and all(map(_is_sentence, values)):
        return True
    has_few_labels = len(set(values)) * _ROWS_PER_LABEL <= len(values)
    return len(values) >= _FEWEST_LABELLED_ROWS and has_few_labels and name not in values


def _is_sentence(value: str) -> bool:
    has_many_words = len(value.split()) >= _FEWEST_WORDS_OF_SENTENCE
    return has_many_words or len(value) >= _FEWEST_CHARACTERS_OF_SENTENCE
