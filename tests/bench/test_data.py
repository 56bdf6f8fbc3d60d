"""A benchmark of tokenization of a moment: its sides give the same ids, and its figures follow from the text."""

import json
from pathlib import Path

import pytest

from tfcli.bench import data, machine
from tfcli.bench.data import WARMUP, bench_data
from tfcli.bench.data_sides import TEXTS, TOKENIZER, encoded, mapped, prepared
from tfcli.errors import UsageError
from tfcli.recipe.data import TokenizerSection
from tfcli.tokenization.tokenizer import Tokenizer
from tfcli.tokenization.train import train_tokenizer

LINES = [f"Tom swam {number} times across the river é." for number in range(300)]


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": line}) + "\n" for line in LINES), encoding="utf-8")
    return str(path)


@pytest.fixture
def tokenizer() -> Tokenizer:
    return train_tokenizer(lambda: iter(LINES), TokenizerSection(vocab_size=300))[0]


@pytest.mark.usefixtures("here")
def test_the_figures_of_a_text(text: str, tokenizer: Tokenizer, tmp_path: Path):
    told: list[str] = []
    tokenizer.save(tmp_path / "mine.json")
    speed = bench_data([text], tmp_path / "mine.json", rounds=2, context=8, threads=1, tell=told.append)
    assert (speed.lines, speed.bytes) == (300, sum(len(line.encode()) for line in LINES))
    assert speed.tokens == sum(map(len, tokenizer.encode_batch(LINES)))
    assert (speed.vocab_size, speed.algorithm, speed.sources) == (tokenizer.vocab_size, "bpe", (text,))
    assert f"round {WARMUP + 2} of {WARMUP + 2}" in told
    ours, alone = speed.sides
    assert (ours.name, ours.ratio, ours.memory) == ("prepare", None, 123_000_000)
    assert ours.bytes_per_second == pytest.approx(speed.bytes / ours.seconds.p50)
    assert alone.tokens_per_second == pytest.approx(speed.tokens / alone.seconds.p50)
    assert alone.ratio == pytest.approx(alone.seconds.p50 / ours.seconds.p50)


@pytest.mark.usefixtures("here")
def test_against_datasets_map_with_a_tokenizer_of_the_text(text: str):
    pytest.importorskip("transformers")
    speed = bench_data([text], None, rounds=1, context=8, threads=1, transformers=True)
    assert [side.name for side in speed.sides] == ["prepare", "encode_batch_fast", "datasets.map"]
    assert speed.tokens > 300


def test_every_side_makes_the_same_ids(
    text: str, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What is written to the disk is looked at before it goes."""
    pytest.importorskip("transformers")
    import datasets

    from tfcli.data.dataset import PreparedDataset

    tokenizer.save(tmp_path / TOKENIZER)
    wanted = tokenizer.encode_batch(LINES)
    assert encoded(tmp_path).about() == {"tokens": sum(map(len, wanted))}
    prepared(tmp_path)._work(tmp_path)
    counts = PreparedDataset.open(tmp_path / "dataset").manifest
    assert counts.train.counts.tokens + counts.validation.counts.tokens == sum(map(len, wanted)) + len(LINES)
    mapped(tmp_path, 8)._work(tmp_path / "cache")
    caches = [datasets.Dataset.from_file(str(path)) for path in (tmp_path / "cache").rglob("cache-*.arrow")]
    windows = next(one["input_ids"] for one in caches if "labels" in one.column_names)
    assert [token for window in windows for token in window] == [token for ids in wanted for token in ids][
        : 8 * len(windows)
    ]
    assert (tmp_path / TEXTS).is_file()


def test_a_long_text_has_several_lines(tmp_path: Path):
    """100,000 characters in pieces of 65,536 at most, which join to the text."""
    (tmp_path / "long.txt").write_text("word " * 20_000, encoding="utf-8")
    lines, size = data._write_texts(data.open_source(str(tmp_path / "long.txt"), "text"), tmp_path / TEXTS)
    texts = [json.loads(line)["text"] for line in (tmp_path / TEXTS).read_text(encoding="utf-8").splitlines()]
    assert (lines, size, "".join(texts)) == (2, 100_000, "word " * 20_000)


def test_what_cannot_be_measured_is_refused_before_any_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(data, "SideProcess", lambda *_: pytest.fail("a process was started"))
    monkeypatch.setattr(machine, "cores", lambda: 2)
    with pytest.raises(UsageError, match=r"threads = 3 is more than the 2 processor cores there are"):
        bench_data(["builtin:stories"], None, rounds=1, context=8, threads=3)
    with pytest.raises(UsageError, match="nowhere"):
        bench_data([str(tmp_path / "nowhere.txt")], None, rounds=1, context=8, threads=1)
