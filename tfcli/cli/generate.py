"""``tfcli generate``: text from a run."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from tfcli.cli.options import Checkpoint, Device, Json, Run, Threads, command, use_threads
from tfcli.cli.terminal import Terminal

if TYPE_CHECKING:
    from tfcli.recipe.generate import GenerateSection
    from tfcli.records.generation import Filled, Generated
    from tfcli.runs.load import LoadedRun

_OWN = "the run's own"

Prompts = Annotated[
    list[str] | None,
    typer.Argument(metavar="PROMPT|-", help="Text to continue, translate or fill; - reads a prompt a line."),
]


@command
def generate(
    terminal: Terminal,
    run: Run,
    prompts: Prompts = None,
    max_new_tokens: Annotated[
        int | None,
        typer.Option("--max-new-tokens", min=1, help="Stop after this many tokens.", show_default=_OWN),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            "--temperature",
            help="Divides the logits; 0 is greedy.",
            show_default=f"{_OWN}; an encoder-decoder is greedy",
        ),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(
            "--top-k",
            min=0,
            help="Sample from the k best tokens, 0: all; for an encoder, how many to show a mask.",
            show_default=_OWN,
        ),
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option("--top-p", help="Sample from the smallest set with this probability, 0 to 1.", show_default=_OWN),
    ] = None,
    beam: Annotated[
        int | None, typer.Option("--beam", min=1, help="Beams to search with; 1: none.", show_default=_OWN)
    ] = None,
    num_samples: Annotated[
        int | None, typer.Option("--num-samples", min=1, help="Texts a prompt.", show_default=_OWN)
    ] = None,
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Ask for prompts until an empty line.")
    ] = False,
    checkpoint: Checkpoint = "best",
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Seed of the sampling.", show_default=_OWN)] = None,
    device: Device = "auto",
    threads: Threads = 0,
    json: Json = False,
) -> None:
    """Continue text (decoder), fill masks (encoder) or translate (encoder-decoder).

    A terminal shows control characters as escapes; a file or pipe gets the text as it is.

    Examples:

      tfcli generate runs/decoder-1 "Once upon a time" --temperature 0.8
      tfcli generate runs/encoder-1 "She sat on the <mask> bank."
      tfcli generate runs/encoder-decoder-1 "O livro está em cima da mesa." --beam 4
    """
    use_threads(threads)
    given = {
        "max_new_tokens": max_new_tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "beam": beam,
        "num_samples": num_samples,
        "seed": seed,
    }
    from tfcli.errors import UsageError
    from tfcli.models.head import require_head
    from tfcli.recipe.loading import generation_settings
    from tfcli.runs.load import load_run
    from tfcli.training.precision import choose_device

    if interactive and prompts:
        raise UsageError("--interactive asks for the prompts, and one is given", "leave one of the two out")
    loaded = load_run(run, checkpoint, choose_device(device))
    require_head(loaded.config.model)
    settings = generation_settings(loaded.recipe, given)
    _require_use({name for name, value in given.items() if value is not None}, loaded.architecture, settings)
    sample = None if temperature is None else temperature > 0
    for prompt in _prompts(terminal, loaded, prompts, interactive):
        try:
            _answer(terminal, loaded, prompt, settings, sample, json)
        except UsageError as error:
            if not interactive:
                raise
            terminal.error(str(error))


def _require_use(given: set[str], architecture: str, settings: "GenerateSection") -> None:
    """Refuse options that would change nothing."""
    from tfcli.errors import UsageError

    if architecture == "encoder":
        for name in sorted(given - {"top_k"}):
            raise UsageError(f"An encoder fills masks, and {_option(name)} changes nothing", "leave it out")
    if architecture == "encoder-decoder" and not ("temperature" in given and settings.temperature > 0):
        sampled = {"top_k", "top_p", "seed"} | ({"num_samples"} if settings.beam == 1 else set())
        for name in sorted(given & sampled):
            raise UsageError(
                f"An encoder-decoder draws no samples of itself, and {_option(name)} is for them",
                "add --temperature 1, or leave it out",
            )


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _prompts(terminal: Terminal, run: "LoadedRun", prompts: list[str] | None, interactive: bool) -> Iterator[str]:
    from tfcli.cli.stdin import read_lines
    from tfcli.errors import UsageError

    if interactive:
        yield from _asked(terminal)
        return
    if not prompts:
        if run.architecture != "decoder":
            raise UsageError(f"An {run.architecture} needs a prompt", f"give a text after {run.directory.path}, or -")
        prompts = [""]
    for prompt in prompts:
        yield from read_lines() if prompt == "-" else (prompt,)


def _asked(terminal: Terminal) -> Iterator[str]:
    from tfcli.cli.stdin import as_typed, keep_bad_bytes
    from tfcli.errors import BrokenInputError

    keep_bad_bytes()
    while True:
        try:
            prompt = as_typed(terminal.err.input("> "))
        except EOFError:
            return
        except BrokenInputError as error:
            terminal.error(str(error))
            continue
        if not prompt:
            return
        yield prompt


def _answer(
    terminal: Terminal,
    run: "LoadedRun",
    prompt: str,
    settings: "GenerateSection",
    sample: bool | None,
    json: bool,
) -> None:
    from tfcli.generation.generate import generate as make
    from tfcli.generation.generate import stream
    from tfcli.render.as_json import to_json
    from tfcli.render.generation import FilledView

    if not json and run.architecture != "encoder" and settings.num_samples == settings.beam == 1:
        _show_text(terminal, run, prompt, stream(run, prompt, settings, sample=sample), settings)
        return
    made = make(run, prompt, settings, sample=sample)
    if json:
        for one in made if isinstance(made, list) else [made]:
            terminal.json(to_json(one))
            _note_full(terminal, run, one, settings)
    elif isinstance(made, list):
        for text in made:
            _show_text(terminal, run, prompt, iter([text.text, text]), settings)
    else:
        terminal.show(FilledView(made))


def _show_text(
    terminal: Terminal,
    run: "LoadedRun",
    prompt: str,
    pieces: "Iterator[str | Generated]",
    settings: "GenerateSection",
) -> None:
    """Print a decoder's prompt and its continuation, or a translation alone, as it comes."""
    if run.architecture == "decoder":
        terminal.write(prompt, style="bold")
    for piece in pieces:
        if isinstance(piece, str):
            terminal.write(piece)
        else:
            terminal.write("\n")
            terminal.detail(f"{len(piece.token_ids)} tokens, log-probability {piece.score:.2f}")
            _note_full(terminal, run, piece, settings)


def _note_full(terminal: Terminal, run: "LoadedRun", made: "Generated | Filled", settings: "GenerateSection") -> None:
    """Say that a text ended for want of room."""
    from tfcli.generation.decode import finish_of
    from tfcli.records.generation import Generated

    if not isinstance(made, Generated) or not made.token_ids:
        return
    if finish_of(made.token_ids, run.config.roles, settings.max_new_tokens) == "context":
        terminal.note(f"The text stops here because the context of {run.config.model.max_seq_len} tokens is full.")
