"""`tfcli prepare` as it is typed: weights, workers, machines, additions, and what is refused."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import tfcli
from tfcli.corpora.stories import stories
from tfcli.data.shards import read_manifest
from tfcli.runs.config import read_run_data


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sources and a tokenizer."""
    folder = tmp_path_factory.mktemp("prepare")
    texts = [story for story, _ in zip(stories(0), range(900), strict=False)]
    for name, some in (("one", texts[:600]), ("two", texts[600:])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in some))
    trained = tfcli(
        "tokenize", "train", str(folder / "one.jsonl"), "--vocab-size", "400", "--out", str(folder / "t.json")
    )
    assert trained.exit_code == 0
    return folder


def prepared(here: Path, out: str, *words: str) -> dict[str, bytes]:
    """Prepare, and return what is in the folder."""
    done = tfcli("prepare", *words, "--out", str(here / out), "--json")
    assert done.exit_code == 0, done.stderr
    return {path.name: path.read_bytes() for path in sorted((here / out).iterdir())}


def sources(here: Path, *names: str) -> list[str]:
    return [*(str(here / f"{name}.jsonl") for name in names), "--tokenizer", str(here / "t.json")]


def test_weights_are_shares_of_tokens(here: Path) -> None:
    prepared(here, "mix", *sources(here, "one", "two"), "--weights", "1,3")
    one, two = read_manifest(here / "mix").mixture
    assert (one.weight, two.weight) == (1.0, 3.0)
    assert one.epochs == 1.0 and two.epochs > 4
    assert abs(two.share - 0.75) < 0.01


def test_workers_and_machines_give_the_bytes_of_one_process(here: Path) -> None:
    one = prepared(here, "alone", *sources(here, "one", "two"), "--weights", "1,2")
    assert prepared(here, "workers", *sources(here, "one", "two"), "--weights", "1,2", "--workers", "2") == one
    for number in (1, 2, 3):
        share = ["--shard", f"{number}/3", "--out", str(here / f"share-{number}")]
        assert tfcli("prepare", *sources(here, "one", "two"), "--weights", "1,2", *share).exit_code == 0
    shares = [str(here / f"share-{number}") for number in (3, 1, 2)]
    assert prepared(here, "merged", *shares, "--merge") == one


def test_a_run_resumes_on_what_it_began_with_after_an_addition(here: Path) -> None:
    before = prepared(here, "grows", *sources(here, "one"))
    settings = ["--size", "tiny", "--threads", "1", "--quiet"]
    run = str(here / "run")
    assert tfcli("train", "--data", str(here / "grows"), "--out", run, "--steps", "2", *settings).exit_code == 0
    after = prepared(here, "grows", str(here / "two.jsonl"), "--append")
    assert {name: after[name] for name in before if name.endswith("npy")} == {
        name: content for name, content in before.items() if name.endswith("npy")
    }
    began = read_run_data(here / "run/data.json").fingerprint
    assert read_manifest(here / "grows").fingerprint != began
    assert tfcli("train", "--resume", run, "--steps", "4", "--quiet").exit_code == 0
    assert read_run_data(here / "run/data.json").fingerprint == began
    assert tfcli("evaluate", run, "--json").exit_code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--weights", "1"], "--weights 1 has 1 weight for 2 sources"),
        (["--weights", "a,b"], "--weights 'a,b' is no list of numbers"),
        (["--weights", "0,1"], "--weights 0,1 has 0, which is no share"),
        (["--shard", "3/2"], "--shard '3/2' is no share"),
        (["--shard", "1/2", "--workers", "2"], "--shard and --workers do not go together"),
        (["--merge"], "--tokenizer says how to prepare, and --merge has it from the shares"),
        (["--set", 'data.sources=[{source="x"}]'], "both name the text"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_is_refused(here: Path, words: list[str], said: str) -> None:
    done = tfcli("prepare", *sources(here, "one", "two"), "--out", str(here / "no"), *words)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())
    assert not (here / "no").exists()


def test_standard_input_has_no_second_reader(here: Path) -> None:
    words = ["-", "--tokenizer", str(here / "t.json"), "--workers", "2", "--out", str(here / "no")]
    done = tfcli("prepare", *words, stdin="a b\n" * 99)
    assert done.exit_code == 2
    assert "2 workers cannot read standard input" in done.stderr
