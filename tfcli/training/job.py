"""Everything one training needs, put together fresh or from a checkpoint."""

from dataclasses import dataclass, fields, replace

import torch

from tfcli.data.dataset import PreparedDataset
from tfcli.errors import TfcliError, UsageError
from tfcli.evaluation.batches import Batches, build_batches
from tfcli.files import digest, require_writable, write_json, write_text
from tfcli.models.build import build_model
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection
from tfcli.recipe.recipe import Recipe
from tfcli.recipe.saving import to_toml
from tfcli.recipe.train import Windows
from tfcli.runs.config import RunConfig, read_config, write_config
from tfcli.runs.directory import RunDirectory
from tfcli.runs.load import LoadedRun, load_run_tokenizer
from tfcli.runs.metrics import truncate_metrics
from tfcli.runs.weights import model_tensors
from tfcli.tokenization.tokenizer import Tokenizer
from tfcli.training.optimizer import build_optimizer
from tfcli.training.precision import choose_device, choose_precision
from tfcli.training.state import Progress, load_checkpoint


@dataclass
class TrainingJob:
    """A model with its optimizer, its batches and where it stands. Made by `start` or `resume`, run by `train`."""

    run: RunDirectory
    recipe: Recipe
    config: RunConfig
    model: Transformer
    optimizer: torch.optim.Optimizer
    training: Batches
    validation: Batches
    device: torch.device
    progress: Progress


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
    run_id = digest(to_toml(recipe), tokenizer.fingerprint, data.record().fingerprint)
    config = RunConfig(recipe.model, tokenizer.roles, tokenizer.fingerprint, run_id)
    if initial is not None:
        _require_same(initial, config)
    job = _assemble(recipe, config, data, run)
    if initial is not None:
        with torch.no_grad():
            for ours, theirs in zip(
                model_tensors(job.model).values(), model_tensors(initial.model).values(), strict=True
            ):
                ours.copy_(theirs)
    _write_beginnings(run, recipe, config, data, tokenizer)
    return job


def resume(run: RunDirectory, recipe: Recipe, data: PreparedDataset) -> TrainingJob:
    """Go on with a run exactly where its last checkpoint left it; from the start, where it has none.

    Raises:
        BrokenInputError: the checkpoint, the config or the tokenizer is damaged.
    """
    config = read_config(run.config)
    data.require_tokenizer(load_run_tokenizer(run, config))
    job = _assemble(recipe, config, data, run)
    checkpoints = run.checkpoints()
    if checkpoints:
        job.progress = load_checkpoint(checkpoints[max(checkpoints)], config.run_id, job.model, job.optimizer)
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
    """Documents, if the average one fits into the context; pairs have no windows."""
    record = data.record()
    if record.kind == "pairs":
        return None
    context = recipe.train.context or recipe.model.max_seq_len
    # A document's tokens are counted without its <s>, and an encoder reads both ends of it at once.
    both_ends = record.train.documents if recipe.model.objective == "mlm" else 0
    return "documents" if record.train.tokens + both_ends <= context * record.train.documents else "stream"


def _assemble(recipe: Recipe, config: RunConfig, data: PreparedDataset, run: RunDirectory) -> TrainingJob:
    torch.set_num_threads(recipe.train.threads or torch.get_num_threads())
    device = choose_device(recipe.train.device)
    model = build_model(config.model, recipe.train.seed).to(device)
    torch.manual_seed(recipe.train.seed)  # dropout draws from here
    return TrainingJob(
        run,
        recipe,
        config,
        model,
        build_optimizer(model, recipe.train),
        build_batches(recipe, data, "train", config.roles),
        build_batches(recipe, data, "validation", config.roles),
        device,
        Progress(),
    )


def _require_same(initial: LoadedRun, config: RunConfig) -> None:
    where = initial.directory.path
    if initial.config.tokenizer_fingerprint != config.tokenizer_fingerprint:
        raise UsageError(
            f"The run {where} has another tokenizer", f"use its own: --set tokenizer.path={where / 'tokenizer.json'}"
        )
    ours, theirs = _computed(config.model), _computed(initial.config.model)
    for field in fields(ModelSection):
        here, there = getattr(ours, field.name), getattr(theirs, field.name)
        if here != there:
            raise UsageError(
                f"The run {where} is another model: its model.{field.name} is {there!r}, not {here!r}",
                "use the same [model] settings as that run",
            )


def _computed(model: ModelSection) -> ModelSection:
    """What decides which function weights stand for: defaults written out, and left out what only training sees.

    Equal shapes are not enough: the number of heads, for one, changes no shape.
    """
    return replace(
        model,
        num_kv_heads=model.kv_heads,
        head_dim=model.size_per_head,
        d_ff=model.inner_size,
        scale_embeddings=model.embedding_scale != 1.0,
        max_seq_len=model.max_seq_len if model.positions == "learned" else ModelSection.max_seq_len,
        dropout=0.0,
        init_std=ModelSection.init_std,
        attention_init=ModelSection.attention_init,
    )


def _write_beginnings(
    run: RunDirectory, recipe: Recipe, config: RunConfig, data: PreparedDataset, tokenizer: Tokenizer
) -> None:
    try:
        run.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TfcliError(f"Cannot make the folder {run.path}: {error.strerror}", "choose another --out") from error
    record = data.record()
    tokenizer.save(run.tokenizer)
    write_config(run.config, config)
    write_json(
        run.data,
        {
            "format_version": 1,
            "kind": record.kind,
            "sources": list(record.sources),
            "split": record.split,
            "fingerprint": record.fingerprint,
            "documents": {"train": record.train.documents, "validation": record.validation.documents},
        },
    )
    write_text(run.metrics, "")
    # Last, because a folder holds a run from the moment that its recipe is there.
    write_text(run.recipe, to_toml(recipe))
