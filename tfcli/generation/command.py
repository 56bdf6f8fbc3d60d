"""``tfcli generate``: text from a run; its options in the panels of its help."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tfcli.console.options import Checkpoint, Device, Json, Run, Threads, command, open_run, use_threads
from tfcli.console.terminal import Terminal
from tfcli.errors import UsageError

if TYPE_CHECKING:
    from tfcli.recipe.recipe import GenerateSection
    from tfcli.records.generation import Filled, Generated
    from tfcli.runs.load import LoadedRun


_prompts, _texts, _drawing, _beams = (
    partial(typer.Option, rich_help_panel=panel) for panel in ("Prompts", "Texts", "Drawing tokens", "Beam search")
)


Weights = Annotated[
    Literal["float32", "bfloat16", "int8"],
    typer.Option("--precision", help="Precision of the weights; int8 is faster and less exact."),
]
Prompts = Annotated[
    list[str] | None,
    typer.Argument(metavar="PROMPT|-", help="Text to continue, translate or fill; - reads a prompt a line."),
]
PromptFile = Annotated[
    Path | None, _prompts("--prompts", metavar="FILE", help='A prompt a line, or .jsonl with "prompt".')
]
Interactive = Annotated[bool, _prompts("--interactive", "-i", help="Ask for prompts until an empty line.")]
Chat = Annotated[bool, _prompts("--chat", help="A prompt is what a user says, by the model's own chat template.")]
System = Annotated[str | None, _prompts("--system", metavar="TEXT", help="What the system says before (--chat).")]
SpecialTokens = Annotated[
    bool, _prompts("--special-tokens", help="Special tokens in a prompt are read by their spelling.")
]
BatchSize = Annotated[int | None, _prompts("--batch-size", min=1, help="Prompts read side by side.")]
MaxNewTokens = Annotated[int | None, _texts("--max-new-tokens", min=1, help="Stop after this many tokens.")]
NumSamples = Annotated[int | None, _texts("--num-samples", min=1, help="Texts to make for each prompt.")]
Stop = Annotated[
    list[str] | None, _texts("--stop", metavar="TEXT", help="End a text where this one would begin; repeatable.")
]
Prefix = Annotated[str | None, _texts("--prefix", metavar="TEXT", help="What every translation begins with.")]
Beyond = Annotated[
    Literal["stop", "slide", "extrapolate"] | None,
    _texts("--beyond-context", help="When the context is full: stop, forget the beginning, or go on."),
]
Joint = Annotated[bool, _texts("--joint", help="Fill the surest mask first and read it (an encoder).")]
Temperature = Annotated[
    float | None,
    _drawing(
        "--temperature", help="Divides the logits; 0 is greedy, and so is an encoder-decoder where none is given."
    ),
]
TopK = Annotated[
    int | None,
    _drawing(
        "--top-k", min=0, help="Draw from the k best tokens, 0: all; for an encoder, how many to show for each mask."
    ),
]
TopP = Annotated[float | None, _drawing("--top-p", help="Draw from the smallest set with this probability, 0 to 1.")]
MinP = Annotated[
    float | None, _drawing("--min-p", help="Draw from tokens at least this share as probable as the best, 0 to 1.")
]
Repetition = Annotated[
    float | None, _drawing("--repetition-penalty", help="Above 1, tokens that the text holds become less likely.")
]
NoRepeat = Annotated[
    int | None, _drawing("--no-repeat-ngram", min=0, help="No sequence of so many tokens comes twice; 0: allowed.")
]
Seed = Annotated[int | None, _drawing("--seed", min=0, help="Seed of the random draws.")]
Trace = Annotated[bool, _drawing("--trace", help="Show for every token what else could have come.")]
Beam = Annotated[int | None, _beams("--beam", min=1, help="Beams to search with; 1: none.")]
LengthPenalty = Annotated[
    float | None, _beams("--length-penalty", help="0 ranks by probability alone; more favours long texts.")
]
BeamGroups = Annotated[
    int | None, _beams("--beam-groups", min=1, help="Groups of beams that avoid each other's tokens.")
]
Diversity = Annotated[float | None, _beams("--diversity", help="Nats that a token loses if another group chose it.")]
ShowBeams = Annotated[bool, _beams("--show-beams", help="Draw the tree of what was kept and pruned.")]


_ESCAPES = {r"\n": "\n", r"\r": "\r", r"\t": "\t", r"\\": "\\"}


@command
def generate(
    terminal: Terminal,
    run: Run,
    prompts: Prompts = None,
    prompt_file: PromptFile = None,
    interactive: Interactive = False,
    chat: Chat = False,
    system: System = None,
    special_tokens: SpecialTokens = False,
    batch_size: BatchSize = None,
    max_new_tokens: MaxNewTokens = None,
    num_samples: NumSamples = None,
    stop: Stop = None,
    prefix: Prefix = None,
    beyond_context: Beyond = None,
    joint: Joint = False,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    repetition_penalty: Repetition = None,
    no_repeat_ngram: NoRepeat = None,
    seed: Seed = None,
    trace: Trace = False,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    beam_groups: BeamGroups = None,
    diversity: Diversity = None,
    show_beams: ShowBeams = False,
    checkpoint: Checkpoint = "best",
    precision: Weights = "float32",
    device: Device = "auto",
    threads: Threads = 0,
    json: Json = False,
) -> None:
    r"""Continue text (decoder), fill masks (encoder) or translate (encoder-decoder).

    What is not given is as in the recipe of the run. A terminal shows control
    characters as escapes; a file or pipe gets the text as it is.
    In --stop, \n, \r, \t and \\ stand for a line end, a return, a tab and a
    backslash.

    Examples:

      tfcli generate runs/decoder-1 "Once upon a time" --temperature 0.8
      tfcli generate runs/decoder-1 --prompts prompts.txt --stop '\n' --json
      tfcli generate runs/imported "Why is the sky blue?" --chat
      tfcli generate runs/encoder-1 "She sat on the <mask> bank."
      tfcli generate runs/encoder-decoder-1 "O livro está na mesa." --beam 4
    """
    arguments = dict(locals())
    use_threads(threads)
    from dataclasses import fields

    from tfcli.console.stdin import argument_batches, asked_batches, file_batches
    from tfcli.errors import BrokenInputError
    from tfcli.generation.generate import require_prompt, settled
    from tfcli.models.head import require_head
    from tfcli.recipe.loading import generation_settings
    from tfcli.recipe.recipe import GenerateSection
    from tfcli.runs.load import remark_on_first_foreign, usual

    if stop:
        arguments["stop"] = [_stop_text(typed) for typed in stop]
    _require_one_source(prompts, prompt_file, interactive)
    loaded = open_run(run, checkpoint, device, precision)
    require_head(loaded.config.model)
    names = [field.name for field in fields(GenerateSection) if field.name != "prompts"]
    # A flag that is not given leaves a setting as the recipe has it.
    given = {name: arguments[name] for name in names if arguments[name] is not None and arguments[name] is not False}
    settings = generation_settings(loaded.recipe, given)
    sample = None if temperature is None else temperature > 0
    shown = [name for name in ("trace", "show_beams") if arguments[name]]
    require_use([*given, *shown], loaded.architecture, settings, sample=sample)
    settled(loaded.model, loaded.tokenizer, settings, sample)  # refused before a prompt is waited for
    how: Literal["text", "trace", "beams"] = "trace" if trace else "beams" if show_beams else "text"
    answers = Answers(terminal, loaded, settings, sample=sample, how=how, json=json)
    if not prompts and not prompt_file and not interactive:
        if loaded.architecture != "decoder":
            raise UsageError(f"An {loaded.architecture} needs a prompt", f"give a text after {run}, or -")
        prompts = [""]

    require = partial(require_prompt, loaded.model, loaded.tokenizer, settings=settings)
    if prompts and len(prompts) > 1 and not any(prompt == "-" or re.search(r"\s", prompt) for prompt in prompts):
        _hint_at_quotes(terminal, prompts, require)
    known, is_judged = usual(loaded), False
    if prompts:
        batches = argument_batches(prompts, require, settings.batch_size)
    elif prompt_file:
        batches = file_batches(prompt_file, require, settings.batch_size)
    else:
        batches = asked_batches(terminal)
    for batch in batches:
        try:
            if interactive or not is_judged:  # of many prompts, the first few stand for all
                remark_on_first_foreign(loaded, batch, known)
                is_judged = True
            answers.show(batch)
        except (UsageError, BrokenInputError) as error:
            if not interactive:
                raise
            terminal.error(str(error))


def _hint_at_quotes(terminal: Terminal, words: list[str], require: Callable[[str], None]) -> None:
    """Say that each of several words is a prompt of its own; an error where one alone does not fit, and all do."""
    from tfcli.console.usage import quoted

    problem, remedy = f"Each of these {len(words)} words is a prompt of its own", f"for one prompt: {quoted(words)}"
    try:
        for word in words:
            require(word)
    except UsageError as error:
        require(" ".join(words))
        raise UsageError(f"{problem}, and {word!r} is none", remedy) from error
    terminal.note(f"{problem}; {remedy}")


def _require_one_source(prompts: list[str] | None, file: Path | None, interactive: bool) -> None:
    problem = ""
    if interactive and (prompts or file):
        problem = f"--interactive asks for the prompts, and {'one is given' if prompts else '--prompts names some'}"
    elif prompts and file:
        problem = "--prompts names the prompts, and one is given"
    if problem:
        raise UsageError(problem, "leave one of the two out")


def _stop_text(typed: str) -> str:
    r"""With \n, \r, \t and \\ for what a shell does not let through."""
    if not typed:
        raise UsageError("--stop '' would end every text before it begins", "give it a text, or leave it out")
    return re.sub(r"\\[nrt\\]", lambda found: _ESCAPES[found[0]], typed)


_DRAWS = ("top_k", "top_p", "min_p", "seed")
_OF_BEAMS = ("length_penalty", "beam_groups", "diversity", "show_beams")
_OF_ENCODERS = ("top_k", "joint", "batch_size")


def require_use(given: Iterable[str], architecture: str, settings: "GenerateSection", *, sample: bool | None) -> None:
    """Refuse options that would change nothing.

    Args:
        given: the names of those that stand on the command line.
        sample: whether a temperature that is given asks for samples; None: none is given.
    """
    names = sorted(given)
    if architecture == "encoder":
        for name in names:
            if name not in _OF_ENCODERS:
                raise UsageError(f"An encoder fills masks, and {option(name)} changes nothing", "leave it out")
        return
    for useless, problem, remedy in _useless(architecture, settings, sample):
        for name in names:
            if name in useless:
                raise UsageError(problem.format(option=option(name)), remedy)


def option(name: str) -> str:
    """As it is typed: "--top-k" for "top_k"."""
    return "--" + name.replace("_", "-")


def _useless(
    architecture: str, settings: "GenerateSection", sample: bool | None
) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Which options have no effect, why, and what to do instead."""
    beam = settings.beam
    yield ("joint",), "{option} is for the masks of an encoder, and this run is none", "leave it out"
    if architecture == "decoder":
        yield ("prefix",), "{option} is for translations, and this run continues text", "end the prompt with it"
    if beam > 1:
        problem = f"A beam of {beam} draws no samples, and {{option}} is for them"
        yield (*_DRAWS, "trace"), problem, "give one of the two"
        if settings.beam_groups == 1:
            yield ("diversity",), "{option} parts groups of beams, and there is one", "add --beam-groups 2"
        return
    yield _OF_BEAMS, "{option} is for a beam search, and there is none", "add --beam 4"
    if settings.num_samples > 1:
        problem = f"{{option}} shows how one text comes about, and there are {settings.num_samples}"
        yield ("trace",), problem, "leave --num-samples out"
    if architecture == "encoder-decoder" and not sample:
        problem = "An encoder-decoder draws no samples of itself, and {option} is for them"
        yield (*_DRAWS, "num_samples"), problem, "add --temperature 1, or leave it out"
    elif settings.temperature == 0:
        problem = "At temperature 0 nothing is drawn, and {option} is for samples"
        yield (*_DRAWS, "num_samples"), problem, "raise the temperature, or leave it out"


