"""``tfcli explain``: attention, a layer, the causal mask, positions and decoding, of a toy or of a run."""

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tfcli.console.options import Checkpoint, Kind, Showing, Target, Weights, command, first_given, present, use_threads
from tfcli.console.settings import flag_of, usual
from tfcli.console.stdin import read_text
from tfcli.console.terminal import Terminal
from tfcli.errors import UsageError
from tfcli.inspection.explain import NotationName
from tfcli.outputs import about, write_output
from tfcli.recipe.model import NormPlacement
from tfcli.records.heads import read_head

if TYPE_CHECKING:
    from tfcli.inspection.explain import Explanation
    from tfcli.inspection.explain.subject import Subject


def _text(default: str | bool, about: str = "The text to read") -> Any:
    return typer.Argument(metavar="TEXT", help=f"{about}; - for stdin.", show_default=default)


Text = Annotated[str | None, _text("Lucas will travel")]
OfRun = Annotated[Path | None, usual("a toy", "A run, to see a real layer of it.", metavar="RUN")]
NotationOption = Annotated[NotationName, typer.Option(help="Whose symbols to use. In udl, tokens are columns.")]
ToySeed = Annotated[int | None, usual("0", "Seed of a toy's weights.", min=0)]
_SIZE = functools.partial(usual, min=1, max=512)
_OF_VECTORS = "Size of a toy's vectors."
_OF_LAYER = ("layer", "kind", "target")
_OF_FILES = ("x", "wq", "wk", "wv", "wo")
_GIVEN = functools.partial(typer.Option, show_default=False)
_MATRIX = functools.partial(_GIVEN, metavar="FILE")
Score = Literal["scaled_dot", "dot", "additive"]
_KIND = usual("its own", "In a run: encoder_self, decoder_self or cross.", metavar="KIND")
_NORMS = usual("post", "In a toy: norms before or behind each sublayer.")
_INTEGERS = "A toy of small whole numbers; without --heads, of one."
_HEAD = "Head whose steps are shown, from 0; of a run LAYER.HEAD, or its number beside --layer."
_SIZES = ("d_model", "heads", "head_dim", "value_dim")
_OF_ATTENTION = (*_SIZES, "score", "projection", "bias", "integers")
_OF_TOY = (*_OF_ATTENTION, "norm_placement", "seed")


@dataclass(frozen=True)
class Reading:
    """What reads a text: a toy, or a layer of a run. A command has those of these options that it names."""

    text: Text = None
    run: OfRun = None
    layer: Annotated[int | None, usual("0", "Layer of a run, from 0.", min=0)] = None
    kind: Annotated[Kind | None, _KIND] = None
    target: Target = None
    head: Annotated[str | None, usual("0", _HEAD, metavar="H|L.H")] = None
    d_model: Annotated[int | None, _SIZE("9", _OF_VECTORS)] = None
    heads: Annotated[int | None, usual("3", "Heads of a toy, which share d_model.", min=1, max=64)] = None
    head_dim: Annotated[int | None, _SIZE("d_model / heads", "Size of a toy's queries and keys, D_k.")] = None
    value_dim: Annotated[int | None, _SIZE("that of its keys", "Size of a toy's values, D_v.")] = None
    score: Annotated[Score | None, usual("scaled_dot", "How queries and keys meet in a toy.")] = None
    projection: Annotated[Literal["none"] | None, _GIVEN(help="In a toy, none computes softmax(X Xᵀ) X.")] = None
    bias: Annotated[bool | None, typer.Option("--bias", help="Draw biases for a toy's projections.")] = None
    integers: Annotated[bool | None, typer.Option("--integers", help=_INTEGERS)] = None
    norm_placement: Annotated[NormPlacement | None, _NORMS] = None
    seed: ToySeed = None
    x: Annotated[Path | None, _MATRIX(help="Your own input X, a token a row: numbers in a text, or .npy.")] = None
    wq: Annotated[Path | None, _MATRIX(help="Your own W⁽q⁾, a row for each column of X.")] = None
    wk: Annotated[Path | None, _MATRIX(help="Your own W⁽k⁾, as large as W⁽q⁾.")] = None
    wv: Annotated[Path | None, _MATRIX(help="Your own W⁽v⁾, a row for each column of X.")] = None
    wo: Annotated[Path | None, _MATRIX(help="Your own W⁽o⁾, a row for each column of W⁽v⁾; without: none.")] = None

    def first_of(self, names: Iterable[str]) -> str | None:
        """The first of these options that was given."""
        return first_given({flag_of(name): getattr(self, name) for name in names})

    @property
    def head_number(self) -> int | None:
        """The number of the head in its layer; None where none was chosen."""
        return read_head(None, self.head).head

    def subject(self, weights: Weights, **always: Any) -> "Subject":
        """A toy of the options, and of `always` whatever was typed; or with `run` one of its layers on the text. A
        UsageError of an option of the other kind, of no such toy or layer, and of no text for a run."""
        from tfcli.inspection.explain.own import of_files
        from tfcli.inspection.explain.subject import EXAMPLE, explained_kind, of_run, toy, toy_words
        from tfcli.inspection.passes import place_in_run

        if files := {name: path for name in _OF_FILES if (path := getattr(self, name)) is not None}:
            if other := self.first_of(name for name in ("run", *_OF_LAYER, *_OF_TOY) if name != "heads"):
                raise UsageError(f"Matrices of your own are given, and {other} asks for others", "leave it out")
            self._require_no_layer()
            return of_files(files, self.heads or 1, toy_words(read_text(self.text)) if self.text else None)
        if self.run is None:
            self._require_no_layer()
            use_threads(weights.threads)
            if other := self.first_of(_OF_LAYER):
                raise UsageError(f"A toy has no {other}", f"name a run with --run, or leave {other} out")
            given = {name: value for name in _OF_TOY if (value := getattr(self, name)) is not None}
            if self.integers:
                given = {"d_model": 4, "heads": 1} | given
            if given.pop("projection", None):
                given |= {"heads": 1, "score": "parameter_free"}
            return toy(EXAMPLE if self.text is None else read_text(self.text), **given, **always)
        if self.text is None:
            raise UsageError(f"The run {self.run} needs a text to read", "write one behind the command")
        if other := self.first_of(_OF_TOY):
            problem = f"The run {self.run} has its own sizes and weights"
            raise UsageError(problem, f"leave {other} out, or leave --run out")
        typed_place = read_head(self.layer, self.head)
        text = read_text(self.text)
        loaded = weights.load(self.run)
        kind = explained_kind(loaded, self.kind)
        place = place_in_run(loaded, kind, typed_place)
        layer = 0 if place is None else place[0]
        return of_run(loaded, text, target=self.target, kind=kind, layer=layer)

    def _require_no_layer(self) -> None:
        """Refuse the layer of a head where there is no run."""
        place = read_head(None, self.head)
        if place.layer is not None:
            problem = f"--head {self.head} names a layer, and only a run has several"
            raise UsageError(problem, f"write --head {place.head}, or name a run with --run")


