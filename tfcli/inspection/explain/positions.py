"""Positions step by step: wavelengths, angles, the table, and how it joins a text's embeddings."""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from tfcli.inspection.explain.notation import VECTORS, Notation, notation, numbered
from tfcli.inspection.explain.position_notations import SPELLINGS, slips, worked
from tfcli.inspection.explain.toy import toy_words
from tfcli.inspection.passes import record_attention
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.layers.positions import PositionSignal
from tfcli.layers.sinusoidal import sinusoidal_encoding
from tfcli.recipe.model import ModelSection
from tfcli.records.explain import Explanation, Matrix, Measure, NotationName, Step
from tfcli.records.position_notations import PositionExplanation

_WORKED = 16
"""Numbers up to which all are worked out."""


def explain_positions(
    tokens: Sequence[str],
    embedded: Tensor,
    label: str,
    name: NotationName = "bishop",
    *,
    base: float = 10_000.0,
    length: int | None = None,
    own: Tensor | None = None,
    remark: str = "",
) -> PositionExplanation:
    """The table for positions 0, 1, 2 …, worked out, and joined to a text in every way there is.

    Args:
        label: whose embeddings they are.
        length: rows of the table; None: as many as there are tokens.
        own: what a run adds to them, instead of the formula's numbers; `remark` says what it does.

    Shape:
        embedded: (T, D); own: (T, D)
    """
    n, size = notation(name), embedded.shape[1]
    rows = len(tokens) if length is None else length
    table = sinusoidal_encoding(rows, size, base)
    added = sinusoidal_encoding(len(tokens), size, base).to(embedded) if own is None else own
    steps = (
        _wavelengths(size, base),
        _angles(n, rows, size, base),
        _table(n, name, table, base),
        _joined(n, tokens, embedded, added, remark),
        _concatenated(n, tokens, embedded, base),
        _into_queries_and_keys(n, embedded, added),
    )
    title = "Positions: one function, written in several ways"
    subtitle = f"{label}, base {base:g}, {rows} positions"
    return PositionExplanation(SPELLINGS, Explanation(title, subtitle, name, steps, slips(size, base)))


def _wavelengths(size: int, base: float) -> Step:
    pairs = math.ceil(size / 2)
    shown = range(pairs) if pairs <= 4 else (0, 1, 2, pairs - 1)
    measures = []
    for pair in shown:
        step = base ** (-2 * pair / size)
        both = f"dimensions {2 * pair} and {2 * pair + 1}" if 2 * pair + 1 < size else f"dimension {2 * pair} alone"
        measures.append(Measure(f"pair {pair}", step, f"radians a position: {both}, {2 * math.pi / step:,.4g} a turn"))
    return Step("Every pair of dimensions turns at its own speed", "ω_j = 1 / L^(2j/D), pair j", (), tuple(measures))


def _angles(n: Notation, rows: int, size: int, base: float) -> Step:
    even = torch.arange(size) // 2 * 2
    angles = torch.arange(rows)[:, None] / base ** (even.double() / size)
    matrix = n.matrix("positions", angles, numbered(rows), numbered(size), VECTORS)
    return Step(
        "Angles: position times speed",
        "n ω_j",
        (Matrix("angles", matrix.values, matrix.rows, matrix.columns, matrix.axes),),
        note="Both dimensions of a pair have the same angle.",
    )


def _table(n: Notation, name: NotationName, table: Tensor, base: float) -> Step:
    rows, size = table.shape
    if rows * size <= _WORKED:
        cells = [(row, i) for row in range(rows) for i in range(size)]
    else:
        cells = [(min(1, rows - 1), i) for i in range(min(size, 4))]
    lines = "\n".join(worked(name, row, i, size, base) for row, i in cells)
    return Step(
        "Sine in even dimensions, cosine in odd ones",
        f"{n.symbol('positions')}: the sine or the cosine of each angle",
        (n.matrix("positions", table, numbered(rows), numbered(size), VECTORS),),
        note=lines,
    )


def _joined(n: Notation, tokens: Sequence[str], embedded: Tensor, added: Tensor, remark: str) -> Step:
    dimensions = numbered(embedded.shape[1])
    sums = {"embedded": embedded, "positions": added, "input": embedded + added}
    return Step(
        "Added to the embeddings",
        f"{n.symbol('input')} = {n.symbol('embedded')} + {n.symbol('positions')}",
        tuple(n.matrix(name, values, tokens, dimensions, VECTORS) for name, values in sums.items()),
        note=remark,
    )


