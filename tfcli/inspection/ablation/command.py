"""``tfcli inspect ablate``: what a model loses without each head, MLP and layer."""

from typing import Annotated

import typer

from tfcli.console.options import Evolution, Outputs, Position, Run, Target, Weights, command, first_given, present
from tfcli.console.settings import usual
from tfcli.console.stdin import read_text
from tfcli.console.terminal import Terminal
from tfcli.errors import UsageError
from tfcli.inspection.ablation import Replacement

_TEXT, _ON = "The text; - for stdin.", "Texts to measure on, and to take values from."
_WITH = "What takes the place of a part: 0, its mean, or its value on other texts."


@command
def ablate(
    terminal: Terminal,
    outputs: Outputs,
    run: Run,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help=_TEXT, show_default="many, see --on")] = None,
    *,
    target: Target = None,
    position: Position = None,
    token: Annotated[str | None, usual("the likeliest", "The token whose logit counts.", metavar="TOKEN")] = None,
    against: Annotated[str | None, usual("the second", "Less the logit of this one.", metavar="TOKEN")] = None,
    replaced: Annotated[Replacement, typer.Option("--with", help=_WITH)] = "zero",
    on: Annotated[list[str] | None, usual("the run's own validation text", _ON, metavar="SOURCE")] = None,
    evolution: Evolution = False,
    weights: Weights,
) -> None:
    """Show what a model loses without each head, MLP and layer.

    Each part is replaced in turn. On a TEXT: the change of the difference of two
    logits at a position, of the true token's log-probability and of the loss.
    Without a TEXT: the change of the loss on many, with its 95 % interval over
    documents. An encoder has its tokens masked.

    Examples:

      tfcli inspect ablate runs/decoder-1 "Tom swam to the"
      tfcli inspect ablate runs/decoder-1 --with mean
      tfcli inspect ablate runs/induction-1 --evolution
      tfcli inspect ablate runs/encoder-1 "Tom swam to the <mask>" --with resample --on mytext.txt
    """
    from tfcli.inspection.ablation import compute, view
    from tfcli.inspection.heads.command import sample

    if text is None and (
        given := first_given({"--target": target, "--position": position, "--token": token, "--against": against})
    ):
        raise UsageError(f"{given} belongs to a TEXT", "give both, or leave both out")
    if text is not None and on and replaced == "zero":
        raise UsageError("--with zero takes nothing from --on, and a TEXT is measured alone", "leave --on or TEXT out")
    text = None if text is None else read_text(text)
    loaded = weights.load(run)
    material = sample(terminal, loaded, tuple(on or ())) if text is None or replaced != "zero" else None
    told = {"position": position, "token": token, "against": against, "replaced": replaced, "material": material}
    if evolution:
        from tfcli.inspection.evolution.compute import evolution as over
        from tfcli.inspection.evolution.view import EvolutionView, evolution_table

        evolved = over(loaded, compute.ablate, text, target, **told)
        present(terminal, outputs, EvolutionView(evolved), evolved, evolution_table)
        return
    record = compute.ablate(loaded, text, target, **told)  # type: ignore[arg-type]
    present(terminal, outputs, view.AblationView(record), record, view.ablation_table)
