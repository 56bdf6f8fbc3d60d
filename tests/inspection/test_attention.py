"""Attention weights: worked out again from the model's own projections, with numpy and complex numbers."""

import cmath
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.support.consoles import printed
from tests.support.runs import ARCHITECTURES, tiny_recipe, train_tiny
from tfcli.errors import Remark, UsageError
from tfcli.generation.beam_search import prompt_beams
from tfcli.generation.generate import translate
from tfcli.inspection.attention import AttentionRecord
from tfcli.inspection.attention.compute import attention, attention_on
from tfcli.inspection.attention.matrix_view import weights_matrix
from tfcli.inspection.passes import read_text
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.models.transformer import EncoderDecoder
from tfcli.runs.load import LoadedRun, load_run

TEXTS: dict[str, tuple[str, str | None]] = {
    "decoder": ("the cat sat", None),
    "encoder": ("the c<mask>t sat", None),
    "encoder-decoder": ("o gato dorme .", "the cat sleeps ."),
}
KINDS = {
    "decoder": ["decoder_self"],
    "encoder": ["encoder_self"],
    "encoder-decoder": ["encoder_self", "decoder_self", "cross"],
}
Array = NDArray[np.float64]


def turned(rows: Array, base: float) -> Array:
    """Rotary positions by complex multiplication: pair (i, i + Dh/2) of row n is turned by n ·
    base^(−2i/Dh)."""
    half = rows.shape[1] // 2
    result = np.empty_like(rows)
    for n, row in enumerate(rows):
        for i in range(half):
            number = complex(row[i], row[i + half]) * cmath.exp(1j * n * base ** (-2 * i / rows.shape[1]))
            result[n, i], result[n, i + half] = number.real, number.imag
    return result


