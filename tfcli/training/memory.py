"""Memory estimate: how much memory a training takes, and whether that fits into this machine, before it begins.

PyTorch's fake tensors, without numbers, run the model's own code: what is counted is what autograd really keeps."""

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import count
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from tfcli import machine
from tfcli.data.batch import IGNORED, Batch
from tfcli.errors import UsageError
from tfcli.layers.kernels import Operation, fake_tensors
from tfcli.layers.lora import adapt, num_trained
from tfcli.machine import peak_process_memory, process_memory
from tfcli.models.build import ARCHITECTURES, meta_model
from tfcli.models.objective import scores_of_labels
from tfcli.planning import MemoryRecord
from tfcli.recipe.model import ModelSection
from tfcli.recipe.recipe import Recipe
from tfcli.training.objective import MOST_TOKENS, TrainingLoss
from tfcli.training.optimizer import layer_matrices


def synthetic_batches(recipe: Recipe, sequences: int | None = None) -> Iterator[Batch]:
    """Endless full micro-batches of a recipe's sizes, or of so many sequences; `model.vocab_size` is set."""
    train, draw = recipe.train, np.random.default_rng(recipe.train.seed)
    rows = sequences or sequences_per_batch(recipe)
    while True:
        batch = synthetic_batch(recipe.model, rows, recipe.context, draw, mask_probability=train.mask_probability)
        if train.document_masking and train.windows != "documents":
            columns = np.arange(recipe.context)  # four documents a window
            batch = replace(batch, document_starts=np.tile(columns - columns % max(1, recipe.context // 4), (rows, 1)))
        yield batch


def sequences_per_batch(recipe: Recipe) -> int:
    """Sequences (pairs) in a micro-batch of full length."""
    if recipe.train.batch_tokens is None:
        return recipe.train.rows
    return max(1, recipe.train.batch_tokens // ((2 if recipe.model.objective == "seq2seq" else 1) * recipe.context))


def synthetic_batch(
    model: ModelSection,
    sequences: int,
    length: int,
    draw: np.random.Generator,
    *,
    target_length: int | None = None,
    mask_probability: float = 0.15,
) -> Batch:
    """One batch of the model's objective: a clm predicts every token, an mlm the same number in each sequence, and a
    pair the whole target, of `target_length` tokens (None: as many as the source)."""
    assert model.vocab_size is not None, "the vocabulary is not decided"
    inputs = draw.integers(model.vocab_size, size=(sequences, length))
    if model.labels:  # one place of each sequence
        told = draw.integers(len(model.labels), size=(sequences, 1))
        return Batch(inputs, np.where(np.arange(length) > 0, IGNORED, told))
    if model.objective == "clm":
        return Batch(inputs, draw.integers(model.vocab_size, size=inputs.shape))
    if model.objective == "mlm":
        masked = max(1, round(mask_probability * length))
        order = draw.permuted(np.tile(np.arange(length), (sequences, 1)), axis=1)
        return Batch(inputs, np.where(order < masked, inputs, IGNORED))
    targets = draw.integers(model.vocab_size, size=(sequences, (target_length or length) + 1))
    return Batch(inputs, targets[:, 1:].copy(), decoder_input_ids=targets[:, :-1].copy())


Kind = Literal["weights", "copies", "gradients", "activations", "logits"]

TRACED_LAYERS, TRACED_TOKENS = 8, MOST_TOKENS
"""Models and batches of so many and of twice as many are traced; every further layer or sequence costs the same."""


def estimate_step_memory(recipe: Recipe, sequences: int) -> Counter[str]:
    """Bytes of a forward and backward pass, and then of scoring such a batch: the most that live of each kind, and
    "peak", the most of all at once. "weights" hold buffers too; "copies" are the weights that autocast casts;
    "activations" are all that lies between embedding and head; "logits" all that has a number for every token of the
    vocabulary. The recipe is decided for the machine; each sequence is as long as the context."""
    few = -(-TRACED_TOKENS // recipe.context)
    if sequences > 2 * few:
        return _extrapolated(lambda times: estimate_step_memory(recipe, times * few), sequences / few)
    model = recipe.model
    # Logits are told by their size, so that no other size may be the same; one token more is no matter.
    inner, of_keys = model.num_heads * model.size_per_head, model.kv_heads * model.size_per_head
    others = {model.d_model, model.inner_size, model.size_per_head, inner, of_keys, recipe.context}
    model = replace(model, vocab_size=next(size for size in count(model.vocab_size or 0) if size not in others))
    deepest = max(model.num_layers, model.decoder_layers)
    if deepest <= 2 * TRACED_LAYERS:
        return _traced(replace(recipe, model=model), sequences)

    def with_depth(times: int) -> Counter[str]:
        layers = max(1, model.num_layers * times * TRACED_LAYERS // deepest)
        other = model.num_decoder_layers and max(1, model.num_decoder_layers * times * TRACED_LAYERS // deepest)
        return _traced(replace(recipe, model=replace(model, num_layers=layers, num_decoder_layers=other)), sequences)

    return _extrapolated(with_depth, deepest / TRACED_LAYERS)


def _extrapolated(measured: Callable[[int], Counter[str]], times: float) -> Counter[str]:
    once, twice = measured(1), measured(2)
    return Counter({kind: round(once[kind] + (times - 1) * (twice[kind] - once[kind])) for kind in twice})


def _traced(recipe: Recipe, sequences: int) -> Counter[str]:
    section, train = recipe.model, recipe.train
    batch = next(synthetic_batches(recipe, sequences))
    if train.device == "cuda":
        batch = replace(batch, document_starts=None)  # a mask of blocks takes next to nothing
    ledger = _Ledger(section, batch)
    try:
        with fake_tensors(ledger.made, ledger.chosen):
            with torch.device(train.device):
                model = ARCHITECTURES[section.architecture](section).train()
                if train.adapter:
                    adapt(model, train.adapter_rank, train.adapter_factor, new_head=bool(recipe.model.labels))
            ledger.name([*model.parameters(), *model.buffers()], "weights")
            model.use_in_training("rows" if train.attention == "rows" else "fused")
            if train.activation_checkpointing:
                model.use_gradient_checkpointing()
            TrainingLoss(model, train)(batch)[1].backward()
            ledger.name((p.grad for p in model.parameters() if p.grad is not None), "gradients")
            model.zero_grad()
            with torch.no_grad():
                scores_of_labels(model.eval(), batch, model.device)
            return ledger.totals()
    except NotImplementedError:  # of a later PyTorch: the least that it takes
        own, of_training = count_parameters(recipe)
        weights, gradients = 4 * (own + (of_training if train.adapter else 0)), 4 * of_training
        return Counter(weights=weights, gradients=gradients, peak=weights + gradients)


class _Ledger:
    """Notes every allocation and every release, in order."""

    def __init__(self, section: ModelSection, batch: Batch) -> None:
        self.vocab_size, self.targets = section.vocab_size, batch.target_tokens
        self.moves: list[tuple[int, int]] = []  # number of the storage, bytes more or less
        self.kinds: dict[int, Kind] = {}
        self.counter = count()
        self.numbers: weakref.WeakKeyDictionary[torch.UntypedStorage, int] = weakref.WeakKeyDictionary()

    def name(self, tensors: Iterable[Tensor], kind: Kind) -> None:
        """Say what these are; `made` takes all for activations or logits."""
        self.kinds.update((self._number(tensor), kind) for tensor in tensors)

    def totals(self) -> Counter[str]:
        """The most bytes that lived of each kind, and of all."""
        live, most = Counter[str](), Counter[str]()
        for number, change in self.moves:
            for kind in (self.kinds[number], "peak"):
                live[kind] += change
                most[kind] = max(most[kind], live[kind])
        return most

    def chosen(self, operation: Operation) -> Tensor | None:
        """What a boolean mask chooses: without numbers nobody knows how many; the batch does."""
        name, arguments = operation
        if name != "aten::index" or not any(i is not None and i.dtype == torch.bool for i in arguments[1]):
            return None
        values, (mask, *_) = arguments
        return values.new_empty((self.targets, *values.shape[mask.ndim :]))

    def made(self, tensor: Tensor, operation: Operation) -> None:
        """A tensor that an operation returns, in a storage that may be new."""
        storage = tensor.untyped_storage()
        if storage in self.numbers:
            return
        number, size, (name, arguments) = self._number(tensor), storage.nbytes(), operation
        if name == "aten::_to_copy" and self.kinds[self._number(arguments[0])] == "weights":
            self.kinds[number] = "copies"
        else:
            self.kinds[number] = "logits" if tensor.ndim > 1 and tensor.shape[-1] == self.vocab_size else "activations"
        self.moves.append((number, size))
        weakref.finalize(storage, self.moves.append, (number, -size))

    def _number(self, tensor: Tensor) -> int:
        return self.numbers.setdefault(tensor.untyped_storage(), next(self.counter))


BYTES_PER_PARAMETER = 16  # at least, in float32: the weight, its gradient, Adam's two moments; activations on top

HELD_BACK = {"float32": 0.47, "bfloat16": 0.3}
"""What a CPU's allocator holds beyond what lives, as a share of all that comes and goes within a step. Measured with
glibc 2.36 over models of 1 to 85 million parameters: 0.42 to 0.55 in float32, 0.15 to 0.35 in bfloat16."""

MARGIN = 0.9  # share of what is predicted to live at once that must be there: predictions are that true


def predict_memory(recipe: Recipe) -> MemoryRecord:
    """What a training of full batches takes in one process as large as this one is now; torch.compile takes less, and
    fsdp a part of it. The recipe is decided for the machine, with `model.vocab_size` set."""
    train, (_, parameters) = recipe.train, count_parameters(recipe)
    most = estimate_step_memory(recipe, sequences_per_batch(recipe))
    # AdamW remembers two numbers a parameter and Muon one; a moving average is one more.
    by_muon = sum(p.numel() for p in layer_matrices(meta_model(recipe.model))) if train.optimizer == "muon" else 0
    optimizer = 4 * (2 * parameters - by_muon + (parameters if train.ema_decay else 0))
    # A step that is reported ends with a copy of what is trained beside weights and gradients (`UpdateSizes`).
    live = max(most["peak"], most["weights"] + 4 * parameters + most["gradients"]) + optimizer
    on_cpu = train.device == "cpu"
    process = process_memory() if on_cpu else 0
    allocator = round(HELD_BACK[train.precision] * (most["peak"] - most["weights"])) if on_cpu else 0
    kinds = {name: most[name] for name in get_args(Kind)}
    peak = process + live + allocator
    return MemoryRecord(process=process, optimizer=optimizer, allocator=allocator, peak=peak, **kinds)


def count_parameters(recipe: Recipe) -> tuple[int, int]:
    """How many numbers the model has, and how many are trained: all, or those of its adapters, which come on top."""
    model, train = meta_model(recipe.model), recipe.train
    own = model.num_parameters()
    if train.adapter:
        adapt(model, train.adapter_rank, train.adapter_factor, new_head=bool(recipe.model.labels))
    return own, num_trained(model)


def require_memory(recipe: Recipe) -> None:
    """Refuse a training that cannot fit, which the system would otherwise kill without a word."""
    there = memory_of(torch.device(recipe.train.device))
    parameters, of_training = count_parameters(recipe)
    least = 4 * parameters + (BYTES_PER_PARAMETER - 4) * of_training
    has = f"and the {recipe.train.device} has a memory of {there / 1e9:.3g} GB"
    if least > there:
        problem = f"The model has {parameters:,} parameters, whose training takes {least / 1e9:.3g} GB at least, {has}"
        raise UsageError(problem, "choose a smaller one, as with --size small")
    memory = predict_memory(recipe)
    needed = memory.peak - memory.allocator
    if MARGIN * needed > there:
        sizes = f"{sequences_per_batch(recipe)} sequences of {recipe.train.context} tokens"
        remedy = "lower train.batch_size and raise train.grad_accumulation, or set train.activation_checkpointing=true"
        raise UsageError(f"Training takes {needed / 1e9:.3g} GB with micro-batches of {sizes}, {has}", remedy)


def memory_of(device: torch.device) -> int:
    """Bytes that a device has in all."""
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else machine.memory()


def peak_memory(device: torch.device) -> int:
    """Bytes that this process held at most: of a CUDA GPU, as PyTorch counts them; else of the machine's memory."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else peak_process_memory()
