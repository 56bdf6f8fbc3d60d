"""`tfcli runs` as it is typed."""

import json
import os
import random
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import tfcli
from tests.support.run_folders import falling, write_run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for number, (name, lowest) in enumerate((("b", 2.0), ("a", 1.5), ("group/c", 1.8))):
        run = write_run(
            Path("runs") / name, falling(100 + number * 10, lowest), {"train": {"steps": 100 + number * 10}}
        )
        for file in ("metrics.jsonl", "model.safetensors", "recipe.toml"):
            os.utime(run / file, (1e9 + number * 1000, 1e9 + number * 1000))
    return tmp_path


def names(*arguments: str) -> list[str]:
    return [json.loads(line)["name"] for line in tfcli("runs", "list", *arguments, "--json").stdout.splitlines()]


def test_the_list_is_sorted_as_asked(folder: Path):
    assert names() == ["group/c", "a", "b"]  # newest first
    assert names("--sort", "name") == ["a", "b", "group/c"]
    assert names("--sort", "loss") == ["a", "group/c", "b"]
    assert names("runs", "--sort", "steps") == ["b", "a", "group/c"]


def test_listed_names_are_accepted_whatever_folder_is_listed(folder: Path):
    write_run(Path("elsewhere/d"), falling(20))
    write_run(Path("runs/elsewhere"), falling(20))  # hidden by the folder
    write_run(Path("runs/last"), falling(20))  # which means another one
    for place in (".", "runs", "runs/group", "elsewhere", str(folder)):
        listed = [json.loads(line) for line in tfcli("runs", "list", place, "--json").stdout.splitlines()]
        assert listed
        for run in listed:
            shown = json.loads(tfcli("runs", "show", run["name"], "--json").stdout)["summary"]
            assert Path(shown["path"]).samefile(run["path"])
    assert sorted(names()) == ["a", "b", "group/c", "runs/elsewhere", "runs/last"]


def test_last_is_the_run_whose_metrics_were_written_last(folder: Path):
    result = tfcli("runs", "show", "last")
    assert "runs/group/c  decoder" in result.stdout
    assert result.stderr.startswith("last is runs/group/c.\n")
    assert "last is" not in tfcli("runs", "show", "last", "--quiet").stderr
    os.utime("runs/b/metrics.jsonl", (2e9, 2e9))
    assert json.loads(tfcli("runs", "show", "last", "--json").stdout)["summary"]["path"] == "runs/b"
    shutil.copytree("runs/a", "last")
    shown = tfcli("runs", "show", "last")
    assert shown.stdout.startswith("last  decoder")
    assert "last is" not in shown.stderr, "an existing path wins over a name"
    for refused in (tfcli("train", "--out", "runs/last"), tfcli("run", "quickstart", "--out", "runs/last")):
        assert refused.exit_code == 2
        assert "--out 'runs/last': last means the run that was trained last" in refused.stderr


