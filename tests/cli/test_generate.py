"""`tfcli generate`: prompts from everywhere, in batches, and what is shown of their texts."""

import io
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from tests.cli.commands import hears_signals, tfcli
from tests.corpora.helpers import write
from tests.support.checkpoints import save_checkpoint
from tfcli.console.stdin import LONGEST, lines_as_they_come
from tfcli.errors import BrokenInputError
from tfcli.generation.command import _stop_text

SHORT = ("--max-new-tokens", "3", "--json", "--quiet")


@pytest.fixture
def decoder(trained: Callable[[str], Path]) -> Path:
    return trained("decoder")


def answers(*arguments: object, stdin: str = "") -> list[dict]:
    result = tfcli("generate", *map(str, arguments), stdin=stdin)
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_prompts_are_the_same_from_arguments_stdin_a_file_and_json_lines(decoder: Path, tmp_path: Path):
    prompts = ["Tom", "Anna é went to", "One day,"]
    (tmp_path / "p.txt").write_bytes("\ufeffTom\r\n\n  \nAnna é went to\r\nOne day,".encode())
    lines = [json.dumps({"id": 1, "prompt": prompt}, ensure_ascii=number == 0) for number, prompt in enumerate(prompts)]
    (tmp_path / "p.jsonl").write_text("\n".join(lines), encoding="utf-8")
    given = answers(decoder, *prompts, *SHORT)
    assert [made["prompt"] for made in given] == prompts
    assert answers(decoder, "-", *SHORT, stdin="Tom\n\nAnna é went to\nOne day,\n") == given
    assert answers(decoder, "--prompts", tmp_path / "p.txt", *SHORT) == given
    assert answers(decoder, "--prompts", tmp_path / "p.jsonl", *SHORT) == given
    in_twos = answers(decoder, "--prompts", tmp_path / "p.jsonl", "--batch-size", "2", *SHORT)
    assert [made["token_ids"] for made in in_twos] == [made["token_ids"] for made in given]


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".bz2", ".xz"])
def test_a_file_of_prompts_may_be_compressed_as_a_source_may(decoder: Path, tmp_path: Path, suffix: str):
    given = answers(decoder, "Tom", "One day,", *SHORT)
    path = write(tmp_path / f"p.txt{suffix}", "\ufeffTom\r\n\nOne day,")
    assert answers(decoder, "--prompts", path, *SHORT) == given
    path = write(tmp_path / f"p.jsonl{suffix}", '{"prompt": "Tom"}\n{"prompt": "One day,"}\n')
    assert answers(decoder, "--prompts", path, *SHORT) == given
    path.write_bytes(path.read_bytes() * 2 + b"\x01")
    size = len(path.read_bytes()) // 2
    for command in (
        ("generate", decoder, "--prompts", path),
        ("inspect", "steer", decoder, "--from", path, "--to", "a"),
    ):
        refused = tfcli(*command)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert f"{path} has bytes after" in refused.stderr
        assert f"at byte {2 * size:,}" in refused.stderr


def test_a_file_of_prompts_is_read_like_a_source(decoder: Path, tmp_path: Path):
    """The same sentence as that of `tokenize train`, which reads sources."""
    for content in (b"Tom\none\x00two\n", b"Tom\n\xff\n"):
        path = write(tmp_path / "p.txt", content)
        sentences = {
            tfcli(*command).stderr
            for command in (
                ("generate", decoder, "--prompts", path),
                ("inspect", "steer", decoder, "--from", "Mia", "--to", path),
                ("tokenize", "train", path, "--out", tmp_path / "t.json"),
            )
        }
        assert len(sentences) == 1 and "in line 2" in sentences.pop()


def test_words_without_quotes_are_prompts_of_their_own_and_the_one_prompt_is_shown(decoder: Path):
    words = ("Once", "upon", "a", "time")
    result = tfcli("generate", decoder, *words, "--max-new-tokens", "2", "--color", "always")
    assert result.exit_code == 0
    assert all(f"\n\n\x1b[1m{word}\x1b[0m" in result.stdout for word in words[1:])
    [hint] = result.stderr.splitlines()
    assert "Each of these 4 words is a prompt of its own; for one prompt: " in hint
    assert f"tfcli generate {decoder} 'Once upon a time' --max-new-tokens 2 --color always" in hint
    for quoted in (["Once upon", "a time"], ["Once"], ["-"]):
        assert "of its own" not in tfcli("generate", decoder, *quoted, "--max-new-tokens", "2", stdin="a\nb\n").stderr


