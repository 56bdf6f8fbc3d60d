"""Predictions as rows and bars, the logit lens as a table of layers, losses as colours of a text."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.colors import WEIGHTS, Brush, brush_for, levels
from tfcli.draw.heatmap import labelled_row, legend, scale_bar
from tfcli.draw.numbers import percent, percent_in_four, plural, short
from tfcli.draw.safe import broken, fit, printable, token_label, widest
from tfcli.draw.tables import CsvTable, Fact, Facts, bar, dim, heading
from tfcli.inspection.predictions import Lens, Losses, Prediction, Predictions, ScoredToken
from tfcli.records.generation import Candidate, Option

_LEAST_LABEL, _MOST_LABEL = 6, 16
_LEAST_BAR, _MOST_BAR, _WIDEST_BAR = 3, 10, 40
_AROUND = 8  # cells of a candidate beside its label and its bar: its sign, its percentage, blanks
_FIXED = 4 + 6 + 5 + 5  # cells of position, rank, p, H
_GUTTER, _LEAST_CELL, _MOST_CELL = 11, 4, 10  # of the lens: cells before a row, and of a token
_DIM, _BOLD = Style(dim=True), Style(bold=True)
_WORST = 8  # tokens, of the least expected


@dataclass(frozen=True)
class Row:
    """How candidates stand side by side: cells of a label and of a bar, and how many there are."""

    label: int
    bar: int
    count: int


def row_layout(rows: Sequence[Sequence[Candidate | Option]], room: int, around: int = _AROUND) -> Row:
    """As many candidates a row as `room` cells hold, their labels cut where they must be."""
    most = max(map(len, rows), default=1)
    wanted = max((widest(tuple(token_label(one.token) for one in row)) for row in rows), default=0)
    label = max(_LEAST_LABEL, min(wanted, _MOST_LABEL, room // min(most, 3) - _LEAST_BAR - around))
    count = max(1, min(most, room // (label + _LEAST_BAR + around)))
    return Row(label, max(_LEAST_BAR, min(_MOST_BAR, room // count - label - around)), count)


def _append(row: Text, candidates: Sequence[Candidate], answer: str | None, layout: Row, *, ascii_only: bool) -> None:
    """Candidates at the end of a row, `answer` marked among them."""
    for one in candidates[: layout.count]:
        is_answer = one.token == answer
        row.append(f" {_sign(ascii_only) if is_answer else ' '}")
        row.append(f"{fit(token_label(one.token), layout.label)} ", "bold" if is_answer else "")
        row.append(bar(one.probability, layout.bar, ascii_only=ascii_only).ljust(layout.bar), "cyan")
        row.append(f" {percent_in_four(one.probability)}")


def candidate_bars(likeliest: Sequence[Candidate], answer: str | None, width: int, *, ascii_only: bool) -> RenderResult:
    """A candidate a line."""
    names = tuple(token_label(one.token) for one in likeliest)
    name_width = min(widest(names), 24)
    room = max(4, min(_WIDEST_BAR, width - name_width - 13))
    for name, one in zip(names, likeliest, strict=True):
        is_answer = one.token == answer
        line = Text(f"{_sign(ascii_only) if is_answer else ' '} ", no_wrap=True, overflow="crop")
        line.append(fit(name, name_width), "bold" if is_answer else "")
        line.append(f"  {percent(one.probability):>7}  ")
        yield line.append(bar(one.probability, room, ascii_only=ascii_only), "cyan")


def _sign(ascii_only: bool) -> str:
    return ">" if ascii_only else "▸"


class PredictionsView(View[Predictions]):
    """A row a position: what is read, what comes next with its rank and probability, and the likeliest tokens."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record, ascii_only = self.record, options.ascii_only
        read = tuple(token_label(token) for one in record.predictions for token in (one.read, one.answer or ""))
        tokens = max(4, min(widest(read), 16 if options.max_width >= 100 else 8))
        room = options.max_width - _FIXED - 2 * (tokens + 1) - 1
        layout = row_layout([one.candidates for one in record.predictions], room)
        what, answer = ("next token after", "next") if record.kind == "next" else ("token that belongs at", "true")
        masked = record.kind == "masked"
        yield from heading(f"Predictions · the {what} every position{', each masked alone' if masked else ''}")
        yield Text(f"  # {fit('read', tokens)} {fit(answer, tokens)}  rank    p    H  likeliest", style="bold dim")
        for one in record.predictions:
            yield _row(one, tokens, layout, is_chosen=one.position == record.position, ascii_only=ascii_only)
        yield from dim(
            f"p: probability of the {answer} token, by the softmax of the logits; rank 1: it is the likeliest; "
            f"{_sign(ascii_only)} where it stands. H: entropy in nats; e^H equally likely tokens would be as uncertain."
        )
        if ranks := [one.rank for one in record.predictions if one.rank is not None]:
            when = ", when it is masked and the others are read; special tokens are not asked" if masked else ""
            yield from dim(f"The {answer} token is the likeliest at {ranks.count(1)} of {len(ranks)} positions{when}.")
        chosen = record.predictions[record.position]
        what = f"\nPosition {chosen.position}, {_where(record, chosen.read)}"
        yield from heading(f"{what}: H = {chosen.entropy:.2f}, e^H = {short(math.exp(chosen.entropy))}")
        yield from candidate_bars(chosen.candidates, chosen.answer, options.max_width, ascii_only=ascii_only)