def present_steps(terminal: Terminal, outputs: Showing, whole: "Explanation", drawn: Any = None) -> None:
    """Show the steps of an explanation with every matrix, as a picture, JSON or CSV; `drawn`: as another view."""
    from tfcli.draw.svg import captioned, picture_html, picture_svg, picture_text
    from tfcli.inspection.explain.handout import with_holes
    from tfcli.inspection.explain.latex_view import explanation_latex
    from tfcli.inspection.explain.view import ExplanationView, explanation_table

    drawn = drawn or ExplanationView
    shown = with_holes(whole, [name.strip() for name in outputs.hide.split(",")]) if outputs.hide else whole
    if outputs.latex:
        write_output(outputs.latex, "--latex", explanation_latex(shown))
    if path := outputs.answers:
        ending = path.suffix.lower()
        if ending == ".svg":
            page = captioned(picture_svg(drawn(whole), theme=outputs.theme), **about)
        elif ending == ".html":
            page = captioned(picture_html(drawn(whole), theme=outputs.theme), **about)
        elif ending == ".tex":
            page = explanation_latex(whole)
        else:
            page = picture_text(drawn(whole))
        write_output(path, "--answers", page)
    view = drawn(shown)
    present(terminal, outputs, view, view.record, lambda _: explanation_table(shown))


@command
def attention(
    terminal: Terminal,
    outputs: Showing,
    *,
    reading: Annotated[Reading, ("text", "run", *_OF_LAYER, "head", *_OF_ATTENTION, "seed", *_OF_FILES)],
    cosines: Annotated[bool, typer.Option("--cosines", help="Show cosines beside dot products.")] = False,
    code: Annotated[bool, typer.Option("--code", help="Add Bishop's algorithm as PyTorch that runs.")] = False,
    notation: NotationOption = "bishop",
    weights: Weights,
) -> None:
    """Show every matrix of an attention, from tokens to output.

    Without --run it is a toy: words are tokens, and weights are drawn from a
    seed. With --run it is a real layer, with --x, --wq, --wk and --wv an
    attention of your own numbers. One head is shown step by step (--head), of
    the others of a toy weights and outputs. --notation changes symbols and
    layout, and not the numbers.

    Examples:

      tfcli explain attention "Lucas will travel" --d-model 9 --heads 3
      tfcli explain attention --projection none --d-model 3 --notation udl
      tfcli explain attention "I swim" --integers
      tfcli explain attention "Tom swam" --run runs/decoder-1 --head 0.1
    """
    from tfcli.inspection.explain.attention import explain_attention
    from tfcli.inspection.explain.handout import flow, listing

    if reading.projection is not None and (other := reading.first_of(("score", "bias", "head_dim", "value_dim"))):
        raise UsageError("--projection none takes X itself for queries, keys and values", f"leave {other} out")
    if reading.projection is not None and reading.heads not in (None, 1):
        raise UsageError(f"Without projections there is one head, and not {reading.heads}", "leave --heads out")
    if code and outputs.hide:
        raise UsageError("--code computes what --hide leaves out", "give one of the two")
    subject = reading.subject(weights)
    head = reading.head_number
    explanation = explain_attention(subject, notation, head=head, with_cosines=cosines)
    steps = flow(subject, explanation, head or 0) + explanation.steps
    steps += (listing(subject, head),) if code else ()
    present_steps(terminal, outputs, replace(explanation, steps=steps))


