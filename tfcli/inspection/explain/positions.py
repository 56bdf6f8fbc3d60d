"""Sinusoidal positions step by step: wavelengths, angles, the table, and how it joins a text's embeddings."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tfcli.inspection.explain import Explanation, Measure, NotationName, PositionExplanation, Spelling, Step
from tfcli.inspection.explain.subject import Notation, Subject, lectures, notation, numbered, toy_words
from tfcli.inspection.passes import record_attention, text_ids, tower
from tfcli.inspection.positions.compute import fitted
from tfcli.layers.attention import Span
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.layers.positions import PositionSignal, sinusoidal_encoding
from tfcli.recipe.model import ModelSection
from tfcli.runs.load import LoadedRun

SPELLINGS = tuple(
    Spelling(**{"notation": None, **one, "formulas": tuple(one["formulas"])}) for one in lectures()["spellings"]
)


def worked(name: NotationName, n: int, i: int, size: int, base: float) -> str:
    """One number of the table, as the notation writes it; those without a formula take Bishop's.

    >>> worked("bishop", 2, 3, 4, 10_000.0)
    'r_2,3 = cos(2 / 10000^(2/4)) = cos 0.0200 = 0.9998'
    """
    pair, is_odd = divmod(i, 2)
    angle = n / base ** (2 * pair / size)
    wave, value = ("cos", math.cos(angle)) if is_odd else ("sin", math.sin(angle))
    exponent = f"2·{pair}/{size}" if name == "inf721" else f"{2 * pair}/{size}"
    cell = lectures()["cells"][name].format(n=n, i=i)
    return f"{cell} = {wave}({n} / {base:g}^({exponent})) = {wave} {angle:.4f} = {value:.4f}"


def slips(size: int, base: float, name: NotationName) -> tuple[str, ...]:
    """What a lecture prints otherwise or leaves open, and what all do, with what follows from it at this size."""
    undefined, told = undefined_dimensions(size), lectures()["position_slips"]
    listed = ", ".join(map(str, undefined[:8])) + (", …" if len(undefined) > 8 else "")
    missing = f"Read literally, {len(undefined)} of {size} dimensions get no number ({listed}): " if undefined else ""
    left = {"from_zero": "", "from_one": ""}
    if name == "bishop":
        left = {"from_zero": _left(size, base, 0), "from_one": _left(size, base, 1)}
    own = [told[name].format(missing=missing, **left)] if name in told else []
    return *own, told["letters"], told["odd"] + (f": here dimension {size - 1}." if size % 2 else ".")


def _left(size: int, base: float, first: int) -> str:
    """What `left_by_turn` leaves, in words where it is rounding: its digits differ between processors."""
    share = left_by_turn(size, base, first)
    return "only rounding" if share < 1e-5 else f"{share:.2g}"


def undefined_dimensions(size: int) -> list[int]:
    """Dimensions without a formula where INF721's "if i is even" is taken of the pair index."""
    defined = {2 * pair + pair % 2 for pair in range((size + 1) // 2)}
    return [i for i in range(size) if i not in defined]


def left_by_turn(size: int, base: float, first: int = 0) -> float:
    """What the best linear map from r_n to r_{n+1} leaves, by |r_{n+1}|; with i from 1, cos n has no partner."""
    dimensions, positions = np.arange(first, size + first), np.arange(max(64, 6 * size))[:, None]
    angles = positions / base ** ((dimensions - dimensions % 2) / size)
    table = np.where(dimensions % 2, np.cos(angles), np.sin(angles))
    return fitted(table.astype(np.float32).astype(np.float64), 1)[1]


@dataclass(frozen=True)
class Embedded:
    """A text's embeddings before positions join them: `vectors` (T, D), with fewer columns where positions are
    concatenated. `added` (T, D) is what a run adds; where it does otherwise (`remark`), the formula's stand in."""

    label: str
    tokens: Sequence[str]
    vectors: Tensor
    added: Tensor | None = None
    remark: str = ""


_WORKED = 16  # numbers up to which all are worked out


@torch.inference_mode()
def explain_positions(
    embedded: Embedded, name: NotationName = "bishop", *, base: float = 10_000.0, length: int | None = None
) -> PositionExplanation:
    """The table for positions 0, 1, 2 …, a row a token or `length` of them, worked out, and joined in every way."""
    n, tokens, vectors = notation(name), embedded.tokens, embedded.vectors
    size, rows = vectors.shape[1], len(tokens) if length is None else length
    table, like_text = sinusoidal_encoding(rows, size, base), sinusoidal_encoding(len(tokens), size, base).to(vectors)
    added = like_text if embedded.added is None else embedded.added
    other = "" if torch.allclose(added, like_text, atol=1e-5) else " by the formula"
    other = other if rows == len(tokens) else f" of {rows} positions"
    steps = (
        _wavelengths(n, size, base),
        *_table(n, table, base, other),
        _joined(n, tokens, vectors, added, embedded.remark),
        _concatenated(n, tokens, vectors, base),
        _into_queries_and_keys(n, tokens, vectors, added),
    )
    title = "Positions: one function, written in several ways"
    subtitle = f"{embedded.label}, base {base:g}, {rows} positions"
    return PositionExplanation(SPELLINGS, Explanation(title, subtitle, name, steps, slips(size, base, name)))


def _wavelengths(n: Notation, size: int, base: float) -> Step:
    pairs, measures = math.ceil(size / 2), []
    for pair in range(pairs) if pairs <= 4 else (0, 1, 2, pairs - 1):
        step = base ** (-2 * pair / size)
        both = f"dimensions {2 * pair} and {2 * pair + 1}" if 2 * pair + 1 < size else f"dimension {2 * pair} alone"
        measures.append(Measure(f"pair {pair}", step, f"radians a position: {both}, {2 * math.pi / step:,.4g} a turn"))
    formula = f"ω_j = 1 / L^(2j/{n.axes['model']}), pair j"
    return Step("Every pair of dimensions turns at its own speed", formula, measures=tuple(measures))


def _table(n: Notation, table: Tensor, base: float, other: str) -> tuple[Step, Step]:
    """The angles, and sine and cosine of each; `other` is what tells a table from that of the text."""
    (rows, size), name = table.shape, n.symbol("positions") + other
    angles = torch.arange(rows)[:, None] / base ** ((torch.arange(size) // 2 * 2).double() / size)
    shown = np.ndindex(rows, size) if rows * size <= _WORKED else ((min(1, rows - 1), i) for i in range(min(size, 4)))
    lines = "\n".join(worked(n.name, row, i, size, base) for row, i in shown)
    axes, matrices = (str(rows) if other else "tokens", "model"), {"angles": angles, name: table}
    first, second = (n.vectors(one, values, numbered(rows), axes) for one, values in matrices.items())
    formula = f"{name}: the sine or the cosine of each angle"
    same = "Both dimensions of a pair have the same angle." if size > 1 else "Dimension 0 is alone in its pair."
    same += f"\n{lectures()['notes']['angles']}"
    return (
        Step("Angles: position times speed", "n ω_j", (first,), note=same),
        Step("Sine in even dimensions, cosine in odd ones", formula, (second,), note=lines),
    )


def _joined(n: Notation, tokens: Sequence[str], embedded: Tensor, added: Tensor, remark: str) -> Step:
    sums = {"embedded": embedded, "positions": added, "input": embedded + added}
    x, p, table = map(n.symbol, ("embedded", "positions", "table"))
    note = remark or f"{x}: each word's vector, a {n.line} of {table}, here drawn at random."
    matrices = tuple(n.vectors(name, values, tokens) for name, values in sums.items())
    return Step("Added to the embeddings", f"{n.symbol('input')} = {x} + {p}", matrices, note=note)


def _concatenated(n: Notation, tokens: Sequence[str], embedded: Tensor, base: float) -> Step:
    size, model = embedded.shape[1], n.axes["model"]
    part, x, p, own = max(2, size // 4), n.symbol("embedded"), f"{n.symbol('positions')}′", f"{model}′"
    positions = sinusoidal_encoding(len(tokens), part, base).to(embedded)
    joined, w = torch.cat((embedded, positions), dim=1), _weights(size + part, size)
    apart, whole = embedded @ w[:size] + positions @ w[size:], joined @ w
    times = "{1} {0}".format if n.columns_are_tokens else "{0} {1}".format
    whole_name, apart_name = times(f"[{x} ; {p}]", "W"), f"{times(x, 'W_x')} + {times(p, 'W_p')}"
    beside = n.vectors(p, positions, tokens, ("tokens", own))
    both = n.vectors(f"[{x} ; {p}]", joined, tokens, ("tokens", f"({model} + {own})"))
    behind = (n.vectors(name, values, tokens) for name, values in ((apart_name, apart), (whole_name, whole)))
    deviation = float((apart - whole).abs().max())
    measure = Measure("W, or W_x and W_p", deviation, "largest deviation: rounding", is_residue=True)
    formula = f"[{x} ; {p}]: {size} + {part} numbers a token   {whole_name} = {apart_name}"
    note = lectures()["notes"]["concatenated"].format(model=model, own=own, part=part, line=n.line, p=p)
    return Step("Or concatenated", formula, (beside, both, *behind), (measure,), note)


def _into_queries_and_keys(n: Notation, tokens: Sequence[str], embedded: Tensor, added: Tensor) -> Step:
    """Q and K are projected from X + P, V from X (model.position_merge = "query_key")."""
    attention = MultiHeadAttention(ModelSection(d_model=embedded.shape[1], num_heads=1, positions="none"))
    for parameter in attention.parameters():
        parameter.copy_(_weights(*parameter.shape))

    def value(x: Tensor, signal: Tensor | None = None) -> Tensor:
        """V of an attention whose queries and keys are told positions: (T, D)."""
        return record_attention(attention.eval(), x[None], positions=PositionSignal(added=signal)).value[0]

    quantities = {"x": "embedded", "p": "positions", "q": "query", "k": "key", "v": "value"}
    names = {letter: n.symbol(quantity) for letter, quantity in quantities.items()}
    moved = added.roll(1, dims=0)  # every token takes the place of the one before it
    there, elsewhere, without = value(embedded + added), value(embedded + moved), value(embedded, added)
    changes = elsewhere - there, value(embedded, moved) - without, without + added - there
    shown = {"{v} of {x} + {p}": there, "{v} of {x} + shifted {p}": elsewhere, "{v} of {x}": without}
    matrices = tuple(n.vectors(name.format(**names), values, tokens) for name, values in shown.items())
    about = [*zip(lectures()["joining"].items(), changes, strict=True)][2 * (is_one := len(embedded) < 2) :]
    measures = (Measure(way, float(change.abs().max()), told.format(**names)) for (way, told), change in about)
    formula, *notes = (lectures()["notes"][key].format(**names) for key in ("into", "in_queries", "one_token"))
    note = "".join(notes[: 1 + is_one])
    return Step("Or into queries and keys alone", formula, matrices, tuple(measures), note)


def _weights(rows: int, columns: int) -> Tensor:
    """A random matrix that keeps the size of what it multiplies."""
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(1)) / rows**0.5


def toy_embeddings(text: str, size: int, seed: int = 0) -> Embedded:
    """The words of a text with a random vector for each kind of word, or the `UsageError` of `toy_words`."""
    kinds = [*dict.fromkeys(words := toy_words(text))]
    table = torch.randn(len(kinds), size, generator=torch.Generator().manual_seed(seed))
    label = f"a toy with random embeddings of seed {seed}: d_model {size}"
    return Embedded(label, words, table[[*map(kinds.index, words)]])


def entrance(subject: Subject, n: Notation) -> Step:
    """X, and where it comes from: of a toy its words and positions, of a run what the attention reads."""
    vocabulary, passed, tokens = subject.vocabulary, subject.attention_pass, subject.query_tokens
    if vocabulary:
        embedding, one_hot = tower(subject.model).embedding, F.one_hot(subject.inputs[0][0], len(vocabulary)).float()
        matrices = (
            n.matrix("one_hot", one_hot, tokens, vocabulary, ("tokens", "vocab")),
            n.vectors("table", embedding.weight, vocabulary, ("vocab", "model")),
            n.vectors("embedded", one_hot @ embedding.weight, tokens),
            n.vectors("positions", embedding.positions[: len(tokens)], tokens),
            n.vectors("input", subject.passed.last.embedded, tokens),
        )
        note = lectures()["words"][subject.section.positions].format(e=n.symbol("table"), p=n.symbol("positions"))
        return Step("Words and positions", n.formulas["embed"], matrices, note=note)
    read, notes = [n.vectors("input", passed.x, tokens)], []
    if subject.is_cross:
        read.append(n.vectors("memory", passed.memory, subject.key_tokens, ("source", "model")))
        notes.append(f"{n.symbol('memory')} is the encoder's output: keys and values come from it.")
    if subject.section.norm_placement == "pre":
        notes.append("The norm stands before attention: these are normalised vectors.")
    if subject.signal.added is not None:
        notes.append("Positions are added to what queries and keys are projected from, and not to values.")
    return Step("What the attention reads", n.formulas["enter"], tuple(read), note="\n".join(notes))


@torch.inference_mode()
def embedded_by_run(run: LoadedRun, text: str) -> Embedded:
    """What a run's embedding makes of a text, or a source. A UsageError where it is empty or beyond the context."""
    ids, embedding, section = text_ids(run, text), tower(run.model).embedding, run.config.model
    vectors = F.embedding(torch.tensor(ids, device=run.device), embedding.weight) * embedding.scale
    if embedding.token_types is not None:
        vectors = vectors + embedding.token_types[0]
    added = None
    if embedding.has_positions and not embedding.concatenates:
        added = embedding.position_rows(Span(0, len(ids))).cpu()
        remark = f"These are the run's own positions: {section.positions}."
    else:
        known = lectures()["elsewhere"]
        elsewhere = known.get(section.positions) or known.get(section.position_merge, "elsewhere")
        remark = f"The run has {section.positions} positions, {elsewhere}: the formula's numbers stand in for them."
    if section.embedding_norm:
        remark += " A norm follows."
    label = f"{run.directory.path}, d_model {vectors.shape[1]}"
    return Embedded(label, run.tokenizer.labels(ids), vectors.float().cpu(), added, remark)
