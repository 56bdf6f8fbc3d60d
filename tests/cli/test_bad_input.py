"""What a user can get wrong: one sentence with the remedy, the exit code, and nothing touched.

Exit code 2 means wrong before any work began; 1 means that a file turned out broken.
"""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.commands import snapshot, tfcli

TINY = "--size tiny --set train.steps=3"
HEAD = "inspect attention decoder Tom --layer 0 --head 1"
LONG = "word " * 100  # the tiny models read 32 tokens


@dataclass(frozen=True)
class Bad:
    """A command, what it exits with, and words of its sentence: the problem's, then the remedy's."""

    name: str
    command: str
    exit_code: int
    problem: str
    remedy: str
    text: str | None = None


TABLE = [
    Bad("missing file", f"train --data nofile.txt {TINY}", 2, "no file", "check the path"),
    Bad("missing glob", f"train --data *.nothing {TINY}", 2, "*.nothing", "check"),
    Bad("empty file", f"train --data empty.txt {TINY}", 2, "empty.txt is empty", "give it some text"),
    Bad("binary file", f"train --data binary.txt {TINY}", 1, "binary.txt is binary", "UTF-8"),
    Bad("invalid UTF-8", f"train --data latin1.txt {TINY}", 1, "byte 3 is 0xe9", "UTF-8"),
    Bad("no shares to merge", "prepare --merge --out merged", 2, "--merge names no shares", "that --shard has made"),
    Bad("no text to prepare", "prepare --tokenizer decoder --out made", 2, "No text is named", "name files"),
    Bad("a weight of 0", "prepare two.txt two.txt --weights 3,0 --tokenizer decoder --out made", 2, "has 0", "above 0"),
    Bad("a folder without text", f"train --data empty {TINY}", 2, "the folder empty has text", "fill it with files"),
    Bad("unknown built-in", f"train --data builtin:storys {TINY}", 2, "'builtin:storys'", "builtin:stories"),
    Bad(
        "one column for pairs",
        f"train --arch encoder-decoder --data one-column.tsv {TINY}",
        2,
        "one column",
        "give one column for each side",
    ),
    Bad(
        "parallel files of different length",
        f"train --arch encoder-decoder --data two.txt,three.txt {TINY}",
        1,
        "two.txt has 2 lines and",
        "line n of one translates line n of the other",
    ),
    Bad(
        "unknown recipe key",
        "train --set model.norn=rmsnorm",
        2,
        "'model.norn'",
        "did you mean model.norm: --set model.norm=rmsnorm",
    ),
    Bad(
        "unknown key in a file",
        "run unknown-key.toml",
        2,
        "'train.step'",
        "it is called train.steps: steps = 5 under [train]",
    ),
    Bad("recipe that is no TOML", "run broken.toml", 2, "not valid TOML", "correct it"),
    Bad("unknown recipe", "run quickstrt", 2, "'quickstrt'", "'quickstart'"),
    Bad("value out of range", "train --set model.dropout=1.5", 2, "model.dropout = 1.5", "less than 1"),
    Bad("value of the wrong type", "train --set train.steps=many", 2, 'train.steps = "many"', "whole number"),
    Bad("--set without a value", "train --set train.steps", 2, "'train.steps' is not key=value", "write for example"),
    Bad("temperature below 0", "generate decoder Tom --temperature -1", 2, "temperature = -1", "at least 0"),
    Bad("temperature NaN", "generate decoder Tom --temperature nan", 2, "temperature = NaN", "finite"),
    Bad("top-p 0", "generate decoder Tom --top-p 0", 2, "top_p = 0", "more than 0"),
    Bad("top-p 2", "generate decoder Tom --top-p 2", 2, "top_p = 2", "at most 1"),
    Bad("top-k above the vocabulary", "generate decoder Tom --top-k 5000", 2, "top_k = 5000", "at most"),
    Bad("temperature infinite", "generate decoder Tom --temperature inf", 2, "temperature = Infinity", "finite"),
    Bad("top-p NaN", "generate decoder Tom --top-p nan", 2, "top_p = NaN", "finite"),
    Bad("min-p below 0", "generate decoder Tom --min-p -1", 2, "min_p = -1", "at least 0"),
    Bad("min-p 2", "generate decoder Tom --min-p 2", 2, "min_p = 2", "at most 1"),
    Bad("repetition penalty 0", "generate decoder Tom --repetition-penalty 0", 2, "penalty = 0", "more than 0"),
    Bad("unknown way beyond", "generate decoder Tom --beyond-context far", 2, "'far'", "'slide'"),
    Bad(
        "beam and temperature", "generate decoder Tom --beam 2 --temperature 1", 2, "draws no samples", "one of the two"
    ),
    Bad(
        "fewer beams than texts", "generate decoder Tom --beam 2 --num-samples 3", 2, "cannot give 3", "raise the beam"
    ),
    *(
        Bad(f"beam and {option}", f"generate decoder Tom --beam 2 {option}", 2, option.split()[0], "one of the two")
        for option in ("--top-k 2", "--min-p 0.1", "--seed 1", "--trace")
    ),
    *(
        Bad(f"{option} without a beam", f"generate decoder Tom {option}", 2, option.split()[0], "add --beam 4")
        for option in ("--show-beams", "--length-penalty 1")
    ),
    *(
        Bad(f"greedy and {option}", f"generate decoder Tom --temperature 0 {option} 2", 2, option, "raise the temp")
        for option in ("--top-k", "--num-samples", "--seed")
    ),
    Bad("trace of several texts", "generate decoder Tom --trace --num-samples 2", 2, "--trace", "leave --num-samples"),
    Bad("prefix of a continuation", "generate decoder Tom --prefix One", 2, "--prefix", "end the prompt with it"),
    Bad("prefix without room", "generate encoder-decoder gato --prefix One --max-new-tokens 1", 2, "prefix", "shorten"),
    Bad("joint without masks", "generate decoder Tom --joint", 2, "--joint", "leave it out"),
    Bad("empty stop text", "generate decoder Tom --stop", 2, "--stop ''", "give it a text", ""),
    Bad("prompt and --prompts", "generate decoder Tom --prompts two.txt", 2, "--prompts", "leave one of the two"),
    Bad("--prompts and asking", "generate decoder -i --prompts two.txt", 2, "--interactive", "leave one of the two"),
    Bad("prompts that are not there", "generate decoder --prompts no.txt", 2, "no file 'no.txt'", "check the path"),
    Bad("prompts that are a folder", "generate decoder --prompts folder", 2, "folder is a folder", "name a file"),
    Bad("an empty file of prompts", "generate decoder --prompts empty.txt", 2, "holds no prompt", "a prompt a line"),
    Bad(
        "prompts that are no UTF-8",
        "generate decoder --prompts latin1.txt",
        1,
        "latin1.txt is not valid UTF-8: byte 3 is 0xe9, in line 1",
        "save it as UTF-8",
    ),
    Bad(
        "prompts that are no JSON", "generate decoder --prompts bad.jsonl", 1, "Line 3 of bad.jsonl is not", '{"prompt"'
    ),
    Bad(
        "JSON without a prompt",
        "generate decoder --prompts other.jsonl",
        1,
        "Line 2 of other.jsonl has no",
        '{"prompt"',
    ),
    Bad(
        "half a character in JSON",
        "generate decoder --prompts half.jsonl",
        1,
        "Line 1 of half.jsonl: the text",
        "UTF-8",
    ),
    Bad(
        "no mask in a file",
        "generate encoder --prompts two.txt",
        2,
        "Line 1 of two.txt: the prompt",
        "put <mask> where",
    ),
    *(
        Bad(f"encoder with {option}", f"generate encoder a<mask> {option} 2", 2, option, "leave it out")
        for option in ("--beam", "--num-samples", "--max-new-tokens", "--temperature", "--stop", "--prefix")
    ),
    *(
        Bad(f"translator with {option}", f"generate encoder-decoder gato {option}", 2, word, "add --temperature 1")
        for option in ("--top-k 2", "--top-p 0.5", "--num-samples 2", "--top-k 2 --temperature 0")
        for word in option.split()[:1]
    ),
    Bad("prompt and --interactive", "generate decoder Tom --interactive", 2, "--interactive", "leave one of the two"),
    Bad("prompt longer than a decoder's context", "generate decoder", 2, "context of 32", "shorten", LONG),
    Bad("prompt longer than an encoder's context", "generate encoder", 2, "context is 32", "shorten", f"<mask> {LONG}"),
    Bad("prompt longer than a translator's context", "generate encoder-decoder", 2, "32", "shorten", LONG),
    Bad("text with no mask", "generate encoder", 2, "has no <mask>", "put <mask> where", "no mask here"),
    Bad("no prompt for an encoder", "generate encoder", 2, "needs a prompt", "give a text"),
    Bad("empty source", "generate encoder-decoder", 2, "is empty", "give it a sentence", ""),
    Bad("no such run", "generate nowhere Tom", 2, "no run 'nowhere'", "there are "),
    Bad("a folder that is no run", "generate folder Tom", 2, "holds no run", "there are "),
    Bad("no such checkpoint", "evaluate decoder --checkpoint 7", 2, "'7'", "choose best, last"),
    Bad("no such head", "inspect attention decoder Tom --head 0.9", 2, "layer 0 has heads 0 to 1", "--head 0.1"),
    Bad("a head without its layer", "inspect attention decoder Tom --head 1", 2, "names no layer", "--head 0.1"),
    Bad("attention that is not there", "inspect attention decoder Tom --kind cross", 2, "cross", "decoder_self"),
    Bad("truncated weights", "generate truncated Tom", 1, "model.safetensors is truncated", "restore"),
    Bad("swapped weights", "generate swapped Tom", 1, "model.safetensors", "restore the run's own"),
    Bad("another tokenizer in the run", "generate mismatched Tom", 1, "not the tokenizer", "restore the run's own"),
    Bad("damaged config", "evaluate damaged", 1, "config.json is not valid JSON", "restore"),
    Bad(
        "prepared with another tokenizer",
        f"train --data prepared --set tokenizer.path=encoder-decoder {TINY}",
        2,
        "prepared with another tokenizer",
        "use that tokenizer",
    ),
    Bad(
        "text where pairs are needed", f"train --arch encoder-decoder --data prepared {TINY}", 2, "holds text", "pairs"
    ),
    Bad("folder of another run", f"train --out decoder {TINY}", 2, "holds a run with", "choose another --out"),
    Bad("folder of something else", f"train --out folder {TINY}", 2, "holds no run", "choose another --out"),
    Bad("output that is a file", f"train --out two.txt {TINY}", 2, "is a file", "choose another"),
    Bad("output below a file", f"train --out two.txt/run {TINY}", 2, "is a file", "choose another"),
    Bad(
        "picture in the place of a folder",
        "inspect attention decoder Tom --svg folder",
        2,
        "is a folder",
        "name a file",
    ),
    Bad("tokenizer below a file", "tokenize train two.txt --out two.txt/t.json", 2, "is a file", "choose another"),
    Bad(
        "prepared below a file", "prepare two.txt --tokenizer decoder --out two.txt/d", 2, "is a file", "choose another"
    ),
    Bad("dataset of something else", "prepare two.txt --tokenizer decoder --out folder", 2, "folder", "choose another"),
    Bad("resume with other settings", "train --resume decoder --size tiny", 2, "takes no other", "--init"),
    Bad("resume nothing", "train --resume nowhere", 2, "no run 'nowhere'", "there are "),
    Bad("id outside the vocabulary", "tokenize decode decoder 5 99999", 2, "99999", "use ids from 0"),
    Bad("an id of 5,000 digits", f"tokenize decode decoder {'9' * 5000}", 2, "…' is no token id", "whole numbers"),
    Bad("a name that is no UTF-8", "train --out runs/\udcff", 2, r"'runs/\udcff' is not valid UTF-8", "rename it"),
    Bad("a prompt that is no UTF-8", "generate decoder T\udcffm", 2, r"'T\udcffm' is not valid UTF-8", "in UTF-8"),
    Bad("a recipe with NaN as JSON", "recipes show nan.toml --json", 2, "learning_rate = NaN", "recipes show"),
    Bad("a word for an id", "tokenize decode decoder five", 2, "'five'", "whole numbers"),
    Bad("positions of a million heads", "inspect positions --encoding alibi --heads 1000000", 2, "--heads", "128"),
    Bad("positions of a million sizes", "inspect positions --d-model 1000000 --compare", 2, "--d-model", "512"),
    Bad("a million positions", "inspect positions --length 1000000", 2, "--length", "4096"),
    Bad("positions without end", "inspect positions --base inf", 2, "--base inf", "finite base above 1"),
    Bad("positions of one run twice", "inspect positions --compare decoder ./decoder", 2, "with itself", "once"),
    Bad("positions explained without end", "explain positions --base inf", 2, "--base inf", "finite base above 1"),
    Bad("positions of a long text", "explain positions", 2, "has 100 words", "shorten", LONG),
    Bad("draws by the billion", "inspect scaling --queries 100000 --keys 10000", 2, "1,000,000,000", "lower one"),
    Bad("heads on no text", "inspect heads encoder", 2, "The text is empty", "a few words", ""),
    Bad("losses of no text", "inspect losses encoder", 2, "The text is empty", "a few words", ""),
    Bad("too many beams", "inspect attention decoder Tom --beam 100000", 2, "--beam", "1000"),
    Bad(
        "a text too long to go on from",
        "explain decoding --run decoder",
        2,
        "the context holds 32",
        "shorten the text",
        LONG,
    ),
    Bad(
        "a measurement too large",
        "inspect cost --size tiny --length 1048576 --batch 65536 --measure",
        2,
        "--measure measures, and --length 1048576 with --batch 65536",
        "leave --measure out",
    ),
    Bad("heads that do not divide", "inspect cost --size tiny --heads 3", 2, "--heads 3 does not", "divisors"),
    Bad("heads too large", "inspect cost --size tiny --heads 2 --length 1048576", 2, "--heads measures", "lower"),
    Bad("a head and itself", f"{HEAD} --against-head 0.1", 2, "--against-head 0.1", "name another one"),
    Bad("a run and itself", f"{HEAD} --against-run ./decoder", 2, "--against-run", "name another one"),
    Bad("a text and itself", f"{HEAD} --against-text Tom", 2, "--against-text", "name another one"),
    Bad("weights and themselves", f"{HEAD} --against-checkpoint best", 2, "--against-checkpoint", "another one"),
    Bad("no report of training", "inspect training unreported", 2, "metrics.jsonl holds no report", "restore"),
    Bad("half a recipe", "inspect tokens half Tom", 1, "The recipe half/recipe.toml is not valid", "restore it"),
    Bad("half a formula", "inspect positions --d-model 8 --heads 3", 2, "not divisible", "choose a multiple"),
    Bad("formula and run", "inspect positions decoder --base 100", 2, "its own positions", "leave --base out"),
]


