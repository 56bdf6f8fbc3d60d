"""Help: of every command, at 80 columns, with all that the contract names, and quick."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

from tests.cli.commands import tfcli
from tests.support.app import app
from tfcli.cli import main
from tfcli.recipe.data import DataSection, TokenizerSection
from tfcli.recipe.model import ModelSection

# The signatures that the commands promise: arguments as their names stand in the usage line.
CONTRACT = {
    "tokenize train": "SOURCE --algorithm --vocab-size --out --json --seed",
    "tokenize encode": "TOKENIZER|RUN TEXT|- --json",
    "tokenize decode": "TOKENIZER|RUN ID|- --json",
    "tokenize compare": "TOKENIZER|RUN --on --seed --json",
    "data report": "SOURCE --tokenizer --pairs --near --ngram --set --seed --csv --svg --html --json",
    "prepare": "SOURCE --tokenizer --out --pairs --split --validation --seed --json",
    "train": "--arch --data --preset --size --recipe --set --init --out --dry-run --resume --log"
    " --seed --device --threads --json",
    "plan": "SOURCE --minutes --arch --set --out --check --seed --device --threads --json",
    "generate": "RUN PROMPT|- --prompts --interactive --batch-size --max-new-tokens --num-samples --stop --prefix"
    " --beyond-context --joint --temperature --top-k --top-p --min-p --repetition-penalty --no-repeat-ngram --seed"
    " --steer --at --strength --trace --beam --length-penalty --show-beams --checkpoint --precision --device"
    " --threads --json",
    "evaluate": "RUN SOURCE --stride --pseudo --beam --compare --outputs --references --checkpoint --precision"
    " --device --threads --json",
    "inspect attention": "RUN TEXT --target --beam --kind --layer --head --average --rollout --scores --top-k --rows"
    " --columns --first --against-head --against-text --against-run --against-checkpoint --evolution --csv --svg"
    " --html --npz --scale --checkpoint --json",
    "inspect heads": "RUN TEXT --target --kind --layer --head --sort --find --csv --svg --html --checkpoint"
    " --device --threads --json",
    "inspect predictions": "RUN TEXT --target --position --top-k --csv --svg --html --checkpoint --device"
    " --threads --json",
    "inspect lens": "RUN TEXT --target --position --top-k --csv --svg --html --checkpoint --device --threads --json",
    "inspect losses": "RUN TEXT --target --csv --svg --html --checkpoint --device --threads --json",
    "inspect circuits": "RUN TOKEN --head --kind --neuron --on --csv --svg --html --checkpoint --device"
    " --threads --json",
    "inspect steer": "RUN TEXT --from --to --at --out --on --csv --svg --html --checkpoint --device --threads --json",
    "inspect embeddings": "RUN TOKEN --word --on --csv --svg --html --checkpoint --device --threads --json",
    "inspect probe": "RUN --for --on --word --evolution --csv --svg --html --checkpoint --device --threads --json",
    "inspect attribution": "RUN TEXT --target --position --method --token --against --csv --svg --html --checkpoint"
    " --device --threads --json",
    "inspect ablate": "RUN TEXT --target --position --token --against --with --on --csv --svg --html --checkpoint"
    " --device --threads --json",
    "inspect patch": "RUN --clean --corrupt --target --position --token --against --noising --path --kind --csv --svg"
    " --html --checkpoint --device --threads --json",
    "inspect positions": "RUN --encoding --compare --shift --loss --length --d-model --heads --base --layout --side"
    " --csv --svg --html --json",
    "inspect equivariance": "RUN --text --perturb --permutations --arch --preset --size --set --checkpoint --device"
    " --threads --seed --csv --svg --html --json",
    "explain attention": "TEXT --run --layer --head --kind --target --d-model --heads --score --projection --cosines"
    " --notation --seed --checkpoint --device --threads --csv --svg --html --json",
    "explain masking": "TEXT --run --layer --head --target --d-model --heads --notation --seed --checkpoint --device"
    " --threads --csv --svg --html --json",
    "explain layer": "TEXT --run --layer --kind --target --d-model --heads --norm-placement --shapes --notation --seed"
    " --checkpoint --device --threads --csv --svg --html --json",
    "explain positions": "TEXT --run --d-model --length --base --notation --seed --checkpoint --csv --svg --html"
    " --json",
    "inspect model": "RUN --arch --preset --size --recipe --set --csv --svg --html --json",
    "inspect cost": "RUN --arch --preset --size --recipe --set --length --batch --heads --against --measure --threads"
    " --csv --svg --html --json",
    "inspect recurrent": "TEXT --steps --seed --threads --csv --svg --html --json",
    "inspect scaling": "--queries --keys --seed --csv --svg --html --json",
    "inspect gradients": "RUN TEXT --arch --preset --size --recipe --set --target --seed --csv --svg --html --json",
    "inspect training": "RUN --json --csv --svg --html",
    "explain decoding": "TEXT --run --temperature --top-k --top-p --beam --steps --seed --checkpoint --device"
    " --threads --json --csv --svg --html",
    "inspect tokens": "RUN TEXT --checkpoint --json --csv --svg --html",
    "embed": "RUN TEXT|- --pool --layer --npz --checkpoint --device --threads --json --csv",
    "inspect neighbours": "RUN TOKEN --top-k --matrix --checkpoint --json --csv --svg --html",
    "explore": "RUN TEXT --target --checkpoint --device --threads",
    "import": "FOLDER|hf:NAME --out --tokenizer --json",
    "export": "RUN --format --out --checkpoint --json",
    "run": "RECIPE --set --out --check --log --seed --device --threads --json",
    "runs list": "FOLDER --sort --json",
    "runs show": "RUN --csv --svg --json",
    "runs compare": "RUN --by --csv --svg --html --json",
    "bench train": "--arch --preset --size --recipe --set --steps --against --seed --device --threads --json",
    "bench generate": "--arch --preset --size --recipe --set --batch --prompt-tokens --max-new-tokens --beam"
    " --rounds --precision --against --seed --device --threads --json",
    "bench data": "SOURCE --tokenizer --context --rounds --against --threads --json",
    "bench patch": "--arch --preset --size --recipe --set --tokens --rounds --seed --device --threads --json",
    "lectures show": "LECTURE|IDEA --json",
    "lectures run": "LECTURE|IDEA --runs",
    "verify": "RUN --checkpoint --device --threads --json",
    "doctor": "--report --json",
    "cache list": "--json",
    "cache prune": "--older-than --all --dry-run --json",
    "recipes list": "--json",
    "recipes show": "RECIPE --json",
    "recipes keys": "WORD --json",
    "completion": "bash|zsh|fish",
}
EVERYWHERE = "--color --quiet --verbose --debug --help"
HEAVY = {"torch", "datasets", "tokenizers", "transformers", "pydantic", "numpy", "pyarrow", "safetensors"}


def commands() -> set[str]:
    group = typer.main.get_command(app)
    found = set()
    for name, command in group.commands.items():
        below = getattr(command, "commands", None)
        found |= {f"{name} {sub}" for sub in below} if below else {name}
    return found


def test_the_contract_knows_every_command():
    assert commands() == set(CONTRACT)


@pytest.mark.parametrize("command", CONTRACT)
def test_help_names_every_option_of_the_contract(command: str):
    result = tfcli(*command.split(), "--help")
    assert result.exit_code == 0
    words = set(result.stdout.replace("[", " ").replace("]", " ").replace("{", " ").replace("}", " ").split())
    assert not {*CONTRACT[command].split(), *EVERYWHERE.split()} - words
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize("command", CONTRACT)
def test_help_keeps_what_stands_in_brackets_and_the_examples_apart(command: str):
    """Rich's markup would swallow "[:config]", and re-flow the examples that every command has."""
    result = tfcli(*command.split(), "--help")
    assert f"  tfcli {command}" in result.stdout
    if "SOURCE" in CONTRACT[command].split()[:1]:
        assert "hf:owner/name[:config][@split]" in result.stdout


