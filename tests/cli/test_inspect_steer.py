"""`inspect steer` and `generate --steer`, from the command line."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from tests.cli.commands import tfcli
from tests.support.runs import ARCHITECTURES, tiny_recipe, train_tiny

PROMPTS = {"decoder": "Tom ", "encoder": "the c<mask>t", "encoder-decoder": "o gato"}
SETS = ("--from", "o livro", "--to", "a casa", "--to", "ele vende casas")


def made(run: Path, folder: Path, *options: str) -> Path:
    """A vector of a run."""
    out = folder / "v.safetensors"
    done = tfcli("inspect", "steer", run, *SETS, "--out", out, *options)
    assert done.exit_code == 0, done.stderr
    assert f"Wrote {out}" in done.stderr
    return out


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_vector_is_made_and_steers(trained: Callable[[str], Path], architecture: str, tmp_path: Path):
    run, prompt = trained(architecture), PROMPTS[architecture]
    vector = made(run, tmp_path, "--at", "0")
    with safe_open(vector, framework="np") as file:
        about, direction = file.metadata(), file.get_tensor("direction")
    assert (about["at"], about["texts"], direction.shape) == ("0", "1 from, 2 to", (16,))
    assert float(about["norm"]) == pytest.approx(float((direction**2).sum()) ** 0.5, rel=1e-4)
    how = ("generate", run, prompt, "--json", *(("--max-new-tokens", "12") if architecture != "encoder" else ()))
    plain = tfcli(*how).stdout
    assert tfcli(*how, "--steer", vector, "--strength", "0").stdout == plain
    steered = tfcli(*how, "--steer", vector, "--strength", "8")
    assert steered.exit_code == 0 and steered.stdout != plain
    assert tfcli(*how, "--steer", vector, "--strength", "8", "--at", "0").stdout == steered.stdout
    assert tfcli(*how, "--steer", vector, "--strength", "8", "--at", "1").stdout != steered.stdout
    assert tfcli(*how, "--steer", vector).stdout == tfcli(*how, "--steer", vector, "--strength", "1").stdout


def test_what_is_shown_is_what_generate_writes(trained: Callable[[str], Path], tmp_path: Path):
    """At every strength; and the forms of the result say the same."""
    run, svg, page = trained("decoder"), tmp_path / "s.svg", tmp_path / "s.html"
    command = ("inspect", "steer", run, "Mia ", *SETS, "--at", "1")
    done = tfcli(*command, "--out", tmp_path / "v.safetensors", "--json", "--svg", svg, "--html", page)
    shown = json.loads(done.stdout)
    for row in shown["strengths"]:
        how = ("--temperature", "0", "--max-new-tokens", "32", "--strength", str(row["strength"]), "--json")
        text = json.loads(tfcli("generate", run, "Mia ", "--steer", tmp_path / "v.safetensors", *how).stdout)
        assert text["text"] == row["text"]
    rows = list(csv.DictReader(tfcli(*command, "--csv").stdout.splitlines()))
    changes = [row[name]["change"] for row in shown["strengths"] for name in ("loss", "to_tokens", "from_tokens")]
    assert [float(row["change"]) for row in rows] == changes
    assert (shown["prompt"], shown["at"], shown["separation"]) == ("Mia ", "1", None)
    assert "Steering behind layer 1" in svg.read_text() and "Steering behind layer 1" in page.read_text()
    assert "behind layer 1 of the decoder" in tfcli(*command).stdout


def test_sets_are_texts_and_the_lines_of_files(trained: Callable[[str], Path], tmp_path: Path):
    file = tmp_path / "to.txt"
    file.write_text("a casa\n\nele vende casas\na casa\n", encoding="utf-8")
    command = ("inspect", "steer", trained("decoder"), "--json")
    by_file = json.loads(tfcli(*command, "--from", "o livro", "--to", file).stdout)
    assert by_file == json.loads(tfcli(*command, *SETS).stdout)
    assert by_file["texts"] == [1, 2]
    on = tmp_path / "on.txt"
    on.write_text("Tom swam.\n" * 3)
    other = json.loads(tfcli(*command, *SETS, "--on", on).stdout)
    assert f"of {on}" in other["measured_on"]


BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "both": (("Tom", "Tom"), "The texts of --from and those of --to have the same mean; give sets that differ."),
    "typo": (("x.txt", "Tom"), "There is no file 'x.txt'; check the path."),
    "layer": (("Tom", "Mia", "--at", "2"), "This decoder has no layer '2'; choose one of 0, 1."),
    "long": (("Tom" * 30, "Mia"), "--from: the text has 91 tokens and the context holds 32; shorten the text."),
    "empty": (("", "Mia"), "--from: the text '' has only special and unknown tokens; give a few words."),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_sets_are_refused_in_a_sentence(trained: Callable[[str], Path], name: str, tmp_path: Path):
    (away, to, *options), said = BAD[name]
    out = tmp_path / "v.safetensors"
    refused = tfcli("inspect", "steer", trained("decoder"), "--from", away, "--to", to, *options, "--out", out)
    assert (refused.exit_code, refused.stderr.splitlines()[-1]) == (2, f"tfcli: {said}")
    assert not refused.stdout and not out.exists()


def test_a_line_of_a_file_is_told_by_its_number_and_the_file_is_not_written_over(
    trained: Callable[[str], Path], tmp_path: Path
):
    file = tmp_path / "texts.txt"
    file.write_text("Tom\n" + "Mia " * 20 + "\n")
    refused = tfcli("inspect", "steer", trained("decoder"), "--from", "Ned", "--to", file)
    assert refused.exit_code == 2 and f"Line 2 of {file}: the text has 81 tokens" in refused.stderr
    file.write_text("Tom\n")
    refused = tfcli("inspect", "steer", trained("decoder"), "--from", "Ned", "--to", file, "--out", file)
    assert refused.exit_code == 2 and "is a source that this command reads" in refused.stderr
    assert file.read_text() == "Tom\n"
    file.write_text("\n")
    refused = tfcli("inspect", "steer", trained("decoder"), "--from", "Ned", "--to", file)
    assert refused.exit_code == 2 and f"{file} holds no text; write a text a line." in refused.stderr


def test_a_vector_of_another_model_is_refused(trained: Callable[[str], Path], tmp_path: Path):
    vector, run = made(trained("encoder"), tmp_path), trained("decoder")
    refused = tfcli("generate", run, "Tom", "--steer", vector)
    assert (refused.exit_code, len(refused.stderr.splitlines())) == (2, 1)
    assert refused.stderr.startswith(f"tfcli: {vector} was made of another run than {run}")
    refused = tfcli("generate", run, "Tom", "--steer", run / "model.safetensors")
    assert refused.exit_code == 2 and "is no steering vector of 16 numbers" in refused.stderr
    for options in (("--at", "0"), ("--strength", "2")):
        refused = tfcli("generate", run, "Tom", *options)
        assert refused.exit_code == 2 and "and it is not given; add --steer VECTOR" in refused.stderr
    own = made(run, tmp_path)
    for options, said in ((("--at", "7"), "no layer '7'"), (("--strength", "nan"), "--strength nan is out of range")):
        refused = tfcli("generate", run, "--interactive", "--steer", own, *options)
        assert refused.exit_code == 2 and said in refused.stderr and ">" not in refused.stderr


def test_a_vector_of_other_weights_of_the_run_is_remarked_on(trained: Callable[[str], Path], tmp_path: Path):
    """By their steps; one without a step, of before, is taken as it is."""
    train_tiny(tiny_recipe("decoder", {"train": {"keep_checkpoints": 3}}), run := tmp_path / "run")
    vector = made(run, tmp_path, "--checkpoint", "4")
    with safe_open(vector, framework="np") as file:
        about, direction = file.metadata(), file.get_tensor("direction")
    assert about["step"] == "4"
    how = ("generate", run, "Tom", "--max-new-tokens", "2", "--steer", vector)
    done = tfcli(*how, "--checkpoint", "last")
    assert (
        done.exit_code == 0 and f"{vector} was made of the weights of step 4, and these are of step 12" in done.stderr
    )
    assert "these are of step" in tfcli(*how).stderr  # the best are those of step 12
    assert "these are of step" not in tfcli(*how, "--checkpoint", "0004").stderr
    save_file({"direction": direction}, vector, {name: value for name, value in about.items() if name != "step"})
    assert "these are of step" not in tfcli(*how).stderr


def test_texts_come_from_stdin_once_and_from_no_folder(trained: Callable[[str], Path], tmp_path: Path):
    command = ("inspect", "steer", trained("decoder"), "--json")
    by_stdin = tfcli(*command, "--from", "o livro", "--to", "-", stdin="a casa\nele vende casas\n")
    assert by_stdin.stdout == tfcli(*command, *SETS).stdout
    for twice in (("steer", "--from", "-", "--to", "-"), ("patch", "--clean", "-", "--corrupt", "-")):
        refused = tfcli("inspect", twice[0], trained("decoder"), *twice[1:], stdin="Tom")
        assert refused.exit_code == 2 and "Stdin can be read once, and - stands twice; give" in refused.stderr
    refused = tfcli(*command, "--from", tmp_path, "--to", "Mia")
    assert refused.exit_code == 2 and f"--from {tmp_path} is a folder; name a file" in refused.stderr
