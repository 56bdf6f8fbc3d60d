"""A corpus report as tables, a histogram of lengths, and a page."""

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tfcli.draw import View
from tfcli.draw.numbers import exact, percent, plural, short
from tfcli.draw.safe import printable, shortened
from tfcli.draw.tables import CsvTable, bar, columns, grid, heading
from tfcli.inspection.corpus import CorpusReport

_WIDEST_BAR = 60
_NAME = 40


class CorpusReportView(View[CorpusReport]):
    """How much there is, of which source, how long documents are, what is there twice, and what recurs."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        report = self.record
        unit = "pair" if report.kind == "pairs" else "document"
        about = f"{plural(report.documents, unit)}, {plural(report.words, 'word')}, {short(report.bytes, 'B')}"
        if report.tokens is not None:
            about += f", {plural(report.tokens, 'token')}, {report.bytes_per_token or 0.0:.2f} bytes a token"
        one = len(report.sources) == 1
        of = f"from {printable(report.sources[0].source)}" if one else f"from {len(report.sources)} sources"
        yield from heading("Corpus", of, about)
        yield Text()
        if not one:
            yield from self._sources(options, f"{unit}s")
        yield from self._lengths(options, unit)
        yield Text()
        for line in report.skipped.lines():
            yield Text(printable(line), overflow="fold")
        share = report.exact_bytes / report.bytes if report.bytes else 0.0
        copies = "exact copy" if report.exact == 1 else "exact copies"
        copies = f"{exact(report.exact)} {copies} ({percent(share)} of the bytes)" if report.exact else f"no {copies}"
        near = "--near looks for near-duplicates"
        if report.near is not None:
            near = f"{exact(report.near) if report.near else 'no'} near-duplicate{'s' * (report.near != 1)}"
        yield Text.assemble(("Duplicates  ", "bold"), f"{copies}; {near}")
        yield from self._ngrams(options)

    def _sources(self, options: ConsoleOptions, units: str) -> RenderResult:
        of_bytes, of_tokens = [">bytes", ">of the bytes"], [">bytes", ">tokens", ">bytes a token", ">of the tokens"]
        heads = [f">{units}", *(of_bytes if self.record.tokens is None else of_tokens)]
        table = grid("source", *heads)
        room = max(12, min(_NAME, options.max_width - sum(max(10, len(head) + 2) for head in heads)))
        for one in self.record.sources:
            name = printable(one.source)
            cells = [name if len(name) <= room else f"…{name[1 - room :]}", exact(one.documents), short(one.bytes, "B")]
            if one.tokens is not None:
                cells += [short(one.tokens), f"{one.bytes / one.tokens:.2f}" if one.tokens else "–"]
            table.add_row(*cells, percent(one.share))
        yield table

    def _lengths(self, options: ConsoleOptions, unit: str) -> RenderResult:
        lengths = self.record.lengths
        named = {"shortest": "shortest", "p10": "10 %", "median": "half", "p90": "90 %", "longest": "longest"}
        said = " · ".join(f"{name} {exact(getattr(lengths, field))}" for field, name in named.items())
        yield from heading(f"Lengths in {lengths.unit}", said)
        bins = lengths.histogram
        labels = [f"{exact(one.low)}–{exact(one.high)}" if one.high > one.low else exact(one.low) for one in bins]
        if len(bins) > 1:
            labels[0], labels[-1] = f"up to {exact(bins[0].high)}", f"from {exact(bins[-1].low)}"
        most, table = max(one.documents for one in bins), columns("rrrl")
        room = options.max_width - max(map(len, labels)) - len(exact(most)) - 8 - 6
        for label, one in zip(labels, bins, strict=True):
            drawn = bar(one.documents / most, max(4, min(room, _WIDEST_BAR)), ascii_only=options.ascii_only)
            share = percent(one.documents / self.record.documents)
            table.add_row(label, exact(one.documents), Text(share, "dim"), Text(drawn, "cyan"))
        yield table

    def _ngrams(self, options: ConsoleOptions) -> RenderResult:
        report = self.record
        yield Text()
        what = "words" if report.ngram_size == 1 else f"sequences of {report.ngram_size} words"
        error = f"counts may be up to {exact(report.ngram_error)} too low" if report.ngram_error else ""
        if not report.ngrams:
            yield from heading(f"No {what} occur twice")
            return
        yield from heading(f"Most frequent {what}", *filter(None, [error]))
        table = columns("rl")
        for one in report.ngrams:
            table.add_row(exact(one.count), shortened(printable(one.text), options.max_width - 16))
        yield table


def corpus_table(report: CorpusReport) -> CsvTable:
    """The histogram of lengths."""
    return CsvTable.of(report.lengths.histogram, "low", "high", "documents")
