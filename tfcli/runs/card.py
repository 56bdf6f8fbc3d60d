"""``README.md`` of a run: what it is and how to use it, for whoever finds the folder.

The commands are those of someone who stands inside the folder, so that they stay right wherever it is moved.
"""

from tfcli.recipe.recipe import Recipe
from tfcli.records.training import TrainingFinished

_USE = {
    "decoder": ('tfcli generate . "One day"', 'tfcli inspect attention . "One day"'),
    "encoder": ('tfcli generate . "One <mask> day"', 'tfcli inspect attention . "One <mask> day"'),
    "encoder-decoder": ('tfcli generate . "SENTENCE"', 'tfcli inspect attention . "SENTENCE" --kind cross'),
}
_END = {
    "done": "Trained to the end",
    "early": "Stopped early, because no evaluation was better",
    "interrupted": "Interrupted; `tfcli train --resume .` goes on",
}


def run_card(recipe: Recipe, finished: TrainingFinished) -> str:
    """The page as Markdown."""
    model, source = recipe.model, recipe.data.source
    names = source if isinstance(source, str) else ", ".join(source or ())
    best = "not evaluated yet"
    if finished.best_loss is not None:
        best = f"{finished.best_loss:.4f} nats a token, at step {finished.best_step}"
    facts = {
        "architecture": f"{model.architecture}: {model.num_layers} layers × {model.d_model}, {model.num_heads} heads",
        "context": f"{model.max_seq_len} tokens",
        "vocabulary": f"{model.vocab_size} ids",
        "text": names,
        "training": f"{finished.step} steps, {finished.tokens} tokens",
        "best validation loss": best,
    }
    table = "\n".join(f"| {name} | {_cell(value)} |" for name, value in facts.items())
    commands = "\n".join((*_USE[model.architecture], "tfcli evaluate ."))
    return f"""# {recipe.name}

{recipe.description or f"A {model.architecture} trained with tfcli."}

| | |
|---|---|
{table}

{_END[finished.reason]}. `recipe.toml` is the whole recipe: `tfcli run recipe.toml --out ../again` repeats it.

In this folder:

```sh
{commands}
```
"""


def _cell(text: str) -> str:
    """A cell of a Markdown table: one line, in which | divides nothing."""
    return " ".join(text.split()).replace("|", "\\|")
