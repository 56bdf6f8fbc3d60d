"""A training job: everything one training needs, put together fresh or from a checkpoint."""

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import nn

from tfcli.data.dataset import PreparedDataset
from tfcli.data.pairs import PairBatches
from tfcli.errors import BrokenInputError, UsageError
from tfcli.evaluation.batches import Batches, build_batches
from tfcli.files import digest, replacing_folder, require_writable, write_text
from tfcli.models.transformer import Transformer
from tfcli.recipe.changes import settings_that_decide
from tfcli.recipe.recipe import Recipe
from tfcli.recipe.saving import to_toml
from tfcli.recipe.train import BATCH_SIZE, EVALUATE_TOKENS, Device, TrainSection, Windows
from tfcli.records.dataset import DatasetRecord
from tfcli.records.roles import TokenRoles
from tfcli.records.training import SettingChanged
from tfcli.runs.checkpoint import Origin, Progress, last_checkpoint, or_an_older_one
from tfcli.runs.config import RunConfig, read_config, write_config
from tfcli.runs.data import write_run_data
from tfcli.runs.directory import RunDirectory
from tfcli.runs.load import StoredRun, load_run_tokenizer
from tfcli.runs.metrics import truncate_metrics
from tfcli.runs.weights import model_tensors, save_tensors
from tfcli.tokenization.tokenizer import Tokenizer
from tfcli.training.assembly import assemble, decide_for_machine
from tfcli.training.averaging import MovingAverage
from tfcli.training.checkpoints import checkpoints_to_keep
from tfcli.training.initial import take_weights
from tfcli.training.memory import require_memory
from tfcli.training.state import load_checkpoint, save_checkpoint
from tfcli.training.workers import ALONE, Workers, require_work_for_all


@dataclass
class TrainingJob:
    """A model with its optimizer, its batches and where it stands. Made by `start` or `resume`, run by `train`."""

    run: RunDirectory
    recipe: Recipe
    config: RunConfig
    data: DatasetRecord
    model: Transformer
    objective: nn.Module
    optimizers: list[torch.optim.Optimizer]
    training: Batches
    validation: Batches
    device: torch.device
    sample: Batches | None = None
    """What of the validation part is scored in between; None: all of it."""
    left_out: int = 0
    progress: Progress = field(default_factory=Progress)
    average: MovingAverage | None = None
    changes: tuple[SettingChanged, ...] = ()
    lost_lines: int = 0
    """Of metrics.jsonl: those that were there at the checkpoint and are there no more."""

    best_is_later: bool = False
    """Whether the best weights are of a step after the checkpoint that training goes on from."""
    without_digest: bool = False
    """Whether that checkpoint is of before they told what they belong to."""
    workers: Workers = ALONE

    @property
    def origin(self) -> Origin:
        """What its checkpoints belong to."""
        config = self.config
        settings = settings_that_decide(self.recipe)
        return Origin(
            config.run_id, config.tokenizer_fingerprint, self.data.fingerprint, asdict(config.roles), settings
        )


def start(
    recipe: Recipe,
    data: PreparedDataset,
    tokenizer: Tokenizer,
    run: RunDirectory,
    initial: StoredRun | None = None,
    processes: int = 1,
) -> TrainingJob:
    """Begin a run: decide what the recipe leaves open, and write down all that does not change any more.

    Args:
        initial: a run whose weights are taken over; its model and tokenizer must be the same.
        processes: that will train. Of several, each will resume from the folder; here nothing touches their device.

    Raises:
        UsageError: the folder is not writable, the vocabulary does not fit, or the initial run is another model.
    """
    require_writable(run.path)
    data.require_tokenizer(tokenizer)
    recipe = decide(recipe, tokenizer, data)
    if processes == 1 or recipe.train.parallel == "ddp":  # under fsdp, none holds it all
        require_memory(_share_of(recipe, processes))
    run_id = digest(to_toml(recipe), tokenizer.fingerprint, data.record().fingerprint)
    config = RunConfig(recipe.model, tokenizer.roles, tokenizer.fingerprint, run_id)
    job = _assemble(recipe, config, data, run, device="cpu" if processes > 1 else None)
    if initial is not None:
        take_weights(job.model, config, initial)
    job.average = _moving_average(job)
    _write_beginnings(job, data, tokenizer if initial is None else initial.tokenizer)
    return job


def resume(run: RunDirectory, recipe: Recipe, data: PreparedDataset, workers: Workers = ALONE) -> TrainingJob:
    """Go on with a run exactly where its last checkpoint left it, whatever the number of processes that wrote it.

    Raises:
        UsageError: it was trained on a device that is not here, or there are more workers than rows in a batch.
        BrokenInputError: the checkpoint, the config or the tokenizer is damaged, or there is no checkpoint left.
    """
    require_work_for_all(recipe.train, workers.size)
    config = read_config(run.config)
    data.require_tokenizer(load_run_tokenizer(run, config))
    job = _assemble(recipe, config, data, run, workers)
    last = last_checkpoint(run)
    if last is None:
        raise BrokenInputError(f"The run {run.path} has lost its checkpoints", "begin a new one from it with --init")
    job.average, job.without_digest = _moving_average(job), last.origin is None
    with or_an_older_one(run):
        job.progress = load_checkpoint(
            last, config.run_id, job.model, job.optimizers, average=job.average, workers=workers, seed=recipe.train.seed
        )
    abandoned: list[dict[str, Any]] = []
    if workers.is_first:
        if (aside := run.aside(job.progress.best_step or 0)).is_file():
            aside.replace(run.weights)
        run.prune(checkpoints_to_keep(run.checkpoints(), recipe.train))
        lines, abandoned = truncate_metrics(run.metrics, job.progress.step, unevaluated=job.progress.unevaluated)
        job.lost_lines, job.progress.lines = max(0, job.progress.lines - lines), lines
    job.best_is_later = workers.any(any(line.get("best") for line in abandoned))
    return job