def _concatenated(n: Notation, tokens: Sequence[str], embedded: Tensor, base: float) -> Step:
    """[x; p] W = x W_x + p W_p, with W_x the first rows of W and W_p the others."""
    size = embedded.shape[1]
    part = max(1, size // 4)
    positions = sinusoidal_encoding(len(tokens), part, base).to(embedded)
    joined = torch.cat((embedded, positions), dim=1)
    weight = _weights(size + part, size).to(embedded)
    apart = embedded @ weight[:size] + positions @ weight[size:]
    matrix = n.matrix("input", joined, tokens, numbered(size + part), VECTORS)
    axes = tuple(f"({axis} + {part})" if axis == n.axes["model"] else axis for axis in matrix.axes)
    difference = _largest(joined @ weight - apart)
    return Step(
        "Or concatenated",
        f"({n.symbol('embedded')}, {n.symbol('positions')}): {size} + {part} numbers a token",
        (Matrix("concatenated", matrix.values, matrix.rows, matrix.columns, axes),),  # type: ignore[arg-type]
        (Measure("difference", difference, "of [x; p] W and x W_x + p W_p: one matrix is two, and their results add"),),
        "Nothing is overlaid, and every matrix behind it has more rows (model.position_merge = 'concat').",
    )


def _into_queries_and_keys(n: Notation, embedded: Tensor, added: Tensor) -> Step:
    """Q and K are projected from X + P, V from X (model.position_merge = "query_key")."""
    attention = _attention(embedded.shape[1])
    after = _values(attention, embedded) + added - _values(attention, embedded + added)
    x, p = n.symbol("embedded"), n.symbol("positions")
    query, key, values = (n.symbol(name) for name in ("query", "key", "value"))
    about = f"difference in {values} of adding {p} there and before it"
    shape = " × ".join(str(size) for size in embedded.shape[:: -1 if n.columns_are_tokens else 1])
    note = (
        "What is mixed is then free of positions; which tokens are mixed is not (model.position_merge = 'query_key')."
    )
    if len(embedded) < 2:
        note += f"\nChanges of {values} with the places of tokens take two tokens at least: this text has one."
    return Step(
        "Or into queries and keys alone",
        f"{query} and {key} from {x} + {p}, {values} from {x}, in every layer; each {shape}",
        (),
        (*_moved(n, attention, embedded, added), Measure("after the projection", _largest(after), about)),
        note,
    )


def _moved(n: Notation, attention: MultiHeadAttention, embedded: Tensor, added: Tensor) -> Iterator[Measure]:
    """How far values move when every token takes the place of the one before it; one token has none to take."""
    if len(embedded) < 2:
        return
    moved = added.roll(1, dims=0)
    to_all = _values(attention, embedded + moved) - _values(attention, embedded + added)
    to_two = _values(attention, embedded, moved) - _values(attention, embedded, added)
    x, p, values = (n.symbol(name) for name in ("embedded", "positions", "value"))
    yield Measure("added to all", _largest(to_all), f"change of {values} when the positions of the tokens change")
    about = f"the same: {values} is projected from {x}, without {p}"
    yield Measure("queries and keys alone", _largest(to_two), about)


def _attention(size: int) -> MultiHeadAttention:
    """One head with random weights."""
    attention = MultiHeadAttention(ModelSection(d_model=size, num_heads=1, positions="none"))
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.copy_(_weights(size, size))
    return attention.eval()


@torch.inference_mode()
def _values(attention: MultiHeadAttention, x: Tensor, added: Tensor | None = None) -> Tensor:
    """V of an attention whose queries and keys are told positions.

    Shape:
        x, added: (T, D), and the same is returned
    """
    return record_attention(attention, x[None], positions=PositionSignal(added=added)).value[0]


def _largest(x: Tensor) -> float:
    return float(x.abs().max())


def _weights(rows: int, columns: int) -> Tensor:
    """A random matrix that keeps the size of what it multiplies."""
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(1)) / rows**0.5


def toy_embeddings(text: str, size: int, seed: int = 0) -> tuple[tuple[str, ...], Tensor]:
    """The words of a text with a random vector for each kind of word.

    Raises:
        UsageError: there are no words, or more than a toy reads.

    Shape:
        returns: (T, D)
    """
    words = toy_words(text)
    kinds = {word: number for number, word in enumerate(dict.fromkeys(words))}
    table = torch.randn(len(kinds), size, generator=torch.Generator().manual_seed(seed))
    return words, table[[kinds[word] for word in words]]
