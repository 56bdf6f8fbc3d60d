"""Training: the same every time, nothing lost, and its complaints."""

import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from tfcli import machine
from tfcli.corpora import pieces
from tfcli.errors import UsageError
from tfcli.recipe.data import TokenizerSection
from tfcli.tokenization import train as learn
from tfcli.tokenization.train import canonical_scores, train_tokenizer

from .conftest import ALGORITHMS, TEXT, train

SCRIPT = """
import hashlib, random
from tfcli.recipe.data import TokenizerSection
from tfcli.tokenization.train import train_tokenizer
draw = random.Random(7)
words = ["".join(draw.choices("abcdefgéß", k=draw.randint(1, 7))) for _ in range(900)]
text = "\\n".join(" ".join(draw.choices(words, k=9)) for _ in range(900)) + "\\nzyxwvu 漢字"
for algorithm in ("bpe", "wordpiece", "unigram", "word", "char"):
    section = TokenizerSection(algorithm=algorithm, vocab_size=420)
    tokenizer, _ = train_tokenizer(lambda: iter([text]), section)
    print(hashlib.sha256(tokenizer.to_json().encode()).hexdigest())
"""


def test_separate_processes_write_the_same_bytes() -> None:
    printed = set()
    for seed, parallel in [("0", "false"), ("1", "true"), ("2", "true")]:
        environment = os.environ | {"PYTHONHASHSEED": seed, "TOKENIZERS_PARALLELISM": parallel}
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        )
        printed.add(run.stdout)
    assert len(printed) == 1
    assert len(printed.pop().split()) == len(ALGORITHMS)


def test_canonical_scores_forget_the_order_of_reading() -> None:
    """Two readings of one text: other last digits, other steps above the lowest score, other order."""
    first = [("the", -1.00000001), ("b", -9.0), ("a", -8.9999), ("of", -1.0)]
    second = [("of", -1.0), ("the", -1.00000002), ("a", -9.0), ("b", -8.9999)]
    expected = [("of", -1.0), ("the", -1.0), ("a", -9.0), ("b", -9.0)]
    assert canonical_scores(first) == canonical_scores(second) == expected


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_special_tokens_come_first(algorithm: str) -> None:
    roles = train(algorithm).roles
    assert (roles.pad, roles.bos, roles.eos, roles.mask) == (0, 1, 2, 3)
    assert roles.unk == (None if algorithm == "bpe" else 4)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_special_tokens_of_ones_own_are_reached_where_they_are_asked_for_alone(algorithm: str) -> None:
    """Even where the text that was trained on is full of their spelling."""
    section = TokenizerSection(algorithm=algorithm, vocab_size=300, special_tokens=("<|user|>", "[TOOL]"))
    tokenizer, _ = train_tokenizer(lambda: iter(["the cat <|user|> sat [TOOL] on"] * 50), section)
    first = 4 if algorithm == "bpe" else 5
    assert tokenizer.labels([first, first + 1]) == ["<|user|>", "[TOOL]"]
    text = "<|user|>the cat[TOOL]"
    assert not {first, first + 1} & set(tokenizer.encode(text))
    expected = [first, *tokenizer.encode("the cat"), first + 1]
    assert tokenizer.encode_special(text) == expected
    assert tokenizer.decode(expected) == tokenizer.decode(tokenizer.encode("the cat"))


@pytest.mark.parametrize("token", ["user", "", "a b", "<>", "<|a|>\n", "<s>", "<unk>"])
def test_what_is_no_special_token_is_refused(token: str) -> None:
    with pytest.raises(UsageError, match=r"could hold as a word|is there already"):
        TokenizerSection(special_tokens=(token,))
    with pytest.raises(UsageError, match="is there already"):
        TokenizerSection(special_tokens=("<|a|>", "<|a|>"))


