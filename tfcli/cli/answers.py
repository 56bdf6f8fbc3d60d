"""What a model made of its prompts, as text that streams, as pictures, or as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tfcli.cli.terminal import Terminal

if TYPE_CHECKING:
    from tfcli.recipe.generate import GenerateSection
    from tfcli.records.generation import Filled, Generated
    from tfcli.runs.load import LoadedRun

How = Literal["text", "trace", "beams"]
"""What is shown: the texts alone, each with its trace, or with the tree of its beams."""


@dataclass
class Answers:
    """Answers prompts, and shows each answer.

    Args:
        sample: as `generation.generate` takes it.
    """

    terminal: Terminal
    run: "LoadedRun"
    settings: "GenerateSection"
    sample: bool | None
    how: How = "text"
    json: bool = False
    _said_full: bool = False
    _has_answered: bool = False

    def show(self, prompts: Sequence[str]) -> None:
        """Answer some prompts side by side; one alone streams where it can."""
        from tfcli.generation.generate import generate_all, stream

        if self.how != "text":
            show_inside = self._show_trace if self.how == "trace" else self._show_beams
            for prompt in prompts:
                show_inside(prompt)
        elif len(prompts) == 1 and self._streams():
            self._show_text(prompts[0], stream(self.run, prompts[0], self.settings, sample=self.sample))
        else:
            for made in generate_all(self.run, prompts, self.settings, sample=self.sample):
                self._show(made)

    def _streams(self) -> bool:
        one = self.settings.num_samples == self.settings.beam == 1
        return one and not self.json and self.run.architecture != "encoder"

    def _show(self, made: "list[Generated] | Filled") -> None:
        from tfcli.render.as_json import to_json
        from tfcli.render.generation.texts import FilledView

        if self.json:
            for one in made if isinstance(made, list) else [made]:
                self.terminal.json(to_json(one))
                self._note_full(one)
        elif isinstance(made, list):
            for text in made:
                self._show_text(text.prompt, iter([text.text, text]))
        else:
            self.terminal.show(FilledView(made))

    def _show_text(self, prompt: str, pieces: "Iterator[str | Generated]") -> None:
        """Print a decoder's prompt and its continuation, or a translation alone, as it comes."""
        if self.run.architecture == "decoder":
            if self._has_answered and self.terminal.out.is_terminal:  # texts have lines of their own: set apart
                self.terminal.write("\n")
            self._has_answered = True
            self.terminal.write(prompt + ("\n\n" if self.settings.chat else ""), style="bold")
        for piece in pieces:
            if isinstance(piece, str):
                self.terminal.write(piece)
            else:
                self.terminal.write("\n")
                self.terminal.detail(f"{len(piece.token_ids)} tokens, log-probability {piece.score:.2f}")
                self._note_full(piece)

    def _show_trace(self, prompt: str) -> None:
        from tfcli.generation.trace import trace
        from tfcli.render.generation.trace import TraceView

        traced = trace(self.run, prompt, self.settings, sample=self.sample)
        self._show_record(traced, TraceView(traced, translation=self.run.architecture == "encoder-decoder"))
        self._note_full(traced.generated)

    def _show_beams(self, prompt: str) -> None:
        from tfcli.generation.trace import beams
        from tfcli.render.generation.beam_tree import BeamTreeView

        tree = beams(self.run, prompt, self.settings)
        self._show_record(tree, BeamTreeView(tree))
        for text in tree.texts:
            self._note_full(text)

    def _show_record(self, record: object, view: object) -> None:
        from tfcli.render.as_json import to_json

        if self.json:
            self.terminal.json(to_json(record))
        else:
            self.terminal.show(view)

    def _note_full(self, made: "Generated | Filled") -> None:
        """Say, once, that a text ended for want of room."""
        from tfcli.records.generation import Generated

        if self._said_full or not isinstance(made, Generated) or made.finish != "context":
            return
        self._said_full = True
        context = self.run.config.model.max_seq_len
        self.terminal.note(f"The text stops here because the context of {context} tokens is full.")
