"""What goes where: results to stdout, the rest to stderr, and both as the reader can take it."""

import html
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.cli.commands import SHRUNK, process, snapshot, tfcli
from tests.support.app import app
from tfcli.console.terminal import Terminal
from tfcli.draw.numbers import short
from tfcli.tokenization.tokenizer import load_tokenizer

ESCAPE = "\x1b[31mred\x07\x9b"


@pytest.fixture
def decoder(trained: Callable[[str], Path]) -> Path:
    return trained("decoder")


def test_train_prints_the_run_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    result = tfcli("train", "--arch", "decoder", *SHRUNK)
    assert result.stdout == "runs/decoder-1\n"
    for word in ("Tokenizer", "Data", "start", "step", "evaluate", "finish", "Try:\ntfcli generate runs/decoder-1"):
        assert word in result.stderr
    again = tfcli("train", "--arch", "decoder", *SHRUNK, "--quiet")
    assert (again.stdout, again.stderr) == ("runs/decoder-2\n", "")


def test_json_of_a_training_is_a_line_an_event(tmp_path: Path):
    result = tfcli("train", "--arch", "encoder", *SHRUNK, "--out", tmp_path / "run", "--json", "--quiet")
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [event["event"] for event in events[-4:]] == ["step", "saved", "evaluated", "finished"]
    assert events[-1]["run"] == str(tmp_path / "run")
    # Of a run that is finished already there is the end to tell, and no training.
    resumed = tfcli("train", "--resume", tmp_path / "run", "--json", "--quiet")
    lines = [json.loads(line) for line in resumed.stdout.splitlines()]
    assert [line["event"] for line in lines] == ["stage", "finished"]
    assert lines[-1]["step"] == 3


def test_verbose_shows_the_resolved_recipe_before_training(tmp_path: Path):
    result = tfcli("train", *SHRUNK, "--out", tmp_path / "run", "--verbose")
    assert "[train]\nsteps = 3\nbatch_size = 4\n" in result.stderr
    assert "Took " in result.stderr
    assert result.stdout == f"{tmp_path / 'run'}\n"


def test_dry_run_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    result = tfcli("train", "--preset", "gpt2", "--size", "tiny", "--dry-run", "--json")
    planned = json.loads(result.stdout)
    assert {"parameters", "vocab_size", "tokens", "steps", "recipe", "memory", "flops_per_token"} <= planned.keys()
    assert sum(group["parameters"] for group in planned["groups"]) == planned["parameters"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("train --data no.txt", "There is no file"),
        ("run quickstart --set data.source=no.txt", "There is no file"),
        ("train --set data.validation=no.txt --data a.txt", "There is no file"),
        ("train --arch decoder --data a.de,a.en", "holds pairs, in parallel files, where text is needed"),
        ("train --arch decoder --data builtin:pt-en", "holds pairs, not text"),
        ("train --arch encoder-decoder --data a.txt", "holds text, where pairs are needed"),
        ("train --arch encoder-decoder --data a.de,short.en", "short.en has 19"),
        ("train --arch encoder-decoder --data prepared", "prepared holds text, not pairs"),
        ("train --data prepared --set tokenizer.path=other", "was prepared with another tokenizer"),
        ("train --data a.txt --init run --size tiny", "is another model"),
        ("train --data a.txt --out prepared", "is not empty and holds no run"),
        ("train --data a.txt --out run", "holds a run with"),
        ("train --data a.txt --set tokenizer.path=a.txt", "is not valid JSON"),
        ("train --data blank.txt", "There is no text in"),
    ],
)
def test_a_dry_run_refuses_what_the_training_would(
    typed: str, words: str, trained: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    for name, run in (("run", trained("decoder")), ("other", trained("encoder-decoder"))):
        Path(name).symlink_to(run)
    for name in ("a.txt", "a.de", "a.en"):
        Path(name).write_text("Tom swam.\n" * 20)
    Path("blank.txt").write_text(" \n")
    Path("short.en").write_text("Tom swam.\n" * 19)
    if "prepared" in typed:
        assert tfcli("prepare", "a.txt", "--tokenizer", "run", "--out", "prepared").exit_code == 0
    before = snapshot(tmp_path)
    words_typed = [*typed.split(), "--set", "train.steps=1"]
    planned, real = tfcli(*words_typed, "--dry-run"), tfcli(*words_typed)
    assert (planned.exit_code, planned.stdout) == (real.exit_code, real.stdout)
    assert words in planned.stderr
    assert planned.stderr.splitlines() == real.stderr.splitlines()[-1:]
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("architecture", "command", "keys"),
    [
        ("decoder", "generate RUN Tom", {"prompt", "text", "token_ids", "score"}),
        ("encoder", "generate RUN a<mask>b", {"prompt", "predictions", "text"}),
        ("encoder-decoder", "generate RUN gato --beam 2", {"prompt", "text", "token_ids", "score"}),
        ("decoder", "evaluate RUN", {"loss", "perplexity", "bits_per_byte", "tokens"}),
        ("encoder-decoder", "evaluate RUN", {"loss", "bleu", "chrf", "exact_match"}),
        ("encoder", "inspect attention RUN Tom", {"records"}),
        ("decoder", "inspect positions RUN", {"encoding", "base", "length", "d_model", "table"}),
        ("decoder", "tokenize encode RUN Tom", {"text", "token_ids", "tokens", "unknown"}),
        ("decoder", "tokenize decode RUN 5", {"text", "token_ids"}),
    ],
)
def test_json_is_one_object_with_the_keys_of_the_contract(
    architecture: str, command: str, keys: set[str], trained: Callable[[str], Path]
):
    words = [str(trained(architecture)) if word == "RUN" else word for word in command.split()]
    result = tfcli(*words, "--json")
    assert result.exit_code == 0, result.stderr
    assert keys <= json.loads(result.stdout).keys()