@pytest.mark.parametrize("command", ["tokenize", "inspect", "bench", "recipes"])
def test_a_group_alone_shows_its_help(command: str):
    result = tfcli(*command.split())
    assert "Usage:" in result.stdout + result.stderr
    assert result.exit_code == 2


def test_tfcli_alone_begins_with_three_commands():
    result = tfcli()
    assert result.exit_code == 0
    begin, _, rest = (result.stdout + result.stderr).partition("Options")
    lines = [line.split() for line in begin.splitlines() if line.strip().startswith("tfcli ")]
    assert [line[1] for line in lines] == ["run", "train", "explain"]
    assert all(name in rest for name in commands() if " " not in name)


def test_version():
    assert tfcli("--version").stdout.startswith("tfcli ")


@pytest.mark.parametrize("arguments", [[], ["train"], ["inspect", "attention"]], ids=" ".join)
def test_help_leaves_everything_heavy_unloaded(arguments: list[str]):
    code = (
        "import sys\nfrom tfcli.cli.main import main\n"
        f"sys.argv = ['tfcli', *{arguments}, '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*sorted(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage: tfcli" in done.stdout
    # Typer itself takes pydantic to read a command's parameters, and for nothing else.
    assert (HEAVY - {"pydantic"} if arguments else HEAVY).isdisjoint(done.stderr.split())
    assert "tfcli.cli.main" in done.stderr.split()


def test_help_that_loads_no_command_is_that_of_all_commands(capsys: pytest.CaptureFixture[str]):
    shown = []
    for wanted in (None, "", "train"):
        with pytest.raises(SystemExit):
            main.commands(wanted)(["--help"], prog_name="tfcli")
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] == shown[2]
    assert "Score a run: loss" in shown[0]


def test_help_takes_at_most_twice_the_time_of_importing_what_draws_it(tmp_path: Path):
    """Minima of runs taken in turns: a busy machine slows single runs, hardly ever all of them.

    Bytecode is cached for both, as where tfcli is installed; the first turn writes it.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(tmp_path)

    def seconds(*command: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL, env=environment)
        return time.perf_counter() - began

    ours, least = [], []
    for turn in range(30):
        ours.append(seconds("-c", "from tfcli.cli.main import main; main()", "--help"))
        least.append(seconds("-c", "import typer, rich.console"))
        if turn >= 5 and min(ours) <= 2 * min(least):
            return
    raise AssertionError(f"help took {min(ours):.3f} s, the imports alone {min(least):.3f} s")


@pytest.mark.parametrize(
    ("command", "option", "default"),
    [
        ("tokenize train", "--algorithm", TokenizerSection.algorithm),
        ("tokenize train", "--vocab-size", TokenizerSection.vocab_size),
        ("tokenize train", "--seed", DataSection.seed),
        ("prepare", "--seed", DataSection.seed),
        ("inspect positions", "--base", f"{ModelSection.position_base:.0f}"),
    ],
)
def test_defaults_that_help_shows_are_those_of_the_recipe(command: str, option: str, default: object):
    """Help leaves the sections unloaded, to be quick, so it says their defaults itself."""
    described = " ".join(tfcli(*command.split(), "--help").stdout.replace("│", " ").split())
    assert f"[default: ({default})]" in described.rpartition(f" {option} ")[2].partition(" --")[0]
