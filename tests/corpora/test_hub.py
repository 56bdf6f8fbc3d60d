"""`hf:` names against a local stand-in: the library takes `owner/name` in the working folder as well."""

import json

import pytest

from tests.corpora.helpers import read, refusal, write
from tfcli.addresses import typed
from tfcli.corpora import Pair
from tfcli.corpora.open import open_source
from tfcli.errors import TfcliError, UsageError


@pytest.fixture(autouse=True)
def hub(tmp_path, monkeypatch):
    """No network; three datasets: one with two splits, one with two configurations, one of pairs."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.chdir(tmp_path)

    def records(path: str, *values: dict) -> None:
        write(tmp_path / "owner" / path, "".join(json.dumps(value) + "\n" for value in values))

    records("stories/train.jsonl", {"text": "t1", "n": 1}, {"text": "t2", "n": 2}, {"text": " ", "n": 3})
    records("stories/validation.jsonl", {"text": "v1", "n": 4})
    records("stories/test.jsonl", {"text": "x1", "n": 5})
    records("pairs/train.jsonl", {"id": 1, "translation": {"de": "Ja.", "en": "Yes."}})
    for config in ("big", "small"):
        records(f"sizes/{config}/train.jsonl", {"text": config})
    configs = "".join(f"- config_name: {name}\n  data_files: {name}/*.jsonl\n" for name in ("big", "small"))
    write(tmp_path / "owner/sizes/README.md", f"---\nconfigs:\n{configs}---\n")
    write(tmp_path / "owner/script/script.py", "raise SystemExit('code from a dataset was run')")
    return tmp_path


def test_train_and_validation_are_the_sources_own_division():
    source = open_source(typed("hf:owner/stories"), "text")
    assert source.divided is not None
    assert list(source.divided()) == [("train", "t1"), ("train", "t2"), ("validation", "v1")]
    assert list(source.documents()) == list(source.documents()) == ["t1", "t2", "v1"]


def test_a_split_or_a_configuration_can_be_named():
    source = open_source(typed("hf:owner/stories@test"), "text")
    assert source.divided is None
    assert list(source.documents()) == ["x1"]
    assert read("hf:owner/sizes:small") == ["small"]
    assert read("hf:owner/sizes:big@train") == ["big"]


def test_pairs_are_found_inside_a_column():
    assert read("hf:owner/pairs", "pairs") == [Pair("Ja.", "Yes.")]
    assert read("hf:owner/pairs", "pairs", columns=["translation.en", "translation.de"]) == [Pair("Yes.", "Ja.")]


def test_the_fingerprint_knows_the_split_and_the_revision(hub):
    def fingerprint(name: str) -> str:
        return open_source(typed(name), "text").fingerprint()

    assert fingerprint("hf:owner/stories") == fingerprint("hf:owner/stories")
    assert len({fingerprint(f"hf:owner/stories{split}") for split in ("", "@train", "@test")}) == 3
    before = fingerprint("hf:owner/stories@train")
    write(hub / "owner/stories/train.jsonl", '{"text": "other", "n": 1}\n')
    assert fingerprint("hf:owner/stories@train") != before


@pytest.mark.parametrize("name", ["hf:", "hf:stories", "hf:owner/stories/more", "hf:owner/stories@", "hf:owner/a b"])
def test_a_malformed_name_is_refused(name):
    sentence = refusal(UsageError, 2, name)
    assert f"'{name}'" in sentence and "hf:owner/name" in sentence


def test_an_unknown_split_configuration_or_column_is_refused():
    sentence = refusal(UsageError, 2, "hf:owner/stories@dev")
    assert "hf:owner/stories@dev has no split 'dev', only train, validation, test" in sentence
    assert "big" in refusal(UsageError, 2, "hf:owner/sizes")
    assert "tiny" in refusal(UsageError, 2, "hf:owner/sizes:tiny")
    assert "'words'" in refusal(UsageError, 2, "hf:owner/stories", columns=["words"])


def test_code_in_a_dataset_is_refused_not_run():
    assert "hf:owner/script" in refusal(UsageError, 2, "hf:owner/script")


def test_a_hub_that_cannot_be_reached_is_one_sentence_with_a_remedy(capfd):
    sentence = refusal(TfcliError, 1, "hf:owner/elsewhere")
    assert "Cannot fetch hf:owner/elsewhere" in sentence
    assert "check the network, or download the dataset and name its files" in sentence
    assert "\n" not in sentence
    assert capfd.readouterr() == ("", "")
