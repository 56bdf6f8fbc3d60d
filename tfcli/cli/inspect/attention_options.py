"""The options of ``tfcli inspect attention``, in the panels of its help, and which of them go together."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tfcli.cli.options import Kind

if TYPE_CHECKING:
    from tfcli.records.attention import AttentionRecord

_TEXT, _HEADS, _PART, _COMPARED = "The text", "Which heads", "Which part of a text", "Compared"


def _option(*names: str, panel: str, help: str, **settings: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, **settings)


Beam = Annotated[
    int | None,
    _option(
        "--beam",
        panel=_TEXT,
        min=1,
        max=1_000,
        help="Follow the best text of so many beams: as the target, or behind a decoder's text.",
        show_default=False,
    ),
]
MaxNewTokens = Annotated[
    int | None,
    _option(
        "--max-new-tokens",
        panel=_TEXT,
        min=1,
        help="Stop after this many tokens, with --beam.",
        show_default="the run's own",
    ),
]
OfKind = Annotated[
    Kind | None,
    _option(
        "--kind",
        panel=_HEADS,
        metavar="KIND",
        help="encoder_self, decoder_self or cross.",
        show_default="all; cross for pictures of an encoder-decoder",
    ),
]
Layer = Annotated[
    int | None,
    _option("--layer", panel=_HEADS, min=0, help="Layer, from 0.", show_default="all, then a telling one"),
]
Head = Annotated[
    int | None, _option("--head", panel=_HEADS, min=0, help="Head, from 0.", show_default="all, then a telling one")
]
Average = Annotated[
    Literal["layer", "all"] | None,
    _option(
        "--average",
        panel=_HEADS,
        metavar="layer|all",
        help="The mean of a layer's heads, or of all.",
        show_default=False,
    ),
]
Rollout = Annotated[
    bool, _option("--rollout", panel=_HEADS, help="Every layer's mean head, multiplied through the layers.")
]
Scores = Annotated[bool, _option("--scores", panel=_HEADS, help="The scores before the softmax, beside the weights.")]
TopK = Annotated[
    int | None,
    _option(
        "--top-k",
        panel=_HEADS,
        min=1,
        help="A list of the N strongest weights, or of the N largest differences.",
        show_default="no list; 8 differences",
    ),
]
Rows = Annotated[
    str | None, _option("--rows", panel=_PART, metavar="A:B", help="Queries from A up to B.", show_default="all")
]
KeyColumns = Annotated[
    str | None, _option("--columns", panel=_PART, metavar="A:B", help="Keys from A up to B.", show_default="all")
]
First = Annotated[
    int, _option("--first", panel=_PART, min=0, help="Keep the first N keys in sight, whatever is left out.")
]
AgainstHead = Annotated[
    str | None,
    _option("--against-head", panel=_COMPARED, metavar="L.H", help="Less another head's weights.", show_default=False),
]
AgainstText = Annotated[
    str | None,
    _option(
        "--against-text", panel=_COMPARED, metavar="TEXT", help="Less those on a text as long.", show_default=False
    ),
]
AgainstRun = Annotated[
    Path | None,
    _option("--against-run", panel=_COMPARED, metavar="RUN", help="Less those of another run.", show_default=False),
]
AgainstCheckpoint = Annotated[
    str | None,
    _option(
        "--against-checkpoint",
        panel=_COMPARED,
        metavar="best|last|STEP",
        help="Less those of other weights of the run.",
        show_default=False,
    ),
]
Evolution = Annotated[
    bool, _option("--evolution", panel=_COMPARED, help="The head at every checkpoint that the run keeps.")
]
Query = Annotated[
    str | None,
    _option(
        "--query",
        panel=_PART,
        metavar="WORD",
        help="Where one word or token looks, and what is predicted behind it; WORD:2 is its second.",
        show_default=False,
    ),
]
Npz = Annotated[
    Path | None, typer.Option("--npz", metavar="F", help="Write all weights as a NumPy archive.", show_default=False)
]


@dataclass(frozen=True)
class Choice:
    """What is shown of a text's attention.

    Raises:
        UsageError: options that mean nothing together.
    """

    layer: int | None
    head: int | None
    average: Literal["layer", "all"] | None
    rollout: bool
    scores: bool
    top_k: int | None
    rows: str | None
    columns: str | None
    first: int
    against_head: str | None
    against_text: str | None
    against_run: Path | None
    against_checkpoint: str | None
    evolution: bool
    words: bool = False
    query: str | None = None

    def __post_init__(self) -> None:
        from tfcli.errors import UsageError

        one_head = "shows one head's numbers"
        for option, others, why in (
            ("--rollout", ["--average"], "takes the mean of each layer's heads already"),
            ("--rollout", ["--head"], "takes all heads of a layer together"),
            ("--average", ["--head"], "takes all heads together"),
            ("--scores", ["--average", "--rollout"], "is before the softmax, and those are after it"),
            ("--scores", ["--words"], "is before the softmax, where the pieces of a word do not add up"),
            ("--query", ["--rows", "--scores", "--top-k", *self.compared, "--evolution"], "shows one row of weights"),
            ("--scores", ["--top-k", *self.compared, "--evolution"], one_head),
            (
                "--evolution",
                ["--average", "--rollout", "--top-k", *self.compared],
                "shows one head at every checkpoint",
            ),
            ("--evolution", ["--rows", "--columns", "--first"], "shows the whole text, small"),
            ("--against-head", ["--average", "--rollout"], "is one head less another"),
        ):
            given = [other for other in others if self._given(other)]
            if self._given(option) and given:
                raise UsageError(f"{option} {why}", f"leave {given[0]} or {option} out")
        if self.average == "all" and self.layer is not None:
            raise UsageError("--average all takes all layers together", "choose --average layer, or leave --layer out")
        if len(self.compared) > 1:
            raise UsageError(f"{' and '.join(self.compared)} are two comparisons", "choose one of them")

    @property
    def compared(self) -> list[str]:
        """The comparisons that are asked for."""
        names = ("--against-head", "--against-text", "--against-run", "--against-checkpoint")
        return [name for name in names if self._given(name)]

    @property
    def combined(self) -> bool:
        """Whether heads are taken together."""
        return self.rollout or self.average is not None

    def of(self, record: "AttentionRecord") -> "AttentionRecord":
        """What is shown of a record: its heads as they are or in one, its pieces as words, a part of its text, one head
        in focus.

        Raises:
            UsageError: there is no such layer, head, word or part, or cross-attention is to be rolled out.
        """
        from dataclasses import replace

        from tfcli.inspection.attention.crop import cropped, row_of
        from tfcli.inspection.attention.focus import focused, require_place
        from tfcli.inspection.attention.rollout import layer_means, mean_of_all, rollout
        from tfcli.inspection.words import attention_in_words

        if self.combined:
            how = rollout if self.rollout else mean_of_all if self.average == "all" else layer_means
            record = how(record)
            require_place("layer", self.layer, record.weights.shape[0])
            record = replace(record, focus=(record.focus[0] if self.layer is None else self.layer, 0))
        if self.words:
            record = attention_in_words(record)
        if self.query is not None:
            row = row_of(record, self.query)
            record = cropped(record, f"{row}:{row + 1}")
        if not self.combined:
            record = focused(record, self.layer, self.head)
        if not self.scores:
            record = replace(record, scores=None, bias=None)
        return cropped(record, self.rows, self.columns, self.first)

    def _given(self, option: str) -> bool:
        value = getattr(self, option.removeprefix("--").replace("-", "_"))
        return bool(value) if option == "--first" else value is not None and value is not False


def place(text: str, option: str = "--against-head") -> tuple[int, int]:
    """A layer and a head written as "1.0".

    Raises:
        UsageError: it is written otherwise.
    """
    from tfcli.errors import UsageError, shortened

    layer, _, head = text.partition(".")
    if not all(number.isdecimal() and len(number) < 19 for number in (layer, head)):
        raise UsageError(f"{option} {shortened(text)!r} is no head", "write LAYER.HEAD, such as 1.0")
    return int(layer), int(head)


def weights_name(checkpoint: str) -> str:
    """What `--checkpoint` names, in words."""
    return f"step {checkpoint}" if checkpoint.isdecimal() else f"the {checkpoint} weights"
