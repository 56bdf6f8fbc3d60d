"""Every picture of `tfcli inspect` as a function of a run: what `tfcli.inspect` calls.

A picture is named like its command. Most are the function of that name in the picture's
`compute.py`; those whose command does more than call one function have an adapter here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from typing import Any, Literal, get_args, get_origin, get_type_hints

from tfcli import addresses
from tfcli.draw import Shown
from tfcli.errors import UsageError
from tfcli.inspection.attention import AttentionHeads, AttentionRecord
from tfcli.inspection.cost import AgainstRecord, CostRecord, HeadCosts, Other
from tfcli.inspection.embeddings import NeighboursRecord
from tfcli.inspection.equivariance import EquivarianceRecord
from tfcli.inspection.gradients import GradientsRecord
from tfcli.inspection.heads import AlignmentFound, BankFound, HeadsRecord
from tfcli.inspection.model import ModelRecord
from tfcli.inspection.positions import PositionsRecord
from tfcli.inspection.recurrent import RecurrentRecord
from tfcli.inspection.scaling import ScalingRecord
from tfcli.records.heads import parse_place
from tfcli.records.runs import TrainingCurves
from tfcli.runs.load import LoadedRun


@dataclass(frozen=True)
class Picture:
    """Where a picture's function and its view are.

    Attributes:
        function: "module:name", below `tfcli.inspection`; or the name of an adapter of this module.
        view: The module that draws the record, below `tfcli`.
        follows_checkpoints: Whether it can be drawn over the checkpoints that a run keeps.
    """

    function: str
    view: str
    follows_checkpoints: bool = False


PICTURES: Mapping[str, Picture] = {
    "attention": Picture("attention", "inspection.attention.view"),
    "positions": Picture("positions", "inspection.positions.view"),
    "predictions": Picture("predictions.compute:predictions", "inspection.predictions.view"),
    "losses": Picture("predictions.compute:losses", "inspection.predictions.view"),
    "lens": Picture("predictions.compute:lens", "inspection.predictions.view"),
    "attribution": Picture("attribution.compute:attribution", "inspection.attribution.view", True),
    "ablate": Picture("ablation.compute:ablate", "inspection.ablation.view", True),
    "patch": Picture("patching.compute:patch", "inspection.patching.view", True),
    "steer": Picture("steer.compute:steer", "inspection.steer.view"),
    "circuits": Picture("circuits.compute:circuits", "inspection.circuits.view"),
    "training": Picture("training", "runs.curves_view"),
    "cost": Picture("cost", "inspection.cost.view"),
    "neighbours": Picture("neighbours", "inspection.embeddings.view"),
    "embeddings": Picture("embeddings.compute:embeddings", "inspection.embeddings.view"),
    "probe": Picture("probe.compute:probe", "inspection.probe.view", True),
    "heads": Picture("heads", "inspection.heads.view"),
    "equivariance": Picture("equivariance", "inspection.equivariance.view"),
    "model": Picture("model", "inspection.model.view"),
    "tokens": Picture("embeddings.compute:tokens", "inspection.embeddings.view"),
    "scaling": Picture("scaling", "inspection.scaling.view"),
    "gradients": Picture("gradients", "inspection.gradients.view"),
    "recurrent": Picture("recurrent", "inspection.recurrent.view"),
}


def attention(run: LoadedRun, text: str, target: str | None = None, **choice: Any) -> list[AttentionRecord]:
    """Attention weights, a record for each kind; `choice` are fields of `AttentionChoice`."""
    from tfcli.inspection.attention.choice import choice_of
    from tfcli.inspection.attention.compute import inspect_attention

    found = inspect_attention(run, text, choice_of({"target": target, **choice}))
    if not isinstance(found, AttentionHeads):
        raise UsageError("attention gives weights, and this choice is a list or a comparison", "leave it out")
    return list(found.narrowed())


def positions(
    run: LoadedRun, length: int | None = None, side: Literal["source", "target"] | None = None
) -> PositionsRecord:
    """The run's positional encoding; `side` is that of an encoder-decoder."""
    from tfcli.inspection.positions.compute import run_positions

    return run_positions(run.model, length, side)


def training(run: LoadedRun) -> TrainingCurves:
    """What the training of the run recorded."""
    from tfcli.runs.metrics import training_curves

    return training_curves(run.directory)


def cost(
    run: LoadedRun,
    length: int | None = None,
    batch: int = 1,
    heads: Sequence[int] | None = None,
    against: Other | None = None,
) -> CostRecord | HeadCosts | AgainstRecord:
    """What a forward pass costs; of one attention cut into several numbers of `heads`; or beside another layer."""
    from tfcli.inspection.cost import compute

    section = run.config.model
    if heads is not None and against is not None:
        raise UsageError("heads and against are two pictures", "give one of the two")
    if against is not None:
        return compute.cost_against(section, against)
    if heads is not None:
        return compute.heads_cost(section, heads, length or section.max_seq_len, batch)
    return compute.model_cost(section, length, batch)


