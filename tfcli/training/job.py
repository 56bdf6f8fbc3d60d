"""A training job: everything one training needs, put together fresh or from a checkpoint."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.optim import Optimizer

from tfcli.data.batch import Batch
from tfcli.data.dataset import PreparedDataset
from tfcli.data.labelled import class_weights, numbers_of
from tfcli.data.loader import Batches, build_batches
from tfcli.errors import BrokenInputError, UsageError
from tfcli.files import digest, replacing_folder, require_writable, write_text
from tfcli.layers.lora import Merged, adapt
from tfcli.machine import choose_threads, environment_fixes_threads
from tfcli.models.build import build_model, meta_model
from tfcli.models.device import choose_device, keep_freed_memory, synchronize
from tfcli.models.transformer import Transformer
from tfcli.recipe.loading import to_toml
from tfcli.recipe.model import ModelSection
from tfcli.recipe.recipe import Recipe
from tfcli.recipe.train import BATCH_SIZE, EVALUATE_TOKENS, Device, TrainSection, Windows
from tfcli.records.dataset import DatasetRecord, VocabularyExtension
from tfcli.records.roles import TokenRoles
from tfcli.records.runs import SettingChanged
from tfcli.runs.checkpoint import Checkpoint, Origin, Progress, last_checkpoint, or_an_older_one
from tfcli.runs.config import RunConfig, read_config, write_config, write_run_data
from tfcli.runs.directory import RunDirectory
from tfcli.runs.load import StoredRun, load_run_tokenizer
from tfcli.runs.metrics import truncate_metrics
from tfcli.runs.weights import model_tensors, save_tensors
from tfcli.tokenization.tokenizer import Tokenizer
from tfcli.training.averaging import MovingAverage
from tfcli.training.checkpoint import load_checkpoint, origin_of, prune, save_checkpoint
from tfcli.training.distributed import SINGLE_PROCESS, Workers, parallelized, require_work_for_all
from tfcli.training.memory import require_memory, sequences_per_batch, synthetic_batches
from tfcli.training.objective import TrainingLoss
from tfcli.training.optimizer import build_optimizers, optimizer_step
from tfcli.training.precision import (
    choose_attention,
    choose_compile,
    choose_precision,
    compile_layers,
    measure_threads,
)
from tfcli.training.schedule import learning_rate_factor
from tfcli.training.vocabulary import extend_model


def resolve_for_machine(recipe: Recipe) -> Recipe:
    """Fill in what is left to the machine, once, at the start of a run. A device that is not there is refused."""
    train, device, usual = recipe.train, choose_device(recipe.train.device), torch.get_num_threads()
    precision = choose_precision(train.precision, device, recipe.model)
    decided = replace(
        train,
        device=device.type,  # type: ignore[arg-type]
        precision=precision,
        attention=choose_attention(train.attention, device, precision, recipe.context),
        compile=choose_compile(train.compile, device, train.steps),
        threads=choose_threads(train.threads, usual) if device.type == "cpu" else train.threads or usual,
    )
    return replace(recipe, train=decided)


class Assembly(NamedTuple):
    """A model on its device, the loss around it, and the optimizers of its weights."""

    model: Transformer
    objective: nn.Module
    optimizers: list[Optimizer]
    device: torch.device


def assemble(
    model: ModelSection, train: TrainSection, workers: Workers = SINGLE_PROCESS, weights: ArrayLike | None = None
) -> Assembly:
    """Build all from decided sections; sets this process's threads and seed. `weights`: those of the labels, (C,)."""
    torch.set_num_threads(workers.threads(train.threads))
    device = choose_device(train.device)
    workers.require_device(device)
    built = build_model(model, train.seed)
    if train.adapter:
        adapt(built, train.adapter_rank, train.adapter_factor, train.seed, new_head=bool(model.labels))
    if device.type == "cpu":
        keep_freed_memory()
    built.use_in_training("rows" if train.attention == "rows" else "fused")
    if train.compile == "on":
        compile_layers(built)
    if train.activation_checkpointing:
        built.use_gradient_checkpointing()
    torch.manual_seed(workers.seed(train.seed))  # dropout draws from here
    of_classes = None if weights is None else torch.tensor(weights, dtype=torch.float32, device=device)
    objective = parallelized(TrainingLoss(built, train, of_classes), train, workers, device)
    return Assembly(built, objective, build_optimizers(built, train), device)


