"""`hf:` names against a stand-in for the hub: what is fetched, what is found again without it, what is refused."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.errors import (
    GatedRepoError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from tfcli.errors import TfcliError, UsageError
from tfcli.interop.importing import fetch, is_hub_name, needed

SMALL = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"]
FILES = [
    *SMALL,
    "README.md",
    ".gitattributes",
    "model.safetensors",
    "pytorch_model.bin",
    "tf_model.h5",
    "onnx/model.onnx",
    "onnx/config.json",
    "modeling_custom.py",
]
NAME = "hf:owner/name"


class Hub:
    """The two calls that tfcli makes; `error` and `download_error` are what they raise."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = FILES
        self.is_cached = False
        self.error: Exception | None = None
        self.download_error: Exception | None = None
        self.asked: list[tuple[str, str | None]] = []
        self.fetched: list[str] = []

    def model_info(self, repository: str, *, revision: str | None = None) -> Any:
        self.asked.append((repository, revision))
        if self.error:
            raise self.error
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename=name) for name in self.files], sha="0123")

    def snapshot_download(
        self, repository: str, *, revision: str | None = None, allow_patterns: list[str], local_files_only: bool = False
    ) -> str:
        self.asked.append((repository, revision))
        if local_files_only and not self.is_cached:
            raise LocalEntryNotFoundError("Cannot find it")
        if not local_files_only and self.download_error:
            raise self.download_error
        self.fetched = [] if local_files_only else allow_patterns
        return str(self.folder)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    made = Hub(tmp_path)
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: made)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", made.snapshot_download)
    return made


def answered(kind: Any) -> Exception:
    """What the library makes of the hub's answer; without the answer itself, whose class depends on the version."""
    error: Exception = kind.__new__(kind)
    error.args = ("Not found\n\nfor url",)
    return error


def refusal(kind: type[TfcliError], exit_code: int, name: str = NAME) -> str:
    with pytest.raises(kind) as caught:
        fetch(name)
    assert (type(caught.value), caught.value.exit_code) == (kind, exit_code)
    sentence = str(caught.value)
    assert sentence.endswith(".") and "\n" not in sentence
    return sentence


def test_config_tokenizer_and_one_form_of_weights_are_fetched(hub: Hub, tmp_path: Path) -> None:
    assert fetch(NAME) == tmp_path
    assert hub.fetched == [*SMALL, "model.safetensors"]
    assert hub.asked == [("owner/name", None)] * 2


def test_a_revision_is_passed_on(hub: Hub) -> None:
    for revision in ("v1.0", "refs/pr/1", "0123abc"):
        fetch(f"{NAME}@{revision}")
        assert hub.asked[-2:] == [("owner/name", revision)] * 2


@pytest.mark.parametrize(
    ("weights", "others"),
    [
        (["model.safetensors"], ["model.fp16.safetensors", "consolidated.safetensors", "pytorch_model.bin"]),
        (
            ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"],
            ["consolidated.safetensors", "pytorch_model.bin", "sub/model-00001-of-00002.safetensors"],
        ),
        (["pytorch_model.bin"], ["training_args.bin", "optimizer.bin", "flax_model.msgpack"]),
        (
            ["pytorch_model-00001-of-00001.bin", "pytorch_model.bin.index.json"],
            ["training_args.bin", "model-00001-of-00001.safetensors"],
        ),
    ],
    ids=["safetensors", "shards", "bin", "bin-shards"],
)
def test_weights_in_one_form_alone(weights: list[str], others: list[str]) -> None:
    assert needed(["config.json", *weights, *others], NAME) == ["config.json", *weights]


def test_a_model_without_what_tfcli_reads_is_refused_before_it_is_fetched(hub: Hub) -> None:
    hub.files = ["config.json", "tf_model.h5"]
    assert "hf:owner/name holds TensorFlow weights ('tf_model.h5')" in refusal(UsageError, 2)
    hub.files = ["config.json", "README.md"]
    assert "hf:owner/name holds no weights" in refusal(UsageError, 2)
    hub.files = ["model.safetensors", "sub/config.json"]
    assert "hf:owner/name has no config.json" in refusal(UsageError, 2)
    assert hub.fetched == []


@pytest.mark.parametrize(
    "name",
    [
        "hf:",
        "hf:name",
        "hf:owner/",
        "hf:owner/name/more",
        "hf:owner/name@",
        "hf:owner/name@../../x",
        "hf:owner/name@a..b",
        "hf:owner/name@/etc",
        "hf:owner/a b",
        "hf:owner/name:config",
        "hf:owner/name\x1b[2J",
    ],
)
def test_a_malformed_name_is_refused_without_asking(hub: Hub, name: str) -> None:
    sentence = refusal(UsageError, 2, name)
    assert repr(name) in sentence and "write hf:owner/name" in sentence
    assert hub.asked == []


def test_a_name_that_the_library_refuses(hub: Hub) -> None:
    """Here the library's own check answers: names cannot begin with a full stop."""
    hub.error = huggingface_hub.errors.HFValidationError("Repo id must use alphanumeric chars: '../x'.")
    assert "hf:../x is no model name" in refusal(UsageError, 2, "hf:../x")


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (answered(RepositoryNotFoundError), "There is no model hf:owner/name that you may read"),
        (answered(GatedRepoError), "Access to hf:owner/name must be asked for; accept its terms"),
        (answered(RevisionNotFoundError), "hf:owner/name names a revision that is not there"),
    ],
    ids=["repository", "gated", "revision"],
)
@pytest.mark.parametrize("when", ["asked", "fetched"])
def test_the_hub_says_no(hub: Hub, error: Exception, part: str, when: str) -> None:
    hub.is_cached = True  # an answer is an answer: an older copy does not take its place
    hub.error, hub.download_error = (error, None) if when == "asked" else (None, error)
    assert part in refusal(UsageError, 2)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("[Errno -2] Name or service not known"),
        RuntimeError("The read operation timed out"),
        OfflineModeIsEnabled("Cannot reach it: offline mode is enabled."),
        answered(huggingface_hub.errors.HfHubHTTPError),
        OSError(28, "No space left on device"),
    ],
    ids=["connection", "timeout", "offline", "down", "disk"],
)
def test_a_hub_that_cannot_be_reached(hub: Hub, tmp_path: Path, error: Exception) -> None:
    hub.error = error
    sentence = refusal(TfcliError, 1)
    assert sentence.startswith("Cannot fetch hf:owner/name (") and "check the network" in sentence
    hub.is_cached = True
    assert fetch(NAME) == tmp_path, "what was fetched before is found again"
    hub.error, hub.download_error = None, error
    assert refusal(TfcliError, 1).startswith("Cannot fetch hf:owner/name (")


def test_the_real_library_without_a_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: Any) -> None:
    """No stand-in: offline, an earlier fetch is found in the library's own cache, and nothing is written."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert "offline mode is enabled" in refusal(TfcliError, 1)
    snapshot = tmp_path / "models--owner--name/snapshots" / ("0123" * 10)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (tmp_path / "models--owner--name/refs").mkdir()
    (tmp_path / "models--owner--name/refs/main").write_text(snapshot.name)
    assert fetch(NAME) == snapshot
    assert capfd.readouterr() == ("", "")


def test_hub_names_are_told_from_folders() -> None:
    assert is_hub_name("hf:owner/name") and not is_hub_name("owner/name")
