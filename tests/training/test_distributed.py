"""Training in several processes is the training of one: the same losses, resumed by any number of them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.runs import Events, Settings, one_thread, resume_tiny, same, tiny_recipe, train_tiny, weights
from tests.support.workers import in_workers, resume_among, train_among
from tfcli.errors import TfcliError, UsageError
from tfcli.recipe.recipe import Recipe
from tfcli.records.runs import CheckpointSaved, Evaluated, StepsDone
from tfcli.runs.checkpoint import last_checkpoint
from tfcli.runs.directory import RunDirectory
from tfcli.runs.load import load_run
from tfcli.runs.metrics import read_metrics
from tfcli.runs.weights import model_tensors

BUSY: Settings = {
    "model": {"num_layers": 2},
    "train": {
        "steps": 6,
        "batch_size": 6,
        "grad_accumulation": 2,
        "evaluate_every": 3,
        "save_every": 3,
        "log_every": 1,
        "precision": "float32",
        "compile": "off",
    },
}
DROPOUT: Settings = {"model": {"dropout": 0.2}}
TIMES = ("seconds", "seconds_left", "tokens_per_second")
MEASURED = {"loss", "objective", "grad_norm", "weight_norms", "update_ratios"}
"""Sums of many numbers, which processes take in another order."""


@pytest.fixture(autouse=True)
def deterministic() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture(scope="module")
def alone(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each architecture by one process."""
    folder = tmp_path_factory.mktemp("alone")
    with one_thread():
        for architecture in ("decoder", "encoder", "encoder-decoder"):
            train_tiny(tiny_recipe(architecture, BUSY), folder / architecture)
    return {path.name: path for path in folder.iterdir()}


def busy(architecture: str = "decoder", parallel: str = "ddp", *settings: Settings) -> Recipe:
    return tiny_recipe(architecture, BUSY, {"train": {"parallel": parallel}}, *settings)


def figures(run: Path) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in line.items() if key not in TIMES} for line in read_metrics(run / "metrics.jsonl")
    ]


def require_same_curve(ours: Path, theirs: Path) -> None:
    lines = zip(figures(ours), figures(theirs), strict=True)
    for line, other in lines:
        assert line.keys() == other.keys()
        assert {key: line[key] for key in line if key not in MEASURED} == {
            key: other[key] for key in other if key not in MEASURED
        }
        for key in MEASURED & line.keys():
            close = other[key] if other[key] is None else pytest.approx(other[key], rel=1e-4, abs=1e-5)
            assert line[key] == close


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
@pytest.mark.parametrize(("architecture", "size"), [("decoder", 4), ("encoder", 2), ("encoder-decoder", 2)])
def test_the_losses_are_those_of_one_process(
    tmp_path: Path, alone: dict[str, Path], architecture: str, size: int, parallel: str
):
    """Documents in windows, masks and pairs, accumulated; 6 rows a micro-batch, which 4 processes do not share evenly.
    Every figure but times is there, and what is counted is counted over all processes."""
    run = tmp_path / "run"
    results = in_workers(size, train_among, busy(architecture, parallel), run)
    assert [type(result) for result in results] == [Events] * size, results
    require_same_curve(run, alone[architecture])
    for events in results:
        assert [e.loss for e in events.of(StepsDone)] == [e.loss for e in results[0].of(StepsDone)]
        assert [e.step for e in events.of(Evaluated)] == [3, 6]
    trained, other = load_run(run), load_run(alone[architecture])
    ours, theirs = (dict(loaded.model.named_parameters()) for loaded in (trained, other))
    assert max(float((ours[name] - theirs[name]).detach().abs().max()) for name in ours) < 1e-4


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_interrupted_processes_end_where_unbroken_ones_do(tmp_path: Path, cache: Path, parallel: str):
    """To the last bit, with dropout: every process draws its own, and goes on drawing where it was."""
    recipe = busy(
        "decoder", parallel, DROPOUT, {"train": {"ema_decay": 0.9, "average_checkpoints": 2, "keep_checkpoints": 2}}
    )
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    in_workers(2, train_among, recipe, unbroken)
    in_workers(2, train_among, recipe, broken, 2)
    assert last_checkpoint(RunDirectory(broken)).step == 2  # type: ignore[union-attr]
    in_workers(2, resume_among, broken)
    assert figures(broken) == figures(unbroken)
    assert same(weights(broken / "model.safetensors"), weights(unbroken / "model.safetensors"))
    for loaded in ("last", "best"):
        ours, theirs = (load_run(run, loaded).model.state_dict() for run in (broken, unbroken))
        assert same(ours, theirs)


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_four_then_two_then_one(tmp_path: Path, alone: dict[str, Path], parallel: str):
    """A checkpoint of 4 processes is gone on with by 2, theirs by 1: the curve is that of one process all the way."""
    run = tmp_path / "run"
    in_workers(4, train_among, busy("decoder", parallel), run, 2)
    divided = RunDirectory(run).checkpoint(2) / "model.parts"
    assert divided.is_dir() is (parallel == "fsdp")
    in_workers(2, resume_among, run, 2)
    finished, _ = resume_tiny(run)
    assert finished.step == 6
    require_same_curve(run, alone["decoder"])
    assert (RunDirectory(run).checkpoint(6) / "model.safetensors").is_file()


