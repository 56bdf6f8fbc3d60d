"""``tfcli generate``: text from a run; its options in the panels of its help."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tfcli.console.options import Checkpoint, Device, Json, Run, StepByStep, Threads, command, open_run, use_threads
from tfcli.console.settings import flag_of
from tfcli.console.terminal import Terminal
from tfcli.errors import UsageError

if TYPE_CHECKING:
    from tfcli.generation.generate import Made
    from tfcli.recipe.recipe import GenerateSection
    from tfcli.records.generation import Generated
    from tfcli.runs.load import LoadedRun

_panels = ("Prompts", "Texts", "Drawing tokens", "Beam search")
_prompts, _texts, _drawing, _beams = (partial(typer.Option, rich_help_panel=panel) for panel in _panels)
_Beyond = Literal["stop", "slide", "extrapolate"]
WeightPrecision = Literal["float32", "bfloat16", "int8"]
Precision = Annotated[WeightPrecision, typer.Option("--precision", help="Of the weights; int8 is faster, less exact.")]
_PROMPT = typer.Argument(metavar="PROMPT|-", help="Text to continue, translate or fill; - reads a prompt a line.")
Prompts = Annotated[list[str] | None, _PROMPT]
PromptFile = Annotated[Path | None, _prompts("--prompts", metavar="FILE", help='One a line, or .jsonl with "prompt".')]
Interactive = Annotated[bool, _prompts("--interactive", "-i", help="Ask for prompts until an empty line.")]
Trace = Annotated[bool, _drawing("--trace", help="Show for every token what else could have come.")]
Steer = Annotated[Path | None, _texts(metavar="VECTOR", help="A vector of tfcli inspect steer, which leads the text.")]
_BEHIND, _MADE = "Layer to steer behind, from 0.", "where it was made"
At = Annotated[str | None, _texts(metavar="LAYER", help=_BEHIND, show_default=_MADE)]
Strength = Annotated[float | None, _texts(help="How often it is added; below 0: the other way.", show_default="1")]
ShowBeams = Annotated[bool, _beams("--show-beams", help="Draw the tree of what was kept and pruned.")]


@dataclass(frozen=True)
class GenerationOptions:
    """The settings of a recipe's `generate` section as options; what is not given is as the recipe has it."""

    chat: Annotated[bool, _prompts("--chat", help="A prompt is what a user says in the model's template.")] = False
    system: Annotated[str | None, _prompts(metavar="TEXT", help="What the system says before (--chat).")] = None
    special_tokens: Annotated[bool, _prompts("--special-tokens", help="Read special tokens by their spelling.")] = False
    batch_size: Annotated[int | None, _prompts(min=1, help="Prompts read side by side.")] = None
    question: Annotated[str | None, _prompts(metavar="TEXT", help="What is asked of each prompt (task span).")] = None
    max_new_tokens: Annotated[int | None, _texts(min=1, help="Stop after this many tokens.")] = None
    num_samples: Annotated[int | None, _texts(min=1, help="Texts to make for each prompt.")] = None
    stop: Annotated[list[str] | None, _texts(metavar="TEXT", help="End a text before this one; repeatable.")] = None
    prefix: Annotated[str | None, _texts(metavar="TEXT", help="What every translation begins with.")] = None
    beyond_context: Annotated[_Beyond | None, _texts(help="Context full: stop, forget the start, or go on.")] = None
    joint: Annotated[bool, _texts("--joint", help="Fill the surest mask first and read it (an encoder).")] = False
    temperature: Annotated[float | None, _drawing(help="Divides the logits; 0: greedy, usual in translation.")] = None
    top_k: Annotated[int | None, _drawing(min=0, help="Draw from the k best, 0: all; an encoder shows k.")] = None
    top_p: Annotated[float | None, _drawing(help="Draw from the smallest set with this probability, 0 to 1.")] = None
    min_p: Annotated[float | None, _drawing(help="Least share of the best token's probability, 0 to 1.")] = None
    repetition_penalty: Annotated[float | None, _drawing(help="Above 1: tokens of the text become less likely.")] = None
    no_repeat_ngram: Annotated[int | None, _drawing(min=0, help="No sequence of so many tokens twice; 0: any.")] = None
    seed: Annotated[int | None, _drawing(min=0, help="Seed of the random draws.")] = None
    beam: Annotated[int | None, _beams(min=1, help="Beams to search with; 1: none.")] = None
    length_penalty: Annotated[float | None, _beams(help="0: by probability alone; more: longer texts.")] = None

    def given(self) -> dict[str, Any]:
        """Those that stand on the command line, by the key of the recipe; a flag that does not is False."""
        found = {name: value for name, value in vars(self).items() if value is not None and value is not False}
        return found | ({"stop": list(map(_stop_text, self.stop))} if self.stop else {})


