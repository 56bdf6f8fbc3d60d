"""A model that cannot be trained here is refused before anything is written."""

import pytest
import torch

from tfcli.errors import UsageError
from tfcli.models.presets import preset
from tfcli.recipe.loading import build_recipe
from tfcli.recipe.model import ModelSection
from tfcli.training import memory

CPU = torch.device("cpu")


def test_what_fits_to_the_byte_passes_and_one_byte_less_does_not(monkeypatch: pytest.MonkeyPatch):
    """11 · 8 tied embeddings; a layer of 4 · 8² attention, 3 · 8 · 24 feed-forward and 2 · 8 gains; a last gain of 8:
    88 + 256 + 576 + 16 + 8 = 944 parameters of 16 bytes."""
    section = ModelSection(vocab_size=11, d_model=8, num_heads=2, num_layers=1, d_ff=24, query_key_norm=False)
    monkeypatch.setattr(memory, "memory_of", lambda device: 944 * 16)
    memory.require_memory(section, CPU)
    monkeypatch.setattr(memory, "memory_of", lambda device: 944 * 16 - 1)
    with pytest.raises(UsageError, match="944 parameters"):
        memory.require_memory(section, CPU)


def test_seven_thousand_million_parameters_are_told_with_their_memory(monkeypatch: pytest.MonkeyPatch):
    """6.74 · 10⁹ · 16 bytes = 108 GB."""
    monkeypatch.setattr(memory, "memory_of", lambda device: 24 * 10**9)
    section = build_recipe(preset("llama"), {"model": {"vocab_size": 32_000}}).model
    with pytest.raises(UsageError, match=r"6,738,415,616 parameters.*108 GB.*24 GB; choose a smaller one"):
        memory.require_memory(section, CPU)


def test_this_machine_has_some_memory():
    assert 10**8 < memory.memory_of(CPU) < 10**14
