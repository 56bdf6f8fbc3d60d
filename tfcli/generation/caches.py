"""Key-value caches: what was computed for earlier tokens is kept, so that a new token costs one row.

Shape legend: R rows (texts continued side by side), Hkv key-value heads, C capacity, S source length,
Dh size of a head.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tfcli.layers.layer import LayerCache
from tfcli.layers.multi_head import KeysValues, KeyValueCache
from tfcli.models.transformer import Transformer


class SelfAttentionCache:
    """Keys and values of all positions so far, of one layer, written in place into a block of memory.

    Shape:
        keys, values: (R, Hkv, C, Dh)
    """

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self._keys, self._values = keys, values
        self.length = 0

    def keys_values(self, project: Callable[[], KeysValues]) -> KeysValues:
        """Write the new positions behind the earlier ones and return views of all of them.

        Shape:
            returns: two of (rows of the input, Hkv, length, Dh)
        """
        key, value = project()
        rows, start, end = key.shape[0], self.length, self.length + key.shape[2]
        assert end <= self._keys.shape[2], f"{end} positions do not fit a cache of {self._keys.shape[2]}"
        self._keys[:rows, :, start:end] = key
        self._values[:rows, :, start:end] = value
        self.length = end
        return self._keys[:rows, :, :end], self._values[:rows, :, :end]


class CrossAttentionCache:
    """One layer's keys and values of the sources, projected once. A single source serves all rows."""

    def __init__(self) -> None:
        self._kept: KeysValues | None = None
        self._single = False

    def keys_values(self, project: Callable[[], KeysValues]) -> KeysValues:
        """The source's keys and values; `project` is called the first time alone.

        Shape:
            returns: two of (R, Hkv, S, Dh)
        """
        if self._kept is None:
            self._kept = project()
            self._single = self._kept[0].shape[0] == 1
        return self._kept

    def select(self, rows: Tensor) -> None:
        """Row i becomes what row `rows[i]` was."""
        if self._kept is None:
            return
        key, value = self._kept
        if self._single:
            self._kept = key[:1].expand(len(rows), -1, -1, -1), value[:1].expand(len(rows), -1, -1, -1)
        else:
            self._kept = key.index_select(0, rows), value.index_select(0, rows)


@dataclass
class LayerCaches:
    """One layer's two caches; the second stays empty where there is no source."""

    self_attention: KeyValueCache
    cross_attention: KeyValueCache


class DecodingCache:
    """The caches of a decoder's layers, with room for `rows` texts of `capacity` tokens, allocated once."""

    def __init__(self, model: Transformer, rows: int, capacity: int) -> None:
        section = model.section
        # One block of memory for all layers: moving rows is one operation.
        shape = (section.decoder_layers, 2, rows, section.kv_heads, capacity, section.size_per_head)
        self._block = torch.empty(shape, dtype=model.dtype, device=model.device)
        self._own = [SelfAttentionCache(keys, values) for keys, values in self._block]
        self._cross = [CrossAttentionCache() for _ in self._own]
        self.layers: Sequence[LayerCache] = [
            LayerCaches(own, cross) for own, cross in zip(self._own, self._cross, strict=True)
        ]

    @property
    def length(self) -> int:
        """Positions remembered by every layer: during a forward pass still the number from before it."""
        return self._own[-1].length

    def select(self, rows: list[int]) -> None:
        """Row i becomes what row `rows[i]` was: to drop rows, to repeat them, or to let beams change places.

        Works in place and moves what is filled, not the whole room.
        """
        index = torch.tensor(rows, device=self._block.device)
        if rows != list(range(len(rows))):
            filled = self._block[..., : self.length, :]
            filled[:, :, : len(rows)] = filled.index_select(2, index)
        for cross in self._cross:
            cross.select(index)
