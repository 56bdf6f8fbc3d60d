"""Finding runs and telling each in a line, damaged ones too, without reading a weight."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.run_folders import PARAMETERS, falling, write_run
from tfcli.errors import BrokenInputError, UsageError
from tfcli.files import read_json, write_json
from tfcli.runs.config import count_numbers
from tfcli.runs.directory import RunDirectory, find_runs, held, is_held
from tfcli.runs.load import load_run
from tfcli.runs.metrics import read_evaluations, read_history
from tfcli.runs.overview import summarize

STATE = "checkpoints/step-000040/state.json"
LONG = {"train": {"steps": 400}}


def header(**changed: object) -> bytes:
    """A safetensors file of one number, with another header."""
    tensor = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], **changed}
    written = json.dumps({"a": tensor}).encode()
    return len(written).to_bytes(8, "little") + written + bytes(4)


def test_runs_are_found_some_levels_deep_and_other_folders_passed_over(tmp_path: Path):
    for place in ("a", "group/b", "group/day/c", "one/level/too/deep"):
        write_run(tmp_path / place)
    write_run(tmp_path / "a" / "inside-a-run")
    write_run(tmp_path / ".hidden")
    (tmp_path / "notes").mkdir()
    (tmp_path / "file.txt").touch()
    (tmp_path / "notes" / "all").symlink_to(tmp_path)
    found = [str(run.path.relative_to(tmp_path)) for run in find_runs(tmp_path)]
    assert found == ["a", "group/b", "group/day/c"]
    assert [run.path for run in find_runs(tmp_path / "a")] == [tmp_path / "a"]


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="There is no folder"):
        find_runs(tmp_path / "missing")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is a file"):
        find_runs(tmp_path / "file")


def test_a_summary_says_how_far_a_run_came(tmp_path: Path):
    run = write_run(tmp_path / "a", falling(200), LONG, finished=False)
    summary = summarize(RunDirectory(run))
    assert (summary.name, summary.state, summary.architecture) == (str(run), "interrupted", "decoder")
    assert (summary.step, summary.total_steps, summary.tokens) == (200, 400, 200 * 1024)
    assert summary.parameters == PARAMETERS
    assert summary.seconds == pytest.approx(20.0)
    losses = {event.step: event.loss for event in falling(200) if type(event).__name__ == "Evaluated"}
    assert summary.best_loss == min(losses.values())
    assert losses[summary.best_step or 0] == summary.best_loss
    assert 0 <= summary.age_seconds < 60


def test_steps_are_counted_behind_the_last_checkpoint_too(tmp_path: Path):
    run = write_run(tmp_path / "run", falling(200), LONG, finished=False)
    saved = (run / "checkpoints" / "step-000200").rename(run / "checkpoints" / "step-000150")
    write_json(saved / "state.json", {**read_json(saved / "state.json"), "step": 150})
    assert summarize(RunDirectory(run)).step == 200


def test_states_are_told_apart(tmp_path: Path):
    done = RunDirectory(write_run(tmp_path / "done", falling(40)))
    going = RunDirectory(write_run(tmp_path / "going", falling(40), LONG, finished=False))
    assert summarize(done).state == "finished"
    with held(going):
        assert summarize(going).state == "running"
    assert summarize(going).state == "interrupted"


def test_asking_for_the_lock_leaves_it_to_its_holder_and_is_waited_for(tmp_path: Path):
    run = RunDirectory(write_run(tmp_path / "run", falling(40)))
    with held(run):
        assert is_held(run)
        assert is_held(run)  # the first question has not taken it away
    assert not is_held(run)
    pytest.importorskip("fcntl", reason="who asks is pretended with it")
    asking = f"import fcntl, time\nfile = open({str(run.config)!r})\nfcntl.flock(file, fcntl.LOCK_SH)\n"
    asking += "print('asked', flush=True)\ntime.sleep(0.01)\n"
    with subprocess.Popen([sys.executable, "-c", asking], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n"
        with held(run):  # not refused: who asks is gone in an instant
            assert is_held(run)


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("recipe.toml", b"model = [", "is not valid TOML"),
        ("recipe.toml", b"[train]\nstepz = 3\n", "'train.stepz' is not a recipe key"),
        ("recipe.toml", b"\xff\xfe", "is not valid TOML"),
        ("model.safetensors", b"", "is no safetensors file"),
        ("model.safetensors", b"\xff" * 64, "is no safetensors file"),
        ("model.safetensors", b"\x02" + b"\0" * 7 + b"[]", "is no safetensors file"),
        ("model.safetensors", None, "is no safetensors file"),
        (STATE, b"{", "is not valid JSON"),
        (STATE, b"[]", "state.json is damaged (it holds no JSON object)"),
        (
            STATE,
            b'{"format_version": 3, "step": "forty"}',
            "state.json is damaged at step: ",
        ),
        (STATE, b'{"format_version": 3, "step": 41}', "it is of step 41"),
        (
            STATE,
            b'{"format_version": 3, "step": 40, "pending_loss": NaN}',
            "is not finite",
        ),
        (
            STATE,
            b'{"format_version": 3, "step": 1e400}',
            "state.json is damaged at step: ",
        ),
        ("metrics.jsonl", b'{"event": "step", "step": 1}\n[1]\n', "metrics.jsonl is damaged in line 2"),
        ("metrics.jsonl", b"[" * 100_000 + b'"evaluated"\n', "metrics.jsonl is damaged in line 1"),
        ("metrics.jsonl", b'{"event": "step", "step": ' + b"9" * 400 + b"}\n", "metrics.jsonl is damaged in line 1"),
        ("model.safetensors", header(dtype="I32"), "'a' is of the type I32, and weights are floating-point"),
        ("model.safetensors", header(shape=[10**400]), "is no safetensors file"),
    ],
)
def test_a_damaged_run_is_told_in_words(file: str, content: bytes | None, words: str, tmp_path: Path):
    run = write_run(tmp_path / "run", falling(40))
    (run / file).unlink()
    if content is not None:
        (run / file).write_bytes(content)
    summary = summarize(RunDirectory(run))
    assert summary.state == "damaged"
    assert words in (summary.problem or "")


def test_a_last_line_cut_short_leaves_what_is_known(tmp_path: Path):
    run = write_run(tmp_path / "run", falling(40))
    (run / "metrics.jsonl").write_bytes(b"\xff\x00 nothing")
    summary = summarize(RunDirectory(run))
    assert (summary.state, summary.step, summary.best_loss) == ("finished", 40, None)


def test_the_header_counts_what_the_model_counts(trained: Callable[[str], Path]):
    """Against PyTorch's own parameters, a tied matrix once."""
    run = trained("decoder")
    assert count_numbers(run / "model.safetensors") == load_run(run).model.num_parameters()