@pytest.mark.parametrize(
    ("typed", "problem", "remedy"),
    [
        ("generate nosuch Hi", "There is no run 'nosuch'", "there are "),
        ("generate grop/c Hi", "There is no run 'grop/c'", "there are group/c, "),
        ("evaluate b text.txt --compare runs/aa", "There is no run 'runs/aa'", "there are a, "),
        ("explain layer --run c", "There is no run 'c'", "there are group/c, "),
        ("train --resume bb", "There is no run 'bb'", "there are b, "),
        ("train --init bb --dry-run", "There is no run 'bb'", "there are b, "),
        ("runs compare a bb", "There is no run 'bb'", "there are b, "),
        ("tokenize encode bb Hi", "There is no run 'bb'", "there are b, "),
        ("prepare text.txt --tokenizer bb --out made", "There is no run 'bb'", "there are b, "),
        ("inspect cost bb", "There is no run 'bb'", "there are b, "),
        ("inspect attention a Hi --against-run=bb", "There is no run 'bb'", "there are b, "),
        (
            "generate 'Once upon' runs/a",
            "The run 'runs/a' comes before the text 'Once upon'",
            "type `tfcli generate runs/a 'Once upon'`",
        ),
        ("train last", "last is a run, not a text", "go on with it: tfcli train --resume last."),
        (
            "generate One two b --top-k 5",
            "The run 'b' comes before the text 'One'",
            "type `tfcli generate b One two --top-k 5`",
        ),
        (
            "inspect attention 'a text' runs/a",
            "The run 'runs/a' comes before",
            "type `tfcli inspect attention runs/a 'a text'`",
        ),
        ("evaluate text.txt group/c", "The run 'group/c' comes before", "type `tfcli evaluate group/c text.txt`"),
        ("tokenize encode 'a text' b", "The run 'b' comes before", "type `tfcli tokenize encode b 'a text'`"),
        ("evaluate a runs/b", "'runs/b' is a run, not a text", "type `tfcli evaluate a --compare=runs/b`"),
        ("evaluate a a", "'a' is a run, not a text", "type `tfcli evaluate a --compare=a`"),
        ("train b --dry-run", "b is a run, not a text", "go on with it: tfcli train --resume b"),
        ("generate quickstart Hi", "'quickstart' is a recipe, not a run", "make one by it: `tfcli run quickstart`"),
        ("generate heads Hi", "'heads' is a recipe, not a run", "type `tfcli generate heads-1 Hi`"),
        ("run runs/a", "'runs/a' is a run, not a recipe", "type `tfcli run runs/a/recipe.toml`"),
        ("train --recipe=a --dry-run", "'a' is a run", "type `tfcli train --recipe=runs/a/recipe.toml --dry-run`"),
        ("generate runs/a/recipe.toml Hi", "is a part of the run runs/a", "type `tfcli generate runs/a Hi`"),
        ("verify runs/a/tokenizer.json", "is a part of the run runs/a", "type `tfcli verify runs/a`"),
        (
            "generate runs/group/c/checkpoints/step-000020 Hi",
            "is a part",
            "type `tfcli generate runs/group/c Hi --checkpoint 20`",
        ),
        ("runs show runs/group/c/checkpoints/step-000020", "is a part", "type `tfcli runs show runs/group/c`"),
        (
            "generate 'Once upon'",
            "'Once upon' is not a run, and no run is named before it",
            "type `tfcli generate last 'Once upon'`",
        ),
        ("export a --out last", "--out 'last': last means the run", "choose another --out"),
        ("explain layer a Hi", "'a' is a run, which is named by --run", "type `tfcli explain layer Hi --run a`"),
        ("embed toks.json Hi", "'toks.json' is a tokenizer, not a run", "`tfcli tokenize encode toks.json TEXT`"),
        ("generate 'my own.toml' Hi", "'my own.toml' is a recipe, not a run", "by it: `tfcli run 'my own.toml'`"),
        ("run 'my own'", "There is no recipe 'my own'", "type `tfcli run 'my own.toml'`"),
        ("export --out x", "Missing argument 'RUN'", "type `tfcli export --out x last`"),
        ("generate text.txt Hi", "There is no run 'text.txt': it is a file", "there are "),
        ("generate runs Hi", "The folder 'runs' holds no run", "there are "),
        ("explore d", "The folder 'd' holds no run", "there are runs/d, "),
    ],
)
def test_a_name_of_no_run_is_answered(typed: str, problem: str, remedy: str, folder: Path):
    for name in ("heads-1", "d"):
        write_run(Path("runs") / name, falling(20))
    Path("d").mkdir()
    Path("runs/group/c/checkpoints/step-000020").mkdir(parents=True, exist_ok=True)
    for file in ("text.txt", "toks.json", "my own.toml"):
        Path(file).write_text("{}")
    result = tfcli(*shlex.split(typed))
    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in result.stderr
    assert remedy in result.stderr


def test_where_there_is_no_run_it_is_said_how_to_make_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert tfcli("generate", "x").stderr == (
        "tfcli: There is no run 'x'; make one: `tfcli run quickstart`, or `tfcli train FILE`.\n"
    )
    assert "No run in runs has been trained" in tfcli("generate", "last").stderr


