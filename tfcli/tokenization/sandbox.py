"""Sandbox of a tokenizer: what its regular expressions and replacements do to texts, tried in a child process with its
own limits, ``python -m tfcli.tokenization.sandbox``: tokenizer and texts in, as JSON; what is wrong or nothing out."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from tokenizers import Tokenizer as Backend

from tfcli.errors import TfcliError
from tfcli.machine import PIPE, TimeoutExpired, child
from tfcli.tokenization.chat import limit_process

_SECONDS, _BYTES = 5, 1 << 30
_PATIENCE = 120  # seconds on the clock, in which a busy machine surely has spent those of the processor
_LENGTH = 2048
_GROWTH = 32  # characters that one may become
_UNITS, _NEEDED = 48, 8
_USUAL = ("a", "A", "1", " ", "\n", "é", "日", "!")
_NOWHERE = "\ue000"  # a character, of the private use area, that no expression expects
_APPLIED: dict[str, Callable[[Backend, str], str]] = {
    "normalizer": lambda backend, text: backend.normalizer.normalize_str(text),
    "pre_tokenizer": lambda backend, text: "".join(cut for cut, _ in backend.pre_tokenizer.pre_tokenize_str(text)),
    "decoder": lambda backend, text: backend.decoder.decode([text]),
}
_MODEL = {"type": "WordLevel", "vocab": {"<unk>": 0}, "unk_token": "<unk>"}


def try_out(state: Mapping[str, Any], doubtful: Sequence[str], chains: Mapping[str, Sequence[Any]]) -> None:
    """Apply the tokenizer of a tokenizer.json to repetitions of what its doubtful expressions, patterns and
    replacements are made of; `chains` are the components of its normalizer, pre_tokenizer and decoder. ValueError where
    it fails, takes 5 s or 1 GB for texts of 2,000 characters, or makes them very long; TfcliError: it was not tried."""
    bare = {**state, "model": _MODEL, "post_processor": None}
    asked = json.dumps({"state": bare, "chains": chains, "texts": list(_texts(doubtful))})
    answer, errors, is_late = "", "", False
    with child("tfcli.tokenization.sandbox", stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
        try:
            answer, errors = process.communicate(asked, timeout=_PATIENCE)
        except TimeoutExpired:
            is_late = True
    last = (errors.splitlines() or [""])[-1]
    if is_late or process.returncode < 0 or last == "MemoryError":
        raise ValueError(f"a text of {_LENGTH:,} characters takes it more than {_SECONDS} seconds or too much memory")
    if process.returncode:
        problem = f"A tokenizer could not be tried: {last or f'exit code {process.returncode}'}"
        raise TfcliError(problem, "try again, or use another tokenizer")
    if answer:
        raise ValueError(answer)


def _texts(doubtful: Sequence[str]) -> Iterator[str]:
    """Each unit again and again, and behind it what lets a match fail late, or what it may need to begin at all."""
    characters = list(dict.fromkeys(one for text in doubtful for one in text if one not in "\\()[]{}*+?|^$"))
    pairs = ["".join(pair) for pair in product(characters[:6], repeat=2)]
    words = [word for text in doubtful for word in (text, *re.split(r"\W+", text))]
    units = list(dict.fromkeys(unit for unit in (*_USUAL, *characters[:12], *words[:12], *pairs) if unit))
    needed = "".join(characters[-_NEEDED:])
    for unit, last in product(units[:_UNITS], dict.fromkeys(("", _NOWHERE, needed + _NOWHERE, _NOWHERE + needed))):
        yield (unit * -(-_LENGTH // len(unit)))[:_LENGTH] + last


def _problem(state: dict[str, Any], chains: Mapping[str, Sequence[Any]], texts: Sequence[str]) -> str:
    bare = state | {**dict.fromkeys(_APPLIED), "added_tokens": []}
    for part, components in chains.items():
        steps = [Backend.from_str(json.dumps(bare | {part: component})) for component in components]
        for text in texts:
            made = text
            for step in steps:
                made = _APPLIED[part](step, made)
                if len(made) > _GROWTH * len(text):
                    return f"it makes {len(made):,} characters of {len(text):,}"
    whole = Backend.from_str(json.dumps(state))
    for text in texts:
        whole.encode(text, add_special_tokens=False)
    return ""


if __name__ == "__main__":
    limit_process(_SECONDS, _BYTES)
    try:
        found = _problem(**json.loads(sys.stdin.read()))
    except BaseException as error:  # a panic of the library's Rust code is no Exception
        found = " ".join(str(error).split()) or type(error).__name__
    sys.stdout.write(found)