def needs_new_head(ours: ModelSection, theirs: ModelSection, task: str | None) -> bool:
    """Whether a head, whose labels may be open, begins afresh: the other run has none, or one for something else."""
    return not theirs.labels or theirs.labels != ours.labels if task else not theirs.predicts_tokens


def require_same_model(model: ModelSection, initial: StoredRun, task: str | None) -> None:
    """Refuse weights of another model by the first setting that differs; an open vocabulary is the tokenizer's."""
    ours, theirs = _computed(model), _computed(initial.config.model)
    if ours.vocab_size is None:
        ours = replace(ours, vocab_size=theirs.vocab_size)
    if needs_new_head(ours, theirs, task):
        own = ("head", "head_bias", "scale_logits", "tie_embeddings", "labels")
        ours = replace(ours, **{name: getattr(theirs, name) for name in own})
    run = initial.directory
    for name, here in vars(ours).items():
        if here != (there := getattr(theirs, name)):
            problem = f"The run {run.path} is another model: its model.{name} is {there!r}, not {here!r}"
            raise UsageError(problem, f"use its settings: --recipe {run.recipe}")


def require_adaptable(train: TrainSection, initial: StoredRun) -> None:
    """Refuse, before any work, adapters of a rank that a matrix does not have, or beside an untrained head."""
    theirs = initial.config.model
    adapt(meta_model(theirs), train.adapter_rank, train.adapter_factor)
    if not (theirs.predicts_tokens or train.task):
        has = f"has no head{' for tokens' * bool(theirs.labels)}, and train.adapter leaves it as it is"
        raise UsageError(f"The run {initial.directory.path} {has}", "train one first, without train.adapter")


def _computed(model: ModelSection) -> ModelSection:
    """What decides which function weights stand for: defaults written out, and left out what only training sees. Equal
    shapes are not enough: the number of heads, for one, changes no shape."""
    only_trained = ["dropout", "embedding_dropout", "attention_dropout", "activation_dropout"]
    only_trained += ["initialization", "init_std", *(["max_seq_len"] if model.positions != "learned" else [])]
    return replace(
        model,
        num_kv_heads=model.kv_heads,
        head_dim=model.size_per_head,
        d_ff=model.inner_size,
        position_layout=model.layout if model.positions in ("sinusoidal", "rotary") else None,
        norm_bias=model.has_norm_bias,
        attention_output_bias=model.has_output_bias,
        scale_embeddings=model.embedding_scale != 1.0,
        **{name: getattr(ModelSection, name) for name in only_trained},
    )


@dataclass
class TrainingJob:
    """A model with its optimizer, its batches and where it stands. Made by `start` or `resume`, run by `train`."""

    run: RunDirectory
    recipe: Recipe
    config: RunConfig
    data: DatasetRecord
    model: Transformer
    objective: nn.Module
    optimizers: list[Optimizer]
    training: Batches
    validation: Batches
    device: torch.device
    sample: Batches | None = None  # what of the validation part is scored in between; None: all of it
    progress: Progress = field(default_factory=Progress)
    average: MovingAverage | None = None
    changes: tuple[SettingChanged, ...] = ()
    lost_lines: int = 0  # of metrics.jsonl: those that were there at the checkpoint and are there no more
    best_is_later: bool = False  # than the checkpoint that training goes on from: the best weights' step
    without_digest: bool = False  # whether that checkpoint is of before they told what they belong to
    workers: Workers = SINGLE_PROCESS
    watch: Callable[[Mapping[str, Tensor]], dict[str, float]] | None = None  # what train.watch measures of weights
    extension: VocabularyExtension | None = None  # of a run begun with more rows than another one's weights have

    @property
    def origin(self) -> Origin:
        """What its checkpoints belong to."""
        return origin_of(self.config, self.data.fingerprint, self.recipe)


