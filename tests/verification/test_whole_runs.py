"""What checks of whole runs say of sound runs, and of runs with a planted defect each."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.cli.commands import snapshot
from tests.support.runs import one_thread
from tests.verification.trained import ARCHITECTURES, subject_of, train
from tfcli.data.batch import IGNORED, Batch
from tfcli.data.loader import CausalBatches
from tfcli.files import read_json, write_json
from tfcli.interop import exporting
from tfcli.models import objective
from tfcli.runs import load, weights
from tfcli.runs.weights import load_tensors, save_tensors
from tfcli.tokenization.tokenizer import Tokenizer
from tfcli.training import checkpoint as state
from tfcli.training import loop
from tfcli.verification import Check, export, labels
from tfcli.verification import checkpoint as resumed
from tfcli.verification import checkpoint as saved
from tfcli.verification.check import Proof, VerifiedRun

PROOFS = (
    *(saved.saved_and_loaded, saved.files_agree, resumed.resumed_training, resumed.data_order),
    *(export.exported, labels.evaluation_twice, labels.evaluation_by_batches),
)
LLAMA = {"norm": "rmsnorm", "query_key_norm": False, "scale_embeddings": False}


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture(scope="module")
def runs(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A run of an architecture, trained at the first call. Copy it to change it."""
    folder = tmp_path_factory.mktemp("runs")

    def run(architecture: str) -> Path:
        out = folder / architecture
        return out if out.exists() else train(out, architecture, **(LLAMA if architecture == "decoder" else {}))

    return run


@pytest.fixture
def subject(runs: Callable[[str], Path]) -> VerifiedRun:
    return subject_of(runs("decoder"))


