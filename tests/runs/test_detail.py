"""All of one run, and runs side by side, against folders written by hand."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.consoles import printed
from tests.support.run_folders import falling, write_run
from tfcli.errors import BrokenInputError, UsageError
from tfcli.evaluation.evaluate import evaluate
from tfcli.pipeline.datasets import dataset_of_run
from tfcli.records.runs import Evaluated
from tfcli.runs.load import load_run
from tfcli.runs.overview import compare, read_detail
from tfcli.runs.seeds import t_quantile
from tfcli.runs.view import ComparisonView, comparison_table


def test_only_settings_that_are_not_the_default_are_told(tmp_path: Path):
    detail = read_detail(write_run(tmp_path / "run", falling(40), {"train": {"warmup_steps": 100, "beta2": 0.95}}))
    told = {setting.key: (setting.value, setting.default) for setting in detail.settings}
    assert told["train.beta2"] == (0.95, 0.99)
    assert told["model.d_model"] == (16, 128)
    assert "train.warmup_steps" not in told  # it is set, to the default
    assert not {"train.device", "train.threads", "model.vocab_size"} & told.keys()  # the machine's and the tokenizer's
    assert "train.context" not in told  # it repeats model.max_seq_len


def test_what_is_on_the_disk_has_its_size(tmp_path: Path):
    run = write_run(tmp_path / "run", falling(40))
    (run / "checkpoints" / "step-000040" / "part").mkdir()
    (run / "checkpoints" / "step-000040" / "part" / "weights").write_bytes(b"x" * 1000)
    state = (run / "checkpoints" / "step-000040" / "state.json").stat().st_size
    kept = {file.name: file.bytes for file in read_detail(run).kept}
    weights = (run / "model.safetensors").stat().st_size
    assert kept == {"model.safetensors": weights, "checkpoints/step-000040": 1000 + state}


def test_bits_per_byte_are_those_of_an_evaluation(trained: Callable[[str], Path]):
    """From metrics and manifest alone, against the weights scored again."""
    path = trained("decoder")
    run = load_run(path)
    scores = evaluate(run, dataset_of_run(run.directory, run.recipe, lambda _: None))
    assert read_detail(path).bits_per_byte == pytest.approx(scores.bits_per_byte, rel=1e-5)
    assert read_detail(trained("encoder")).bits_per_byte is None  # it scores one token in seven


def test_bits_per_byte_are_not_known_without_the_dataset(tmp_path: Path, own_cache: Path):
    assert read_detail(write_run(tmp_path / "run", falling(40))).bits_per_byte is None


def test_a_comparison_tells_the_differences_alone(tmp_path: Path):
    one = write_run(tmp_path / "one", falling(40), {"train": {"learning_rate": 0.003}})
    two = write_run(tmp_path / "two", falling(40, 1.5), {"train": {"learning_rate": 0.006}})
    comparison = compare([one, two])
    assert [(row.key, row.values) for row in comparison.settings] == [("train.learning_rate", (0.003, 0.006))]
    assert comparison.comparable
    assert comparison.notes == ()


def test_runs_that_differ_in_their_seed_are_one_group(tmp_path: Path):
    """Best losses 1 and 3: mean 2, deviation √((1² + 1²) / (2 − 1)) = √2. One head has a single run, and no spread."""
    losses = {"one": (1.0, 2, 0), "two": (3.0, 2, 1), "three": (5.0, 1, 0)}
    paths = [
        write_run(
            tmp_path / name,
            [Evaluated(10, 100, loss, 0.5, True, 1.0)],
            {"model": {"num_heads": heads}, "train": {"seed": seed}},
        )
        for name, (loss, heads, seed) in losses.items()
    ]
    [spread] = compare(paths).spreads
    assert (spread.settings, spread.runs) == ({"model.num_heads": 2}, (0, 1))
    assert (spread.mean, spread.lowest, spread.highest) == (2.0, 1.0, 3.0)
    assert spread.deviation == pytest.approx(math.sqrt(2))
    assert compare(paths[1:]).spreads == ()
    text = printed(ComparisonView(compare(paths)), 80)
    assert "ab  2.0000 ± 1.4142  1.0000 … 3.0000  model.num_heads = 2" in text
    assert "mean ± s.d." in text and "standard deviation of the runs (n − 1)" in text


def test_groups_are_compared_seed_by_seed(tmp_path: Path):
    """Two heads minus one head: −1, −2 and −3 for the seeds 0, 1 and 2, and seed 7 has no partner.

    Mean −2, deviation 1; t with 2 degrees of freedom is 4.303 (Student's table), so ± 4.303 / √3 = 2.484.
    """
    losses = {(1, 0): 5.0, (1, 1): 7.0, (1, 2): 9.0, (1, 7): 1.0, (2, 0): 4.0, (2, 1): 5.0, (2, 2): 6.0}
    paths = []
    for (heads, seed), loss in losses.items():
        settings = {"model": {"num_heads": heads}, "train": {"seed": seed}}
        paths.append(write_run(tmp_path / f"{heads}-{seed}", [Evaluated(10, 100, loss, 0.5, True, 1.0)], settings))
    comparison = compare(paths)
    [difference] = comparison.differences
    assert (difference.first, difference.second, difference.seeds) == (0, 1, (0, 1, 2))
    assert difference.mean == pytest.approx(-2.0)
    assert (difference.low, difference.high) == pytest.approx((-4.484, 0.484), abs=1e-3)
    text = printed(ComparisonView(comparison), 80)
    assert "efg − abcd  -2.0000  95 % interval -4.4841 … +0.4841  3 seeds" in text


@pytest.mark.parametrize(
    ("freedom", "published"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (9, 2.262), (29, 2.045), (120, 1.980)],
)
def test_quantiles_of_student_s_t(freedom: int, published: float):
    """As in the tables of textbooks, two-sided 95 %."""
    assert t_quantile(freedom) == pytest.approx(published, abs=5e-4)


def test_a_row_of_csv_has_the_group_and_the_settings(tmp_path: Path):
    paths = []
    for seed, loss in ((0, 1.5), (1, 2.5)):
        events = [Evaluated(10, 100, loss, 0.5, True, 1.0)]
        paths.append(write_run(tmp_path / f"run-{seed}", events, {"train": {"seed": seed}}))
    table = comparison_table(compare(paths))
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [(row["best_loss"], row["best_step"], row["group"], row["train.seed"]) for row in rows] == [
        (1.5, 10, 0, "0"),
        (2.5, 10, 0, "1"),
    ]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"tokenizer": "feed"}, "different tokenizers"),
        ({"source": "book.txt"}, "different texts"),
        ({"architecture": "encoder"}, "different objectives"),
    ],
)
def test_losses_of_different_kinds_are_not_compared(other: dict[str, str], words: str, tmp_path: Path):
    one, two = write_run(tmp_path / "one", falling(40)), write_run(tmp_path / "two", falling(40), **other)  # type: ignore[arg-type]
    comparison = compare([one, two])
    assert not comparison.comparable
    assert any(words in note for note in comparison.notes)


def test_a_comparison_wants_two_runs(tmp_path: Path):
    run = write_run(tmp_path / "run", falling(40))
    with pytest.raises(UsageError, match="One run cannot"):
        compare([run])
    with pytest.raises(UsageError, match="named twice"):
        compare([run, tmp_path / "." / "run"])
    with pytest.raises(UsageError, match="no run"):
        compare([run, tmp_path / "other"])


def test_a_damaged_run_is_refused_in_words(tmp_path: Path):
    run = write_run(tmp_path / "run", falling(40))
    (run / "data.json").write_text("{")
    with pytest.raises(BrokenInputError, match="is not valid JSON"):
        read_detail(run)


def test_a_run_without_metrics_is_shown(tmp_path: Path):
    run = write_run(tmp_path / "run", finished=False)
    (run / "metrics.jsonl").unlink()
    detail = read_detail(run)
    assert (detail.summary.step, detail.history.best) == (0, None)
    assert math.isfinite(detail.summary.age_seconds)