_ESCAPES = {r"\n": "\n", r"\r": "\r", r"\t": "\t", r"\\": "\\"}


@command
def generate(
    terminal: Terminal,
    run: Run,
    prompts: Prompts = None,
    prompt_file: PromptFile = None,
    interactive: Interactive = False,
    *,
    asked: GenerationOptions,
    steer: Steer = None,
    at: At = None,
    strength: Strength = None,
    trace: Trace = False,
    step: StepByStep = False,
    show_beams: ShowBeams = False,
    checkpoint: Checkpoint = "best",
    precision: Precision = "float32",
    device: Device = "auto",
    threads: Threads = 0,
    json: Json = False,
) -> None:
    r"""Continue text (decoder), fill masks (encoder) or translate (encoder-decoder).

    A run with a task head tells the label of a text, the tag of each word, or the
    answer to --question.

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
    use_threads(threads, measured=True)
    from tfcli.console.stdin import argument_batches, asked_batches, file_batches
    from tfcli.errors import BrokenInputError
    from tfcli.generation.generate import require_prompt, settled
    from tfcli.generation.steering import load_direction, steered
    from tfcli.models.head import require_head
    from tfcli.recipe.loading import generation_settings
    from tfcli.runs.load import remark_on_first_foreign, usual

    given = asked.given()
    if step and (json or not trace):
        raise UsageError("--step shows the pictures of --trace one at a time", "add --trace, and leave --json out")
    asks = "--interactive asks for the prompts" if interactive else "--prompts names the prompts" if prompt_file else ""
    beside = "one is given" if prompts else "--prompts names some" if interactive and prompt_file else ""
    if asks and beside:
        raise UsageError(f"{asks}, and {beside}", "leave one of the two out")
    if steer is None and (at, strength) != (None, None):
        raise UsageError("--at and --strength say how --steer steers, and it is not given", "add --steer VECTOR")
    loaded = open_run(run, checkpoint, device, precision)
    if loaded.recipe.train.task is None:
        require_head(loaded.config.model)
    steering: Callable[[], Any] = nullcontext
    if steer is not None:
        direction, own = load_direction(steer, loaded, checkpoint)
        place, strength = own if at is None else at, 1.0 if strength is None else strength
        steering = partial(steered, loaded.model, direction, place, strength)
        steering().remove()  # what is refused is refused before a prompt is waited for
    settings = generation_settings(loaded.recipe, given)
    sample = None if asked.temperature is None else asked.temperature > 0
    shown = ["trace"] * trace + ["show_beams"] * show_beams
    _require_use([*given, *shown], loaded.recipe.train.task or loaded.architecture, settings, sample)
    settled(loaded.model, loaded.tokenizer, settings, sample)  # refused before a prompt is waited for
    how: Literal["text", "trace", "beams"] = "trace" if trace else "beams" if show_beams else "text"
    answers = Answers(terminal, loaded, settings, sample=sample, how=how, json=json, step=step)
    if not prompts and not prompt_file and not interactive:
        if answers.has_one_answer or loaded.architecture != "decoder":
            needs = f"An {loaded.architecture}" if loaded.recipe.train.task is None else "A task head"
            raise UsageError(f"{needs} needs a prompt", f"give a text after {run}, or -")
        prompts = [""]
    require = partial(require_prompt, loaded, settings=settings)
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
            with steering():
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


def _stop_text(typed: str) -> str:
    r"""With \n, \r, \t and \\ for what a shell does not let through."""
    if not typed:
        raise UsageError("--stop '' would end every text before it begins", "give it a text, or leave it out")
    return re.sub(r"\\[nrt\\]", lambda found: _ESCAPES[found[0]], typed)


_DRAWS = ("top_k", "top_p", "min_p", "seed")
_OF_BEAMS = ("length_penalty", "show_beams")


def _require_use(given: Iterable[str], architecture: str, settings: "GenerateSection", sample: bool | None) -> None:
    """Refuse options that would change nothing, to an `architecture` or to a task. `sample`: as a temperature that is
    given asks for; None: none is."""
    names, in_use = sorted(given), {"top_k", "joint", "batch_size"}
    if is_task := architecture in ("classify", "tag", "span"):
        in_use = {"question", "batch_size"}
    elif "question" in names:
        raise UsageError("--question is for a run of train.task = 'span', and this is none", "leave it out")
    if is_task or architecture == "encoder":
        if others := [name for name in names if name not in in_use]:
            does = "A task head tells labels" if is_task else "An encoder fills masks"
            raise UsageError(f"{does}, and {flag_of(others[0])} changes nothing", "leave it out")
        return
    for useless, problem, remedy in _useless(architecture, settings, sample):
        if found := [name for name in names if name in useless]:
            raise UsageError(problem.format(option=flag_of(found[0])), remedy)


def _useless(kind: str, settings: "GenerateSection", sample: bool | None) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Which options have no effect, why, and what to do instead."""
    beam = settings.beam
    yield ("joint",), "{option} is for the masks of an encoder, and this run is none", "leave it out"
    if kind == "decoder":
        yield ("prefix",), "{option} is for translations, and this run continues text", "end the prompt with it"
    if beam > 1:
        problem = f"A beam of {beam} draws no samples, and {{option}} is for them"
        yield (*_DRAWS, "trace"), problem, "give one of the two"
        return
    yield _OF_BEAMS, "{option} is for a beam search, and there is none", "add --beam 4"
    if settings.num_samples > 1:
        problem = f"{{option}} shows how one text comes about, and there are {settings.num_samples}"
        yield ("trace",), problem, "leave --num-samples out"
    if kind == "encoder-decoder" and not sample:
        problem = "An encoder-decoder draws no samples of itself, and {option} is for them"
        yield (*_DRAWS, "num_samples"), problem, "add --temperature 1, or leave it out"
    elif settings.temperature == 0:
        problem = "At temperature 0 nothing is drawn, and {option} is for samples"
        yield (*_DRAWS, "num_samples"), problem, "raise the temperature, or leave it out"