@command
def layer(
    terminal: Terminal,
    outputs: Showing,
    *,
    reading: Annotated[Reading, ("text", "run", *_OF_LAYER, *_SIZES, "bias", "integers", "norm_placement", "seed")],
    shapes: Annotated[bool, typer.Option("--shapes", help="Show only the shape of every tensor.")] = False,
    notation: NotationOption = "bishop",
    weights: Weights,
) -> None:
    """Show one whole layer: attention, residuals, norms, feed-forward.

    Norms are shown with the statistics of every token, before and behind.

    Examples:

      tfcli explain layer "Lucas will travel" --norm-placement pre
      tfcli explain layer --shapes --notation cs224n
      tfcli explain layer "Tom swam" --run runs/decoder-1 --layer 1
    """
    from tfcli.inspection.explain.layer import explain_layer, trace_shapes
    from tfcli.inspection.explain.view import ShapesView, shapes_table

    subject = reading.subject(weights)
    if shapes:
        if outputs.step or outputs.hide or outputs.latex:
            raise UsageError("--shapes is one table without numbers", "leave --step, --hide and --latex out")
        trace = trace_shapes(subject, notation)
        present(terminal, outputs, ShapesView(trace), trace, shapes_table)
    else:
        present_steps(terminal, outputs, explain_layer(subject, notation))


@command
def masking(
    terminal: Terminal,
    outputs: Showing,
    *,
    text: Annotated[str | None, _text("INF721's scores", "The text to read, or the names of your scores")] = None,
    reading: Annotated[Reading, ("run", "layer", "target", "head", *_SIZES, "integers", "seed")],
    scores: Annotated[str | None, usual("INF721's", "Your own Q Kᵀ: rows, ; between them.", metavar="ROWS")] = None,
    d_k: Annotated[int | None, usual("3", "What these scores are divided by the root of.", min=1)] = None,
    notation: NotationOption = "inf721",
    weights: Weights,
) -> None:
    """Show how the causal mask hides the future from every row.

    Without a text: INF721's integer scores worked through, or those of
    --scores. With one, a toy decoder reads it, or with --run a real layer, and
    every row predicts the next token at once.

    Examples:

      tfcli explain masking
      tfcli explain masking --scores "2 1; 0 3" --d-k 4
      tfcli explain masking "Lucas will travel" --notation bishop
      tfcli explain masking "Tom swam" --run runs/decoder-1
    """
    from tfcli.inspection.explain.attention import explain_masking, explain_scores
    from tfcli.inspection.explain.own import square_scores
    from tfcli.inspection.explain.subject import toy_words

    if scores is None and (text is not None or reading.run is not None):
        if d_k is not None:
            raise UsageError("--d-k is the size behind --scores, and a model has its own", "leave it out")
        subject = replace(reading, text=text).subject(weights, architecture="decoder")
        explanation = explain_masking(subject, notation, head=reading.head_number)
    else:
        if option := reading.first_of(("run", *_OF_TOY, "head", *_OF_LAYER)):
            whose, remedy = ("INF721's", "add a text to read") if scores is None else ("Your", "leave it out")
            raise UsageError(f"{whose} scores are given, and {option} would change nothing", remedy)
        raw, words, printed = square_scores(scores, None if text is None else toy_words(read_text(text)))
        is_slide = d_k in (None, 3) and notation == "inf721"
        explanation = explain_scores(raw, d_k or 3, words, notation, printed if is_slide else None)
    present_steps(terminal, outputs, explanation)