def test_a_mask_among_words_without_quotes_is_no_wall_and_has_any_usual_spelling(trained: Callable[[str], Path]):
    encoder = trained("encoder")
    refused = tfcli("generate", encoder, "Tom", "<mask>am", "across")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == (
        "tfcli: Each of these 3 words is a prompt of its own, and 'Tom' is none; "
        f"for one prompt: tfcli generate {encoder} 'Tom <mask>am across'.\n"
    )
    [own] = answers(encoder, "Tom <mask>am across", "--json")
    [other] = answers(encoder, "Tom [MASK]am across", "--json")
    row = tfcli(
        "inspect", "attention", encoder, "Tom [MASK]am across", "--query", "[MASK]", "--layer", "0", "--head", "0"
    )
    assert "where <mask> (" in row.stdout, "as the text has it, so has the option"
    assert other["predictions"] == own["predictions"]


def padded_run(folder: Path) -> Path:
    """An imported run whose last three rows of the head, which no token has, are far above all others."""
    done = tfcli("import", save_checkpoint(folder / "checkpoint", "llama"), "--out", folder / "run")
    assert done.exit_code == 0, done.stderr
    file = folder / "run/model.safetensors"
    with safe_open(file, "pt") as opened:
        metadata = opened.metadata()
    tensors = load_file(file)
    head = tensors["head.weight"]
    head[-3:] = 50 * torch.stack([head[0].sign(), -head[0].sign(), head[1].sign()])
    save_file(tensors, file, metadata)
    return folder / "run"


@pytest.mark.parametrize("recorded", [True, False], ids=["imported", "its config does not say it"])
def test_ids_that_no_token_has_never_come_and_nothing_dies_of_them(recorded: bool, tmp_path: Path):
    run = padded_run(tmp_path)
    if not recorded:
        config = json.loads((run / "config.json").read_text())
        config["roles"]["known"] = None
        (run / "config.json").write_text(json.dumps(config))
    for settings in (["--temperature", "0"], ["--num-samples", "4"], ["--beam", "3", "--num-samples", "3"]):
        for made in answers(run, "The cat", "sat", *SHORT, *settings):
            assert len(made["token_ids"]) == 3 and max(made["token_ids"]) < 266
    [traced] = answers(run, "The cat", *SHORT, "--trace", "--precision", "int8")
    assert all(option["token_id"] < 266 for step in traced["steps"] for option in step["options"])
    [tree] = answers(run, "The cat", *SHORT, "--beam", "2", "--show-beams")
    assert all(node["token_id"] < 266 for node in tree["nodes"])
    for inspect in ("predictions", "lens", "losses", "attribution"):
        result = tfcli("inspect", inspect, run, "The cat")
        assert result.exit_code == 0, result.stderr
    assert tfcli("explain", "decoding", "The cat", "--run", run).exit_code == 0


def test_the_last_place_of_the_context_predicts_too(decoder: Path):
    """The context is 32, and a prompt of 26 tokens with the begin token leaves the 27th to the 33rd."""
    context = 32
    for settings in ([], ["--beam", "2"], ["--num-samples", "2"], ["--beyond-context", "slide"]):
        for made in answers(decoder, "a" * 25, "a", "--json", "--max-new-tokens", 50, "--stop", "\n", *settings):
            if made["finish"] == "context":
                assert len(made["token_ids"]) == context + 1 - (1 + len(made["prompt"]))
    [made] = answers(decoder, "a" * 31, "--json", "--max-new-tokens", 9)
    assert (len(made["token_ids"]), made["finish"] in ("context", "end")) == (1, True)
    result = tfcli("generate", decoder, "a" * 32)
    assert result.exit_code == 2 and "leaves no room" in result.stderr


def test_a_prompt_of_json_lines_may_hold_line_ends_and_be_empty(decoder: Path, tmp_path: Path):
    (tmp_path / "p.jsonl").write_text('{"prompt": "a\\nb"}\n{"prompt": ""}\n')
    assert [made["prompt"] for made in answers(decoder, "--prompts", tmp_path / "p.jsonl", *SHORT)] == ["a\nb", ""]


