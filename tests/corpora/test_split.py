"""Training and validation parts: every document in one of them, in order, and stable as the text grows."""

import dataclasses
from collections.abc import Iterator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.corpora.helpers import write
from tfcli.corpora import Document, Kind, Pair, Part, Source
from tfcli.corpora.split import TrainValidationSplit, open_split, split_source
from tfcli.errors import UsageError
from tfcli.recipe.data import DataSection

FRACTIONS = st.sampled_from([0.01, 0.1, 0.3, 0.5, 0.9])
TEXTS = st.lists(st.text(max_size=30), max_size=40)
PAIRS = st.lists(st.builds(Pair, st.text(max_size=9), st.text(max_size=9)), max_size=40)


def source_of(documents: list, kind: Kind = "text", **fields) -> Source:
    return Source(("memory",), kind, lambda: iter(documents), lambda: "fixed", **fields)


def parts_of(documents: list, split, fraction: float) -> list[tuple[Part, Document]]:
    """The division as it comes, also when it ends in the refusal of an empty part."""
    kind: Kind = "pairs" if documents and isinstance(documents[0], Pair) else "text"
    parts = []
    try:
        for item in TrainValidationSplit(source_of(documents, kind), split, fraction).parts():
            parts.append(item)
    except UsageError:
        assert {part for part, _ in parts} != {"train", "validation"} or any_part_is_blank(parts)
    return parts


def any_part_is_blank(parts: list[tuple[Part, Document]]) -> bool:
    def has_text(document: Document) -> bool:
        sides = (document.source, document.target) if isinstance(document, Pair) else (document,)
        return any(side.strip() for side in sides)

    return any(not any(has_text(d) for p, d in parts if p == part) for part in ("train", "validation"))


@given(TEXTS | PAIRS, FRACTIONS)
def test_hash_puts_every_document_in_one_part_and_keeps_the_order(documents, fraction):
    assert [document for _, document in parts_of(documents, "hash", fraction)] == documents


@given(TEXTS, TEXTS, FRACTIONS)
def test_hash_moves_no_document_when_others_are_added(documents, added, fraction):
    before = {document: part for part, document in parts_of(documents, "hash", fraction)}
    after = {document: part for part, document in parts_of(added + documents, "hash", fraction)}
    assert {document: after[document] for document in before} == before


@given(st.text(), st.lists(st.text(), min_size=2, max_size=5), FRACTIONS)
def test_hash_keeps_a_source_sentence_on_one_side(source, targets, fraction):
    pairs = [Pair(source, target) for target in targets]
    assert len({part for part, _ in parts_of(pairs, "hash", fraction)}) == 1


@given(TEXTS, st.sampled_from([0.1, 0.3]))
def test_a_larger_fraction_only_adds_to_the_validation_part(documents, fraction):
    smaller = {document for part, document in parts_of(documents, "hash", fraction) if part == "validation"}
    larger = {document for part, document in parts_of(documents, "hash", 0.5) if part == "validation"}
    assert smaller <= larger


def test_hash_holds_out_about_the_fraction():
    # 10,000 draws of 0.1 have a standard deviation of √(10,000 · 0.1 · 0.9) = 30; 120 is four of them.
    parts = parts_of([f"document {number}" for number in range(10_000)], "hash", 0.1)
    assert abs(sum(part == "validation" for part, _ in parts) - 1000) < 120


@given(TEXTS, FRACTIONS)
def test_tail_pieces_join_to_the_text_with_training_first(documents, fraction):
    parts = parts_of(documents, "tail", fraction)
    assert "".join(text for _, text in parts) == "".join(documents)
    assert [part for part, _ in parts] == sorted(part for part, _ in parts)  # "train" sorts before "validation"


@given(TEXTS, FRACTIONS)
def test_tail_cuts_texts_at_the_very_character(documents, fraction):
    total = sum(map(len, documents))
    training = sum(len(text) for part, text in parts_of(documents, "tail", fraction) if part == "train")
    hundredths = round(fraction * 100)
    assert training == total * (100 - hundredths) // 100


@given(PAIRS, FRACTIONS)
def test_tail_never_cuts_a_pair_and_holds_out_at_least_the_fraction(pairs, fraction):
    parts = parts_of(pairs, "tail", fraction)
    assert [pair for _, pair in parts] == pairs
    assert [part for part, _ in parts] == sorted(part for part, _ in parts)
    total = sum(len(pair.source) + len(pair.target) for pair in pairs)
    training = sum(len(pair.source) + len(pair.target) for part, pair in parts if part == "train")
    assert training <= total * (100 - round(fraction * 100)) // 100


def test_tail_of_the_shakespeare_text_is_the_usual_cut():
    text = "x" * 1_115_394
    (_, training), (_, validation) = parts_of([text], "tail", 0.1)
    assert (len(training), len(validation)) == (1_003_854, 111_540)  # ⌊0.9 · 1,115,394⌋ and the rest


def test_tail_of_two_pairs_holds_out_the_second():
    # The cut after ⌊0.9 · 8⌋ = 7 characters falls in the second pair, so that pair is validation.
    pairs = [Pair("ab", "cd"), Pair("ef", "gh")]
    assert parts_of(pairs, "tail", 0.1) == [("train", pairs[0]), ("validation", pairs[1])]


def test_tail_leaves_whole_what_ends_at_the_cut():
    texts = ["abcde", "fghij"]
    assert parts_of(texts, "tail", 0.5) == [("train", "abcde"), ("validation", "fghij")]
    pairs = [Pair("ab", "cd"), Pair("ef", "gh")]
    assert parts_of(pairs, "tail", 0.5) == [("train", pairs[0]), ("validation", pairs[1])]


