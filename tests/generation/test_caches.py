"""Decoding with a cache gives what a pass over the whole text gives, position by position."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.generation.small import FIRST, ROLES, small_model
from tfcli.generation.decoding import DecodingState, prefill
from tfcli.generation.kv_cache import DecodingCache
from tfcli.recipe.recipe import GenerateSection

VARIANTS = st.fixed_dictionaries(
    {
        "positions": st.sampled_from(["sinusoidal", "learned", "rotary"]),
        "norm": st.sampled_from(["layernorm", "rmsnorm"]),
        "norm_placement": st.sampled_from(["pre", "post"]),
        "activation": st.sampled_from(["relu", "gelu", "swiglu"]),
        "attention_bias": st.booleans(),
        "num_heads": st.just(4),
        "num_kv_heads": st.sampled_from([1, 2, 4]),
        "head_dim": st.sampled_from([None, 6]),
        "tie_embeddings": st.booleans(),
    }
)
LENGTH = 9
CHUNKS = st.lists(st.integers(1, 4), min_size=1, max_size=LENGTH)


def random_ids(rows: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(FIRST, 12, (rows, length), generator=torch.Generator().manual_seed(seed))


def in_chunks(ids: torch.Tensor, sizes: list[int]) -> list[torch.Tensor]:
    """Cut a text into chunks of the sizes, as far as it goes; the rest goes token by token."""
    rest = ids.shape[1] - sum(sizes)
    sizes = sizes + [1] * rest if rest > 0 else sizes
    return [chunk for chunk in ids.split_with_sizes(_fitted(sizes, ids.shape[1]), dim=1) if chunk.shape[1]]


def _fitted(sizes: list[int], total: int) -> list[int]:
    fitted = []
    for size in sizes:
        fitted.append(min(size, total - sum(fitted)))
    return fitted


@settings(max_examples=60, deadline=None)
@given(variant=VARIANTS, sizes=CHUNKS, seed=st.integers(0, 99))
@torch.inference_mode()
def test_a_decoder_with_a_cache_predicts_what_it_predicts_without(variant: dict[str, Any], sizes: list[int], seed: int):
    model = small_model(seed, **variant)
    ids = random_ids(3, LENGTH, seed)
    cache = DecodingCache(model, rows=3, capacity=LENGTH)
    cached = torch.cat([model(chunk, cache=cache) for chunk in in_chunks(ids, sizes)], dim=1)
    torch.testing.assert_close(cached, model(ids), rtol=1e-9, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(variant=VARIANTS, sizes=CHUNKS, seed=st.integers(0, 99))
@torch.inference_mode()
def test_an_encoder_decoder_with_a_cache_predicts_what_it_predicts_without(
    variant: dict[str, Any], sizes: list[int], seed: int
):
    """With sources of different length, so that a padding mask is there at every step."""
    model = small_model(seed, architecture="encoder-decoder", **variant)
    sources, ids = random_ids(3, 5, seed + 1), random_ids(3, LENGTH, seed)
    mask = torch.arange(5) < torch.tensor([[5], [2], [4]])
    cache, memory = DecodingCache(model, rows=3, capacity=LENGTH), model.encode(sources, mask)
    hidden = [model.decode(chunk, memory, mask, cache=cache) for chunk in in_chunks(ids, sizes)]
    cached = model.head(torch.cat(hidden, dim=1))
    torch.testing.assert_close(cached, model(sources, ids, mask), rtol=1e-9, atol=1e-9)


@torch.inference_mode()
def test_all_layers_of_one_pass_see_the_same_length():
    model = small_model(num_layers=3)
    cache, seen = DecodingCache(model, rows=1, capacity=8), []
    for layer in model.stack.layers:
        layer.register_forward_pre_hook(lambda *_: seen.append(cache.length))
    for length in (3, 1, 1):
        model(random_ids(1, length), cache=cache)
    assert seen == [0, 0, 0, 3, 3, 3, 4, 4, 4]
    assert cache.length == 5


@torch.inference_mode()
def test_keys_and_values_are_views_of_memory_allocated_once():
    model = small_model()
    cache = DecodingCache(model, rows=2, capacity=4)
    own = cache.layers[0].self_attention
    given_ones, twos = torch.ones(2, 2, 3, 4).double(), 2 * torch.ones(2, 2, 1, 4).double()
    first, _ = own.keys_values(lambda: (given_ones, given_ones))
    both, _ = own.keys_values(lambda: (twos, twos))
    assert first.data_ptr() == both.data_ptr()
    assert both[0, 0, :, 0].tolist() == [1, 1, 1, 2]
    with pytest.raises(AssertionError, match="5 columns do not fit into 4"):
        own.keys_values(lambda: (twos, twos))


def reading(model: torch.nn.Module, sources: list[list[int]] | None, ids: torch.Tensor, rows: int) -> DecodingState:
    """A reader behind the texts `ids`: of a decoder, or at some sources."""
    if sources is None:
        return prefill(model, ids.tolist(), ROLES, GenerateSection(max_new_tokens=8), rows=rows)
    reader = prefill(model, sources, ROLES, GenerateSection(max_new_tokens=12), rows=rows)
    if len(sources) < len(ids):
        reader.select([0] * len(ids))
    for column in ids.T:
        reader.read(column)
    return reader


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@pytest.mark.parametrize("sources", [None, "one", "many"])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_selected_rows_go_on_as_if_they_had_been_read_in_that_order(
    positions: str, sources: str | None, data: st.DataObject
):
    """Rows repeat, change places and drop out, twice over: as beams do, and as texts that end."""
    architecture = "decoder" if sources is None else "encoder-decoder"
    model = small_model(1, architecture=architecture, positions=positions, num_kv_heads=1)
    ids = random_ids(3, 4, seed=2)
    texts = {None: None, "one": [[5, 6, 7]], "many": [[5, 6, 7], [8], [9, 10, 11, 5]]}[sources]
    with torch.inference_mode():
        reader = reading(model, texts, ids, rows=4)
        order = [0, 1, 2]
        for step in range(2):
            rows = data.draw(st.lists(st.integers(0, len(order) - 1), min_size=1, max_size=4))
            order = [order[row] for row in rows]
            reader.select(rows)
            new = random_ids(len(order), 1, seed=7 + step)
            ids = torch.cat((ids[rows], new), dim=1)
            reader.read(new[:, 0])
        chosen = texts and (texts if sources == "one" else [texts[row] for row in order])
        afresh = reading(model, chosen, ids, rows=4)
    torch.testing.assert_close(reader.logits, afresh.logits, rtol=1e-9, atol=1e-9)


@torch.inference_mode()
def test_the_source_is_projected_once():
    model = small_model(architecture="encoder-decoder", num_layers=1)
    calls = []
    model.decoder.layers[0].cross_attention.key.register_forward_hook(lambda *_: calls.append(1))
    reader = prefill(model, [[5, 6]], ROLES, GenerateSection(max_new_tokens=4), rows=1)
    for token in (7, 8):
        reader.read(torch.tensor([token]))
    assert len(calls) == 1


def test_rows_of_a_source_share_its_keys_without_a_copy():
    """Two sources with two beams each, then three rows of the second alone, then rows in no order."""
    cache = DecodingCache(small_model(architecture="encoder-decoder"), rows=4, capacity=4, sources=2)
    cross, key = cache.layers[0].cross_attention, torch.arange(2.0).view(2, 1, 1, 1)
    for layer in cache.layers:
        layer.cross_attention.keys_values(lambda: (key, key))

    def shown() -> list[float]:
        return cross.keys_values(lambda: pytest.fail("projected again"))[0].flatten().tolist()

    cache.select([0, 0, 1, 1])
    assert shown() == [0, 1] and cross.keys_values(lambda: (key, key))[0].data_ptr() == key.data_ptr()
    cache.select([3, 2, 2])
    assert shown() == [1]
    cache = DecodingCache(small_model(architecture="encoder-decoder"), rows=4, capacity=4, sources=2)
    cross = cache.layers[0].cross_attention
    for layer in cache.layers:
        layer.cross_attention.keys_values(lambda: (key, key))
    cache.select([1, 0, 1])
    assert shown() == [1, 0, 1]
    assert cache.shown_sources == [1, 0, 1]


@settings(max_examples=40, deadline=None)
@given(variant=VARIANTS, left=st.lists(st.integers(0, 4), min_size=1, max_size=4), seed=st.integers(0, 99))
@torch.inference_mode()
def test_texts_behind_padding_are_read_as_if_alone(variant: dict[str, Any], left: list[int], seed: int):
    """Prompts of different length side by side, then three tokens more."""
    model = small_model(seed, **variant)
    texts = [random_ids(1, 8 - padded, seed + row)[0].tolist() for row, padded in enumerate(left)]
    prompts = [text[:-3] for text in texts]
    reader = prefill(model, prompts, ROLES, GenerateSection(max_new_tokens=4), rows=len(texts))
    for column in (-3, -2, -1):
        reader.read(torch.tensor([text[column] for text in texts]))
    for row, text in enumerate(texts):
        torch.testing.assert_close(reader.logits[row], model(torch.tensor([text]))[0, -1], rtol=1e-9, atol=1e-9)


@torch.inference_mode()
def test_room_grows_with_the_text(monkeypatch: pytest.MonkeyPatch):
    """From 2 columns beyond the first 3 to 10, and never beyond what was asked for."""
    monkeypatch.setattr("tfcli.generation.kv_cache._ROOM", 2)
    model, ids = small_model(), random_ids(2, 12)
    cache = DecodingCache(model, rows=2, capacity=12, first=3)
    cached = torch.cat([model(chunk, cache=cache) for chunk in (ids[:, :3], *ids[:, 3:].split(1, dim=1))], dim=1)
    torch.testing.assert_close(cached, model(ids), rtol=1e-9, atol=1e-9)
    with pytest.raises(AssertionError, match="no room beyond 12 columns"):
        model(ids[:, :1], cache=cache)