def _row(one: Prediction, tokens: int, layout: Row, *, is_chosen: bool, ascii_only: bool) -> Text:
    row = Text(no_wrap=True, overflow="crop").append(f"{one.position:>3} ", "bold" if is_chosen else "dim")
    row.append(fit(token_label(one.read), tokens) + " ", "bold" if is_chosen else "")
    unknown = "-" if ascii_only else "–"
    answer = unknown if one.answer is None else token_label(one.answer)
    rank = unknown if one.rank is None else str(one.rank) if one.rank < 100_000 else short(one.rank).replace(" ", "")
    share = unknown if one.probability is None else percent_in_four(one.probability)
    row.append(f"{fit(answer, tokens)} {rank:>5} {share:>4} {one.entropy:4.1f}  ")
    _append(row, one.candidates, one.answer, layout, ascii_only=ascii_only)
    return row


def _where(record: Predictions | Lens, read: str) -> str:
    return f"{'after' if record.kind == 'next' else 'in the place of'} {token_label(read)}"


def predictions_table(record: Predictions) -> CsvTable:
    """A row a candidate."""
    own = ("position", "read", "answer", "rank", "probability", "entropy")
    pairs = ((one, two) for one in record.predictions for two in one.candidates)
    rows = ((*(getattr(one, name) for name in own), two.token, two.probability) for one, two in pairs)
    return CsvTable((*own, "candidate", "candidate_probability"), rows)


