"""Everything one training needs, put together fresh or from a checkpoint."""

from dataclasses import dataclass, replace

import torch

from tfcli.data.dataset import PreparedDataset
from tfcli.data.pairs import PairBatches
from tfcli.errors import BrokenInputError, UsageError
from tfcli.evaluation.batches import Batches, build_batches
from tfcli.files import digest, replacing_folder, require_writable, write_text
from tfcli.models.build import build_model
from tfcli.models.transformer import Transformer
from tfcli.recipe.recipe import Recipe
from tfcli.recipe.saving import to_toml
from tfcli.recipe.train import Windows
from tfcli.records.dataset import DatasetRecord
from tfcli.runs.config import RunConfig, read_config, write_config
from tfcli.runs.data import write_run_data
from tfcli.runs.directory import RunDirectory
from tfcli.runs.load import LoadedRun, load_run_tokenizer
from tfcli.runs.metrics import truncate_metrics
from tfcli.runs.weights import model_tensors, save_tensors
from tfcli.tokenization.tokenizer import Tokenizer
from tfcli.training.initial import take_weights
from tfcli.training.memory import require_memory
from tfcli.training.objective import TrainingLoss
from tfcli.training.optimizer import build_optimizers
from tfcli.training.precision import choose_device, choose_precision
from tfcli.training.state import Progress, load_checkpoint, save_checkpoint


@dataclass
class TrainingJob:
    """A model with its optimizer, its batches and where it stands. Made by `start` or `resume`, run by `train`."""

    run: RunDirectory
    recipe: Recipe
    config: RunConfig
    data: DatasetRecord
    model: Transformer
    objective: TrainingLoss
    optimizers: list[torch.optim.Optimizer]
    training: Batches
    validation: Batches
    device: torch.device
    progress: Progress
    left_out: int


def start(
    recipe: Recipe, data: PreparedDataset, tokenizer: Tokenizer, run: RunDirectory, initial: LoadedRun | None = None
) -> TrainingJob:
    """Begin a run: decide what the recipe leaves open, and write down all that does not change any more.

    Args:
        initial: a run whose weights are taken over; its model and tokenizer must be the same.

    Raises:
        UsageError: the folder is not writable, the vocabulary does not fit, or the initial run is another model.
    """
    require_writable(run.path)
    data.require_tokenizer(tokenizer)
    recipe = _decide(recipe, tokenizer, data)
    require_memory(recipe.model, torch.device(recipe.train.device))
    run_id = digest(to_toml(recipe), tokenizer.fingerprint, data.record().fingerprint)
    config = RunConfig(recipe.model, tokenizer.roles, tokenizer.fingerprint, run_id)
    job = _assemble(recipe, config, data, run)
    if initial is not None:
        take_weights(job.model, config, initial)
    _write_beginnings(job, data, tokenizer)
    return job


def resume(run: RunDirectory, recipe: Recipe, data: PreparedDataset) -> TrainingJob:
    """Go on with a run exactly where its last checkpoint left it.

    Raises:
        UsageError: it was trained on a device that is not here.
        BrokenInputError: the checkpoint, the config or the tokenizer is damaged, or there is no checkpoint left.
    """
    config = read_config(run.config)
    data.require_tokenizer(load_run_tokenizer(run, config))
    job = _assemble(recipe, config, data, run)
    checkpoints = run.checkpoints()
    if not checkpoints:
        raise BrokenInputError(f"The run {run.path} has lost its checkpoints", "begin a new one from it with --init")
    job.progress = load_checkpoint(checkpoints[max(checkpoints)], config.run_id, job.model, job.optimizers)
    truncate_metrics(run.metrics, job.progress.step)
    return job


def _decide(recipe: Recipe, tokenizer: Tokenizer, data: PreparedDataset) -> Recipe:
    """Fill in what depends on the machine, the tokenizer and the text."""
    recipe = recipe.resolved()
    wanted = recipe.model.vocab_size
    if wanted is not None and wanted < tokenizer.vocab_size:
        raise UsageError(
            f"model.vocab_size = {wanted} is less than the tokenizer's {tokenizer.vocab_size} ids",
            "leave model.vocab_size out",
        )
    model = replace(recipe.model, vocab_size=wanted or tokenizer.vocab_size)
    device = choose_device(recipe.train.device)
    precision = choose_precision(recipe.train.precision, device, model)
    train = replace(
        recipe.train,
        windows=recipe.train.windows or _windows(recipe, data),
        device=device.type,  # type: ignore[arg-type]
        precision=precision,
        threads=recipe.train.threads or torch.get_num_threads(),
    )
    return replace(recipe, model=model, train=train)


def _windows(recipe: Recipe, data: PreparedDataset) -> Windows | None:
    """Documents, if the average one fits into the context; an encoder-decoder has no windows."""
    record = data.record()
    if recipe.model.architecture == "encoder-decoder":
        return None
    context = recipe.train.context or recipe.model.max_seq_len
    # A document's tokens are counted without its <s>, and an encoder reads both ends of it at once.
    both_ends = record.train.documents if recipe.model.objective == "mlm" else 0
    return "documents" if record.train.tokens + both_ends <= context * record.train.documents else "stream"


def _assemble(recipe: Recipe, config: RunConfig, data: PreparedDataset, run: RunDirectory) -> TrainingJob:
    torch.set_num_threads(recipe.train.threads)
    device = choose_device(recipe.train.device)
    model = build_model(config.model, recipe.train.seed).to(device)
    torch.manual_seed(recipe.train.seed)  # dropout draws from here
    training = build_batches(recipe, data, "train", config.roles)
    return TrainingJob(
        run,
        recipe,
        config,
        data.record(),
        model,
        TrainingLoss(model, recipe.train),
        build_optimizers(model, recipe.train),
        training,
        build_batches(recipe, data, "validation", config.roles),
        device,
        Progress(),
        training.left_out if isinstance(training, PairBatches) else 0,
    )


def _write_beginnings(job: TrainingJob, data: PreparedDataset, tokenizer: Tokenizer) -> None:
    """The folder appears whole, with weights to load, so that a kill at any instant leaves nothing or a run."""
    if job.run.path.exists():  # an empty folder that the user has made
        _write_into(job.run, job, data, tokenizer)
        return
    with replacing_folder(job.run.path) as temporary:
        _write_into(RunDirectory(temporary), job, data, tokenizer)


def _write_into(run: RunDirectory, job: TrainingJob, data: PreparedDataset, tokenizer: Tokenizer) -> None:
    tokenizer.save(run.tokenizer)
    write_config(run.config, job.config)
    write_run_data(run.data, data.record())
    write_text(run.metrics, "")
    save_checkpoint(run, job.config.run_id, job.model, job.optimizers, job.progress)
    save_tensors(run.weights, model_tensors(job.model), {"run_id": job.config.run_id})
    # Last, because a folder holds a run from the moment that its recipe is there.
    write_text(run.recipe, to_toml(job.recipe))
