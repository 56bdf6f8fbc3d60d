"""Attention rollout, mean heads, one layer or head, a part of a text: what can be chosen of a text's attention. The
command line, the explorer and the Python API use the same names for it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tfcli.errors import UsageError, shortened
from tfcli.files import packaged
from tfcli.inspection.attention import AttentionKind, AttentionRecord
from tfcli.inspection.words import attention_in_words
from tfcli.records.arrays import frozen
from tfcli.records.heads import HeadPlace, read_head, require_head
from tfcli.records.roles import MASK_NAMES

if TYPE_CHECKING:
    from tfcli.inspection.passes import Inputs
    from tfcli.runs.load import LoadedRun

_RANGE = re.compile(r"(-?\d{1,18})?:(-?\d{1,18})?")
ROLLOUT = "R₀ = I; Rₗ = Ãₗ · Rₗ₋₁, Ã = (A + I) / 2, A the mean of a layer's heads"
_COMPARISONS = ("against_head", "against_text", "against_run", "against_checkpoint")
_REFUSED = [(one["option"], one["others"], one["why"]) for one in packaged(__file__, "choice.toml")["refused"]]


def positions_of(option: str, text: str, count: int) -> range:
    """The positions that "a:b" means, from a up to and without b; from the end where negative, as in Python. A
    UsageError where it is no range, or empty, or not within 0 to `count`."""
    found = _RANGE.fullmatch(text.strip())
    if not found:
        problem = f"{option} {shortened(text)!r} is no range"
        raise UsageError(problem, f"write {option} a:b, from position a up to b, such as 0:20")
    sides = (int(side or default) for side, default in zip(found.groups(), (0, count), strict=True))
    start, stop = (side + count * (side < 0) for side in sides)
    lies = 0 <= start <= count and 0 <= stop <= count
    if not lies or start >= stop:
        problem = f"holds nothing: there are {count}" if lies else f"lies outside the {count} there are"
        raise UsageError(f"{option} {text} {problem}", f"choose within 0:{count}")
    return range(start, stop)


def cropped(
    record: AttentionRecord, rows: str | None = None, columns: str | None = None, first: int = 0
) -> AttentionRecord:
    """The record with these queries and keys ("a:b", which `positions_of` reads; None: all) alone; each keeps its
    position. So many `first` keys stay, whatever `columns` says."""
    queries, keys = len(record.query_tokens), len(record.key_tokens)
    of_rows = range(queries) if rows is None else positions_of("--rows", rows, queries)
    of_columns = range(keys) if columns is None else positions_of("--columns", columns, keys)
    kept = [*range(min(first, keys)), *(key for key in of_columns if key >= first)]
    if len(of_rows) == queries and len(kept) == keys:
        return record
    cells = np.ix_(of_rows, kept)
    return replace(
        record.each(lambda values: frozen(values[:, :, *cells])),
        query_tokens=_at(record.query_tokens, of_rows),
        key_tokens=_at(record.key_tokens, kept),
        mask=None if record.mask is None else frozen(record.mask[cells], np.bool_),
        query_positions=_at(record.rows, of_rows) if len(of_rows) < queries else record.query_positions,
        key_positions=_at(record.columns, kept) if len(kept) < keys else record.key_positions,
        next_tokens=_at(record.next_tokens, of_rows) if record.next_tokens else (),
        next_predicted=record.next_predicted and of_rows[-1] == queries - 1,
    )


def row_of(record: AttentionRecord, name: str, option: str = "--query") -> int:
    """The query that is spelled so ("bank", or "bank:2" for the second of them): a token as tables label it, else a
    word, which is its last token. A UsageError where there is none, or there are several, whose names it lists."""
    places = _named(record, name)
    word, _, number = name.rpartition(":")
    if not places and number.isdecimal() and (of_word := _named(record, word)):
        if not 1 <= int(number[:18]) <= len(of_word):
            problem = f"The text has {word!r} {len(of_word)} times, and no {name}"
            raise UsageError(problem, f"choose {_choices(word, of_word)}")
        return of_word[int(number) - 1]
    if len(places) > 1:
        raise UsageError(f"{option} {name!r} is there {len(places)} times", f"choose {_choices(name, places)}")
    if not places:
        words = [word.text for word in record.query_words] or [token.strip() for token in record.query_tokens]
        listed = ", ".join(dict.fromkeys(word for word in words if word.strip()))
        raise UsageError(f"{option} {shortened(name)!r} is no word of the text", f"choose one of {listed}")
    return places[0]


def _named(record: AttentionRecord, name: str) -> list[int]:
    if name in MASK_NAMES and name not in record.query_tokens:
        name = next((one for one in MASK_NAMES if one in record.query_tokens), name)
    spelled = [(token, token.strip(), token.replace(" ", "·")) for token in record.query_tokens]
    tokens = [at for at, spellings in enumerate(spelled) if name in spellings]
    return tokens or [word.places[-1] for word in record.query_words if word.text == name]


def _choices(name: str, places: list[int]) -> str:
    return ", ".join(f"{name}:{number} (position {at})" for number, at in enumerate(places, 1))


def _at(items: tuple[Any, ...], positions: "range | list[int]") -> tuple[Any, ...]:
    return tuple(items[position] for position in positions)


def focused(record: AttentionRecord, layer: int | None = None, head: int | None = None) -> AttentionRecord:
    """Return the record with the layer and the head to look at first.

    What is left open is the place that says most about the text: with the largest mean (over queries) of the strongest
    weight where weights are `telling`; in cross-attention, with the sharpest rows on words. A `head` without a `layer`
    is looked for in every layer.

    Raises:
        UsageError: The record has no such layer or head.
    """
    num_layers, num_heads = record.weights.shape[:2]
    require_head(HeadPlace(0 if layer is None else layer, head), num_layers, num_heads)
    left = record.narrowed(layer, head)
    strongest = (left.weights * left.telling).max(axis=-1).mean(axis=-1)
    found = np.unravel_index(strongest.argmax(), strongest.shape)
    return replace(record, focus=(int(found[0]) + (layer or 0), int(found[1]) + (head or 0)))


def require_place(name: str, index: int | None, count: int) -> None:
    """Refuse a layer or a neuron that a model with `count` of them does not have, by a UsageError."""
    if index is not None and index >= count:
        raise UsageError(f"There is no {name} {index}: the model has {count}", f"choose 0 to {count - 1}")


def averaged(record: AttentionRecord, over: Literal["layer", "all"]) -> AttentionRecord:
    """The heads of each layer, or all heads, as their mean. Shape: weights (L, H, T, S) to (L or 1, 1, T, S)."""
    layers, heads = record.weights.shape[:2]
    of_heads = f"{heads} head{'' if heads == 1 else 's'}"
    axes, names = (1,) if over == "layer" else (0, 1), [f"layer {layer}, mean of {of_heads}" for layer in range(layers)]
    if over == "all":
        names = [f"mean of {layers} layer{'' if layers == 1 else 's'} × {of_heads}"]
    return _combined(record, record.weights.mean(axis=axes, keepdims=True, dtype=np.float64), names)


def rollout(record: AttentionRecord) -> AttentionRecord:
    """How much of each token's vector comes from each token of the text, by every layer's end. A residual connection
    carries half, the attention's mean head the other half: Ã = ½ A + ½ I, its rows renormalised (without residuals Ã =
    A); the product over the layers passes shares on (Abnar and Zuidema 2020, section 3). The entry of layer l is the
    product of the layers 0 to l. Shape: weights (L, H, T, T) to (L, 1, T, T). A UsageError of cross-attention."""
    if record.kind == "cross":
        problem = "Rollout multiplies the layers of one stack, and cross-attention looks into another one"
        raise UsageError(problem, "choose --kind encoder_self or decoder_self")
    mean = record.weights.mean(axis=1, dtype=np.float64)
    carried = (mean + np.eye(mean.shape[-1])) / 2 if record.residuals else mean
    carried /= np.maximum(carried.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
    products = np.stack(list(accumulate(carried, lambda below, layer: layer @ below)))[:, None]
    names = ["rollout of layer 0", *(f"rollout through layers 0 to {layer}" for layer in range(1, len(mean)))]
    # What a window hides in one layer is reached through two.
    formula = ROLLOUT if record.residuals else ROLLOUT.replace("(A + I) / 2", "A")
    return replace(_combined(record, products, names), mask=None, formula=formula)


def _combined(record: AttentionRecord, weights: NDArray[np.float64], names: list[str]) -> AttentionRecord:
    focus = (len(names) - 1, 0)
    return replace(record, weights=frozen(weights), focus=focus, scores=None, bias=None, names=tuple(names), formula="")


@dataclass(frozen=True)
class AttentionChoice:
    """What is shown of a text's attention, each field named like its option of `tfcli inspect attention`.

    Attributes:
        layer: The layer, from 0.
        head: The head as "1.0" (layer 1, head 0), or its number in `layer`. Both are numbers once the choice is made.

    Raises:
        UsageError: Two of the options do not go together, or the head is written differently.
    """

    layer: int | None = None
    head: int | str | None = None
    average: Literal["layer", "all"] | None = None
    rollout: bool = False
    scores: bool = False
    top_k: int | None = None
    rows: str | None = None
    columns: str | None = None
    first: int = 0
    query: str | None = None
    pairs: str | None = None
    words: bool = False
    against_head: str | None = None
    against_text: str | None = None
    against_run: Path | None = None
    against_checkpoint: str | None = None
    evolution: bool = False
    target: str | None = None
    beam: int | None = None
    max_new_tokens: int | None = None
    kind: AttentionKind | None = None

    def __post_init__(self) -> None:
        given = self.given()
        for name, others, why in _REFUSED:
            both = [other for other in others if other in given]
            if name in given and both:
                raise UsageError(f"{_option(name)} {why}", f"leave {_option(both[0])} or {_option(name)} out")
        if self.average == "all" and self.layer is not None:
            raise UsageError("--average all takes all layers together", "choose --average layer, or leave --layer out")
        if len(self.compared) > 1:
            raise UsageError(f"{' and '.join(map(_option, self.compared))} are two comparisons", "choose one of them")
        if self.max_new_tokens is not None and self.beam is None:
            raise UsageError("--max-new-tokens is for the text that --beam finds", "add --beam N, or leave it out")
        place = read_head(self.layer, self.head)
        object.__setattr__(self, "layer", place.layer)
        object.__setattr__(self, "head", place.head)

    @property
    def place(self) -> HeadPlace:
        """The layer and the head, as numbers."""
        return read_head(self.layer, self.head)

    def given(self) -> dict[str, object]:
        """What is asked for, by its field; what is left as it is by default is not."""
        return {one.name: value for one in fields(self) if (value := getattr(self, one.name)) != one.default}

    def options(self) -> list[str]:
        """The words of a command line that choose the same."""
        given = self.given()
        if self.place.layer is not None and self.place.head is not None:
            del given["layer"]
            given["head"] = f"{self.place.layer}.{self.place.head}"
        words = []
        for name, value in given.items():
            words.append(_option(name))
            if value is not True:
                words.append(str(value))
        return words

    @property
    def compared(self) -> list[str]:
        """The comparisons that are asked for."""
        return [name for name in _COMPARISONS if getattr(self, name) is not None]

    def require_another(self, run: Path, text: str, checkpoint: str) -> None:
        """Refuse to compare a text, a run or its weights with themselves, by a UsageError."""
        other = self.against_run
        same = {
            "--against-text": self.against_text == text,
            "--against-run": other is not None and other.resolve() == run.resolve() and checkpoint == "best",
            "--against-checkpoint": self.against_checkpoint == checkpoint,
        }
        if option := next((option for option, is_same in same.items() if is_same), None):
            raise UsageError(f"{option} names what it is compared with, and all differences are 0", "name another one")

    def read(self, run: "LoadedRun", text: str) -> "Inputs":
        """How a run reads a text: with the target that is given, or the one that the beam search finds."""
        from tfcli.inspection.passes import read_text

        return read_text(run, text, self.target, beam=self.beam, max_new_tokens=self.max_new_tokens)

    def of(self, record: AttentionRecord) -> AttentionRecord:
        """What is shown of a record: its heads as they are or in one, its pieces as words, a part of its text, one head
        in focus; a UsageError where there is no such layer, head, word or part."""
        combined = self.rollout or self.average is not None
        if combined:
            record = rollout(record) if self.average is None else averaged(record, self.average)
            require_place("layer", self.layer, record.weights.shape[0])
            record = replace(record, focus=(record.focus[0] if self.layer is None else self.layer, 0))
        if self.words:
            record = attention_in_words(record)
        if self.query is not None:
            row = row_of(record, self.query)
            record = cropped(record, f"{row}:{row + 1}")
        if not combined:
            num_layers, num_heads = record.weights.shape[:2]
            record = focused(record, *require_head(self.place, num_layers, num_heads))
        if not self.scores:
            record = replace(record, scores=None, bias=None)
        return cropped(record, self.rows, self.columns, self.first)


def choice_of(settings: Mapping[str, Any]) -> AttentionChoice:
    """The choice that settings by name make, as a call from Python has them.

    Raises:
        UsageError: There is no such setting, or two of them exclude each other.
    """
    names = [setting.name for setting in fields(AttentionChoice)]
    unknown = [name for name in settings if name not in names]
    if unknown:
        raise UsageError(f"attention has no setting {unknown[0]!r}", f"choose from {', '.join(names)}")
    return AttentionChoice(**settings)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
