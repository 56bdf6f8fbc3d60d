"""Activation patching as maps of layers and positions, of layers and heads, and the heads with the largest effects."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.heatmap import NumberMap, signed
from tfcli.draw.numbers import plural
from tfcli.draw.safe import token_label
from tfcli.draw.tables import CsvTable, dim, heading
from tfcli.inspection.patching import HEADS, KINDS, SUBLAYERS, PatchedSide, Patching

_RANKED = 4
_LEAST = 0.005  # what two digits show
_MEANING = "share of the way to the other text's answer"


class PatchingView(View[Patching]):
    """The two texts, then maps by position, then the heads; or of one head, where its change goes."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        r = self.record
        token, against = map(token_label, (r.token, r.against))
        what = f"Path patching from {r.sender}" if r.sender else "Activation patching"
        patched, other = ("clean", "corrupt")[:: 1 if r.direction == "noising" else -1]
        yield from heading(
            f"{what} · {token} against {against} · {r.direction}",
            f"logit of {token} less that of {against} at position {r.position}: clean {r.clean:+.2f}, "
            f"corrupt {r.corrupt:+.2f}",
            f"each number: one part of the pass on the {patched} text is as on the {other} one",
            "0: the answer stays · 1: it is the other text's · parts can overshoot, or work against each other",
        )
        for side in r.sides:
            yield Text("")
            yield from (_paths if r.sender else _side)(r, side)
        directly = f"To the logits by no later part: {signed(r.direct or 0.0)}."
        yield Text(f"\n{directly if r.sender else _deciding(r)}")
        if largest := ", ".join(_largest(r)[:_RANKED]):
            yield Text(f"Largest {'ways on' if r.sender else 'heads (output pattern values)'}: {largest}")
        stream = "" if r.sender else "residual n: the stream before layer n · "
        yield from dim(f"{stream}below {r.rounding:.1g} logits is rounding, and reads 0 · one pair of texts, no mean")


def _side(r: Patching, side: PatchedSide) -> Iterator[Text | NumberMap]:
    """A row a position, and below it a row a layer of the heads."""
    own = [one for one in r.grids if one.side == side.side]
    name = f"{side.side}, " if len(r.sides) > 1 else ""
    parts = [one for one in own if one.kind is None]
    values = np.concatenate([one.effects for one in parts]).T
    seen = (np.abs(values) >= _LEAST).any(1)
    seen[side.differing] = True
    moved = np.flatnonzero(seen)
    small = f"below {_LEAST} in every layer: {len(values) - len(moved)} of {plural(len(values), 'position')}"
    yield from heading(f"{name}position by layer", *[small] * (len(moved) < len(values)))
    clean, corrupt = ([token_label(token) for token in text] for text in (side.clean, side.corrupt))
    exchanged = {place: f" → {corrupt[place]}" for place in side.differing}
    labels = tuple(f"{place:>3} {clean[place]}{exchanged.get(place, '')}" for place in moved.tolist())
    layers = tuple(str(layer) for one in parts for layer in range(len(one.effects)))
    groups = tuple((SUBLAYERS[one.part], len(one.effects)) for one in parts)
    if len(moved):
        yield NumberMap(values[moved], _MEANING, labels, layers, groups, scale=1.0)
    for kind in dict.fromkeys(one.kind for one in own if one.kind is not None):
        of_kind = [one for one in own if one.kind == kind]
        yield from heading(f"\n{KINDS[kind] if name else 'head'} by layer, all positions at once")
        groups = tuple((HEADS[one.part], one.effects.shape[1]) for one in of_kind)
        heads = tuple(str(head) for _, heads in groups for head in range(heads))
        yield _by_layer(np.concatenate([one.effects for one in of_kind], 1), heads, groups)


def _paths(r: Patching, side: PatchedSide) -> Iterator[Text | NumberMap]:
    """A row a layer, a column a receiver."""
    own = [one for one in r.grids if one.side == side.side and one.kind is not None]
    for number, one in enumerate(own):
        columns = tuple(map(str, range(one.effects.shape[1])))
        columns = columns if one.kind == "cross" else (*columns[:-1], "MLP")
        yield from heading("\n" * min(number, 1) + f"by way of {KINDS[str(one.kind)]}, layer by layer")
        yield _by_layer(one.effects, columns)


def _by_layer(
    effects: NDArray[np.float32], columns: tuple[str, ...], groups: tuple[tuple[str, int], ...] = ()
) -> NumberMap:
    rows = tuple(f"layer {layer}" for layer in range(len(effects)))
    return NumberMap(effects, _MEANING, rows, columns, groups, scale=1.0)


def _largest(r: Patching) -> list[str]:
    """Heads (or receivers) with an effect, the largest first, in words and figures."""
    parts = ("paths",) if r.sender else tuple(HEADS)
    cells = [
        (-abs(float(one.effects[layer, head])), number, layer, head)
        for number, one in enumerate(r.grids)
        if one.part == parts[0]
        for layer, head in np.argwhere(np.abs(np.nan_to_num(one.effects)) >= _LEAST).tolist()
    ]
    found, several = [], len(r.sides) > 1
    for _, number, layer, head in sorted(cells):
        one = r.grids[number]
        name = one.name(layer, head, sides=several)
        alike = {like.part: like.effects[layer, head] for like in r.grids if like.kind == one.kind}
        found.append(" ".join((name, *(signed(alike[part]) for part in parts))))  # type: ignore[index]
    return found


def _deciding(r: Patching) -> str:
    """The position of the input that decides most, among those that differ."""
    inputs = [
        (float(one.effects[0, place]), side, place)
        for one in r.grids
        for side in r.sides
        if one.part == "residual" and one.side == side.side
        for place in side.differing
    ]
    effect, side, place = max(inputs, key=lambda found: abs(found[0]))
    exchanged = f"{token_label(side.clean[place])} → {token_label(side.corrupt[place])} at {place}"
    if len(inputs) == 1:  # which by itself is the whole other text
        return f"The texts differ at one position: {exchanged}."
    return f"Of {len(inputs)} positions that differ: {exchanged} decides most, {signed(effect)} by itself."


def patching_table(record: Patching) -> CsvTable:
    """A row a part, layer and position or head; its tokens where it is a position."""
    sides = {side.side: side for side in record.sides}
    rows = (
        (one.part, one.side, one.kind, layer, column)
        + ((sides[one.side].clean[column], sides[one.side].corrupt[column]) if one.kind is None else (None, None))
        + (float(one.effects[layer, column]),)
        for one in record.grids
        for layer, column in np.argwhere(~np.isnan(one.effects)).tolist()
    )
    return CsvTable(("part", "side", "kind", "layer", "position_or_head", "clean", "corrupt", "effect"), rows)
