"""Document masking: a window of several documents is to a model what each of them is alone."""

import json
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.cli.commands import tfcli
from tests.models.small import ids, lively
from tests.models.small import section as small_section
from tests.models.strategies import sections
from tests.models.test_variants import equal, many, read
from tests.support.fakes import ROLES
from tests.support.runs import tiny_recipe, train_tiny
from tfcli.data.batch import IGNORED, Batch
from tfcli.data.dataset import TokenStreamView
from tfcli.data.loader import CausalBatches, MaskedBatches
from tfcli.errors import UsageError
from tfcli.layers import attention, multi_head
from tfcli.layers.attention import Span, attention_mask, block_attention, block_mask, fused_attention
from tfcli.models.build import build_model
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection
from tfcli.recipe.train import TrainSection
from tfcli.records.roles import TokenRoles
from tfcli.records.runs import Evaluated
from tfcli.training.distributed import Workers
from tfcli.training.memory import synthetic_batches
from tfcli.training.objective import TrainingLoss

CUTS = (0, 2, 3, 7)
"""Where the documents of a window of 7 tokens begin, and where the last one ends."""
STARTS = torch.tensor([0, 0, 2, 3, 3, 3, 3])


def starts_of(cuts: tuple[int, ...]) -> list[int]:
    return [first for first, end in pairwise(cuts) for _ in range(first, end)]


# --- where documents begin -------------------------------------------------------------------------------------------

texts = st.lists(st.lists(st.integers(1, 5), max_size=5), min_size=1, max_size=4)  # lengths, a list a shard


@given(texts, st.booleans(), st.data())
def test_columns_are_those_where_a_model_begins_to_read_documents(lengths, shared: bool, data):
    """Told from all offsets at once, token by token."""
    tokens = [np.zeros(sum(shard), np.uint16) for shard in lengths if shard]
    offsets = [np.cumsum([0, *shard]) for shard in lengths if shard]
    if not tokens:
        return
    view = TokenStreamView(tokens, offsets, between=0 if shared else None)
    begins = view.documents[0].tolist()
    starts = data.draw(st.lists(st.integers(0, len(view) - 1), min_size=1, max_size=5))
    width = data.draw(st.integers(1, 8))
    found = view.document_starts(np.array(starts), width)
    for start, row in zip(starts, found.tolist(), strict=True):
        for column, begun in enumerate(row):
            assert begun == max(0, max(place for place in begins if place <= start + column) - start)


def stream(roles: TokenRoles) -> TokenStreamView:
    """Documents of 1, 4, 2, 9, 3 and 2 letters in two shards, framed as the roles say; letters count from 10."""
    start, letters = roles.stored_start(), iter(range(10, 40))
    documents = [[*start, *islice(letters, length), *roles.end] for length in (1, 4, 2, 9, 3, 2)]
    shards = documents[:3], documents[3:]
    tokens = [np.concatenate(shard).astype(np.uint16) for shard in shards]
    offsets = [np.cumsum([0, *map(len, shard)]) for shard in shards]
    return TokenStreamView(tokens, offsets, roles.eos if roles.is_shared else None)


FRAMES = {
    "begun and ended": ROLES,
    "one boundary": replace(ROLES, bos=ROLES.eos, text_start=(ROLES.eos,)),
    "ended alone": replace(ROLES, text_start=()),
    "neither": replace(ROLES, text_start=(), endless=True),
}


@pytest.mark.parametrize("roles", FRAMES.values(), ids=FRAMES)
def test_a_label_is_never_of_another_document(roles: TokenRoles):
    """Of all windows together, each token is a label once where it is one of the document alone, and else never."""
    view = stream(roles)
    options: dict[str, Any] = {"batch_size": 3, "context": 6, "seed": 0}
    alone = CausalBatches(view, roles, **options, documents=True)
    packed = CausalBatches(view, roles, **options, document_masking=True)

    def labels(batches: CausalBatches) -> list[tuple[int, int]]:
        rows = [row for batch in batches.whole() for row in zip(batch.input_ids, batch.labels, strict=True)]
        return sorted((int(i), int(n)) for row in rows for i, n in zip(*row, strict=True) if n != IGNORED)

    assert labels(packed) == labels(alone)
    assert all(batch.document_starts is None for batch in alone.whole())


