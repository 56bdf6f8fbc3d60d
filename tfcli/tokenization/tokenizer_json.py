"""tokenizer.json, the file of the `tokenizers` library: our own pipelines, and files validated and read.

The library takes a file at its word: it makes room for the largest id, applies every component, and ends the process
where memory ends. What a component does to a text is known by its kind, but for replacements that make a text longer
and regular expressions, of which some take exponential time: all that are not of a known form or family are tried.
None of our pipelines lets a whole special token reach the model in one piece ("<s>" is always cut at its brackets), so
a text that spells one can neither be learned as that token nor be read as it. An unknown token decodes to U+FFFD, which
no vocabulary but the byte-level one holds, so what was decoded encodes to the unknown token again."""

import base64
import json
import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from sys import byteorder
from threading import RLock
from typing import Any

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from tfcli import files
from tfcli.errors import BrokenInputError, TfcliError, UsageError, shortened
from tfcli.recipe.data import Algorithm, TokenizerSection
from tfcli.tokenization.sandbox import try_out

REPLACEMENT = "\ufffd"
SPACE = "▁"
CONTINUATION = "##"

# Much as GPT-2 cuts text, with ▁ for the space: a word, a number or a run of signs takes one space before it
# along. No rule looks at what kind of character stands next to it, which an unknown one would hide.
_SPACED_WORDS = (
    rf"{SPACE}?\p{{L}}+|{SPACE}?\p{{N}}+|{SPACE}?[^{SPACE}\n\p{{L}}\p{{N}}{REPLACEMENT}]+"
    rf"|{SPACE}+(?={SPACE})|{SPACE}|\n+|{REPLACEMENT}"
)
_EXACT_WORDS = _SPACED_WORDS.replace(SPACE, " ")  # where a space stays one, and a text's own ▁ is not taken for it
# A word with its inner apostrophes, a line end, or any other single character that is no white space.
_PLAIN_WORDS = r"\w+(?:['’]\w+)*|\n|[^\w\s]"
_NO_SPACE_BEFORE = r" (?=[\n.,;:!?)\]}])"
_NO_SPACE_AFTER = r"(?<=[\n(\[{]) "
EXPRESSIONS = (_SPACED_WORDS, _EXACT_WORDS, _PLAIN_WORDS, _NO_SPACE_BEFORE, _NO_SPACE_AFTER)


def special_tokens(section: TokenizerSection) -> list[str]:
    """The special tokens in the order of their ids; byte-level bpe can spell anything: no unknown."""
    roles = [section.pad, section.bos, section.eos, section.mask, "" if section.algorithm == "bpe" else section.unk]
    return [*filter(None, roles), *section.special_tokens]


_UNTRAINED: dict[Algorithm, Callable[[str], models.Model]] = {
    "bpe": lambda _: models.BPE(),
    "unigram": lambda _: models.Unigram(),
    "wordpiece": lambda unknown: models.WordPiece({}, unk_token=unknown),
    "word": lambda unknown: models.WordLevel({}, unk_token=unknown),
    "char": lambda unknown: models.BPE(unk_token=unknown),
}


def pipeline(section: TokenizerSection, model: models.Model | None = None) -> Backend:
    """The whole pipeline around a model; around one yet to be trained if none is given."""
    algorithm = section.algorithm
    backend = Backend(_UNTRAINED[algorithm](section.unk) if model is None else model)
    if section.lowercase:
        backend.normalizer = normalizers.Lowercase()
    unknown = decoders.Replace(section.unk, REPLACEMENT)
    if algorithm == "bpe":
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        backend.decoder = decoders.ByteLevel()
    elif section.byte_fallback:
        backend.pre_tokenizer = pre_tokenizers.Split(Regex(_EXACT_WORDS), "isolated")
        backend.decoder = decoders.Sequence([unknown, decoders.ByteFallback(), decoders.Fuse()])
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
        joined = [decoders.WordPiece(prefix=CONTINUATION, cleanup=False), decoders.Fuse()]
        unspaced = [decoders.Replace(Regex(space), "") for space in (_NO_SPACE_BEFORE, _NO_SPACE_AFTER)]
        backend.decoder = decoders.Sequence([unknown, *joined, *unspaced])
    if model is not None:
        # The unknown is not declared: the library would drop it when decoding, without a trace.
        backend.add_special_tokens([token for token in special_tokens(section) if token != section.unk])
    return backend


