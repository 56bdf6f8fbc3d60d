"""Learn a tokenizer from text. The same text gives the same tokenizer.json, byte for byte."""

from collections.abc import Callable, Iterator

from tfcli.errors import UsageError
from tfcli.recipe.tokenizer import TokenizerSection
from tfcli.records.tokenization import TokenizerReport
from tfcli.tokenization import learn
from tfcli.tokenization.pieces import batches, pieces
from tfcli.tokenization.pipelines import REPLACEMENT, pipeline
from tfcli.tokenization.tokenizer import Tokenizer

Texts = Callable[[], Iterator[str]]


def train_tokenizer(texts: Texts, section: TokenizerSection) -> tuple[Tokenizer, TokenizerReport]:
    """Learn a tokenizer and count what it makes of its own training text.

    Args:
        texts: opens the documents anew. They are opened three times, for wordpiece and unigram four times: up to the
            first text, to learn, and to count. They are never held in memory together.
        section: the algorithm, the vocabulary's size and what is too rare to learn.

    Raises:
        UsageError: there is no text, or the vocabulary is too small for the alphabet.
    """
    if not any(text and not text.isspace() for text in texts()):
        raise UsageError("There is no text to train a tokenizer on", "name a source that holds text")
    learner = learn.LEARNERS[section.algorithm]
    cutter = pipeline(section.algorithm, lowercase=section.lowercase)
    model = learner(cutter, lambda: _training_pieces(texts(), section), section)
    tokenizer = Tokenizer(pipeline(section.algorithm, lowercase=section.lowercase, model=model))
    return tokenizer, report(tokenizer, texts)


def report(tokenizer: Tokenizer, texts: Texts) -> TokenizerReport:
    """Apply a tokenizer to documents and count."""
    documents = characters = size = tokens = unknown = 0

    def counted() -> Iterator[str]:
        nonlocal documents, characters, size
        for text in texts():
            documents += 1
            for piece in pieces(text):
                characters += len(piece)
                size += len(piece.encode())
                yield piece

    for batch in batches(counted()):
        for ids in tokenizer.encode_batch(batch):
            tokens += len(ids)
            unknown += tokenizer.count_unknown(ids)
    return TokenizerReport(
        tokenizer.algorithm,
        tokenizer.vocab_size,
        tokenizer.fingerprint,
        documents=documents,
        characters=characters,
        bytes=size,
        tokens=tokens,
        unknown=unknown,
    )


def _training_pieces(documents: Iterator[str], section: TokenizerSection) -> Iterator[str]:
    for document in documents:
        for piece in pieces(document):
            # U+FFFD stands for the unknown and must stay out of every vocabulary that has one.
            yield piece if section.algorithm == "bpe" else piece.replace(REPLACEMENT, " ")
