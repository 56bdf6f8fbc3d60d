"""Attention of one layer or head, the mean of heads, attention rollout, a part of a text, or a difference: what can be
asked of the self-attention and cross-attention of a text.

The command line, the explorer and the Python API ask for it by the same names.
"""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tfcli.errors import UsageError, shortened
from tfcli.inspection.attention.crop import cropped, row_of
from tfcli.inspection.attention.focus import focused, require_place
from tfcli.inspection.attention.rollout import layer_means, mean_of_all, rollout
from tfcli.inspection.words import attention_in_words
from tfcli.records.attention import AttentionKind, AttentionRecord

if TYPE_CHECKING:
    from tfcli.inspection.reading import Inputs
    from tfcli.runs.load import LoadedRun

_COMPARISONS = ("against_head", "against_text", "against_run", "against_checkpoint")
_ONE_HEAD = "shows one head's numbers"
_REFUSED = (
    ("rollout", ("average",), "takes the mean of each layer's heads already"),
    ("rollout", ("head",), "takes all heads of a layer together"),
    ("average", ("head",), "takes all heads together"),
    ("scores", ("average", "rollout"), "is before the softmax, and those are after it"),
    ("scores", ("words",), "is before the softmax, where the pieces of a word do not add up"),
    ("query", ("rows", "scores", "top_k", *_COMPARISONS, "evolution"), "shows one row of weights"),
    ("scores", ("top_k", *_COMPARISONS, "evolution"), _ONE_HEAD),
    ("evolution", ("average", "rollout", "top_k", *_COMPARISONS), "shows one head at every checkpoint"),
    ("evolution", ("rows", "columns", "first"), "shows the whole text, small"),
    ("against_head", ("average", "rollout"), "is one head less another"),
)


@dataclass(frozen=True)
class AttentionChoice:
    """What is shown of a text's attention. Each field is named like its option of `tfcli inspect attention`.

    Raises:
        UsageError: fields that mean nothing together.
    """

    layer: int | None = None
    head: int | None = None
    average: Literal["layer", "all"] | None = None
    rollout: bool = False
    scores: bool = False
    top_k: int | None = None
    rows: str | None = None
    columns: str | None = None
    first: int = 0
    query: str | None = None
    words: bool = False
    against_head: str | None = None
    against_text: str | None = None
    against_run: Path | None = None
    against_checkpoint: str | None = None
    evolution: bool = False
    target: str | None = None
    beam: int | None = None
    max_new_tokens: int | None = None
    kind: AttentionKind | None = None

    def __post_init__(self) -> None:
        given = self.given()
        for name, others, why in _REFUSED:
            both = [other for other in others if other in given]
            if name in given and both:
                raise UsageError(f"{_option(name)} {why}", f"leave {_option(both[0])} or {_option(name)} out")
        if self.average == "all" and self.layer is not None:
            raise UsageError("--average all takes all layers together", "choose --average layer, or leave --layer out")
        if len(self.compared) > 1:
            raise UsageError(f"{' and '.join(map(_option, self.compared))} are two comparisons", "choose one of them")
        if self.max_new_tokens is not None and self.beam is None:
            raise UsageError("--max-new-tokens is for the text that --beam finds", "add --beam N, or leave it out")

    def given(self) -> dict[str, object]:
        """What is asked for, by its field; what is left as it is by default is not."""
        every = ((field, getattr(self, field.name)) for field in fields(self))
        return {field.name: value for field, value in every if value != field.default}

    def options(self) -> list[str]:
        """The words of a command line that ask for it.

        >>> AttentionChoice(layer=1, head=0, scores=True).options()
        ['--layer', '1', '--head', '0', '--scores']
        """
        given = self.given().items()
        return [word for name, value in given for word in (_option(name), *([] if value is True else [str(value)]))]

    @property
    def compared(self) -> list[str]:
        """The comparisons that are asked for."""
        return [name for name in _COMPARISONS if getattr(self, name) is not None]

    def require_another(self, run: Path, text: str, checkpoint: str) -> None:
        """Refuse to compare a text, a run or its weights with themselves.

        Raises:
            UsageError: names the option.
        """
        other = self.against_run
        for option, is_same in (
            ("--against-text", self.against_text == text),
            ("--against-run", other is not None and other.resolve() == run.resolve() and checkpoint == "best"),
            ("--against-checkpoint", self.against_checkpoint == checkpoint),
        ):
            if is_same:
                problem = f"{option} names what it is compared with, and all differences are 0"
                raise UsageError(problem, "name another one")

    def read(self, run: "LoadedRun", text: str) -> "Inputs":
        """How a run reads a text: with the target that is given, or the one that the beam search finds.

        Raises:
            UsageError: as `read_text`.
        """
        from tfcli.inspection.reading import read_text

        return read_text(run, text, self.target, beam=self.beam, max_new_tokens=self.max_new_tokens)

    def of(self, record: AttentionRecord) -> AttentionRecord:
        """What is shown of a record: its heads as they are or in one, its pieces as words, a part of its text, one head
        in focus.

        Raises:
            UsageError: there is no such layer, head, word or part, or cross-attention is to be rolled out.
        """
        combined = self.rollout or self.average is not None
        if combined:
            how = rollout if self.rollout else mean_of_all if self.average == "all" else layer_means
            record = how(record)
            require_place("layer", self.layer, record.weights.shape[0])
            record = replace(record, focus=(record.focus[0] if self.layer is None else self.layer, 0))
        if self.words:
            record = attention_in_words(record)
        if self.query is not None:
            row = row_of(record, self.query)
            record = cropped(record, f"{row}:{row + 1}")
        if not combined:
            record = focused(record, self.layer, self.head)
        if not self.scores:
            record = replace(record, scores=None, bias=None)
        return cropped(record, self.rows, self.columns, self.first)


def head_place(text: str, option: str) -> tuple[int, int]:
    """A layer and a head written as "1.0".

    Raises:
        UsageError: it is written otherwise.
    """
    layer, _, head = text.partition(".")
    if not all(number.isdecimal() and len(number) < 19 for number in (layer, head)):
        raise UsageError(f"{option} {shortened(text)!r} is no head", "write LAYER.HEAD, such as 1.0")
    return int(layer), int(head)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
