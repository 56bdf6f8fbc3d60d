"""What a forward pass costs: parts, growth over N, and where scores and mixing overtake the rest."""

import math
from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.curve import Plot, Series
from tfcli.draw.numbers import exact, percent, plural, short, short_duration
from tfcli.draw.tables import CsvTable, bar, dim, grid, heading
from tfcli.inspection.cost import AgainstRecord, CostAtLength, CostRecord, HeadCosts, MixerCost

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
_BAR = 16  # cells
_PARTS = ("projections", "feed_forward", "scores_and_mixing", "head")
_SHARES = tuple(zip("PFSH", _PARTS, ("cyan", "blue", "yellow", "magenta"), strict=True))
_POINTS = 60  # of a curve
_EXACT_FROM, _HEADS_EXACT_FROM = 78, 74  # columns from which on there is room for every digit
_UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (0, ""))


class CostView(View[CostRecord]):
    """The parts at one length, all lengths, the crossover, and, where it was measured, the time."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        r = self.record
        batch = plural(r.sequences, "sequence")
        title = f"Cost of a forward pass · {r.architecture} · {batch} of {plural(r.length, 'token')}"
        yield from heading(title, _shape(r))
        digits = len(exact(r.flops)) + max(10, len(exact(r.parameters)))
        yield _parts(r, is_exact=options.max_width >= _EXACT_FROM - 25 + digits)
        same, style = ("the same", "dim") if r.counted_flops == r.flops else ("NOT the same", "bold red")
        yield Text(f"torch.utils.flop_counter on the explicit path: {exact(r.counted_flops)}, {same}.", style)
        yield from heading("\nThe same by the number of tokens N")
        yield from _lengths(r, options.max_width)
        yield from _crossover(r)
        if r.products_a_second is not None:
            yield from _measured(r, ascii_only=options.ascii_only)


def cost_table(record: CostRecord) -> CsvTable:
    """A row for each number of tokens."""
    kept = ("bytes_made", "cache_bytes", "predicted_seconds", "seconds")
    return CsvTable.of(record.lengths, "length", *_PARTS, "flops", "visible_flops", *kept)


def _shape(r: CostRecord) -> str:
    layers = f"{r.num_layers} + {r.num_decoder_layers} layers" if r.num_decoder_layers else f"{r.num_layers} layers"
    shared = f", {r.num_kv_heads} of keys and values" if r.num_kv_heads != r.num_heads else ""
    sizes = f"D {r.d_model} · {layers} · {plural(r.num_heads, 'head')} of {r.head_dim}{shared} · F {r.d_ff}"
    return f"{sizes} · {exact(r.parameters)} parameters ({short(4 * r.parameters, 'B')} in float32)"


def _parts(r: CostRecord, *, is_exact: bool) -> Table:
    write = exact if is_exact else short
    many = (">FLOPs", ">share", ">parameters" if is_exact else ">params", ">made")
    table = grid("part", *["grows as"] * is_exact, *many)
    table.columns[1].style = "dim" if is_exact else ""

    def add(name: str, grows: str, flops: int, parameters: int, made: int, style: str = "") -> None:
        numbers = (write(flops), percent(flops / r.flops) if flops else "–", write(parameters), short(made, "B"))
        table.add_row(name, *[grows] * is_exact, *numbers, style=style)

    for part in r.parts:
        if part.flops or part.parameters or part.bytes_made:
            add(*_NAMES[part.name], part.flops, part.parameters, part.bytes_made)
    table.add_section()
    add("all", "", r.flops, r.parameters, sum(part.bytes_made for part in r.parts), style="bold")
    return table


def _lengths(r: CostRecord, width: int) -> RenderResult:
    hides, keeps = any(at.visible_flops != at.flops for at in r.lengths), any(at.cache_bytes for at in r.lengths)
    caches = keeps and width >= _EXACT_FROM
    heads = [">N", ">FLOPs", ">made", *[">KV cache"] * caches, *[">masked"] * hides]
    table, cells = grid(*heads, "FLOPs by part"), max(13, min(60, width - 10 * len(heads) - 1))
    for at in r.lengths:
        numbers = [exact(at.length), short(at.flops), short(at.bytes_made, "B"), *[short(at.cache_bytes, "B")] * caches]
        numbers += [percent(1 - at.visible_flops / at.flops)] * hides
        table.add_row(*numbers, _share_bar(at, cells), style="bold" if at.length == r.length else "")
    yield table
    yield from dim(
        "P projections and W^o · F feed-forward · S scores and mixing · H head",
        "made: what the matrix products and the look-up of embeddings give, in float32; the fused path never writes "
        f"the N × N scores.{' KV cache: the keys and values that generation keeps.' * keeps}",
    )
    if hides:
        yield from dim(
            "masked: FLOPs for pairs of tokens that the mask hides, computed and thrown away; `train --dry-run`, "
            "`plan` and `bench` count without them: N (N + 1) / 2 of N² pairs under a causal mask."
        )


def _share_bar(at: CostAtLength, cells: int) -> Text:
    """A letter for every share of `cells`: readable without colour, too."""
    bar, before = Text(), 0
    for letter, name, style in _SHARES:
        before += getattr(at, name)
        bar.append(letter * (round(cells * before / at.flops) - len(bar)), style)
    return bar


def _crossover(r: CostRecord) -> RenderResult:
    overtake = exact(round(r.crossover)) if r.crossover >= 100 else f"{r.crossover:.3g}"
    yield from heading(f"\nScores and mixing overtake at N* = a / b = {overtake} tokens", *_formulas(r))
    end = 2 * r.crossover
    xs = tuple(end * i / _POINTS for i in range(_POINTS + 1))
    unit, letter = next((size, name) for size, name in _UNITS if r.flops_a_pair * end * end >= size)
    curves = (
        Series("O(ND²)", xs, [r.flops_a_token * x / unit for x in xs], "cyan", letter="a"),
        Series("O(N²D)", xs, [r.flops_a_pair * x * x / unit for x in xs], "yellow", letter="b"),
        Series("N*", (r.crossover,), (r.flops_a_token * r.crossover / unit,), "bold red", "●"),
    )
    yield Plot(curves, f"{letter}FLOP by N", height=10)
    yield Text(
        "See: twice the tokens cost twice the projections and feed-forwards, and four times the scores and mixing. At "
        f"N = {exact(r.length)} the second cost {percent(r.length / r.crossover)} of the first: N / N*."
    )


def _formulas(r: CostRecord) -> Iterator[str]:
    h, kv, d, dh, f = r.num_heads, r.num_kv_heads, r.d_model, r.head_dim, r.d_ff
    six = 6 if r.is_gated else 4
    attention, numbers = ("4 D Dh (H + Hkv)", f"4·{d}·{dh}·({h} + {kv})") if r.has_projections else ("0", "0")
    if r.num_decoder_layers:
        per = f"{r.num_layers} encoder and {r.num_decoder_layers} decoder layers, which have two attentions"
        yield f"a: {attention} an attention and {six} D F a feed-forward, for every token of each side"
        yield f"b: 4 H Dh an attention, for every pair of tokens; {per}"
        yield f"a = {exact(r.flops_a_token)}, b = {exact(r.flops_a_pair)} in all layers"
        return
    a, b = exact(r.flops_a_token // r.num_layers), exact(r.flops_a_pair // r.num_layers)
    yield f"a = {attention} + {six} D F a token and layer = {numbers} + {six}·{d}·{f} = {a}"
    yield f"b = 4 H Dh a pair of tokens and layer = 4·{h}·{dh} = {b}"
    if r.has_projections and kv == h and h * dh == d:
        inner = "1.5 F" if r.is_gated else "F"
        yield f"Here H Dh = D, so that N* = 2 D + {inner}; with F = 4 D and no gate it is 6 D."


def _measured(r: CostRecord, *, ascii_only: bool) -> RenderResult:
    assert r.products_a_second is not None
    about = f"predicted: FLOPs over {short(r.products_a_second, 'FLOP/s')}, a product of 1024 × 1024 matrices here"
    yield from heading("\nMeasured beside predicted", about)
    table = grid(">N", ">predicted", ">measured", ">ratio", "")
    known = [(at.length, at.predicted_seconds, at.seconds) for at in r.lengths if at.predicted_seconds and at.seconds]
    largest = max(seconds / predicted for _, predicted, seconds in known)
    for length, predicted, seconds in known:
        drawn = Text(bar(seconds / predicted / largest, _BAR, ascii_only=ascii_only), "yellow")
        times = (short_duration(predicted), short_duration(seconds), f"{seconds / predicted:.2f}")
        table.add_row(exact(length), *times, drawn)
    yield table
    yield Text(
        "See: a ratio above 1 is what no matrix product counts: softmax and mask go over N² numbers, and small "
        "products do not reach the speed of a large one. Lengths that take seconds are left out."
    )


_OTHERS = {
    "dense": (
        "fully connected",
        "all N D numbers to N D others, (N D)² + N D parameters",
        "See: the matrix of the fully connected layer has a number for every pair of tokens and dimensions, so that it "
        "grows with N² and fits one N alone. Attention computes its N × N weights from the tokens: it has no parameter "
        "of N, and takes any.",
    ),
    "rnn": (
        "recurrent",
        "h_t = tanh(W x_t + U h_t−1 + b + c), 2 D² + 2 D parameters",
        "See: the recurrent layer takes any N, too, and its operations grow with N alone. But each step waits for the "
        "one before it, and what the first token says reaches the last after N − 1 steps. In attention all "
        "tokens are read at once, from any to any in one step.",
    ),
}  # name, formula, and what to see


class AgainstView(View[AgainstRecord]):
    """Both layers by N, then what grows as a curve."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        r = self.record
        name, formula, see = _OTHERS[r.other]
        sizes = f"N tokens of size D = {r.d_model}, {plural(r.num_heads, 'head')}"
        yield from heading(f"Self-attention beside a {name} layer", sizes, f"{name}: {formula}")
        table = grid(">N", "layer", ">params", ">FLOPs", ">steps", ">path", "N + 1")
        for at in r.lengths:
            table.add_row(exact(at.length), "attention", *_cells(at.attention), style="cyan")
            table.add_row("", "dense" if r.other == "dense" else "recurrent", *_cells(at.other), style="yellow")
        yield table
        steps = "steps: that wait for each other · path: steps between the two tokens furthest apart"
        yield from dim(f"{steps} · N + 1: whether a layer made for N tokens ran on one more")
        what = "parameters" if r.other == "dense" else "steps"
        yield from heading(f"\nlog10 of the {what} by log2 N")
        xs = [math.log2(at.length) for at in r.lengths]
        ys = {of: [math.log10(getattr(getattr(at, of), what)) for at in r.lengths] for of in ("attention", "other")}
        ours = Series("attention", xs, ys["attention"], "cyan", letter="a")
        yield Plot((ours, Series(name, xs, ys["other"], "yellow", letter=r.other[0])), "log2 N", height=7)
        yield Text(see)