@pytest.fixture(scope="module")
def workspace(trained: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good runs beside all the bad files that the table names."""
    folder = tmp_path_factory.mktemp("bad")
    for architecture in ("decoder", "encoder", "encoder-decoder"):
        shutil.copytree(trained(architecture), folder / architecture)
    for broken in ("truncated", "swapped", "mismatched", "damaged", "unreported", "half"):
        shutil.copytree(trained("decoder"), folder / broken)
    weights = folder / "truncated" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    shutil.copy(folder / "encoder" / "model.safetensors", folder / "swapped")
    shutil.copy(folder / "encoder-decoder" / "tokenizer.json", folder / "mismatched")
    (folder / "damaged" / "config.json").write_text('{"format_version": 2,')
    (folder / "unreported" / "metrics.jsonl").write_text('{"event": "st')
    (folder / "half" / "recipe.toml").write_text("[model")
    (folder / "folder").mkdir()
    (folder / "empty").mkdir()
    (folder / "folder" / "note.txt").write_text("mine\n")
    (folder / "empty.txt").touch()
    (folder / "binary.txt").write_bytes(bytes(range(256)) * 4)
    (folder / "latin1.txt").write_bytes("caf\xe9 au lait\n".encode("latin-1"))
    (folder / "one-column.tsv").write_text("one\ntwo\n")
    (folder / "two.txt").write_text("one line of text\nand another one\n")
    (folder / "three.txt").write_text("um\ndois\ntrês\n")
    (folder / "bad.jsonl").write_text('{"prompt": "Tom"}\n\n{"prompt": "Tom"\n')
    (folder / "other.jsonl").write_text('{"prompt": "Tom"}\n{"text": "Tom"}\n')
    (folder / "half.jsonl").write_text('{"prompt": "T\\ud800"}\n')
    (folder / "unknown-key.toml").write_text("[train]\nstep = 5\n")
    (folder / "nan.toml").write_text("[train]\nlearning_rate = nan\n")
    (folder / "broken.toml").write_text("[train\n")
    prepared = tfcli("prepare", folder / "two.txt", "--tokenizer", folder / "decoder", "--out", folder / "prepared")
    assert prepared.exit_code == 0, prepared.stderr
    return folder


@pytest.mark.parametrize("bad", TABLE, ids=lambda bad: bad.name)
def test_one_sentence_the_exit_code_and_nothing_touched(bad: Bad, workspace: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(workspace)
    before = snapshot(workspace)

    result = tfcli(*bad.command.split(), *([] if bad.text is None else [bad.text]), "--quiet")

    assert result.exit_code == bad.exit_code, result.stderr
    assert result.stdout == ""
    [sentence] = result.stderr.splitlines()
    assert sentence.startswith("tfcli: ")
    assert sentence.endswith(".")
    assert bad.problem in sentence
    assert bad.remedy in sentence.partition(bad.problem)[2]
    assert snapshot(workspace) == before


@pytest.mark.parametrize(
    "command", [f"train --out locked/run {TINY}", "prepare two.txt --tokenizer decoder --out locked/data"]
)
def test_an_unwritable_folder_is_refused_before_any_work(
    command: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
):
    """The permission is faked, for the tests may run as root, to whom every folder is open."""
    locked = workspace / "locked"
    locked.mkdir(exist_ok=True)
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "locked" and allowed(path, mode))
    monkeypatch.chdir(workspace)

    result = tfcli(*command.split(), "--quiet")

    assert result.exit_code == 2
    assert "not writable; choose another output folder" in result.stderr
    assert list(locked.iterdir()) == []


def test_a_fault_of_the_program_is_a_sentence_too(monkeypatch: pytest.MonkeyPatch):
    def fault(path: Path) -> dict[str, str]:
        raise ValueError("the unforeseen")

    monkeypatch.setattr("tfcli.recipe.loading.read_toml", fault)
    result = tfcli("recipes", "list")
    assert result.exit_code == 1
    assert result.stderr == "tfcli: tfcli has a fault: ValueError: the unforeseen; --debug shows where it happened.\n"
    debugged = tfcli("recipes", "list", "--debug")
    assert debugged.exit_code == 1
    assert "Traceback" in debugged.stderr
    assert debugged.stderr.endswith(result.stderr)


def test_a_full_disk_is_a_sentence(monkeypatch: pytest.MonkeyPatch):
    def full(path: Path) -> dict[str, str]:
        raise OSError(28, "No space left on device", "metrics.jsonl")

    monkeypatch.setattr("tfcli.recipe.loading.read_toml", full)
    result = tfcli("recipes", "list")
    assert result.exit_code == 1
    assert "No space left on device (metrics.jsonl); check" in result.stderr


def test_a_prompt_that_is_no_utf8_on_stdin(trained: Callable[[str], Path]):
    result = tfcli("generate", trained("decoder"), "-", "--max-new-tokens", "2", "--json", stdin=b"Tom\nAn\xffna\n")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["prompt"] == "Tom"
    assert "Line 2 on stdin is not valid UTF-8 (byte 2 is 0xff); convert it to UTF-8." in result.stderr
