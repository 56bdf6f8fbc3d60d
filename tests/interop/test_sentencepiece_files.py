"""SentencePiece's own files: the ids of the converted tokenizer are those of the library that wrote them."""

import io
import json
import random
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.interop.tokenizer_files import read_tokenizer
from tfcli.tokenization.tokenizer import load_tokenizer

sentencepiece = pytest.importorskip("sentencepiece", reason="the dev extra brings sentencepiece")

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "two", "dogs", "née", "Émile", "über", "große", "Straße"]
WORDS += ["½", "dozen", "№", "7", "naïve", "ﬁne", "coöperate", "ab", "<s>"]
T5 = {"model_type": "t5", "is_encoder_decoder": True, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
LLAMA = {"model_type": "llama", "bos_token_id": 1, "eos_token_id": 2}
PADDED = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
LETTERS = [
    "a",
    "é",
    "e\u0301",
    "  ",
    " ",
    "\t",
    "\n",
    "\r\n",
    "▁",
    "ﬁ",
    "½",
    "你",
    "ab",
    "the",
    "<s>",
    "</s>",
    "<0x41>",
]
LETTERS += [
    "<0x41>",
    "\x00",
    "\x01",
    "e\u0302\u0301",
    "😀",
    "\u200b",
    "\u00ad",
    "½\u0323",
    "가",
    "각",
    "🏽",
    "<unk>",
    "Ⅷ",
]

# Symbols that begin with one another, that are runs of blanks, and that lie inside of words.
USER_DEFINED = ["<sep>", "<sep", "[INST]", "▁▁", "▁▁▁", "\n", "\n\n", "ab", "a", "catsat", "😀"]


def trained(file: Path, **settings: Any) -> Any:
    """A model of our words in a file, as SentencePiece reads it."""
    draw, model = random.Random(0), io.BytesIO()
    lines = (" ".join(draw.choices(WORDS, k=8)) for _ in range(300))
    options = {"vocab_size": 120, "hard_vocab_limit": False, "num_threads": 1, "minloglevel": 2} | settings
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=lines, model_writer=model, **options)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_file=str(file))


def texts(count: int) -> list[str]:
    """Words, what maps treat in ways of their own, and characters from all of Unicode, composed or taken apart."""
    draw = random.Random(1)
    found = []
    for number in range(count):
        anywhere = (chr(draw.choice([draw.randrange(0xD800), draw.randrange(0xE000, 0x110000)])) for _ in range(6))
        parts = [draw.choices(WORDS, k=5), draw.choices(LETTERS, k=7), list(anywhere)][number % 3]
        joined = draw.choice(["", " "]).join(parts)
        found.append(unicodedata.normalize(draw.choice(["NFC", "NFD"]), joined))
    return found


MODELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "unigram": (T5, PADDED),
    "unigram with bytes": (T5, PADDED | {"byte_fallback": True, "vocab_size": 380, "character_coverage": 0.98}),
    "unigram in lower case": (T5, PADDED | {"normalization_rule_name": "nmt_nfkc_cf", "add_dummy_prefix": False}),
    "pairs": (LLAMA, {"model_type": "bpe", "vocab_size": 130}),
    "pairs of text as it is": (
        LLAMA,
        {
            "model_type": "bpe",
            "vocab_size": 400,
            "byte_fallback": True,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
        },
    ),
    "pairs with symbols of the user": (
        LLAMA,
        {
            "model_type": "bpe",
            "vocab_size": 420,
            "byte_fallback": True,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
            "user_defined_symbols": USER_DEFINED,
        },
    ),
    "symbols of the user, no blank before a text": (
        {**LLAMA, "model_type": "gemma"},
        {
            "model_type": "bpe",
            "vocab_size": 420,
            "byte_fallback": True,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
            "add_dummy_prefix": False,
            "user_defined_symbols": USER_DEFINED,
        },
    ),
}


@pytest.mark.parametrize(("values", "settings"), MODELS.values(), ids=MODELS)
def test_the_ids_are_sentencepieces_own(values: dict[str, Any], settings: dict[str, Any], tmp_path: Path) -> None:
    """Of 3,000 texts, and of 1,000 that are put together from pieces; and what is read back is
    what it reads back."""
    theirs = trained(tmp_path / "spiece.model", **settings)
    tokenizer = read_tokenizer(tmp_path, values)
    tokenizer.save(tmp_path / "tokenizer.json")
    assert load_tokenizer(tmp_path / "tokenizer.json").fingerprint == tokenizer.fingerprint
    pieces = [theirs.id_to_piece(token) for token in range(theirs.get_piece_size())]
    draw = random.Random(2)
    composed = ["".join(draw.choices(pieces, k=draw.randint(1, 6))) for _ in range(1000)]
    for text in [*texts(3000), *composed]:
        if unicodedata.normalize("NFC", text) != text and unicodedata.normalize("NFD", text) != text:
            continue  # combining marks in another order, for which docs/checkpoints.md promises nothing
        ids = theirs.encode(text)
        assert list(tokenizer.encode(text)) == ids, (text, theirs.encode(text, out_type=str))
        if theirs.unk_id() not in ids:
            assert tokenizer.decode(ids) == theirs.decode(ids), text


