"""Recipe options, each short for a key; and the recipe that the typed options make. Precedence: flag and --set (which
may not contradict each other), recipe, size, preset, default."""

import inspect
import math
import re
import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from tfcli.draw.numbers import plural
from tfcli.errors import Remark, UsageError, shortened

if TYPE_CHECKING:
    from tfcli.console.terminal import Terminal
    from tfcli.recipe.evaluate import BleuTokenize
    from tfcli.recipe.loading import Settings
    from tfcli.recipe.recipe import Recipe

DATA, MODEL, TRAINING, OUTPUT = "Data", "Model", "Training", "Output"  # the panels of help

_OPTIONS: dict[str, tuple[tuple[str, ...], Any, dict[str, Any]]] = {}
"""By parameter: the keys that it is short for, its type, and what help shows."""


def _option(name: str, keys: str, kind: Any, panel: str | None, help: str, default: Any = True, **more: Any) -> None:
    shown = {"rich_help_panel": panel, "help": help, "show_default": default, **more}
    _OPTIONS[name] = tuple(keys.split()), kind, shown


Devices = Literal["auto", "cpu", "cuda", "mps"]
SEED_USUAL = "the recipe's, else 0"
SEED_HELP = "Seed of weights, order, masks, dropout and samples; the built-in text has data.seed."
DEVICE_HELP, THREADS_HELP = "Where to compute; auto: CUDA, else CPU.", "CPU threads; 0: as many as are fastest."
_SOURCE = (
    "Text files, globs, pairs (a.de,a.en or a table), -, builtin:NAME or hf:owner/name\\[:config]\\[@split]; or a "
    "folder made by `tfcli prepare`."
)
_BUILT_IN = "builtin:stories, or builtin:pt-en for pairs"
_SET = "Set any recipe key, such as model.norm=layernorm; repeatable. `tfcli recipes keys WORD` finds keys."
_VOCABULARY = "The most ids that a new tokenizer may have: tokenizer.vocab_size."
_ARCHITECTURES = Literal["decoder", "encoder", "encoder-decoder"]
_PRECISIONS = Literal["auto", "float32", "bfloat16"]
_ARCH = "Architecture: decoder, encoder or encoder-decoder."
_BY_TEXT = "the recipe's; else encoder-decoder for pairs, decoder for text"
_EPOCHS = "How long to train, in passes over the training part: train.epochs; 0.5 is half a pass."
_LR = "Peak learning rate of AdamW: train.learning_rate. Muon has its own, train.muon_learning_rate."
_PRECISION = "Precision of matrix products: train.precision."

_option("sources", "data.source", list[str], panel=None, help=_SOURCE, default=_BUILT_IN, metavar="SOURCE")
_option("recipe", "", str, None, "A TOML file or a name from `tfcli recipes list`.", metavar="FILE|NAME")
_option("assignments", "", list[str], None, _SET, metavar="KEY=VALUE")
_option("data", "data.source", str, DATA, "The same as SOURCE.", metavar="SOURCE|DIR")
_option("weights", "", str, DATA, "Shares of the training tokens, in the order of the sources.", metavar="N,N")
_option("vocab_size", "tokenizer.vocab_size", int, panel=DATA, help=_VOCABULARY, default="2048", metavar="N", min=6)
_option("arch", "model.architecture", _ARCHITECTURES, panel=MODEL, help=_ARCH, default=_BY_TEXT, metavar="ARCH")
_option("preset", "", str, MODEL, "A named shape: gpt2, bert, t5, modern …", metavar="NAME")
_option("size", "", Literal["tiny", "mini", "small", "base"], panel=MODEL, help="Scale of the model.", default="mini")
_option("layers", "model.num_layers", int, MODEL, "Layers of each stack: model.num_layers.", metavar="N", min=1)
_option("heads", "model.num_heads", int, MODEL, "Attention heads of a layer: model.num_heads.", metavar="N", min=1)
_option("d_model", "model.d_model", int, MODEL, "Size of a token's vector: model.d_model.", metavar="N", min=1)
_option("context", "model.max_seq_len", int, MODEL, "Most tokens of a text: model.max_seq_len.", metavar="N", min=2)
_option("dropout", "model.dropout", float, MODEL, "Share dropped in training: model.dropout.", metavar="SHARE", min=0)
_TASKS = Literal["classify", "tag", "span"]
_TASK = "A head for labelled texts, which SOURCE then holds: train.task."
_option("task", "train.task", _TASKS, panel=TRAINING, help=_TASK, default="predict tokens", metavar="TASK")
_option("steps", "train.steps", int, TRAINING, "How long to train, in updates: train.steps.", metavar="N", min=1)
_option("epochs", "train.epochs", float, TRAINING, _EPOCHS, metavar="N")
_option("batch_size", "train.batch_size", int, TRAINING, "Texts of a batch: train.batch_size.", metavar="N", min=1)
_option("lr", "train.learning_rate", float, TRAINING, _LR, metavar="RATE")
_option("precision", "train.precision", _PRECISIONS, panel=TRAINING, help=_PRECISION, default="auto")
_option("seed", "train.seed generate.seed", int, TRAINING, help=SEED_HELP, default=SEED_USUAL, metavar="N", min=0)
_option("device", "train.device", Devices, panel=TRAINING, help=DEVICE_HELP, default="auto")
_option("threads", "train.threads", int, panel=TRAINING, help=THREADS_HELP, default="0", metavar="N", min=0, max=1024)