def against_table(record: AgainstRecord) -> CsvTable:
    """A row for each layer and number of tokens."""
    both = ((at.length, of) for at in record.lengths for of in (("attention", at.attention), (record.other, at.other)))
    rows = ([length, name, *vars(layer).values()] for length, (name, layer) in both)
    return CsvTable(("length", "layer", "parameters", "flops", "steps", "path", "another_length"), rows)


def _cells(layer: MixerCost) -> tuple[str, ...]:
    takes = "yes" if layer.another_length else "no"
    return short(layer.parameters), short(layer.flops), exact(layer.steps), exact(layer.path), takes


class HeadsView(View[HeadCosts]):
    """What stays equal, what grows, and the time that it takes."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        r = self.record
        first, last = r.counts[0], r.counts[-1]
        where = f"{plural(r.sequences, 'sequence')} of N = {exact(r.length)} tokens, explicit path, no mask"
        formula = "8 N D² + 4 N² D" if first.parameters else "4 N² D"
        about = f"a sequence: {formula} FLOPs whatever k is, k N² exponentials · {where}"
        yield from heading(f"One attention of size D = {r.d_model} cut into k heads of size D / k", about)
        table = grid(">k", ">D / k", ">parameters", ">FLOPs", ">exponentials", ">measured", "")
        slowest = max(one.seconds for one in r.counts)
        write = exact if options.max_width >= _HEADS_EXACT_FROM else short
        for one in r.counts:
            numbers = (write(one.parameters), write(one.flops), write(one.exponentials), short_duration(one.seconds))
            drawn = Text(bar(one.seconds / slowest, _BAR, ascii_only=options.ascii_only), "yellow")
            table.add_row(str(one.num_heads), str(one.head_dim), *numbers, drawn if options.max_width >= 70 else "")
        yield table
        times = f"{last.exponentials / first.exponentials:.3g} × the exponentials"
        cost = f"{plural(last.num_heads, 'head')} cost the matrix products of {first.num_heads}, {times}"
        yield Text(f"See: {cost}, and {last.seconds / first.seconds:.2f} × the time.")


def heads_table(record: HeadCosts) -> CsvTable:
    """A row for each number of heads."""
    return CsvTable.of(record.counts, "num_heads", "head_dim", "parameters", "flops", "exponentials", "seconds")