def test_a_space_before_a_text_is_removed_as_sentencepiece_removes_it(tmp_path: Path) -> None:
    """With remove_extra_whitespaces all of them, whether or not a text begins with a dummy prefix."""
    for has_prefix in (False, True):
        file = tmp_path / str(has_prefix) / "spiece.model"
        theirs = trained(file, **PADDED, add_dummy_prefix=has_prefix)
        tokenizer = read_tokenizer(file.parent, T5)
        blank, cat = theirs.piece_to_id("▁"), theirs.piece_to_id("▁cat")
        for ids in ([blank, cat], [blank, blank, cat, blank, cat], [cat, cat]):
            assert tokenizer.decode(ids) == theirs.decode(ids), ids


def test_a_symbol_with_the_spelling_of_a_byte_is_no_byte(tmp_path: Path) -> None:
    theirs = trained(tmp_path / "tokenizer.model", model_type="bpe", user_defined_symbols=["<0x41>"])
    tokenizer = read_tokenizer(tmp_path, LLAMA)
    ids = theirs.encode("the <0x41> cat")
    assert list(tokenizer.encode("the <0x41> cat")) == ids
    assert tokenizer.decode(ids) == theirs.decode(ids) == "the <0x41> cat"


def changed(file: Path, spelling: str, **changes: Any) -> None:
    """Change one piece of a model."""
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto.FromString(file.read_bytes())
    for candidate in model.pieces:
        if candidate.piece == spelling:
            for name, value in changes.items():
                setattr(candidate, name, value)
    file.write_bytes(model.SerializeToString())


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_pieces_that_are_switched_off_do_not_convert(kind: str, tmp_path: Path) -> None:
    """SentencePiece takes such a piece apart, or goes around it."""
    trained(tmp_path / "spiece.model", **PADDED, model_type=kind)
    changed(tmp_path / "spiece.model", "▁cat", type=5)
    sentence = refused(UsageError, tmp_path, T5)
    assert "has pieces that are not used ('▁cat' is the first)" in sentence and "--tokenizer FILE" in sentence


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_control_token_of_one_character_does_not_convert(kind: str, tmp_path: Path) -> None:
    """Text would become that token."""
    trained(tmp_path / "spiece.model", **PADDED, model_type=kind, control_symbols=["c"])
    assert "its control token 'c' is one character" in refused(UsageError, tmp_path, T5)


def test_a_piece_with_a_control_token_inside_does_not_convert(tmp_path: Path) -> None:
    """A unigram model could not reach the piece: control tokens are cut in every text."""
    trained(tmp_path / "spiece.model", **PADDED, control_symbols=["at"])
    changed(tmp_path / "spiece.model", "▁the", piece="▁cats")
    sentence = refused(UsageError, tmp_path, T5)
    assert "contains the control token 'at'" in sentence and "--tokenizer FILE" in sentence


def test_what_t5_has_behind_its_pieces_and_around_a_text(tmp_path: Path) -> None:
    """100 sentinels, the first one last, and an end behind a text."""
    theirs = trained(tmp_path / "spiece.model", **PADDED)
    tokenizer = read_tokenizer(tmp_path, T5)
    size = theirs.get_piece_size()
    assert tokenizer.vocab_size == size + 100
    assert tokenizer.labels([size, size + 99]) == ["<extra_id_99>", "<extra_id_0>"]
    framed = json.loads(tokenizer.to_json())["post_processor"]
    assert [next(iter(part.values()))["id"] for part in framed["single"]] == ["A", "</s>"]
    assert (tokenizer.roles.pad, tokenizer.roles.eos, tokenizer.roles.unk) == (0, 1, 2)


def refused(kind: type[TfcliError], folder: Path, values: dict[str, Any]) -> str:
    with pytest.raises(kind) as caught:
        read_tokenizer(folder, values)
    assert type(caught.value) is kind and "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"model_type": "word"}, "model_type"),
        ({"user_defined_symbols": ["<sep>"]}, "a unigram model with user_defined_symbols"),
        ({"treat_whitespace_as_suffix": True}, "its map of characters"),
        ({"normalization_rule_name": "nfkc"}, "its map of characters"),
    ],
)
def test_what_does_not_convert_is_named(settings: dict[str, Any], named: str, tmp_path: Path) -> None:
    trained(tmp_path / "spiece.model", **PADDED, **settings)
    sentence = refused(UsageError, tmp_path, T5)
    assert named in sentence and "--tokenizer FILE" in sentence


def test_other_families_number_pieces_otherwise(tmp_path: Path) -> None:
    trained(tmp_path / "sentencepiece.bpe.model")
    assert "how camembert numbers its pieces" in refused(UsageError, tmp_path, LLAMA | {"model_type": "camembert"})
    trained(tmp_path / "source.spm")
    sentence = refused(UsageError, tmp_path, T5)
    assert "how t5 numbers its pieces in 2 files" in sentence and "--tokenizer FILE" in sentence


def test_damaged_files_and_a_library_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for content in (b"x", b"", b"\n\x0e"):
        (tmp_path / "spiece.model").write_bytes(content)
        assert "is no SentencePiece model" in refused(BrokenInputError, tmp_path, T5)
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    monkeypatch.delitem(sys.modules, "sentencepiece.sentencepiece_model_pb2", raising=False)
    assert "pip install 'tfcli[sentencepiece]'" in refused(UsageError, tmp_path, T5)
