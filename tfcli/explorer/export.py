"""What is looked at as a plain command, and as the file that this command writes."""

import shlex
from pathlib import Path

from rich.cells import cell_len

from tfcli.draw.svg import captioned
from tfcli.errors import TfcliError, UsageError
from tfcli.explorer.scene import Scene
from tfcli.inspection.attention.view import AttentionForms
from tfcli.outputs import require_output, with_tilde, write_output

ENDINGS = ".svg .html .csv or .json"


def export(scene: Scene, name: str) -> Path:
    """Write what is looked at; the end of the name says in which form. Returns where it is.

    Raises:
        UsageError: the name has another end, or is that of a folder. TfcliError: it cannot be written.
    """
    try:
        path = Path(name).expanduser()
        if path.is_dir():
            raise UsageError(f"{name!r} is a folder", "name a file in it")
        require_output(path, "The file")
        text = AttentionForms(scene.reading.found(scene.view)).text(path.suffix.lower())
        if text is None:
            raise UsageError(f"The name {name!r} does not say what to write", f"let it end in {ENDINGS}")
        if path.suffix.lower() in (".svg", ".html"):
            text = captioned(text, with_tilde(plain_command(scene)), with_tilde(scene.run), scene.reading.text)
        write_output(path, "The file", text)
    except (OSError, RuntimeError) as error:  # the latter of a "~name" that is nobody's
        raise TfcliError(f"Cannot write {name!r}: {error}", "choose another name") from error
    return path


def plain_words(scene: Scene) -> list[str]:
    """The words of a command that shows the same head of the same text, quoted for the shell."""
    place, reading = scene.view.place, scene.reading
    options = scene.view.choice.options()
    if reading.target is not None:
        options += ["--target", reading.target]
    if len(reading.records) > 1:
        options += ["--kind", place.kind]
    if scene.checkpoint != "best":
        options += ["--checkpoint", scene.checkpoint]
    what = [scene.run, reading.text]
    # After "--" a word is never an option.
    words = [*options, "--", *what] if any(word.startswith("-") for word in what) else [*what, *options]
    command = ["tfcli", "inspect", "attention", *map(shlex.quote, words)]
    # "-" stands for stdin, so that is where a text of one dash comes from.
    return ["printf", "-", "|", *command] if reading.text == "-" else command


def plain_command(scene: Scene) -> str:
    """The command as one line."""
    return " ".join(plain_words(scene))


def folded(words: list[str], width: int) -> list[str]:
    r"""A command on lines that the shell takes as one: all but the last end on a \. Options keep their values.

    >>> folded(["tfcli", "explore", "run", "--head", "2"], 16)
    ['tfcli explore \\', '  run --head 2']
    """
    parts: list[str] = []  # an option is one with its value
    for word in words:
        option = parts[-1] if parts else ""
        if option.startswith("--") and option != "--" and " " not in option and not word.startswith("--"):
            parts[-1] = f"{option} {word}"
        else:
            parts.append(word)
    lines = parts[:1]
    for part in parts[1:]:
        if cell_len(lines[-1]) + 1 + cell_len(part) <= width - 2:
            lines[-1] += f" {part}"
        else:
            lines[-1] += " \\"
            lines.append(f"  {part}")
    return lines
