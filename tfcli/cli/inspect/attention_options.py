"""The options of ``tfcli inspect attention``, in the panels of its help: what, which head, against what, output."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from tfcli.cli.options import Kind
from tfcli.cli.settings import OUTPUT

_what = partial(typer.Option, rich_help_panel="What")
_which = partial(typer.Option, rich_help_panel="Which head")
_against = partial(typer.Option, rich_help_panel="Against what", show_default=False)
_output = partial(typer.Option, rich_help_panel=OUTPUT)

Target = Annotated[
    str | None, _what("--target", metavar="TEXT", help="Target of an encoder-decoder.", show_default="its translation")
]
Beam = Annotated[
    int | None,
    _what(
        "--beam",
        min=1,
        max=1_000,
        help="Follow the best text of so many beams: as the target, or behind a decoder's text.",
        show_default=False,
    ),
]
MaxNewTokens = Annotated[
    int | None,
    _what("--max-new-tokens", min=1, help="Stop after this many tokens, with --beam.", show_default="the run's own"),
]
Rows = Annotated[str | None, _what("--rows", metavar="A:B", help="Queries from A up to B.", show_default="all")]
KeyColumns = Annotated[str | None, _what("--columns", metavar="A:B", help="Keys from A up to B.", show_default="all")]
First = Annotated[int, _what("--first", min=0, help="Keep the first N keys in sight, whatever is left out.")]
Query = Annotated[
    str | None,
    _what(
        "--query",
        metavar="WORD",
        help="Where one word or token looks, and what is predicted behind it; WORD:2 is its second.",
        show_default=False,
    ),
]
Words = Annotated[bool, _what("--words", help="Merge the pieces of each word into one.")]
OfKind = Annotated[
    Kind | None,
    _which(
        "--kind",
        metavar="KIND",
        help="encoder_self, decoder_self or cross.",
        show_default="all; cross for pictures of an encoder-decoder",
    ),
]
Layer = Annotated[int | None, _which("--layer", min=0, help="Layer, from 0.", show_default="all, then a telling one")]
Head = Annotated[int | None, _which("--head", min=0, help="Head, from 0.", show_default="all, then a telling one")]
Average = Annotated[
    Literal["layer", "all"] | None,
    _which("--average", metavar="layer|all", help="The mean of a layer's heads, or of all.", show_default=False),
]
Rollout = Annotated[
    bool, _which("--rollout", help="Attention rollout: every layer's mean head, multiplied through the layers.")
]
Scores = Annotated[bool, _which("--scores", help="The scores before the softmax, beside the weights.")]
TopK = Annotated[
    int | None,
    _which(
        "--top-k",
        min=1,
        help="A list of the N strongest weights, or of the N largest differences.",
        show_default="no list; 8 differences",
    ),
]
AgainstHead = Annotated[str | None, _against("--against-head", metavar="L.H", help="Subtract another head's weights.")]
AgainstText = Annotated[
    str | None,
    _against("--against-text", metavar="TEXT", help="Subtract the weights on another text of as many tokens."),
]
AgainstRun = Annotated[Path | None, _against("--against-run", metavar="RUN", help="Subtract another run's weights.")]
AgainstCheckpoint = Annotated[
    str | None,
    _against("--against-checkpoint", metavar="best|last|STEP", help="Subtract those of another checkpoint of the run."),
]
Evolution = Annotated[
    bool,
    typer.Option(
        "--evolution", rich_help_panel="Against what", help="Show the head at every checkpoint that the run keeps."
    ),
]
ColorScale = Annotated[
    Literal["all", "each"],
    _output("--scale", metavar="all|each", help="Overview: one colour scale for all heads, or each head's own."),
]
Npz = Annotated[
    Path | None, _output("--npz", metavar="F", help="Write all weights as a NumPy archive.", show_default=False)
]
