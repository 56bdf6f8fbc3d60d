"""Cleaning: what is removed, why, and that nothing else is; near-duplicates against their true similarity."""

import random
import sys
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfcli.corpora import Document, Kind, LongText, Pair, Source, cleaning
from tfcli.corpora.cleaning import Cleaning, KeyTable, NearIndex, document_key, normalized
from tfcli.corpora.open import python_docs
from tfcli.corpora.split import TrainValidationSplit, WeightedSplit, split_source, without_copies
from tfcli.errors import UsageError
from tfcli.recipe.data import DataSection


def source_of(documents: Sequence[Document], name: str = "a.txt", kind: Kind = "text") -> Source:
    return Source((name,), kind, lambda: iter(documents), lambda: name)


def cleaned(documents: Sequence[Document], **keys) -> tuple[list[Document], dict[str, int]]:
    one = Cleaning(DataSection(**keys))
    kept = list(one.cleaned(source_of(documents)).documents())
    return kept, one.removed


def test_without_a_key_the_source_is_the_same_object() -> None:
    source = source_of(["a"])
    division = split_source(source, DataSection(split="tail"), "text")
    assert division.source is source and division.removed == {}


def test_lengths_are_of_characters_and_the_bounds_are_kept() -> None:
    kept, removed = cleaned(["a", "éé", "abcd", "abcde"], min_characters=2, max_characters=4)
    assert kept == ["éé", "abcd"]
    assert removed == {"short": 1, "long": 1}


def test_pairs_are_left_out_by_ratio_same_sides_and_sides_without_letters() -> None:
    good = [Pair("um", "one"), Pair("猫", "cat"), Pair("12 anos", "12 years")]
    bad = [Pair("um", "a long one"), Pair("same ", "same"), Pair("...", "abc")]
    kept, removed = cleaned([*good, *bad], max_length_ratio=3, filter_pairs=True)
    assert kept == good
    assert removed == {"ratio": 1, "identical": 1, "no_letters": 1}


def test_normalization_comes_before_the_comparison() -> None:
    # é as one character, and as e with an accent: the same text in NFC. The ligature is its letters in NFKC alone.
    assert cleaned(["é", "e\u0301", "ﬁ", "fi"], normalize="nfc", deduplicate="exact") == (
        ["é", "ﬁ", "fi"],
        {"exact": 1},
    )
    assert cleaned(["ﬁ", "fi"], normalize="nfkc", deduplicate="exact") == (["fi"], {"exact": 1})
    assert cleaned([Pair("e\u0301", "ﬁ")], normalize="nfc")[0] == [Pair("é", "ﬁ")]


@given(
    st.text(alphabet="ab \né" + "e\u0301\u0323\u1100\u1161\u11a8\uac00\uff76\uff9e\u09c7\u09be", max_size=60),
    st.lists(st.integers(0, 60), max_size=5),
    st.sampled_from(["nfc", "nfkc"]),
)
def test_a_long_text_is_normalized_as_a_whole(text: str, cuts: list[int], form) -> None:
    """Wherever it is cut while it is read, between a letter and its accent or in a Hangul syllable."""
    places = [0, *sorted(cuts), len(text)]
    stretches = [text[begin:end] for begin, end in pairwise(places)]
    long = normalized(LongText(lambda: iter(stretches)), form)
    assert "".join(long) == unicodedata.normalize(form.upper(), text)


def test_the_first_copy_stays_whatever_source_it_is_in() -> None:
    both = Cleaning(DataSection(deduplicate="exact"))
    first, second = both.cleaned(source_of(["a", "b", "a"])), both.cleaned(source_of(["b", "c"], "b.txt"))
    assert list(second.documents()) == ["c"]
    assert list(first.documents()) == list(first.documents()) == ["a", "b"]
    assert both.removed == {"exact": 2}


def test_a_division_of_its_own_stays_and_counts_across_its_parts() -> None:
    own = [("train", "a"), ("train", "b"), ("validation", "a"), ("validation", "c")]
    source = Source(("own",), "text", lambda: (one for _, one in own), lambda: "own", lambda: iter(own))
    division = split_source(source, DataSection(deduplicate="exact"), "text")
    assert (division.split, list(division.parts())) == ("own", [own[0], own[1], own[3]])


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 20), max_size=3000))
def test_the_table_of_hashes_is_a_set(keys: list[int]) -> None:
    table, seen = KeyTable(), {}
    for number, key in enumerate(keys):
        assert table.add(key, number) == seen.get(key or 1)
        seen.setdefault(key or 1, number)


def test_the_table_of_hashes_grows() -> None:
    table = KeyTable()
    assert [table.add(key * 7919, key) for key in range(1, 9001)] == [None] * 9000
    assert [table.add(key * 7919) for key in range(1, 9001)] == list(range(1, 9001))


def test_the_key_of_a_pair_is_of_both_sides_in_order() -> None:
    assert len({document_key(one) for one in ("ab", Pair("a", "b"), Pair("b", "a"), Pair("ab", ""))}) == 4
    assert document_key(LongText(lambda: iter(["a", "é"]))) == document_key("aé")