_SPARE_IDS = 1024
_MOST_COMPONENTS, _DEEPEST = 100, 8
_LONGEST_TEXT = 4096  # characters of a pattern, a replacement or a name in a component
_LONGEST_CHARSMAP = 1 << 24
_LONGEST_REPLACEMENT = 256  # bytes that a character map puts in the place of a character; Unicode's longest has 33
_LONGEST_PREFIX, _LONGEST_TEMPLATE, _LONGEST_WORD = 64, 64, 100_000
_MODELS = ("BPE", "WordPiece", "WordLevel", "Unigram")
_KNOWN = {
    "normalizer": "BertNormalizer Strip StripAccents NFC NFD NFKC NFKD Lowercase Nmt Precompiled Replace Prepend "
    "ByteLevel",
    "pre_tokenizer": "BertPreTokenizer ByteLevel CharDelimiterSplit Metaspace Whitespace Split Punctuation "
    "WhitespaceSplit Digits UnicodeScripts FixedLength",
    "post_processor": "RobertaProcessing BertProcessing ByteLevel TemplateProcessing",
    "decoder": "BPEDecoder ByteLevel WordPiece Metaspace CTC Replace Fuse Strip ByteFallback",
}
_TRIED = ("normalizer", "pre_tokenizer", "decoder")  # the parts that make another text of a text
_EXPANDING = ("ByteLevel", "Precompiled")  # those that make several characters of one; two of them may multiply
_DOUBTFUL = ("BPEDecoder", "CTC")  # those that replace texts of the file's choice

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_FAMILIES = {  # expressions that take linear time, though their form does not say so
    *EXPRESSIONS,
    _LLAMA3,
    _LLAMA3.replace("{1,3}", ""),  # Qwen2
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",  # GPT-2
}
_CHARACTER = r"(?:\\p\{\w+\}|\\[\WsSdDwWnrt]|[^\\()\[\]|*+?{}^$]|\[\^?(?:\\p\{\w+\}|\\[\WsSdDwWnrt]|[^\\\[\]&^])+\])"
_LINEAR = re.compile(  # one loop at the end, or none and no group but for what follows; `some` matches something
    rf"(?P<some>(?:{_CHARACTER}\??)?{_CHARACTER}(?:\+|\{{[1-9],\d?\}})?)|{_CHARACTER}\*"
    rf"|(?:{_CHARACTER}|\||\(\?={_CHARACTER}+\))+"
)


def validate_tokenizer(state: Mapping[str, Any]) -> None:
    """Refuse what no tokenizer.json has, with a ValueError that says what."""
    added = state.get("added_tokens") or []
    if not isinstance(added, list) or not all(isinstance(token, dict) for token in added):
        raise ValueError("added_tokens is no list of tokens")
    entries = _require_model(state["model"], len(added))
    require_ids("added_tokens", [(token.get("content"), token.get("id")) for token in added], entries)
    for part in _KNOWN:
        given = list(components(state, part))
        if len(given) > _MOST_COMPONENTS:
            raise ValueError(f"{part} has more than {_MOST_COMPONENTS} components")
        for component in given:
            _require_component(part, component)


def require_ids(where: str, tokens: Iterable[tuple[Any, Any]], entries: int) -> None:
    """Refuse, by ValueError, ids that are none, or far beyond the entries: the library makes room up to the largest."""
    for token, token_id in tokens:
        if type(token_id) is not int or not 0 <= token_id < 2 * entries + _SPARE_IDS:
            given = f"{shortened(repr(token))} the id {shortened(repr(token_id))}"
            raise ValueError(f"{where} gives {given}, which a vocabulary of {entries} entries cannot have")


def suspicious_patterns(state: Mapping[str, Any]) -> list[str]:
    """The expressions, patterns and replacements of a sound tokenizer.json, whose effect only a trial tells."""
    found: list[str] = []
    for part in _TRIED:
        given = list(components(state, part))
        for component in given:
            if component["type"] in ("Replace", "Split"):
                kind, pattern = _pattern(component)
                content = str(component.get("content", ""))
                if kind == "String":
                    is_safe = component["type"] == "Split" or len(content) <= len(pattern)
                else:
                    linear = _LINEAR.fullmatch(pattern)
                    is_longer = len(content) > (1 if linear and linear["some"] else 0)
                    is_safe = not is_longer and (linear is not None or pattern in _FAMILIES)
                found += [] if is_safe else [pattern, content]
            elif component["type"] in _DOUBTFUL:
                found += [value for value in component.values() if isinstance(value, str)]
        found += ["é"] if sum(component["type"] in _EXPANDING for component in given) > 1 else []
    return found