def test_the_report_counts_by_hand() -> None:
    """ "aab" and "é\\n": 5 characters, é takes two bytes; three slots beside five specials keep a, b and the
    line end of four equally rare characters (a twice; then by code point \\n, b, é): é is unknown."""
    section = TokenizerSection(algorithm="char", vocab_size=8)
    tokenizer, report = train_tokenizer(lambda: iter(["aab", "é\n"]), section)
    assert tokenizer.encode("\nab") == [5, 6, 7]
    assert (report.documents, report.characters, report.bytes, report.tokens, report.unknown) == (2, 5, 6, 5, 1)
    assert (report.algorithm, report.vocab_size, report.bytes_per_token) == ("char", 8, 1.2)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_documents_are_opened_as_often_as_promised(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is streamed from elsewhere is fetched at every opening; few documents, once."""
    opened: list[int] = []

    def texts() -> Iterator[str]:
        opened.append(0)
        for text in (TEXT, TEXT):
            opened[-1] += 1
            yield text

    section = TokenizerSection(algorithm=algorithm, vocab_size=400)  # type: ignore[arg-type]
    first = 1 if algorithm == "char" else 2  # the others see whether their words can be held
    once, _ = train_tokenizer(texts, section)
    assert opened == ([1, 2] if algorithm == "char" else [2])
    opened.clear()
    monkeypatch.setattr(learn, "REMEMBERED", 0)
    assert train_tokenizer(texts, section)[0].to_json() == once.to_json()
    assert opened == ([2, 2, 2, 2] if algorithm in ("wordpiece", "unigram") else [first, 2, 2])


def unspaced(size: int, seed: int = 1) -> str:
    """Sentences of words without spaces between them, as Chinese has it: no sentence comes twice."""
    draw = random.Random(seed)
    words = ["".join(draw.choices(CHARACTERS, k=draw.choice((1, 2, 2, 3)))) for _ in range(800)]
    sentences = ("".join(draw.choices(words, range(800, 0, -1), k=draw.randint(6, 20))) + "。" for _ in range(size))
    return "".join(sentences)


CHARACTERS = [chr(0x4E00 + number) for number in range(300)]


@pytest.mark.parametrize("algorithm", ["bpe", "wordpiece", "unigram"])
def test_text_without_spaces_is_learned_from_in_part(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of it, from everywhere: a tokenizer nearly as good as that of all, and every time the same."""
    texts, held_out = [unspaced(3000), "and some words of spaced text"], unspaced(300)
    section = TokenizerSection(algorithm=algorithm, vocab_size=1200)  # type: ignore[arg-type]
    whole, _ = train_tokenizer(lambda: iter(texts), section)
    monkeypatch.setitem(learn.STRETCHES, algorithm, len("".join(texts).encode()) // 10)
    learned: list[int] = []
    true = learn.LEARNERS[algorithm]  # type: ignore[index]

    def counting(backend: Any, text: learn.Pieces, section: TokenizerSection, more: learn.Characters) -> Any:
        learned.append(sum(len(piece.encode()) for piece in text()))
        return true(backend, text, section, more)

    monkeypatch.setitem(learn.LEARNERS, algorithm, counting)  # type: ignore[misc]
    (part, report), (again, _) = (train_tokenizer(lambda: iter(texts), section) for _ in range(2))
    assert part.to_json() == again.to_json()
    assert report.stretches_learned == pytest.approx(0.1, rel=0.2)
    assert learned[0] == pytest.approx(learn.STRETCHES[algorithm], rel=0.2)
    assert len(part.encode(held_out)) < 1.25 * len(whole.encode(held_out))


@pytest.mark.parametrize("algorithm", ["bpe", "wordpiece", "unigram", "word"])
def test_a_sample_of_stated_size_is_learned_from_with_every_character(algorithm: str) -> None:
    """Documents in blocks: the sample is within a document of its size, and holds of each block its part. ж stands in
    one document alone, and is in the alphabet whether that was drawn or not."""
    blocks = ["the cat sat on the bank and the dog ran " * 30] * 1500 + ["zebra quagga rhino hippo lion " * 40] * 1500
    blocks[7] = "a lone жжж"
    size = sum(len(one.encode()) for one in blocks)
    section = TokenizerSection(algorithm=algorithm, vocab_size=300, sample_bytes=1_000_000)  # type: ignore[arg-type]
    text = learn.TrainingText(lambda: iter(blocks), section)
    drawn = [*text.pieces()]
    assert text.bytes == size
    assert 1_000_000 - 1300 < sum(len(piece.encode()) for piece in drawn) == text.learned <= 1_000_000
    assert sum("the" in piece for piece in drawn) / len(drawn) == pytest.approx(0.5, abs=0.06)
    (first, report), (again, _) = (train_tokenizer(lambda: iter(blocks), section) for _ in range(2))
    assert first.to_json() == again.to_json()
    assert (report.learned_bytes, report.bytes) == (text.learned, size)
    if algorithm != "word":
        assert first.count_unknown(first.encode("ж zebra жжж")) == 0


def test_what_fits_into_the_sample_is_all_learned_from() -> None:
    section = TokenizerSection(vocab_size=300, sample_bytes=1_000_000)
    exactly = ["x" * 499_999 + " ", "y" * 499_999 + "\n"]
    assert learn.TrainingText(lambda: iter(exactly), section).learned is None
    longer = learn.TrainingText(lambda: iter([*exactly, "z"]), section)
    assert longer.learned is not None and 800_000 < longer.learned <= 1_000_000


def test_the_alphabet_is_whole_where_stretches_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for algorithm in ("wordpiece", "unigram"):
        monkeypatch.setitem(learn.STRETCHES, algorithm, 3000)
        tokenizer = train(algorithm, unspaced(2000), vocab_size=1200)
        assert all(tokenizer.count_unknown(tokenizer.encode(f"a{one}")) <= 1 for one in CHARACTERS), algorithm


@pytest.mark.parametrize("role", ["pad", "bos", "eos", "mask", "unk"])
def test_roles_are_chosen_by_name(role: str) -> None:
    """BERT's names for one and for all: those that were chosen serve, and a text never holds them."""
    chosen = {"pad": "[PAD]", "bos": "[CLS]", "eos": "[SEP]", "mask": "[MASK]", "unk": "[UNK]"}
    for algorithm in ALGORITHMS:
        for names in ({role: chosen[role]}, chosen):
            tokenizer = train(algorithm, **names)
            token = tokenizer.token_id(chosen[role])
            assert getattr(tokenizer.roles, role) == token
            if role != "unk":
                assert token is not None and token not in tokenizer.encode(f"the {chosen[role]} cat")
            assert tokenizer.count_unknown(tokenizer.encode("the 漢 cat")) == (algorithm != "bpe")


def test_a_role_without_a_token_of_its_own() -> None:
    """As GPT-2 has it: one token stands between two texts, and fills up batches; none masks."""
    roles = train("bpe", pad="", bos="", eos="<|endoftext|>", mask="").roles
    assert (roles.pad, roles.bos, roles.eos, roles.mask, roles.is_shared) == (0, 0, 0, None, True)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"eos": ""}, "is no name that a tokenizer.json is read by"),
        ({"pad": "<|begin|>"}, "is no name that a tokenizer.json is read by"),
        ({"bos": "[CLS]", "special_tokens": ("<s>",)}, "would be read as tokenizer.bos"),
        ({"byte_fallback": True}, "is for unigram"),
    ],
)
def test_roles_that_no_reader_would_find_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        TokenizerSection(**settings)


