"""Model card, the ``README.md`` of a run: what it is, and the commands for whoever stands in its folder."""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from tfcli.errors import shortened
from tfcli.interop import Exportable
from tfcli.recipe.model import ModelSection
from tfcli.recipe.recipe import Recipe
from tfcli.records.evaluation import loss_unit
from tfcli.records.runs import TrainingFinished

_USE = {  # of an objective, else of an architecture
    "decoder": ('tfcli generate . "One day"', 'tfcli inspect attention . "One day"'),
    "encoder": ('tfcli generate . "One {mask} day"', 'tfcli inspect attention . "One {mask} day"'),
    "encoder-decoder": ('tfcli generate . "SENTENCE"', 'tfcli inspect attention . "SENTENCE" --kind cross'),
    "span-corruption": ('tfcli generate . "One <extra_id_0> day"', 'tfcli inspect tokens . "One day"'),
    "infilling": ('tfcli generate . "One {mask} day"', 'tfcli inspect tokens . "One day"'),
    **dict.fromkeys(("classify", "tag"), ('tfcli generate . "One day"', 'tfcli inspect attention . "One day"')),
    "span": ('tfcli generate . "One day" --question "When?"', 'tfcli inspect attention . "One day"'),
}
_ARTICLE = {"decoder": "A", "encoder": "An", "encoder-decoder": "An"}
_END = {
    "done": "Trained to the end",
    "early": "Stopped early, because no evaluation was better",
    "interrupted": "Interrupted; `tfcli train --resume .` goes on",
}


def run_card(recipe: Recipe, finished: TrainingFinished, exportable: Exportable, mask: str = "<mask>") -> str:
    """The page of a trained run, as Markdown; `mask` is the mask token's name."""
    model = recipe.model
    best = "not evaluated yet"
    if finished.best_loss is not None:
        best = f"{finished.best_loss:.4f} {loss_unit(recipe.objective)}, at step {finished.best_step}"
    facts = {
        "text": ", ".join(map(_name, recipe.data.names)),
        "training": f"{finished.step} steps, {finished.tokens} tokens",
        "best validation loss": best,
        "exports as": str(exportable),
    }
    if recipe.train.task is not None:
        facts["task"] = f"{recipe.train.task}: {shortened(', '.join(recipe.model.labels or ()))}"
    about = recipe.description or f"{_ARTICLE[model.architecture]} {model.architecture} trained with tfcli."
    again = "`recipe.toml` is the whole recipe: `tfcli run recipe.toml --out ../again` repeats it."
    after = f"{_END[finished.reason]}. {again}"
    use = [line.replace("{mask}", mask) for line in _USE.get(recipe.objective, _USE[model.architecture])]
    return _page(recipe.name, about, {**_shape(model), **facts}, after, (*use, "tfcli evaluate ."))


def imported_card(recipe: Recipe, left_over: Sequence[str], text: str, mask: str | None) -> str:
    """The page of an imported run, as Markdown, with a `text` it has room for; `mask`: the mask token's name."""
    model, origin = recipe.model, recipe.origin
    facts = {"imported from": _name(origin.source), "family": origin.layout}
    if left_over:
        facts["left over"] = ", ".join(left_over)
    if origin.ignored:
        facts["read without"] = ", ".join(origin.ignored)
    is_encoder = model.architecture == "encoder"
    has_head = model.head != "none"
    fills_masks = is_encoder and mask is not None and has_head
    shown = shlex.quote(f"{text} {mask}" if fills_masks else text)
    use = []
    if fills_masks or (has_head and not is_encoder):
        use.append(f"tfcli generate . {shown}")
    use.append(f"tfcli inspect attention . {shown}" + " --kind cross" * (model.architecture == "encoder-decoder"))
    if not is_encoder or mask is not None:
        source = "builtin:pt-en" if model.architecture == "encoder-decoder" else "builtin:stories"
        new_head = "transform" if is_encoder else "linear"
        setting = "" if has_head else f" --set model.head={new_head}"
        use.append(f"tfcli train --init . --data {source}{setting} --out ../trained-on")
    after = "`recipe.toml` holds the model; its training happened elsewhere."
    about = f"{_ARTICLE[model.architecture]} {model.architecture} imported with tfcli."
    return _page(recipe.name, about, {**_shape(model), **facts}, after, use)


def _shape(model: ModelSection) -> dict[str, str]:
    return {
        "architecture": f"{model.architecture}: {model.num_layers} layers × {model.d_model}, {model.num_heads} heads",
        "context": f"{model.max_seq_len} tokens",
        "vocabulary": f"{model.vocab_size} ids",
    }


def _page(title: str, about: str, facts: Mapping[str, str], after: str, commands: Sequence[str]) -> str:
    table = "\n".join(f"| {name} | {_plain(value)} |" for name, value in facts.items())
    listed = "\n".join(commands)
    return f"""# {_plain(title)}

{_plain(about)}

| | |
|---|---|
{table}

{after}

In this folder:

```sh
{listed}
```
"""


def _name(source: str) -> str:
    """What a source is called, without the folders of whoever had it: a run is given away."""
    if source.startswith(("builtin:", "hf:")):
        return source
    return ",".join(PurePath(part).name for part in source.split(","))


def _plain(text: str) -> str:
    """One line in which nothing is Markdown or HTML."""
    return re.sub(r"([\\`*|<>&\[\]])", r"\\\1", " ".join(text.split()))
