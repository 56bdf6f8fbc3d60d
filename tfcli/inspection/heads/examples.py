"""The sentence around a query and the key that it looks at."""

import re
from collections.abc import Sequence

from tfcli.inspection.heads.material import surface
from tfcli.inspection.kinds import key_ids, query_ids
from tfcli.inspection.reading import Inputs
from tfcli.records.attention import AttentionKind
from tfcli.records.heads import HeadExample
from tfcli.runs.load import LoadedRun

_BREAK = re.compile(r"(?<=[.!?…。！？])[\"”']?\s+|(?<=[.!?][\"”'])\s+|\n+")
_BEFORE, _BEHIND = 60, 60  # characters, where no sentence begins or ends nearer

Spans = list[tuple[int, int]]


def example(run: LoadedRun, kind: AttentionKind, inputs: Inputs, query: int, key: int, weight: float) -> HeadExample:
    """What stands around a row's query and a key."""
    decode = run.tokenizer.decode
    if kind == "cross":
        text, [at], _ = _around(run, query_ids(kind, inputs), (query,))
        source, [on], _ = _around(run, key_ids(kind, inputs), (key,))
    else:
        source = None
        text, [at, on], prompt = _around(run, key_ids(kind, inputs), (query, key))
    if inputs.encoder is None or inputs.decoder is None:
        return HeadExample(text, source, at, on, weight, prompt, None)
    return HeadExample(text, source, at, on, weight, decode(inputs.encoder), decode(inputs.decoder))


def _around(run: LoadedRun, ids: Sequence[int], places: Sequence[int]) -> tuple[str, Spans, str]:
    """From the beginning of a sentence to the end of one, where these places stand in it, and what one types for it."""
    told = surface(run.tokenizer, ids)
    spans = [told.spans[place] for place in places]
    low, high = min(start for start, _ in spans), max(end for _, end in spans)
    breaks = [(0, 0), *((match.start(), match.end()) for match in _BREAK.finditer(told.text))]
    start = max(end for _, end in breaks if end <= low)
    if start < low - _BEFORE:
        start = told.text.find(" ", low - _BEFORE, low) + 1 or low - _BEFORE
    end = min((begin for begin, _ in breaks if begin >= high), default=len(told.text))
    if end > high + _BEHIND:
        end = max(told.text.rfind(" ", high, high + _BEHIND), high)
    inside = [token for token, (first, last) in zip(ids, told.spans, strict=True) if first < end and last > start]
    room = run.config.model.max_seq_len - len(run.config.roles.text(()))  # a piece of a document lacks its marks
    inside = inside[-room:] if max(places) == len(ids) - 1 else inside[:room]
    before = "… " if start and start not in [end for _, end in breaks] else ""
    behind = " …" if end < len(told.text) and end not in [begin for begin, _ in breaks] else ""
    shift = len(before) - start
    text = before + told.text[start:end] + behind
    return text, [(first + shift, last + shift) for first, last in spans], run.tokenizer.decode(inside).strip()
