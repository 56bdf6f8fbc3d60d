"""Key-value caches: what was computed for earlier tokens is kept, so that a new token costs one row.
Shape legend: R rows (texts side by side), Hkv key-value heads, C columns of room, S source length, Dh size of head."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tfcli.layers.attention import Span
from tfcli.layers.layer import LayerCache
from tfcli.layers.multi_head import KeysValues, KeyValueCache
from tfcli.models.transformer import Transformer

_ROOM = 256  # columns there is room for beyond the first tokens; the room is doubled when it is full


class SelfAttentionCache:
    """Keys and values of all columns so far, of one layer, written in place into a block of memory.
    Shape: block (2, R, Hkv, C, Dh), keys and values."""

    def __init__(self, block: Tensor) -> None:
        self.length = 0
        self.keys, self.values = block.unbind(0)

    def keys_values(self, project: Callable[[], KeysValues]) -> KeysValues:
        """Write the new columns behind the earlier ones and return views of all, two of (rows, Hkv, length, Dh)."""
        key, value = project()
        rows, new = key.shape[0], key.shape[2]
        start, self.length = self.length, self.length + new
        keys, values = self.keys, self.values
        assert self.length <= keys.shape[2], f"{self.length} columns do not fit into {keys.shape[2]}"
        if rows < keys.shape[0]:
            keys, values = keys[:rows], values[:rows]
        keys.narrow(2, start, new).copy_(key)
        values.narrow(2, start, new).copy_(value)
        return keys.narrow(2, 0, self.length), values.narrow(2, 0, self.length)


class CrossAttentionCache:
    """One layer's keys and values of the sources, projected once."""

    _of_all: KeysValues | None = None
    _shown: KeysValues | None = None

    def keys_values(self, project: Callable[[], KeysValues]) -> KeysValues:
        """Those of the sources that are shown, two of (sources, Hkv, S, Dh); `project` is called the first time."""
        if self._shown is None:
            key, value = project()
            # A head behind the other, as every step will read them.
            self._of_all = self._shown = key.contiguous(), value.contiguous()
        return self._shown

    def show(self, sources: Tensor) -> None:
        """Give the keys and values of these sources alone."""
        assert self._of_all is not None
        key, value = self._of_all
        self._shown = key.index_select(0, sources), value.index_select(0, sources)


@dataclass
class LayerCaches:
    """One layer's two caches; the second stays empty where there is no source."""

    self_attention: KeyValueCache
    cross_attention: KeyValueCache


class DecodingCache:
    """The caches of a decoder's layers.

    Attributes:
        capacity: The largest number of columns.
        left: The number of columns on the left of each row that are padding: (R,), or None if there are none.
    """

    def __init__(self, model: Transformer, rows: int, capacity: int, first: int = 0, sources: int = 0) -> None:
        """Make room.

        Args:
            model: The model whose keys and values are cached.
            rows: The largest number of texts.
            capacity: The largest number of tokens in a text, padding included.
            first: The number of columns that are filled at once, to begin with room for them.
            sources: The number of sources; row i begins with source i.
        """
        section = model.section
        self.capacity = capacity
        self.left: Tensor | None = None
        self._source_of_row = list(range(sources))
        self.shown_sources = self._source_of_row
        # One block of memory for all layers: moving rows is one operation.
        shape = (section.decoder_layers, 2, rows, section.kv_heads, min(capacity, first + _ROOM), section.size_per_head)
        self._block = torch.empty(shape, dtype=model.dtype, device=model.device)
        self._own = [SelfAttentionCache(block) for block in self._block]
        self._cross = [CrossAttentionCache() for _ in self._own]
        self.layers: Sequence[LayerCache] = list(map(LayerCaches, self._own, self._cross))

    @property
    def length(self) -> int:
        """Columns remembered by every layer: during a forward pass still the number from before it."""
        return self._own[-1].length

    def span(self, tokens: int) -> Span:
        """Where so many further tokens stand, with room made for them."""
        start = self.length
        if start + tokens > self._block.shape[-2]:
            self._grow(start + tokens)
        return Span(start, start + tokens, self.left)

    def forget(self) -> None:
        """Begin again at the first column. What is known of the sources stays."""
        for own in self._own:
            own.length = 0

    def keep_last(self, columns: int) -> None:
        """Drop all columns but the last ones, of which there are `columns`."""
        dropped = self.length - columns
        if dropped > 0:
            filled = self._block[..., dropped : self.length, :].clone()
            self._block[..., :columns, :] = filled
            for own in self._own:
                own.length = columns

    def fill_rows(self, rows: list[int], other: "DecodingCache", columns: int) -> None:
        """Let the last `columns` columns of some rows be the first ones of another cache."""
        self._block[:, :, rows, :, self.length - columns : self.length] = other._block[..., :columns, :]

    def select(self, rows: list[int]) -> None:
        """Row i becomes what row `rows[i]` was. It works in place and moves what is filled, not the whole room."""
        moved = [row for row, origin in enumerate(rows) if row != origin]
        if moved:
            filled = self._block[..., : self.length, :]
            filled.index_copy_(2, self._index(moved), filled.index_select(2, self._index([rows[row] for row in moved])))
        if self._source_of_row:
            self._source_of_row = [self._source_of_row[row] for row in rows]
            sources = shared_sources(self._source_of_row)
            if sources != self.shown_sources:
                self.shown_sources = sources
                for cross in self._cross:
                    cross.show(self._index(sources))
        if self.left is not None:
            self.left = self.left.index_select(0, self._index(rows))

    def _index(self, rows: list[int]) -> Tensor:
        return torch.tensor(rows, device=self._block.device)

    def _grow(self, columns: int) -> None:
        held = self._block
        columns = min(self.capacity, max(columns, 2 * held.shape[-2]))
        assert columns > held.shape[-2], f"there is no room beyond {self.capacity} columns"
        self._block = held.new_empty((*held.shape[:-2], columns, held.shape[-1]))
        self._block[..., : held.shape[-2], :] = held
        for own, block in zip(self._own, self._block, strict=True):
            own.keys, own.values = block.unbind(0)


def least_moves(rows: Sequence[int], first: int = 0) -> list[int]:
    """An order of texts in which as many as possible stand in the row they come from: for each row from `first` on, the
    number of the text that gets it.

        >>> least_moves([2, 0, 0])          # text 1 stays in row 0, text 0 in row 2, and text 2 gets row 1
        [1, 2, 0]
    """
    order: list[int | None] = [None] * len(rows)
    moving = []
    for text, row in enumerate(rows):
        if 0 <= row - first < len(rows) and order[row - first] is None:
            order[row - first] = text
        else:
            moving.append(text)
    return [moving.pop() if text is None else text for text in order]


def shared_sources(sources: Sequence[int]) -> list[int]:
    """Each source once, where all have the same number of rows, one behind the other, so that these rows can share its
    keys and values; else the source of every row.

    >>> shared_sources([3, 3, 5, 5]), shared_sources([3, 3, 5])
    ([3, 5], [3, 3, 5])
    """
    different = list(dict.fromkeys(sources))
    rows = len(sources) // len(different)
    return different if [one for one in different for _ in range(rows)] == list(sources) else list(sources)
