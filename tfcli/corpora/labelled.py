"""Labelled texts for classification, tagging (CoNLL) and span extraction (SQuAD): read from tables, or built in."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from tfcli.corpora import Document, Documents, Kind, Labelled, is_blank
from tfcli.corpora.columns import Columns
from tfcli.corpora.headers import name_set, places_of
from tfcli.corpora.reading import BadLine, BadRecords, FileReading, How, Report, StoredFile, read_lines
from tfcli.corpora.stories import TOLD_BY, bank_sentences, stories
from tfcli.corpora.tables import (
    START,
    Record,
    chosen_of_delimited,
    chosen_of_records,
    columnar_records,
    encodable,
    json_lines,
)
from tfcli.errors import BrokenInputError, UsageError, shortened

Records = Callable[[Report], Iterator[tuple[str, Record]]]  # each with its place: "Line 7 of a.tsv"

_WORD_NAMES = name_set("form token tokens word words")
_TAG_NAMES = name_set("label labels ner ner_tag ner_tags pos tag tags upos xpos")

_MOST_DIGITS = 18  # of a label that is a number, or of a place in a text

_WORDS = re.compile(r"\w+(?:[-'’.]\w+)*|[^\w\s]")


def words_of(text: str) -> list[str]:
    """The words that are tagged in a text: punctuation is apart, but for signs inside a word.

    >>> words_of("Ann's boat sank, said Tom.")
    ["Ann's", 'boat', 'sank', ',', 'said', 'Tom', '.']
    """
    return _WORDS.findall(text)


def tagged(words: Sequence[str], tags: Sequence[str], place: str) -> Labelled:
    """Words, a blank between them, with a tag each."""
    spans, at = [], 0
    for word, tag in zip(words, tags, strict=True):
        spans.append((at, at + len(word), tag))
        at += len(word) + 1
    return Labelled(" ".join(words), " ".join(tags), tuple(spans), place)


def asked(question: str, context: str) -> tuple[str, int]:
    r"""A text with a question in a line before it, as it is read; and where the text begins in that.

    >>> asked("Who ran?", "Tom ran.")
    ('Who ran?\nTom ran.', 9)
    """
    before = " ".join(question.split()) + "\n"
    return before + context, len(before)


@dataclass(frozen=True)
class LabelledTable:
    """The columns of a table that are read, in the order of the task, and its records."""

    columns: tuple[str, ...]
    records: Records


def labelled_texts(file: StoredFile, how: How, bad: BadRecords) -> Documents:
    """The labelled texts of a file, afresh at each call. Errors name file and line.

    Raises:
        UsageError: A column is missing, or it is not clear which to read.
    """
    kind = how.kind
    if kind == "tag" and file.suffix in (".txt", ".tsv"):
        has_header = _record_conll_header(file, how)
        return lambda: _conll(file, bad.reading(), has_header=has_header)
    table = _labelled_table(file, how, bad)

    def documents() -> Iterator[Document]:
        report = bad.reading()
        for place, record in table.records(report):
            try:
                for name in table.columns:
                    _require_value(record, name, place)
                values = [record[name] for name in table.columns]
                yield _READERS[kind](place, *values, start=record.get(START))
            except BrokenInputError as error:
                report(error)

    return documents


def _require_value(record: Record, name: str, place: str) -> None:
    """Refuse, by a BrokenInputError, a record without a column, or with null in it."""
    if name not in record:
        raise BrokenInputError(f"{place} has no column '{shortened(name)}'", "give every record the same columns")
    if record[name] is None:
        remedy = "give it a value, or leave such records out with --set data.on_bad_record=skip"
        raise BrokenInputError(f"{place} has null in the column '{shortened(name)}'", remedy)


def _labelled_table(file: StoredFile, how: How, bad: BadRecords) -> LabelledTable:
    if file.suffix in (".csv", ".tsv"):
        return _delimited(file, how, bad)
    if file.suffix in (".jsonl", ".parquet", ".arrow"):
        return _structured(file, how, bad)
    conll = " or .txt (CoNLL)" if how.kind == "tag" else ""
    remedy = f"give .jsonl, .csv, .tsv or .parquet{conll}"
    raise UsageError(f"{file.label} is no table of labelled texts", remedy)


def _delimited(file: StoredFile, how: How, bad: BadRecords) -> LabelledTable:
    delimited, chosen = chosen_of_delimited(file, how, bad)
    places = {name: delimited.columns.place(name) for name in chosen}
    if delimited.is_header and places_of(START, delimited.columns.names):
        places.setdefault(START, delimited.columns.place(START))

    def records(report: Report) -> Iterator[tuple[str, Record]]:
        for number, row in delimited.rows(report):
            yield f"Line {number} of {file.label}", {name: row[place] for name, place in places.items()}

    return LabelledTable(chosen, records)


def _structured(file: StoredFile, how: How, bad: BadRecords) -> LabelledTable:
    """A table whose columns have names and may hold lists."""
    stored = json_lines(file) if file.suffix == ".jsonl" else columnar_records(file)
    first = next((record for _, record in stored((), bad.reading())), {})
    chosen = chosen_of_records(Columns(file.label, tuple(first)), how)
    start = (START,) if START in first and START not in chosen else ()

    def records(report: Report) -> Iterator[tuple[str, Record]]:
        for place, record in stored((*chosen, *start), report):
            yield f"{place} of {file.label}", record

    return LabelledTable(chosen, records)


def _classified(place: str, text: Any, label: Any, start: Any = None) -> Labelled:
    text, label = _text(place, text, "text"), _label(place, label)
    return Labelled(text, label, ((0, len(text), label),), place)


def _tagged(place: str, words: Any, tags: Any, start: Any = None) -> Labelled:
    for side in (words, tags):
        if isinstance(side, str) and side.startswith("[") and side.endswith("]") and ("'" in side or '"' in side):
            raise BrokenInputError(f"{place} has a list as text, {shortened(side)}", "write blanks between, or .jsonl")
    sides = [side.split() if isinstance(side, str) else side for side in (words, tags)]
    if not all(isinstance(side, list) for side in sides) or not sides[0]:
        raise BrokenInputError(f"{place} has no list of words and no list of tags", "give a tag for each word")
    words, tags = sides
    if len(words) != len(tags):
        problem = f"{place} does not have as many tags ({len(tags)}) as words ({len(words)})"
        raise BrokenInputError(problem, "give a tag for each word")
    for word in words:
        if not isinstance(word, str) or word.split() != [word]:
            problem = f"{place} has the word {shortened(_spelled(word))}"
            raise BrokenInputError(problem, "give words without blanks in them")
    return tagged(words, [_label(place, tag) for tag in tags], place)


def _answered(place: str, context: Any, question: Any, answer: Any, start: Any = None) -> Labelled:
    if isinstance(answer, Mapping):  # as SQuAD has it on the hub: the first of several
        answer, start = _first_of(place, answer, "text", ""), _first_of(place, answer, "answer_start", None)
    given = {"context": context, "question": question, "answer": answer}
    context, question, answer = (_text(place, text, name) for name, text in given.items())
    at = context.find(answer) if start is None else _start(place, start)
    if at < 0 or context[at : at + len(answer)] != answer:
        where = "" if start is None else f" at character {at}"
        problem = f"{place} has the answer {shortened(repr(answer))}, which is not in its context{where}"
        raise BrokenInputError(problem, "give an answer that stands there word for word")
    text, begin = asked(question, context)
    return Labelled(text, answer, ((begin + at, begin + at + len(answer), answer),), place)


def _first_of(place: str, answers: Mapping[str, Any], key: str, missing: Any) -> Any:
    """The first of the answers of a record of the hub, each key of which has a list."""
    values = answers.get(key)
    if values is not None and not isinstance(values, list):
        raise BrokenInputError(f"{place} has {shortened(_spelled(values))} as its {key}", "give a list")
    return values[0] if values else missing


def _start(place: str, start: Any) -> int:
    """Where an answer begins, in characters; as a number or in digits, no more of them than a place has."""
    is_number = isinstance(start, int) and not isinstance(start, bool)
    is_digits = isinstance(start, str) and start.isdecimal() and len(start) <= _MOST_DIGITS
    if not is_number and not is_digits:
        problem = f"{place} has the start {shortened(_spelled(start))}"
        raise BrokenInputError(problem, "count characters of the context from 0")
    return int(start)


def _spelled(value: Any) -> str:
    """A value in a message. Python spells no whole number of thousands of digits."""
    try:
        return repr(value)
    except ValueError:
        return "a number of thousands of digits"


_READERS: dict[Kind, Callable[..., Labelled]] = {"classify": _classified, "tag": _tagged, "span": _answered}


def _text(place: str, text: Any, name: str) -> str:
    if not isinstance(text, str) or is_blank(text):
        given = "a blank" if isinstance(text, str) else shortened(_spelled(text))
        raise BrokenInputError(f"{place} has {given} as its {name}", "give it some text, or remove it")
    return encodable(text, place, f"its {name}")


def _label(place: str, label: Any) -> str:
    """A label's name; whole numbers and truth values are spelled."""
    if isinstance(label, int) and abs(label) < 10**_MOST_DIGITS:
        return str(label).lower()
    if not isinstance(label, str) or not label.strip():
        is_missing = label is None or isinstance(label, str)
        given = "no label" if is_missing else f"the label {shortened(_spelled(label))}"
        raise BrokenInputError(f"{place} has {given}", "give it the name of one, or a whole number")
    return label.strip()


