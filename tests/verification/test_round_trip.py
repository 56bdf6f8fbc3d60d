"""What checks of tokenizers say of sound ones, and of those with a planted defect each."""

import unicodedata
from dataclasses import replace
from typing import Any

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, trainers

from tests.tokenization.conftest import ALGORITHMS, train
from tests.tokenization.test_stream import FOREIGN, foreign
from tests.verification.subjects import subject
from tfcli.tokenization.labels import TokenStream
from tfcli.tokenization.tokenizer import Tokenizer
from tfcli.verification.check import Proof, VerifiedRun
from tfcli.verification.tokenizer import batches, round_trip, special_tokens_apart, stream, torture_texts
from tfcli.verification.verify import verification

PROOFS = (round_trip, special_tokens_apart, batches, stream)


def with_tokenizer(algorithm: str, **settings: Any) -> VerifiedRun:
    """A run with a tokenizer of its own, which a test may spoil."""
    tokenizer, made = train(algorithm, **settings), subject()
    assert made.run.config.model.vocab_size is not None
    model = replace(made.run.config.model, vocab_size=tokenizer.vocab_size)
    config = replace(made.run.config, model=model, roles=tokenizer.roles)
    return replace(made, run=replace(made.run, tokenizer=tokenizer, config=config))


def found(proof: Proof, made: VerifiedRun) -> float:
    """How many texts a check fails with."""
    check = proof.check(made)
    assert check.status == "failed" and check.measured and "the first is '" in check.reason, check
    return check.measured


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sound_tokenizers_pass(algorithm: str, lowercase: bool):
    made = with_tokenizer(algorithm, lowercase=lowercase)
    assert made.run.tokenizer.is_lossless == (algorithm == "bpe" and not lowercase)
    for proof in PROOFS:
        check = proof.check(made)
        assert check.status == "passed", check


@pytest.mark.parametrize("family", FOREIGN)
def test_imported_tokenizers_with_an_unknown_token_pass(family: str) -> None:
    """The torture texts have characters that BERT, T5 and Marian do not know."""
    tokenizer = foreign(family)
    made = subject()
    model = replace(made.run.config.model, vocab_size=tokenizer.vocab_size)
    config = replace(made.run.config, model=model, roles=tokenizer.roles)
    imported = replace(made, run=replace(made.run, tokenizer=tokenizer, config=config))
    for proof in (round_trip, stream):
        assert proof.check(imported).status == "passed"


def test_the_texts_are_of_every_plane_and_can_be_encoded():
    texts = torture_texts()
    assert {ord(character) >> 16 for text in texts for character in text} == set(range(17))
    assert all(text.encode() is not None for text in texts)
    assert max(map(len, texts)) > 1000 and "" in texts
    categories = {unicodedata.category(character) for text in texts for character in text}
    assert {"Mn", "Cf", "Cc", "Co", "Cn", "Zs", "Zl", "Zp", "Lo", "Sk", "So"} <= categories and "Cs" not in categories


@pytest.mark.parametrize("form", ["NFC", "NFKC"])
def test_a_tokenizer_that_rewrites_text_is_found(form: Any, monkeypatch: pytest.MonkeyPatch):
    true = Tokenizer.encode
    monkeypatch.setattr(Tokenizer, "encode", lambda self, text: true(self, unicodedata.normalize(form, text)))
    found(round_trip, with_tokenizer("bpe"))


def test_a_tokenizer_that_drops_a_byte_is_found(monkeypatch: pytest.MonkeyPatch):
    """The third byte of every snowman, and of what else has one like it."""
    made, true = with_tokenizer("bpe"), Tokenizer.encode
    dropped = true(made.run.tokenizer, "\u2603")[-1]
    monkeypatch.setattr(Tokenizer, "encode", lambda self, text: [i for i in true(self, text) if i != dropped])
    found(round_trip, made)


def test_white_space_that_is_stripped_is_found(monkeypatch: pytest.MonkeyPatch):
    true = Tokenizer.decode
    monkeypatch.setattr(Tokenizer, "decode", lambda self, ids: true(self, ids).strip())
    found(round_trip, with_tokenizer("bpe"))


def test_an_unstable_reading_is_found(monkeypatch: pytest.MonkeyPatch):
    """Each decoding puts one more space before the text: what is decoded has other ids."""
    true = Tokenizer.decode
    monkeypatch.setattr(Tokenizer, "decode", lambda self, ids: " " + true(self, ids))
    found(round_trip, with_tokenizer("unigram"))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_special_token_that_can_be_spelled_is_found(algorithm: str):
    made = with_tokenizer(algorithm)
    made.run.tokenizer._backend.encode_special_tokens = False
    found(special_tokens_apart, made)


def test_batches_that_are_padded_are_found():
    made = with_tokenizer("bpe")
    made.run.tokenizer._backend.enable_padding()
    found(batches, made)


@pytest.mark.parametrize("algorithm", ["bpe", "unigram", "word"])
def test_a_stream_that_reads_each_token_alone_is_found(algorithm: str, monkeypatch: pytest.MonkeyPatch):
    made = with_tokenizer(algorithm)

    def push(self: TokenStream, token_id: int) -> str:
        return made.run.tokenizer.decode([token_id])

    monkeypatch.setattr(TokenStream, "push", push)
    monkeypatch.setattr(TokenStream, "finish", lambda self: "")
    if algorithm == "unigram":  # its tokens carry their spaces
        assert stream.check(made).status == "passed"
    else:
        found(stream, made)


def test_what_the_vocabulary_lacks_is_noted_and_fails_nothing(monkeypatch: pytest.MonkeyPatch):
    """Letters of bytes that it never saw: the library alone loses them too. A loss of tfcli's own is found still."""
    backend = Backend(models.BPE())
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    backend.train_from_iterator(["the cat sat"], trainers.BpeTrainer(special_tokens=["</s>"], show_progress=False))
    tokenizer, made = Tokenizer(backend), subject()
    assert len(tokenizer.missing_bytes) == 256 - len(set("the cat sat"))
    lacking = replace(made, run=replace(made.run, tokenizer=tokenizer))
    check = round_trip.check(lacking)
    assert check.status == "noted" and "has no letter for 249 of the 256 bytes" in check.reason
    assert verification(lacking, [check]).passed
    true = Tokenizer.decode
    monkeypatch.setattr(Tokenizer, "decode", lambda self, ids: true(self, ids) + "x")
    assert round_trip.check(lacking).status == "failed"