def neighbours(
    run: LoadedRun, *tokens: str, top_k: int = 10, matrix: Literal["input", "output"] = "input"
) -> NeighboursRecord:
    """The tokens whose embeddings point the same way."""
    from tfcli.inspection.embeddings.compute import neighbours as compute

    if not tokens:
        raise UsageError("neighbours needs a token", 'name one or more: tfcli.inspect(run, "neighbours", "the")')
    return compute(run, tokens, top_k, matrix)


def heads(
    run: LoadedRun,
    text: str | None = None,
    target: str | None = None,
    *,
    on: Sequence[str] = (),
    kind: Literal["encoder_self", "decoder_self", "cross"] | None = None,
    layer: int | None = None,
    head: str | int | None = None,
    find: Literal["bank", "alignment"] | None = None,
) -> HeadsRecord | AlignmentFound | BankFound:
    """What every head does, on a text or on the run's own; with `find`, the head that does one job best."""
    from tfcli.inspection.heads.find import find_alignment, find_bank, given
    from tfcli.inspection.heads.roles import heads as compute
    from tfcli.inspection.passes import place_in_run
    from tfcli.records.heads import read_head

    place = place_in_run(run, None if find else kind, read_head(layer, head))
    if find == "bank":
        return find_bank(run, place=place)
    if find == "alignment":
        return find_alignment(run, place=place)
    if text is not None and on:
        raise UsageError("A text and on are two things to measure on", "leave one of them out")
    material = _material(run, on) if text is None else given(run, text, target)
    return compute(run, material, kind, place)


def equivariance(
    run: LoadedRun, text: str = "Tom swam to the bank", permutations: int = 10, seed: int = 0
) -> EquivarianceRecord:
    """What the model makes of the order of a text's tokens."""
    from tfcli.inspection.equivariance.compute import equivariance as compute
    from tfcli.inspection.passes import text_ids

    ids = text_ids(run, text)
    labels = tuple(run.tokenizer.labels(ids))
    name = str(run.directory.path)
    return compute(run.model, ids, labels, name, permutations=permutations, seed=seed)


def model(run: LoadedRun) -> ModelRecord:
    """The run's model with the shape of every matrix."""
    from tfcli.inspection.model.compute import model_diagram

    return model_diagram(run.config.model)


def scaling(run: LoadedRun | None = None, queries: int = 1000, keys: int = 32, seed: int = 0) -> ScalingRecord:
    """What dividing scores by √D_k does to random queries and keys. No run is needed."""
    from tfcli.inspection.scaling.compute import measured_scaling

    return measured_scaling(queries, keys, seed)


def gradients(run: LoadedRun, text: str, target: str | None = None, seed: int = 0) -> GradientsRecord:
    """The norm of the gradient in every layer as the run reads a text."""
    from tfcli.inspection.gradients.compute import run_gradients
    from tfcli.inspection.passes import read_text

    return run_gradients(run, read_text(run, text, target), seed)


def recurrent(
    run: LoadedRun | None = None,
    text: str = "Em Dezembro, Lucas irá viajar ao Rio.",
    steps: int = 600,
    seed: int = 0,
    threads: int = 1,
) -> RecurrentRecord:
    """An RNN with attention beside one without and a transformer, trained for the picture. No run is needed."""
    from tfcli.inspection.recurrent.command import shown_recipe
    from tfcli.inspection.recurrent.compute import compared
    from tfcli.pipeline.datasets import obtain_data

    recipe = shown_recipe(steps, seed, threads)
    tokenizer, data = obtain_data(recipe, lambda event: None)
    return compared(recipe, tokenizer, data, text, lambda message: None)


# These draw random numbers or train models of their own.
NEED_NO_RUN = ("scaling", "recurrent")