def test_every_token_is_told_with_its_log_probability_and_why_the_text_ended(decoder: Path):
    [made] = answers(decoder, "Tom", *SHORT)
    assert list(made) == ["prompt", "text", "token_ids", "score", "log_probabilities", "finish", "threads"]
    assert made["threads"] == 1
    assert made["finish"] == "length"
    assert len(made["log_probabilities"]) == 3
    assert made["score"] == pytest.approx(sum(made["log_probabilities"]))


def test_a_stop_text_is_left_out_and_may_be_written_with_escapes(decoder: Path):
    [free] = answers(decoder, "One day", "--temperature", "0", "--json", "--quiet")
    word = free["text"].strip().split()[0]
    [cut] = answers(decoder, "One day", "--temperature", "0", "--stop", word[-1], "--json", "--quiet")
    assert cut["finish"] == "stop"
    assert cut["text"] == free["text"].partition(word[-1])[0]
    shown = tfcli("generate", decoder, "One day", "--temperature", "0", "--stop", word[-1])
    assert shown.stdout == f"One day{cut['text']}\n"
    assert _stop_text(r"a\n\t\r\\n\d") == "a\n\t\r\\n\\d"


def test_the_line_that_does_not_fit_is_named_before_any_work_or_behind_what_was_done(decoder: Path, tmp_path: Path):
    text = "Tom\nEva\n\n" + "word " * 100 + "\nBob\n"
    (tmp_path / "p.txt").write_text(text)
    refused = tfcli("generate", decoder, "--prompts", tmp_path / "p.txt", *SHORT)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert re.search(r"Line 4 of .*p\.txt: the prompt has \d+ tokens, .*; shorten it to 32", refused.stderr)
    from_pipe = tfcli("generate", decoder, "-", *SHORT, stdin=text)
    assert from_pipe.exit_code == 1
    assert [json.loads(line)["prompt"] for line in from_pipe.stdout.splitlines()] == ["Tom", "Eva"]
    assert "Line 4 on stdin: the prompt has" in from_pipe.stderr
    slid = tfcli("generate", decoder, "--prompts", tmp_path / "p.txt", "--beyond-context", "slide", *SHORT)
    assert len(slid.stdout.splitlines()) == 4


def test_one_prompt_that_does_not_fit_is_refused_before_the_others_are_answered(decoder: Path):
    result = tfcli("generate", decoder, "Tom", "word " * 100, *SHORT)
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize("architecture", ["decoder", "encoder-decoder"])
def test_a_trace_tells_every_step_with_its_candidates(architecture: str, trained: Callable[[str], Path]):
    run = trained(architecture)
    [made] = answers(run, "Tom", *SHORT)
    [traced] = answers(run, "Tom", "--trace", *SHORT)
    assert traced["generated"] | {"threads": traced["threads"]} == made
    assert [step["token_id"] for step in traced["steps"]] == made["token_ids"]
    for step in traced["steps"]:
        options = {option["token_id"]: option for option in step["options"]}
        assert options[step["token_id"]]["chance"] == step["chance"] > 0
    drawn = tfcli("generate", run, "Tom", "--trace", "--max-new-tokens", "3").stdout.splitlines()
    assert drawn[0].startswith("step token")
    assert max(map(len, drawn)) <= 80


@pytest.mark.parametrize("architecture", ["decoder", "encoder-decoder"])
def test_the_beams_that_are_shown_are_those_of_the_texts(architecture: str, trained: Callable[[str], Path]):
    run = trained(architecture)
    made = answers(run, "Tom", "--beam", "3", "--num-samples", "2", *SHORT)
    [tree] = answers(run, "Tom", "--beam", "3", "--num-samples", "2", "--show-beams", *SHORT)
    assert [text | {"threads": tree["threads"]} for text in tree["texts"]] == made
    assert [node["token_id"] for node in tree["nodes"] if node["chosen"]] == made[0]["token_ids"]
    shown = tfcli("generate", run, "Tom", "--beam", "3", "--show-beams", "--max-new-tokens", "3").stdout
    assert shown.startswith("Beam search")


