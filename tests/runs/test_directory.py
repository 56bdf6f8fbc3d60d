"""The run directory: what is where, what counts as a checkpoint, and what may be written over."""

from pathlib import Path

import pytest

from tfcli.errors import UsageError
from tfcli.files import replacing_folder
from tfcli.runs.directory import RunDirectory, claimed_run, existing_run


def checkpoint(run: RunDirectory, step: int, *, whole: bool = True) -> Path:
    folder = run.checkpoint(step)
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"w")
    if whole:
        (folder / "state.json").write_text("{}")
    return folder


def test_the_files_of_a_run_have_the_names_of_the_contract(tmp_path: Path):
    run = RunDirectory(tmp_path)
    files = [run.recipe, run.config, run.tokenizer, run.weights, run.metrics, run.data, run.readme]
    assert " ".join(str(file.relative_to(tmp_path)) for file in files) == (
        "recipe.toml config.json tokenizer.json model.safetensors metrics.jsonl data.json README.md"
    )
    assert run.checkpoint(250) == tmp_path / "checkpoints" / "step-000250"


def test_checkpoints_are_listed_by_step_and_not_by_name(tmp_path: Path):
    """As text, step-1000000 sorts before step-999999."""
    run = RunDirectory(tmp_path)
    assert run.checkpoints() == {}
    for step in (999_999, 1_000_000, 250):
        checkpoint(run, step)
    assert [*run.checkpoints()] == [250, 999_999, 1_000_000]
    assert run.checkpoints()[1_000_000] == tmp_path / "checkpoints" / "step-1000000"


def test_half_written_checkpoints_and_strangers_are_passed_over(tmp_path: Path):
    run = RunDirectory(tmp_path)
    checkpoint(run, 100)
    checkpoint(run, 200, whole=False)
    for name in (".step-000300.abc.tmp", ".step-000050.tmp", "step-best", "step-000400.old", "step-12"):
        stranger = tmp_path / "checkpoints" / name
        stranger.mkdir()
        (stranger / "state.json").write_text("{}")
    (tmp_path / "checkpoints" / "step-000500").write_text("a file")
    assert [*run.checkpoints()] == [100]


def test_pruning_keeps_what_it_is_told(tmp_path: Path):
    run = RunDirectory(tmp_path)
    for step in (30, 10, 20):
        checkpoint(run, step)
    run.prune({30})
    assert [*(tmp_path / "checkpoints").iterdir()] == [run.checkpoint(30)]


def test_pruning_finishes_what_an_interrupted_pruning_left(tmp_path: Path):
    """A kill between renaming and removing leaves a checkpoint that is never listed: it must not fill the
    disk for ever."""
    run = RunDirectory(tmp_path)
    for name in (".step-000010.tmp", ".step-000020.k3j2.tmp"):  # of a removal, of a save
        left_over = tmp_path / "checkpoints" / name
        left_over.mkdir(parents=True)
        (left_over / "model.safetensors").write_bytes(b"w")
    checkpoint(run, 20)
    checkpoint(run, 30)
    digits = "0123456789abcdef"
    names = (f".model.safetensors.{digits}.tmp", f".recipe.toml.{digits}.tmp", ".tmped6nrl")
    half = [tmp_path / name for name in names]
    of_the_user = [tmp_path / name for name in (".notes.tmp", ".tmp", ".tmp-of-mine")]
    for file in (*half, *of_the_user):
        file.write_bytes(b"w")
    run.prune({30})
    assert not any(file.exists() for file in half)
    assert all(file.exists() for file in of_the_user)
    assert [*(tmp_path / "checkpoints").iterdir()] == [run.checkpoint(30)]


def test_a_run_is_found_where_one_was_begun(tmp_path: Path):
    (tmp_path / "recipe.toml").write_text("")
    assert existing_run(tmp_path) == RunDirectory(tmp_path)
    assert RunDirectory(tmp_path).holds_run()


def test_what_is_no_run_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match=r"There is no run .*gone"):
        existing_run(tmp_path / "gone")
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match=r"There is no run .*file"):
        existing_run(tmp_path / "file")
    with pytest.raises(UsageError, match=r"it has no recipe\.toml"):
        existing_run(tmp_path)


def begin(out: Path | None, name: str = "decoder", runs: Path = Path("runs")) -> Path:
    """Claim a run and put one there."""
    with claimed_run(out, name, runs) as run, replacing_folder(run.path) as temporary:
        RunDirectory(temporary).recipe.write_text("")
    return run.path


def test_a_run_may_begin_in_a_new_or_an_empty_folder(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "new" / "run", tmp_path / "empty"):
        assert begin(out) == out
        assert RunDirectory(out).holds_run()


def test_a_run_never_begins_where_something_else_is(tmp_path: Path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(UsageError, match="is not empty and holds no run; choose another --out"):
        begin(tmp_path)
    with pytest.raises(UsageError, match="is a file; choose another --out"):
        begin(tmp_path / "thesis.tex")
    with pytest.raises(UsageError, match="is a file, not a folder; choose another output folder"):
        begin(tmp_path / "thesis.tex" / "run")
    assert (tmp_path / "thesis.tex").read_text() == "x"


def test_the_next_name_is_the_first_free_one(tmp_path: Path):
    assert begin(None, "decoder", tmp_path) == tmp_path / "decoder-1"
    for taken in ("decoder-3", "encoder-2"):
        (tmp_path / taken).mkdir()
    (tmp_path / "decoder-2").write_text("a file takes a name too")
    (tmp_path / "decoder-4").symlink_to(tmp_path / "gone")
    assert begin(None, "decoder", tmp_path) == tmp_path / "decoder-5"
    assert begin(None, "encoder", tmp_path) == tmp_path / "encoder-1"


def test_a_name_is_taken_as_soon_as_it_is_claimed_and_free_again_when_nothing_came_of_it(tmp_path: Path):
    with claimed_run(None, "decoder", tmp_path / "runs") as first:
        with claimed_run(None, "decoder", tmp_path / "runs") as second:
            assert (first.path.name, second.path.name) == ("decoder-1", "decoder-2")
        with (
            pytest.raises(UsageError, match=r"Another process is making .*decoder-1; wait until it has ended"),
            claimed_run(first.path, "decoder"),
        ):
            pytest.fail("it is held")
    assert [*tmp_path.iterdir()] == []
