"""tfcli: transformers from the terminal, and a small Python API for notebooks.

    import tfcli

    run = tfcli.load_run("runs/decoder-1")
    print(tfcli.generate(run, "One day", temperature=0.8)[0].text)
    tfcli.attention(run, "Tom swam to the bank")[0].weights.shape      # (L, H, T, S)
    tfcli.inspect(run, "patch", "Tom swam to the", "Mia swam to the").grids

Importing it is cheap: PyTorch is loaded by the first call. In a notebook, what they return is shown as its picture.
"""

TYPE_CHECKING = False  # nothing is imported here, so that `__main__` comes at once to answer signals
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from tfcli.generation.generate import Made
    from tfcli.inspection.attention import AttentionRecord
    from tfcli.recipe.model import WeightPrecision
    from tfcli.runs.load import LoadedRun

__version__ = "0.1.0"


def load_run(
    path: "Path | str", checkpoint: str = "best", device: str = "cpu", precision: "WeightPrecision | None" = None
) -> "LoadedRun":
    """A run's recipe, tokenizer and model, of its folder or what `tfcli runs list` calls it; a `TfcliError` where there
    is none, or it is damaged. With a `precision` ("float32", "bfloat16", "int8") it only predicts, and faster."""
    from tfcli.runs.load import LoadedRun
    from tfcli.runs.load import load_run as load

    LoadedRun._repr_html_ = _run_page  # type: ignore[attr-defined]  # notebooks draw by it
    return load(path, checkpoint, device, precision)


def _run_page(run: "LoadedRun") -> str:
    """A run as a notebook shows it: its page with its curves, as `tfcli runs show` has it."""
    from html import escape

    from tfcli.draw import notebook_html
    from tfcli.errors import TfcliError
    from tfcli.runs.overview import read_detail
    from tfcli.runs.view import RunView

    try:
        detail = read_detail(run.directory.path)
    except TfcliError:  # the folder has been changed or moved since
        return f"<pre>{escape(repr(run))}</pre>"
    return notebook_html(RunView(detail))


def generate(run: "LoadedRun", prompt: str = "", **settings: "Any") -> "Made":
    """Continue a prompt (decoder), fill its masks (encoder), translate it (encoder-decoder), or tell what a task head
    makes of it. `settings` are fields of `tfcli.recipe.recipe.GenerateSection` over the run's own, such as
    temperature=0.8; a `UsageError` where they or the prompt do not fit the model."""
    import tfcli.generation.view  # noqa: F401 (notebooks draw by it)
    from tfcli.draw import Shown
    from tfcli.generation.generate import generate as make
    from tfcli.recipe.loading import generation_settings

    _require_run(run)
    chosen = generation_settings(run.recipe, settings)
    made = make(run, prompt, chosen, sample=chosen.temperature > 0 if "temperature" in settings else None)
    return Shown(made) if isinstance(made, list) else made


def attention(run: "LoadedRun", text: str, target: "str | None" = None, **choice: "Any") -> "list[AttentionRecord]":
    """The attention weights of a text, a record for each kind of attention that the model has; of all heads, or of what
    fields of `tfcli.inspection.attention.choice.AttentionChoice` choose: head="1.0" (layer 1, head 0), layer=1,
    rollout=True, words=True or rows="0:8". A comparison is left to you: subtract. A `UsageError` where the text is
    longer than the context, there is no such layer, head or part, or the model takes no target."""
    import tfcli.inspection.attention.view  # noqa: F401 (notebooks draw by it)
    from tfcli.cli import pictures
    from tfcli.draw import Shown

    _require_run(run)
    return Shown(pictures.attention(run, text, target, **choice))


def _require_run(run: "Any") -> None:
    from tfcli.errors import UsageError

    if not hasattr(run, "tokenizer"):
        raise UsageError(f"{run!r:.80} is no loaded run", "give what tfcli.load_run(PATH) returns")


def inspect(
    run: "LoadedRun | None", picture: str, *texts: "str | None", evolution: bool = False, **settings: "Any"
) -> "Any":
    """The record of any picture of `tfcli inspect`, by the name that follows it on the command line.

    Args:
        run: The run. "scaling" and "recurrent" need none: None.
        picture: Such as "heads", "lens" or "patch"; a wrong name is answered with all of them.
        texts: What the command takes after the run: a text, a target, two texts for "patch", tokens
            for "neighbours", "embeddings" and "circuits", and for "probe" what it is for.
        evolution: Whether to measure "attribution", "ablate", "patch" or "probe" at every checkpoint.
        settings: The command's options by name, such as `top_k=3` or `head="1.0"`.

    Raises:
        UsageError: There is no such picture, it takes other settings, or the run cannot be shown so.
    """
    from tfcli.cli import pictures

    if run is not None or picture not in pictures.NEED_NO_RUN:
        _require_run(run)
    return pictures.inspect(run, picture, *texts, evolution=evolution, **settings)