SHAPE = ("recipe", "assignments", "arch", "preset", "size")
SIZES = ("layers", "heads", "d_model", "context", "dropout")
LENGTH, PACE = ("steps", "epochs"), ("batch_size", "lr", "precision")
MACHINE = ("seed", "device", "threads")
EVERY = (*SHAPE, *SIZES, *LENGTH, *PACE, *MACHINE)


def option_parameters(names: Sequence[str]) -> list[inspect.Parameter]:
    """What stands for these options in a command's signature."""
    found = []
    for name in names:
        _, kind, shown = _OPTIONS[name]
        info = typer.Argument(**shown) if name == "sources" else typer.Option(flag_of(name), **shown)
        annotation = Annotated[kind | None, info]  # type: ignore[valid-type]
        found.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation))
    return found


class Asked:
    """Recipe options as they were typed. A command takes those that it names: ``Annotated[Asked, SHAPE, ("lr",)]``.
    `given` has the options by parameter, `settings` what they say of a recipe, `typed` how each key was typed."""

    def __init__(self, **given: Any) -> None:
        from tfcli.recipe.loading import typed_settings

        self.given = given = {name: value for name, value in given.items() if value not in (None, [])}
        if {"sources", "data"} <= given.keys():
            both = f"{shlex.join(self.words('sources'))} and {shlex.join(self.words('data'))}"
            raise UsageError(f"{both} both name the text", "leave one of them out")
        options = [
            (shlex.join(self.words(name)), key, value[0] if name == "sources" and len(value) == 1 else value)
            for name, value in given.items()
            for key in _OPTIONS[name][0]
            if name != "sources" or "weights" not in given
        ]
        if "weights" in given:
            words = shlex.join(self.words("weights"))
            options.append((words, "data.sources", weighted_sources(given.get("sources", []), given["weights"])))
        self.settings, self.typed = typed_settings(given.get("assignments", ()), options)

    def words(self, *names: str) -> list[str]:
        """These options, or all of them, as words of a command line."""
        found = []
        for name in names or self.given:
            given = self.given.get(name, ())
            for value in given if isinstance(given, list) else [given]:
                found += [] if name == "sources" else [flag_of(name)]
                found.append(str(value).removesuffix(".0") if isinstance(value, float) else str(value))
        return found


def weighted_sources(sources: Sequence[str], weights: str) -> list[dict[str, Any]]:
    """`data.sources` of the sources and --weights."""
    try:
        numbers = [float(one) for one in weights.split(",")]
    except ValueError as error:
        raise UsageError(f"--weights {shortened(weights)!r} is no list of numbers", "write --weights 3,1") from error
    if len(numbers) != len(sources):
        counts = f"{plural(len(numbers), 'weight')} for {plural(len(sources), 'source')}"
        problem = f"--weights {shortened(weights)} has {counts}"
        raise UsageError(problem, "give one number for each source, joined by commas")
    for number in numbers:
        if not 0 < number < math.inf:
            problem = f"--weights {shortened(weights)} has {number:g}, which is no share"
            raise UsageError(problem, "give numbers above 0")
    return [{"source": name, "weight": one} for name, one in zip(sources, numbers, strict=True)]


READING_HELP = "Set how the text is read, such as data.columns or data.header."
_READING_KEYS = ("columns", "header", "separator", "on_bad_record")


