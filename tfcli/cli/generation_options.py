"""The options of ``tfcli generate``, in the panels of its help."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

_PROMPTS, _TEXTS, _DRAWING, _BEAMS = "Prompts", "Texts", "Drawing tokens", "Beam search"


def _option(*names: str, panel: str, help: str, **settings: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, **settings)


Weights = Annotated[
    Literal["float32", "bfloat16", "int8"],
    typer.Option("--precision", help="Of the weights; int8 is faster and less exact."),
]
Prompts = Annotated[
    list[str] | None,
    typer.Argument(metavar="PROMPT|-", help="Text to continue, translate or fill; - reads a prompt a line."),
]
PromptFile = Annotated[
    Path | None,
    _option("--prompts", panel=_PROMPTS, metavar="FILE", help='A prompt a line, or .jsonl with "prompt".'),
]
Interactive = Annotated[
    bool, _option("--interactive", "-i", panel=_PROMPTS, help="Ask for prompts until an empty line.")
]
Chat = Annotated[
    bool, _option("--chat", panel=_PROMPTS, help="A prompt is what a user says, by the model's own chat template.")
]
System = Annotated[
    str | None, _option("--system", panel=_PROMPTS, metavar="TEXT", help="What the system says before (--chat).")
]
SpecialTokens = Annotated[
    bool, _option("--special-tokens", panel=_PROMPTS, help="Special tokens in a prompt are read by their spelling.")
]
BatchSize = Annotated[int | None, _option("--batch-size", panel=_PROMPTS, min=1, help="Prompts read side by side.")]
MaxNewTokens = Annotated[
    int | None, _option("--max-new-tokens", panel=_TEXTS, min=1, help="Stop after this many tokens.")
]
NumSamples = Annotated[int | None, _option("--num-samples", panel=_TEXTS, min=1, help="Texts a prompt.")]
Stop = Annotated[
    list[str] | None,
    _option("--stop", panel=_TEXTS, metavar="TEXT", help="End a text where this one would begin; repeatable."),
]
Prefix = Annotated[
    str | None, _option("--prefix", panel=_TEXTS, metavar="TEXT", help="What every translation begins with.")
]
Beyond = Annotated[
    Literal["stop", "slide", "extrapolate"] | None,
    _option("--beyond-context", panel=_TEXTS, help="When the context is full: stop, forget the beginning, or go on."),
]
Joint = Annotated[bool, _option("--joint", panel=_TEXTS, help="Fill the surest mask first and read it (an encoder).")]
Temperature = Annotated[
    float | None,
    _option(
        "--temperature",
        panel=_DRAWING,
        help="Divides the logits; 0 is greedy, and so is an encoder-decoder where none is given.",
    ),
]
TopK = Annotated[
    int | None,
    _option(
        "--top-k",
        panel=_DRAWING,
        min=0,
        help="From the k best tokens, 0: all; for an encoder, how many to show a mask.",
    ),
]
TopP = Annotated[
    float | None, _option("--top-p", panel=_DRAWING, help="From the smallest set with this probability, 0 to 1.")
]
MinP = Annotated[
    float | None,
    _option("--min-p", panel=_DRAWING, help="From tokens at least this share as probable as the best, 0 to 1."),
]
Repetition = Annotated[
    float | None,
    _option("--repetition-penalty", panel=_DRAWING, help="Above 1, tokens that the text holds become less likely."),
]
NoRepeat = Annotated[
    int | None,
    _option("--no-repeat-ngram", panel=_DRAWING, min=0, help="No sequence of so many tokens comes twice; 0: may."),
]
Seed = Annotated[int | None, _option("--seed", panel=_DRAWING, min=0, help="Seed of the drawing.")]
Trace = Annotated[bool, _option("--trace", panel=_DRAWING, help="Show a row a token: what else could have come.")]
Beam = Annotated[int | None, _option("--beam", panel=_BEAMS, min=1, help="Beams to search with; 1: none.")]
LengthPenalty = Annotated[
    float | None,
    _option("--length-penalty", panel=_BEAMS, help="0 ranks by probability alone; more favours long texts."),
]
BeamGroups = Annotated[
    int | None, _option("--beam-groups", panel=_BEAMS, min=1, help="Groups of beams that avoid each other's tokens.")
]
Diversity = Annotated[
    float | None, _option("--diversity", panel=_BEAMS, help="What a token loses if another group chose it, in nats.")
]
ShowBeams = Annotated[bool, _option("--show-beams", panel=_BEAMS, help="Draw the tree of what was kept and pruned.")]