@dataclass
class Answers:
    """Answers prompts, and shows each answer: the texts alone, each with its trace, or with the tree of its beams.
    `sample` is as `generation.generate` takes it."""

    terminal: Terminal
    run: "LoadedRun"
    settings: "GenerateSection"
    sample: bool | None
    how: Literal["text", "trace", "beams"] = "text"
    json: bool = False
    _said_full: bool = False
    _has_answered: bool = False

    def show(self, prompts: Sequence[str]) -> None:
        """Answer some prompts side by side; one alone streams where it can."""
        from tfcli.generation.generate import generate_all, stream

        one = self.settings.num_samples == self.settings.beam == len(prompts) == 1
        if self.how != "text":
            for prompt in prompts:
                self._show_inside(prompt)
        elif one and not self.json and self.run.architecture != "encoder":
            self._show_text(prompts[0], stream(self.run, prompts[0], self.settings, sample=self.sample))
        else:
            for made in generate_all(self.run, prompts, self.settings, sample=self.sample):
                self._show(made)

    def _show(self, made: "list[Generated] | Filled") -> None:
        from tfcli.draw.tables import to_json
        from tfcli.generation.view import FilledView

        if isinstance(made, list):
            for text in made:
                if self.json:
                    self.terminal.json(to_json(text))
                    self._note_full(text)
                else:
                    self._show_text(text.prompt, iter([text.text, text]))
        elif self.json:
            self.terminal.json(to_json(made))
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

    def _show_inside(self, prompt: str) -> None:
        """Show a trace, or the tree of the beams."""
        from tfcli.draw.tables import to_json
        from tfcli.generation.generate import beams, trace
        from tfcli.generation.view import BeamTreeView, TraceView
        from tfcli.records.generation import BeamTree, Trace

        if self.how == "trace":
            record: Trace | BeamTree = trace(self.run, prompt, self.settings, sample=self.sample)
        else:
            record = beams(self.run, prompt, self.settings)
        if self.json:
            self.terminal.json(to_json(record))
        elif isinstance(record, BeamTree):
            self.terminal.show(BeamTreeView(record))
        else:
            self.terminal.show(TraceView(record, translation=self.run.architecture == "encoder-decoder"))
        for text in record.texts if isinstance(record, BeamTree) else [record.generated]:
            self._note_full(text)

    def _note_full(self, text: "Generated") -> None:
        """Say, once, that a text ended for want of room."""
        if not self._said_full and text.finish == "context":
            self._said_full = True
            context = self.run.config.model.max_seq_len
            self.terminal.note(f"The text stops here because the context of {context} tokens is full.")
