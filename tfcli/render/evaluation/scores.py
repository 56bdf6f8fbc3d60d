"""A model's scores as a table that says what each number is and how sure it is."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from tfcli.records.evaluation import Interval, Scores
from tfcli.render.evaluation.buckets import buckets_table
from tfcli.render.evaluation.comparison import comparison_view, model_name
from tfcli.render.numbers import exact, percent, plural
from tfcli.render.safe import printable

_ACCURACY = {
    "clm": "of the next tokens",
    "mlm": "of the masked tokens",
    "seq2seq": "of the target tokens",
}
_UNITS = {"documents": "document", "pairs": "pair", "stretches": "stretch"}


@dataclass(frozen=True)
class ScoresView:
    """Scores with their intervals, what they were computed from, and, where there are several, the lengths."""

    scores: Scores

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        scores = self.scores
        yield Text(_title(scores), style="bold")
        yield _table(list(_rows(scores)))
        for note in _notes(scores):
            yield Text(note, style="dim")
        for warning in _warnings(scores):
            yield Text(warning, style="yellow")
        if len(scores.buckets) > 1:
            yield Text()
            yield buckets_table(scores, options.max_width)
        if scores.comparison is not None:
            yield Text()
            yield from comparison_view(scores)


@dataclass(frozen=True)
class _Row:
    name: str
    value: str
    interval: str
    note: str


def _title(scores: Scores) -> str:
    part = "whole" if scores.part == "whole" else "validation part"
    return f"{model_name(scores)} · {scores.objective} · {', '.join(map(printable, scores.sources))} · {part}"


def _rows(scores: Scores) -> Iterator[_Row]:
    def row(name: str, field: str, write: Callable[[float], str], note: str) -> Iterator[_Row]:
        value = getattr(scores, field)
        if value is not None:
            yield _Row(name, write(value), _interval(getattr(scores.intervals, field), write), note)

    yield from row("loss", "loss", _four, "nats a token")
    yield from row("perplexity", "perplexity", _three, "exp(loss)")
    yield from row("pseudo-perplexity", "pseudo_perplexity", _three, "each token masked alone")
    yield from row("bits per byte", "bits_per_byte", _four, "comparable between tokenizers")
    yield from row("bits per character", "bits_per_character", _four, "comparable between tokenizers")
    yield from row("accuracy", "accuracy", percent, _ACCURACY.get(scores.objective, "of the tokens"))
    yield from row("BLEU", "bleu", _two, "0 to 100, word n-grams")
    yield from row("chrF", "chrf", _two, "0 to 100, character n-grams")
    yield from row("exact match", "exact_match", percent, "of the pairs")


def _table(rows: Sequence[_Row]) -> Table:
    sure = any(row.interval for row in rows)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, justify="right")
    if sure:
        grid.add_column(no_wrap=True, justify="right")
    grid.add_column()
    if sure:
        grid.add_row("", "", Text("95 % interval", "dim"), "")
    for row in rows:
        between = [Text(row.interval)] if sure else []
        grid.add_row(Text(row.name), Text(row.value, "bold"), *between, Text(row.note, "dim"))
    return grid


def _notes(scores: Scores) -> Iterator[str]:
    pairs = scores.objective == "seq2seq"
    extent = plural(scores.documents, "pair" if pairs else "document")
    if scores.bytes is not None and scores.characters is not None:
        extent += f" · {exact(scores.bytes)} bytes, {exact(scores.characters)} characters"
    yield f"{plural(scores.tokens, 'token')} scored · {extent}"
    if scores.pieces_per_word is not None:
        usual = [
            f"{value:.{digits}f} {unit}"
            for value, digits, unit in (
                (scores.usual_pieces_per_word, 2, "pieces"),
                (scores.usual_bits_per_byte, 4, "bits per byte"),
            )
            if value is not None
        ]
        own = f"; the run's own validation part: {', '.join(usual)}" if usual else ""
        yield f"{scores.pieces_per_word:.2f} pieces a word{own}"
    if scores.share_without_token is not None:
        share, ids = scores.share_without_token, plural(scores.ids_without_token, "id")
        yield f"{percent(share)} of the probability is on {ids} without a token; the loss counts it as the model does"
    if scores.stride is not None and scores.context is not None:
        yield _windows(scores.context, scores.stride)
    if scores.text_start is not None:
        yield _frame(scores, scores.text_start)
    if scores.pseudo_tokens is not None:
        yield f"Masked alone: {plural(scores.pseudo_tokens, 'token')}, in windows spread evenly over the text"
    if scores.beam is not None:
        how = "greedy" if scores.beam == 1 else f"with {scores.beam} beams"
        yield f"Translated {how}" + ("" if scores.references_exact else "; references as the tokenizer keeps them")
    if scores.signature is not None:
        for name, signature in zip(("BLEU", "chrF"), scores.signature.split(), strict=False):
            yield f"{name}  {printable(signature)}"
    if scores.intervals.loss is not None and scores.resampled is not None:
        yield f"Intervals by bootstrap: 1,000 resamples of {_units(scores)}"


def _warnings(scores: Scores) -> Iterator[str]:
    if scores.left_out:
        yield f"{plural(scores.left_out, 'pair')} too long for the context: not in the loss"
    if scores.unknown:
        count = f"{plural(scores.unknown, 'token')} ({percent(scores.unknown / scores.tokens)})"
        what = "easier to foresee than the text itself, so that bits per byte flatter"
        yield f"{count} unknown to the tokenizer: {what}"


def _frame(scores: Scores, start: tuple[str, ...]) -> str:
    read = "Document by document" if scores.windows == "documents" else "All text in a row"
    if start:
        return f"{read}, each begun with {' '.join(map(printable, start))}"
    unscored = f"; {plural(scores.unscored, 'first token')} not scored" if scores.unscored else ""
    return f"{read}, with nothing before a text{unscored}"


def _windows(context: int, stride: int) -> str:
    if stride == context:
        return f"Windows of {exact(context)} tokens side by side (stride {exact(stride)})"
    before = exact(context - stride)
    return f"Windows of {exact(context)} tokens, stride {exact(stride)}: {before} or more before each token"


def _units(scores: Scores) -> str:
    if scores.resampled == "stretches":
        return f"{exact(scores.units)} stretches of the text, for there are few documents"
    assert scores.resampled is not None
    return plural(scores.units, _UNITS[scores.resampled])


def _interval(interval: Interval | None, write: Callable[[float], str]) -> str:
    if interval is None:
        return ""
    low, high = map(write, interval)
    return f"{low.removesuffix(' %')} – {high}"


def _two(value: float) -> str:
    return f"{value:.2f}"


def _three(value: float) -> str:
    return f"{value:.3f}" if value < 1000 else f"{value:,.0f}" if value < 1e7 else f"{value:.3g}"


def _four(value: float) -> str:
    return f"{value:.4f}"