def test_prompts_come_a_line_from_stdin(decoder: Path):
    result = tfcli("generate", decoder, "-", "--max-new-tokens", "2", "--json", stdin="Tom\n\nAnna é\n")
    assert [json.loads(line)["prompt"] for line in result.stdout.splitlines()] == ["Tom", "Anna é"]


def test_interactive_asks_until_an_empty_line(decoder: Path):
    result = tfcli("generate", decoder, "-i", "--temperature", "0", "--max-new-tokens", "2", stdin="Tom\nA\n\nB\n")
    assert result.exit_code == 0
    assert [line[:1] for line in result.stdout.splitlines()] == ["T", "A"]
    assert result.stderr.count("> ") == 3


def test_an_empty_prompt_lets_a_decoder_begin(decoder: Path):
    empty = tfcli("generate", decoder, "", "--seed", "3", "--json")
    none = tfcli("generate", decoder, "--seed", "3", "--json")
    assert empty.stdout == none.stdout
    assert json.loads(none.stdout)["token_ids"]


def test_tokens_survive_the_way_through_a_pipe(decoder: Path):
    ids = tfcli("tokenize", "encode", decoder, "Tom swam.")
    assert tfcli("tokenize", "decode", decoder, "-", stdin=ids.stdout).stdout == "Tom swam.\n"


def test_a_terminal_never_gets_control_characters_raw(decoder: Path, monkeypatch: pytest.MonkeyPatch):
    """Into a pipe the text goes as it is; JSON is escaped for everyone."""
    short = ("generate", decoder, ESCAPE, "--max-new-tokens", "1")
    assert ESCAPE in tfcli(*short).stdout
    assert "\x9b" not in tfcli(*short, "--json").stdout
    assert json.loads(tfcli(*short, "--json").stdout)["prompt"] == ESCAPE

    monkeypatch.setattr("tfcli.console.terminal.is_terminal", lambda stream=None: True)
    shown = tfcli(*short).stdout
    assert r"\x1b[31mred\x07\x9b" in shown
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)


def test_an_error_quotes_control_characters_as_escapes():
    result = tfcli("generate", f"runs/{ESCAPE}", "Tom")
    assert not {"\x1b", "\x07", "\x9b"} & set(result.stderr)


