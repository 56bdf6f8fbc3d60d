"""What a forward pass costs: parts, growth over N, and where scores and mixing overtake the rest."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from tfcli.records.cost import CostAtLength, CostRecord
from tfcli.render.bars import bar
from tfcli.render.curve import Plot, Series
from tfcli.render.numbers import exact, percent, plural, short, short_duration
from tfcli.render.table_csv import Table
from tfcli.render.tables import grid

_NAMES = {
    "embeddings": ("embeddings", "look-up"),
    "projections": ("Q, K, V", "N · D²"),
    "scores": ("scores QKᵀ", "N² · D"),
    "mixing": ("mixing AV", "N² · D"),
    "output": ("output W^o", "N · D²"),
    "feed_forward": ("feed-forward", "N · D · F"),
    "head": ("head", "N · D · Vocab"),
    "norms": ("norms", "–"),
}
_SHARES = (("P", "projections", "cyan"), ("F", "feed_forward", "blue"), ("S", "scores_and_mixing", "yellow"))
_HEAD = ("H", "head", "magenta")
_POINTS = 60  # of a curve
_EXACT_FROM = 78  # columns from which on there is room for every digit


@dataclass(frozen=True)
class CostView:
    """The parts at one length, all lengths, the crossover, and, where it was measured, the time."""

    record: CostRecord

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        r = self.record
        batch = plural(r.sequences, "sequence")
        yield Text(f"Cost of a forward pass · {r.architecture} · {batch} of {plural(r.length, 'token')}", style="bold")
        yield Text(_shape(r), style="dim")
        yield _parts(r, is_exact=options.max_width >= _EXACT_FROM)
        yield Text(_checked(r), style="dim" if r.counted_flops == r.flops else "bold red")
        yield Text()
        yield Text("The same by the number of tokens N", style="bold")
        yield _lengths(r, options.max_width)
        yield from (Text(line, style="dim") for line in _meaning(r))
        yield Text()
        yield from _crossover(r)
        if r.products_a_second is not None:
            yield Text()
            yield from _measured(r, ascii_only=options.ascii_only)


def cost_table(record: CostRecord) -> Table:
    """A row for each number of tokens."""
    columns = (
        *("length", "projections", "feed_forward", "scores_and_mixing", "head", "flops", "visible_flops"),
        *("bytes_made", "cache_bytes", "predicted_seconds", "seconds"),
    )
    return Table(columns, [[getattr(at, name) for name in columns] for at in record.lengths])


def _shape(r: CostRecord) -> str:
    layers = f"{r.num_layers} + {r.num_decoder_layers} layers" if r.num_decoder_layers else f"{r.num_layers} layers"
    shared = f", {r.num_kv_heads} of keys and values" if r.num_kv_heads != r.num_heads else ""
    sizes = f"D {r.d_model} · {layers} · {plural(r.num_heads, 'head')} of {r.head_dim}{shared} · F {r.d_ff}"
    return f"{sizes} · {exact(r.parameters)} parameters ({short(4 * r.parameters, 'B')} in float32)"


def _parts(r: CostRecord, *, is_exact: bool) -> RichTable:
    table = grid("part")
    if is_exact:
        table.add_column("grows as", no_wrap=True, style="dim")
    for name in ("FLOPs", "share", "parameters" if is_exact else "params", "made"):
        table.add_column(name, justify="right", no_wrap=True)
    write = exact if is_exact else short

    def add(name: str, grows: str, flops: int, parameters: int, made: int, style: str = "") -> None:
        share = percent(flops / r.flops) if flops else "–"
        numbers = (write(flops), share, write(parameters), short(made, "B"))
        table.add_row(name, *([grows] if is_exact else []), *numbers, style=style)

    for part in r.parts:
        if part.flops or part.parameters or part.bytes_made:
            add(*_NAMES[part.name], part.flops, part.parameters, part.bytes_made)
    table.add_section()
    add("all", "", r.flops, r.parameters, sum(part.bytes_made for part in r.parts), style="bold")
    return table


def _checked(r: CostRecord) -> str:
    if r.counted_flops == r.flops:
        return f"torch.utils.flop_counter on the explicit path: {exact(r.counted_flops)}, the same."
    return f"torch.utils.flop_counter on the explicit path: {exact(r.counted_flops)}, NOT the same."


def _lengths(r: CostRecord, width: int) -> RichTable:
    hides = any(at.visible_flops != at.flops for at in r.lengths)
    caches = any(at.cache_bytes for at in r.lengths) and width >= _EXACT_FROM
    heads = ["N", "FLOPs", "made", *(["KV cache"] if caches else []), *(["masked"] if hides else [])]
    table = grid(*(f">{head}" for head in heads), "FLOPs by part")
    cells = max(13, min(60, width - 10 * len(heads) - 1))
    for at in r.lengths:
        numbers = [exact(at.length), short(at.flops), short(at.bytes_made, "B")]
        numbers += [short(at.cache_bytes, "B")] if caches else []
        numbers += [percent(1 - at.visible_flops / at.flops)] if hides else []
        table.add_row(*numbers, _share_bar(at, cells), style="bold" if at.length == r.length else "")
    return table


def _share_bar(at: CostAtLength, cells: int) -> Text:
    """A letter for every share of `cells`: readable without colour, too."""
    bar, before, drawn = Text(), 0, 0
    for letter, name, style in (*_SHARES, _HEAD):
        before += getattr(at, name)
        until = round(cells * before / at.flops)
        bar.append(letter * (until - drawn), style)
        drawn = until
    return bar


def _meaning(r: CostRecord) -> Iterator[str]:
    yield "P projections and W^o · F feed-forward · S scores and mixing · H head"
    remembered = (
        " KV cache: the keys and values that generation keeps." if any(at.cache_bytes for at in r.lengths) else ""
    )
    yield (
        "made: what the matrix products and the look-up of embeddings give, in float32; the fused path never writes "
        f"the N × N scores.{remembered}"
    )
    if any(at.visible_flops != at.flops for at in r.lengths):
        yield (
            "masked: FLOPs for pairs of tokens that the mask hides, computed and thrown away; `train --dry-run`, "
            "`plan` and `bench` count without them: N (N + 1) / 2 of N² pairs under a causal mask."
        )


def _crossover(r: CostRecord) -> RenderResult:
    yield Text(f"Scores and mixing overtake at N* = a / b = {short_count(r.crossover)} tokens", style="bold")
    for line in _formulas(r):
        yield Text(line, style="dim")
    end = 2 * r.crossover
    xs = tuple(end * i / _POINTS for i in range(_POINTS + 1))
    linear = [r.flops_a_token * x for x in xs]
    quadratic = [r.flops_a_pair * x * x for x in xs]
    unit, letter = next((size, name) for size, name in _UNITS if max(quadratic) >= size)
    cross = r.flops_a_token * r.crossover / unit
    yield Plot(
        (
            Series("O(ND²)", xs, tuple(y / unit for y in linear), "cyan", letter="a"),
            Series("O(N²D)", xs, tuple(y / unit for y in quadratic), "yellow", letter="b"),
            Series("N*", (r.crossover,), (cross,), "bold red", "●"),
        ),
        f"{letter}FLOP by N",
        height=10,
    )
    yield Text(
        "See: twice the tokens cost twice the projections and feed-forwards, and four times the scores and mixing. At "
        f"N = {exact(r.length)} the second cost {percent(r.length / r.crossover)} of the first: N / N*."
    )


_UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (0, ""))


def _formulas(r: CostRecord) -> Iterator[str]:
    h, kv, d, dh, f = r.num_heads, r.num_kv_heads, r.d_model, r.head_dim, r.d_ff
    six = 6 if r.is_gated else 4
    attention, numbers = "4 D Dh (H + Hkv)", f"4·{d}·{dh}·({h} + {kv})"
    if not r.has_projections:
        attention = numbers = "0"
    if r.num_decoder_layers:
        per = f"{r.num_layers} encoder and {r.num_decoder_layers} decoder layers, which have two attentions"
        yield f"a: {attention} an attention and {six} D F a feed-forward, for every token of each side"
        yield f"b: 4 H Dh an attention, for every pair of tokens; {per}"
        yield f"a = {exact(r.flops_a_token)}, b = {exact(r.flops_a_pair)} in all layers"
        return
    layers = r.num_layers
    a = exact(r.flops_a_token // layers)
    yield f"a = {attention} + {six} D F a token and layer = {numbers} + {six}·{d}·{f} = {a}"
    yield f"b = 4 H Dh a pair of tokens and layer = 4·{h}·{dh} = {exact(r.flops_a_pair // layers)}"
    if r.has_projections and kv == h and h * dh == d:
        inner = "1.5 F" if r.is_gated else "F"
        yield f"Here H Dh = D, so that N* = 2 D + {inner}; with F = 4 D and no gate it is 6 D."


def _measured(r: CostRecord, *, ascii_only: bool) -> RenderResult:
    assert r.products_a_second is not None
    yield Text("Measured beside predicted", style="bold")
    rate = short(r.products_a_second, "FLOP/s")
    yield Text(f"predicted: FLOPs over {rate}, a product of 1024 × 1024 matrices here", style="dim")
    table = grid(">N", ">predicted", ">measured", ">ratio")
    table.add_column("")
    known = [(at, at.seconds, at.predicted_seconds) for at in r.lengths]
    largest = max(seconds / predicted for _, seconds, predicted in known if seconds and predicted)
    for at, seconds, predicted in known:
        if seconds and predicted:
            ratio = seconds / predicted
            drawn = Text(bar(ratio / largest, 16, ascii_only=ascii_only), "yellow")
            table.add_row(exact(at.length), short_duration(predicted), short_duration(seconds), f"{ratio:.2f}", drawn)
    yield table
    yield Text(
        "See: a ratio above 1 is what no matrix product counts: softmax and mask go over N² numbers, and small "
        "products do not reach the speed of a large one. Lengths that take seconds are left out."
    )


def short_count(number: float) -> str:
    """Whole where it is large.

    >>> short_count(4608.0), short_count(2.5)
    ('4,608', '2.5')
    """
    return exact(round(number)) if number >= 100 else f"{number:.3g}"
