"""``tfcli generate``: text from a run."""

import re
from collections.abc import Callable
from pathlib import Path

from tfcli.cli import generation_options as having
from tfcli.cli.options import Checkpoint, Device, Json, Run, Threads, command, open_run, use_threads
from tfcli.cli.terminal import Terminal

_ESCAPES = {r"\n": "\n", r"\r": "\r", r"\t": "\t", r"\\": "\\"}


@command
def generate(
    terminal: Terminal,
    run: Run,
    prompts: having.Prompts = None,
    prompt_file: having.PromptFile = None,
    interactive: having.Interactive = False,
    chat: having.Chat = False,
    system: having.System = None,
    special_tokens: having.SpecialTokens = False,
    batch_size: having.BatchSize = None,
    max_new_tokens: having.MaxNewTokens = None,
    num_samples: having.NumSamples = None,
    stop: having.Stop = None,
    prefix: having.Prefix = None,
    beyond_context: having.Beyond = None,
    joint: having.Joint = False,
    temperature: having.Temperature = None,
    top_k: having.TopK = None,
    top_p: having.TopP = None,
    min_p: having.MinP = None,
    repetition_penalty: having.Repetition = None,
    no_repeat_ngram: having.NoRepeat = None,
    seed: having.Seed = None,
    trace: having.Trace = False,
    beam: having.Beam = None,
    length_penalty: having.LengthPenalty = None,
    beam_groups: having.BeamGroups = None,
    diversity: having.Diversity = None,
    show_beams: having.ShowBeams = False,
    checkpoint: Checkpoint = "best",
    precision: having.Weights = "float32",
    device: Device = "auto",
    threads: Threads = 0,
    json: Json = False,
) -> None:
    """Continue text (decoder), fill masks (encoder) or translate (encoder-decoder).

    What is not given is as in the recipe of the run. A terminal shows control
    characters as escapes; a file or pipe gets the text as it is.
    In --stop, \\n, \\r, \\t and \\\\ stand for a line end, a return, a tab and a
    backslash.

    Examples:

      tfcli generate runs/decoder-1 "Once upon a time" --temperature 0.8
      tfcli generate runs/decoder-1 --prompts prompts.txt --stop '\\n' --json
      tfcli generate runs/imported "Why is the sky blue?" --chat
      tfcli generate runs/encoder-1 "She sat on the <mask> bank."
      tfcli generate runs/encoder-decoder-1 "O livro está na mesa." --beam 4
    """
    arguments = dict(locals())
    use_threads(threads)
    from dataclasses import fields
    from functools import partial

    from tfcli.cli.answers import Answers, How
    from tfcli.cli.generation_use import require_use
    from tfcli.cli.prompts import argument_batches, asked_batches, file_batches
    from tfcli.errors import BrokenInputError, UsageError
    from tfcli.generation.prompts import require_prompt
    from tfcli.generation.settings import settled
    from tfcli.models.head import require_head
    from tfcli.recipe.generate import GenerateSection
    from tfcli.recipe.loading import generation_settings
    from tfcli.runs.foreign import remark_on_first_foreign, usual

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
    how: How = "trace" if trace else "beams" if show_beams else "text"
    answers = Answers(terminal, loaded, settings, sample, how, json)
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
    """Say that each of several words is a prompt of its own, and how one is given.

    Raises:
        UsageError: one of them alone does not fit, and all together do.
    """
    from tfcli.cli.usage import quoted
    from tfcli.errors import UsageError

    problem, remedy = f"Each of these {len(words)} words is a prompt of its own", f"for one prompt: {quoted(words)}"
    try:
        for word in words:
            require(word)
    except UsageError as error:
        require(" ".join(words))
        raise UsageError(f"{problem}, and {word!r} is none", remedy) from error
    terminal.note(f"{problem}; {remedy}")


def _require_one_source(prompts: list[str] | None, file: Path | None, interactive: bool) -> None:
    from tfcli.errors import UsageError

    if interactive and prompts:
        raise UsageError("--interactive asks for the prompts, and one is given", "leave one of the two out")
    if interactive and file:
        raise UsageError("--interactive asks for the prompts, and --prompts names some", "leave one of the two out")
    if prompts and file:
        raise UsageError("--prompts names the prompts, and one is given", "leave one of the two out")


def _stop_text(typed: str) -> str:
    r"""With \n, \r, \t and \\ for what a shell does not let through.

    Raises:
        UsageError: it is empty.
    """
    from tfcli.errors import UsageError

    if not typed:
        raise UsageError("--stop '' would end every text before it begins", "give it a text, or leave it out")
    return re.sub(r"\\[nrt\\]", lambda found: _ESCAPES[found[0]], typed)