class LensView(View[Lens]):
    """The likeliest token of every layer at every position, its probability as colour; those that do not fit, below."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record, brush = self.record, brush_for(console, WEIGHTS)
        what = "next token" if record.kind == "next" else "token that belongs there"
        yield from heading(
            f"Logit lens · the {what}, if the model stopped after each layer",
            "softmax(head(last norm(x))) of the residual stream x; the last row is the prediction",
        )
        yield Segment.line()
        # Room for nine in ten labels; a blank, or a shade, stands behind each.
        tokens = (*record.tokens, *(token for row in record.top for token in row))
        widest_but_few = sorted(cell_len(token_label(token)) for token in tokens)[len(tokens) * 9 // 10]
        cell = max(_LEAST_CELL, min(_MOST_CELL, widest_but_few + (1 if brush.in_color else 2)))
        fitting = max(1, (options.max_width - _GUTTER) // cell)
        for first in range(0, len(record.tokens), fitting):
            yield from _block(record, brush, cell, slice(first, first + fitting))
            yield Segment.line()
        yield from legend(scale_bar("0", "1", brush), "p of the likeliest token", _GUTTER, options.max_width)
        early, positions = sum(depth < len(record.top) - 1 for depth in record.settled), len(record.tokens)
        yield from dim(f"At {early} of {plural(positions, 'position')} the prediction stands before the last layer.")
        if record.kind == "masked":
            yield from dim("The lens reads the unmasked text; inspect predictions masks each token.")
        yield from _by_layer(record, options)


def _block(record: Lens, brush: Brush, cell: int, part: slice) -> Iterator[Segment]:
    yield from _words("position", map(str, range(len(record.tokens))[part]), cell, _DIM)
    yield from _words("read", map(token_label, record.tokens[part]), cell, _BOLD)
    for depth, row in enumerate(record.top):
        painted, texts = levels(record.probabilities[depth, part], 0.0, 1.0).tolist(), [*map(token_label, row[part])]
        if not brush.in_color:
            texts = [fit(text, cell - 2) + brush.glyph(level) for text, level in zip(texts, painted, strict=True)]
        name, widths = f"{_layer_name(depth):>{_GUTTER - 1}} ", [cell] * len(texts)
        yield from labelled_row(name, texts, painted, widths, brush, align="left", behind=1)
        yield Segment.line()
    if record.kind == "next":
        answers = ("?" if answer is None else token_label(answer) for answer in record.answers[part])
        yield from _words("true next", answers, cell, _DIM)
    settled = ("emb" if depth == 0 else str(depth - 1) for depth in record.settled[part])
    yield from _words("stays from", settled, cell, _DIM)


def _words(name: str, words: Iterable[str], cell: int, style: Style) -> Iterator[Segment]:
    yield Segment(f"{name:>{_GUTTER - 1}} ", _DIM)
    yield Segment("".join(fit(word, cell - 1) + " " for word in words).rstrip() + "\n", style)


def _by_layer(record: Lens, options: ConsoleOptions) -> RenderResult:
    position = record.position
    final, settled = token_label(record.top[-1][position]), _layer_name(record.settled[position])
    yield from heading(f"\nPosition {position}, {_where(record, record.tokens[position])}, layer by layer")
    yield Text(f"{'':>{_GUTTER - 1}} {fit(f'p({final})', 10, 'right')}  likeliest", style="dim")
    layout = row_layout(record.candidates, options.max_width - _GUTTER - 13)
    for depth, candidates in enumerate(record.candidates):
        row = Text(f"{_layer_name(depth):>{_GUTTER - 1}} ", no_wrap=True, overflow="crop")
        row.append(f"{percent_in_four(float(record.final[depth, position])):>10} ")
        _append(row, candidates, record.top[-1][position], layout, ascii_only=options.ascii_only)
        yield row
    yield from dim(f"{_sign(options.ascii_only)} what the model predicts in the end, the likeliest from {settled} on")


def _layer_name(depth: int) -> str:
    return "embedding" if depth == 0 else f"layer {depth - 1}"


def lens_table(record: Lens) -> CsvTable:
    """A row a depth and position."""
    names = ("depth", "position", "read", "answer", "top", "probability", "final_probability")
    depths = zip(record.top, record.probabilities.tolist(), record.final.tolist(), strict=True)
    lines = (enumerate(zip(record.tokens, record.answers, *of, strict=True)) for of in depths)
    rows = ((depth, position, *cells) for depth, line in enumerate(lines) for position, cells in line)
    return CsvTable(names, rows)


class LossesView(View[Losses]):
    """The text on its colours, its figures, and the tokens that were least expected."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record, brush = self.record, brush_for(console, WEIGHTS)
        pseudo = ", each masked alone" if record.kind == "masked" else ""
        about = "−ln p(token | what the model sees), in nats; 0: it was certain"
        yield from heading(f"Losses · how surprising each token is{pseudo}", about)
        yield Text("")
        if brush.in_color:
            highest = max(one.loss for one in record.tokens if one.loss is not None)
            yield _running_text(record.tokens, highest, brush)
            yield Segment.line()
            yield from legend(scale_bar("0", f"{highest:.1f}", brush), "nats", 0, options.max_width)
        else:
            yield from _numbered(record.tokens, options.max_width)
        yield Segment.line()
        yield Facts("The text", tuple(_facts(record)))
        yield Text("")
        yield from _worst(record.tokens)


