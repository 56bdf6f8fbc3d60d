"""Memory estimate of a training step: how many bytes live at each instant, found at no memory and hardly any time.

PyTorch's fake tensors have shapes and no numbers. They run the model's own code, so that what is counted is what
autograd really keeps, whatever the variant, the attention path or the precision. A formula would only go stale, and is
used where this PyTorch has no fake tensors.
"""

import weakref
from collections import Counter
from dataclasses import replace
from itertools import count
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from tfcli.data.batch import Batch
from tfcli.evaluation.objective import scores_of_labels
from tfcli.layers.kernels import Operation, fake_tensors
from tfcli.models.build import ARCHITECTURES, weightless
from tfcli.recipe.model import ModelSection
from tfcli.recipe.train import TrainSection
from tfcli.training.cross_entropy import MOST_TOKENS
from tfcli.training.objective import TrainingLoss
from tfcli.training.synthetic import synthetic_batch

Kind = Literal["weights", "copies", "gradients", "activations", "logits"]

TRACED_LAYERS = 8
"""A deeper model costs as much more for every layer as one of twice these costs over one of these."""

TRACED_TOKENS = MOST_TOKENS
"""A larger batch costs as much more for every sequence as one of twice so many tokens over one of these."""


def estimate_step_memory(section: ModelSection, train: TrainSection, sequences: int) -> Counter[str]:
    """Bytes of a forward and backward pass, and then of scoring such a batch: the most that live of each kind, and
    "peak", the most of all at once.

    "weights" hold buffers too; "copies" are the weights that autocast casts; "activations" are all that lies between
    embedding and head, and what the kernels need for a moment; "logits" all that has a number for every token of
    the vocabulary.

    Args:
        section: with `vocab_size` set.
        train: decided for the machine.
        sequences: of a micro-batch, each `train.context` tokens long.
    """
    few_sequences = -(-TRACED_TOKENS // (train.context or section.max_seq_len))
    if sequences > 2 * few_sequences:
        few, more = (estimate_step_memory(section, train, n * few_sequences) for n in (1, 2))
        further = sequences - few_sequences
        return Counter({kind: few[kind] + further * (more[kind] - few[kind]) // few_sequences for kind in more})
    section = _with_vocabulary_of_its_own(section, train)
    deepest = max(section.num_layers, section.decoder_layers)
    if deepest <= 2 * TRACED_LAYERS:
        return _traced(section, train, sequences)
    few, more = (_traced(_with_layers(section, n * TRACED_LAYERS, deepest), train, sequences) for n in (1, 2))
    times = deepest / TRACED_LAYERS - 1
    return Counter({kind: round(few[kind] + times * (more[kind] - few[kind])) for kind in more})


def _with_vocabulary_of_its_own(section: ModelSection, train: TrainSection) -> ModelSection:
    """Logits are told by their size, so that no other size may be the same; one token more is no matter."""
    inner, of_keys = section.num_heads * section.size_per_head, section.kv_heads * section.size_per_head
    others = {section.d_model, section.inner_size, section.size_per_head, inner, of_keys, train.context}
    assert section.vocab_size is not None
    return replace(section, vocab_size=next(size for size in count(section.vocab_size) if size not in others))


def _with_layers(section: ModelSection, deepest: int, of: int) -> ModelSection:
    """The same model with its deepest stack that deep, and the other in proportion."""
    other = section.num_decoder_layers and max(1, section.num_decoder_layers * deepest // of)
    return replace(section, num_layers=max(1, section.num_layers * deepest // of), num_decoder_layers=other)


def _traced(section: ModelSection, train: TrainSection, sequences: int) -> Counter[str]:
    length = train.context or section.max_seq_len
    rate = train.mask_probability
    batch = synthetic_batch(section, sequences, length, np.random.default_rng(0), mask_probability=rate)
    ledger = _Ledger(section, batch)
    try:
        with fake_tensors(ledger.made, ledger.chosen):
            with torch.device(train.device):
                model = ARCHITECTURES[section.architecture](section).train()
            ledger.name(model)
            model.use_in_training("rows" if train.attention == "rows" else "fused")
            if train.activation_checkpointing:
                model.use_gradient_checkpointing()
            TrainingLoss(model, train)(batch)[1].backward()
            ledger.name_gradients(model)
            model.zero_grad()
            with torch.no_grad():
                scores_of_labels(model.eval(), batch, model.device)
            return ledger.totals()
    except NotImplementedError:
        return _by_formula(section, train, sequences)


def _by_formula(section: ModelSection, train: TrainSection, sequences: int) -> Counter[str]:
    """A layer keeps T D (34 + 5 H T / D) bytes of a sequence in 16 bits (Korthikanti et al. 2022, equation 1)."""
    length, layers = train.context or section.max_seq_len, section.num_layers
    if section.architecture == "encoder-decoder":
        layers += section.decoder_layers
    if train.activation_checkpointing:
        layers = 1
    half = train.precision == "bfloat16"
    weights = 4 * weightless(section).num_parameters()
    kept = sequences * length * section.d_model * (34 + 5 * section.num_heads * length / section.d_model)
    logits = 4 * min(sequences * length, MOST_TOKENS) * (section.vocab_size or 0)
    kinds: Counter[str] = Counter(weights=weights, gradients=weights, logits=logits)
    kinds.update(copies=weights // 2 if half else 0, activations=round(kept * layers * (1 if half else 2)))
    kinds["peak"] = kinds.total()
    return kinds


class _Ledger:
    """Notes every allocation and every release, in order."""

    def __init__(self, section: ModelSection, batch: Batch) -> None:
        self.vocab_size, self.targets = section.vocab_size, batch.target_tokens
        self.moves: list[tuple[int, int]] = []  # number of the storage, bytes more or less
        self.kinds: dict[int, Kind] = {}
        self.counter = count()
        self.numbers: weakref.WeakKeyDictionary[torch.UntypedStorage, int] = weakref.WeakKeyDictionary()

    def name(self, model: nn.Module) -> None:
        """Call the weights so."""
        for tensor in [*model.parameters(), *model.buffers()]:
            self.kinds[self._number(tensor)] = "weights"

    def name_gradients(self, model: nn.Module) -> None:
        """Call those so that the weights have now."""
        for parameter in model.parameters():
            if parameter.grad is not None:
                self.kinds[self._number(parameter.grad)] = "gradients"

    def totals(self) -> Counter[str]:
        """The most bytes that lived of each kind, and of all."""
        live: Counter[str] = Counter()
        most: Counter[str] = Counter()
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
        number, size = self._number(tensor), storage.nbytes()
        self.kinds[number] = self._kind(tensor, operation)
        self.moves.append((number, size))
        weakref.finalize(storage, self.moves.append, (number, -size))

    def _kind(self, tensor: Tensor, operation: Operation) -> Kind:
        name, arguments = operation
        if name == "aten::_to_copy" and self.kinds[self._number(arguments[0])] == "weights":
            return "copies"
        return "logits" if tensor.ndim > 1 and tensor.shape[-1] == self.vocab_size else "activations"

    def _number(self, tensor: Tensor) -> int:
        storage = tensor.untyped_storage()
        if storage not in self.numbers:
            self.numbers[storage] = next(self.counter)
        return self.numbers[storage]
