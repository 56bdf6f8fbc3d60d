"""The tokenizer and the dataset of a recipe: made once, from the training part alone, and kept."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.commands import SHRUNK, tfcli
from tests.pipeline.corpora import WORDS, contents, write_pairs, write_text
from tests.support.runs import Events, tiny_recipe, train_tiny
from tfcli.data.dataset import PreparedDataset
from tfcli.errors import BrokenInputError, UsageError
from tfcli.pipeline.datasets import (
    dataset_for_evaluation,
    dataset_of_run,
    kind_of,
    obtain_data,
    prepared_folder,
    with_absolute_paths,
)
from tfcli.pipeline.training import train_recipe
from tfcli.recipe.data import DataSection
from tfcli.recipe.recipe import Recipe
from tfcli.records.dataset import DatasetRecord, TokenizerReport
from tfcli.records.runs import StageProgress, StageStarted
from tfcli.runs.load import load_run
from tfcli.tokenization.tokenizer import Tokenizer


def obtained(recipe: Recipe) -> tuple[Tokenizer, PreparedDataset, Events]:
    events = Events()
    tokenizer, data = obtain_data(recipe.resolved(), events.append)
    return tokenizer, data, events


def reused(events: Events) -> dict[str, bool]:
    return {event.stage: event.reused for event in events.of(StageStarted)}


def on(source: Path | str, **settings: object) -> Recipe:
    return tiny_recipe("decoder", {"data": {"source": str(source)}, **settings})  # type: ignore[dict-item]


def test_the_tokenizer_never_sees_the_validation_part(tmp_path: Path):
    """ξ stands in the last tenth of the text alone, q in the first nine tenths alone."""
    file = tmp_path / "text.txt"
    file.write_text("the quick cat. " * 900 + "a ξ hat. " * 160, encoding="utf-8")
    tokenizer, data, _ = obtained(on(file))
    assert tokenizer.encode("ξ") == [tokenizer.roles.unk]
    assert tokenizer.roles.unk not in tokenizer.encode("q")
    record = data.record()
    assert (record.split, record.train.unknown, record.validation.unknown) == ("tail", 0, 160)


def test_the_tokenizer_never_sees_a_validation_file(tmp_path: Path):
    train, validation = tmp_path / "train.txt", tmp_path / "validation.txt"
    train.write_text("the quick cat. " * 50)
    validation.write_text("a ξ. ", encoding="utf-8")
    settings = {"data": {"source": str(train), "validation": str(validation)}}
    tokenizer, data, _ = obtained(tiny_recipe("decoder", settings))
    assert data.record().split == "file"
    assert tokenizer.encode("ξ") == [tokenizer.roles.unk]


def test_stages_are_told_in_order_and_then_skipped(own_cache: Path, tmp_path: Path):
    file = write_text(tmp_path / "text.txt")
    tokenizer, data, events = obtained(on(file))
    told = [event for event in events if not isinstance(event, StageProgress)]
    assert [type(event) for event in told] == [StageStarted, TokenizerReport, StageStarted, DatasetRecord]
    assert reused(events) == {"tokenizer": False, "data": False}
    assert told[1].vocab_size == tokenizer.vocab_size
    assert not told[3].reused
    before = contents(own_cache)
    again, same_data, events = obtained(on(file))
    assert reused(events) == {"tokenizer": True, "data": True}
    assert events.names() == ["StageStarted", "StageStarted", "DatasetRecord"]
    assert events.of(DatasetRecord)[0].reused
    assert again.fingerprint == tokenizer.fingerprint
    assert same_data.path == data.path
    assert contents(own_cache) == before


def test_another_vocabulary_is_another_tokenizer_and_another_dataset(own_cache: Path, tmp_path: Path):
    file = write_text(tmp_path / "text.txt")
    bpe = {"algorithm": "bpe", "vocab_size": 280}
    first, first_data, _ = obtained(on(file, tokenizer=bpe))
    second, second_data, events = obtained(on(file, tokenizer={**bpe, "vocab_size": 290}))
    assert reused(events) == {"tokenizer": False, "data": False}
    assert (first.vocab_size, second.vocab_size) == (280, 290)
    assert first_data.path != second_data.path


def test_another_text_or_split_is_another_tokenizer_and_another_dataset(own_cache: Path, tmp_path: Path):
    file = write_text(tmp_path / "text.txt")
    obtained(on(file))
    _, _, events = obtained(tiny_recipe("decoder", {"data": {"source": str(file), "validation_fraction": 0.3}}))
    assert reused(events) == {"tokenizer": False, "data": False}
    write_text(file, seed=1)
    _, _, events = obtained(on(file))
    assert reused(events) == {"tokenizer": False, "data": False}


def test_the_model_and_the_training_play_no_part(own_cache: Path, tmp_path: Path):
    """Many runs share one tokenizer and one dataset."""
    file = write_text(tmp_path / "text.txt")
    obtained(on(file))
    _, _, events = obtained(on(file, model={"d_model": 64}, train={"seed": 5, "steps": 99}))
    assert reused(events) == {"tokenizer": True, "data": True}


def test_progress_counts_documents(own_cache: Path):
    _, _, events = obtained(tiny_recipe("decoder", {"data": {"max_documents": 700}}))
    counted = [event.documents for event in events.of(StageProgress) if event.stage == "tokenizer"]
    assert counted
    assert set(counted) <= {256, 512}, "of about 630 documents of training, every 256th"
    assert events.of(StageProgress)[-1].documents == 700


def test_a_tokenizer_that_was_exchanged_in_the_cache_is_noticed(own_cache: Path, tmp_path: Path):
    file = write_text(tmp_path / "text.txt")
    tokenizer, _, _ = obtained(on(file))
    [cached] = (own_cache / "tokenizers").glob("*/tokenizer.json")
    good = cached.read_text(encoding="utf-8")
    state = json.loads(good)
    state["normalizer"] = {"type": "Lowercase"}
    cached.write_text(json.dumps(state))
    with pytest.raises(BrokenInputError, match=r"tokenizer\.json is not the tokenizer that was made here") as caught:
        obtained(on(file))
    assert tokenizer.fingerprint in str(caught.value)
    # Nothing to compare with, as caches had it that were written before: it is made again.
    (cached.parent / "manifest.json").unlink()
    again, _, events = obtained(on(file))
    assert reused(events) == {"tokenizer": False, "data": True}
    assert again.fingerprint == tokenizer.fingerprint
    assert cached.read_text(encoding="utf-8") == good


def test_a_dataset_that_was_exchanged_in_the_cache_is_noticed(own_cache: Path, tmp_path: Path):
    run = tmp_path / "run"
    train_tiny(on(write_text(tmp_path / "text.txt")), run)
    [cached] = (own_cache / "datasets").iterdir()
    obtained(on(write_text(tmp_path / "other.txt", seed=3)))
    [other] = set((own_cache / "datasets").iterdir()) - {cached}
    shutil.rmtree(cached)
    other.rename(cached)
    loaded = load_run(run)
    with pytest.raises(BrokenInputError, match=f"{cached} holds another prepared dataset"):
        dataset_of_run(loaded.directory, loaded.recipe, Events().append)


@pytest.mark.parametrize(
    ("name", "array", "sentence"),
    [
        ("train-00000.tokens.npy", lambda ids: ids.astype(np.float16), "is no array of one dimension and type <u2"),
        ("train-00000.tokens.npy", lambda ids: ids + 60000, "holds the id 6"),
        ("validation-00000.tokens.npy", lambda ids: ids | 0x8000, "holds the id 32"),
        ("train-00000.offsets.npy", lambda offsets: -offsets, "has offsets outside the"),
        ("train-00000.offsets.npy", lambda offsets: offsets[::-1], "has documents of fewer than 2 ids"),
        ("train-00000.offsets.npy", lambda offsets: offsets + offsets[-1], "has offsets outside the"),
    ],
    ids=["float ids", "far ids", "far ids of validation", "negative", "backwards", "beyond"],
)
@pytest.mark.parametrize("windows", ["stream", "documents"])
def test_a_dataset_whose_manifest_vouches_for_wrong_arrays_is_not_trained_on(
    own_cache: Path, tmp_path: Path, name: str, array: Callable[[Any], Any], sentence: str, windows: str
):
    _, data, _ = obtained(on(write_text(tmp_path / "text.txt")))
    folder = data.path.rename(tmp_path / "prepared")
    np.save(folder / name, np.ascontiguousarray(array(np.load(folder / name))))
    manifest = json.loads((folder / "manifest.json").read_text())
    content = (folder / name).read_bytes()
    part, array_name = name.split("-")[0], name.split(".")[1]
    told = {"file": name, "size": len(content), "digest": hashlib.sha256(content).hexdigest()[:16]}
    manifest[part]["shards"][0][array_name] = told
    (folder / "manifest.json").write_text(json.dumps(manifest))
    run = tmp_path / "run"
    settings = [*SHRUNK, "--set", f"train.windows='{windows}'"]
    done = tfcli("train", "--data", folder, "--size", "tiny", "--out", run, *settings)
    assert done.exit_code == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"tfcli: {folder / name} {sentence}")
    assert last.endswith(f"; remove the folder {folder} and prepare the text again.")
    assert "loss" not in done.stderr and "fault" not in done.stderr
    assert not run.exists()


def test_a_tokenizer_that_is_named_is_taken(own_cache: Path, tmp_path: Path):
    file = write_text(tmp_path / "text.txt")
    tokenizer, _, _ = obtained(on(file))
    tokenizer.save(tmp_path / "mine.json")
    other = write_text(tmp_path / "other.txt", seed=2)
    taken, data, events = obtained(on(other, tokenizer={"path": str(tmp_path / "mine.json")}))
    assert taken.fingerprint == tokenizer.fingerprint == data.record().tokenizer_fingerprint
    assert events[0] == StageStarted("tokenizer", str(tmp_path / "mine.json"), reused=True)


def test_a_prepared_folder_is_taken_as_it_is(own_cache: Path, tmp_path: Path):
    tokenizer, data, _ = obtained(on(write_text(tmp_path / "text.txt")))
    folder = data.path.rename(tmp_path / "prepared")
    before = contents(folder)
    taken, same_data, events = obtained(on(folder, tokenizer={"algorithm": "bpe", "vocab_size": 999}))
    assert (same_data.path, taken.fingerprint) == (folder, tokenizer.fingerprint)
    assert events.names() == ["StageStarted", "DatasetRecord"]
    assert contents(folder) == before
    assert prepared_folder(DataSection(source=str(folder))) == folder
    assert prepared_folder(DataSection(source=str(tmp_path))) is None


def test_a_prepared_folder_with_another_tokenizer_is_refused(own_cache: Path, tmp_path: Path):
    _, data, _ = obtained(on(write_text(tmp_path / "text.txt")))
    stranger, _, _ = obtained(tiny_recipe("decoder", {"tokenizer": {"algorithm": "bpe", "vocab_size": 300}}))
    stranger.save(tmp_path / "stranger.json")
    with pytest.raises(UsageError, match="was prepared with another tokenizer"):
        obtained(on(data.path, tokenizer={"path": str(tmp_path / "stranger.json")}))


def test_pairs_are_wanted_by_an_encoder_decoder_alone(tmp_path: Path):
    kinds = {name: kind_of(tiny_recipe(name)) for name in ("decoder", "encoder", "encoder-decoder")}
    assert kinds == {"decoder": "text", "encoder": "text", "encoder-decoder": "pairs"}
    left, right = write_pairs(tmp_path)
    tokenizer, data, _ = obtained(tiny_recipe("encoder-decoder", {"data": {"source": f"{left},{right}"}}))
    sources, targets = data.pairs("train").source, data.pairs("train").target
    for number in range(5):
        words = tokenizer.decode(sources.sequence(number)).split()
        assert words[::-1] == tokenizer.decode(targets.sequence(number)).split()
        assert words[0] in WORDS
        assert words[-1].endswith(".")


def test_a_cache_that_cannot_be_is_told_before_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("TFCLI_CACHE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="is a file, not a folder"):
        obtained(on(write_text(tmp_path / "text.txt")))


ABSOLUTE = {
    "a path": ("decoder", "data/a.txt", "{here}/data/a.txt"),
    "a path from the root": ("decoder", "/data/a.txt", "/data/a.txt"),
    "a path from home": ("decoder", "~/a.txt", f"{Path.home()}/a.txt"),
    "a glob": ("decoder", "data/*.txt", "{here}/data/*.txt"),
    "standard input": ("decoder", "-", "-"),
    "a built-in source": ("encoder", "builtin:stories", "builtin:stories"),
    "the hub": ("encoder", "hf:owner/name:config@train", "hf:owner/name:config@train"),
    "a text with a comma": ("decoder", "one,two.txt", "{here}/one,two.txt"),
    "parallel files": ("encoder-decoder", "a.pt,b.en", "{here}/a.pt,{here}/b.en"),
    "a table of pairs with a comma": ("encoder-decoder", "there,x.tsv", "{here}/there,x.tsv"),
}


@pytest.mark.parametrize(("architecture", "source", "expected"), ABSOLUTE.values(), ids=ABSOLUTE)
def test_paths_are_written_from_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, architecture: str, source: str, expected: str
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there,x.tsv").write_text("a\tb\n")
    settings = {"data": {"source": source, "validation": source}, "tokenizer": {"path": "t.json"}}
    absolute = with_absolute_paths(tiny_recipe(architecture, settings))
    expected = expected.format(here=tmp_path)
    assert (absolute.data.source, absolute.data.validation) == (expected, expected)
    assert absolute.tokenizer.path == str(tmp_path / "t.json")
    several = tiny_recipe(architecture, {"data": {"source": [source, "builtin:stories"]}})
    assert with_absolute_paths(several).data.source == (expected, "builtin:stories")


def test_a_text_whose_name_has_a_comma_trains(tmp_path: Path):
    file = write_text(tmp_path / "war, and peace.txt")
    train_recipe(on(file, train={"steps": 1}), tmp_path / "run", lambda event: None, lambda: False)
    assert load_run(tmp_path / "run").recipe.data.source == str(file)


def test_another_source_is_scored_whole(own_cache: Path, tmp_path: Path, trained):
    """And with the run's own tokenizer."""
    run = load_run(trained("decoder"))
    file = write_text(tmp_path / "other.txt", lines=20)
    data = dataset_for_evaluation(run, (str(file),), lambda event: None)
    text = file.read_text()
    assert data.record().validation.characters == len(text)
    stored = data.text("validation")
    read = run.tokenizer.decode(stored.padded(np.array([0]), np.array([len(stored)]), 0)[0])
    assert read == text.replace("\n", "\ufffd"), "stories have no line end, so the run knows none"
    assert data.record().validation.unknown == 20
    data.require_tokenizer(run.tokenizer)


def test_the_dataset_of_a_run_is_the_one_it_was_trained_on(own_cache: Path, tmp_path: Path):
    recipe = on(write_text(tmp_path / "text.txt"), train={"steps": 1})
    train_recipe(recipe, tmp_path / "run", lambda event: None, lambda: False)
    run = load_run(tmp_path / "run")
    _, data, _ = obtained(recipe)
    events = Events()
    assert dataset_of_run(run.directory, run.recipe, events.append).path == data.path
    assert not events, "nothing had to be made"