def _running_text(tokens: tuple[ScoredToken, ...], highest: float, brush: Brush) -> Text:
    text, losses = Text(), np.array([np.nan if one.loss is None else one.loss for one in tokens], np.float32)
    for one, level in zip(tokens, levels(losses, 0.0, highest).tolist(), strict=True):
        text.append(printable(one.before, keep_newlines=True))
        if one.loss is None:
            text.append(token_label(one.text), _DIM)
        else:
            # A line end is seen, and still ends its line.
            text.append(printable(one.text, keep_newlines=True).replace("\n", "⏎\n"), brush.readable(level))
    return text


def _numbered(tokens: tuple[ScoredToken, ...], width: int) -> Iterator[Segment]:
    """Tokens side by side, each over its loss."""
    for line in broken(tokens, width, _width, lambda one: one.text.endswith("\n")):
        yield Segment("".join(fit(token_label(one.token), _width(one)) + "│" for one in line) + "\n")
        below = "".join(fit("" if one.loss is None else f"{one.loss:.1f}", _width(one)) + " " for one in line)
        yield Segment(below.rstrip() + "\n", _DIM)


def _width(one: ScoredToken) -> int:
    return min(max(cell_len(token_label(one.token)), 0 if one.loss is None else len(f"{one.loss:.1f}")), 30)


def _facts(record: Losses) -> Iterator[Fact]:
    yield Fact("mean loss", f"{record.loss:.3f}", f"nats per token, over {plural(record.scored, 'token')}")
    yield Fact("perplexity", short(record.perplexity), "e^loss: as hard as so many equally likely tokens")
    if record.bits_per_byte is not None:
        yield Fact("bits per byte", f"{record.bits_per_byte:.3f}", "sum of losses / ln 2 / bytes of the text")
    if record.windows > 1:
        note = f"of {record.context} tokens at most, side by side: the first tokens of each see little"
        yield Fact("windows", str(record.windows), note)
    unscored = [token_label(one.token) for one in record.tokens if one.loss is None]
    yield Fact("not scored", str(len(unscored)), " ".join(dict.fromkeys(unscored)))


def _worst(tokens: tuple[ScoredToken, ...]) -> Iterator[Text]:
    scored = sorted(((one.loss, one) for one in tokens if one.loss is not None), key=lambda pair: -pair[0])
    worst, losses = scored[:_WORST], [loss for loss, _ in scored]
    share = f": {percent(sum(losses[:_WORST]) / sum(losses))} of the loss" if sum(losses) else ""
    yield Text(f"The {_WORST} least expected{share}" if len(scored) > _WORST else "Least expected", style="bold")
    room = min(max(5, widest(tuple(token_label(one.token) for _, one in worst))), 16)
    yield from dim(f"  # {fit('token', room)}  loss  rank  likeliest")
    for loss, one in worst:
        line = Text(f"{one.position:>3} ", no_wrap=True, overflow="ellipsis")
        line.append(fit(token_label(one.token), room), "bold").append(f" {loss:5.2f} {one.rank:>5}  ")
        assert one.best is not None
        yield line.append(f"{percent_in_four(one.best.probability)} {token_label(one.best.token)}")


def losses_table(record: Losses) -> CsvTable:
    """A row a token."""
    names = ("position", "token", "loss", "rank", "best", "best_probability")
    bests = ((one, (one.best.token, one.best.probability) if one.best else (None, None)) for one in record.tokens)
    return CsvTable(names, ((one.position, one.token, one.loss, one.rank, *best) for one, best in bests))
