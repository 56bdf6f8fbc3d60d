"""Vocabulary extension: old ids stay, new pieces rank behind them, and what cannot be extended is refused."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers

from tests.cli.commands import tfcli
from tfcli.errors import UsageError
from tfcli.recipe.data import TokenizerSection
from tfcli.tokenization.extend import extend_tokenizer, replaced_pieces
from tfcli.tokenization.tokenizer import Tokenizer

from .conftest import train

LAW = "The plaintiff's estoppel was overruled; the lessee's estoppel, too: überführt.\n" * 50


def extended(old: Tokenizer, text: str = LAW, more: int = 40, *special: str) -> Tokenizer:
    size = old.vocab_size + more
    section = TokenizerSection(algorithm=old.algorithm, vocab_size=size, special_tokens=special)  # type: ignore[arg-type]
    return extend_tokenizer(old, lambda: iter([text]), section)[0]


def vocabulary(tokenizer: Tokenizer) -> dict[str, int]:
    return Backend.from_str(tokenizer.to_json()).get_vocab(with_added_tokens=True)


@pytest.mark.parametrize("algorithm", ["bpe", "wordpiece", "word", "char"])
def test_old_ids_stay_and_new_ones_follow(algorithm: str) -> None:
    old = train(algorithm, vocab_size=300)
    new = extended(old, LAW, 40, "<|user|>")
    before, after = vocabulary(old), vocabulary(new)
    assert after.items() >= before.items() and new.extends(old) and not old.extends(new)
    assert sorted(after.values()) == list(range(new.vocab_size))
    assert len(before) + 1 < len(after) <= len(before) + 40
    assert new.token_id("<|user|>") == new.vocab_size - 1 in new.special_ids
    assert new.roles == old.roles
    assert len(new.encode(LAW)) < len(old.encode(LAW)) or new.count_unknown(new.encode(LAW)) == 0
    assert new.decode(new.encode("the estoppel")) == "the estoppel"
    assert extended(old, LAW, 40, "<|user|>").to_json() == new.to_json(), "the same every time"


def test_continued_merges_by_hand() -> None:
    """Of "ab ab ab cab", where "a" + "b" is there, the next are of the old token "ab": first the space before it
    (3 times of 4), then c (once, too rare)."""
    old = train("bpe", "ab ab", vocab_size=261)  # 256 bytes, 4 special tokens, and one merge
    assert json.loads(old.to_json())["model"]["merges"] == [["a", "b"]]
    new = extended(old, "ab ab ab cab", 2)
    assert json.loads(new.to_json())["model"]["merges"] == [["a", "b"], ["Ġ", "ab"]]
    assert new.labels(new.encode("ab ab")) == ["ab", " ab"]
    assert replaced_pieces(old, new) == {261: [*old.encode(" ab")]}


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), st.integers(0, 10_000))
def test_extended_bytes_spell_any_text(text: str, seed: int) -> None:
    draw = random.Random(seed % 7)
    if seed % 7 not in MADE:
        words = ["".join(draw.choices("abcé", k=draw.randint(1, 6))) for _ in range(300)]
        MADE[seed % 7] = extended(train("bpe", "abc ab é " * 9, vocab_size=270), " ".join(words * 3), 60)
    tokenizer = MADE[seed % 7]
    assert tokenizer.decode(tokenizer.encode(text)) == text


MADE: dict[int, Tokenizer] = {}


def test_a_vocabulary_without_a_pre_tokenizer_learns_no_piece_over_two_words() -> None:
    """As Llama 2 has it: ▁ for the space, single bytes for what has no piece, and nothing cuts text into words."""
    names = ["<s>", "</s>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "ba"]
    ids = {name: number for number, name in enumerate(names)}
    backend = Backend(models.BPE(ids, [("b", "a")], unk_token="<unk>", byte_fallback=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    backend.add_special_tokens(["<s>", "</s>", "<unk>"])
    new = extended(Tokenizer(backend), "ab ab ä ba ab ä ab " * 20, 10)
    learned = [token for token, token_id in vocabulary(new).items() if token_id >= len(names)]
    assert "▁ab" in learned
    assert all("▁" not in token[1:] and "<" not in token for token in learned)
    assert new.decode(new.encode("ab äb")).strip() == "ab äb"


def test_a_wordpiece_is_cut_into_the_pieces_it_replaces() -> None:
    """By the longest match: estoppel has the pieces that its beginning has, a continuation those within a word."""
    old = train("wordpiece")
    new = extended(old)
    for token_id, pieces in replaced_pieces(old, new).items():
        [label] = new.labels([token_id])
        if old.roles.unk in pieces:
            assert pieces == [old.roles.unk]
        elif not label.startswith("##"):
            assert pieces == old.encode(label)
        else:
            assert all(piece.startswith("##") for piece in old.labels(pieces))
            assert "".join(piece[2:] for piece in old.labels(pieces)) == label[2:]


@pytest.mark.parametrize(
    ("algorithm", "text", "more", "words"),
    [
        ("unigram", LAW, 40, "one distribution"),
        ("bpe", LAW, 0, "has no room beside the"),
        ("bpe", " ", 40, "no text"),
        ("word", "the cat on the cat on", 40, "lacks"),
    ],
)
def test_what_cannot_be_extended_is_refused(algorithm: str, text: str, more: int, words: str) -> None:
    old = train(algorithm)
    with pytest.raises(UsageError, match=words) as caught:
        extended(old, text, more)
    assert caught.value.exit_code == 2


def test_the_command_line_extends(tmp_path: Path) -> None:
    (tmp_path / "law.txt").write_text(LAW, encoding="utf-8")
    train("bpe").save(tmp_path / "old.json")
    command = ["tokenize", "train", str(tmp_path / "law.txt"), "--from", str(tmp_path / "old.json")]
    done = tfcli(*command, "--vocab-size", "420", "--out", str(tmp_path / "new.json"), "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["vocab_size"] <= 420
    wrongs = {"--algorithm=char": "is a bpe tokenizer", "--lowercase": "keeps its pipeline", "--quiet": "is not said"}
    for wrong, words in wrongs.items():
        refused = tfcli(*command, wrong, "--out", str(tmp_path / "other.json"))
        assert refused.exit_code == 2 and words in refused.stderr
    assert not (tmp_path / "other.json").exists()
