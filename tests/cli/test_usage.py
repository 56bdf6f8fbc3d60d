"""A command line that cannot be read: one sentence with the value and the remedy, and exit code 2."""

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from tests.cli.commands import tfcli
from tests.support.app import app
from tfcli.console.usage import ways_to_write
from tfcli.recipe.keys import SYNONYMS, Meant
from tfcli.recipe.loading import build_recipe, parse_assignments
from tfcli.recipe.recipe import known_keys


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("train --size huge", "--size 'huge' is not one of 'tiny', 'mini', 'small', 'base'; see `tfcli train --help`"),
        ("train --size=huge", "--size 'huge' is not one of 'tiny', 'mini', 'small', 'base'; see `tfcli train --help`"),
        ("generate run --beam two", "--beam 'two' should be a valid integer; see `tfcli generate --help`"),
        ("generate run --beam 0", "--beam '0' should be greater than or equal to 1; see `tfcli generate --help`"),
        ("generate", "Missing argument 'RUN'; type `tfcli run quickstart` for a run, then `tfcli generate last`"),
        ("completion", "Missing argument 'bash|zsh|fish'; see `tfcli completion --help`"),
        ("tokenize train a.txt", "Missing option '--out'; type `tfcli tokenize train a.txt --out tokenizer.json`"),
        ("train --size", "Option '--size' requires an argument; see `tfcli train --help`"),
        ("train --quiet=3", "Option '--quiet' does not take a value; see `tfcli train --help`"),
        ("run a b", "Got unexpected extra argument(s) (b); see `tfcli run --help`"),
        ("train --siz tiny", "No such option: --siz; did you mean --size: `tfcli train --size tiny`"),
        ("train -x", "No such option: -x; see `tfcli train --help`, or `tfcli recipes keys x`"),
        ("trian", "No such command 'trian'; did you mean 'train': `tfcli train`"),
        ("tokenize encod", "No such command 'encod'; did you mean 'encode'"),
        ("nosuch", "No such command 'nosuch'; see `tfcli --help`"),
    ],
)
def test_what_is_wrong_and_where_to_look(command: str, sentence: str):
    result = tfcli(*command.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"tfcli: {sentence}.\n"


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        ("train --learning-rate 0.001", "train.learning_rate: "),
        ("train --learning-rate 0.001", ": `tfcli train --lr 0.001`."),
        ("train --n_embd=64", "it is called model.d_model: `tfcli train --d-model 64`."),
        ("train --max_iters 500", "`tfcli train --steps 500`."),
        ("train -bs 8", "`tfcli train --batch-size 8`."),
        ("train --bf16", "`tfcli train --precision bfloat16`."),
        ("train --optimizer adam", "--set train.optimizer=adamw"),
        ("train --set optimizer=adam", "--set train.optimizer=adamw"),
        ("train --gradient_checkpointing --json", "--set train.activation_checkpointing=true"),
        ("train --warmup_ratio 0.1", "--set train.warmup_steps=STEPS"),
        ("train --n_layer", "--layers LAYERS."),
        ("train --train.max_steps 5", "`tfcli train --steps 5`."),
        ("train --output_dir 'my run'", "`tfcli train --out 'my run'`."),
        ("train --dry_run", "did you mean --dry-run: `tfcli train --dry-run`."),
        ("train --model gpt2", "`tfcli train --preset gpt2`."),
        ("train --set 'train.dataset=a b.txt'", "--data 'a b.txt', or --set 'data.source=a b.txt'"),
        ("train --set train.lr=0.001", "train.learning_rate: "),
        ("train --set train.lr=0.001", "--set train.learning_rate=0.001"),
        ("train --set optimizer.lr=0.001", "--set train.learning_rate=0.001"),
        ("train --set random_seed=3", "--seed 3, or --set train.seed=3 (`tfcli recipes keys seed` says more)."),
        ("train --set train.save_dir=x", "it is called --out: --out x."),
        ("run quickstart --set train.max_iters=9", "--set train.steps=9"),
        ("inspect cost --n_head 3", "--heads 3"),
        ("generate run --max_length 30", "generate.max_new_tokens: `tfcli generate run --max-new-tokens 30`."),
        ("generate run --temp 0.5", "`tfcli generate run --temperature 0.5`."),
        ("generate --model runs/x", "write RUN without an option: `tfcli generate runs/x`."),
        ("generate run --prompt 'Hi you'", "`tfcli generate run 'Hi you'`."),
        ("evaluate run --data x.txt", "`tfcli evaluate run x.txt`."),
        # Names that are merely alike are another thing's.
        (
            "generate run --steps 3",
            "it sets train.steps, and has no effect in `tfcli generate`: `tfcli generate run`.",
        ),
        ("generate run --top 3", "see `tfcli generate --help`."),
        ("train --colr never", "did you mean --color: `tfcli train --color never`."),
        ("train --foo 3", "see `tfcli train --help`, or `tfcli recipes keys foo`."),
        ("train --set foo.=3", "'foo.' is not a recipe key; find it with `tfcli recipes keys`."),
        ("train --set foo=3", "'foo' is not a recipe key; find it with `tfcli recipes keys foo`."),
        ("eval run", "type `tfcli evaluate run`."),
        ("finetune", "type `tfcli run quickstart` for a run, then `tfcli train --init last`."),
        ("runs ls", "type `tfcli runs list`."),
    ],
)
def test_a_word_from_elsewhere_is_answered_with_the_one_here(command: str, meant: str):
    result = tfcli(*shlex.split(command))
    assert (result.exit_code, result.stdout) == (2, "")
    assert meant in result.stderr


