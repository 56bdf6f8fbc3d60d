"""A model's scores as tables: what each number is, how sure, by length, and beside those of another model."""

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.numbers import exact, percent, plural
from tfcli.draw.safe import printable
from tfcli.draw.tables import bar, columns, dim, heading
from tfcli.records.evaluation import Difference, Scores, loss_unit

_SCORES = {  # names, and what a number means; of loss, accuracy and BLEU that depends on the run: see `_meaning`
    "loss": ("loss", ""),
    "perplexity": ("perplexity", "exp(loss)"),
    "pseudo_perplexity": ("pseudo-perplexity", "each token masked alone"),
    "bits_per_byte": ("bits per byte", "comparable between tokenizers"),
    "bits_per_character": ("bits per character", "comparable between tokenizers"),
    "accuracy": ("accuracy", ""),
    "bleu": ("BLEU", ""),
    "chrf": ("chrF", "0 to 100, character n-grams"),
    "exact_match": ("exact match", "of the pairs"),
    "macro_f1": ("macro-F1", "mean over the labels"),
    "entity_f1": ("entity F1", "type and both ends right"),
    "span_f1": ("span F1", "of the answers' tokens"),
}
_OF_TOKENS = {
    "clm": "of the next tokens",
    "mlm": "of the masked tokens",
    "seq2seq": "of the target tokens",
    "completion": "of the answers' tokens",
    "prefix": "of the tokens behind the prefixes",
    "span-corruption": "of the spans' tokens and sentinels",
    "infilling": "of the whole text's tokens, masks read",
    "classify": "of the texts",
    "tag": "of the words",
    "span": "of first and last tokens",
}
_BLEU_UNITS = {  # what BLEU's n-grams are made of; words of all other tokenizations
    "zh": "n-grams of words and Chinese characters",
    "char": "character n-grams",
    "flores200": "n-grams of word pieces",
}
_TASKS = ("classify", "tag", "span")
_DIGITS = {"perplexity": 3, "pseudo_perplexity": 3, "bleu": 2, "chrf": 2}  # behind the point, where they are not four
_SHARES = ("accuracy", "exact_match", "macro_f1", "entity_f1", "span_f1")
_HIGHER_IS_BETTER = (*_SHARES, "bleu", "chrf")
_LIKELY_CHANCE = 0.05
_BARS_FROM = 100  # columns of a terminal in which bars fit beside the figures
_LONGEST_BAR = 30


def _value(score: str, value: float) -> str:
    return percent(value) if score in _SHARES else f"{value:.{_DIGITS.get(score, 4)}f}"