def _conll(file: StoredFile, report: Report, *, has_header: bool) -> Iterator[Document]:
    """Sentences with blank lines between them: a word, a tab and its tag a line; or columns with blanks, of which the
    first and last are read (CoNLL 2003; Tjong Kim Sang and De Meulder 2003). A bad line takes its sentence with it."""
    words, tags, begin, is_bad = list[str](), list[str](), 1, False
    is_header = has_header
    for number, line in enumerate(chain(read_lines(file, report), [""]), 1):
        fields = line.strip("\r\n").split("\t") if "\t" in line else line.split()
        if not line.strip() or fields[0] == "-DOCSTART-":
            if words and not is_bad:
                yield tagged(words, tags, f"The sentence from line {begin} of {file.label} on")
            words, tags, begin, is_bad = [], [], number + 1, False
            continue
        if is_header:
            is_header, begin = False, number + 1
            continue
        is_bad |= isinstance(line, BadLine)
        place = f"Line {number} of {file.label}"
        try:
            if (len(fields) < 2 or fields[0].split() != [fields[0]]) and not isinstance(line, BadLine):
                problem = f"{place} is no word with a tag: {shortened(repr(line.strip()))}"
                raise BrokenInputError(problem, "write word, tab, tag; and a blank line between sentences")
            words.append(fields[0])
            tags.append(fields[-1] if is_bad else _label(place, fields[-1]))
        except BrokenInputError as error:
            report(error)
            is_bad = True


