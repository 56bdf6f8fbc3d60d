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
    from tfcli.runs.load import load_run as load

    return load(path, checkpoint, device, precision)


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
    fields of `tfcli.inspection.attention.choice.AttentionChoice` choose: layer=1, head=0, rollout=True, words=True or
    rows="0:8". A comparison is left to you: subtract. A `UsageError` where the text is longer than the context, there
    is no such layer, head or part, or the model takes no target."""
    import tfcli.inspection.attention.view  # noqa: F401 (notebooks draw by it)
    from tfcli.draw import Shown
    from tfcli.errors import UsageError
    from tfcli.inspection.attention import AttentionHeads
    from tfcli.inspection.attention.choice import AttentionChoice
    from tfcli.inspection.attention.compute import inspect_attention

    _require_run(run)
    found = inspect_attention(run, text, AttentionChoice(target=target, **choice))
    if not isinstance(found, AttentionHeads):
        raise UsageError("attention gives weights, and this choice is a list or a comparison", "leave it out")
    return Shown(found.narrowed())


def _require_run(run: "Any") -> None:
    from tfcli.errors import UsageError

    if not hasattr(run, "tokenizer"):
        raise UsageError(f"{run!r:.80} is no loaded run", "give what tfcli.load_run(PATH) returns")


_PICTURES = {
    **dict.fromkeys(("predictions", "lens", "losses"), "predictions"),
    "attribution": "attribution",
    "circuits": "circuits",
    "ablate": "ablation",
    "patch": "patching",
    "steer": "steer",
    "probe": "probe",
    "embeddings": "embeddings",
}
_EVOLVING = ("attribution", "ablate", "patch", "probe")


def inspect(run: "LoadedRun", picture: str, *texts: "str | None", evolution: bool = False, **how: "Any") -> "Any":
    """The record of `tfcli inspect predictions`, `lens`, `losses`, `attribution`, `ablate`, `patch` or `steer`, of the
    text, or the two of `patch`, and where there is one the target; of `probe`, what for, and of `embeddings` and
    `circuits`, tokens; `how` is what the function of that name in the picture's `compute.py` takes. More text is the
    run's own, or that of sources (`on`). With `evolution`, a cause or a probe at every checkpoint. A `UsageError` where
    there is no such picture, and what that function raises."""
    from importlib import import_module
    from inspect import signature
    from typing import Literal, get_args, get_origin, get_type_hints

    from tfcli.errors import UsageError

    _require_run(run)
    if (folder := _PICTURES.get(picture)) is None:
        raise UsageError(f"There is no picture {picture!r}", f"choose one of {', '.join(_PICTURES)}")
    if evolution and picture not in _EVOLVING:
        raise UsageError(f"{picture!r} is no picture of several checkpoints", f"choose one of {', '.join(_EVOLVING)}")
    compute = getattr(import_module(f"tfcli.inspection.{folder}.compute"), picture)
    if picture == "attribution" and (method := how.pop("method", "direct")) != "direct":
        compute = import_module("tfcli.inspection.attribution.inputs").input_attribution
        how |= {} if method == "all" else {"methods": (method,)}
    for name in [name for name in ("path", "head", "neuron", "on") if isinstance(how.get(name), str)]:
        place = import_module("tfcli.inspection.attention.choice").head_place
        how[name] = (how[name],) if name == "on" else place(how[name], name)
    if how.get("on"):
        addresses = import_module("tfcli.addresses")
        addresses.forget()
        how["on"] = tuple(addresses.typed(source) for source in how["on"])
    others = picture == "ablate" and (not any(texts) or how.get("replaced", "zero") != "zero")
    if picture == "steer" or others or how.get("neuron"):
        from tfcli.console.terminal import Terminal
        from tfcli.inspection.heads.command import sample

        how["material"] = how.get("material") or sample(Terminal(quiet=True), run, tuple(how.pop("on", ())))
    try:
        given = signature(compute).bind(run, *texts, **how).arguments
    except TypeError as error:
        takes = ", ".join(name for name in list(signature(compute).parameters)[1:] if name != "material")
        raise UsageError(f"The picture {picture!r} is asked for otherwise: {error}", f"it takes {takes}") from error
    for name, kind in get_type_hints(compute).items():
        known = [one for part in (kind, *get_args(kind)) if get_origin(part) is Literal for one in get_args(part)]
        several = values if isinstance(values := given.get(name), list | tuple) else [values]
        if known and (wrong := [one for one in several if one not in (*known, None)]):
            raise UsageError(f"{name} is {wrong[0]!r}", f"choose one of {', '.join(known)}")
    import_module(f"tfcli.inspection.{'evolution' if evolution else folder}.view")  # notebooks draw by it
    if evolution:
        return import_module("tfcli.inspection.evolution.compute").evolution(run, compute, *texts, **how)
    return compute(run, *texts, **how)
