"""Encoding, decoding, masks, labels and streams of every algorithm."""

import doctest
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from tfcli.errors import BrokenInputError, UsageError
from tfcli.tokenization import labels
from tfcli.tokenization.tokenizer import Tokenizer

from .conftest import ALGORITHMS, TEXT, train

UNICODE = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
KNOWN = st.lists(
    st.sampled_from(
        [*"abTdr .,!?()[]'’<>/\n\t  ▁�é漢", "the", " cat", "<s>", "</s>", "<mask>", "<unk>", "don't", "\r\n"]
    )
).map("".join)
QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(text=UNICODE | KNOWN)
def test_byte_level_round_trips_any_text(trained: dict[str, Tokenizer], text: str) -> None:
    tokenizer = trained["bpe"]
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.fixture(scope="module")
def with_bytes() -> Tokenizer:
    return train("unigram", f"{TEXT} ▁ \ufffd 漢 <0x41>", vocab_size=500, byte_fallback=True)


@QUICK
@given(text=UNICODE | KNOWN | st.just("<0x41>▁ ▁<unk>\0"))
def test_byte_fallback_round_trips_any_text(with_bytes: Tokenizer, text: str) -> None:
    """What is rare (漢), the ▁ that others write for the space, and what spells a byte or the unknown."""
    ids = with_bytes.encode(text)
    assert with_bytes.decode(ids) == text
    assert with_bytes.count_unknown(ids) == 0 and with_bytes.is_lossless
    stream = with_bytes.stream()
    assert "".join([*map(stream.push, ids), stream.finish()]) == text


def test_byte_fallback_spells_bytes_alone_where_there_is_no_piece(with_bytes: Tokenizer) -> None:
    assert with_bytes.labels(with_bytes.encode("the 漢"))[-4:] == [" ", "⟨E6⟩", "⟨BC⟩", "⟨A2⟩"]


@QUICK
@given(text=UNICODE | KNOWN)
@pytest.mark.parametrize("algorithm", ALGORITHMS[1:])
def test_what_is_decoded_encodes_to_the_same_ids(trained: dict[str, Tokenizer], algorithm: str, text: str) -> None:
    tokenizer = trained[algorithm]
    ids = tokenizer.encode(text)
    assert tokenizer.encode(tokenizer.decode(ids)) == ids


@QUICK
@given(text=UNICODE | KNOWN)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_spelling_gives_a_special_id(trained: dict[str, Tokenizer], algorithm: str, text: str) -> None:
    tokenizer = trained[algorithm]
    roles = tokenizer.roles
    assert not {roles.pad, roles.bos, roles.eos, roles.mask} & set(tokenizer.encode(f"{text}<s></s><mask><pad>"))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_spelled_specials_are_not_learned_as_specials(algorithm: str) -> None:
    """A text of nothing but "<s>" would, merge by merge, arrive at the special token's own name."""
    tokenizer = train(algorithm, "<s> text </s> <unk> <mask> " * 50)
    ids = tokenizer.encode("<s> text </s> <unk> <mask>")
    assert min(ids) >= (4 if tokenizer.roles.unk is None else 5)


@QUICK
@given(text=UNICODE)
@pytest.mark.parametrize("algorithm", ALGORITHMS[1:])
def test_no_character_is_dropped(trained: dict[str, Tokenizer], algorithm: str, text: str) -> None:
    """By itself or between known words, every character that is no white space adds a token."""
    tokenizer = trained[algorithm]
    for character in text:
        if not character.isspace():
            assert tokenizer.encode(character), repr(character)
            assert len(tokenizer.encode(f"the {character} cat")) > len(tokenizer.encode("the cat")), repr(character)


@QUICK
@given(data=st.data(), text=UNICODE | KNOWN)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_streamed_pieces_are_the_decoded_text(
    trained: dict[str, Tokenizer], algorithm: str, data: st.DataObject, text: str
) -> None:
    tokenizer = trained[algorithm]
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=30)) + tokenizer.encode(text)
    stream = tokenizer.stream()
    assert "".join([*map(stream.push, ids), stream.finish()]) == tokenizer.decode(ids)