@command
def positions(
    terminal: Terminal,
    outputs: Showing,
    text: Text = None,
    run: OfRun = None,
    d_model: Annotated[int | None, _SIZE("4", _OF_VECTORS)] = None,
    length: Annotated[int | None, usual("the text's", "Positions of the table.", min=1, max=10_000)] = None,
    base: Annotated[float, typer.Option(help="Base L of the wavelengths.")] = 10_000.0,
    notation: NotationOption = "bishop",
    seed: ToySeed = None,
    checkpoint: Checkpoint = "best",
) -> None:
    """Show how positions become numbers, and join a text.

    Every lecture's way to write the same function, then the table step by step:
    wavelengths, angles, sines and cosines, and how they are added, concatenated,
    or put into queries and keys. With --run, the embeddings are a run's.

    Examples:

      tfcli explain positions "Lucas will travel" --d-model 4
      tfcli explain positions --notation inf721 --d-model 6
      tfcli explain positions "Tom swam" --run runs/decoder-1
    """
    from tfcli.inspection.explain.positions import embedded_by_run, explain_positions, toy_embeddings
    from tfcli.inspection.explain.subject import EXAMPLE
    from tfcli.inspection.explain.view import PositionExplanationView
    from tfcli.runs.load import load_run

    if not 1 < base < inf:
        raise UsageError(f"--base {base:g} gives no growing wavelengths", "choose a finite base above 1")
    read = EXAMPLE if text is None else read_text(text)
    if not read.strip():
        raise UsageError("The text is empty", "give a few words")
    if run is None:
        embedded = toy_embeddings(read, d_model or 4, seed or 0)
    elif option := first_given({"--d-model": d_model, "--seed": seed}):
        raise UsageError(f"The run {run} has its own sizes and weights", f"leave {option} out, or --run")
    else:
        embedded = embedded_by_run(load_run(run, checkpoint), read)
    record = explain_positions(embedded, notation, base=base, length=length)
    as_chosen = record.explanation
    present_steps(terminal, outputs, as_chosen, lambda one: PositionExplanationView(replace(record, explanation=one)))


_TOP_P = "Draw from the fewest best that hold this probability."
_OF_DRAWN_TOY = {"temperature": 0.5, "top_k": 3, "top_p": 0.9, "beam": 2, "seed": 0}


def _of_draw(name: str, about: str, **limits: Any) -> Any:
    return usual(f"the run's own; a toy: {_OF_DRAWN_TOY[name]}", about, **limits)


@command
def decoding(
    terminal: Terminal,
    outputs: Annotated[Showing, ("csv", "svg", "html", "json", "theme", "step")],
    text: Annotated[str | None, _text(False, "What a run goes on from")] = None,
    run: Annotated[Path | None, usual("a toy language", "A trained model.", metavar="RUN")] = None,
    temperature: Annotated[float | None, _of_draw("temperature", "Divides the logits; 0: greedy.", min=0)] = None,
    top_k: Annotated[int | None, _of_draw("top_k", "Draw from the k best alone; 0: all.", min=0)] = None,
    top_p: Annotated[float | None, _of_draw("top_p", _TOP_P, min=0, max=1)] = None,
    beam: Annotated[int | None, _of_draw("beam", "Beams beside greedy decoding.", min=2, max=1_000)] = None,
    steps: Annotated[int, typer.Option(min=1, help="Tokens at most.")] = 4,
    seed: Annotated[int | None, _of_draw("seed", "Seed of the draw.", min=0, max=2**63 - 1)] = None,
    *,
    weights: Weights,
) -> None:
    """Show how a next token is drawn, stage by stage, and what a beam sees.

    Logits, temperature, the filters, and the random number that decides: the
    draws of tfcli generate, with a run's own settings. The toy can be checked by hand: at first, what may
    follow has 8, 4, 2, 1 and 1 sixteenths, and greedy decoding is wrong.

    Examples:

      tfcli explain decoding
      tfcli explain decoding --temperature 1 --top-k 0 --top-p 1
      tfcli explain decoding "Tom swam" --run runs/decoder-1 --steps 3
    """
    from tfcli.inspection.explain.decoding import explain_decoding, explain_toy_decoding, run_settings
    from tfcli.inspection.explain.decoding_view import DecodingView, decoding_table
    from tfcli.recipe.loading import build_recipe

    if temperature is not None and not isfinite(temperature):
        raise UsageError(f"--temperature {temperature} is no finite number", "choose one from 0 on")
    if top_p is not None and not top_p > 0:
        raise UsageError(f"--top-p {top_p:g} leaves no token to draw", "choose more than 0, and at most 1")
    typed = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "beam": beam, "seed": seed}
    given = {name: value for name, value in typed.items() if value is not None} | {"max_new_tokens": steps}
    if run is not None:
        loaded = weights.load(run)
        record = explain_decoding(loaded, read_text(text or ""), run_settings(loaded, given))
    elif text is not None:
        raise UsageError("A toy language has a beginning of its own", "add --run RUN, or leave the text out")
    else:
        use_threads(weights.threads)
        record = explain_toy_decoding(build_recipe({"generate": {**_OF_DRAWN_TOY, **given}}).generate)
    present(terminal, outputs, DecodingView(record), record, decoding_table)