def reading_settings(assignments: Sequence[str], *other_keys: str) -> dict[str, Any]:
    """What --set says of how a text is read, as arguments of `open_source`.

    Args:
        assignments: What was typed, "data.columns=0,1".
        other_keys: Further keys of the command, which the refusal of a wrong one names.

    Raises:
        UsageError: A key does not say how a text is read.
    """
    from tfcli.recipe.loading import build_recipe, parse_assignments

    settings = parse_assignments(assignments)
    data = settings.get("data", {})
    others = [name for name in settings if name != "data"]
    others += [f"data.{key}" for key in data if key not in _READING_KEYS]
    if others:
        problem = f"--set {others[0]} has no effect here"
        keys = [*other_keys, *(f"data.{key}" for key in _READING_KEYS)]
        raise UsageError(problem, f"this command takes {', '.join(keys)}")
    read = build_recipe(settings).data.reading
    return {key: value for key, value in read.items() if key in data}


def evaluation_settings(assignments: Sequence[str]) -> "tuple[dict[str, Any], BleuTokenize | None]":
    """What --set of `tfcli evaluate` says: how a text is read, and the tokenization of BLEU."""
    from tfcli.recipe.loading import build_recipe, parse_assignments

    of_scores = [one for one in assignments if one.lstrip().startswith("evaluate.")]
    read = reading_settings([one for one in assignments if one not in of_scores], "evaluate.bleu_tokenize")
    settings = parse_assignments(of_scores)
    section = build_recipe(settings).evaluate
    return read, section.bleu_tokenize if settings else None


def usual(default: str, about: str, **limits: Any) -> Any:
    """An option that is None where it is not given, with what help shows as its default."""
    return typer.Option(help=about, show_default=default, **limits)


def flag_of(name: str) -> str:
    """The option of a parameter."""
    return "--set" if name == "assignments" else f"--{name.replace('_', '-')}"


def require_device(name: str) -> None:
    """Refuse a device that this machine does not have, before any work.

    PyTorch is loaded only for a device that may be missing.
    """
    if name in get_args(Devices) and name not in ("auto", "cpu"):
        from tfcli.models.device import choose_device

        choose_device(name)


def layers_of(asked: Asked, recipe: str | None = None, init: Path | None = None) -> "list[Settings]":
    """What was typed, and what that names, as layers of settings, of which the last one wins. The run of `init` says
    what nothing else does, and so does a source of pairs for the architecture."""
    from tfcli.addresses import typed
    from tfcli.models import presets
    from tfcli.recipe import loading, train
    from tfcli.runs.config import read_config
    from tfcli.runs.directory import existing_run

    _require_text(asked.given.get("sources", ()))
    require_sources(_said([asked.settings], "data", "source"))
    preset, size, recipe = asked.given.get("preset"), asked.given.get("size"), recipe or asked.given.get("recipe")
    layers: list[Settings] = [
        {} if init is None else {"model": asdict(read_config(existing_run(init).config).model) | {"labels": None}},
        presets.preset(preset) if preset else {},
        presets.size(size) if size else {},
        {} if recipe is None else loading.with_sources(loading.read_recipe(recipe), typed),
        {"model": {"num_decoder_layers": None}} if "layers" in asked.given else {},  # both stacks
        asked.settings,
    ]
    said = partial(_said, layers, "train")
    task, objective = said("task"), said("objective")
    sources = [one.get("source") for one in _said(layers, "data", "sources") or () if isinstance(one, Mapping)]
    source = _said(layers, "data", "source") or [one for one in sources if isinstance(one, str)]
    if not _said(layers, "model", "architecture"):
        architecture = ""
        if objective in get_args(train.Denoising) and not task:
            architecture = "encoder-decoder"
        elif task or said("whole_words"):
            architecture = "encoder"
        elif objective or said("completion_only"):
            architecture = "decoder"
        elif source and _is_pairs(source, _said(layers, "data", "columns"), _said(layers, "data", "header")):
            architecture = "encoder-decoder"
            shown = shortened(source if isinstance(source, str) else " ".join(source))
            warnings.warn(f"{shown} holds pairs, so an encoder-decoder is trained.", Remark, stacklevel=2)
        layers.insert(0, {"model": {"architecture": architecture} if architecture else {}})
    if task:  # a few passes, and smaller steps from weights that know something
        rate = {} if init is None else {"learning_rate": 3e-4}
        layers.insert(0, {"train": rate | ({} if said("steps") or said("epochs") else {"epochs": 3.0})})
    if preset is None and init is None:
        layers.insert(0, presets.usual_preset(*layers))
    return layers