@pytest.mark.parametrize(
    ("color", "environment", "colored"),
    [
        ("always", {"NO_COLOR": "1"}, True),
        ("never", {"FORCE_COLOR": "1"}, False),
        ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ("auto", {}, False),
    ],
)
def test_color_is_the_users_choice(
    color: str,
    environment: dict[str, str],
    colored: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    from tfcli.inspection.positions.compute import positions_table
    from tfcli.inspection.positions.view import PositionsView

    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    Terminal(color=color).show(PositionsView(positions_table("sinusoidal", 4, 4, 10_000.0)))  # type: ignore[arg-type]
    assert ("\x1b[" in capsys.readouterr().out) == colored


@pytest.mark.parametrize(
    "environment",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
    ids=["ascii", "C locale"],
)
def test_characters_that_cannot_be_written_stop_nothing(environment: dict[str, str]):
    out, err = process("recipes", "show", "pt-en", **environment).communicate()
    assert "O livro est? em cima da mesa." in out
    assert err == ""


def test_json_stays_whole_where_characters_cannot_be_written(decoder: Path):
    command = process("tokenize", "encode", decoder, "é", "--json", "--quiet", PYTHONIOENCODING="ascii")
    out, err = command.communicate()
    assert json.loads(out)["text"] == "é"
    assert err == ""


@pytest.mark.parametrize(
    "arguments", ["inspect positions --length 4000 --csv", "inspect positions --length 30 --color always"]
)
def test_a_closed_pipe_is_a_clean_end(arguments: str):
    """The first is cut off in the middle of more than a pipe holds, the second before anything was read."""
    command = process(*arguments.split())
    assert command.stdout is not None
    assert command.stderr is not None
    if "--csv" in arguments:
        command.stdout.readline()
    command.stdout.close()
    assert command.stderr.read() == ""
    assert command.wait(timeout=60) == 0


def _helps() -> list[list[str]]:
    """The help of every command and every group."""

    def paths(command: Any, path: list[str]) -> Iterator[list[str]]:
        yield path
        for name, inner in getattr(command, "commands", {}).items():
            yield from paths(inner, [*path, name])

    return [[*path, "--help"] for path in paths(typer.main.get_command(app), [])]


SAYS = [["--version"], ["-h"], [], ["recipes"], ["recipes", "list"], ["recipes", "show", "pt-en"]]
SAYS += [["runs", "show", "decoder"], ["recipes", "list", "--json"]]
POSITIONS = ["inspect", "positions"]
COMPUTES = [[*POSITIONS, "--length", "4"], [*POSITIONS, "--json"], [*POSITIONS, "--length", "2000", "--csv"]]


@pytest.mark.parametrize(
    ("how", "computes"),
    [("full", False), *(pytest.param(how, True, marks=pytest.mark.slow) for how in ("full", "gone"))],
)
def test_every_command_ends_well_where_its_output_cannot_be_written(
    how: str, computes: bool, trained: Callable[[str], Path]
):
    """A full disk is one sentence and exit 1, a reader that has left is success; nothing is heard of Python's own flush
    at its exit."""
    commands = [*_helps(), *SAYS, *(COMPUTES if computes else [])]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.outputs", how],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        cwd=trained("decoder").parent,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [words for words, _, _ in answers] == commands and len(commands) > 40
    full = "tfcli: No space left on device (stdout); check the path, its permissions and the space left.\n"
    for words, code, said in answers:
        assert (code, said) == ((1, full) if how == "full" else (0, "")), words


def test_python_m_tfcli_is_the_command():
    done = subprocess.run([sys.executable, "-m", "tfcli", "nosuch"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "No such command 'nosuch'" in done.stderr
    assert done.stdout == ""


def test_a_bad_prompt_ends_no_conversation(trained: Callable[[str], Path]):
    result = tfcli("generate", trained("encoder"), "-i", "--json", stdin="no mask\na<mask>b\n")
    assert result.exit_code == 0
    assert "has no <mask>" in result.stderr
    assert json.loads(result.stdout)["prompt"] == "a<mask>b"


def test_json_escapes_all_that_a_terminal_may_not_get(decoder: Path):
    """One list for both, so zero-width spaces, isolates and tags too; as surrogate pairs above U+FFFF."""
    unsafe = "\x7f\x9b\u061c\u200b\u2060\u2066\ufeff\U000e0041"
    shown = tfcli("tokenize", "encode", decoder, f"a{unsafe}é", "--json", "--quiet").stdout
    assert not set(unsafe) & set(shown)
    assert r"\u007f\u009b\u061c\u200b\u2060\u2066\ufeff\udb40\udc41é" in shown
    assert json.loads(shown)["text"] == f"a{unsafe}é"


def test_dry_run_counts_the_vocabulary_that_is_there(decoder: Path, tmp_path: Path):
    ids = load_tokenizer(decoder).vocab_size
    text = tmp_path / "a.txt"
    text.write_text("Tom swam.\n" * 20)
    tfcli("prepare", text, "--tokenizer", decoder, "--out", tmp_path / "prepared")
    tiny = ("--size", "tiny")
    known = [
        (*tiny, "--set", f"tokenizer.path={decoder}"),
        ("--init", decoder),
        (*tiny, "--data", tmp_path / "prepared"),
    ]
    for options in known:
        planned = tfcli("train", *options, "--dry-run")
        assert f"{ids:,} ids\n" in re.sub(" +\n", "\n", planned.stdout), planned.stderr
    assert "2,048 ids at most" in tfcli("train", "--size", "tiny", "--dry-run").stdout


def test_the_seed_is_that_of_training_and_of_samples():
    planned = tfcli("train", "--size", "tiny", "--seed", "7", "--dry-run", "--json")
    recipe = json.loads(planned.stdout)["recipe"]
    assert (recipe["train"]["seed"], recipe["generate"]["seed"], recipe["data"]["seed"]) == (7, 7, 0)


def test_a_bad_byte_ends_no_conversation(decoder: Path):
    result = tfcli("generate", decoder, "-i", "--max-new-tokens", "2", "--json", stdin=b"An\xffna\nTom\n")
    assert result.exit_code == 0
    assert "The prompt on stdin is not valid UTF-8 (byte 2 is 0xff); convert it to UTF-8." in result.stderr
    assert json.loads(result.stdout)["prompt"] == "Tom"


@pytest.mark.parametrize("how", [[], ["--json"], ["--num-samples", "2"]], ids=" ".join)
def test_a_full_context_is_noted(how: list[str], decoder: Path):
    """The context holds 32 tokens; greedy or not, a text of 10 ends before, by its length."""
    # Of many seeds, one at least writes no end token before the context is full.
    for seed in range(20):
        result = tfcli("generate", decoder, "Tom", "--max-new-tokens", "500", "--seed", str(seed), *how)
        if "the context of 32 tokens is full" in result.stderr:
            break
    else:
        raise AssertionError("no text was cut off, or none was noted")
    assert "full" not in tfcli("generate", decoder, "Tom", "--max-new-tokens", "10", *how).stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_stream_that_the_caller_has_closed_is_no_fault(decoder: Path, closed: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m tfcli tokenize encode {shlex.quote(str(decoder))} - {closed}"
    done = subprocess.run(["bash", "-c", command], input="One", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_stdin_is_no_empty_text(decoder: Path) -> None:
    command = f"{shlex.quote(sys.executable)} -m tfcli tokenize encode {shlex.quote(str(decoder))} - <&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tfcli: There is nothing to read: stdin is closed; pipe a text into it")


def test_colour_that_is_forced_into_a_pipe_escapes_control_characters_too(decoder: Path) -> None:
    command = [sys.executable, "-m", "tfcli", "generate", str(decoder), "a\x1b[31mb", "--max-new-tokens", "1"]
    done = subprocess.run([*command, "--color", "always"], capture_output=True, text=True, check=True)
    assert "\x1b[31m" not in done.stdout and "\\x1b[31m" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        *("inspect attention RUN TEXT", "inspect attention RUN TEXT --scores", "inspect attention RUN - --top-k 3"),
        *("inspect lens RUN TEXT", "inspect losses RUN -", "inspect attribution RUN TEXT", "inspect heads RUN TEXT"),
        *("inspect gradients RUN TEXT", "inspect cost RUN", "inspect positions RUN", "runs show RUN"),
        *("explain attention TEXT --run RUN --head 0.0", "explain layer TEXT --d-model 6", "explain positions TEXT"),
    ],
)
def test_every_picture_says_what_it_shows_and_how_it_was_made(
    words: str, decoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Also under a tag's own letters, and without the home folder that a shell puts in the place of ~."""
    monkeypatch.setenv("HOME", str(decoder.parent))
    monkeypatch.chdir(tmp_path)
    text = "Tom <b> & \x1b[31m"
    typed = [{"RUN": str(decoder), "TEXT": text}.get(word, word) for word in words.split()]
    options = ["--svg", "a.svg"] if words.startswith("runs") else ["--svg", "a.svg", "--html", "a.html"]
    result = tfcli(*typed, *options, stdin=text + "\n")
    assert result.exit_code == 0, result.stderr
    sizes = [short(Path(name).stat().st_size, "B") for name in options[1::2]]
    assert result.stderr.splitlines()[-len(sizes) :] == [
        f"Wrote {name} ({size})." for name, size in zip(options[1::2], sizes, strict=True)
    ]
    command = shlex.join(["tfcli", *typed, *options]).replace(str(decoder.parent), "~").replace("\x1b", "\\x1b")
    shown = ["“Tom <b> & \\x1b[31m”"] if {"TEXT", "-"} & set(words.split()) else []
    shown += ["~/decoder"] if "RUN" in words else []
    svg = ElementTree.fromstring(Path("a.svg").read_text(encoding="utf-8"))
    title, description = (svg.findtext(f"{{http://www.w3.org/2000/svg}}{name}") or "" for name in ("title", "desc"))
    assert title.endswith(" · ".join(["", *shown]))
    assert description == " · ".join([*shown, command])
    if "--html" in options:
        page = Path("a.html").read_text(encoding="utf-8")
        assert html.unescape(page.partition("<title>")[2].partition("</title>")[0]).endswith(" · ".join(["", *shown]))
        assert f">{html.escape(description, quote=False)}</footer>\n</body>" in page


def test_a_picture_of_the_last_run_says_which_that_is(decoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(decoder, "runs/mine")
    assert tfcli("inspect", "lens", "last", "Tom", "--svg", "a.svg").exit_code == 0
    shown = "<desc>“Tom” · runs/mine · tfcli inspect lens last Tom --svg a.svg</desc>"
    assert shown in Path("a.svg").read_text(encoding="utf-8")


def test_a_written_file_is_named_unless_quiet(decoder: Path, tmp_path: Path):
    file = tmp_path / "a.npz"
    said = tfcli("embed", decoder, "Tom swam.", "--npz", file).stderr
    assert said == f"Wrote {file} ({short(file.stat().st_size, 'B')}).\n"
    assert tfcli("embed", decoder, "Tom swam.", "--npz", file, "--quiet").stderr == ""


@pytest.mark.parametrize("width", [60, 80])
def test_a_note_is_wrapped_between_words_in_a_terminal_and_one_line_in_a_pipe(
    width: int, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.delenv("NO_COLOR", raising=False)
    note = "The vocabulary is taken as tokenizer.vocab_size = 2048; set another with model.vocab_size."
    with monkeypatch.context() as patch:
        patch.setattr("tfcli.console.terminal.is_terminal", lambda stream=None: True)
        Terminal(color="always").note(note)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capfd.readouterr().err).splitlines()
    assert len(lines) == 2 and max(map(len, lines)) <= width
    assert " ".join(line.strip() for line in lines) == note
    for color in ("never", "always"):
        Terminal(color=color).note(note)  # type: ignore[arg-type]
        assert re.sub(r"\x1b\[[0-9;]*m", "", capfd.readouterr().err) == note + "\n"