def test_a_header_that_lies_is_refused(tmp_path: Path):
    path = tmp_path / "model.safetensors"
    for header in (b'{"a": {"shape": "four"}}', b'{"a": 3}', b"[" * 20_000):
        path.write_bytes(len(header).to_bytes(8, "little") + header)
        with pytest.raises(BrokenInputError):
            count_numbers(path)


def test_landmarks_are_those_of_the_whole_history(tmp_path: Path):
    run = write_run(tmp_path / "run", falling(300))
    whole, quick = read_history(run / "metrics.jsonl"), read_evaluations(run / "metrics.jsonl")
    assert quick.training == whole.training[-1:]
    assert [(p.step, p.loss) for p in quick.validation] == [(p.step, p.loss) for p in whole.validation]
    assert quick.best is not None and whole.best is not None
    assert quick.best.step == whole.best.step
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"event": "step", "step": 31')  # a kill
    assert read_evaluations(run / "metrics.jsonl") == quick


def test_a_history_by_hand(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    lines = [
        {"event": "step", "step": 10, "tokens": 100, "seconds": 2.0, "loss": 3.0, "padding": 0.1},
        {"event": "evaluated", "step": 10, "tokens": 50, "loss": 2.5, "accuracy": 0.5, "of": "moving_average"},
        {"event": "changed", "step": 10, "key": "train.steps", "from": 20, "to": 40},
        {"event": "step", "step": 20, "tokens": 200, "seconds": 4.0, "loss": None, "padding": 0.3, "spike": True},
        {"event": "evaluated", "step": 25, "tokens": 50, "loss": 2.5},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    history = read_history(path)
    assert [(p.step, p.loss, p.spike) for p in history.training] == [(10, 3.0, False), (20, None, True)]
    # An evaluation counts its own tokens and seconds; those of training are the last report's.
    assert [(p.step, p.tokens, p.seconds, p.scored_tokens) for p in history.validation] == [
        (10, 100, 2.0, 50),
        (25, 200, 4.0, 50),
    ]
    assert history.padding == pytest.approx(0.2)
    assert history.validation[0].of == "moving_average"
    [change] = history.changes
    assert (change.step, change.key, change.from_, change.to) == (10, "train.steps", 20, 40)
    assert history.best is not None
    assert history.best.step == 10  # the first of equal ones


def test_summaries_need_no_torch(tmp_path: Path):
    write_run(tmp_path / "run", falling(40))
    code = (
        "import sys\nfrom pathlib import Path\nfrom tfcli.runs.directory import find_runs\n"
        "from tfcli.runs.overview import summarize\n"
        f"print(*(summarize(run).state for run in find_runs(Path({str(tmp_path)!r}))))\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["finished", "False"], done.stderr