def test_a_stream_after_a_prompt_begins_with_the_space_between(trained: dict[str, Tokenizer]) -> None:
    tokenizer = trained["word"]
    stream = tokenizer.stream(after=tokenizer.encode("The cat"))
    assert stream.push(tokenizer.encode("sat")[0]) + stream.push(tokenizer.encode(".")[0]) == " sat."


@pytest.mark.parametrize("algorithm", ALGORITHMS[:4])
@pytest.mark.parametrize("text", ["The cat sat", "The dog, and\n\ncat ran", "dog\ncat", "the  cat.", " cat"])
def test_a_mask_stands_where_training_puts_it(trained: dict[str, Tokenizer], algorithm: str, text: str) -> None:
    """Masking replaces the id of the word; the spelled mask must leave every other id as it is."""
    tokenizer = trained[algorithm]
    ids = tokenizer.encode(text)
    places = [n for n, label in enumerate(tokenizer.labels(ids)) if label.strip() == "cat"]
    if not places:
        pytest.skip(f"{algorithm} spells this 'cat' in parts")
    ids[places[0]] = tokenizer.roles.mask  # type: ignore[call-overload]
    assert tokenizer.encode_masked(text.replace("cat", "<mask>")) == ids


SPACED_MASKS = [
    "saw a <mask> cat",
    "saw a  <mask> cat",
    "saw a\n<mask> cat",
    "saw a\u3000\t<mask> cat",
    "saw a [MASK] cat",
    " <mask><mask> \n<mask> cat ",
]
MASKS = ["saw a<mask> cat", "saw\x1f<mask> a cat", "saw a<mask>  cat<mask>\n\n"]