def test_tail_counts_without_rounding_errors():
    # In floating point 10 · (1 − 0.9) is 0.9999999999999998, which would leave no character to train on.
    assert parts_of(["abcdefghij"], "tail", 0.9) == [("train", "a"), ("validation", "bcdefghij")]


def test_tail_cuts_inside_the_document_where_it_falls():
    # 12 characters, of which ⌊0.75 · 12⌋ = 9 train: four, four and one.
    assert parts_of(["abcd", "efgh", "ijkl"], "tail", 0.25) == [
        ("train", "abcd"),
        ("train", "efgh"),
        ("train", "i"),
        ("validation", "jkl"),
    ]


def test_one_part_is_the_parts_documents():
    division = TrainValidationSplit(source_of([f"text {number}" for number in range(300)]), "hash", 0.2)
    for part in ("train", "validation"):
        assert list(division.only(part)) == [document for its, document in division.parts() if its == part]


def test_a_file_division_reads_both_sources(tmp_path):
    train = write(tmp_path / "train.txt", "training")
    held_out = write(tmp_path / "held-out.txt", "validation")
    section = DataSection(source=str(train), validation=str(held_out))
    division = open_split(section, "text")
    assert division.split == "file"
    assert list(division.parts()) == [("train", "training"), ("validation", "validation")]
    assert list(division.only("train")) == ["training"]
    assert list(division.only("validation")) == ["validation"]
    assert open_split(dataclasses.replace(section, split="file"), "text").fingerprint == division.fingerprint


def own(documents: list[str]) -> Source:
    def divided() -> Iterator[tuple[Part, Document]]:
        return (("validation" if text.startswith("v") else "train", text) for text in documents)

    return source_of(documents, divided=divided)


def test_a_sources_own_division_is_used_unless_another_is_chosen():
    source = own(["t1", "v1", "t2"])
    division = split_source(source, DataSection(), "text")
    assert division.split == "own"
    assert list(division.parts()) == [("train", "t1"), ("validation", "v1"), ("train", "t2")]
    assert split_source(source, DataSection(split="tail"), "text").split == "tail"


@pytest.mark.parametrize(("count", "split"), [(1, "tail"), (99, "tail"), (100, "hash"), (500, "hash")])
def test_few_documents_are_divided_by_tail(count, split):
    source = source_of([f"text {number}" for number in range(count)])
    assert split_source(source, DataSection(), "text").split == split


def test_the_default_sources_are_built_in():
    text = open_split(DataSection(max_documents=200), "text")
    assert (text.source.names, text.split) == (("builtin:stories",), "hash")
    pairs = open_split(DataSection(max_documents=200), "pairs")
    assert (pairs.source.names, pairs.split) == (("builtin:pt-en",), "own")
    training, held_out = ({pair.source for pair in pairs.only(part)} for part in ("train", "validation"))
    assert training and held_out and not training & held_out


def test_the_fingerprint_knows_how_the_source_is_divided():
    source = own(["t1", "v1"])
    sections = [
        DataSection(split="tail"),
        DataSection(split="hash"),
        DataSection(split="tail", validation_fraction=0.2),
    ]
    assert len({split_source(source, section, "text").fingerprint for section in [*sections, DataSection()]}) == 4
    unused = DataSection(validation_fraction=0.2)
    assert split_source(source, unused, "text").fingerprint == split_source(source, DataSection(), "text").fingerprint


@pytest.mark.parametrize("split", ["hash", "tail"])
def test_an_empty_part_is_refused_when_the_parts_end(split):
    division = TrainValidationSplit(source_of(["a"]), split, 0.0001)
    for read in (division.parts, lambda: division.only("train"), lambda: division.only("validation")):
        with pytest.raises(
            UsageError, match=rf"Dividing memory by {split} .* = 0.0001 leaves the \w+ part empty; give"
        ):
            list(read())


def test_a_part_of_white_space_alone_is_empty():
    with pytest.raises(UsageError, match="leaves the validation part empty"):
        list(TrainValidationSplit(source_of(["a" * 90 + "\n" * 10]), "tail", 0.1).parts())


def test_an_empty_part_of_the_sources_own_division_is_refused():
    with pytest.raises(UsageError, match=r"The validation part of memory is empty; .*data\.split"):
        list(split_source(own(["t1"]), DataSection(), "text").parts())


@pytest.mark.parametrize(
    ("section", "sentence"),
    [
        (
            DataSection(split="hash", validation="v.txt"),
            "data.split is hash, but data.validation names v.txt",
        ),
        (
            DataSection(split="tail", validation="v.txt"),
            "data.split is tail, but data.validation names v.txt",
        ),
        (DataSection(split="file"), "data.split is file, but data.validation names no source"),
        (DataSection(validation="memory"), "memory is both data.source and data.validation"),
        (DataSection(validation="missing.txt"), "There is no file 'missing.txt'"),
    ],
)
def test_contradictions_are_refused(section, sentence):
    with pytest.raises(UsageError) as caught:
        split_source(source_of(["a", "b"]), section, "text")
    assert sentence in str(caught.value) and caught.value.remedy and caught.value.exit_code == 2


def test_the_most_documents_are_counted_before_dividing(tmp_path):
    path = write(tmp_path / "a.jsonl", "".join(f'{{"text": "{number}"}}\n' for number in range(1000)))
    division = open_split(DataSection(source=str(path), max_documents=200), "text")
    assert [document for _, document in division.parts()] == [str(number) for number in range(200)]


@given(TEXTS)
def test_an_automatic_division_needs_no_choice(documents):
    assume(sum(len(text.strip()) for text in documents) > 20)
    assert split_source(source_of(documents), DataSection(), "text").split == "tail"
