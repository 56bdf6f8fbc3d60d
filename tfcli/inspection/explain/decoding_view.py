"""Decoding as tables: candidates through every stage, the draw on a line from 0 to 1, greedy beside beam search."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeVar

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from tfcli.draw import Stepwise
from tfcli.draw.colors import has_colors
from tfcli.draw.numbers import exact, plural
from tfcli.draw.safe import fit, printable, token_label, widest
from tfcli.draw.tables import CsvTable, bar, columns, heading
from tfcli.generation.view import BeamTreeView
from tfcli.inspection.explain import DecodingRecord, DecodingStep

_PAPERS = ("#1f4e79", "#5b3a72", "#2f5d46", "#7a4a12")
_ROOMY, _WIDE = 76, 100  # columns of a terminal from which on numbers stand apart, and a candidate has a bar
_LONGEST_LABEL, _BAR = 14, 16
_Value = TypeVar("_Value", int, float)


class DecodingView(Stepwise[DecodingRecord]):
    """Every step, then the two searches and the tree of the second."""

    def parts(self) -> list[RenderableType]:
        """Who writes, and how it draws; the new tokens, then what two searches find."""
        source = "a toy language" if self.record.source is None else printable(self.record.source)
        title = f"Decoding step by step · {source} · {exact(self.record.vocabulary)} tokens"
        steps = [_Step(self.record, number) for number in range(len(self.record.steps))]
        head, searches = Group(*heading(title, _formula(self.record))), Group(*_searches(self.record))
        return [head, *steps, searches, BeamTreeView(self.record.tree)]


@dataclass(frozen=True)
class _Step:
    """One new token: its candidates, and the draw on a line from 0 to 1."""

    record: DecodingRecord
    number: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        record, step = self.record, self.record.steps[self.number]
        text = printable(record.prompt + "".join(step.before))
        yield Text.assemble((f"Step {self.number + 1}", "bold"), f"  what follows “{text}”?")
        yield _candidates(record, step, options.max_width, ascii_only=options.ascii_only)
        if step.others:
            yield Text(f"… and {plural(step.others, 'further token')}, {step.rest:.3f} together", style="dim")
        if step.uniform is None:
            yield Text.assemble(f"argmax {record.z}: ", (token_label(step.token), "bold"))
            return
        (first, count), *others = _filters(record, step.kept, "kept_").items()
        left = "".join(f", {name} {number}" for name, number in others)
        ties = " (those of equal logits stay together)" * (count > (record.top_k or count))
        yield Text(f"{first} leaves {count}{ties}{left}.", style="dim")
        yield from _unit_line(step, options.max_width, has_colors(console))
        chosen = next(one for one in step.candidates if one.token_id == step.token_id)
        drawn = f"u = {step.uniform:.4f} lies in [{chosen.begin:.4f}, {chosen.end:.4f}): "
        yield Text.assemble(drawn, (token_label(step.token), "bold"))


def _formula(record: DecodingRecord) -> str:
    z = record.z
    if record.temperature == 0:
        return f"τ = 0: greedy. The token with the largest logit {z} is taken; nothing is drawn{_against(record)}"
    top_k = f"the {record.top_k} best stay" if record.top_k else "all stay"
    min_p = f" · min-p: what is {record.min_p:g} times as likely as the best stays" if record.min_p else ""
    stages = f"top-k: {top_k} · top-p: the fewest best whose sum reaches {record.top_p:g} stay{min_p}"
    drawn = f"drawn with u, uniform from 0 to 1 (seed {record.seed}){_against(record)}"
    return f"p = softmax({z} / τ), τ = {record.temperature:g} · {stages} · each time renormalised · {drawn}"


def _against(record: DecodingRecord) -> str:
    """What z′ is, where it is not z."""
    rules, theta = [], f"{record.repetition_penalty:g}"
    if record.repetition_penalty != 1:
        rules.append(f"of tokens that the text holds, z / {theta} where z > 0, and z × {theta} elsewhere")
    if record.no_repeat_ngram:
        rules.append(f"−∞ for what would end {plural(record.no_repeat_ngram, 'token')} that the text holds already")
    return f" · z′ is {'; '.join(rules)}" if rules else ""


def _filters(record: DecodingRecord, by_key: Mapping[str, _Value], prefix: str) -> dict[str, _Value]:
    """What is said of each filter of a draw, by its name; of min-p where it is in use."""
    names = {key.removeprefix(prefix): value for key, value in by_key.items()}
    return {name.replace("_", "-"): value for name, value in names.items() if name != "min_p" or record.min_p}


def _candidates(record: DecodingRecord, step: DecodingStep, width: int, *, ascii_only: bool) -> Table:
    draws, z, adjusted = step.uniform is not None, record.z, record.z == "z′"
    filters = _filters(record, step.kept, "kept_")
    label = min(_LONGEST_LABEL, max(5, widest(tuple(token_label(one.token) for one in step.candidates))))
    with_scaled = draws and (width >= _ROOMY or not (adjusted or len(filters) > 2))
    with_bars = draws and width >= _WIDE
    heads = ["", "token", "z", *["z′"] * adjusted, *[f"({z}−max)/τ"] * with_scaled]
    heads += ["p(z)", f"p({z}/τ)", *filters] if draws else ["softmax z"]
    table = columns("ll" + "r" * (len(heads) - 2) + "l" * with_bars, *heads, gap=1 if width < _ROOMY else 2)
    for one in step.candidates:
        chosen = one.token_id == step.token_id
        cells = [Text("▸" if chosen else " "), Text(fit(token_label(one.token), label), "bold" if chosen else "")]
        cells += [Text(f"{logit:.2f}") for logit in (one.logit, *[one.adjusted] * adjusted)]
        if with_scaled:
            digits = ".2f" if abs(one.scaled or 0) < 1e5 else ".1e"  # of a temperature near 0, a power of ten
            cells.append(Text("" if one.scaled is None else f"{one.scaled:{digits}}"))
        cells.append(Text(_share(one.probability)))
        if draws:
            stages = one.tempered, *_filters(record, one.after, "after_").values()
            cells += [Text(_share(p), "" if p else "dim") for p in stages]
        if with_bars:
            cells.append(Text(bar(one.chance, _BAR, ascii_only=ascii_only).ljust(_BAR), "cyan"))
        table.add_row(*cells)
    return table


def _share(value: float) -> str:
    """Three decimals; "×" where a stage has ruled the token out, and what is not nothing is not called 0."""
    return "×" if value == 0 else "<.001" if value < 0.0005 else f"{value:.3f}"


def _unit_line(step: DecodingStep, width: int, in_color: bool) -> Iterator[Segment]:
    """The chances of the candidates one after the other, by id, and a mark at u."""
    assert step.uniform is not None
    held = sorted((one for one in step.candidates if one.chance > 0), key=lambda one: one.begin)
    room, at = width - 4, 0
    yield Segment("0 ")
    for number, one in enumerate(held):
        begin, end = round(one.begin * room), round(one.end * room)
        yield Segment("·" * (begin - at))
        at = max(begin, end)
        if in_color:
            label = fit(token_label(one.token), at - begin, "center")
            yield Segment(label, Style(color="#ffffff", bgcolor=_PAPERS[number % len(_PAPERS)]))
        elif at - begin >= 2:
            yield Segment("[" + fit(token_label(one.token), at - begin - 2, "center") + "]")
        else:
            yield Segment("|" * (at - begin))
    yield Segment("·" * (room - at) + " 1\n")
    yield Segment(" " * (2 + min(room - 1, math.floor(step.uniform * room))) + "▲\n")


def _searches(record: DecodingRecord) -> Iterator[Text]:
    yield Text("Greedy decoding and beam search, without a draw", style="bold")
    label = max(len(record.greedy.name), len(record.beam.name))
    for path in (record.greedy, record.beam):
        line = Text(f"{path.name:<{label}}  ")
        for number, (token, share) in enumerate(zip(path.tokens, path.probabilities, strict=True)):
            line.append(" × " if number else "").append(f"{share:.3g} ").append(token_label(token), "bold")
        yield line.append(f" = {math.exp(path.log_probability):.4g}   ln p = {path.log_probability:.3f}")
    gain = record.beam.log_probability - record.greedy.log_probability
    said = "The beam's text is no likelier: a beam, too, may let go of the beginning of the best text."
    if record.greedy.tokens == record.beam.tokens:
        said = "The beam has found the same text: here the likeliest next token was right every time."
    elif gain > 0:
        said = f"The beam's text is {math.exp(gain):.3g} times as likely. Greedy decoding takes the best next token, "
        said += "not the best text: what it passes over at one step, it never sees again."
    yield Text(said, "dim")


def decoding_table(record: DecodingRecord) -> CsvTable:
    """A row a candidate of every step."""
    names = ["token", "token_id", "logit", "scaled", "probability", "tempered", "after_top_k", "after_top_p", "chance"]
    names += ["begin", "end", "adjusted"]
    names += [key for step in record.steps[:1] for key in step.candidates[0].after if key not in names]
    rows = (
        (number, step.uniform, int(one.token_id == step.token_id), *itemgetter(*names)({**vars(one), **one.after}))
        for number, step in enumerate(record.steps, start=1)
        for one in step.candidates
    )
    return CsvTable(("step", "uniform", "chosen", *names), rows)