def _require_model(model: Mapping[str, Any], added: int) -> int:
    """How many entries it has, with those that are added."""
    kind, vocabulary = model.get("type"), model.get("vocab")
    entries = added + (len(vocabulary) if isinstance(vocabulary, dict | list) else 0)
    if kind is not None and kind not in _MODELS:
        raise ValueError(f"there is no model {shortened(repr(kind))}")
    if isinstance(vocabulary, dict):
        require_ids("the vocabulary", vocabulary.items(), entries)
        if len(set(vocabulary.values())) < len(vocabulary):
            raise ValueError("two tokens of the vocabulary have one id")
    elif isinstance(vocabulary, list):
        for piece in vocabulary:
            is_pair = isinstance(piece, list) and len(piece) == 2 and type(piece[1]) in (int, float)
            if not is_pair or not -1e300 < piece[1] < 1e300:  # nor NaN
                raise ValueError(f"{shortened(repr(piece))} is no piece with its score")
    longest = model.get("max_input_chars_per_word", 0)
    if type(longest) is not int or not 0 <= longest <= _LONGEST_WORD:
        raise ValueError(f"max_input_chars_per_word is {shortened(repr(longest))}, and {_LONGEST_WORD} at most")
    for key in ("unk_token", "continuing_subword_prefix", "end_of_word_suffix"):
        _require_text(key, model.get(key), _LONGEST_TEXT)
    return entries


def _require_text(what: str, value: Any, longest: int) -> None:
    if isinstance(value, str) and len(value) > longest:
        raise ValueError(f"{what} has {len(value):,} characters, and {longest:,} at most")


def components(state: Mapping[str, Any], part: str) -> Iterator[dict[str, Any]]:
    """The components of a part, without the sequences around them; ValueError where one is unknown, or too deep."""
    key, known = part.removeprefix("post_").replace("_", "") + "s", _KNOWN[part].split()

    def inside(component: Any, depth: int) -> Iterator[dict[str, Any]]:
        kind = component.get("type") if isinstance(component, dict) else component
        if depth > _DEEPEST:
            raise ValueError(f"{part} is nested too deeply")
        if kind == "Sequence" and isinstance(component.get(key), list):
            for child in component[key]:
                yield from inside(child, depth + 1)
        elif kind not in known:
            raise ValueError(f"{part} has an unknown component {shortened(repr(kind))}")
        else:
            yield component

    if state.get(part) is not None:
        yield from inside(state[part], 0)


def _require_component(part: str, component: Mapping[str, Any]) -> None:
    kind = component["type"]
    for key, value in component.items():
        if key != "precompiled_charsmap":
            _require_text(f"{key} of {kind}", value, _LONGEST_PREFIX if kind == "Prepend" else _LONGEST_TEXT)
    if kind in ("Replace", "Split"):
        _require_text(f"pattern of {kind}", _pattern(component)[1], _LONGEST_TEXT)
    elif kind == "Precompiled":
        _require_charsmap(component.get("precompiled_charsmap"))
    elif kind == "TemplateProcessing":
        tokens = component.get("special_tokens")
        lists = [component.get("single"), component.get("pair"), tokens]
        for token in tokens.values() if isinstance(tokens, dict) else ():
            lists += token.values() if isinstance(token, dict) else ()
        if any(isinstance(one, list | dict) and len(one) > _LONGEST_TEMPLATE for one in lists):
            raise ValueError(f"{part} puts more than {_LONGEST_TEMPLATE} tokens around a text")


def _pattern(component: Mapping[str, Any]) -> tuple[str, str]:
    """The kind of a pattern ("String" or "Regex"), and what it says."""
    pattern = component.get("pattern")
    if isinstance(pattern, dict) and len(pattern) == 1:
        [(kind, text)] = pattern.items()
        if kind in ("String", "Regex") and isinstance(text, str):
            return kind, text
    raise ValueError(f"{component['type']} has the pattern {shortened(repr(pattern))}")


