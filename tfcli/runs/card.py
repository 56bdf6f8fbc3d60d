"""``README.md`` of a run: what it is and how to use it, for whoever finds the folder."""

from tfcli.recipe.recipe import Recipe
from tfcli.records.training import TrainingFinished

_USE = {
    "decoder": ('tfcli generate {run} "One day"', 'tfcli inspect attention {run} "One day"'),
    "encoder": ('tfcli generate {run} "One <mask> day"', 'tfcli inspect attention {run} "One <mask> day"'),
    "encoder-decoder": ('tfcli generate {run} "SENTENCE"', 'tfcli inspect attention {run} "SENTENCE" --kind cross'),
}
_END = {
    "done": "Trained to the end",
    "early": "Stopped early, because no evaluation was better",
    "interrupted": "Interrupted; `tfcli train --resume {run}` goes on",
}


def run_card(recipe: Recipe, finished: TrainingFinished) -> str:
    """The page as Markdown."""
    model, run = recipe.model, finished.run
    source = recipe.data.source
    names = source if isinstance(source, str) else ", ".join(source or ())
    best = "not evaluated yet"
    if finished.best_loss is not None:
        best = f"{finished.best_loss:.4f} nats a token, at step {finished.best_step}"
    commands = "\n".join(line.format(run=run) for line in _USE[model.architecture])
    return f"""# {recipe.name}

{recipe.description or f"A {model.architecture} trained with tfcli."}

| | |
|---|---|
| architecture | {model.architecture}: {model.num_layers} layers × {model.d_model}, {model.num_heads} heads |
| context | {model.max_seq_len} tokens |
| vocabulary | {model.vocab_size} ids |
| text | {names} |
| training | {finished.step} steps, {finished.tokens} tokens |
| best validation loss | {best} |

{_END[finished.reason].format(run=run)}. `recipe.toml` is the whole recipe: `tfcli run {run}/recipe.toml` repeats it.

```sh
{commands}
tfcli evaluate {run}
```
"""
