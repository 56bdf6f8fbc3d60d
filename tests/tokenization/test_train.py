"""Training: the same every time, nothing lost, and its complaints."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tfcli.errors import UsageError
from tfcli.recipe.tokenizer import TokenizerSection
from tfcli.tokenization.learn import canonical_scores
from tfcli.tokenization.pieces import pieces
from tfcli.tokenization.train import train_tokenizer

from .conftest import ALGORITHMS, TEXT, train

SCRIPT = """
import hashlib, random
from tfcli.recipe.tokenizer import TokenizerSection
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


def test_the_report_counts_by_hand() -> None:
    """ "aab" and "é\\n": 5 characters, é takes two bytes; three slots beside five specials keep a, b and the
    line end of four equally rare characters (a twice; then by code point \\n, b, é): é is unknown."""
    section = TokenizerSection(algorithm="char", vocab_size=8)
    tokenizer, report = train_tokenizer(lambda: iter(["aab", "é\n"]), section)
    assert tokenizer.encode("\nab") == [5, 6, 7]
    assert (report.documents, report.characters, report.bytes, report.tokens, report.unknown) == (
        2,
        5,
        6,
        5,
        1,
    )
    assert (report.algorithm, report.vocab_size, report.bytes_per_token) == ("char", 8, 1.2)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_documents_are_opened_as_often_as_promised(algorithm: str) -> None:
    """What is streamed from elsewhere is fetched at every opening."""
    opened: list[int] = []

    def texts() -> Iterator[str]:
        opened.append(0)
        for text in (TEXT, TEXT):
            opened[-1] += 1
            yield text

    train_tokenizer(texts, TokenizerSection(algorithm=algorithm, vocab_size=400))  # type: ignore[arg-type]
    assert opened == ([1, 2, 2, 2] if algorithm in ("wordpiece", "unigram") else [1, 2, 2])


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
