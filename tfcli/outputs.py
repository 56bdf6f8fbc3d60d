"""Output files that a user names: a picture, a table, a tokenizer. They never take the place of what was read, and
every one is named with its size when the command ends.

What a run or a prepared dataset consists of is known by its place, a source by having been read in the same command:
by whichever comes first, the option or the reading, the other is refused.
"""

import os
import shlex
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

from tfcli.addresses import forget, masked
from tfcli.errors import UsageError, shortened
from tfcli.files import cache_folder, names_path, replacing, require_writable

_FILES_OF_RUN = "recipe.toml config.json tokenizer.json model.safetensors metrics.jsonl data.json scores.json README.md"
_PICTURES = {".svg", ".html", ".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf"}
_asked: dict[Path, str] = {}
_read: set[Path] = set()
_named: set[str] = set()
command_line: list[str] = []  # the words behind `tfcli`
written: dict[Path, int] = {}  # the files that this command has written, each with its bytes
about: dict[str, str] = {}  # what pictures say of themselves: the `command`, its `run`, and the `text` that it reads


def begin_command(words: Iterable[str] = ()) -> None:
    """Note what was typed behind `tfcli`; forget what an earlier command of this process has read and was to write."""
    command_line[:] = words
    for known in (_asked, _read, _named, written, about):
        known.clear()
    forget()
    about["command"] = masked(with_tilde(shlex.join(["tfcli", *command_line])))


def describe(run: str, text: str) -> None:
    """Note whose picture a command draws, and of which text."""
    about.update(run=with_tilde(run), text=text)


def reading(path: Path) -> None:
    """Note that a file is a source of this command; refuse it where it is to be written, too."""
    source = _place(path)
    _read.add(source)
    for output, option in _asked.items():
        _refuse_source(output, option, [source], [])


def reading_from(name: str) -> None:
    """Note the name of a source that a run was trained on, whether or not it is read again. The disk is not asked."""
    if "\0" not in name and names_path(name):
        names = {os.path.abspath(os.path.expanduser(part)) for part in (name, *name.split(","))}  # noqa: PTH100, PTH111
        _named.update(names)
        for output, option in _asked.items():
            _refuse_source(output, option, [], names)


def require_output(path: Path, option: str) -> None:
    """Refuse, before any work, a path where no file can be written, or none should be: no plain file, one in a folder
    that is not there, a picture with the ending of another kind, the file of another option, or what a run, a prepared
    dataset or this command needs."""
    form, named = f".{option[2:]}", f"{option} {str(path)!r}"
    what, allowed = form[1:].upper(), {form}
    if option == "--answers":
        form, what, allowed = ".svg", "text", {".svg", ".html"}
    if form in _PICTURES and path.suffix.lower() in _PICTURES - allowed:
        problem = f"{option} {shortened(str(path))!r} would be {what} under the name of another kind"
        raise UsageError(problem, f"name it {path.with_suffix(form).name}, which a browser shows, and prints as PDF")
    try:
        if path.is_dir():
            raise UsageError(f"{named} is a folder", "name a file in it")
        if path.exists() and not path.is_file():
            raise UsageError(f"{named} is no plain file, and would be replaced by one", "name another one")
        require_writable(path.parent)
    except (OSError, ValueError) as error:  # the name is too long, leads in a circle, or holds a zero byte
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{option} {shortened(str(path))!r}: {reason}", "name another file") from error
    for place in (_place(path), Path(os.path.realpath(path))):
        if owner := _owner(place):
            raise UsageError(f"{named} is a file of {owner}", "name another file")
    for other, other_option in _asked.items():
        if other_option != option and _place(other) == _place(path):
            raise UsageError(f"{other_option} and {option} are both {str(path)!r}", "name two files")
    _refuse_source(path, option, _read, _named)
    if not path.parent.is_dir():
        folder = shlex.quote(str(path.parent))
        raise UsageError(f"{named}: there is no folder {str(path.parent)!r}", f"make it: `mkdir -p {folder}`")
    _asked[path] = option


@contextmanager
def writing(path: Path, option: str) -> Iterator[Path]:
    """Yield a temporary file that becomes the user's `path`; raises what `require_output` and `replacing` raise."""
    require_output(path, option)
    with replacing(path) as temporary:
        yield temporary
    written[path] = path.stat().st_size


def write_output(path: Path, option: str, text: str) -> None:
    """Write `text` as UTF-8 to the user's `path`, whole or not at all."""
    with writing(path, option) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def with_tilde(command: str) -> str:
    """The shell's ~ again in the place of the home folder, also where the rest of a path is quoted."""
    home = os.path.expanduser("~")  # noqa: PTH111 (which says nothing where there is none)
    return f" {command}".replace(f" {home}/", " ~/").replace(f" '{home}/", " ~/'")[1:]


def _place(path: Path) -> Path:
    """The name that would be replaced: a link itself, but not those that lead to it."""
    path = Path(os.path.abspath(path))  # noqa: PTH100 (resolve would follow the last link, too)
    return Path(os.path.realpath(path.parent)) / path.name


def _owner(place: Path) -> str | None:
    """What a file belongs to that is nobody's to replace."""
    folder = place.parent
    if _is_run(folder) and place.name in _FILES_OF_RUN.split():
        return f"the run {folder}"
    for above in place.parents:
        if above.name == "checkpoints" and _is_run(above.parent):
            return f"the run {above.parent}"
    is_part = place.suffix == ".npy" or place.name in ("manifest.json", "tokenizer.json")
    if is_part and (folder / "manifest.json").is_file() and any(folder.glob("train-*.npy")):
        return f"the prepared dataset {folder}"
    cache = Path(os.path.realpath(cache_folder()))
    kept = any(place.is_relative_to(cache / name) for name in ("datasets", "tokenizers"))
    return f"the cache {cache}" if kept else None


def _is_run(folder: Path) -> bool:
    return (folder / "recipe.toml").is_file() and (folder / "config.json").is_file()


def _refuse_source(path: Path, option: str, files: Collection[Path], names: Collection[str]) -> None:
    place = _place(path)
    is_read = place in files or any(place.exists() and one.exists() and place.samefile(one) for one in files)
    if is_read or (os.path.lexists(place) and any(_is_named(str(place), name) for name in names)):
        raise UsageError(f"{option} {str(path)!r} is a source that this command reads", "name another file")


def _is_named(place: str, pattern: str) -> bool:
    """Whether a path is what a name or a glob names. `*` stays within a folder, `**` does not."""
    pattern = os.path.realpath(pattern)
    if "**" in pattern:
        return fnmatchcase(place, pattern.replace("**/", "*"))
    parts, wanted = Path(place).parts, Path(pattern).parts
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))
