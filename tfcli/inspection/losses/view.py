"""A text with its losses: running text on colours, or, without colour, a number under each token."""

from collections.abc import Iterator

import numpy as np
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.colors import WEIGHTS, Brush, brush_for, levels
from tfcli.draw.heatmap import scale_bar
from tfcli.draw.numbers import percent, percent_in_four, plural, short
from tfcli.draw.safe import broken, fit, printable, token_label, widest
from tfcli.draw.tables import CsvTable, Fact, Facts, dim, heading
from tfcli.inspection.losses import Losses, ScoredToken

_WORST = 8
_DIM = Style(dim=True)


class LossesView(View[Losses]):
    """The text on its colours, its figures, and the tokens that were least expected."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record, brush = self.record, brush_for(console, WEIGHTS)
        pseudo = ", each masked alone" if record.kind == "masked" else ""
        about = "−ln p(token | what the model sees), in nats; 0: it was certain"
        yield from heading(f"Losses · how surprising each token is{pseudo}", about)
        yield Text("")
        highest = max(one.loss for one in record.tokens if one.loss is not None)
        if brush.in_color:
            yield _running_text(record.tokens, highest, brush)
        else:
            yield from _numbered(record.tokens, options.max_width)
        yield Segment.line()
        if brush.in_color:
            yield from scale_bar("0", f"{highest:.1f}", brush)
            yield Segment("  nats\n\n", _DIM)
        yield _facts(record)
        yield Text("")
        yield from _worst(record.tokens)


def _running_text(tokens: tuple[ScoredToken, ...], highest: float, brush: Brush) -> Text:
    text = Text()
    losses = np.array([np.nan if one.loss is None else one.loss for one in tokens], np.float32)
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
    number = 0 if one.loss is None else len(f"{one.loss:.1f}")
    return min(max(cell_len(token_label(one.token)), number), 30)


def _facts(record: Losses) -> Facts:
    facts = [
        Fact("mean loss", f"{record.loss:.3f}", f"nats a token, over {plural(record.scored, 'token')}"),
        Fact("perplexity", short(record.perplexity), "e^loss: as hard as so many equally likely tokens"),
    ]
    if record.bits_per_byte is not None:
        facts.append(Fact("bits per byte", f"{record.bits_per_byte:.3f}", "sum of losses / ln 2 / bytes of the text"))
    if record.windows > 1:
        note = f"of {record.context} tokens at most, side by side: the first tokens of each see little"
        facts.append(Fact("windows", str(record.windows), note))
    unscored = [one.token for one in record.tokens if one.loss is None]
    names = " ".join(token_label(token) for token in dict.fromkeys(unscored))
    return Facts("The text", [*facts, Fact("not scored", str(len(unscored)), names)])


def _worst(tokens: tuple[ScoredToken, ...]) -> Iterator[Text]:
    scored = sorted(((one.loss, one) for one in tokens if one.loss is not None), key=lambda pair: -pair[0])
    worst = [one for _, one in scored[:_WORST]]
    total = sum(loss for loss, _ in scored)
    share = f": {percent(sum(loss for loss, _ in scored[:_WORST]) / total)} of the loss" if total else ""
    yield Text(f"The {_WORST} least expected{share}" if len(scored) > _WORST else "Least expected", style="bold")
    room = min(max(5, widest(tuple(token_label(one.token) for one in worst))), 16)
    yield from dim(f"  # {fit('token', room)}  loss  rank  likeliest")
    for one in worst:
        assert one.best is not None
        line = Text(f"{one.position:>3} ", no_wrap=True, overflow="ellipsis")
        line.append(fit(token_label(one.token), room), "bold")
        line.append(f" {one.loss:5.2f} {one.rank:>5}  ")
        yield line.append(f"{percent_in_four(one.best.probability)} {token_label(one.best.token)}")


def losses_table(record: Losses) -> CsvTable:
    """A row a token."""
    names = ("position", "token", "loss", "rank", "best", "best_probability")
    rows = (
        (one.position, one.token, one.loss, one.rank, one.best and one.best.token, one.best and one.best.probability)
        for one in record.tokens
    )
    return CsvTable(names, rows)