def recipe_from(asked: Asked, recipe: str | None = None, init: Path | None = None) -> "Recipe":
    """What was typed as one checked recipe; a UsageError where an option, a recipe, a preset or a run is wrong."""
    from tfcli.recipe.loading import build_recipe

    layers = layers_of(asked, recipe, init)
    try:
        return build_recipe(*layers)
    except UsageError as error:
        problem = error.problem
        for key, typed in asked.typed.items():
            if typed.startswith("--") and not typed.startswith("--set"):
                problem = re.sub(rf"\b{re.escape(key)} = [^ ]+", typed.replace("\\", r"\\"), problem)
        raise UsageError(problem, error.remedy) from error


def _said(layers: "Sequence[Settings]", section: str, key: str) -> Any:
    """What the last of the layers that names a key says."""
    sections = (layer.get(section) for layer in reversed(layers))
    return next((one[key] for one in sections if isinstance(one, Mapping) and one.get(key) is not None), None)


def _require_text(names: Sequence[str]) -> None:
    """Refuse a source that is no text, but something else that is known."""
    from tfcli.corpora.open import is_there
    from tfcli.recipe.shipped import shipped_recipes
    from tfcli.runs.directory import is_run

    if len(names) > 1 and any(name[0] == "," or name[-1] == "," for name in names if name):
        problem = "A blank separates the names of two parallel files"
        raise UsageError(problem, f"write them as one: {shlex.quote(''.join(names))}")
    for name in names:
        path, quoted = Path(name), shlex.quote(name)
        if is_run(path):
            raise UsageError(f"{quoted} is a run, not a text", f"go on with it: tfcli train --resume {quoted}")
        if path.suffix == ".toml":
            raise UsageError(f"{quoted} is a recipe, not a text", f"train it: tfcli train --recipe {quoted}")
        if name in shipped_recipes() and not is_there(name):
            raise UsageError(f"{name} is a recipe, not a text", f"run it: tfcli run {name}")
        if name in get_args(_ARCHITECTURES) and not is_there(name):
            raise UsageError(f"{name} is an architecture, not a text", f"train one: tfcli train --arch {name}")


def require_sources(source: Any) -> None:
    """Refuse a source that is not there, or that is no text, before anything is loaded that takes long."""
    from tfcli.corpora.open import require_there
    from tfcli.data.shards import MANIFEST_NAME
    from tfcli.files import names_path

    for name in [source] if isinstance(source, str) else source or ():
        if names_path(name) and not (Path(name) / MANIFEST_NAME).is_file():
            require_there(name)


def _is_pairs(source: Any, columns: Any, header: Any) -> bool:
    from tfcli.corpora.open import looks_like_pairs
    from tfcli.data.shards import MANIFEST_NAME, read_manifest

    if isinstance(source, str) and (Path(source) / MANIFEST_NAME).is_file():
        return read_manifest(Path(source)).kind == "pairs"
    names = (source,) if isinstance(source, str) else source
    return looks_like_pairs(names, columns, "auto" if header is None else header)


def require_own_text(name: str | None, recipe: "Recipe") -> None:
    """Refuse a shipped recipe that needs a text of your own, where its file is not there."""
    from tfcli.recipe.loading import read_toml
    from tfcli.recipe.shipped import shipped_recipes

    shipped = shipped_recipes()
    written = read_toml(shipped[name]).get("data", {}) if name in shipped else {}
    for key in ("source", "validation"):
        file = written.get(key) or "builtin:"
        if file == getattr(recipe.data, key) and not file.startswith(("builtin:", "hf:")) and not Path(file).exists():
            problem = f"The recipe {name} needs your own text, and there is no file {file!r}"
            raise UsageError(problem, f"give it with `--set data.{key}=FILE`")


def with_vocabulary(terminal: "Terminal", recipe: "Recipe") -> "Recipe":
    """The recipe with a vocabulary size: that of its tokenizer, where the model names none."""
    from tfcli.tokenization.tokenizer import load_tokenizer

    if recipe.model.vocab_size is not None:
        return recipe
    if recipe.tokenizer.path is not None:
        ids = load_tokenizer(Path(recipe.tokenizer.path)).vocab_size
    else:
        ids = recipe.tokenizer.vocab_size
        terminal.note(f"The vocabulary is taken as tokenizer.vocab_size = {ids}; set another with model.vocab_size.")
    return replace(recipe, model=replace(recipe.model, vocab_size=ids))
