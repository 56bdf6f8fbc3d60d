"""A text as the model read it: every kind of its attention, and what each head does with it."""

from dataclasses import dataclass
from functools import cached_property

import torch

from tfcli.explorer.state import Place, View
from tfcli.inspection.attention.attention import chosen_attention
from tfcli.inspection.attention.choice import AttentionChoice
from tfcli.inspection.attention.weights import attention_record
from tfcli.inspection.heads.copies import Copies, copies
from tfcli.inspection.heads.material import Material
from tfcli.inspection.heads.roles import heads_on
from tfcli.inspection.kinds import KINDS
from tfcli.inspection.passes import record_model
from tfcli.inspection.reading import read_text
from tfcli.records.attention import AttentionDifference, AttentionEdges, AttentionHeads, AttentionKind, AttentionRecord
from tfcli.records.heads import HeadStatistics
from tfcli.runs.load import LoadedRun

FIRST_TEXTS = {
    "decoder": "Tom swam to the bank",
    "encoder": "Tom swam to the bank",
    "encoder-decoder": "O livro está em cima da mesa.",
}
"""What is shown before anybody has typed a text, by architecture."""


@dataclass(frozen=True)
class ReadText:
    """A text, its target where one was given, and a record for every kind of attention that the model has.

    Args:
        statistics: of every head, on this text; none for a text of one token.
    """

    text: str
    target: str | None
    records: tuple[AttentionRecord, ...]
    statistics: tuple[HeadStatistics, ...]

    def record(self, kind: AttentionKind) -> AttentionRecord:
        """The record of a kind."""
        [found] = [record for record in self.records if record.kind == kind]
        return found

    def found(self, view: View) -> AttentionHeads | AttentionDifference:
        """What a view looks at: a head, a mean, a rollout or a difference. The last one is kept."""
        asked = view.place.kind, view.choice
        if asked not in self._found:
            found = chosen_attention([self.record(view.place.kind)], view.choice)
            assert not isinstance(found, AttentionEdges)
            self._found.clear()
            self._found[asked] = found
        return self._found[asked]

    @cached_property
    def _found(self) -> dict[tuple[AttentionKind, AttentionChoice], AttentionHeads | AttentionDifference]:
        return {}

    def kinds(self) -> tuple[AttentionKind, ...]:
        """The kinds, in the order in which they are shown."""
        return tuple(record.kind for record in self.records)

    def statistics_of(self, place: Place) -> HeadStatistics | None:
        """What a head does."""
        found = [one for one in self.statistics if Place(one.kind, one.layer, one.head) == place]
        return found[0] if found else None

    def first_view(self) -> View:
        """The head that says most, of the cross-attention where there is one; the cursor on its strongest weight in
        the last row."""
        record = self.records[-1]
        layer, head = record.focus
        rows = record.weights[layer, head]
        return View(Place(record.kind, layer, head), row=len(rows) - 1, column=int(rows[-1].argmax()))

    def kept_view(self, view: View) -> View:
        """A view of another text, moved to where this one has something to show."""
        return view.at(self.record(view.place.kind), view.row, view.column)


class TextReader:
    """A run that reads one text after another; what does not depend on the text is measured once."""

    def __init__(self, run: LoadedRun) -> None:
        self._run = run

    @cached_property
    def _copies(self) -> Copies:
        return copies(self._run)

    def read(self, text: str, target: str | None = None) -> ReadText:
        """Run the model on a text.

        Raises:
            UsageError: the text is longer than the context, or a target is given to a model that takes none.
        """
        run = self._run
        kinds, inputs = KINDS[run.architecture], read_text(run, text, target, remark=False)
        with torch.inference_mode():
            passed = record_model(run.model, inputs.tensors(run.device))
        records = tuple(attention_record(run, kind, inputs, passed) for kind in kinds)
        is_measurable = all(len(record.key_tokens) > 1 and len(record.query_tokens) > 1 for record in records)
        alone = Material("the text", (inputs,), False, {})
        statistics = heads_on(run, kinds, alone, lambda _: passed, self._copies) if is_measurable else ()
        return ReadText(text, target, records, statistics)