class ScoresView(View[Scores]):
    """Scores with their intervals, what they were computed from, and, where there are several, the lengths."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        scores = self.record
        part = "whole" if scores.part == "whole" else "validation part"
        sources = ", ".join(map(printable, scores.sources))
        yield from heading(f"{_model_name(scores)} · {scores.objective} · {sources} · {part}")
        yield _scores_table(scores)
        yield from dim(*_notes(scores))
        for warning in _warnings(scores):
            yield Text(warning, style="yellow")
        if len(scores.buckets) > 1:
            yield Text()
            yield _buckets_table(scores, options.max_width)
        if len(scores.labels) <= _MOST_CONFUSED and scores.objective in ("classify", "tag"):
            yield Text()
            yield _confusion_table(scores)
        if scores.comparison is not None:
            yield Text()
            yield from _comparison(scores)


def _model_name(scores: Scores) -> str:
    """The run, and the precision of its weights where it is not its own."""
    return printable(scores.run) + ("" if scores.precision == "float32" else f" in {scores.precision}")


def _scores_table(scores: Scores) -> Table:
    values = {name: value for name in _SCORES if (value := getattr(scores, name)) is not None}
    if scores.objective in _TASKS:
        del values["perplexity"]
    has_intervals = any(getattr(scores.intervals, name) is not None for name in values)
    table = columns("lrrw", "", "", "95 % interval") if has_intervals else columns("lrw")
    for name, value in values.items():
        cells = [Text(_SCORES[name][0]), Text(_written(name, value), "bold")]
        if has_intervals:
            ends = [_written(name, end) for end in getattr(scores.intervals, name) or ()]
            cells.append(Text(" – ".join(ends).replace(" % –", " –")))
        table.add_row(*cells, Text(_meaning(name, scores), "dim"))
    return table


def _meaning(name: str, scores: Scores) -> str:
    """What a score is of, or measured in."""
    if name == "loss":
        return loss_unit(scores.objective)
    if name == "accuracy":
        return _OF_TOKENS.get(scores.objective, "of the tokens")
    if name == "bleu":
        return f"0 to 100, {_BLEU_UNITS.get(scores.bleu_tokenize or '', 'word n-grams')}"
    if name == "exact_match" and scores.objective == "span":
        return "both ends right"
    return _SCORES[name][1]


def _written(score: str, value: float) -> str:
    """As `_value`; a perplexity may be too large for decimals."""
    if score.endswith("perplexity") and value >= 1000:
        return f"{value:,.0f}" if value < 1e7 else f"{value:.3g}"
    return _value(score, value)


def _notes(scores: Scores) -> Iterator[str]:
    if scores.objective in _TASKS:
        chance = "" if scores.chance is None else f" · always the most frequent label: {percent(scores.chance)}"
        yield f"{plural(scores.tokens, 'label')} of {plural(scores.documents, 'text')}{chance}"
        yield from _interval_notes(scores)
        return
    extent = plural(scores.documents, "pair" if scores.objective in ("seq2seq", "completion") else "document")
    if scores.bytes is not None and scores.characters is not None:
        extent += f" · {exact(scores.bytes)} bytes, {exact(scores.characters)} characters"
    yield f"{plural(scores.tokens, 'token')} scored · {extent}"
    if scores.pieces_per_word is not None:
        known = ((scores.usual_pieces_per_word, ".2f", "pieces"), (scores.usual_bits_per_byte, ".4f", "bits per byte"))
        usual = ", ".join(f"{value:{digits}} {unit}" for value, digits, unit in known if value is not None)
        own = f"; the run's own validation part: {usual}" if usual else ""
        yield f"{scores.pieces_per_word:.2f} pieces a word{own}"
    if scores.share_without_token is not None:
        share, ids = scores.share_without_token, plural(scores.ids_without_token, "id")
        yield f"{percent(share)} of the probability is on {ids} without a token; the loss counts it as the model does"
    if scores.stride is not None and scores.context is not None:
        stride, before = exact(scores.stride), exact(scores.context - scores.stride)
        how = f", stride {stride}: {before} or more before each token" if scores.stride < scores.context else ""
        yield f"Windows of {exact(scores.context)} tokens{how or f' side by side (stride {stride})'}"
    if scores.text_start is not None:
        read = "Document by document" if scores.windows == "documents" else "All text in a row"
        begun = f", each begun with {' '.join(map(printable, scores.text_start))}"
        unscored = f"; {plural(scores.unscored, 'first token')} not scored" if scores.unscored else ""
        yield read + (begun if scores.text_start else f", with nothing before a text{unscored}")
    if scores.pseudo_tokens is not None:
        yield f"Masked alone: {plural(scores.pseudo_tokens, 'token')}, in windows spread evenly over the text"
    if scores.beam is not None:
        how = "greedy" if scores.beam == 1 else f"with {scores.beam} beams"
        yield f"Translated {how}" + ("" if scores.references_exact else "; references as the tokenizer keeps them")
    if scores.signature is not None:
        for name, signature in zip(("BLEU", "chrF"), scores.signature.split(), strict=False):
            yield f"{name}  {printable(signature)}"
    yield from _interval_notes(scores)


def _interval_notes(scores: Scores) -> Iterator[str]:
    """What the intervals are computed from, and how: methods with the scores that they are for."""
    if scores.intervals.loss is None:
        return
    if scores.objective in _TASKS:
        units = plural(scores.units, "text")
    elif scores.resampled == "stretches":
        units = f"{exact(scores.units)} stretches of the text, which has few documents"
    else:
        units = f"{exact(scores.units)} {scores.resampled}"
    yield f"Intervals over {units}"

    names_by_method: dict[str, list[str]] = {}
    for score, (name, _) in _SCORES.items():
        method = scores.interval_methods.get(score)
        is_shown = not (score == "perplexity" and scores.objective in _TASKS)
        if method is not None and is_shown:
            names_by_method.setdefault(method, []).append(name)
    if names_by_method:
        yield " · ".join(f"{method}: {', '.join(names)}" for method, names in names_by_method.items())


def _warnings(scores: Scores) -> Iterator[str]:
    if scores.left_out:
        what = "text" if scores.objective in _TASKS else "pair"
        yield f"{plural(scores.left_out, what)} too long for the context: not in the loss"
    if scores.unknown:
        count = f"{plural(scores.unknown, 'token')} ({percent(scores.unknown / scores.tokens)})"
        effect = "they are easier to predict than the text they replace, so bits per byte look better than they are"
        yield f"{count} unknown to the tokenizer; {effect}"


def _buckets_table(scores: Scores, width: int) -> Table:
    """The buckets; in a wide terminal each with a bar, of its BLEU or its loss."""
    pairs = scores.objective == "seq2seq"
    names = ("loss", "accuracy", *(("bleu", "chrf", "exact_match") if pairs else ()))
    heads = ["pairs" if pairs else "documents", *(_SCORES[name][0].split()[0] for name in names)]
    table = columns("r" + "r" * len(heads) + "l", "source tokens" if pairs else "tokens", *heads)
    lengths = [getattr(bucket, "bleu" if pairs else "loss") or 0.0 for bucket in scores.buckets]
    with_bars = width >= _BARS_FROM and max(lengths) > 0
    for bucket, length in zip(scores.buckets, lengths, strict=True):
        figures = ("-" if (value := getattr(bucket, name)) is None else _value(name, value) for name in names)
        least = "up to " if bucket.shortest == 1 else f"{exact(bucket.shortest)}–"
        row = [Text(cell) for cell in (least + exact(bucket.longest), exact(bucket.documents), *figures)]
        if with_bars:
            row.append(Text(bar(length / max(lengths), _LONGEST_BAR), "green"))
        table.add_row(*row)
    return table


_MOST_CONFUSED = 12  # labels of a table; JSON has any number


def _confusion_table(scores: Scores) -> Table:
    """A row a true label, a column what it was taken for; what is right is bold."""
    names = [printable(name) for name in scores.labels]
    table = columns("l" + "r" * len(names), "true \\ predicted", *names)
    for name, row in zip(names, scores.confusion, strict=True):
        styles = ("bold" if other == name else "" if count else "dim" for other, count in zip(names, row, strict=True))
        table.add_row(Text(name), *map(Text, map(exact, row), styles))
    return table


def _comparison(scores: Scores) -> Iterator[Text | Table]:
    """The runs by letter, a row a score, and what to beware of."""
    comparison = scores.comparison
    assert comparison is not None
    yield Text("Compared on the same text", style="bold")
    for letter, run in (("A", scores), ("B", comparison.scores)):
        yield Text.assemble((letter, "bold cyan"), f"  {_model_name(run)}")
    table = columns("lrrrrrl", "", "A", "B", "B − A", "95 % interval", "p")
    for one in comparison.differences:
        interval = "-" if one.interval is None else " – ".join(_signed(one.score, end) for end in one.interval)
        p_value = "-" if one.p_value is None else f"{one.p_value:.3f}"
        figures = (_value(one.score, one.first), _value(one.score, one.second))
        change = Text(_signed(one.score, one.difference), "bold")
        table.add_row(_SCORES[one.score][0], *figures, change, interval, p_value, _verdict(one))
    yield table
    if any(one.p_value is not None for one in comparison.differences):
        yield from dim("Paired bootstrap, 1,000 resamples; p: how often chance alone differs as much")
    for note in comparison.notes:
        yield Text(printable(note), style="yellow")


def _verdict(one: Difference) -> Text:
    if one.p_value is None:
        return Text()
    if one.difference == 0 or one.p_value >= _LIKELY_CHANCE:
        return Text("chance?" if one.difference else "equal", "dim")
    return Text("B better" if (one.difference > 0) == (one.score in _HIGHER_IS_BETTER) else "A better", "green")


def _signed(score: str, value: float) -> str:
    return (f"{value * 100:+z.1f}" if score in _SHARES else f"{value:+z.{_DIGITS.get(score, 4)}f}").replace("-", "−")