@pytest.mark.parametrize("batches", [CausalBatches, MaskedBatches])
def test_without_masking_a_batch_is_what_it_was(batches):
    options: dict[str, Any] = {"batch_size": 2, "context": 6, "seed": 1}
    options |= {"vocab_size": 40, "mask_probability": 0.5} if batches is MaskedBatches else {}
    plain, masked = (batches(stream(ROLES), ROLES, **options, document_masking=on) for on in (False, True))
    for before, after in islice(zip(plain.training(), masked.training(), strict=True), 8):
        assert before.document_starts is None and after.document_starts is not None
        assert after.document_starts.shape == after.input_ids.shape == after.labels.shape
        assert np.array_equal(before.input_ids, after.input_ids)
        assert np.array_equal(before.labels[after.labels != IGNORED], after.labels[after.labels != IGNORED])
        assert np.array_equal(after.rows(slice(1, None, 2)).document_starts, after.document_starts[1::2])


def test_a_masked_window_whose_documents_are_its_own():
    [batch, *_] = CausalBatches(
        stream(FRAMES["ended alone"]), FRAMES["ended alone"], batch_size=1, context=6, seed=0, document_masking=True
    ).whole()
    # 10 </s> 11 12 13 14 </s>: the first </s> predicts nothing of the second document.
    eos = ROLES.eos
    assert batch.input_ids.tolist() == [[10, eos, 11, 12, 13, 14]]
    assert batch.labels.tolist() == [[eos, IGNORED, 12, 13, 14, eos]]
    assert batch.document_starts is not None and batch.document_starts.tolist() == [[0, 0, 2, 2, 2, 2]]


# --- what a model makes of them --------------------------------------------------------------------------------------

packable = st.sampled_from(["decoder", "encoder"]).flatmap(lambda name: sections(architecture=name))


@settings(many, max_examples=120)
@given(packable, st.sets(st.integers(1, 6)), st.booleans())
def test_each_document_reads_as_it_reads_alone(section: ModelSection, inner: set[int], explicit: bool):
    """Any positions, scores, windows, heads and norms, on the fused path and the explicit one: logits and gradients."""
    built, tokens, cuts = lively(section), ids(2, 7), (0, *sorted(inner), 7)
    starts = torch.tensor([starts_of(cuts), [0] * 7])  # the second row holds one document
    options: dict[str, Any] = {"weights": {}} if explicit else {}
    together = read(built, tokens, document_starts=starts, **options)
    apart = torch.cat([read(built, tokens[:1, i:j]) for i, j in pairwise(cuts)], dim=1)
    torch.testing.assert_close(together[:1], apart, atol=1e-10, rtol=1e-10)
    torch.testing.assert_close(together[1:], read(built, tokens[1:]), atol=1e-10, rtol=1e-10)
    parameters = list(built.parameters())
    of_both = [
        torch.autograd.grad(output.tanh().sum(), parameters, materialize_grads=True) for output in (together[:1], apart)
    ]
    for packed, alone in zip(*of_both, strict=True):
        torch.testing.assert_close(packed, alone, atol=1e-10, rtol=1e-10)


POSITIONS = ["none", "sinusoidal", "learned", "rotary", "alibi", "t5"]


def losses(model: Transformer, rows: list[Batch], train: TrainSection) -> tuple[Tensor, list[Tensor]]:
    """The plain loss of all batches together, and its gradients."""
    objective = TrainingLoss(model, train)
    model.zero_grad()
    total = sum((objective(row) for row in rows), start=torch.zeros(2))
    total[1].backward()
    return total[0], [p.grad.clone() for p in model.parameters() if p.grad is not None]


def packed_and_alone(roles: TokenRoles = ROLES) -> tuple[list[Batch], list[Batch]]:
    """A packed stream that fits one window, and its documents, each by itself."""
    view = stream(roles)
    options: dict[str, Any] = {"batch_size": 1, "seed": 0, "context": 64}
    packed = list(CausalBatches(view, roles, **options, document_masking=True).whole())
    apart = list(CausalBatches(view, roles, **options, documents=True).whole())
    assert len(packed) == 1 and len(apart) == (5 if roles.endless else 6)  # one letter alone has none to predict
    return packed, apart


