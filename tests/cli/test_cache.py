"""`tfcli cache`: what is there, what goes, and what stays."""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.commands import snapshot, tfcli
from tests.support.runs import Events, tiny_recipe
from tfcli.data import cache
from tfcli.files import write_json
from tfcli.pipeline.datasets import dataset_of_run, obtain_data
from tfcli.recipe.loading import load_recorded
from tfcli.records.dataset import DatasetRecord
from tfcli.runs.directory import RunDirectory


@pytest.fixture
def run(trained: Callable[[str], Path]) -> Path:
    """Before the cache of one's own: what it was trained on lies in that of all tests."""
    return trained("decoder")


@pytest.fixture(autouse=True)
def own_locks(monkeypatch: pytest.MonkeyPatch, run: Path, own_cache: Path) -> Iterator[None]:
    """As in a process of its own, in a cache of its own."""
    monkeypatch.setattr(cache, "_used", {})
    yield
    end_of_process()


def end_of_process() -> None:
    while cache._used:
        cache._used.popitem()[1].release()


def listed() -> dict[str, dict]:
    result = tfcli("cache", "list", "--json")
    assert result.exit_code == 0
    return {f"{one['kind']} {one['state']}": one for one in map(json.loads, result.stdout.splitlines())}


def test_an_entry_is_listed_left_alone_while_it_is_read_removed_and_made_again(own_cache: Path, run: Path):
    directory = RunDirectory(run)
    recipe = load_recorded(directory.recipe)
    dataset_of_run(directory, recipe, Events().append)
    [folder] = (own_cache / "datasets").iterdir()
    there = snapshot(own_cache)

    [entry] = listed().values()
    assert (entry["kind"], entry["path"], entry["state"]) == ("dataset", str(folder), "in use")
    assert (entry["sources"], entry["age_seconds"] < 60) == (["builtin:stories"], True)
    assert entry["size"] == sum(file.stat().st_size for file in folder.iterdir())
    busy = tfcli("cache", "prune", "--all")
    assert (busy.exit_code, busy.stdout) == (0, "")
    assert f"Left: {folder} (" in busy.stderr and "in use" in busy.stderr and "Freed 0 B" in busy.stderr
    end_of_process()

    long_ago = time.time() - 40 * 86400
    os.utime(folder / "manifest.json", (long_ago, long_ago))
    shown = tfcli("cache", "list").stdout
    assert f"dataset  {folder.name}" in shown and "40 d 0 h ago" in shown
    assert tfcli("cache", "prune", "--older-than", "41").stdout == ""
    dry = tfcli("cache", "prune", "--older-than", "30", "--dry-run")
    assert folder.name in dry.stdout and "Would free" in dry.stderr
    assert snapshot(own_cache) == there
    gone = tfcli("cache", "prune", "--older-than", "30", "--json")
    assert json.loads(gone.stdout) == {**entry, "state": "whole", "removed": True, "left": None} | {
        "age_seconds": pytest.approx(40 * 86400, abs=60)
    }
    assert list((own_cache / "datasets").iterdir()) == []

    events = Events()
    dataset_of_run(directory, recipe, events.append)
    assert not events.of(DatasetRecord)[0].reused and snapshot(own_cache) == there


def test_using_an_entry_again_makes_it_young_and_a_tokenizer_knows_its_text(own_cache: Path):
    recipe = tiny_recipe("decoder", {"data": {"max_documents": 40}})
    obtain_data(recipe, Events().append)
    for file in own_cache.rglob("manifest.json"):
        os.utime(file, (0, 0))
    obtain_data(recipe, Events().append)
    entries = listed()
    assert set(entries) == {"dataset in use", "tokenizer in use"}
    assert all(one["sources"] == ["builtin:stories"] and one["age_seconds"] < 60 for one in entries.values())


def test_what_is_being_made_what_came_from_stdin_and_what_is_not_the_caches_stays(own_cache: Path, tmp_path: Path):
    made, tokenizers = own_cache / "datasets", own_cache / "tokenizers"
    obtain_data(tiny_recipe("decoder", {"data": {"max_documents": 40}}), Events().append)
    end_of_process()
    for file in own_cache.rglob("manifest.json"):
        write_json(file, json.loads(file.read_text()) | {"sources": ["-"]})
    [piped] = made.iterdir()
    young, old = made / f".{'a' * 16}.{'b' * 16}.tmp", made / f".{'c' * 16}.{'d' * 16}.tmp"
    odd, damaged = tokenizers / ("2" * 16), made / ("3" * 16)
    other = tokenizers / ("5" * 16)
    for folder in (young, old, odd, other, damaged, made / "mine", tmp_path / "elsewhere"):
        folder.mkdir(parents=True)
        (folder / "train-00000.tokens.npy").write_bytes(b"12345")
    (made / ("4" * 16)).symlink_to(tmp_path / "elsewhere")
    (damaged / "manifest.json").write_text("{")
    write_json(odd / "manifest.json", {"format_version": 1, "sources": ["a\x1b[31mb"]})
    write_json(other / "manifest.json", {"sources": 5})
    os.utime(old / "train-00000.tokens.npy", (0, 0))
    os.utime(old, (0, 0))

    shown = tfcli("cache", "list").stdout
    assert "a\\x1b[31mb" in shown and "\x1b" not in shown and "damaged" in shown and shown.count("unfinished") == 2
    assert shown.count("standard input") == 2
    result = tfcli("cache", "prune", "--all")
    assert result.exit_code == 0
    assert {path.name for path in made.iterdir()} == {young.name, "mine", "4" * 16, piped.name}
    assert list(tokenizers.iterdir()) == []
    assert (tmp_path / "elsewhere" / "train-00000.tokens.npy").is_file()
    assert f"Left: {young} (5 B), being made" in result.stderr
    assert f"Left: {piped} " in result.stderr and "standard input, it cannot be made again" in result.stderr


@pytest.mark.parametrize("options", [[], ["--all", "--older-than", "3"]])
def test_what_is_to_go_is_said_once(options: list[str]):
    result = tfcli("cache", "prune", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "`tfcli cache prune --older-than 30`, or `tfcli cache prune --all`" in result.stderr