@dataclass
class Answers:
    """Answers prompts, and shows each answer: the texts alone, each with its trace (a `step` at a time), or with the
    tree of its beams. `sample` is as `generation.generate` takes it."""

    terminal: Terminal
    run: "LoadedRun"
    settings: "GenerateSection"
    sample: bool | None
    how: Literal["text", "trace", "beams"] = "text"
    json: bool = False
    step: bool = False
    _said_full: bool = False
    _has_answered: bool = False

    @property
    def has_one_answer(self) -> bool:
        """Whether a prompt gets a record, and no text that grows."""
        return self.run.architecture == "encoder" or self.run.recipe.train.task is not None

    def show(self, prompts: Sequence[str]) -> None:
        """Answer some prompts side by side; one alone streams where it can."""
        from tfcli.generation.generate import generate_all, stream

        one = self.settings.num_samples == self.settings.beam == len(prompts) == 1
        if self.how != "text":
            for prompt in prompts:
                self._show_inside(prompt)
        elif one and not self.json and not self.has_one_answer:
            self._show_text(prompts[0], stream(self.run, prompts[0], self.settings, sample=self.sample))
        else:
            for made in generate_all(self.run, prompts, self.settings, sample=self.sample):
                self._show(made)

    def _show(self, made: "Made") -> None:
        from tfcli.draw.tables import to_json
        from tfcli.generation.view import FilledView, TaskView
        from tfcli.records.generation import Filled

        if not isinstance(made, list):
            self.terminal.result(made, FilledView if isinstance(made, Filled) else TaskView, json=self.json)
            return
        for text in made:
            if self.json:
                self.terminal.json(to_json(text))
                self._note_full(text)
            else:
                self._show_text(text.prompt, iter([text.text, text]))

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
        from tfcli.generation.generate import beams, trace
        from tfcli.generation.view import BeamTreeView, InferenceView, TraceView

        if self.how == "trace":
            steps = trace(self.run, prompt, self.settings, sample=self.sample)
            translation = self.run.architecture == "encoder-decoder"
            if self.step:
                self.terminal.step_through(InferenceView(steps, translation))
            else:
                self.terminal.result(steps, partial(TraceView, translation=translation), json=self.json)
            self._note_full(steps.generated)
        else:
            tree = beams(self.run, prompt, self.settings)
            self.terminal.result(tree, BeamTreeView, json=self.json)
            for text in tree.texts:
                self._note_full(text)

    def _note_full(self, text: "Generated") -> None:
        """Say, once, that a text ended for want of room."""
        if not self._said_full and text.finish == "context":
            self._said_full = True
            context = self.run.config.model.max_seq_len
            self.terminal.note(f"The text stops here because the context of {context} tokens is full.")