def by_hand(layer: MultiHeadAttention, x: Array, memory: Array, *, causal: bool, base: float | None) -> Array:
    """softmax(q k / √Dh) of every head, one row after the other. Shape: (H, T, S)."""
    query = x @ layer.query.weight.double().numpy().T
    key = memory @ layer.key.weight.double().numpy().T
    size, group = layer.head_dim, layer.num_heads // layer.num_kv_heads
    weights = np.zeros((layer.num_heads, len(x), len(memory)))
    for head in range(layer.num_heads):
        q = query[:, head * size : (head + 1) * size]
        k = key[:, head // group * size : (head // group + 1) * size]
        if base is not None:
            q, k = turned(q, base), turned(k, base)
        for t in range(len(q)):
            seen = t + 1 if causal else len(k)
            powers = [math.exp(float(q[t] @ k[s]) / math.sqrt(size)) for s in range(seen)]
            weights[head, t, :seen] = np.array(powers) / sum(powers)
    return weights


@torch.no_grad()
def expected(run: LoadedRun, text: str, target: str | None) -> dict[str, Array]:
    """Every layer's weights, from what enters it on the fused path, where no weights exist."""
    found: dict[str, list[Array]] = {}
    roles, tokenizer = run.config.roles, run.tokenizer
    if run.architecture == "decoder":
        inputs = [[roles.bos, *tokenizer.encode(text)]]
    elif run.architecture == "encoder":
        inputs = [[roles.bos, *tokenizer.encode_masked(text), roles.eos]]
    else:
        assert target is not None
        inputs = [[*tokenizer.encode(text), roles.eos], [roles.bos, *tokenizer.encode(target)]]
    base = run.config.model.position_base if run.config.model.positions == "rotary" else None

    def seen(name: str) -> Callable[..., None]:
        def hook(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            memory = args[1] if len(args) > 1 else None
            x = args[0][0].double().numpy()
            kind = "cross" if memory is not None else name
            keys = x if memory is None else memory[0].double().numpy()
            causal = kind == "decoder_self"
            weights = by_hand(layer, x, keys, causal=causal, base=None if kind == "cross" else base)
            found.setdefault(kind, []).append(weights)

        return hook

    hooks = []
    for name, module in run.model.named_modules():
        if isinstance(module, MultiHeadAttention):
            of_decoder = run.architecture == "decoder" or name.startswith("decoder")
            kind = "decoder_self" if of_decoder else "encoder_self"
            hooks.append(module.register_forward_pre_hook(seen(kind), with_kwargs=True))
    run.model(*[torch.tensor([ids]) for ids in inputs])
    for hook in hooks:
        hook.remove()
    return {kind: np.stack(layers) for kind, layers in found.items()}


def of(records: list[AttentionRecord]) -> dict[str, AttentionRecord]:
    return {record.kind: record for record in records}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_weights_are_those_of_the_model_s_own_queries_and_keys(trained: Callable[[str], Path], architecture: str):
    run = load_run(trained(architecture))
    text, target = TEXTS[architecture]
    hand, records = expected(run, text, target), attention(run, text, target)
    assert [record.kind for record in records] == KINDS[architecture] == [*hand]
    for record in records:
        assert record.weights.shape == (2, 2, len(record.query_tokens), len(record.key_tokens))
        np.testing.assert_allclose(record.weights, hand[record.kind], atol=2e-6)
        uniform = 1 / record.weights.shape[-1]
        assert np.abs(record.weights - uniform).max() > 0.01, "the comparison is not one of uniform rows"


def test_shared_keys_are_read_by_their_group(tmp_path: Path):
    """Four query heads on two key heads: heads 0 and 1 read the first, 2 and 3 the second."""
    settings = {"model": {"num_heads": 4, "num_kv_heads": 2, "head_dim": 6}, "train": {"steps": 20}}
    train_tiny(tiny_recipe("decoder", settings), tmp_path / "run")
    run = load_run(tmp_path / "run")
    [record] = attention(run, "a cat")
    np.testing.assert_allclose(record.weights, expected(run, "a cat", None)["decoder_self"], atol=2e-6)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_rows_sum_to_one_and_nobody_sees_the_future(trained: Callable[[str], Path], architecture: str):
    text, target = TEXTS[architecture]
    for record in attention(load_run(trained(architecture)), text, target):
        np.testing.assert_allclose(record.weights.sum(axis=-1), 1.0, atol=1e-5)
        assert (record.weights >= 0).all()
        future = np.triu(np.ones(record.weights.shape[2:], dtype=bool), k=1)
        if record.kind == "decoder_self":
            assert (record.weights[..., future] == 0).all()
            assert (record.weights[..., 0, 0] == 1).all(), "the first token sees itself alone"
        else:
            assert (record.weights > 0).all(), "everything is seen"


def test_a_decoder_gives_the_future_exactly_nothing(trained: Callable[[str], Path]):
    """Weights of the future are 0 and not merely small, in every layer and head, and are drawn as masked; no gradient
    of what stands at t reaches a later token, and another future changes no bit of it."""
    run, text = load_run(trained("decoder")), "bread"
    [record] = attention(run, text)
    future = np.triu(np.ones(record.weights.shape[2:], dtype=bool), k=1)
    assert (record.weights[..., future] == 0.0).all()
    assert (record.weights[..., ~future] > 0.0).all()
    rows = [line.split() for line in printed(weights_matrix(record), 80).splitlines() if line.endswith(" 1.00")]
    assert [row.count("–") for row in rows] == [5, 4, 3, 2, 1, 0]

    ids = run.tokenizer.encode(text)
    assert len(set(ids)) == len(ids), "each token has its own row of the embedding"
    for t in range(1, len(ids)):
        run.model.zero_grad()
        run.model.hidden(torch.tensor([ids]))[0, t - 1].sum().backward()
        reached = run.model.embedding.weight.grad.abs().sum(dim=-1)
        assert (reached[ids[:t]] > 0).all() and (reached[ids[t:]] == 0).all(), t
        other = [*ids[:t], *reversed(ids[t:])]
        with torch.no_grad():
            same = [run.model.hidden(torch.tensor([one]))[0, :t] for one in (ids, other)]
        assert torch.equal(*same), t


def test_tokens_are_named_on_both_sides(trained: Callable[[str], Path]):
    [decoder] = attention(load_run(trained("decoder")), "a cat")
    assert decoder.query_tokens == decoder.key_tokens == ("<s>", "a", " ", "c", "a", "t")
    [encoder] = attention(load_run(trained("encoder")), "a <mask>at")
    assert encoder.query_tokens == encoder.key_tokens == ("<s>", "a", " ", "<mask>", "a", "t", "</s>")
    pairs = of(attention(load_run(trained("encoder-decoder")), *TEXTS["encoder-decoder"]))
    source, target = pairs["encoder_self"].query_tokens, pairs["decoder_self"].query_tokens
    assert pairs["encoder_self"].key_tokens == source
    assert pairs["decoder_self"].key_tokens == target
    assert (pairs["cross"].query_tokens, pairs["cross"].key_tokens) == (target, source)
    assert (source[-1], target[0]) == ("</s>", "<s>")
    assert (len(source), len(target)) == (5, 5), "four words and one special token each"


def test_a_record_cannot_be_changed(trained: Callable[[str], Path]):
    [record] = attention(load_run(trained("decoder")), "a cat")
    assert record.weights.dtype == np.float32
    with pytest.raises(ValueError, match="read-only"):
        record.weights[0, 0, 0, 0] = 0.5


@pytest.mark.parametrize("kind", KINDS["encoder-decoder"])
def test_one_kind_alone(trained: Callable[[str], Path], kind: Any):
    run = load_run(trained("encoder-decoder"))
    [record] = attention(run, *TEXTS["encoder-decoder"], kind=kind)
    assert record.kind == kind
    assert np.array_equal(record.weights, of(attention(run, *TEXTS["encoder-decoder"]))[kind].weights)


def test_without_a_target_it_reads_its_own_translation(trained: Callable[[str], Path]):
    run = load_run(trained("encoder-decoder"))
    assert isinstance(run.model, EncoderDecoder)
    [ids] = translate(run.model, [run.tokenizer.encode("o gato")], run.config.roles, run.recipe.generate)
    [record] = attention(run, "o gato", kind="decoder_self")
    context = run.config.model.max_seq_len  # what its last place predicts is not read
    assert record.query_tokens == ("<s>", *run.tokenizer.labels(ids))[:context]


@pytest.mark.parametrize("architecture", ["decoder", "encoder-decoder"])
def test_it_follows_the_best_text_of_the_beams(trained: Callable[[str], Path], architecture: str):
    run = load_run(trained(architecture))
    text, is_decoder = TEXTS[architecture][0], architecture == "decoder"
    ids = [*([run.config.roles.bos] if is_decoder else []), *run.tokenizer.encode(text)]
    section = replace(run.recipe.generate, beam=3, max_new_tokens=5)
    [[best]] = prompt_beams(run.model, [ids], run.config.roles, section)  # type: ignore[arg-type]
    new = run.tokenizer.labels([token for token in best.token_ids if token != run.config.roles.eos])
    assert new, "there is something to follow"
    [record] = attention_on(run, read_text(run, text, beam=3, max_new_tokens=5), "decoder_self")
    before = run.tokenizer.labels(ids) if is_decoder else ["<s>"]
    assert record.query_tokens == record.key_tokens == (*before, *new)


def test_a_beam_is_refused_where_there_is_nothing_to_search(trained: Callable[[str], Path]):
    with pytest.raises(UsageError, match="An encoder writes no text, and --beam searches for one"):
        read_text(load_run(trained("encoder")), "a <mask>at", beam=2)
    with pytest.raises(UsageError, match="--target gives the text that --beam would find"):
        read_text(load_run(trained("encoder-decoder")), "o gato", "the cat", beam=2)


def test_a_translation_that_never_ends_is_shown_as_far_as_the_context_goes(tmp_path: Path):
    """A model that says one word on and on: <s> and seven of them fill the context of 8, and that is said, and no
    error."""
    settings = {
        "model": {"max_seq_len": 8, "norm": "layernorm", "tie_embeddings": False},
        "train": {"steps": 1},
    }
    train_tiny(tiny_recipe("encoder-decoder", settings), tmp_path / "run")
    run = load_run(tmp_path / "run")
    [word] = run.tokenizer.encode("the")
    with torch.no_grad():
        # Whatever is read, the last vector is ones, and one word answers to that.
        last = run.model.get_submodule("decoder.final_norm")
        last.weight.zero_()
        last.bias.fill_(1.0)
        run.model.head.weight.zero_()
        run.model.head.weight[word] = 1.0
    run = replace(run, recipe=replace(run.recipe, generate=replace(run.recipe.generate, max_new_tokens=100)))
    with pytest.warns(Remark, match="own translation has no end within 7 tokens; --target TEXT gives another"):
        [record] = attention(run, "o gato", kind="decoder_self")
    assert record.query_tokens == ("<s>", *["the"] * 7)


@pytest.mark.parametrize(
    ("architecture", "kind", "words"),
    [
        ("decoder", "cross", "This decoder has no cross attention; choose decoder_self"),
        ("decoder", "encoder_self", "This decoder has no encoder_self attention; choose decoder_self"),
        ("encoder", "decoder_self", "This encoder has no decoder_self attention; choose encoder_self"),
    ],
)
def test_a_kind_that_is_not_there(trained: Callable[[str], Path], architecture: str, kind: Any, words: str):
    with pytest.raises(UsageError, match=words):
        attention(load_run(trained(architecture)), "a cat", kind=kind)


@pytest.mark.parametrize("architecture", ["decoder", "encoder"])
def test_a_target_for_a_model_with_one_side(trained: Callable[[str], Path], architecture: str):
    with pytest.raises(UsageError, match=f"This {architecture} reads one text, and --target is a second one"):
        attention(load_run(trained(architecture)), "a cat", "the dog")


@pytest.mark.parametrize(("architecture", "framing"), [("decoder", 1), ("encoder", 2)])
def test_a_text_must_fit_into_the_context_with_its_frame(
    trained: Callable[[str], Path], architecture: str, framing: int
):
    """The context holds 32: <s> and 31 letters for a decoder; one less for an encoder, which has </s> too."""
    run = load_run(trained(architecture))
    [record] = attention(run, "a" * (32 - framing))
    assert len(record.query_tokens) == 32
    with pytest.raises(UsageError, match="The text has 33 tokens and the context holds 32; shorten the text"):
        attention(run, "a" * (33 - framing))


def test_a_target_must_fit_too(trained: Callable[[str], Path]):
    run = load_run(trained("encoder-decoder"))
    with pytest.raises(UsageError, match="The target has 33 tokens and the context holds 32; shorten the target"):
        attention(run, "o gato", "the " * 32)
    with pytest.raises(UsageError, match="The text has 33 tokens and the context holds 32"):
        attention(run, "o " * 32, "the cat")
    assert attention(run, "o " * 31, "the " * 31)[0].weights.shape[-1] == 32


def test_a_source_that_is_too_long_is_told_without_a_target_as_well(trained: Callable[[str], Path]):
    with pytest.raises(UsageError, match="33"):
        attention(load_run(trained("encoder-decoder")), "o " * 32)


def test_nothing_to_translate(trained: Callable[[str], Path]):
    with pytest.raises(UsageError, match="The text is empty"):
        attention(load_run(trained("encoder-decoder")), "", "the cat")


def test_an_empty_text_shows_what_a_decoder_begins_with(trained: Callable[[str], Path]):
    [record] = attention(load_run(trained("decoder")), "")
    assert record.query_tokens == ("<s>",)
    assert (record.weights == 1).all()


def test_a_text_that_spells_a_special_token_is_text(trained: Callable[[str], Path]):
    [record] = attention(load_run(trained("decoder")), "</s>")
    assert record.query_tokens[0] == "<s>"
    assert "</s>" not in record.query_tokens
