"""Tokenizer pipelines: normalizer, pre-tokenizer and decoder around the learned vocabulary of each algorithm.

No pipeline lets a whole special token reach the model in one piece ("<s>" is always cut at its brackets), so
a text that spells one can neither be learned as that token nor be read as it.

An unknown token decodes to U+FFFD, the replacement character. No vocabulary but the byte-level one holds it,
so what was decoded encodes to the unknown token again.
"""

from collections.abc import Callable

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from tfcli.recipe.tokenizer import Algorithm, TokenizerSection
from tfcli.tokenization.roles import BOS, EOS, MASK, PAD, UNK

REPLACEMENT = "\ufffd"
SPACE = "▁"
CONTINUATION = "##"

# Much as GPT-2 cuts text, with ▁ for the space: a word, a number or a run of signs takes one space before it
# along. No rule looks at what kind of character stands next to it, which an unknown one would hide.
_SPACED_WORDS = (
    rf"{SPACE}?\p{{L}}+|{SPACE}?\p{{N}}+|{SPACE}?[^{SPACE}\n\p{{L}}\p{{N}}{REPLACEMENT}]+"
    rf"|{SPACE}+(?={SPACE})|{SPACE}|\n+|{REPLACEMENT}"
)
# A word with its inner apostrophes, a line end, or any other single character that is no white space.
_PLAIN_WORDS = r"\w+(?:['’]\w+)*|\n|[^\w\s]"
_NO_SPACE_BEFORE = r" (?=[\n.,;:!?)\]}])"
_NO_SPACE_AFTER = r"(?<=[\n(\[{]) "
EXPRESSIONS = (_SPACED_WORDS, _PLAIN_WORDS, _NO_SPACE_BEFORE, _NO_SPACE_AFTER)


def special_tokens(section: TokenizerSection) -> list[str]:
    """The special tokens in the order of their ids; byte-level bpe can spell anything: no unknown."""
    return [PAD, BOS, EOS, MASK, *([] if section.algorithm == "bpe" else [UNK]), *section.special_tokens]


def pipeline(section: TokenizerSection, model: models.Model | None = None) -> Tokenizer:
    """The whole pipeline around a model; around one yet to be trained if none is given."""
    algorithm = section.algorithm
    backend = Tokenizer(_empty_model(algorithm) if model is None else model)
    if section.lowercase:
        backend.normalizer = normalizers.Lowercase()
    unknown = decoders.Replace(UNK, REPLACEMENT)
    if algorithm == "bpe":
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        backend.decoder = decoders.ByteLevel()
    elif algorithm == "unigram":
        spaces = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="never", split=False)
        words = pre_tokenizers.Split(Regex(_SPACED_WORDS), "isolated")
        backend.pre_tokenizer = pre_tokenizers.Sequence([spaces, words])
        backend.decoder = decoders.Sequence([unknown, decoders.Metaspace(SPACE, "never")])
    elif algorithm == "char":
        # A bpe without merges takes every character by itself; a pre-tokenizer would only be slower.
        backend.decoder = decoders.Sequence([unknown, decoders.Fuse()])
    else:
        backend.pre_tokenizer = pre_tokenizers.Split(Regex(_PLAIN_WORDS), "removed", invert=True)
        # Words joined by spaces: none before closing punctuation, after an opening bracket or at a line end.
        backend.decoder = decoders.Sequence(
            [
                unknown,
                decoders.WordPiece(prefix=CONTINUATION, cleanup=False),
                decoders.Fuse(),
                decoders.Replace(Regex(_NO_SPACE_BEFORE), ""),
                decoders.Replace(Regex(_NO_SPACE_AFTER), ""),
            ]
        )
    if model is not None:
        # The unknown is not declared: the library would drop it when decoding, without a trace.
        backend.add_special_tokens([token for token in special_tokens(section) if token != UNK])
    return backend


def _empty_model(algorithm: Algorithm) -> models.Model:
    empty: dict[Algorithm, Callable[[], models.Model]] = {
        "bpe": models.BPE,
        "unigram": models.Unigram,
        "wordpiece": lambda: models.WordPiece({}, unk_token=UNK),
        "word": lambda: models.WordLevel({}, unk_token=UNK),
        "char": lambda: models.BPE(unk_token=UNK),
    }
    return empty[algorithm]()