@pytest.mark.parametrize(
    "command", ["generate x Hi", "inspect heads x", "evaluate x", "explore x", "train --resume x", "train x,y"]
)
def test_a_wrong_name_is_answered_before_pytorch_is_loaded(command: str, tmp_path: Path):
    code = (
        "import sys\nfrom tfcli.cli.main import commands\napp = commands()\ntry:\n    app(sys.argv[1:])\n"
        "except SystemExit as end:\n    print(end.code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, *command.split()], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.split() == ["2", "False"], done.stderr


def test_a_damaged_run_is_listed_last_by_loss_and_breaks_nothing(folder: Path):
    Path("runs/a/model.safetensors").write_bytes(b"x")
    assert names("--sort", "loss") == ["group/c", "b", "a"]
    result = tfcli("runs", "list")
    assert result.exit_code == 0
    assert "model.safetensors is no safetensors file" in result.stdout
    values = [json.loads(line) for line in tfcli("runs", "list", "--json").stdout.splitlines()]
    [broken] = [value for value in values if value["state"] == "damaged"]
    assert broken["problem"] == "runs/a/model.safetensors is no safetensors file"
    assert all(value.keys() == broken.keys() for value in values)


def test_no_runs_are_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for arguments in ([], ["."]):
        result = tfcli("runs", "list", *arguments)
        assert (result.exit_code, result.stdout) == (0, "")
        assert "There are no runs in" in result.stderr
    missing = tfcli("runs", "list", "missing")
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert missing.stderr == "tfcli: There is no folder 'missing'; name the folder that your runs are in.\n"


def test_a_run_is_shown_and_what_to_type_next(trained: Callable[[str], Path]):
    run = trained("decoder")
    result = tfcli("runs", "show", run)
    assert result.exit_code == 0
    assert "training loss" in result.stdout
    assert "80 of 80 steps" in result.stdout
    assert result.stderr.startswith("Try: tfcli evaluate ")
    shown = json.loads(tfcli("runs", "show", run, "--json").stdout)
    assert shown["summary"]["state"] == "finished"
    assert [point["step"] for point in shown["history"]["validation"]] == [20, 40, 60, 80]
    assert shown["bits_per_byte"] > 0


def test_an_interrupted_run_says_how_to_go_on(folder: Path):
    write_run(Path("runs/my run"), falling(50), finished=False)
    assert tfcli("runs", "show", "runs/my run").stderr == "Go on with it: tfcli train --resume 'runs/my run'\n"


def test_curves_are_written_into_files(folder: Path):
    result = tfcli("runs", "show", "runs/a", "--csv", "a.csv", "--svg", "a.svg")
    assert result.exit_code == 0
    assert Path("a.csv").read_text().startswith("event,step,")
    assert Path("a.svg").read_text().startswith("<svg ")
    refused = tfcli("runs", "show", "runs/a", "--svg", "runs")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--svg 'runs' is a folder" in refused.stderr


def test_a_run_s_own_file_is_never_written_over(folder: Path):
    before = Path("runs/a/metrics.jsonl").read_bytes()
    result = tfcli("runs", "show", "runs/a", "--csv", "runs/a/metrics.jsonl")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"--csv 'runs/a/metrics.jsonl' is a file of the run {Path('runs/a').resolve()}" in result.stderr
    assert Path("runs/a/metrics.jsonl").read_bytes() == before


def test_runs_are_compared(folder: Path):
    result = tfcli("runs", "compare", "runs/a", "runs/b", "--by", "tokens")
    assert result.exit_code == 0
    assert "train.steps  110  100" in result.stdout
    compared = json.loads(tfcli("runs", "compare", "runs/a", "runs/b", "--json").stdout)
    assert compared["comparable"] is True
    assert compared["settings"] == [{"key": "train.steps", "values": [110, 100]}]
    assert [run["summary"]["path"] for run in compared["runs"]] == ["runs/a", "runs/b"]


@pytest.mark.parametrize(
    ("arguments", "words", "exit_code"),
    [
        (["show", "runs"], "holds no run", 2),
        (["compare", "runs/a"], "One run cannot be compared", 2),
        (["compare", "runs/a", "runs/a"], "named twice", 2),
        (["compare", "runs/a", "runs/bad"], "is no safetensors file", 1),
        (["show", "runs/bad"], "is no safetensors file", 1),
    ],
)
def test_what_cannot_be_shown_is_said(arguments: list[str], words: str, exit_code: int, folder: Path):
    write_run(Path("runs/bad"), falling(20))
    Path("runs/bad/model.safetensors").write_bytes(b"\x00")
    result = tfcli("runs", *arguments)
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_imported_run_has_no_training(trained: Callable[[str], Path], tmp_path: Path):
    from tfcli.interop.exporting import export_run
    from tfcli.runs.load import load_run

    export_run(load_run(trained("decoder")), tmp_path / "checkpoint")
    assert tfcli("import", tmp_path / "checkpoint", "--out", tmp_path / "run").exit_code == 0
    [listed] = [json.loads(line) for line in tfcli("runs", "list", tmp_path, "--json").stdout.splitlines()]
    assert (listed["name"], listed["state"], listed["step"]) == (str(tmp_path / "run"), "imported", None)
    shown = tfcli("runs", "show", tmp_path / "run")
    assert shown.exit_code == 0, shown.stderr
    assert "imported from" in shown.stdout
    assert f"Try: tfcli evaluate {tmp_path / 'run'} SOURCE" in shown.stderr, "it has no text of its own"


def test_a_terminal_without_unicode_gets_ascii_curves(folder: Path):
    """In a process of its own, for the encoding is the stream's."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "80"}
    done = subprocess.run(
        [sys.executable, "-m", "tfcli", "runs", "compare", "runs/a", "runs/b"], capture_output=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    plot = done.stdout.decode("ascii").split("Training loss")[1]
    assert "?" not in plot
    assert "+---" in plot


FILES = (
    *("recipe.toml", "config.json", "data.json", "tokenizer.json", "model.safetensors", "metrics.jsonl"),
    "checkpoints/step-000050/state.json",
)
ODD: tuple[Any, ...] = (10**400, -1, 1e308, True, None, "text", [[[]]], "9" * 500)
CONTENTS: dict[str, bytes] = {
    "nothing": b"",
    "random bytes": random.Random(0).randbytes(300),
    "nested": b"[" * 100_000,
    "many digits": b"9" * 5000,
    "another object": b'{"a": 1}',
    "text": b'"text"\n',
}


def damaged_runs(runs: Path) -> dict[Path, str]:
    """Runs with one file each of another content, or none, or with one value of it another one; and which file."""
    draw, damaged = random.Random(7), {}

    def one(name: str) -> Path:
        path = write_run(runs / f"{name.rpartition('/')[2]}-{len(damaged)}", falling(50, every=25), finished=False)
        damaged[path] = name
        return path / name

    for name in FILES:
        for content in CONTENTS.values():
            one(name).write_bytes(content)
        if name != "recipe.toml":  # without it, it is no run
            for change in (Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/nowhere")):
                file = one(name)
                file.unlink()
                change(file)
    for name in ("config.json", "data.json", "checkpoints/step-000050/state.json", "metrics.jsonl"):
        for odd in ODD:
            file = one(name)
            lines = file.read_text().splitlines() if name == "metrics.jsonl" else [file.read_text()]
            place = draw.randrange(len(lines))
            values = json.loads(lines[place])
            inside = draw.choice([values, *(value for value in values.values() if isinstance(value, dict) and value)])
            inside[draw.choice([*inside])] = odd
            lines[place] = json.dumps(values)
            file.write_text("\n".join(lines) + "\n")
    return damaged


def test_whatever_is_damaged_is_a_row_or_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Every file of a run, in every way that was thought of: all runs are listed, and no command ends as a fault."""
    monkeypatch.chdir(tmp_path)
    write_run(Path("runs/good"), falling(50))
    damaged = damaged_runs(Path("runs"))
    listed = [json.loads(line) for line in tfcli("runs", "list", "--json").stdout.splitlines()]
    assert {row["path"] for row in listed} == {"runs/good", *map(str, damaged)}
    for row in listed:
        assert (row["state"] == "damaged") == bool(row["problem"])
        assert row["problem"] is None or damaged[Path(row["path"])].rpartition("/")[2] in row["problem"]
    assert sum(row["state"] == "damaged" for row in listed) > len(damaged) / 2
    assert tfcli("runs", "list").exit_code == 0
    for command, path in zip(
        cycle((("runs", "show"), ("runs", "compare", "runs/good"), ("inspect", "training"))), damaged
    ):
        result = tfcli(*command, path)
        assert result.exit_code in (0, 1, 2), (command, path, result.stderr)
        assert "has a fault" not in result.stderr, (command, path, result.stderr)
        assert result.exit_code == 0 or path.name in result.stderr


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("checkpoints/step-000050/state.json", b'{"format_version": 3, "step": "fifty"}', "state.json is damaged"),
        ("metrics.jsonl", b"[" * 100_000 + b"\n", "metrics.jsonl is damaged in line 1; remove that line"),
        ("metrics.jsonl", b'{"event": "step", "step": 1, "loss": ' + b"9" * 400 + b"}\n", "is damaged in line 1"),
    ],
)
def test_what_is_damaged_is_said_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, content: bytes, words: str
):
    monkeypatch.chdir(tmp_path)
    run = write_run(Path("runs/a"), falling(50))
    (run / file).write_bytes(content)
    commands = [("runs", "show", run), ("runs", "compare", run, write_run(Path("runs/b"), falling(50)))]
    for command in commands + ([("inspect", "training", run)] if file == "metrics.jsonl" else []):
        result = tfcli(*command)
        assert (result.exit_code, result.stdout) == (1, "")
        assert words in " ".join(result.stderr.split())
