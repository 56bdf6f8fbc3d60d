"""What people type who know other programs is answered with the line to type here, and is not run."""

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer

from tests.cli.commands import snapshot, tfcli
from tests.support.app import app
from tfcli.console.corrections import HABITS
from tfcli.recipe.keys import find_keys, key_meant, known_words, meanings


@pytest.fixture
def runs(trained: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a run called x, another one called y, and a text."""
    (tmp_path / "runs").mkdir()
    for name in ("x", "y"):
        (tmp_path / "runs" / name).symlink_to(trained("decoder"))
    (tmp_path / "mytext.txt").write_text("One day Tom swam across the river.\n" * 200)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed_lines(stderr: str) -> list[str]:
    """The lines between backticks that begin with a program."""
    return [line for line in re.findall(r"`([^`]+)`", stderr) if re.match(r"tfcli |for |CUDA_", line)]


def require_accepted(line: str) -> None:
    """Parse a line as typer does, without running it; raises what typer finds wrong."""
    command = typer.main.get_command(app)
    words = shlex.split(line)
    assert words.pop(0) == "tfcli"
    context = command.make_context("tfcli", words)
    while hasattr(command, "commands"):
        rest = [*context._protected_args, *context.args]
        if not rest:
            return
        name, command, rest = command.resolve_command(context, rest)
        if not rest and hasattr(command, "commands"):
            return
        context = command.make_context(name, rest, parent=context)


def lines_of_shell(line: str) -> list[str]:
    """What a line of the shell calls tfcli with, as lines that can be read again."""
    stub = 'tfcli() { printf "%q " tfcli "$@"; printf "\\n"; }\n'
    done = subprocess.run(["bash", "-c", stub + line], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


TYPED = [
    ("train --minutes 3", "tfcli plan --minutes 3"),
    ("train mytext.txt --minutes=3", "tfcli plan mytext.txt --minutes 3"),
    ("run quickstart --minutes 3", "tfcli plan --minutes 3"),
    ("train mytext.txt --seeds 3", "for seed in 1 2 3; do tfcli train mytext.txt --seed $seed; done"),
    ("run quickstart --seeds 4,7", "for seed in 4 7; do tfcli run quickstart --seed $seed; done"),
    ("sweep mytext.txt", "for rate in 1e-3 3e-4; do tfcli train mytext.txt --lr $rate; done"),
    ("quantize runs/x", "tfcli generate runs/x --precision int8"),
    ("serve runs/x --port 80", "tfcli generate runs/x --interactive"),
    ("compare runs/x runs/y", "tfcli runs compare runs/x runs/y"),
    ("resume runs/x", "tfcli train --resume runs/x"),
    ("resume", "tfcli train --resume last"),
    ("benchmark", "tfcli bench train"),
    ("chat runs/x", "tfcli generate runs/x --interactive"),
    ("chat --model runs/x --temp 0.3", "tfcli generate runs/x --interactive --temperature 0.3"),
    ("chat", "tfcli generate last --interactive"),
    ("tokenize Hello", "tfcli tokenize encode last Hello"),
    ("tokenize 'Hello there' --json", "tfcli tokenize encode last 'Hello there' --json"),
    ("tokenize mytext.txt", "tfcli tokenize train mytext.txt --out tokenizer.json"),
    ("tokenize 'my book.txt'", "tfcli tokenize train 'my book.txt' --out tokenizer.json"),
    ("tokenize runs/x Hello", "tfcli tokenize encode runs/x Hello"),
    ("train --arch gpt", "tfcli train --arch decoder"),
    ("train --arch=decoder-only mytext.txt", "tfcli train --arch=decoder mytext.txt"),
    ("train --arch seq2seq", "tfcli train --arch encoder-decoder"),
    ("train --arch decodr", "tfcli train --arch decoder"),
    ("train --precision fp16", "tfcli train --precision bfloat16"),
    ("train --task ner", "tfcli train --task tag"),
    ("train --device gpu", "tfcli train --device auto"),
    ("generate runs/x --device cuda:1", "CUDA_VISIBLE_DEVICES=1 tfcli generate runs/x --device cuda"),
    ("finetune runs/x mytext.txt", "tfcli train mytext.txt --init runs/x"),
    ("finetune runs/x", "tfcli train --init runs/x"),
    ("train mytext.txt --lora", "tfcli train mytext.txt --set train.adapter=lora --init last"),
    (
        "train --init runs/x --lora --lora_r 4",
        "tfcli train --init runs/x --set train.adapter=lora --set train.adapter_rank=4",
    ),
    ("export runs/x 'my folder'", "tfcli export runs/x --out 'my folder'"),
    ("export runs/x", "tfcli export runs/x --out x-hf"),
    ("import folder runs/z", "tfcli import folder --out runs/z"),
    ("run quickstart mytext.txt", "tfcli run quickstart --set data.source=mytext.txt"),
    ("run runs/x 'hello you'", "tfcli generate runs/x 'hello you'"),
    ("train --src 'a b.de' --tgt a.en", "tfcli train 'a b.de,a.en'"),
    ("train --tgt a.en --src a.de --epochs 2", "tfcli train a.de,a.en --epochs 2"),
    ('generate runs/x --prompt "it\'s"', "tfcli generate runs/x 'it'\"'\"'s'"),
    ("generate --prompt x -m runs/x -n 30", "tfcli generate runs/x --max-new-tokens 30 x"),
    ("generate runs/x -p 'hi you' -t 2", "tfcli generate runs/x --threads 2 'hi you'"),
    ("sample runs/x --max_tokens 9 'Once upon'", "tfcli generate runs/x --max-new-tokens 9 'Once upon'"),
    ("translate 'Good day'", "tfcli generate last 'Good day'"),
    ("infer mytext.txt", "tfcli generate last --prompts mytext.txt"),
    ("eval runs/x", "tfcli evaluate runs/x"),
    ("test", "tfcli evaluate last"),
    ("ls", "tfcli runs list"),
    ("runs ls", "tfcli runs list"),
    ("recipes ls", "tfcli recipes list"),
    ("info runs/x", "tfcli runs show runs/x"),
    ("runs runs/x", "tfcli runs show runs/x"),
    ("recipes quickstart", "tfcli recipes show quickstart"),
    ("recipes char", "tfcli recipes keys char"),
    ("visualize runs/x 'It fell'", "tfcli inspect attention runs/x 'It fell'"),
    ("attention 'It fell'", "tfcli explain attention 'It fell'"),
    ("explain It fell", "tfcli explain attention 'It fell'"),
    ("inspect 'It fell'", "tfcli inspect attention last 'It fell'"),
    ("heads runs/x", "tfcli inspect heads runs/x"),
    ("show runs/x", "tfcli runs show runs/x"),
    ("download openai-community/gpt2", "tfcli import hf:openai-community/gpt2"),
    ("pull gpt2", "tfcli import hf:gpt2"),
    ("convert runs/x", "tfcli export runs/x --out x-hf"),
    ("push runs/x", "tfcli export runs/x --out x-hf"),
    ("scan-cache", "tfcli cache list"),
    ("env", "tfcli doctor"),
    ("quickstart", "tfcli run quickstart"),
    ("mytext.txt", "tfcli train mytext.txt"),
    ("runs/x", "tfcli runs show runs/x"),
    ("'Once upon a time'", "tfcli generate last 'Once upon a time'"),
    ("--seed 3 train", "tfcli train --seed 3"),
    ("train --fp16 mytext.txt", "tfcli train --precision bfloat16 mytext.txt"),
    ("train mytext.txt --no-cuda", "tfcli train mytext.txt --device cpu"),
    ("train --gpu", "tfcli train --device auto"),
    ("train --cuda 0 mytext.txt", "tfcli train --device auto mytext.txt"),
    ("train --model_name gpt2 --num_epochs 3", "tfcli train --preset gpt2 --epochs 3"),
    ("train --checkpoint_dir out/x", "tfcli train --out out/x"),
    ("train --batch_size 3 --block_size 64 --n_embd 64", "tfcli train --batch-size 3 --context 64 --d-model 64"),
    (
        "train --save_dir 'my run' --learning_rate 0.1 --lr_scheduler cosine --warmup 100",
        "tfcli train --out 'my run' --lr 0.1 --set train.schedule=cosine --set train.warmup_steps=100",
    ),
    ("generate --checkpoint_dir runs/x --num_beams 4", "tfcli generate runs/x --beam 4"),
    ("trian mytext.txt --epohs 3", "tfcli train mytext.txt --epochs 3"),
    ("train mytext.txt --seeds 0 1 2", "for seed in 0 1 2; do tfcli train mytext.txt --seed $seed; done"),
    ("sweep mytext.txt --lr 1e-3,.1", "for rate in 1e-3 .1; do tfcli train mytext.txt --lr $rate; done"),
    (
        "sweep mytext.txt --lr 1e-3 3e-4 --epochs 2",
        "for rate in 1e-3 3e-4; do tfcli train mytext.txt --epochs 2 --lr $rate; done",
    ),
    ("download openai-community/gpt2 --local-dir x", "tfcli import hf:openai-community/gpt2 --out x"),
    ("fairseq-train mytext.txt --max-update 5", "tfcli train mytext.txt --steps 5"),
    ("finetune_lora runs/x", "tfcli train --init runs/x --set train.adapter=lora"),
    ("main -m runs/x -p Hello -n 9", "tfcli generate runs/x --max-new-tokens 9 Hello"),
    ("run llama3 'why is the sky blue'", "tfcli generate last 'why is the sky blue'"),
]


@pytest.mark.parametrize(("typed", "line"), TYPED)
def test_it_is_answered_with_the_line_to_type_which_is_accepted(typed: str, line: str, runs: Path):
    before = snapshot(runs)
    result = tfcli(*shlex.split(typed))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert f"`{line}`." in result.stderr, result.stderr
    assert snapshot(runs) == before, "nothing becomes a second command"
    for called in lines_of_shell(line):
        require_accepted(called)


def test_a_model_of_the_hub_takes_two_lines(runs: Path):
    result = tfcli("finetune", "hf:openai-community/gpt2", "mytext.txt")
    assert result.exit_code == 2
    assert result.stderr == (
        "tfcli: No such command 'finetune'; type `tfcli import hf:openai-community/gpt2 --out runs/gpt2`, then "
        "`tfcli train mytext.txt --init runs/gpt2`.\n"
    )


def test_without_a_run_the_answer_says_how_to_make_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    result = tfcli("chat")
    assert result.exit_code == 2
    assert result.stderr == (
        "tfcli: No such command 'chat'; type `tfcli run quickstart` for a run, then "
        "`tfcli generate last --interactive`.\n"
    )


def test_several_unknown_options_are_answered_together():
    result = tfcli("train", "--epohs", "3", "--n_embd", "64", "--fp16")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "tfcli: No such options: --epohs, --n_embd, --fp16; --epohs: did you mean --epochs; "
        "--n_embd: it is called model.d_model: --d-model 64; "
        "--fp16: it is called train.precision: --precision bfloat16; "
        "type `tfcli train --epochs 3 --d-model 64 --precision bfloat16`.\n"
    )


@pytest.mark.parametrize("typed", ["--json", "-p Hello", "-m model.gguf -p Hello -n 128"])
def test_options_without_a_command_are_refused(typed: str):
    result = tfcli(*typed.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("tfcli: No such option")
    assert result.stderr.endswith("see `tfcli --help`.\n")


def test_a_model_of_the_hub_cannot_be_pretrained_but_trained_further(runs: Path):
    result = tfcli("pretrain", "EleutherAI/pythia-14m")
    assert printed_lines(result.stderr) == [
        "tfcli import hf:EleutherAI/pythia-14m --out runs/pythia-14m",
        "tfcli train --init runs/pythia-14m",
    ]


def test_an_option_that_was_typed_twice_is_answered_once():
    result = tfcli("train", "--wibble", "--wibble", "--wibble")
    assert result.stderr == (
        "tfcli: No such option: --wibble; see `tfcli train --help`, or `tfcli recipes keys wibble`.\n"
    )


def test_a_long_text_is_quoted_in_part():
    result = tfcli("generate", "runs/x", "--prompt", "n" * 10_000)
    assert result.exit_code == 2
    assert "n" * 80 + "…" in result.stderr and "n" * 81 not in result.stderr


def test_several_unknown_keys_are_answered_together():
    result = tfcli("train", "--set", "n_embd=64", "--set", "wibble=3", "--set", "train.steps=5")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "tfcli: 'n_embd', 'wibble' are not recipe keys; n_embd: it is called model.d_model: --d-model 64, or "
        "--set model.d_model=64 (`tfcli recipes keys d_model` says more); "
        "wibble: find it with `tfcli recipes keys wibble`.\n"
    )


def test_of_several_options_one_that_nobody_knows_gets_no_line_and_the_others_their_remedy():
    result = tfcli("train", "--wibble", "3", "--n_embd", "64")
    assert result.exit_code == 2
    assert result.stderr == (
        "tfcli: No such options: --wibble, --n_embd; --wibble: see `tfcli train --help`, or "
        "`tfcli recipes keys wibble`; --n_embd: it is called model.d_model: --d-model 64.\n"
    )


@pytest.mark.parametrize("typed", ["serve", "quantize", "sweep", "train --seeds 3"])
def test_what_tfcli_does_not_have_is_said_to_be_missing(typed: str, runs: Path):
    result = tfcli(*typed.split())
    assert result.exit_code == 2
    assert "; the nearest that tfcli has: `" in result.stderr


def every_habit() -> Iterator[tuple[str, str]]:
    """The first word of each row of the table, with each kind of word after it."""
    after = {
        "run": "runs/x",
        "file": "mytext.txt",
        "hf": "hf:openai-community/gpt2",
        "recipe": "quickstart",
        "sentence": "'Once upon a time'",
        "none": "",
        "any": "wibble",
    }
    for section in ("commands", "missing-commands"):
        for names, lines in HABITS[section].items():
            for kind in lines:
                yield names.split()[0], after[kind]
    for group, lines in HABITS["groups"].items():
        for kind in lines:
            yield group, after[kind]
    for kind in HABITS["first-word"]["word"]:
        yield "", after[kind]


@pytest.mark.parametrize(("command", "word"), every_habit())
def test_every_row_of_the_table_leads_to_lines_that_are_accepted(command: str, word: str, runs: Path):
    result = tfcli(*shlex.split(f"{command} {word}"))
    assert (result.exit_code, result.stdout) == (2, "")
    lines = printed_lines(result.stderr)
    assert lines, result.stderr
    for line in lines:
        for called in lines_of_shell(line):
            require_accepted(called)


def test_a_word_has_one_row():
    words = [
        word for section in ("commands", "missing-commands") for names in HABITS[section] for word in names.split()
    ]
    assert len(words) == len(set(words))
    assert not {*words} & {*typer.main.get_command(app).commands}


@pytest.mark.parametrize(
    ("typed", "begins"),
    [
        ("version", "tfcli "),
        ("-v", "tfcli "),
        ("-V", "tfcli "),
        ("help", "Usage: tfcli [OPTIONS] COMMAND"),
        ("help train", "Usage: tfcli train"),
        ("help tokenize encode", "Usage: tfcli tokenize encode"),
        ("", "Usage: tfcli [OPTIONS] COMMAND"),
    ],
)
def test_version_and_help_do_what_they_say(typed: str, begins: str):
    result = tfcli(*typed.split())
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.strip().startswith(begins)


def test_version_takes_no_options():
    result = tfcli("version", "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "tfcli: 'version' takes no options; type `tfcli version`.\n"


def test_help_of_what_is_no_command_is_answered_as_it_is(runs: Path):
    result = tfcli("help", "chat")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "No such command 'chat'" in result.stderr


def test_no_hint_names_a_key_of_the_result_section():
    for word in ("minutes", "reached", "machine", "date", "result.minutes", "minuts"):
        assert not any(meant.name.startswith("result.") for meant in meanings(word))
        meant = key_meant(word)[1]
        assert meant is None or not meant.name.startswith("result.")
    assert "reached" not in known_words()


@pytest.mark.parametrize(
    ("assignment", "remedy"),
    [
        (
            "result.minutes=3",
            "'result.minutes' is a record of what a run has reached, and is not set; leave it out, or",
        ),
        ("minutes=3", "'minutes' is not a recipe key; find what fits into a time: `tfcli plan --minutes 3`."),
        ("train.max_minutes=3", "find what fits into a time: `tfcli plan --minutes 3`."),
    ],
)
def test_a_time_is_a_matter_of_plan(assignment: str, remedy: str):
    result = tfcli("train", "--set", assignment, "--dry-run")
    assert (result.exit_code, result.stdout) == (2, "")
    assert remedy in result.stderr


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("char", "tokenizer.algorithm"),
        ("muon", "train.optimizer"),
        ("cosine", "train.schedule"),
        ("rotary", "model.positions"),
    ],
)
def test_a_value_leads_to_the_key_that_takes_it(value: str, key: str):
    assert find_keys(value)[0].name == key


def test_a_mistake_with_control_characters_is_escaped(runs: Path):
    result = tfcli("tokenize", "a\x1b[31mb\nc")
    assert result.exit_code == 2
    assert "\x1b" not in result.stderr and result.stderr.count("\n") == 1


def test_the_help_of_the_shell_is_not_changed_by_other_spellings(tmp_path: Path):
    """A file or a folder that is called so does not matter."""
    environment = {**os.environ, "COLUMNS": "80"}
    (tmp_path / "version").mkdir()
    done = subprocess.run(["tfcli", "version"], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"tfcli \d\S*\n", done.stdout)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("my book.epub", "pandoc 'my book.epub' -t plain -o 'my book.txt'"),
        ("a.pdf", "pdftotext a.pdf a.txt"),
        ("a.DOCX", "pandoc a.DOCX -t plain -o a.txt"),
        ("a.html", "pandoc a.html -t plain -o a.txt"),
    ],
)
@pytest.mark.parametrize("line", ["train FILE", "tokenize train FILE --out t.json", "data report FILE"])
def test_a_document_is_refused_with_a_converter(
    line: str, name: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("x")
    result = tfcli(*(name if word == "FILE" else word for word in line.split()))
    assert (result.exit_code, result.stdout) == (2, "")
    text = Path(name).with_suffix(".txt").name
    assert result.stderr == (
        f"tfcli: {name} is a document, and tfcli reads plain text; "
        f"make {text} of it, as with `{command}`, and name that.\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == [name]
