"""Streams of every kind of tokenizer, those of other libraries' checkpoints included."""

from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

from tests.support.checkpoints import _FAMILIES
from tfcli.records.roles import TokenRoles
from tfcli.tokenization.tokenizer import Tokenizer

from .conftest import ALGORITHMS

FOREIGN = ("gpt2", "llama", "bert", "marian", "t5", "bart")
QUICK = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@cache
def foreign(family: str) -> Tokenizer:
    """As a checkpoint brings it; which of its tokens end texts does not matter here."""
    backend, named = _FAMILIES[family][1]()
    ids = {role: backend.token_to_id(token) for role, token in named.items()}
    end = ids.get("eos", ids.get("sep"))
    roles = TokenRoles(pad=ids.get("pad", end), bos=end, eos=end, mask=None, unk=ids.get("unk"))
    return Tokenizer(Backend.from_str(backend.to_str()), family, roles)


@QUICK
@given(data=st.data())
@pytest.mark.parametrize("kind", [*ALGORITHMS, *FOREIGN])
def test_pieces_behind_a_prompt_are_the_rest_of_the_decoded_text(
    trained: dict[str, Tokenizer], kind: str, data: st.DataObject
):
    tokenizer = trained[kind] if kind in trained else foreign(kind)
    ids = st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=20)
    before = tokenizer.encode(data.draw(st.sampled_from(["", "the cat", "(", "the 日", "日", " ", "é "])))
    new = data.draw(ids)
    stream = tokenizer.stream(before)
    pieces = [*map(stream.push, new), stream.finish()]
    assert "".join(pieces) == tokenizer.decode(before + new)[len(tokenizer.decode(before)) :]


@pytest.mark.parametrize("kind", ["bpe", "llama"])
@pytest.mark.parametrize("text", ["日本語", "naïve 🙂🙂 é", "👩\u200d👩\u200d👧"])
def test_no_piece_is_half_a_character(trained: dict[str, Tokenizer], kind: str, text: str):
    tokenizer = trained[kind] if kind in trained else foreign(kind)
    ids = tokenizer.encode(text)
    assert len(ids) > len(text)
    stream = tokenizer.stream()
    pieces = [*map(stream.push, ids), stream.finish()]
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)


def test_a_prompt_that_ends_with_an_unknown_character_is_not_repeated(trained: dict[str, Tokenizer]):
    tokenizer = trained["char"]
    stream = tokenizer.stream(tokenizer.encode("the 日"))
    assert [stream.push(token) for token in tokenizer.encode("cat")] == ["c", "a", "t"]


def test_bytes_that_another_byte_makes_invalid_are_not_shown_before():
    """The library decodes C3 A9 as é, and C3 A9 FF as three times U+FFFD."""
    tokenizer = foreign("llama")
    first = tokenizer.encode("\x00")[-1]
    assert tokenizer.labels([first]) == ["\x00"]
    stream = tokenizer.stream()
    pieces = [stream.push(first + byte) for byte in (0xC3, 0xA9, 0xFF)]
    assert (pieces, stream.finish()) == (["", "", ""], "\ufffd" * 3)


UNKNOWN = [
    ("bert", "the ☃ cat", "the � cat"),
    ("bert", "the cat ☃ ☃", "the cat � �"),
    ("marian", "the ☃ cat", "the � cat"),
    ("marian", "the cat☃", "the cat�"),
    ("t5", "☃ the cat ☃.", "� the cat �."),
]


@pytest.mark.parametrize(("family", "text", "decoded"), UNKNOWN)
def test_what_an_imported_tokenizer_does_not_know_is_shown(family: str, text: str, decoded: str) -> None:
    """Its file declares the unknown token as special, and the library leaves special tokens out."""
    tokenizer = foreign(family)
    ids = tokenizer.encode(text)
    assert tokenizer.roles.unk in ids
    assert tokenizer.decode(ids) == decoded
    stream = tokenizer.stream()
    pieces = [*map(stream.push, ids), stream.finish()]
    assert "".join(pieces) == decoded


def test_the_unknown_token_of_byte_level_families() -> None:
    """RoBERTa and BART have one that no text becomes; GPT-2's is the token that ends its texts, and is no text."""
    bart = foreign("bart")
    letter = bart.encode("x")
    assert bart.decode([*letter, bart.roles.unk, *letter]) == "x\ufffdx"
    gpt2 = foreign("gpt2")
    assert gpt2.roles.unk == gpt2.roles.eos
    assert gpt2.decode([*gpt2.encode("x"), gpt2.roles.eos]) == "x"


def test_without_a_decoder_tokens_are_joined_by_spaces() -> None:
    """As the library joins them: a file of words that has no decoder."""
    names = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "the": 4, "cat": 5}
    backend = Backend(models.WordLevel(names, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.add_special_tokens(["<pad>", "<s>", "</s>", "<unk>"])
    tokenizer = Tokenizer(backend)
    assert tokenizer.decode([1, 4, 5, 4, 2]) == "the cat the"
    assert tokenizer.decode([1, 4, 3, 5, 2]) == "the \ufffd cat"
