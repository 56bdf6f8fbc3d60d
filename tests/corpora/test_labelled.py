"""Labelled texts: what is read of each form, and what is refused, with file and line."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tfcli.corpora import Kind, Labelled
from tfcli.corpora.labelled import words_of
from tfcli.corpora.open import open_source
from tfcli.corpora.split import open_split
from tfcli.errors import TfcliError
from tfcli.recipe.data import DataSection


def read(folder: Path, name: str, text: str, kind: Kind, columns: list[str] | None = None) -> list[Labelled]:
    (folder / name).write_text(text, encoding="utf-8")
    found = [*open_source(str(folder / name), kind, columns=columns).documents()]
    assert all(isinstance(one, Labelled) for one in found)
    return found  # type: ignore[return-value]


def jsonl(*records: Any) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("a.tsv", "A good film.\tpos\nBad.\t0\n", None),
        ("b.tsv", "label\ttext\npos\tA good film.\n0\tBad.\n", None),
        ("c.csv", 'text,label,stars\n"A good film.",pos,5\nBad.,0,1\n', None),
        ("d.csv", "review,mood\nA good film.,pos\nBad.,0\n", ["review", "mood"]),
        ("e.jsonl", jsonl({"text": "A good film.", "label": "pos"}, {"text": "Bad.", "label": 0}), None),
        ("f.jsonl", jsonl({"sentence": "A good film.", "label": "pos"}, {"sentence": "Bad.", "label": 0}), None),
    ],
)
def test_a_text_has_one_label(tmp_path: Path, name: str, text: str, columns: list[str] | None) -> None:
    first, second = read(tmp_path, name, text, "classify", columns)
    assert (first.source, first.spans) == ("A good film.", ((0, 12, "pos"),))
    assert (second.source, second.spans) == ("Bad.", ((0, 4, "0"),))


def test_parquet_is_read_as_json_is(tmp_path: Path) -> None:
    from pyarrow import Table, parquet

    parquet.write_table(
        Table.from_pylist([{"text": f"t{n}", "label": n % 2} for n in range(600)]), tmp_path / "a.parquet"
    )
    found = [*open_source(str(tmp_path / "a.parquet"), "classify").documents()]
    assert [one.spans[0][2] for one in found[:3] if isinstance(one, Labelled)] == ["0", "1", "0"]
    assert len(found) == 600


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", "Ann\tB-PER\nran\tO\n\n\nRome\tB-LOC\n"),
        ("b.txt", "-DOCSTART- -X- O\n\nAnn NNP B-PER\nran VBD O\n\nRome NNP B-LOC"),
        ("c.jsonl", jsonl({"words": ["Ann", "ran"], "tags": ["B-PER", "O"]}, {"words": ["Rome"], "tags": ["B-LOC"]})),
        ("d.csv", "tokens,tags\nAnn ran,B-PER O\nRome,B-LOC\n"),
    ],
)
def test_every_word_has_a_tag(tmp_path: Path, name: str, text: str) -> None:
    first, second = read(tmp_path, name, text, "tag")
    assert (first.source, first.spans) == ("Ann ran", ((0, 3, "B-PER"), (4, 7, "O")))
    assert (second.source, second.spans) == ("Rome", ((0, 4, "B-LOC"),))


def test_an_answer_stands_in_its_context(tmp_path: Path) -> None:
    squad = {"context": "Ann ran. Ann sat.", "question": "Who sat?", "answers": {"text": ["Ann"], "answer_start": [9]}}
    plain = {"context": "Ann ran. Ann sat.", "question": "Who\nran?", "answer": "Ann"}
    [first] = read(tmp_path, "a.jsonl", jsonl(squad), "span")
    [second] = read(tmp_path, "b.jsonl", jsonl(plain), "span")
    [third] = read(tmp_path, "c.jsonl", jsonl(plain | {"start": 9}), "span")
    assert (first.source, first.spans) == ("Who sat?\nAnn ran. Ann sat.", ((18, 21, "Ann"),))
    assert (second.source, second.spans) == ("Who ran?\nAnn ran. Ann sat.", ((9, 12, "Ann"),))
    assert third.spans == ((18, 21, "Ann"),)


REFUSED: list[tuple[Kind, str, str, str]] = [
    ("classify", "a.tsv", "x\ty\nonly a text\n", "Line 2 of .*a.tsv has 1 fields"),
    ("classify", "a.tsv", "x\ty\nz\t \n", "Line 2 of .*a.tsv has no label"),
    ("classify", "a.tsv", "x\ty\n \tz\n", "Line 2 of .*a.tsv has a blank as its text"),
    (
        "classify",
        "a.tsv",
        "x\ty\tz\n",
        r"has the columns '1', '2', '3' \(first row read as data: x, y, z\), and classify needs text, label",
    ),
    ("classify", "a.md", "x", "no table of labelled texts"),
    ("classify", "a.jsonl", jsonl({"text": "x", "label": "y"}, {"text": "z"}), "Line 2 of .* has no column 'label'"),
    (
        "classify",
        "a.jsonl",
        jsonl({"text": "x", "label": "y"}, {"text": "z", "label": None}),
        "has null in the column 'label'",
    ),
    ("classify", "a.jsonl", jsonl({"text": "x", "label": [1]}), "Line 1 of .* has the label .1."),
    ("classify", "a.jsonl", jsonl({"text": 3, "label": 1}), "Line 1 of .* has 3 as its text"),
    ("tag", "a.jsonl", jsonl({"words": ["a", "b"], "tags": ["X"]}), "as many tags .1. as words .2."),
    ("tag", "a.jsonl", jsonl({"words": ["a b"], "tags": ["X"]}), "has the word 'a b'"),
    ("tag", "a.jsonl", jsonl({"words": [], "tags": []}), "has no list of words"),
    ("tag", "a.tsv", "a\tX\nb\n", "Line 2 of .*a.tsv is no word with a tag: 'b'"),
    ("span", "a.jsonl", jsonl({"context": "a", "question": "b", "answer": "c"}), "'c', which is not in its context"),
    ("span", "a.jsonl", jsonl({"context": "aa", "question": "b", "answer": "a", "start": 5}), "at character 5"),
    ("span", "a.jsonl", jsonl({"context": "aa", "question": "b", "answer": "a", "start": "x"}), "has the start 'x'"),
    ("span", "a.jsonl", jsonl({"context": "aa", "question": " ", "answer": "a"}), "a blank as its question"),
]


@pytest.mark.parametrize(("kind", "name", "text", "said"), REFUSED)
def test_what_is_no_label_is_refused_with_its_line(tmp_path: Path, kind: Kind, name: str, text: str, said: str) -> None:
    with pytest.raises(TfcliError, match=said):
        read(tmp_path, name, text, kind)


@pytest.mark.parametrize(
    ("name", "kind", "labels"),
    [
        ("builtin:bank", "classify", {"river", "money"}),
        ("builtin:word-classes", "tag", {"WHO", "VERB", "WHERE", "THING", "O"}),
    ],
)
def test_built_in_tasks_are_the_same_every_time(name: str, kind: Kind, labels: set[str]) -> None:
    first, again = ([*islice(open_source(name, kind).documents(), 300)] for _ in range(2))
    assert first == again != [*islice(open_source(name, kind, seed=1).documents(), 300)]
    assert {label for one in first if isinstance(one, Labelled) for *_, label in one.spans} == labels
    for one in first:
        assert isinstance(one, Labelled)
        assert all(one.source[start:end].strip() for start, end, _ in one.spans)


def test_no_sentence_about_a_bank_is_on_both_sides() -> None:
    split = open_split(DataSection(source="builtin:bank"), "classify")
    train, held_out = (
        {one.source for one in split.only(part) if isinstance(one, Labelled)} for part in ("train", "validation")
    )
    assert len(train) > 3000 and len(held_out) > 300
    assert not train & held_out


def test_words_are_those_that_were_tagged() -> None:
    sentence = next(iter(open_source("builtin:word-classes", "tag").documents()))
    assert isinstance(sentence, Labelled)
    assert " ".join(words_of(sentence.source)) == sentence.source


_DIGITS = "9" * 5000  # more than Python makes a number of


@pytest.mark.parametrize(
    ("kind", "record", "problem"),
    [
        ("classify", f'{{"text": "a b", "label": {_DIGITS}}}', "is not valid JSON (a number has thousands of digits)"),
        ("classify", f'{{"text": "a b", "label": {"9" * 24}}}', f"has the label {'9' * 24}"),
        ("classify", '{"text": "a b", "label": [1]}', "has the label [1]"),
        ("classify", '{"text": "a b", "label": {"a": 1}}', "has the label {'a': 1}"),
        ("tag", '{"words": ["a", "b"], "tags": [[1], 2]}', "has the label [1]"),
        ("tag", '{"words": ["a", "b"], "tags": [true, null]}', "has no label"),
        ("span", '{"context": "a b", "question": "q", "answer": true}', "has True as its answer"),
        ("span", '{"context": "a b", "question": "q", "answer": {"text": "b"}}', "has 'b' as its text; give a list"),
        ("span", '{"context": "a b", "question": "q", "answer": {"text": {"a": 1}}}', "has {'a': 1} as its text"),
        (
            "span",
            '{"context": "a b", "question": "q", "answer": {"text": ["b"], "answer_start": 2}}',
            "has 2 as its answer_start; give a list",
        ),
        ("span", '{"context": "a b", "question": "q", "answer": "b", "start": true}', "has the start True"),
        ("span", f'{{"context": "a b", "question": "q", "answer": "b", "start": "{_DIGITS}"}}', "has the start '999"),
    ],
)
def test_a_value_of_the_wrong_type_or_size_is_one_sentence(
    tmp_path: Path, kind: Kind, record: str, problem: str
) -> None:
    with pytest.raises(TfcliError) as raised:
        read(tmp_path, "a.jsonl", record + "\n", kind)
    assert problem in str(raised.value) and len(str(raised.value)) < 400
