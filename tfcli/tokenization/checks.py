"""A tokenizer.json, looked through before the library sees it: ids, sizes, components, and what needs a trial.

The library takes a file at its word: it makes room for the largest id, applies every component, and ends the process
where memory ends. What a component does to a text is known by its kind, but for regular expressions, of which some
take exponential time, and replacements that make a text longer.
"""

import base64
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from sys import byteorder
from typing import Any

from tfcli.errors import shortened
from tfcli.tokenization.pipelines import PLAIN_WORDS

_SPARE_IDS = 1024
_MOST_COMPONENTS = 100
_DEEPEST = 8
_LONGEST_TEXT = 4096
"""Characters of a pattern, a replacement or a name in a component."""
_LONGEST_CHARSMAP = 1 << 24
_LONGEST_REPLACEMENT = 256
"""Bytes that a character map puts in the place of a character; Unicode's longest has 33."""
_LONGEST_PREFIX = 64
_LONGEST_WORD = 1000
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

_TOLD = (PLAIN_WORDS,)
"""Expressions with a loop around a group that take linear time all the same."""
_MOST_LOOPS = 2
"""Loops one after the other in a branch. Each multiplies the time of a match by the length of the text."""
_LEXEME = re.compile(
    r"(?P<atom>\\[pP]\{\^?\w+\}|\\[dDsSwWhHnrtfvae]|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\\W|[^\\()\[\]|*+?{^$])"
    r"|(?P<empty>\\[bBAzZG]|[\^$])"
    r"|(?P<open>\((?:\?(?:[imx]*:|=|!|<=|<!|>))?)"
    r"|(?P<close>\))"
    r"|(?P<or>\|)"
    r"|(?P<loop>(?:[*+]|\{\d*,\d*\}|\{\d+\})[?+]?)"
    r"|(?P<maybe>\?[?+]?)"
)


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
    _require_model(state["model"], len(added))
    entries = _entries(state["model"]) + len(added)
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
                    told = component["type"] == "Split" or len(content) <= len(pattern)
                else:
                    loops, is_empty = _expression(pattern)
                    told = loops <= _MOST_LOOPS and (not content or (len(content) == 1 and not is_empty))
                found += [] if told else [pattern, content]
            elif component["type"] in _DOUBTFUL:
                found += [value for value in component.values() if isinstance(value, str)]
        if sum(component["type"] in _EXPANDING for component in given) > 1:
            found.append("é")
    return found


def _require_model(model: Mapping[str, Any], added: int) -> None:
    kind, vocabulary = model.get("type"), model.get("vocab")
    if kind is not None and kind not in _MODELS:
        raise ValueError(f"there is no model {shortened(repr(kind))}")
    if isinstance(vocabulary, dict):
        require_ids("the vocabulary", vocabulary.items(), len(vocabulary) + added)
        if len(set(vocabulary.values())) < len(vocabulary):
            raise ValueError("two tokens of the vocabulary have one id")
    elif isinstance(vocabulary, list):
        for piece in vocabulary:
            if not isinstance(piece, list) or len(piece) != 2 or not _is_finite(piece[1]):
                raise ValueError(f"{shortened(repr(piece))} is no piece with its score")
    longest = model.get("max_input_chars_per_word", 0)
    if type(longest) is not int or not 0 <= longest <= _LONGEST_WORD:
        raise ValueError(f"max_input_chars_per_word is {shortened(repr(longest))}, and {_LONGEST_WORD} at most")
    for key in ("unk_token", "continuing_subword_prefix", "end_of_word_suffix"):
        _require_text(key, model.get(key), _LONGEST_TEXT)


def _entries(model: Mapping[str, Any]) -> int:
    vocabulary = model.get("vocab")
    return len(vocabulary) if isinstance(vocabulary, dict | list) else 0


def _is_finite(score: Any) -> bool:
    return type(score) in (int, float) and -1e300 < score < 1e300 and isfinite(score)


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


def _expression(expression: str) -> tuple[int, bool]:
    r"""How many loops the worst branch of a regular expression has, and whether it may match nothing.

    A loop around a group, and whatever is not understood, counts as too many.

    >>> _expression(r"\s+(?!\S)|\s+"), _expression(" ?[^a-z]+[\r\n]*"), _expression("(a+)+$"), _expression("a*")
    ((1, False), (2, False), (3, True), (1, True))
    """
    if expression in _TOLD:
        return 1, False
    hopeless = _MOST_LOOPS + 1, True
    place = depth = loops = most = 0
    is_empty, may_be_empty = True, False
    before = ""
    while place < len(expression):
        if expression[place] == "[":
            kind, end = "atom", _end_of_class(expression, place)
        else:
            lexeme = _LEXEME.match(expression, place)
            kind, end = (lexeme.lastgroup or "", lexeme.end()) if lexeme else ("", 0)
        if not end or (kind in ("loop", "maybe") and before not in ("atom", "close")):
            return hopeless
        following = expression[end : end + 1]
        if kind == "loop":
            if before == "close":
                return hopeless
            loops += 1
        elif kind == "open":
            depth += 1
        elif kind == "close":
            depth -= 1
        elif kind == "atom" and depth == 0:
            is_empty = is_empty and (following in ("*", "?") or expression[end : end + 2] in ("{,", "{0"))
        elif kind == "or" and depth == 0:
            most, loops = max(most, loops), 0
            is_empty, may_be_empty = True, may_be_empty or is_empty
        if depth < 0:
            return hopeless
        place, before = end, kind
    return max(most, loops), may_be_empty or is_empty


def _end_of_class(expression: str, begin: int) -> int:
    """Behind the bracket that closes the class; 0 where none does."""
    depth, place = 0, begin
    while place < len(expression):
        if expression[place] == "\\":
            place += 1
        elif expression[place] == "[":
            depth += 1
        elif expression[place] == "]" and place > begin + 1:
            depth -= 1
            if not depth:
                return place + 1
        place += 1
    return 0
