"""The plain command that prints what is looked at."""

import shlex

from rich.cells import cell_len

from tfcli.explorer.scene import Scene
from tfcli.explorer.state import View


def plain_words(scene: Scene) -> list[str]:
    """The words of a command that shows the same head of the same text, quoted for the shell."""
    place, reading = scene.view.place, scene.reading
    options = _heads(scene.view)
    if reading.target is not None:
        options += ["--target", reading.target]
    if len(reading.records) > 1:
        options += ["--kind", place.kind]
    if scene.checkpoint != "best":
        options += ["--checkpoint", scene.checkpoint]
    words = [scene.run, reading.text, *options]
    if any(word.startswith("-") for word in words[:2]):  # after "--" a word is never an option
        words = [*options, "--", scene.run, reading.text]
    command = ["tfcli", "inspect", "attention", *map(shlex.quote, words)]
    # "-" stands for stdin, so that is where a text of one dash comes from.
    return ["printf", "-", "|", *command] if reading.text == "-" else command


def _heads(view: View) -> list[str]:
    layer = ["--layer", str(view.place.layer)]
    if view.combined != "head":
        return [*layer, "--rollout"] if view.combined == "rollout" else [*layer, "--average", "layer"]
    head = [*layer, "--head", str(view.place.head)]
    if view.against is not None:
        return [*head, "--against-head", f"{view.against.layer}.{view.against.head}"]
    return [*head, "--scores"] if view.quantity == "scores" else head


def plain_command(scene: Scene) -> str:
    """The command as one line."""
    return " ".join(plain_words(scene))


def folded(words: list[str], width: int) -> list[str]:
    r"""A command on lines that the shell takes as one: all but the last end on a \. Options keep their values.

    >>> folded(["tfcli", "explore", "run", "--head", "2"], 16)
    ['tfcli explore \\', '  run --head 2']
    """
    lines: list[str] = []
    for part in _parts(words):
        if not lines:
            lines.append(part)
        elif cell_len(lines[-1]) + 1 + cell_len(part) <= width - 2:
            lines[-1] += f" {part}"
        else:
            lines[-1] += " \\"
            lines.append(f"  {part}")
    return lines


def _parts(words: list[str]) -> list[str]:
    """The words, an option in one with its value."""
    parts: list[str] = []
    for word in words:
        option = parts[-1] if parts else ""
        if option.startswith("--") and option != "--" and " " not in option and not word.startswith("--"):
            parts[-1] = f"{option} {word}"
        else:
            parts.append(word)
    return parts