@pytest.mark.parametrize("change", [{"train": {"parallel": "fsdp"}}, {"train": {"parallel": "ddp"}}], ids=str)
def test_a_run_goes_on_in_the_other_way(tmp_path: Path, alone: dict[str, Path], change: Settings):
    """One process writes whole files, which two divide among them; and what two have divided, each then holds whole."""
    run = tmp_path / "run"
    if change["train"]["parallel"] == "fsdp":
        train_among_alone(busy("decoder", "ddp"), run, 2)
    else:
        in_workers(2, train_among, busy("decoder", "fsdp"), run, 2)
    in_workers(2, resume_among, run, 2, change)
    in_workers(2, resume_among, run)
    lines = [line for line in figures(run) if line["event"] != "changed"]
    for line, other in zip(lines, figures(alone["decoder"]), strict=True):
        assert line["loss"] == pytest.approx(other["loss"], abs=1e-5)


def train_among_alone(recipe: Recipe, run: Path, steps: int) -> None:
    from tfcli.training.distributed import SINGLE_PROCESS

    train_among(SINGLE_PROCESS, recipe, run, steps)


def test_nothing_in_a_divided_checkpoint_is_pickled(tmp_path: Path, cache: Path):
    """Every file is safetensors or JSON; together the parts are the whole; tensors with fewer rows than there are
    processes are among them."""
    run = tmp_path / "run"
    recipe = busy("decoder", "fsdp", {"model": {"query_key_norm": True, "num_heads": 8, "positions": "rotary"}})
    in_workers(4, train_among, recipe, run, 2)
    folder = RunDirectory(run).checkpoint(2)
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert {file.suffix for file in files} == {".safetensors", ".json"}
    assert sum(file.match("model.parts/shard-*") for file in files) == 4
    for file in files:
        if file.suffix == ".safetensors":
            content = file.read_bytes()
            header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
            assert list(header["__metadata__"]) == sorted(header["__metadata__"])
    shapes = {name: tuple(p.shape) for name, p in load_run(run, "last").model.named_parameters()}
    assert min(shape[0] for shape in shapes.values()) == 2
    # Not evaluated yet, so that the weights of this step are in model.safetensors as well.
    assert same(weights(run / "model.safetensors"), model_tensors(load_run(run, "last").model))


def test_more_processes_than_rows_are_refused(tmp_path: Path, cache: Path):
    results = in_workers(4, train_among, busy("decoder", "ddp", {"train": {"batch_size": 3}}), tmp_path / "run")
    assert "4 processes cannot share train.batch_size = 3" in str(results[0])
    assert isinstance(results[0], UsageError)
    assert all(isinstance(result, TfcliError) for result in results)
    assert not (tmp_path / "run").exists()


def test_processes_may_have_no_row_of_a_batch(tmp_path: Path, cache: Path):
    """Batches of a number of tokens: some have fewer pairs than there are processes."""
    settings: Settings = {"train": {"batch_tokens": 70, "steps": 4}}
    train_tiny(busy("encoder-decoder", "ddp", settings), tmp_path / "alone")
    for parallel in ("ddp", "fsdp"):
        in_workers(4, train_among, busy("encoder-decoder", parallel, settings), tmp_path / parallel)
        require_same_curve(tmp_path / parallel, tmp_path / "alone")


def test_a_folder_that_cannot_be_written_ends_all_with_the_same_sentence(tmp_path: Path, cache: Path):
    run = tmp_path / "run"
    in_workers(2, train_among, busy("decoder", "fsdp"), run, 1)
    results = in_workers(2, _without_room, run)
    assert "Cannot write" in str(results[0]), results
    assert "the checkpoint of step 1 is kept" in str(results[0])
    assert all(isinstance(result, TfcliError) for result in results), results
    in_workers(2, resume_among, run)
    assert last_checkpoint(RunDirectory(run)).progress.finished  # type: ignore[union-attr]


def _without_room(workers: Any, run: Path) -> Any:
    """The first process fails in the middle of the next checkpoint."""
    from tfcli.training import checkpoint

    if workers.is_first:

        def full(*_: Any) -> None:
            raise TfcliError("Cannot write it: No space left on device")

        checkpoint.write_json = full  # type: ignore[assignment]
    return resume_among(workers, run)


def test_the_first_one_alone_writes(tmp_path: Path, cache: Path):
    run = tmp_path / "run"
    results = in_workers(2, train_among, busy(), run)
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert steps == [1, 2, 3, 3, 4, 5, 6, 6]
    assert [e.step for e in results[1].of(CheckpointSaved)] == [3, 6]
