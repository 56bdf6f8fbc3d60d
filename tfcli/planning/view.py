"""What a training would be, and what is proposed: tables."""

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.numbers import counted, duration, exact, percent, plural, short
from tfcli.draw.tables import bar, columns, dim, grid
from tfcli.inspection.model import ParameterGroup
from tfcli.planning import Candidate, Measured, MemoryRecord, Plan, TrainingOutline

_MEMORY = {"process": "interpreter and libraries", "weights": "weights", "copies": "their copies in bfloat16"}
_MEMORY |= {"gradients": "gradients", "optimizer": "optimizer's memory", "activations": "activations"}
_MEMORY |= {"logits": "logits", "allocator": "kept by the allocator"}
_BAR = 24


class OutlineView(View[TrainingOutline]):
    """`tfcli train --dry-run`: shapes and parameters, then memory, then what a step costs."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        o = self.record
        yield Text.assemble((o.architecture, "bold"), (f" · {counted(o.parameters, o.adapter_parameters)}", "dim"))
        yield _parameters(o.groups, o.parameters)
        yield Text()
        yield _memory(o.memory, ascii_only=options.ascii_only)
        yield Text()
        table = columns("lw")
        step = f"{'up to ' * o.equal_tokens}{plural(o.sequences, 'sequence')} of {exact(o.context)} tokens"
        device = f"{o.device}, {o.precision}, {plural(o.threads, 'thread')}"
        facts = {
            "vocabulary": f"{exact(o.vocab_size)} ids{' at most' * o.vocab_size_is_most}",
            "a micro-batch": _micro_batch(o),
            "a step": f"{step}, {short(o.flops_per_step, 'FLOP')}",
            "a token": f"{short(o.flops_per_token, 'FLOP')}, forward and backward",
            "in all": _in_all(o),
            "on": f"{device}, attention {o.attention}, compile {o.compile}",
            "checkpoints": _checkpoints(o),
            "exports as": str(o.exportable),
        }
        for name, value in facts.items():
            table.add_row(Text(name, "dim"), value)
        yield table


def _in_all(o: TrainingOutline) -> str:
    if o.steps is None or o.tokens is None:
        return f"{o.epochs:g} epoch{'s' * (o.epochs != 1)}, counted in steps once the text is prepared"
    return f"{exact(o.steps)} steps, {short(o.tokens)} tokens at most, {short(o.flops_per_step * o.steps, 'FLOP')}"


def _checkpoints(o: TrainingOutline) -> str:
    if o.checkpoints is None or o.checkpoint_bytes is None:
        return "counted once the text is prepared"
    whole, of_weights = o.checkpoints
    more = f" and {exact(of_weights)} of weights alone" if of_weights else ""
    return f"{exact(whole)} whole{more} in the end, {short(o.checkpoint_bytes, 'B')}"


def _micro_batch(o: TrainingOutline) -> str:
    if o.batch_tokens is not None:
        return f"{exact(o.batch_tokens)} tokens, padding included"
    if not o.equal_tokens:
        return plural(o.batch_size, "sequence")
    what = "pair" if o.architecture == "encoder-decoder" else "document"
    return f"as many tokens as {plural(o.batch_size, what)} of mean length, counted once the text is prepared"


class PlanView(View[Plan]):
    """`tfcli plan`: the candidates, the chosen one marked, and what to type."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        p, chosen = self.record, self.record.chosen
        about = f" in {p.minutes:g} min · {p.device}, {p.precision}, {plural(p.threads, 'thread')}"
        yield Text.assemble((p.architecture, "bold"), (about, "dim"))
        unit = "pair" if p.architecture == "encoder-decoder" else "document"
        text = f"{', '.join(p.sources)}: {plural(p.documents, unit)}, {short(p.train_tokens)} tokens to train on"
        yield Text(text + (" (the first ones of a large corpus)" if p.max_documents else ""), style="dim")
        yield _candidates(p.candidates)
        yield from dim(_why(chosen, unit), f"exports as {p.exportable}")
        if p.measured is not None:
            yield Text()
            yield _checked(chosen, p.measured)


def _parameters(groups: Sequence[ParameterGroup], total: int) -> Table:
    table = grid("part", ">×", "shapes", ">parameters", ">share", padding=(0, 1))
    times, shapes = table.columns[1:3]
    shapes.overflow, shapes.ratio = "fold", 1
    times.no_wrap = shapes.no_wrap = False
    for group in groups:
        numbers = (exact(group.parameters), percent(group.parameters / total))
        table.add_row(group.name, str(group.count), Text(_shapes(group), "dim"), *numbers)
    table.add_section()
    table.add_row("all", "", "", Text(exact(total), "bold"), "")
    return table


def _shapes(group: ParameterGroup) -> str:
    """Names of one shape together, without what is said of every matrix: "query, key, value, output 64×64"."""
    named: dict[tuple[int, ...], list[str]] = {}
    for name, shape in group.tensors:
        bare = "matrix" if name == "weight" else name.removesuffix(".weight").removesuffix(" norm")
        named.setdefault(shape, []).append(bare)
    return "; ".join(f"{', '.join(names)} {'×'.join(map(str, shape))}" for shape, names in named.items())


def _memory(memory: MemoryRecord, *, ascii_only: bool) -> Table:
    table = grid("memory", ">at most", padding=(0, 1))
    table.add_column("", ratio=1, no_wrap=True)
    for name, what in _MEMORY.items():
        if size := getattr(memory, name):
            table.add_row(what, short(size, "B"), Text(bar(size / memory.peak, _BAR, ascii_only=ascii_only), "cyan"))
    table.add_section()
    whole = Text(bar(1.0, _BAR, ascii_only=ascii_only), "dim cyan")
    table.add_row("at once, at the peak", Text(short(memory.peak, "B"), "bold"), whole)
    return table


def _candidates(candidates: Sequence[Candidate]) -> Table:
    table = grid("  size", ">N", ">batch", ">tokens/s", ">steps", ">epochs", ">tokens/N", ">time", ">memory")
    for c in candidates:
        found = [*["–"] * 5, "too much"]
        if c.fits:
            found = [short(c.tokens_per_second), exact(c.steps), f"{c.epochs:.1f}", f"{c.worth / c.parameters:.3g}"]
            found += [duration(c.seconds), short(c.memory, "B")]
        mark, style = ("▸ ", "bold") if c.chosen else ("  ", "dim")
        table.add_row(mark + c.size, short(c.parameters), exact(c.batch_tokens), *found, style=style)
    return table


def _why(chosen: Candidate, unit: str) -> str:
    why = f"the smallest, for there is too little time or too few {unit}s for 20 tokens a parameter"
    if chosen.worth >= 20 * chosen.parameters:
        why = "the largest that gets 20 tokens for each of N parameters, a repeated one counted for less"
    return f"{chosen.size}: {why}; {plural(chosen.evaluations, 'evaluation')}, as many checkpoints"


def _checked(chosen: Candidate, measured: Measured) -> Table:
    table = grid("", ">predicted", ">measured", ">apart", padding=(0, 1))
    times = f"{chosen.seconds / measured.seconds - 1:+.1%}"
    table.add_row("time", duration(chosen.seconds), duration(measured.seconds), times)
    if most := measured.memory:
        table.add_row("memory", short(chosen.memory, "B"), short(most, "B"), f"{chosen.memory / most - 1:+.1%}")
    return table