def _record_conll_header(file: StoredFile, how: How) -> bool:
    """Whether the first line of a CoNLL file is a header, as "word, tag" is; if so, that is recorded."""
    first: tuple[str, ...] = ()
    for line in read_lines(file, lambda error: None):
        if line.strip():
            first = tuple(line.strip().split("\t") if "\t" in line else line.split())
            break
    if how.as_before or len(first) < 2:
        return False
    is_header = how.header
    if is_header == "auto":
        is_header = first[0].casefold() in _WORD_NAMES and first[-1].casefold() in _TAG_NAMES
    if is_header:
        how.tables.append(
            FileReading(
                label=file.label,
                first=first,
                is_header=True,
                is_certain=True,
                columns=(first[0], first[-1]),
                places=(0, len(first) - 1),
                unread=(),
                labels=None,
                needs_columns=False,
                is_label_first=False,
                is_new=True,
            )
        )
    return is_header


BUILT_IN_TEXTS = 4000  # of each built-in task


def _banks(seed: int) -> Iterator[Document]:
    """Sentences with "bank", each with the sense that a word in it decides; each sentence once."""
    seen: set[str] = set()
    for one in chain.from_iterable(map(bank_sentences, stories(seed))):
        if one.words[one.deciding[-1]][0] >= len(one.text) - len(one.sentence) and one.sentence not in seen:
            seen.add(one.sentence)
            yield _classified(f"Sentence {len(seen)} of builtin:bank", one.sentence, one.sense)
        if len(seen) == BUILT_IN_TEXTS:
            return


_CLASSES = {"who acts": "WHO", "verb": "VERB", "where": "WHERE", "thing": "THING"}
_SENTENCE = re.compile(r"[^.!?]+[.!?]\"?")


def _word_classes(seed: int) -> Iterator[Document]:
    """Sentences of stories, each word with what the grammar has it for: WHO acts, VERB, WHERE, THING, or O."""
    sentences = (match[0].strip() for story in stories(seed) for match in _SENTENCE.finditer(story))
    for number, sentence in enumerate(islice(sentences, BUILT_IN_TEXTS), 1):
        known = {at.start(): _CLASSES[name] for name, pattern in TOLD_BY.items() for at in pattern.finditer(sentence)}
        words = [*_WORDS.finditer(sentence)]
        tags = [known.get(word.start(), "O") for word in words]
        yield tagged([word[0] for word in words], tags, f"Sentence {number} of builtin:word-classes")


BUILT_IN = {"builtin:bank": _banks, "builtin:word-classes": _word_classes}