@pytest.mark.parametrize("how", [["--trace"], ["--beam", "2", "--show-beams"], ["--num-samples", "2"]], ids=" ".join)
def test_no_picture_lets_control_characters_through(how: list[str], decoder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tfcli.console.terminal.is_terminal", lambda stream=None: True)
    shown = tfcli("generate", decoder, "a\x1b[31mb\x07\x9b", *how, "--max-new-tokens", "2").stdout
    assert r"\x1b[31mb\x07\x9b" in shown
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)


def test_a_masks_order_is_told_where_they_are_filled_jointly(trained: Callable[[str], Path]):
    [made] = answers(trained("encoder"), "Tom <mask> to the <mask>", "--joint", "--json")
    assert sorted(made["order"]) == [0, 1]
    [alone] = answers(trained("encoder"), "Tom <mask> to the <mask>", "--json")
    assert alone["order"] is None


def test_lines_come_as_they_are_written_and_waiting_is_told():
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as stream:
        lines = lines_as_they_come(stream, "on stdin")
        os.write(writer, b"one\ntwo\nthr")
        assert [next(lines), next(lines), next(lines)] == [("line 1 on stdin", "one"), ("line 2 on stdin", "two"), None]
        os.write(writer, b"ee\n")
        assert [next(lines), next(lines)] == [("line 3 on stdin", "three"), None]
        os.write(writer, b"\n \nlast")
        os.close(writer)
        assert [line for line in lines if line] == [("line 6 on stdin", "last")]


def test_a_line_without_end_is_refused_before_it_fills_the_memory():
    read: list[int] = []

    class Endless(io.BytesIO):
        def read1(self, size: int = -1, /) -> bytes:
            read.append(size)
            return b"a" * size

    with pytest.raises(BrokenInputError, match=r"Line 1 on stdin is longer than 1,048,576 bytes; break it"):
        list(lines_as_they_come(Endless(), "on stdin"))
    assert sum(read) <= LONGEST + max(read)


def started(*arguments: object, **streams: object) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "tfcli", "generate", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, preexec_fn=hears_signals, **{**pipes, **streams})


def test_a_slow_pipe_is_answered_line_by_line_and_ctrl_c_ends_it(decoder: Path):
    """An answer is there before the next prompt is written."""
    with started(decoder, "-", "--max-new-tokens", "1", stdin=subprocess.PIPE) as command:
        assert command.stdin is not None
        assert command.stdout is not None
        assert command.stderr is not None
        for prompt in (b"Tom", b"Anna"):
            command.stdin.write(prompt + b"\n")
            command.stdin.flush()
            answered, _, _ = select.select([command.stdout], [], [], 60)
            assert answered, "it waits for more prompts"
            assert command.stdout.readline().startswith(prompt)
        time.sleep(0.2)  # by then it waits: Python may miss a signal that comes just before a read begins
        command.send_signal(signal.SIGINT)
        assert command.wait(timeout=60) == 130
        assert command.stderr.read() == b"tfcli: Stopped; nothing is left half-written.\n"


@pytest.mark.parametrize("how", [["--json"], pytest.param([], marks=pytest.mark.slow)], ids=["json", "text"])
def test_a_reader_that_goes_ends_endless_prompts_quietly(how: list[str], decoder: Path):
    with Path("/dev/null").open("wb") as nowhere:
        endless = subprocess.Popen(["yes", "Tom"], stdout=subprocess.PIPE, stderr=nowhere)
        with endless, started(decoder, "-", "--max-new-tokens", "1", *how, stdin=endless.stdout) as command:
            assert command.stdout is not None
            assert command.stderr is not None
            assert b"Tom" in command.stdout.readline()
            command.stdout.close()
            assert command.wait(timeout=60) == 0
            assert command.stderr.read() == b""
            endless.kill()


@pytest.mark.slow
def test_a_full_disk_behind_stdout_is_a_sentence(decoder: Path):
    with Path("/dev/full").open("wb") as full:
        command = started(decoder, "Tom", "--max-new-tokens", "2", stdout=full)
        _, error = command.communicate(timeout=60)
    assert command.returncode == 1
    assert error == b"tfcli: No space left on device; check the path, its permissions and the space left.\n"
