"""Small texts on disk."""

import random
from pathlib import Path

WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "bird",
    "sat",
    "ran",
    "saw",
    "on",
    "in",
    "mat",
    "river",
    "bank",
    "and",
    "she",
    "he",
    "it",
    "was",
    "cold",
    "warm",
]


def text(lines: int = 300, seed: int = 0) -> str:
    """Sentences of a few words."""
    draw = random.Random(seed)
    return "".join(" ".join(draw.choices(WORDS, k=draw.randint(4, 9))) + ".\n" for _ in range(lines))


def write_text(path: Path, lines: int = 300, seed: int = 0) -> Path:
    """A file of sentences."""
    path.write_text(text(lines, seed), encoding="utf-8")
    return path


def write_pairs(folder: Path, count: int = 150) -> tuple[Path, Path]:
    """Two parallel files: the target is the source word by word, backwards."""
    sources = text(count).splitlines()
    targets = [" ".join(reversed(line.split())) for line in sources]
    (folder / "a.txt").write_text("\n".join(sources) + "\n")
    (folder / "b.txt").write_text("\n".join(targets) + "\n")
    return folder / "a.txt", folder / "b.txt"


def contents(folder: Path) -> dict[str, bytes]:
    """Every file under a folder, to see that nothing changed."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