def inspect(run: LoadedRun | None, name: str, *texts: str | None, evolution: bool = False, **settings: Any) -> Any:
    """The record of a picture, which a notebook shows as the picture.

    Args:
        run: The run; may be None for the pictures that need none.
        name: The picture's name, as after `tfcli inspect`.
        texts: What the command takes after the run: a text, two for "patch", tokens.
        evolution: Whether to measure at every checkpoint that the run keeps.
        settings: What the picture's function takes, in the forms of the command's options.

    Raises:
        UsageError: There is no such picture, or it takes other settings; and what its function raises.
    """
    picture = PICTURES.get(name)
    if picture is None:
        raise UsageError(f"There is no picture {name!r}", f"choose one of {', '.join(PICTURES)}")
    if evolution and not picture.follows_checkpoints:
        evolving = [name for name, one in PICTURES.items() if one.follows_checkpoints]
        problem = f"The picture {name!r} cannot be drawn over several checkpoints"
        raise UsageError(problem, f"choose one of {', '.join(evolving)}")
    function = _function(name, picture, settings)
    settings = _in_the_functions_forms(name, settings)
    if run is not None and _needs_material(name, texts, settings):
        sources = settings.pop("on", ())
        settings["material"] = settings.get("material") or _material(run, sources)
    _require_arguments(name, function, run, texts, settings)
    import_module("tfcli.inspection.evolution.view" if evolution else f"tfcli.{picture.view}")  # notebooks draw by it
    if evolution:
        from tfcli.inspection.evolution.compute import evolution as over_checkpoints

        assert run is not None  # no picture that needs no run follows checkpoints
        return over_checkpoints(run, function, *texts, **settings)
    record = function(run, *texts, **settings)
    return Shown(record) if isinstance(record, list) else record


def _function(name: str, picture: Picture, settings: dict[str, Any]) -> Callable[..., Any]:
    """The function of a picture; takes the `method` of an attribution out of the settings."""
    if name == "attribution":
        method = settings.pop("method", "direct")
        if method != "direct":
            from tfcli.inspection.attribution.inputs import input_attribution

            if method != "all":
                settings["methods"] = (method,)
            return input_attribution
    module, _, function = picture.function.partition(":")
    if not function:
        return ADAPTERS[picture.function]
    found: Callable[..., Any] = getattr(import_module(f"tfcli.inspection.{module}"), function)
    return found


def _in_the_functions_forms(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with places and sources as the functions take them: (1, 0) for "1.0", and a tuple of sources."""
    changed = dict(settings)
    for option in ("path", "head", "neuron"):
        is_read_later = name in ("attention", "heads")
        if not is_read_later and isinstance(changed.get(option), str | int | float):
            changed[option] = _place(option, changed[option])
    if isinstance(changed.get("on"), str):
        changed["on"] = (changed["on"],)
    if changed.get("on"):
        addresses.forget()
        changed["on"] = tuple(addresses.typed(source) for source in changed["on"])
    return changed


def _place(option: str, place: str | int | float) -> tuple[int, int]:
    """The layer and the number that "1.0" names; refuses a number, which cannot tell 1.1 from 1.10."""
    if not isinstance(place, str):
        raise UsageError(f"{option} = {place} is a number", f'write a text of layer and number: {option} = "1.0"')
    return parse_place(place, option, "neuron" if option == "neuron" else "head")


def _needs_material(name: str, texts: Sequence[str | None], settings: Mapping[str, Any]) -> bool:
    """Whether a picture measures on a sample of texts."""
    if name == "ablate":
        return not any(texts) or settings.get("replaced", "zero") != "zero"
    return name == "steer" or bool(settings.get("neuron"))


def _require_arguments(
    name: str,
    function: Callable[..., Any],
    run: LoadedRun | None,
    texts: Sequence[str | None],
    settings: Mapping[str, Any],
) -> None:
    """Refuse settings that the function does not have, and values that are none of a setting's."""
    try:
        given = signature(function).bind(run, *texts, **settings).arguments
    except TypeError as error:
        takes = [parameter for parameter in list(signature(function).parameters)[1:] if parameter != "material"]
        problem = f"The picture {name!r} does not take these settings: {error}"
        raise UsageError(problem, f"it takes {', '.join(takes) or 'none'}") from error
    for parameter, kind in get_type_hints(function).items():
        choices: list[Any] = []
        for part in (kind, *get_args(kind)):
            if get_origin(part) is Literal:
                choices += get_args(part)
        value = given.get(parameter)
        values = value if isinstance(value, list | tuple) else [value]
        wrong = [one for one in values if one is not None and one not in choices]
        if choices and wrong:
            raise UsageError(f"{parameter} is {wrong[0]!r}", f"choose one of {', '.join(map(str, choices))}")


def _material(run: LoadedRun, on: Sequence[str]) -> Any:
    """The sample of texts that several pictures measure on: of sources, else of the run's own validation text."""
    from tfcli.console.terminal import Terminal
    from tfcli.inspection.heads.command import sample

    return sample(Terminal(quiet=True), run, tuple(on))


ADAPTERS: Mapping[str, Callable[..., Any]] = {
    "attention": attention,
    "positions": positions,
    "training": training,
    "cost": cost,
    "neighbours": neighbours,
    "heads": heads,
    "equivariance": equivariance,
    "model": model,
    "scaling": scaling,
    "gradients": gradients,
    "recurrent": recurrent,
}
