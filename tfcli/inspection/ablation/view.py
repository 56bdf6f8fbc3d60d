"""Ablation as a map of layers × heads, MLPs and whole layers, and the parts that cost most."""

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.heatmap import NumberMap
from tfcli.draw.numbers import plural
from tfcli.draw.safe import token_label
from tfcli.draw.tables import CsvTable, columns, dim, heading
from tfcli.inspection.ablation import OWN, AblatedPart, Ablation, part_name
from tfcli.records.evaluation import leaves_out_0, mean_method

_RANKED = 8
_WITH = {"zero": "zero", "mean": "its mean over {}", "resample": "its value on other texts of {}"}


class AblationView(View[Ablation]):
    """A map a side: of one text the difference of two logits, of a corpus the loss."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        r = self.record
        yield from heading(f"Ablation · each part replaced by {_WITH[r.replaced].format(r.source)}", *_about(r))
        what = "loss, nats per token" if r.text is None else "difference of the two logits"
        for side in dict.fromkeys(part.side for part in r.parts):
            own = [part for part in r.parts if part.side == side]
            order = ("head", "cross", "MLP", "layer")
            names = sorted(dict.fromkeys(map(_column, own)), key=lambda name: order.index(name[0]))
            grid = np.full((1 + max(part.layer for part in own), len(names)), np.nan, np.float32)
            for part in own:
                value = part.difference if r.text else part.loss if leaves_out_0(part.interval) else None
                grid[part.layer, names.index(_column(part))] = np.nan if value is None else value
            yield from heading(f"\n{side}, change of the {what}")
            groups = tuple(Counter(kind for kind, _ in names).items())
            labels = tuple("" if head is None else str(head) for _, head in names)
            rows = tuple(f"layer {layer}" for layer in range(len(grid)))
            yield NumberMap(grid, f"change of the {what}", rows, labels, groups)
        yield from _ranked(r)
        yield from dim(*_notes(r))


def _about(r: Ablation) -> Iterator[str]:
    if (text := r.text) is not None:
        token, against, read = map(token_label, (text.token, text.against, text.tokens[text.position]))
        where = f"position {text.position}, {read}: logit of {token} less that of {against} {text.difference:+.2f}"
        if text.true is not None and text.log_probability is not None:
            whose = OWN if r.measured_on == OWN else "the true token"
            where += f"; p({token_label(text.true)}), {whose}, {math.exp(text.log_probability):.3f}"
        yield where
    if r.loss is not None:
        yield f"loss with all parts {r.loss:.3f} nats per token, on {r.measured_on}"


def _column(part: AblatedPart) -> tuple[str, int | None]:
    return ("cross" if part.kind == "cross" else part.part, part.head)


def _ranked(r: Ablation) -> RenderResult:
    sides = len({part.side for part in r.parts}) > 1

    def size(part: AblatedPart) -> float:
        return abs((part.difference if r.text else part.loss) or 0.0)

    found = sorted(
        (part for part in r.parts if size(part) and (r.text or leaves_out_0(part.interval))), key=size, reverse=True
    )
    if not found:
        yield Text("\nNo part changes anything that can be told from chance.")
        return
    true = "own" if r.measured_on == OWN else "true"
    heads = ("logits", f"log p({true})", "loss") if r.text else ("loss", "95 % of its mean")
    table = columns("l" + "r" * len(heads), "\nthe largest", *(f"\n{head}" for head in heads))
    for part in found[:_RANKED]:
        between = "" if part.interval is None else f"{part.interval[0]:+.3f} … {part.interval[1]:+.3f}"
        figures = [_figure(one) for one in (part.difference, part.log_probability, part.loss)]
        table.add_row(part_name(part, sides=sides), *(figures if r.text else (figures[2], between)))
    yield table


def _figure(value: float | None) -> str:
    return "–" if value is None else "0" if not value else f"{value:+.3f}"


def _notes(r: Ablation) -> Iterator[str]:
    yield f"a head: what it mixes; a layer: all that it adds · below {r.rounding:.1g} is rounding, and reads 0"
    if r.text is not None:
        yield "one text: what holds for many, --on SOURCE without a TEXT measures"
    elif r.parts[0].interval is None:
        yield f"{plural(r.documents, 'document')}: too few for an interval"
    else:
        alike = f"{sum(not leaves_out_0(part.interval) for part in r.parts)} of {len(r.parts)} parts"
        interval = f"interval ({mean_method(r.documents)}, over {r.documents} documents)"
        yield f"empty: {alike}, whose {interval} contains 0; by chance 1 in 20 would not"


def ablation_table(record: Ablation) -> CsvTable:
    """A row a part."""
    names = ("part", "side", "kind", "layer", "head", "loss", "difference", "log_probability")
    rows = ((*(getattr(one, name) for name in names), *(one.interval or (None, None))) for one in record.parts)
    return CsvTable((*names, "loss_low", "loss_high"), rows)