def test_spaced_text_is_learned_from_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words that come again take no memory: 50 different ones are within a bound that all 4,000 together exceed."""
    text = " ".join(f"{'long' * 5}{n % 50}" for n in range(4000))
    before = train("bpe", text)
    monkeypatch.setitem(learn.STRETCHES, "bpe", 50 * 22)
    assert train("bpe", text).to_json() == before.to_json()


@pytest.mark.parametrize("algorithm", ["bpe", "wordpiece", "unigram", "word"])
def test_more_words_than_memory_are_refused_with_both_numbers(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 words of 8 letters, all different: their 160 kB as often as `HELD` says."""
    words = (f"{n:08d}" for n in range(20_000))
    needed = learn.HELD[algorithm] * 160_000
    monkeypatch.setattr(machine, "free_memory", lambda: needed - 1)
    text = " ".join(words)
    with pytest.raises(
        UsageError, match=rf"takes {needed / 1e9:.3g} GB or more.*0.16 MB of different words.*GB"
    ) as caught:
        train(algorithm, text)
    assert caught.value.exit_code == 2
    monkeypatch.setattr(machine, "free_memory", lambda: needed)
    with pytest.raises(UsageError, match=r"No word|too small") if algorithm == "word" else nullcontext():
        train(algorithm, text)


def test_lowercase_folds_before_anything_else() -> None:
    tokenizer = train("bpe", lowercase=True)
    assert tokenizer.decode(tokenizer.encode("The CAT É")) == "the cat é"


@pytest.mark.parametrize("limit", [1, 3, 10, 1000])
def test_pieces_are_bounded_and_lose_nothing(limit: int) -> None:
    cut = list(pieces(TEXT, limit))
    assert "".join(cut) == TEXT
    assert max(map(len, cut)) <= limit


def test_pieces_are_cut_before_line_ends_then_spaces() -> None:
    assert list(pieces("ab cd\nef gh ij", 8)) == ["ab cd", "\nef gh", " ij"]


def test_long_documents_train_as_short_ones() -> None:
    """One document of many pieces against its lines as documents: the same words, hence the same merges."""
    lines = [f"word{n % 7} cat" for n in range(20_000)]
    section = TokenizerSection(vocab_size=300)
    whole, _ = train_tokenizer(lambda: iter(["\n".join(lines)]), section)
    parts, _ = train_tokenizer(lambda: iter([lines[0], *("\n" + line for line in lines[1:])]), section)
    assert whole.fingerprint == parts.fingerprint


@pytest.mark.parametrize(
    ("algorithm", "size", "sentence"),
    [
        ("bpe", 259, "256 bytes, 4 special tokens.*260 or more"),
        # a, b and c, of which b and c occur within the word, and five special tokens
        ("wordpiece", 9, "3 characters, 2 of them within words, 5 special tokens.*10 or more"),
        # a, b, c and the space
        ("unigram", 8, "4 characters, 5 special tokens.*9 or more"),
    ],
)
def test_too_small_a_vocabulary_names_the_least(algorithm: str, size: int, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as caught:
        train(algorithm, "abc abc", vocab_size=size)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("documents", [[], ["", " \n"]])
def test_no_text_is_refused(algorithm: str, documents: list[str]) -> None:
    def texts() -> Iterator[str]:
        return iter(documents)

    with pytest.raises(UsageError, match="no text"):
        train_tokenizer(texts, TokenizerSection(algorithm=algorithm))  # type: ignore[arg-type]


def test_words_that_are_all_too_rare_are_refused() -> None:
    with pytest.raises(UsageError, match="No word of the text occurs 2 times"):
        train("word", "each word once")


def test_training_leaves_nothing_of_the_process_in_the_file() -> None:
    first, second = (train("bpe").to_json() for _ in range(2))
    assert hashlib.sha256(first.encode()).digest() == hashlib.sha256(second.encode()).digest()