def _require_charsmap(encoded: Any) -> None:
    """Refuse a map of characters that would be read beyond its ends."""
    # It holds the length of a double array, the array, whose every node is followed by a block of 256, and texts that
    # end with a zero byte, to which its leaves point (SentencePiece's `Normalizer`).
    _require_text("precompiled_charsmap", encoded, _LONGEST_CHARSMAP)
    try:
        content = base64.b64decode(encoded, validate=True)
    except (TypeError, ValueError) as error:
        raise ValueError("precompiled_charsmap is no base64") from error
    size = int.from_bytes(content[:4], "little")
    texts = content[4 + size :]
    if len(content) < 4 or size % 1024 or not 0 < size <= len(content) - 4:
        raise ValueError("precompiled_charsmap is damaged: its length is not that of a map")
    nodes = array("I", content[4 : 4 + size])
    if byteorder == "big":
        nodes.byteswap()
    if max(map(len, texts.split(b"\0"))) > _LONGEST_REPLACEMENT:
        raise ValueError(f"precompiled_charsmap makes more than {_LONGEST_REPLACEMENT} bytes of a character")
    for place, node in enumerate(nodes):
        if place and node >> 31:  # a leaf, which is looked at from its parent, as the root is not
            continue
        following = place ^ (node >> 10 << ((node & 512) >> 6))
        if following >= len(nodes):
            raise ValueError("precompiled_charsmap is damaged: it points behind its end")
        if node & 256:
            text = nodes[following] & 0x7FFFFFFF
            if text > len(texts) or (texts[text : text + 1] >= b"\x80" and texts[text] & 0xC0 == 0x80):
                raise ValueError("precompiled_charsmap is damaged: it points at no text")
    try:
        texts.decode()
    except UnicodeDecodeError as error:
        raise ValueError("precompiled_charsmap is damaged: its texts are not UTF-8") from error


_LARGEST = 1 << 28  # bytes. A vocabulary of 256,000 pieces takes 40 million
_LONGEST_REASON = 160
_TRIAL = "A trial,\n1\ue000 é"  # words, a line end, and a character of private use that few vocabularies hold
_silence = RLock()  # of two threads, the second would keep the silence of the first for good


def read_backend(file: Path) -> Backend:
    """Read a tokenizer.json; UsageError where there is none, or another kind of file, BrokenInputError if damaged."""
    if file.is_file():
        files.require_size(file, _LARGEST)
    state = files.read_json(file)
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise UsageError(f"{file} is JSON but no tokenizer", "name a file made by 'tfcli tokenize train'")
    state |= {"truncation": None, "padding": None}  # tfcli does both itself
    with library_refusals(file):
        validate_tokenizer(state)
        if doubtful := suspicious_patterns(state):
            try_out(state, doubtful, {part: list(components(state, part)) for part in _TRIED})
        return tried(Backend.from_str(json.dumps(state)))


def copy_backend(serialised: str) -> Backend:
    """Another backend like one that has been read, from what it says of itself."""
    return Backend.from_str(serialised)


def tried(backend: Backend) -> Backend:
    """The backend, after it has encoded texts: a missing unknown token and the like come to light here, as errors."""
    if not backend.get_vocab_size(with_added_tokens=False):
        raise ValueError("its vocabulary is empty")
    for text in ("", _TRIAL):
        backend.encode(text, add_special_tokens=True)
    return backend


@contextmanager
def library_refusals(file: Path) -> Iterator[None]:
    """Turn whatever the library raises over a file into one sentence, a BrokenInputError that names the file."""
    try:
        with no_native_stderr():
            yield
    except BaseException as error:  # a panic of the library's Rust code is no Exception
        if isinstance(error, TfcliError | KeyboardInterrupt | SystemExit | GeneratorExit):
            raise
        problem = f"{file} is no tokenizer that can be read ({reason(error)})"
        raise BrokenInputError(problem, "restore the file or train it again") from error


def reason(error: BaseException) -> str:
    """What the library says, in one line of a length that a sentence can hold."""
    message = " ".join(str(error).split()) or type(error).__name__
    return message if len(message) <= _LONGEST_REASON else f"{message[:_LONGEST_REASON]}…"


@contextmanager
def no_native_stderr() -> Iterator[None]:
    """Keep a panic's own report, which goes to file descriptor 2, off the terminal: the error says it."""
    with _silence:
        try:
            kept = os.dup(2)
        except OSError:  # there is none
            yield
            return
        silent = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(silent, 2)
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            os.close(silent)