@pytest.mark.parametrize("typed", ["--lr x", "--learning-rate x", "--epochs 0", "--set train.lr=1", "--set lr=1"])
def test_no_suggestion_crosses_meanings(typed: str):
    result = tfcli("train", *typed.split())
    assert result.exit_code == 2
    assert not any(other in result.stderr for other in ("--color", "--nproc", "log_every"))


@pytest.mark.parametrize(
    ("option", "key"),
    [
        ("--steps", "train.steps"),
        ("--batch-size", "train.batch_size"),
        ("--lr", "train.learning_rate"),
        ("--layers", "model.num_layers"),
        ("--heads", "model.num_heads"),
        ("--d-model", "model.d_model"),
        ("--context", "model.max_seq_len"),
        ("--dropout", "model.dropout"),
        ("--vocab-size", "tokenizer.vocab_size"),
        ("--precision", "train.precision"),
        ("--seed", "train.seed"),
        ("--data", "data.source"),
        ("--arch", "model.architecture"),
    ],
)
def test_an_option_that_a_command_has_comes_first(option: str, key: str):
    assert ways_to_write(Meant(key), "7", [option, "--set"]).startswith(f"{option} 7, or --set {key}=7 (")
    assert ways_to_write(Meant("train.log_every"), "7", [option]) == ""


def test_every_synonym_leads_to_what_there_is():
    """Keys of a recipe, options that some command has, and RUN, which is an argument of many."""
    commands = [typer.main.get_command(app)]
    for command in commands:
        commands += getattr(command, "commands", {}).values()
    options = {option for command in commands for parameter in command.params for option in parameter.opts}
    assert set(SYNONYMS) - {*known_keys(), *options, "RUN", "train.epochs"} == set()
    values = [(name, word.partition("=")[2]) for name, words in SYNONYMS.items() for word in words.split()]
    build_recipe(*(parse_assignments([f"{name}={value}"]) for name, value in values if value.islower() and "." in name))


def test_control_characters_in_it_are_escaped():
    result = tfcli("train", "--size", "\x1b[31m")
    assert "\x1b" not in result.stderr
    assert r"'\x1b[31m'" in result.stderr


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("train --data ''", "--data ''"),
        ("train --out ''", "--out ''"),
        ("train --out=", "--out ''"),
        ("train --recipe ''", "--recipe ''"),
        ("train --init ''", "--init ''"),
        ("train --resume ''", "--resume ''"),
        ("train --preset ''", "--preset ''"),
        ("train --set ''", "--set ''"),
        ("run ''", "RECIPE"),
        ("prepare '' --tokenizer t.json --out d", "SOURCE"),
        ("prepare a.txt '' --tokenizer t.json --out d", "SOURCE"),
        ("prepare a.txt --tokenizer '' --out d", "--tokenizer ''"),
        ("prepare a.txt --tokenizer t.json --out d --validation ''", "--validation ''"),
        ("tokenize train '' --out t.json", "SOURCE"),
        ("train --data ' '", "--data ' '"),
        ("tokenize encode '' text", "TOKENIZER|RUN"),
        ("tokenize compare t.json --on ''", "--on ''"),
        ("generate ''", "RUN"),
        ("generate run --prompts ''", "--prompts ''"),
        ("generate run --checkpoint ''", "--checkpoint ''"),
        ("evaluate ''", "RUN"),
        ("evaluate run ''", "SOURCE"),
        ("evaluate run --outputs ''", "--outputs ''"),
        ("inspect attention run text --svg ''", "--svg ''"),
        ("import ''", "FOLDER|hf:NAME"),
        ("export run --out ''", "--out ''"),
        ("runs list ''", "FOLDER"),
    ],
)
def test_an_empty_path_or_name_is_a_mistake(command: str, named: str):
    """`--data "$TEXT"` where TEXT is not set; it does not mean what is meant where nothing is said."""
    result = tfcli(*shlex.split(command))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"tfcli: {named} is empty, and names nothing; see `tfcli ")


