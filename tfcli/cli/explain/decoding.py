"""``tfcli explain decoding``: from logits to the next token."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tfcli.cli.options import Checkpoint, Json, command
from tfcli.cli.pictures import Csv, Html, Outputs, Svg, present
from tfcli.cli.terminal import Terminal


@command
def decoding(
    terminal: Terminal,
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="What a run goes on from; - for stdin.", show_default=False),
    ] = None,
    run: Annotated[
        Path | None, typer.Option("--run", metavar="RUN", help="A trained model.", show_default="a toy language")
    ] = None,
    temperature: Annotated[float, typer.Option("--temperature", min=0, help="Divides the logits; 0: greedy.")] = 0.5,
    top_k: Annotated[int, typer.Option("--top-k", min=0, help="Draw from the k best alone; 0: all.")] = 3,
    top_p: Annotated[
        float, typer.Option("--top-p", min=0, max=1, help="Draw from the fewest best that hold this probability.")
    ] = 0.9,
    beam: Annotated[int, typer.Option("--beam", min=2, help="Beams beside greedy decoding.")] = 2,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Tokens at most.")] = 4,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the draw.")] = 0,
    checkpoint: Checkpoint = "best",
    json: Json = False,
    csv: Csv = False,
    svg: Svg = None,
    html: Html = None,
) -> None:
    """Show how a next token is drawn, stage by stage, and what a beam sees.

    Logits, temperature, top-k, top-p, and the random number that decides: the
    draws of tfcli generate. The toy can be checked by hand: at first, what may
    follow has 8, 4, 2, 1 and 1 sixteenths, and greedy decoding is wrong.

    Examples:

      tfcli explain decoding
      tfcli explain decoding --temperature 1 --top-k 0 --top-p 1
      tfcli explain decoding "Tom swam" --run runs/decoder-1 --steps 3
    """
    from tfcli.cli.stdin import read_text
    from tfcli.errors import UsageError
    from tfcli.inspection.explain.decoding import explain_decoding, explain_toy_decoding
    from tfcli.recipe.loading import build_recipe
    from tfcli.render.as_json import to_json
    from tfcli.render.explain.decoding import DecodingView, decoding_table
    from tfcli.runs.load import load_run

    outputs = Outputs(json, csv, svg, html)
    given: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "beam": beam, "seed": seed}
    settings = build_recipe({"generate": {**given, "max_new_tokens": steps}}).generate
    if run is not None:
        record = explain_decoding(load_run(run, checkpoint), "" if text is None else read_text(text), settings)
    elif text is not None:
        raise UsageError("A toy language has a beginning of its own", "add --run RUN, or leave the text out")
    else:
        record = explain_toy_decoding(settings)
    present(terminal, outputs, DecodingView(record), json=lambda: to_json(record), table=lambda: decoding_table(record))
