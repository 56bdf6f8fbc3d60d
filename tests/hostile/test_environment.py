"""Odd surroundings: variables, full disks, names, planted files, a counting proxy, and two commands at one time."""

import http.server
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.commands import snapshot
from tests.hostile.harness import (
    TINY,
    Case,
    Place,
    case,
    check,
    every,
    left_processes,
    require_no_leftovers,
    require_nothing_runs,
    write,
)
from tfcli.machine import python_command

TABLE = "inspect positions --length 4 --d-model 4"
TRAIN = f"train --data text.txt --out run {TINY}"
PLANTED = ("torch", "numpy", "tfcli", "json", "tokenizers", "site", "sitecustomize", "typing", "datasets", "rich")
PLANT = [write(f"{name}.py", "open('owned.txt', 'w').write('x')\nraise SystemExit(99)\n") for name in PLANTED]
OURS = ("run", "run/*")

CASES = [
    *(
        case(
            f"a terminal of {columns or 'no'} columns",
            TABLE,
            0,
            "",
            environment={"COLUMNS": columns},
            prints=r"\d",
            sample=columns == "0",
        )
        for columns in ("1", "0", "-5", "wide", "9" * 30, "")
    ),
    case("a dumb terminal", f"{TABLE} --color always", 0, "", environment={"TERM": "dumb"}, raw=True, prints=r"\d"),
    case(
        "no colour, whatever is asked of the terminal",
        TABLE,
        0,
        "",
        environment={"NO_COLOR": "", "FORCE_COLOR": "1"},
        raw=True,
    ),
    case("a terminal of no known kind", TABLE, 0, "", environment={"TERM": "\x1b]0;x\x07"}, prints=r"\d"),
    case("no home", "recipes list", 0, "", environment={"HOME": None}, prints="quickstart"),
    case(
        "no home, and no cache named",
        "tokenize train text.txt --out t.json",
        0,
        "",
        environment={"HOME": None, "TFCLI_CACHE": None},
        leaves=("t.json",),
    ),
    case(
        "a home that is not there",
        TRAIN,
        0,
        "",
        environment={"HOME": "/nowhere", "XDG_CACHE_HOME": None},
        leaves=OURS,
        prints="run",
    ),
    case(
        "a language without letters",
        TABLE,
        0,
        "",
        environment={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"},
        prints=r"\d",
        raw=True,
    ),
    case(
        "a path in a language without letters",
        ["tokenize", "train", "naïve.txt", "--out", "t.json"],
        2,
        r"(na\\xefve|naïve|na\?ve|na\\u00efve|na\\udc).*; ",
        environment={"LC_ALL": "C"},
    ),
    case(
        "threads in rubbish",
        "tokenize encode tokenizer.json Tom",
        0,
        "",
        environment={"OMP_NUM_THREADS": "many", "RAYON_NUM_THREADS": "-1"},
    ),
    case(
        "a world of one",
        TRAIN,
        0,
        "",
        environment={"WORLD_SIZE": "1", "RANK": "0"},
        leaves=OURS,
        timeout=40,
    ),
    # A folder that somebody sent, with files of the names of modules.
    case("planted modules beside a table", TABLE, 0, "", *PLANT, prints=r"\d"),
    case("planted modules beside a training", TRAIN, 0, "", *PLANT, leaves=OURS),
    case("planted modules beside a bench", "bench train --size tiny --steps 1 --json", 0, "", *PLANT, prints=r"\{"),
    case(
        "planted modules beside a plan",
        "plan --minutes 1 --json",
        0,
        "",
        *PLANT,
        prints=r"\{",
        timeout=120,
    ),
    case("planted modules beside two processes", f"{TRAIN} --nproc 2", 0, "", *PLANT, leaves=OURS, timeout=120),
    case("planted modules beside an import", "import hf --out run", 0, "", *PLANT, leaves=OURS),
    case(
        "planted modules in the run",
        "generate decoder Tom --max-new-tokens 2",
        0,
        "",
        write("decoder/torch.py", "raise SystemExit(99)"),
        raw=True,
    ),
    # Names.
    case(
        "a run with a name of spaces and a line break",
        ["train", "--data", "text.txt", *TINY.split(), "--out", "my\nfirst run"],
        0,
        r"my(\\n|⏎)first run",
        leaves=("my*",),
        needs=("text.txt",),
        prints=r"my(\\n|⏎)?\n?first run",
        raw=True,
    ),
    case(
        "a run with a name that is an option",
        ["train", "--data", "text.txt", *TINY.split(), "--out=-rf"],
        0,
        r"-rf",
        leaves=("-rf*",),
        needs=("text.txt",),
    ),
    case(
        "a run with a name in another script",
        ["train", "--data", "text.txt", *TINY.split(), "--out", "运行 é"],
        0,
        "运行",
        leaves=("运行*",),
        needs=("text.txt",),
    ),
    # A disk that is full when so many bytes are written.
    case(
        "a tokenizer on a full disk",
        "tokenize train text.txt --out t.json",
        1,
        r"(t\.json|[tT]oo large|space).*; ",
        file_size=2000,
    ),
    case("a picture on a full disk", f"{TABLE} --svg a.svg", 1, r"(a\.svg|[tT]oo large|space).*; ", file_size=500),
    case(
        "a dataset on a full disk",
        "prepare text.txt --tokenizer tokenizer.json --out data",
        1,
        r"(data|[tT]oo large|space).*; ",
        file_size=1500,
    ),
    case(
        "an export on a full disk",
        "export decoder --out exported",
        1,
        r"(exported|[tT]oo large|space).*; ",
        file_size=3000,
    ),
    case("an import on a full disk", "import hf --out run", 1, r"(run|[tT]oo large|space).*; ", file_size=3000),
    case(
        "vectors on a full disk",
        "embed encoder 'Tom swam' --npz v.npz",
        1,
        r"(v\.npz|[tT]oo large|space).*; ",
        file_size=100,
    ),
    case("a training on a full disk", TRAIN, 1, r"(run|[tT]oo large|space).*; ", file_size=9000, leaves=OURS),
    case(
        "a resumed training on a full disk",
        "train --resume untied --set train.steps=14",
        1,
        r"(untied|[tT]oo large|space).*; ",
        file_size=3000,
        leaves=("untied/recipe.toml", "untied/metrics.jsonl"),
    ),
]


@every(CASES)
def test_environment(hostile: Case, place: Place):
    check(place, hostile)


@contextmanager
def _counting_proxy() -> Iterator[tuple[str, list[str]]]:
    """A proxy that lets nobody through, and what it has been asked for."""
    asked: list[str] = []

    class Refusal(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(403)

        do_CONNECT = do_HEAD = do_POST = do_GET  # noqa: N815 (http.server asks for these names)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusal)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()


def _parquet(here: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"text": [f"one two {n}" for n in range(200)]}), here / "a.parquet")
    table = pa.table({"text": [f"one two {n}" for n in range(200)]})
    with pa.OSFile(str(here / "a.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


@pytest.mark.parametrize(
    "command",
    [
        "tokenize train a.parquet --out out.json",
        "prepare a.arrow --tokenizer tokenizer.json --out out",
        f"train --data a.parquet --out out {TINY}",
        "import hf --out out",
        "export decoder --out out",
        "evaluate decoder a.parquet",
    ],
)
def test_nothing_talks_to_the_network_unasked(command: str, place: Place):
    place.bring(["tokenizer.json", "hf", "decoder"])
    with _counting_proxy() as (address, asked):
        ways = {
            name: address
            for scheme in ("http", "https", "all")
            for name in (f"{scheme}_proxy", f"{scheme}_PROXY".upper())
        }
        hostile = case(
            command,
            command,
            0,
            "",
            _parquet,
            environment={**ways, "no_proxy": None, "NO_PROXY": None},
            leaves=("out*",),
        )
        check(place, hostile)
    assert asked == []


TWICE = {
    "trainings with one name": (TRAIN, TRAIN),
    "trainings without a name": (TRAIN.replace("--out run", ""), TRAIN.replace("--out run", "") + " --seed 5"),
    "datasets": ("prepare text.txt --tokenizer tokenizer.json --out data",) * 2,
    "different datasets": (
        "prepare text.txt --tokenizer tokenizer.json --out data",
        "prepare text.txt --tokenizer other.json --out data",
    ),
    "tokenizers": ("tokenize train text.txt --out t.json",) * 2,
    "exports": ("export decoder --out exported",) * 2,
    "imports": ("import hf --out imported",) * 2,
    "resumes": ("train --resume untied --set train.steps=40",) * 2,
}


@pytest.mark.parametrize("name", TWICE)
def test_two_at_one_time(name: str, place: Place):
    """Each ends with 0, or is refused with a sentence; what there is afterwards is whole, and is what a winner made."""
    place.bring(["text.txt", "tokenizer.json", "other.json", "decoder", "hf", "untied"])
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    processes = [place.start([*command.split(), "--quiet"], **pipes) for command in TWICE[name]]
    ended = [process.communicate(timeout=120) for process in processes]
    codes = [process.returncode for process in processes]
    said = [err.decode() for _, err in ended]
    for process in processes:
        require_nothing_runs(process.pid)
    assert 0 in codes, said
    assert set(codes) <= {0, 1, 2}, said
    for code, err in zip(codes, said, strict=True):
        assert "Traceback" not in err, err
        assert "has a fault" not in err, err
        assert (code == 0) == (err == ""), err
        assert not err or (err.startswith("tfcli: ") and "; " in err), err
    require_no_leftovers(place)
    printed = [out.decode().split() for code, (out, _) in zip(codes, ended, strict=True) if code == 0]
    if name.startswith("trainings"):
        runs = [words[-1] for words in printed]
        assert len(set(runs)) == len(runs), f"two trainings say that they made {runs}"
    made = [path for path in place.here.iterdir() if (path / "model.safetensors").is_file() and path.name != "exported"]
    made += list((place.here / "runs").glob("*"))
    for run in {path for path in made if path.name != "hf"}:
        words = ["generate", str(run), "Tom", "--max-new-tokens", "2"]
        done = subprocess.run(python_command("tfcli", *words), capture_output=True, text=True, check=False)
        assert done.returncode == 0, (run, done.stderr)


def test_a_run_that_is_trained_into_is_not_trained_into_again(place: Place):
    """While one trains, a second is refused, and not a byte is other. The first one stands still for that long: it may
    be in the middle of a checkpoint."""
    place.bring(["untied"])
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    first = place.start(
        ["train", "--resume", "untied", "--set", "train.steps=100000", "--set", "train.log_every=1"], **pipes
    )
    assert first.stderr is not None
    checkpoints = place.here / "untied/checkpoints"
    before = {path.name for path in checkpoints.iterdir()}
    for line in first.stderr:  # until its last checkpoint is no longer that of the finished run
        if line.startswith(b"step") and any(path.name not in before for path in checkpoints.glob("step-*")):
            break
    try:
        first.send_signal(signal.SIGSTOP)
        check(place, Case("second", "train --resume untied", 2, r"Another process trains into untied; "))
    finally:
        first.kill()
        first.communicate()
    assert not left_processes(first.pid)


def test_a_listing_changes_nothing_of_runs(place: Place):
    """Lists, pictures and scores only read: not even a time of change is other."""
    place.bring(["decoder", "untied"])
    times = {path: path.stat().st_mtime_ns for path in place.here.rglob("*")}
    before = snapshot(place.here)
    for command in ("runs list .", "runs show decoder", "runs compare decoder untied", "inspect training decoder"):
        check(place, Case(command, command, 0, ""))
    assert snapshot(place.here) == before
    assert {path: path.stat().st_mtime_ns for path in place.here.rglob("*")} == times