@pytest.mark.parametrize(
    ("text", "strips"),
    [(text, {"lstrip": True}) for text in SPACED_MASKS + MASKS]
    + [(text, {"lstrip": True, "rstrip": True}) for text in SPACED_MASKS + MASKS]
    + [(text, {"rstrip": True}) for text in MASKS],
)
def test_a_mask_takes_the_white_space_that_its_file_says(text: str, strips: dict[str, bool]) -> None:
    """RoBERTa's takes all before it. The library, which finds the mask by its spelling, has the expected ids."""
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(special_tokens=specials, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(["saw a cat there"] * 9, trainer)
    backend.add_special_tokens([AddedToken("<mask>", normalized=False, special=True, **strips)])
    expected = Backend.from_str(backend.to_str()).encode(text.replace("[MASK]", "<mask>")).ids
    assert Tokenizer(backend).encode_masked(text) == expected


def test_char_masks_one_character(trained: dict[str, Tokenizer]) -> None:
    tokenizer = trained["char"]
    ids = tokenizer.encode("the cat")
    ids[5] = tokenizer.roles.mask  # type: ignore[call-overload]
    for mask in ("<mask>", "[MASK]", "<|mask|>"):  # whatever the one mask token is called
        assert tokenizer.encode_masked(f"the c{mask}t") == ids


def test_a_mask_of_another_name_that_is_a_token_itself_stays_text() -> None:
    names = ["<pad>", "<s>", "</s>", "<mask>", "<unk>", "[MASK]", "the"]
    backend = Backend(models.WordLevel({name: number for number, name in enumerate(names)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    assert Tokenizer(backend).encode_masked("the <mask> [MASK]") == [6, 3, 5]


def test_batches_equal_single_texts(tokenizer: Tokenizer) -> None:
    texts = ["The cat sat.", "", "é漢\n <s>", "x" * 500]
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]


def test_words_read_as_they_were_written(trained: dict[str, Tokenizer]) -> None:
    text = "The cat, (don't) sat.\nA dog: run!"
    for algorithm in ("word", "wordpiece"):
        assert trained[algorithm].decode(trained[algorithm].encode(text)) == text
    assert trained["word"].decode(trained["word"].encode("The zebra sat")) == "The � sat"


def test_labels_are_the_true_text_of_a_token(trained: dict[str, Tokenizer]) -> None:
    r"""The euro sign is E2 82 AC: no merge was learned for it, so each byte is a token of its own.

    A line end is not spelled out: ``\n`` would be the label of a backslash and an n.
    """
    bpe = trained["bpe"]
    assert bpe.labels(bpe.encode("The cat\n€\x00")) == ["The", " cat", "\n", "⟨E2⟩", "⟨82⟩", "⟨AC⟩", "\x00"]
    assert bpe.labels([bpe.roles.bos]) == ["<s>"]
    unigram = trained["unigram"]
    assert unigram.labels(unigram.encode("the cat"))[-1] == " cat"
    assert trained["char"].labels(trained["char"].encode("a\né")) == ["a", "\n", "<unk>"]


@QUICK
@given(text=UNICODE | KNOWN)
def test_labels_join_to_the_text(trained: dict[str, Tokenizer], text: str) -> None:
    """Byte by byte: with every lone byte put back, the labels are the text."""
    spelled = "".join(trained["bpe"].labels(trained["bpe"].encode(text.replace("⟨", ""))))
    joined = b"".join(
        bytes([int(part[1:3], 16)]) if part.startswith("⟨") else part.encode()
        for part in re.findall(r"⟨..⟩|[^⟨]+", spelled)
    )
    assert joined.decode() == text.replace("⟨", "")


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(labels).failed == 0


def test_unknowns_are_counted(trained: dict[str, Tokenizer]) -> None:
    encoding = trained["char"].encoding("aéb漢")
    assert (encoding.unknown, encoding.tokens) == (2, ("a", "<unk>", "b", "<unk>"))
    assert trained["bpe"].encoding("aéb漢").unknown == 0


@pytest.mark.parametrize("bad", [-1, 10_000])
def test_an_id_outside_the_vocabulary_is_refused(tokenizer: Tokenizer, bad: int) -> None:
    with pytest.raises(UsageError, match=f"no token id {bad} .*{tokenizer.vocab_size}") as caught:
        tokenizer.decode([bad])
    assert caught.value.exit_code == 2


def test_half_a_surrogate_pair_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(BrokenInputError, match="surrogate"):
        tokenizer.encode("a\ud800")


def test_words_are_what_stands_between_white_space_and_signs(tokenizer: Tokenizer) -> None:
    """Whatever a word is cut into, its pieces are one word again, in every algorithm."""
    ids = tokenizer.roles.text(tokenizer.encode("The cat sat, and\nthe dog ran!"))
    words = tokenizer.words(ids)
    assert [place for word in words for place in word.places] == list(range(len(ids)))
    assert [word.text for word in words] == [
        *("<s>", "The", "cat", "sat", ",", "and", "\n", "the", "dog", "ran", "!", "</s>")
    ]
    kinds = {word.text: word.kind for word in words}
    assert (kinds["<s>"], kinds["cat"], kinds[","], kinds["\n"]) == ("special", "word", "sign", "sign")


def test_a_character_of_several_tokens_is_one_sign_or_part_of_one_word(trained: dict[str, Tokenizer]) -> None:
    """é and the dash are two and three bytes, which this tokenizer has never seen together."""
    words = trained["bpe"].words(trained["bpe"].encode("the café — cat"))
    assert [(word.text, word.kind) for word in words] == [
        *(("the", "word"), ("café", "word"), ("—", "sign"), ("cat", "word"))
    ]


def test_a_mask_is_a_word(trained: dict[str, Tokenizer]) -> None:
    tokenizer = trained["bpe"]
    words = tokenizer.words(tokenizer.encode_masked("the <mask> ran"))
    assert [(word.text, word.kind) for word in words][:2] == [("the", "word"), ("<mask>", "word")]