def forget_abandoned_best(job: TrainingJob) -> None:
    """With other settings a run does not come back to what it did after its last checkpoint: where its best weights are
    from there, the next evaluation is the best one again."""
    if job.best_is_later:
        job.progress.best_loss, job.progress.best_step = None, None


def decide(recipe: Recipe, tokenizer: Tokenizer, data: PreparedDataset) -> Recipe:
    """Fill in what depends on the machine, the tokenizer and the text."""
    recipe = recipe.resolved()
    wanted = recipe.model.vocab_size
    if wanted is not None and wanted < tokenizer.vocab_size:
        raise UsageError(
            f"model.vocab_size = {wanted} is less than the tokenizer's {tokenizer.vocab_size} ids",
            "leave model.vocab_size out",
        )
    model = replace(recipe.model, vocab_size=wanted or tokenizer.vocab_size)
    sample = EVALUATE_TOKENS if recipe.train.evaluate_tokens is None else recipe.train.evaluate_tokens
    train = replace(with_batches(recipe, data, tokenizer.roles), evaluate_tokens=sample)
    return replace(recipe, model=model, train=decide_for_machine(model, train))


def with_batches(recipe: Recipe, data: PreparedDataset, roles: TokenRoles) -> TrainSection:
    """Windows and micro-batches, decided by the text where the recipe names none: as many tokens as `BATCH_SIZE`
    documents or pairs of mean length have, and no less than one of the longest; of a stream, whose windows are equally
    long, `BATCH_SIZE` of them. And the steps, where the recipe counts epochs."""
    train = replace(recipe.train, windows=recipe.train.windows or _windows(recipe, data))
    if not (train.batch_size or train.batch_tokens):
        if train.windows == "stream":
            train = replace(train, batch_size=BATCH_SIZE)
        else:
            batches = build_batches(replace(recipe, train=train), data, "train", roles)
            longest = batches.longest if isinstance(batches, PairBatches) else train.context or recipe.model.max_seq_len
            train = replace(train, batch_tokens=max(batches.tokens_per_batch, longest))
    return with_steps(replace(recipe, train=train), data, roles)


def with_steps(recipe: Recipe, data: PreparedDataset, roles: TokenRoles) -> TrainSection:
    """Epochs counted in steps, of which the last may begin another pass; windows and micro-batches are decided."""
    train = recipe.train
    if train.epochs is None:
        return train
    batches = build_batches(recipe, data, "train", roles).batches_per_epoch
    steps = math.ceil(round(train.epochs * batches / train.grad_accumulation, 6))  # 0.07 * 100 is 7.000000000000001
    return replace(train, steps=max(1, steps), epochs=None)


def _windows(recipe: Recipe, data: PreparedDataset) -> Windows | None:
    """Documents, if the average one fits into the context; an encoder-decoder has no windows."""
    record = data.record()
    if recipe.model.architecture == "encoder-decoder":
        return None
    context = recipe.train.context or recipe.model.max_seq_len
    # A document's tokens are counted without its <s>, and an encoder reads both ends of it at once.
    both_ends = record.train.documents if recipe.model.objective == "mlm" else 0
    return "documents" if record.train.tokens + both_ends <= context * record.train.documents else "stream"


def _share_of(recipe: Recipe, processes: int) -> Recipe:
    """The recipe with the micro-batches that one of the processes sees."""
    train = recipe.train
    tokens = train.batch_tokens and -(-train.batch_tokens // processes)
    return replace(recipe, train=replace(train, batch_size=-(-train.rows // processes), batch_tokens=tokens))


def _assemble(
    recipe: Recipe,
    config: RunConfig,
    data: PreparedDataset,
    run: RunDirectory,
    workers: Workers = ALONE,
    device: Device | None = None,
) -> TrainingJob:
    data.compare_first_shards()
    parts = assemble(config.model, replace(recipe.train, device=device or recipe.train.device), workers)
    training = build_batches(recipe, data, "train", config.roles)
    sample = recipe.train.evaluate_tokens or 0
    sample = sample if sample < data.record().validation.tokens else 0
    return TrainingJob(
        run=run,
        recipe=recipe,
        config=config,
        data=data.record(),
        **parts._asdict(),
        training=training,
        validation=build_batches(recipe, data, "validation", config.roles),
        sample=build_batches(recipe, data, "validation", config.roles, sample) if sample else None,
        left_out=training.left_out if isinstance(training, PairBatches) else 0,
        workers=workers,
    )


def _moving_average(job: TrainingJob) -> MovingAverage | None:
    decay = job.recipe.train.ema_decay
    return MovingAverage(job.model, decay) if decay else None


def _write_beginnings(job: TrainingJob, data: PreparedDataset, tokenizer: Tokenizer) -> None:
    """The folder appears whole, with weights to load, so that a kill at any instant leaves nothing in it or a run."""
    with replacing_folder(job.run.path) as temporary:
        run = RunDirectory(temporary)
        tokenizer.save(run.tokenizer)
        if tokenizer.chat is not None:
            tokenizer.chat.save(temporary)
        write_config(run.config, job.config)
        write_run_data(run.data, data.record())
        write_text(run.metrics, "")
        save_checkpoint(run, job.origin, job.model, job.optimizers, job.progress, average=job.average)
        save_tensors(run.weights, model_tensors(job.model), {"run_id": job.config.run_id})
        write_text(run.recipe, to_toml(job.recipe))