DIGITS = "9" * 5000


@pytest.mark.parametrize(
    "command",
    [
        ["train", "--size", DIGITS],
        ["train", f"--size={DIGITS}"],
        ["train", f"--{DIGITS}"],
        [DIGITS],
        ["run", "a", DIGITS],
        ["train", "--preset", DIGITS],
        ["generate", "run", "--beam", DIGITS],
        ["generate", "run", "--max-new-tokens", DIGITS[:4000]],
        ["inspect", "attention", "run", "text", "--layer", DIGITS[:4000]],
        ["train", "--set", f"train.steps={DIGITS}"],
        ["train", "--set", DIGITS],
        ["prepare", f"builtin:{DIGITS}", "--tokenizer", "t.json", "--out", "d"],
        ["prepare", f"hf:{DIGITS}", "--tokenizer", "t.json", "--out", "d"],
    ],
)
def test_a_value_of_thousands_of_letters_is_quoted_in_part(command: list[str]):
    result = tfcli(*command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "…" in result.stderr
    assert "9" * 81 not in result.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["inspect", "attention", "RUN", "Tom", "--rows", f"{DIGITS}:"],
        ["inspect", "attention", "RUN", "Tom", "--head", "0.0", "--against-head", f"{DIGITS}.1"],
        ["inspect", "cost", "RUN", "--heads", DIGITS],
        ["inspect", "neighbours", "RUN", DIGITS],
        ["generate", "RUN", "Tom", "--checkpoint", DIGITS],
        ["tokenize", "decode", "RUN", DIGITS],
        ["evaluate", "RUN", f"builtin:{DIGITS}"],
        ["inspect", "positions", "--encoding", DIGITS],
    ],
)
def test_a_run_is_asked_with_thousands_of_digits(trained: Callable[[str], Path], options: list[str]):
    run = str(trained("decoder"))
    result = tfcli(*(run if word == "RUN" else word for word in options))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "9" * 81 not in result.stderr and "fault" not in result.stderr, result.stderr[:300]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("run NAME", "too long"),
        ("train --data NAME", "too long"),
        ("train --out NAME", "too long"),
        ("generate NAME x", "There is no run 'nnn"),
        ("export NAME --out x", "There is no run 'nnn"),
    ],
)
def test_a_name_that_no_file_can_have_is_wrong_before_any_work(command: str, words: str):
    result = tfcli(*command.replace("NAME", "n" * 300).split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr


@pytest.mark.parametrize(
    ("command", "quoted"),
    [
        ("inspect attention RUN Tom swam across --layer 0", "inspect attention RUN 'Tom swam across' --layer 0"),
        ('explain attention "it\'s" cold', "explain attention 'it'\"'\"'s cold'"),
        ("inspect lens RUN Tom --top-k 3 swam", None),
        ("runs show RUN another", None),
    ],
)
def test_a_text_without_quotes_is_shown_with_them(command: str, quoted: str | None):
    result = tfcli(*shlex.split(command))
    assert (result.exit_code, result.stdout) == (2, "")
    remedy = f"quote it: `tfcli {quoted}`.\n" if quoted else f"see `tfcli {' '.join(command.split()[:2])} --help`.\n"
    assert result.stderr.endswith(remedy)


@pytest.mark.parametrize("command", ["--help", "-h", "train --help", "tokenize encode -h", "--version"])
def test_help_and_version_are_no_errors(command: str):
    result = tfcli(*command.split())
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout


def test_a_text_on_stdin_that_never_ends_is_refused(trained: Callable[[str], Path]):
    result = tfcli("tokenize", "encode", trained("decoder"), "-", stdin=b" " * ((64 << 20) + 1))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "tfcli: The text on stdin is longer than 67,108,864 bytes; give it in parts.\n"


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_file_after_a_flag_is_not_read_as_a_text(form: str):
    result = tfcli("inspect", "heads", "last", f"--{form}", f"my heads.{form}", "--layer", "1")
    assert (result.exit_code, result.stdout) == (2, "")
    line = f"tfcli inspect heads last --{form} --layer 1 > 'my heads.{form}'"
    assert result.stderr == f"tfcli: --{form} writes to stdout, and takes no file; type `{line}`.\n"