def start(
    recipe: Recipe,
    data: PreparedDataset,
    tokenizer: Tokenizer,
    run: RunDirectory,
    initial: StoredRun | None = None,
    processes: int = 1,
) -> TrainingJob:
    """Begin a run: decide what the recipe leaves open, and write down all that does not change any more. `initial` is a
    run whose weights are taken over; its model must be the same, and its tokenizer too, or one that `tokenizer`
    extends. Of several processes each will resume from the folder; here nothing touches their device."""
    require_writable(run.path)
    data.require_tokenizer(tokenizer)
    are_threads_open = not recipe.train.threads and not environment_fixes_threads()
    recipe = decide(recipe, tokenizer, data)
    if processes == 1 or recipe.train.parallel == "ddp":  # under fsdp, none holds it all
        train, rows = recipe.train, -(-recipe.train.rows // processes)  # those of one process
        tokens = train.batch_tokens and -(-train.batch_tokens // processes)
        require_memory(replace(recipe, train=replace(train, batch_size=rows, batch_tokens=tokens)))
    if are_threads_open and processes == 1 and recipe.train.device == "cpu":
        threads = measure_threads(recipe, recipe.train.threads, sequences_per_batch(recipe))
        recipe = replace(recipe, train=replace(recipe.train, threads=threads))
    run_id = digest(to_toml(recipe), tokenizer.fingerprint, data.record().fingerprint)
    config = RunConfig(recipe.model, tokenizer.roles, tokenizer.fingerprint, run_id)
    device: Device | None = "cpu" if processes > 1 else None
    job = _assemble(recipe, config, data, run, device=device, initial=initial, tokenizer=tokenizer)
    if initial is not None:
        kept = initial.tokenizer if job.extension is None else tokenizer
        kept.chat, tokenizer = initial.tokenizer.chat, kept
    # The folder appears whole, with weights to load, so that a kill at any instant leaves nothing in it or a run.
    with replacing_folder(run.path) as temporary:
        new = RunDirectory(temporary)
        tokenizer.save(new.tokenizer)
        if tokenizer.chat is not None:
            tokenizer.chat.save(temporary)
        write_config(new.config, config)
        write_run_data(new.data, data.record())
        write_text(new.metrics, "")
        save_checkpoint(new, job.origin, job.model, job.optimizers, job.progress, average=job.average)
        save_tensors(new.weights, Merged(model_tensors(job.model), recipe.train.adapter_factor), {"run_id": run_id})
        write_text(new.recipe, to_toml(job.recipe))
    return job


def resume(run: RunDirectory, recipe: Recipe, data: PreparedDataset, workers: Workers = SINGLE_PROCESS) -> TrainingJob:
    """Go on with a run exactly where its last checkpoint left it, whatever the number of processes that wrote it."""
    require_work_for_all(recipe.train, workers.size)
    config = read_config(run.config)
    data.require_tokenizer(load_run_tokenizer(run, config))
    job = _assemble(recipe, config, data, run, workers)
    last = require_checkpoint(run)
    job.without_digest = last.origin is None
    with or_an_older_one(run):
        job.progress = load_checkpoint(
            last, config.run_id, job.model, job.optimizers, average=job.average, workers=workers, seed=recipe.train.seed
        )
    abandoned: list[dict[str, Any]] = []
    if workers.is_first:
        if (aside := run.aside(job.progress.best_step or 0)).is_file():
            aside.replace(run.weights)
        prune(run, recipe.train)
        lines, abandoned = truncate_metrics(run.metrics, job.progress.step, unevaluated=job.progress.unevaluated)
        job.lost_lines, job.progress.lines = max(0, job.progress.lines - lines), lines
    job.best_is_later = workers.any(any(line.get("best") for line in abandoned))
    return job


def require_checkpoint(run: RunDirectory) -> Checkpoint:
    """The last checkpoint of a run; a run that has lost all is refused."""
    if (last := last_checkpoint(run)) is not None:
        return last
    raise BrokenInputError(f"The run {run.path} has lost its checkpoints", "begin a new one from it with --init")


def decide(recipe: Recipe, tokenizer: Tokenizer, data: PreparedDataset) -> Recipe:
    """Fill in what depends on the machine, the tokenizer and the text."""
    recipe, ids = recipe.resolved(), tokenizer.vocab_size
    model = replace(recipe.model, vocab_size=recipe.model.vocab_size or ids)
    if (model.vocab_size or 0) < ids:
        raise UsageError(f"{model.vocab_size = } is less than the tokenizer's {ids} ids", "leave model.vocab_size out")
    if recipe.train.task is not None:
        if len(labels := model.labels or data.manifest.labels or ()) < 2:
            named = f"{len(labels)} label{'s' * (len(labels) != 1)} {', '.join(labels)}".strip()
            problem = f"{', '.join(data.manifest.sources)} has {named}, and there is nothing to tell apart"
            raise UsageError(problem, "give texts of two labels or more")
        model = replace(model, labels=labels)
    sample = EVALUATE_TOKENS if recipe.train.evaluate_tokens is None else recipe.train.evaluate_tokens
    train = replace(with_batches(recipe, data, tokenizer.roles), evaluate_tokens=sample)
    return resolve_for_machine(replace(recipe, model=model, train=train))


def with_batches(recipe: Recipe, data: PreparedDataset, roles: TokenRoles) -> TrainSection:
    """Windows and micro-batches, decided by the text where the recipe names none: as many tokens as `BATCH_SIZE`
    documents or pairs of mean length, or one of the longest; so many windows of a stream. And epochs in steps."""
    train = replace(recipe.train, windows=recipe.train.windows or _windows(recipe, data))
    if not (train.batch_size or train.batch_tokens):
        if train.windows == "stream":
            train = replace(train, batch_size=BATCH_SIZE)
        else:
            batches = build_batches(replace(recipe, train=train), data, "train", roles)
            train = replace(train, batch_tokens=max(batches.tokens_per_batch, batches.longest))
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
    """Documents, if the average one fits into the context; pairs have no windows."""
    record = data.record()
    if recipe.reads_pairs:
        return None
    # A document's tokens are counted without its <s>, and an encoder reads both ends of it at once.
    both_ends = record.train.documents if recipe.model.objective == "mlm" else 0
    return "documents" if record.train.tokens + both_ends <= recipe.context * record.train.documents else "stream"


def _assemble(
    recipe: Recipe,
    config: RunConfig,
    data: PreparedDataset,
    run: RunDirectory,
    workers: Workers = SINGLE_PROCESS,
    device: Device | None = None,
    initial: StoredRun | None = None,
    tokenizer: Tokenizer | None = None,
) -> TrainingJob:
    data.compare_first_shards()
    train, record, roles, weights = recipe.train, data.record(), config.roles, None
    if train.class_weights and (labels := config.model.labels):
        numbers = numbers_of(data.manifest, labels)
        weights = class_weights(data.pairs("train"), numbers, len(labels), recipe.objective)
    parts = assemble(config.model, replace(train, device=device or train.device), workers, weights)
    training, sample = build_batches(recipe, data, "train", roles), train.evaluate_tokens or 0
    is_sampled = 0 < sample < record.validation.tokens
    extension = None
    if initial is not None and tokenizer is not None and tokenizer.extends(initial.tokenizer):
        extension = extend_model(parts.model, parts.objective, initial, tokenizer, next(iter(training.training())))
    elif initial is not None:
        if initial.config.tokenizer_fingerprint != config.tokenizer_fingerprint:
            remedy = f"use its own: --set tokenizer.path={initial.directory.tokenizer}"
            raise UsageError(f"The run {initial.directory.path} has another tokenizer", remedy)
        require_same_model(config.model, initial, train.task)
        initial.fill(parts.model, headless=needs_new_head(config.model, initial.config.model, train.task))
    return TrainingJob(
        run=run,
        recipe=recipe,
        config=config,
        data=record,
        **parts._asdict(),
        training=training,
        validation=build_batches(recipe, data, "validation", roles),
        sample=build_batches(recipe, data, "validation", roles, sample) if is_sampled else None,
        average=MovingAverage(parts.model, train.ema_decay) if train.ema_decay else None,
        workers=workers,
        extension=extension,
    )


class StepBenchmark:
    """What a training on this machine holds in memory and does at a step, from the same pieces. Nothing is written. Its
    `recipe` is decided for this machine; `tokens` are those read by the last step, of both sides."""

    def __init__(self, recipe: Recipe, batches: Iterator[Batch] | None = None) -> None:
        """`model.vocab_size` is set; `batches`: micro-batches, endless; None: synthetic ones of the recipe's sizes."""
        self.recipe = resolve_for_machine(recipe.resolved())
        self.parts = assemble(self.recipe.model, self.recipe.train)
        self.steps, self.tokens = 0, 0
        self._batches = batches or synthetic_batches(self.recipe)

    def step(self) -> Tensor:
        """One optimizer update. Returns the plain loss in nats a token, (), left on the device."""
        train = self.recipe.train
        micro_batches = [next(self._batches) for _ in range(train.grad_accumulation)]
        self.steps += 1
        self.tokens = sum(batch.tokens for batch in micro_batches)
        loss, _ = optimizer_step(
            self.parts.objective,
            self.parts.optimizers,
            micro_batches,
            learning_rate_factor=learning_rate_factor(min(self.steps, train.steps), train),  # it may go on for longer
            clip_norm=train.clip_norm,
            only_finite=train.skip_nonfinite > 0,
        )
        return loss[0]

    def wait(self) -> None:
        """Until the device has done all that it was given."""
        synchronize(self.parts.device)