def test_the_fingerprint_changes_with_every_key_that_is_used_and_with_none_that_is_not() -> None:
    keys = ({}, {"normalize": "nfc"}, {"min_characters": 1}, {"deduplicate": "exact"}, {"drop_duplicates": "train"})
    found = []
    for key in keys:
        section = DataSection(split="tail", **key)
        found.append(without_copies(split_source(source_of(["a", "b"]), section, "text"), section).fingerprint)
    assert len(set(found)) == len(keys)
    assert found[0] == TrainValidationSplit(source_of(["a", "b"]), "tail", 0.1).fingerprint


def split_by_file(train: Sequence[Document], validation: Sequence[Document], part) -> TrainValidationSplit:
    division = TrainValidationSplit(source_of(train), "file", 0.1, source_of(validation, "v.txt"))
    return without_copies(division, DataSection(drop_duplicates=part))


@given(st.lists(st.sampled_from("abcdef"), max_size=9), st.lists(st.sampled_from("abcdef"), max_size=9))
def test_copies_go_from_one_part_alone(train: list[str], validation: list[str]) -> None:
    for part, here, there in (("train", train, validation), ("validation", validation, train)):
        division = split_by_file(train, validation, part)
        kept = [text for its, text in division.divided() if its == part]
        assert kept == [text for text in here if text not in there]
        assert [text for its, text in division.divided() if its != part] == there
        assert sum(division.removed.values()) == len(here) - len(kept)


def test_copies_are_found_across_the_sources_of_a_mixture() -> None:
    one = TrainValidationSplit(source_of(["a", "b"]), "file", 0.1, source_of(["c"], "v"))
    two = TrainValidationSplit(source_of(["c", "d"], "b.txt"), "file", 0.1, source_of(["a", "e"], "w"))
    mixture = (WeightedSplit(one, 1.0), WeightedSplit(two, 1.0))
    division = TrainValidationSplit(one.source, "file", 0.1, mixture=mixture)
    dropped = without_copies(division, DataSection(drop_duplicates="train"))
    assert [text for part, text in dropped.parts() if part == "train"] == ["b", "d"]
    assert dropped.fingerprint != division.fingerprint


def test_a_division_by_content_is_not_read_for_copies() -> None:
    division = TrainValidationSplit(source_of(["a", "a"]), "hash", 0.1)
    assert without_copies(division, DataSection(drop_duplicates="train")) is division
    assert not division.may_overlap


def test_what_leaves_nothing_says_so() -> None:
    division = split_source(source_of(["a", "b"]), DataSection(min_characters=5), "text")
    with pytest.raises(UsageError, match=r"without the 2 documents left out \(short\)"):
        list(division.parts())


def test_keys_of_pairs_and_contradictions_are_refused() -> None:
    with pytest.raises(UsageError, match=r"data\.max_length_ratio is of pairs, and this is text"):
        split_source(source_of(["a"]), DataSection(max_length_ratio=2.0), "text")
    with pytest.raises(UsageError, match=r"min_characters = 9 is above data\.max_characters = 3"):
        DataSection(min_characters=9, max_characters=3)


def test_without_the_extra_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketch", None)
    with pytest.raises(UsageError, match="datasketch, which is not installed") as caught:
        Cleaning(DataSection(deduplicate="near"))
    assert "pip install 'tfcli[dedup]'" in caught.value.remedy


def shingles(text: str) -> set[str]:
    plain = cleaning._SPACES.sub(" ", text.casefold())
    return {plain[place : place + 8] for place in range(len(plain) - 7)}


def test_planted_near_duplicates_are_found() -> None:
    """Paragraphs of which 1 to 10 words in a hundred are changed, dropped or added; what is near says their true
    Jaccard similarity. docs/data.md states these figures."""
    pytest.importorskip("datasketch")
    rng = random.Random(0)
    paragraphs = [" ".join(one.split()) for topic in python_docs() for one in topic.split("\n\n")]
    texts = [one for one in dict.fromkeys(paragraphs) if len(one) >= 200][:400]
    words = sorted({word for text in texts for word in text.split()})
    hits = near = found = 0
    for rate in (0.01, 0.02, 0.03, 0.05, 0.1):
        index = NearIndex()
        for text in texts:
            index.add(text)
        for text in texts:
            edited = text.split()
            for _ in range(max(1, round(rate * len(edited)))):
                place = rng.randrange(len(edited))
                edited[place : place + rng.randrange(2)] = rng.sample(words, rng.randrange(2))
                edited = edited or ["x"]
            copy = " ".join(edited)
            true = len(shingles(text) & shingles(copy)) / len(shingles(text) | shingles(copy)) >= 0.8
            answer = index.add(copy)
            hits, near, found = hits + (true and answer), near + true, found + answer
    assert near > 800
    assert hits / found > 0.95 and hits / near > 0.95


def test_texts_without_spaces_are_compared_as_well() -> None:
    pytest.importorskip("datasketch")
    rng = random.Random(1)
    text = "".join(chr(rng.randrange(0x4E00, 0x9FFF)) for _ in range(400))
    index = NearIndex()
    assert [index.add(one) for one in (text, text[:200] + "新" + text[200:], text[::-1])] == [False, True, False]