def failed(proof: Proof, subject: VerifiedRun) -> Check:
    """What a check says that fails: something, and in which figures."""
    check = proof.check(subject)
    assert check.status == "failed", check
    assert check.reason
    return check


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_sound_run_passes_all_and_is_left_as_it_was(
    architecture: str, runs: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = runs(architecture)
    before, looked_at, random = snapshot(path), subject_of(path), torch.get_rng_state()
    checks = {proof.name: proof.check(looked_at) for proof in PROOFS}
    assert {check.status for check in checks.values()} <= {"passed", "skipped"}, checks
    assert [name for name, check in checks.items() if check.status == "skipped"] in ([], ["exported = original"])
    assert snapshot(path) == before
    assert [path for path in tmp_path.iterdir() if not path.name.startswith("torchinductor")] == []
    assert torch.equal(torch.get_rng_state(), random) and torch.get_num_threads() == 1
    assert not looked_at.run.model.training


def test_a_run_without_its_text_or_checkpoints_is_trained_on_made_up_text(runs: Callable[[str], Path], tmp_path: Path):
    for architecture in ARCHITECTURES:
        path = shutil.copytree(runs(architecture), tmp_path / architecture)
        shutil.rmtree(path / "checkpoints")
        without = replace(subject_of(path), data=None, made_up_because="it is gone")
        for proof in (resumed.resumed_training, resumed.data_order, labels.evaluation_by_batches):
            check = proof.check(without)
            assert check.status == "passed", (architecture, check)


def test_what_cannot_be_resumed_here_is_skipped_with_its_reason(subject: VerifiedRun, tmp_path: Path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    train = replace(subject.run.recipe.train, device="cuda")
    on_gpu = replace(subject, run=replace(subject.run, recipe=replace(subject.run.recipe, train=train)))
    check = resumed.resumed_training.check(on_gpu)
    assert check.status == "skipped" and "another device" in check.reason
    path = shutil.copytree(subject.run.directory.path, tmp_path / "run")
    moments = path / "checkpoints/step-000006/optimizer.safetensors"
    tensors, metadata = load_tensors(moments)
    save_tensors(moments, {**tensors, "random.cpu.1": tensors["random.cpu"].clone()}, metadata)
    check = resumed.resumed_training.check(subject_of(path))
    assert check.status == "skipped" and "several processes" in check.reason


LOST = {
    "random numbers": "restore_random_state",
    "moments": "_restore_moments",
    "moving average": "_average_tensors",
}


@pytest.mark.parametrize("what", LOST)
def test_what_a_resume_forgets_is_found(what: str, subject: VerifiedRun, monkeypatch: pytest.MonkeyPatch):
    """Moments that are forgotten begin to count again, and the next checkpoint is refused for it."""
    monkeypatch.setattr(state, LOST[what], lambda *_: {})
    check = failed(resumed.resumed_training, subject)
    assert check.measured or ("counts another number of updates" in check.reason and what == "moments")


def test_a_learning_rate_that_begins_again_is_found(subject: VerifiedRun, monkeypatch: pytest.MonkeyPatch):
    """The schedule counts the steps of this process, not those of the training."""
    true, calls = loop.learning_rate_factor, iter(range(1, 100))
    monkeypatch.setattr(loop, "learning_rate_factor", lambda _, section: true(next(calls), section))
    failed(resumed.resumed_training, subject)


def from_the_beginning(batches: CausalBatches, start: int = 0) -> Iterator[Batch]:
    return TRAINING(batches, 0)


def the_rest_again_and_again(batches: CausalBatches, start: int = 0) -> Iterator[Batch]:
    """Every later epoch, too, begins where this one went on."""
    epoch, first = divmod(start, batches.batches_per_epoch)
    while True:
        for number in range(first, batches.batches_per_epoch):
            yield next(TRAINING(batches, epoch * batches.batches_per_epoch + number))
        epoch += 1


TRAINING = CausalBatches.training


@pytest.mark.parametrize("defect", [from_the_beginning, the_rest_again_and_again])
def test_data_that_begins_elsewhere_is_found(defect: Any, subject: VerifiedRun, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(CausalBatches, "training", defect)
    failed(resumed.data_order, subject)


def test_weights_that_are_rounded_on_the_disk_are_found(subject: VerifiedRun, monkeypatch: pytest.MonkeyPatch):
    true = weights.save_file

    def rounded(tensors: dict[str, Tensor], *rest: Any) -> None:
        true({name: tensor.bfloat16().float() for name, tensor in tensors.items()}, *rest)

    monkeypatch.setattr(weights, "save_file", rounded)
    assert (failed(saved.saved_and_loaded, subject).measured or 0) > 100


def test_matrices_that_are_untied_by_loading_are_found(runs: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch):
    """Equal in all bits, and yet two: the next step of a training changes one of them alone."""
    true = load.fill_model

    def untying(model: Any, *rest: Any) -> None:
        true(model, *rest)
        model.head.weight = nn.Parameter(model.head.weight.detach().clone())

    sound = subject_of(runs("decoder"))
    monkeypatch.setattr(load, "fill_model", untying)
    assert "one in the model" in failed(saved.saved_and_loaded, sound).reason
    monkeypatch.setattr(saved, "load_run", lambda path: sound.run)
    failed(saved.saved_and_loaded, subject_of(runs("decoder")))


def test_another_tokenizer_after_loading_is_found(subject: VerifiedRun, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Tokenizer, "save", lambda self, path: path.write_text(self.to_json().replace("Ġthe", "Ġteh")))
    failed(saved.saved_and_loaded, subject)


@pytest.mark.parametrize("damage", ["moments of another run", "another step", "no weights"])
def test_files_that_do_not_belong_together_are_found(damage: str, subject: VerifiedRun, tmp_path: Path):
    path = shutil.copytree(subject.run.directory.path, tmp_path / "run")
    checkpoint = path / "checkpoints/step-000006"
    if damage == "another step":
        write_json(checkpoint / "state.json", {**read_json(checkpoint / "state.json"), "step": 5})
    elif damage == "no weights":
        (checkpoint / "model.safetensors").unlink()
    else:
        tensors, _ = load_tensors(checkpoint / "optimizer.safetensors")
        save_tensors(checkpoint / "optimizer.safetensors", tensors, {"run_id": "another"})
    assert failed(saved.files_agree, subject_of(path)).measured == 1


def test_dropout_in_an_evaluation_is_found(subject: VerifiedRun, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(subject.run.model, "eval", lambda: subject.run.model)
    assert "training mode" in failed(labels.evaluation_twice, subject).reason


def test_an_evaluation_that_ends_dropout_for_good_is_found(subject: VerifiedRun, monkeypatch: pytest.MonkeyPatch):
    """The training goes on as if it was evaluated."""
    true = labels.total_loss

    def forgetful(model: Any, *rest: Any) -> Any:
        totals = true(model, *rest)
        model.eval()
        return totals

    monkeypatch.setattr(labels, "total_loss", forgetful)
    assert failed(labels.evaluation_twice, subject).measured == 1


@pytest.mark.parametrize("architecture", ["decoder", "encoder-decoder"])
def test_padding_that_counts_in_the_loss_is_found(
    architecture: str, runs: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
):
    subject, true = subject_of(runs(architecture)), objective.targets_of

    def counting(*arguments: Any) -> Any:
        for target in true(*arguments):
            yield target._replace(labels=target.labels.where(target.labels != IGNORED, 0))

    monkeypatch.setattr(objective, "targets_of", counting)
    assert failed(labels.evaluation_by_batches, subject).measured


def transposed(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.T if "o_proj" in name else tensor for name, tensor in tensors.items()}


def left_out(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if "layers.0.mlp.up_proj" not in name}


@pytest.mark.parametrize("defect", [transposed, left_out])
def test_tensors_that_are_exported_wrongly_are_found(
    defect: Any, subject: VerifiedRun, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("transformers")
    true = exporting.checkpoint_of_parameters
    monkeypatch.setattr(exporting, "checkpoint_of_parameters", lambda *arguments: defect(true(*arguments)))
    failed(export.exported, subject)


@pytest.mark.parametrize(
    "change", [{"rms_norm_eps": 1e-3}, {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}], ids=str
)
def test_a_config_that_is_exported_wrongly_is_found(change: Any, subject: VerifiedRun, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("transformers")
    true = exporting.expressed

    def wrong(*arguments: Any) -> Any:
        expressed = true(*arguments)
        return expressed._replace(config={**expressed.config, **change})

    monkeypatch.setattr(exporting, "expressed", wrong)
    assert "logits" in failed(export.exported, subject).reason


def test_without_transformers_the_export_is_skipped(subject: VerifiedRun, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(export.importlib.util, "find_spec", lambda name: None)
    check = export.exported.check(subject)
    assert check.status == "skipped" and check.reason == "transformers is not installed"