def trained(section: ModelSection, path: str = "fused", *, checkpoints: bool = False) -> Transformer:
    model = build_model(section, seed=3).train()
    model.use_in_training(path)  # type: ignore[arg-type]
    if checkpoints:
        model.use_gradient_checkpointing()
    return model


def require_equal(packed: tuple[Tensor, list[Tensor]], alone: tuple[Tensor, list[Tensor]]) -> None:
    torch.testing.assert_close(packed[0], alone[0], atol=1e-5, rtol=1e-5)
    assert len(packed[1]) == len(alone[1]) > 0
    for ours, theirs in zip(packed[1], alone[1], strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def wide(positions: str, **more: Any) -> ModelSection:
    return small_section("decoder", positions=positions, vocab_size=40, max_seq_len=64, **more)


@pytest.mark.parametrize("checkpoints", [False, True], ids=["kept", "checkpointed"])
@pytest.mark.parametrize("path", ["fused", "rows"])
@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("positions", POSITIONS)
def test_a_training_step_is_that_of_the_documents_alone(
    positions: str, window: int | None, path: str, checkpoints: bool
):
    """In float32, by the loss that training uses."""
    packed, apart = packed_and_alone()
    section = wide(positions, sliding_window=window, dropout=0.0)
    of_both = [
        losses(trained(section, path, checkpoints=checkpoints), rows, TrainSection()) for rows in (packed, apart)
    ]
    require_equal(*of_both)


@pytest.mark.parametrize("roles", FRAMES.values(), ids=FRAMES)
def test_a_step_is_that_of_the_documents_alone_however_they_are_framed(roles: TokenRoles):
    packed, apart = packed_and_alone(roles)
    assert sum(batch.target_tokens for batch in packed) == sum(batch.target_tokens for batch in apart)
    section = wide("learned", dropout=0.0)
    require_equal(*(losses(trained(section), rows, TrainSection()) for rows in (packed, apart)))


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
@pytest.mark.parametrize("mutation", ["mask", "positions"])
def test_mask_and_positions_both_count(monkeypatch: pytest.MonkeyPatch, mutation: str, positions: str):
    """Without the one or the other, the loss is another one; but rotations tell distances alone, which are the same
    wherever a document begins to count."""
    packed, apart = packed_and_alone()
    section = wide(positions, dropout=0.0)
    right = losses(trained(section), apart, TrainSection())[0]
    require_equal(losses(trained(section), packed, TrainSection()), losses(trained(section), apart, TrainSection()))
    if mutation == "mask":
        plain = attention.attention_mask
        monkeypatch.setattr(multi_head, "attention_mask", lambda *a, **k: plain(*a, **k | {"document_starts": None}))
    else:
        original = Span.rows
        monkeypatch.setattr(Span, "rows", lambda span, *a: original(Span(span.start, span.end), *a).expand(1, -1, -1))
    wrong = losses(trained(section), packed, TrainSection())[0]
    if (mutation, positions) == ("positions", "rotary"):
        torch.testing.assert_close(wrong, right)
    else:
        assert (wrong - right).abs() > 1e-3


# --- the ways that it goes -------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("causal", [True, False])
def test_blocks_of_a_gpu_are_masked_as_rows_of_a_cpu(causal: bool, window: int | None):
    """Flex attention has no kernel to train with here: its mask, and what it makes of it, are compared."""
    draw = torch.Generator().manual_seed(0)
    cuts = torch.randint(0, 40, (3, 300), generator=draw) == 0  # some eight documents a row
    starts = torch.where(cuts, torch.arange(300), 0).cummax(1).values
    dense = attention_mask(None, 300, 300, causal=causal, window=window, document_starts=starts, device=starts.device)
    assert dense is not None
    blocks = block_mask(starts, causal=causal, window=window)
    rows, queries, keys = torch.meshgrid(torch.arange(3), torch.arange(300), torch.arange(300), indexing="ij")
    assert torch.equal(blocks.mask_mod(rows, torch.tensor(0), queries, keys), dense[:, 0])
    query, key, value = torch.randn(3, 3, 2, 300, 16, generator=draw)
    with torch.no_grad():
        ours = block_attention(query, key, value, blocks, scale=0.25)
    torch.testing.assert_close(ours, fused_attention(query, key, value, dense, scale=0.25), atol=1e-5, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_a_block_mask_is_taken_where_it_is_compiled_and_nothing_else_is_asked(monkeypatch: pytest.MonkeyPatch):
    """As if this were a GPU: the model reads by blocks what it reads by rows. Attention dropout, biases, padding and
    weights that are wanted go by rows there too."""
    calls = []
    monkeypatch.setattr(multi_head, "has_block_masks", lambda device: True)
    monkeypatch.setattr(multi_head, "block_mask", lambda *a, **k: calls.append(1) or block_mask(*a, **k))
    starts = torch.tensor([starts_of(CUTS)] * 2)

    def reads(taken: int, *padding: Tensor, train: bool = False, weights: bool = False, **settings: Any) -> None:
        model = lively(small_section("decoder", **settings)).train(train)
        with torch.no_grad():
            more: dict[str, Any] = {"weights": {}} if weights else {}
            found = read(model, ids(2, 7), *padding, document_starts=starts, **more)
            assert len(calls) == taken
            monkeypatch.setattr(multi_head, "has_block_masks", lambda device: False)
            if not train:
                equal(found, read(model, ids(2, 7), *padding, document_starts=starts))
            monkeypatch.setattr(multi_head, "has_block_masks", lambda device: True)

    reads(1)
    reads(2, sliding_window=3, num_kv_heads=1)
    reads(3, attention_dropout=0.2)
    reads(3, attention_dropout=0.2, train=True)
    reads(3, positions="alibi")
    reads(3, attention_softcap=5.0)
    reads(3, weights=True)
    reads(3, torch.tensor([[True] * 7, [True] * 5 + [False] * 2]))


def test_a_gpu_without_triton_and_a_cpu_have_no_block_masks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attention.importlib.util, "find_spec", lambda name: object())
    assert attention.has_block_masks(torch.device("cuda")) and not attention.has_block_masks(torch.device("cpu"))
    monkeypatch.setattr(attention.importlib.util, "find_spec", lambda name: None)
    assert not attention.has_block_masks(torch.device("cuda"))


def test_an_encoder_decoder_is_refused_in_words():
    with pytest.raises(UsageError, match=r"document_masking = true .* an encoder-decoder reads pairs"):
        tiny_recipe("encoder-decoder", {"train": {"document_masking": True}})


# --- a training ------------------------------------------------------------------------------------------------------


def test_the_shares_of_several_processes_add_up():
    recipe = tiny_recipe("decoder", {"model": {"vocab_size": 40}, "train": {"document_masking": True}}).resolved()
    batch, model = next(synthetic_batches(recipe, 5)), build_model(recipe.model).train()
    assert batch.document_starts is not None
    shares = [Workers(rank, 2).share(batch) for rank in range(2)]
    require_equal(losses(model, shares, TrainSection()), losses(model, [batch], TrainSection()))


@pytest.mark.parametrize("architecture", ["decoder", "encoder"])
def test_a_run_is_scored_a_document_at_a_time(architecture: str, cache: Path, tmp_path: Path):
    """What was trained so is evaluated so, to the same loss; all text in a row is still read where it is asked for."""
    settings = {"windows": "stream", "document_masking": True, "evaluate_tokens": 0}
    _, events = train_tiny(tiny_recipe(architecture, {"train": settings}), tmp_path / "run")
    scores = {}
    for windows in ((), ("--windows", "documents"), ("--windows", "stream")):
        result = tfcli("evaluate", tmp_path / "run", "--json", *windows)
        assert result.exit_code == 0, result.stderr
        scores[windows] = json.loads(result.stdout)
    own, documents, stream = scores.values()
    assert own == documents and own["windows"] == "documents" and stream["windows"] == "stream"
    assert own["loss"] != stream["loss"]
    best = min(event.loss for event in events.of(Evaluated))
    assert own["loss"] == pytest.approx(best, rel=1e-5 if architecture == "decoder" else 0.05)
