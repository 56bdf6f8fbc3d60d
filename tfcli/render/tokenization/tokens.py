"""A text as its tokens, and a tokenizer in numbers."""

from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from tfcli.records.tokenization import Encoding, TokenizerReport
from tfcli.render.brush import has_colors
from tfcli.render.facts import Fact, Facts
from tfcli.render.numbers import exact, percent, plural
from tfcli.render.safe import broken, fit, token_label

_PAPERS = ("#1f4e79", "#5b3a72")


@dataclass(frozen=True)
class EncodingView:
    """Tokens in text order as blocks of two colours (without colour: between bars), their ids under them."""

    encoding: Encoding

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        encoding = self.encoding
        blocks = [
            _Block(token_label(token), str(token_id), number, ends_line=token.endswith("\n"))
            for number, (token, token_id) in enumerate(zip(encoding.tokens, encoding.token_ids, strict=True))
        ]
        in_color = has_colors(console)
        for line in broken(blocks, options.max_width, lambda one: one.width, lambda one: one.ends_line):
            for block in line:
                yield block.token(in_color)
            yield Segment.line()
            yield Segment("".join(f"{block.id:<{block.width}} " for block in line).rstrip() + "\n", Style(dim=True))
        unknown = f", {exact(encoding.unknown)} of them unknown" if encoding.unknown else ""
        text = encoding.text
        yield Text(
            f"{plural(len(text), 'character')}, {plural(len(text.encode('utf-8', 'replace')), 'byte')} → "
            f"{plural(len(blocks), 'token')}{unknown}",
            style="dim",
        )


@dataclass(frozen=True)
class _Block:
    label: str
    id: str
    number: int
    ends_line: bool

    @property
    def width(self) -> int:
        """Cells of the wider of label and id, without the bar after it."""
        return min(max(cell_len(self.label), len(self.id)), 40)

    def token(self, in_color: bool) -> Segment:
        if not in_color:
            return Segment(fit(self.label, self.width) + "│")
        style = Style(color="#ffffff", bgcolor=_PAPERS[self.number % 2])
        return Segment(fit(self.label, self.width) + " ", style)


def tokenizer_view(report: TokenizerReport) -> Facts:
    """A tokenizer and what it made of its text."""
    share = report.unknown / report.tokens if report.tokens else 0.0
    facts = [
        Fact("vocabulary", exact(report.vocab_size), "tokens"),
        Fact("documents", exact(report.documents), "read"),
        Fact("characters", exact(report.characters)),
        Fact("bytes", exact(report.bytes), "UTF-8"),
        Fact("tokens", exact(report.tokens)),
        Fact("bytes per token", f"{report.bytes_per_token:.2f}", "more text in a token means shorter sequences"),
        Fact(
            "unknown",
            exact(report.unknown),
            f"{percent(share)} of the tokens" if report.unknown else "nothing was lost",
        ),
    ]
    if report.stretches_learned < 1:
        learned = Fact("learned from", percent(report.stretches_learned), "of its long stretches without white space")
        facts.append(learned)
    return Facts(f"Tokenizer · {report.algorithm} · {report.fingerprint[:12]}", facts)
