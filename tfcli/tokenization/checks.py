"""Validation of a tokenizer.json before the library sees it: ids, sizes, components, and what needs a trial.

The library takes a file at its word: it makes room for the largest id, applies every component, and ends the process
where memory ends. What a component does to a text is known by its kind, but for replacements that make a text longer
and regular expressions, of which some take exponential time: all that are not of a known form or family are tried.
"""

import base64
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from sys import byteorder
from typing import Any

from tfcli.errors import shortened
from tfcli.tokenization.pipelines import EXPRESSIONS

_SPARE_IDS = 1024
_MOST_COMPONENTS = 100
_DEEPEST = 8
_LONGEST_TEXT = 4096
"""Characters of a pattern, a replacement or a name in a component."""
_LONGEST_CHARSMAP = 1 << 24
_LONGEST_REPLACEMENT = 256
"""Bytes that a character map puts in the place of a character; Unicode's longest has 33."""
_LONGEST_PREFIX = 64
_LONGEST_WORD = 100_000
_LONGEST_TEMPLATE = 64

_MODELS = ("BPE", "WordPiece", "WordLevel", "Unigram")
_CHILDREN = {
    "normalizer": "normalizers",
    "pre_tokenizer": "pretokenizers",
    "post_processor": "processors",
    "decoder": "decoders",
}
_KNOWN = {
    "normalizer": "BertNormalizer Strip StripAccents NFC NFD NFKC NFKD Lowercase Nmt Precompiled Replace Prepend "
    "ByteLevel",
    "pre_tokenizer": "BertPreTokenizer ByteLevel CharDelimiterSplit Metaspace Whitespace Split Punctuation "
    "WhitespaceSplit Digits UnicodeScripts FixedLength",
    "post_processor": "RobertaProcessing BertProcessing ByteLevel TemplateProcessing",
    "decoder": "BPEDecoder ByteLevel WordPiece Metaspace CTC Replace Fuse Strip ByteFallback",
}
_EXPANDING = ("ByteLevel", "Precompiled")
"""Those that make several characters of one; two of them may multiply."""
_DOUBTFUL = ("BPEDecoder", "CTC")
"""Those that replace texts of the file's choice."""

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_FAMILIES = {
    *EXPRESSIONS,
    _LLAMA3,
    _LLAMA3.replace("{1,3}", ""),  # Qwen2
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",  # GPT-2
    r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",  # CLIP
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",  # o200k
    r" ?[^(\s|[.,!?…。，、।۔،])]+",  # Bloom
}
"""Expressions that take linear time, though their form does not say so."""
_CHARACTER = r"(?:\\p\{\w+\}|\\[\WsSdDwWnrt]|[^\\()\[\]|*+?{}^$]|\[\^?(?:\\p\{\w+\}|\\[\WsSdDwWnrt]|[^\\\[\]&^])+\])"
_LINEAR = re.compile(
    rf"(?P<some>(?:{_CHARACTER}\??)?{_CHARACTER}(?:\+|\{{[1-9],\d?\}})?)|{_CHARACTER}\*"
    rf"|(?:{_CHARACTER}|\||\(\?={_CHARACTER}+\))+"
)
"""One loop at the end, or none and no group but for what follows (as `keep_apart` cuts). `some` matches something."""


def require_sound(state: Mapping[str, Any]) -> None:
    """Refuse what no tokenizer has.

    Args:
        state: the whole of a tokenizer.json.

    Raises:
        ValueError: says what.
    """
    added = state.get("added_tokens") or []
    if not isinstance(added, list) or not all(isinstance(token, dict) for token in added):
        raise ValueError("added_tokens is no list of tokens")
    entries = _require_model(state["model"], len(added))
    require_ids("added_tokens", [(token.get("content"), token.get("id")) for token in added], entries)
    for part in _CHILDREN:
        given = list(components(state, part))
        if len(given) > _MOST_COMPONENTS:
            raise ValueError(f"{part} has more than {_MOST_COMPONENTS} components")
        for component in given:
            _require_component(part, component)


def require_ids(where: str, tokens: Iterable[tuple[Any, Any]], entries: int) -> None:
    """Refuse ids that are none, or far beyond the number of entries: the library makes room for all up to the largest.

    Raises:
        ValueError: names the id.
    """
    most = 2 * entries + _SPARE_IDS
    for token, token_id in tokens:
        if type(token_id) is not int or not 0 <= token_id < most:
            given = f"{shortened(repr(token))} the id {shortened(repr(token_id))}"
            raise ValueError(f"{where} gives {given}, which a vocabulary of {entries} entries cannot have")


def doubts(state: Mapping[str, Any]) -> list[str]:
    """The expressions, patterns and replacements of which only a trial tells what they do to a text.

    Args:
        state: a tokenizer.json that is sound, or its components alone.
    """
    found: list[str] = []
    for part in ("normalizer", "pre_tokenizer", "decoder"):
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
        if sum(component["type"] in _EXPANDING for component in given) > 1:
            found.append("é")
    return found


def _require_model(model: Mapping[str, Any], added: int) -> int:
    """Returns how many entries it has, with those that are added."""
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
    """The components of a part, without the sequences around them.

    Raises:
        ValueError: one is unknown, or they are nested too deeply.
    """
    key, known = _CHILDREN[part], _KNOWN[part].split()

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
    """Refuse a map of characters that would be read beyond its ends.

    It is the length of a double array, the array, whose every node is followed by a block of 256, and texts that end
    with a zero byte, to which its leaves point (SentencePiece's `Normalizer`).
    """
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
        if node >> 31:  # a leaf, which is looked at from its parent
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
