"""How many files of the package five jobs enter; writes the counts into docs/architecture.md.

python -m tests.docs.walks
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import tfcli

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
PACKAGE = Path(tfcli.__file__).parent

_TEXT = "Tom swam across the river to get to the bank.\nThen he walked to the bank for cash.\n" * 200
_TRAIN = ("train", "--arch", "decoder", "--size", "tiny", "--steps", "2", "--threads", "1")

# Counts a file when a function of it is called. The bodies of modules and classes do not count, which
# run when a file is imported: they alone have no CO_OPTIMIZED.
_TRACER = """
import inspect, json, sys, threading
package, out, *words = sys.argv[1:]
entered = set()

def trace(frame, event, argument):
    code = frame.f_code
    is_function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
    if event == "call" and is_function and code.co_filename.startswith(package):
        entered.add(code.co_filename)

sys.argv = ["tfcli", *words]
from tfcli.cli.main import main
threading.setprofile(trace)
sys.setprofile(trace)
try:
    main()
finally:
    sys.setprofile(None)
    with open(out, "w") as file:
        json.dump(sorted(entered), file)
"""


def jobs(run: Path, text: Path) -> Mapping[str, Sequence[str]]:
    """The command lines, by what docs/architecture.md calls them."""
    sentence = "Tom swam to the bank"
    return {
        "tfcli generate": ["generate", str(run), "Tom swam", "--max-new-tokens", "8"],
        "tfcli train": [*_TRAIN, "--data", str(text), "--out", f"{run}-again"],
        "tfcli inspect attention": ["inspect", "attention", str(run), sentence, "--layer", "0"],
        "tfcli evaluate": ["evaluate", str(run)],
        "tfcli inspect lens": ["inspect", "lens", str(run), sentence],
    }


def counted(folder: Path) -> dict[str, int]:
    """Train a tiny model in a folder, run the jobs, and count the files that each enters."""
    environment = {**os.environ, "TFCLI_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    text = folder / "text.txt"
    text.write_text(_TEXT, encoding="utf-8")
    run = folder / "run"
    first = [sys.executable, "-m", "tfcli", *_TRAIN, "--data", str(text), "--out", str(run), "--quiet"]
    subprocess.run(first, env=environment, check=True, capture_output=True)
    counts = {}
    for name, words in jobs(run, text).items():
        out = folder / "entered.json"
        command = [sys.executable, "-c", _TRACER, str(PACKAGE), str(out), *words]
        subprocess.run(command, env=environment, check=True, capture_output=True)
        counts[name] = len(json.loads(out.read_text()))
    return counts


def documented() -> dict[str, int]:
    """The counts that docs/architecture.md gives."""
    rows = re.findall(r"^\| `(tfcli [a-z ]+)` \|.*\| (\d+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: int(count) for name, count in rows}


def main() -> None:
    """Write the counts into the page."""
    with tempfile.TemporaryDirectory() as folder:
        counts = counted(Path(folder))
    page = PAGE.read_text(encoding="utf-8")
    for name, count in counts.items():
        page = re.sub(rf"^(\| `{name}` \|.*\| )\d+ \|$", rf"\g<1>{count} |", page, flags=re.MULTILINE)
        print(f"{name}: {count} files")
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
