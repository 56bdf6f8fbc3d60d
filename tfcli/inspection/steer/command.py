"""``tfcli inspect steer``, activation steering: a vector made of two sets of texts, its effect and its cost."""

from pathlib import Path
from typing import Annotated

import typer

from tfcli.console.options import Outputs, Run, Weights, command, present
from tfcli.console.settings import usual
from tfcli.console.stdin import read_text, texts_and_lines
from tfcli.console.terminal import Terminal
from tfcli.inspection.heads.command import sample
from tfcli.outputs import require_output, writing

_PROMPT = typer.Argument(metavar="[TEXT]", help="A text to continue, translate or fill.", show_default="of --from")
_FROM = typer.Option("--from", metavar="TEXT|FILE", help="Lead from a text, or from the lines of a file or stdin (-).")
_TO = typer.Option("--to", metavar="TEXT|FILE", help="Lead to a text, or to those of a file; both repeat.")
_AT = usual("the middle one, of two the first", "The layer to steer behind, from 0, or encoder.0.", metavar="LAYER")
_OUT = usual("nowhere", "Write the vector, for tfcli generate --steer.", metavar="FILE")
_ON = usual("the run's own validation text", "Measure the cost on another source.", metavar="SOURCE")


@command
def steer(
    terminal: Terminal,
    outputs: Outputs,
    *,
    run: Run,
    prompt: Annotated[str | None, _PROMPT] = None,
    from_: Annotated[list[str], _FROM],
    to: Annotated[list[str], _TO],
    at: Annotated[str | None, _AT] = None,
    out: Annotated[Path | None, _OUT] = None,
    on: Annotated[list[str] | None, _ON] = None,
    weights: Weights,
) -> None:
    """Make a vector that steers a model from some texts to others.

    It is the mean residual stream behind a layer on the texts of --to less that
    on those of --from, and is added there at every position. Shown at several
    strengths: what the model writes, the loss, and the sets' own tokens, beside
    random directions; from 6 texts in each set on, whether it tells them apart.

    Examples:

      tfcli inspect steer runs/decoder-1 --from "Tom was sad" --to "Tom was glad"
      tfcli inspect steer runs/decoder-1 "One day" --from prompts.txt --to "Tom ran"
      tfcli inspect steer runs/pt-en-1 --from "O gato" --to "O livro" --at encoder.0
      tfcli inspect steer runs/encoder-1 --from "Tom" --to "Mia" --out v.safetensors
    """
    from tfcli.generation.steering import step_of
    from tfcli.inspection.steer import compute, view
    from tfcli.runs.weights import save_tensors

    if out is not None:
        require_output(out, "--out")
    loaded, sets = weights.load(run), list[dict[str, compute.Read]]()
    at, prompt = compute.chosen_layer(loaded, at), None if prompt is None else read_text(prompt)
    with terminal.progress() as say:
        for option, values in (("--from", from_), ("--to", to)):
            say(f"reading {option}")
            sets.append({})
            texts_and_lines(values, option, lambda text: sets[-1].update({text: compute.read_stream(loaded, at, text)}))
    material = sample(terminal, loaded, tuple(on or ()))
    with terminal.progress() as say:
        say("steering at every strength")
        record, direction = compute.steering(loaded, at, sets, material, prompt)
    if out is not None:
        about = {"run_id": loaded.config.run_id, "at": at, "texts": "{} from, {} to".format(*record.texts)}
        about |= {"norm": f"{record.norm:.6g}", "stream_norm": f"{record.stream_norm:.6g}", "format_version": "1"}
        about |= {"step": step_of(loaded, weights.checkpoint)}
        with writing(out, "--out") as temporary:
            save_tensors(temporary, {"direction": direction.float()}, about)
    present(terminal, outputs, view.SteeringView(record), record, view.steering_table)
