"""Input attribution against hands, loops and autograd: gradients, occlusion, rollout, value norms, curves, ranks."""

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.models.small import inputs, lively, model, section
from tests.models.strategies import sections
from tests.support.checkpoints import save_checkpoint
from tests.support.runs import ARCHITECTURES, tiny_recipe, train_tiny
from tfcli.errors import UsageError
from tfcli.inspection.attention.choice import rollout
from tfcli.inspection.attention.compute import attention_on
from tfcli.inspection.attribution import InputMethod
from tfcli.inspection.attribution import inputs as module
from tfcli.inspection.attribution.compute import attribution
from tfcli.inspection.attribution.inputs import (
    STEPS,
    Mixtures,
    curves,
    flow,
    input_attribution,
    integrated_gradients,
    value_norms,
)
from tfcli.inspection.passes import read_text, record_model
from tfcli.inspection.predictions.compute import answer
from tfcli.interop.importing import import_run
from tfcli.models.build import build_model
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection
from tfcli.runs.load import LoadedRun, load_run

TEXTS = {"decoder": ("the cat s", None), "encoder": ("the c<mask>t", None), "encoder-decoder": ("o gato", "the cat")}
BLANK, WANTED, OTHER = 1, 3, 5


def mixtures_of(built: Transformer, sides: tuple[Tensor, ...]) -> Mixtures:
    """F: the logit of token 3 less that of 5 at the last position; the baseline is token 1 throughout."""
    tables = [
        built.get_parameter(f"{name}.weight").detach() for name in ("embedding", "target_embedding")[: len(sides)]
    ]
    x = torch.cat([table[side[0]] for table, side in zip(tables, sides, strict=True)])
    blank = torch.cat([table[torch.full_like(side[0], BLANK)] for table, side in zip(tables, sides, strict=True)])
    lengths = [side.shape[1] for side in sides]
    return Mixtures(built, lengths, x, blank, lengths[-1] - 1, lambda logits: logits[:, WANTED] - logits[:, OTHER])


def loaded(trained: Callable[[str], Path], architecture: str) -> LoadedRun:
    """A trained run in float64."""
    run = load_run(trained(architecture))
    run.model.double()
    return run


def ids_of(run: LoadedRun) -> tuple[list[Tensor], int]:
    text, target = TEXTS[run.architecture]
    roles = run.config.roles
    blank = roles.mask if run.architecture == "encoder" else roles.unk
    assert blank is not None
    return read_text(run, text, target).tensors(run.device), blank


VARIANTS: list[dict[str, Any]] = [
    {"positions": "learned", "norm": "layernorm"},
    {"positions": "rotary", "norm_placement": "post"},
    {"positions": "sinusoidal", "num_heads": 4, "num_kv_heads": 2, "embedding_norm": True},
    {"positions": "alibi", "tie_embeddings": False},
]


@pytest.mark.parametrize(("architecture", "variant"), product(ARCHITECTURES, VARIANTS))
def test_integrated_gradients_add_up_to_the_difference(architecture: str, variant: dict[str, Any]):
    """In float64, with 1,024 steps, to a ten-thousandth of the difference; and each token's own share is what a
    finite difference along the line says."""
    sides = tuple(side[:1] for side in inputs(architecture))
    apart = {"share_embeddings": False} if architecture == "encoder-decoder" and "tie_embeddings" in variant else {}
    mixtures = mixtures_of(model(architecture, **variant, **apart), sides)
    count = len(mixtures.x)
    read, of_baseline = mixtures(torch.tensor([[1.0], [0.0]]).expand(-1, count))
    middles = ((torch.arange(1024, dtype=torch.float64) + 0.5) / 1024)[:, None].expand(-1, count)
    slopes = mixtures(middles, slopes=True)
    assert slopes.mean(0).sum() == pytest.approx(read - of_baseline, rel=1e-3)
    found, gaps = integrated_gradients(mixtures, read - of_baseline)
    assert gaps[-1] <= 0.01 and all(gap > 0.01 for gap in gaps[:-1])
    assert found.sum() == pytest.approx(read - of_baseline, rel=0.011)
    nudge = 1e-6 * torch.eye(count, dtype=torch.float64)
    apart = (mixtures(middles[500] + nudge) - mixtures(middles[500] - nudge)) / 2e-6
    np.testing.assert_allclose(slopes[500], apart, rtol=1e-4, atol=1e-6)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(st.sampled_from(("linear", "transform")).flatmap(lambda head: sections(head=head, labels=None)))
def test_a_mix_of_everything_is_any_model_itself(wanted: ModelSection):
    """Whatever positions, norms, heads and scores there are: all ones are the text, all zeros the baseline. Shares of
    rollout and of value norms add up to one."""
    built, sides = lively(wanted), [side[:1] for side in inputs(wanted.architecture)]
    mixtures = mixtures_of(built, tuple(sides))
    count = len(mixtures.x)
    found = mixtures(torch.tensor([[1.0], [0.0]]).expand(-1, count))
    for own, ids in zip(found, (sides, [torch.full_like(side, BLANK) for side in sides]), strict=True):
        with torch.no_grad():
            logits = built(*ids)[0, -1]
        assert own == pytest.approx(float(logits[WANTED] - logits[OTHER]), rel=1e-8, abs=1e-8)
    for values in (False, True):
        shares = flow(built, sides, values=values)
        assert shares.shape == (sides[-1].shape[1], count) and (shares >= 0).all()
        np.testing.assert_allclose(shares.sum(1), 1, atol=1e-6)


class Summed(nn.Module):
    """In the place of a stack: every vector is the sum of all up to it."""

    def forward(self, x: Tensor, **_: Any) -> Tensor:
        return x.cumsum(1)


def test_a_sum_of_embeddings_by_hand():
    """F is linear: Σ 4 E[id] · (W[3] − W[5]), with √16 as the scale of embeddings. Each token's gradient × input is its
    own summand, its occlusion and its integrated gradient that summand less the baseline's, with however few steps."""
    built = model("decoder", positions="none", tie_embeddings=False)
    built.stack = Summed()
    [ids] = [side[0] for side in inputs("decoder")][:1]
    mixtures = mixtures_of(built, (ids[None],))
    direction = 4 * (built.head.weight[WANTED] - built.head.weight[OTHER]).detach()
    own = (mixtures.x @ direction).numpy()
    less = (mixtures.x - mixtures.baseline) @ direction
    count = len(ids)
    [gradient] = mixtures(torch.ones(1, count), slopes=True, baseline=torch.zeros_like(mixtures.x))
    np.testing.assert_allclose(gradient, own, atol=1e-10)
    found, gaps = integrated_gradients(mixtures, float(less.sum()))
    np.testing.assert_allclose(found, less.numpy(), atol=1e-10)
    assert len(gaps) == 1 and gaps[0] < 1e-10
    alone = mixtures(torch.cat((torch.ones(1, count), 1 - torch.eye(count))))
    np.testing.assert_allclose(alone[0] - alone[1:], less.numpy(), atol=1e-10)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_gradient_times_input_by_autograd(trained: Callable[[str], Path], architecture: str):
    """With embeddings that are leaves of their own: log p(token) is differentiated by what the lookup gives."""
    run = loaded(trained, architecture)
    sides, _ = ids_of(run)
    record = input_attribution(run, *TEXTS[architecture], ("gradient",))
    kept: list[Tensor] = []
    original = torch.nn.functional.embedding

    def lookup(ids: Tensor, weight: Tensor) -> Tensor:
        rows = original(ids, weight).detach()
        if weight.shape[0] >= run.tokenizer.vocab_size:
            rows.requires_grad_()
            kept.append(rows)
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tfcli.layers.embedding.F.embedding", lookup)
        logs = run.model(*sides)[0, record.direct.position].log_softmax(-1)
    best = logs[answer(run, logs)]
    best.backward()
    expected = torch.cat([(rows * rows.grad).sum(-1)[0] for rows in kept if rows.grad is not None]).detach().numpy()
    np.testing.assert_allclose(record.values[0], expected[: record.values.shape[1]], atol=1e-10)
    assert record.value == pytest.approx(float(best.detach()), abs=1e-10)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_occlusion_and_curves_by_a_loop(trained: Callable[[str], Path], architecture: str):
    """One pass a text, its ids replaced one by one: no mixes, no batches."""
    run = loaded(trained, architecture)
    sides, blank = ids_of(run)
    record = input_attribution(run, *TEXTS[architecture], ("occlusion",))
    assert record.baseline == run.tokenizer.labels([blank])[0]
    at, special = record.direct.position, run.tokenizer.special_ids
    places = [(side, place) for side, ids in enumerate(sides) for place in range(ids.shape[1])]
    own = [number for number, (side, place) in enumerate(places) if int(sides[side][0, place]) not in special]
    assert len(own) >= 4
    with torch.no_grad():
        token = answer(run, run.model(*sides)[0, at])

    def log_p(gone: set[int]) -> float:
        changed = [side.clone() for side in sides]
        for number in gone:
            side, place = places[number]
            changed[side][0, place] = blank
        with torch.no_grad():
            return float(run.model(*changed)[0, at].log_softmax(-1)[token])

    alone = {number: log_p(set()) - log_p({number}) for number in own}
    for number in range(len(places)):
        expected = alone.get(number, np.nan)
        assert record.values[0, number] == pytest.approx(expected, abs=1e-9, nan_ok=True), number
    assert (record.value, record.of_baseline) == pytest.approx((log_p(set()), log_p(set(own))), abs=1e-9)
    assert record.counts == tuple(range(len(own) + 1))
    order = sorted(own, key=lambda number: -alone[number])
    deletion = np.exp([log_p(set(order[:count])) for count in record.counts])
    insertion = np.exp([log_p(set(order[count:])) for count in record.counts])
    np.testing.assert_allclose(record.curves[:, 0], (deletion, insertion), atol=1e-9)
    for curve, area in zip((deletion, insertion), record.areas[:, 0], strict=True):
        assert area == pytest.approx(np.mean((curve[1:] + curve[:-1]) / 2), abs=1e-9)


def test_chance_is_what_all_orders_give():
    """Four tokens of which the first one alone counts: the area is 1/8, 3/8, 5/8 or 7/8 by its place in the order, each
    for a quarter of all orders. The best order shares its area with a quarter of the random ones."""
    counted = np.array([[4.0, 3, 2, 1], [1, 2, 3, 4]])
    counts, (deletion, random, insertion) = curves(lambda mixes: mixes[:, 0].numpy(), counted, np.full(4, True))
    assert counts.tolist() == [0, 1, 2, 3, 4]
    assert deletion.tolist() == [[1, 0, 0, 0, 0], [1, 1, 1, 1, 0]]
    assert insertion.tolist() == [[0, 1, 1, 1, 1], [0, 0, 0, 0, 1]]
    areas = (random[:, 1:] + random[:, :-1]).mean(1) / 2
    assert random.shape == (100, 5) and set(areas) == {1 / 8, 3 / 8, 5 / 8, 7 / 8}
    assert areas.mean() == pytest.approx(0.5, abs=0.06)
    assert 0.15 <= np.mean(areas == 1 / 8) <= 0.35


def test_long_texts_have_curves_of_few_points():
    """And the same points from both ends, so that an insertion is a deletion backwards."""
    counts, (deletion, _, insertion) = curves(
        lambda mixes: mixes.sum(1).numpy(), np.arange(45.0)[None], np.arange(45) > 3
    )
    assert len(counts) <= 18 and counts[[0, -1]].tolist() == [0, 41] and {20, 21} <= set(counts.tolist())
    assert (41 - counts[::-1]).tolist() == counts.tolist()
    assert deletion[0].tolist() == (45 - counts).tolist() and insertion[0].tolist() == (4 + counts).tolist()


class Steep:
    """F = σ(k (m − c)) of one token, whose slope the midpoint rule meets only with enough steps."""

    x = torch.zeros(1, 1)

    def __init__(self, k: float) -> None:
        self.k = k

    def __call__(self, mixes: Tensor, *, slopes: bool) -> np.ndarray:
        at = torch.sigmoid(self.k * (mixes.double() - 0.5013))
        return (self.k * at * (1 - at)).numpy()


@pytest.mark.parametrize(("steep", "steps"), [(20, 1), (300, 2), (1000, 4), (1e6, 5)])
def test_steps_are_doubled_until_the_gap_is_small(steep: float, steps: int):
    found, gaps = integrated_gradients(Steep(steep), 1.0)  # type: ignore[arg-type]
    assert len(gaps) == steps and all(gap > 0.01 for gap in gaps[:-1])
    assert (gaps[-1] <= 0.01) == (steep < 1e6), gaps
    assert gaps[-1] == pytest.approx(abs(found.sum() - 1))
    middles = (np.arange(STEPS[steps - 1]) + 0.5) / STEPS[steps - 1]
    assert found.sum() == pytest.approx(
        Steep(steep)(torch.tensor(middles)[:, None], slopes=True).mean(0).sum(), rel=1e-3
    )


def planted_pass(monkeypatch: pytest.MonkeyPatch, encoder: Any, decoder: Any) -> None:
    """Let a pass have these weights a layer: (H, T, S), or of self- and of cross-attention."""

    def layer(weights: Any) -> Any:
        own, cross = weights if isinstance(weights, tuple) else (weights, None)
        seen = [one and SimpleNamespace(weights=torch.tensor(one)) for one in (own, cross)]
        return SimpleNamespace(attention=seen[0], cross=seen[1])

    stacks = [one and SimpleNamespace(layers=[layer(weights) for weights in one]) for one in (encoder, decoder)]
    monkeypatch.setattr(module, "record_model", lambda *_: SimpleNamespace(encoder=stacks[0], decoder=stacks[1]))


def test_rollout_of_two_layers_by_hand(monkeypatch: pytest.MonkeyPatch):
    """Layer 0: the mean of (0, 1) and (½, ½) is (¼, ¾), and half of it stays: (⅛, ⅞). Layer 1: b looks at a alone, so
    that it is ½ (1, 0) + ½ (⅛, ⅞) = (9/16, 7/16)."""
    layers = [[[[1.0, 0], [0, 1]], [[1, 0], [0.5, 0.5]]], [[[1.0, 0], [1, 0]], [[1, 0], [1, 0]]]]
    planted_pass(monkeypatch, None, layers)
    assert flow(model("decoder"), (torch.zeros(1, 2),)).tolist() == [[1, 0], [9 / 16, 7 / 16]]


def test_rollout_through_cross_attention_by_hand(monkeypatch: pytest.MonkeyPatch):
    """The source's tokens swap: each of its vectors is half of either. The target's one token keeps itself in
    self-attention; half of it then is what it sees, ¾ of source 0 and ¼ of 1, all of it half and half: (¼, ¼, ½)."""
    planted_pass(monkeypatch, [[[[0.0, 1], [1, 0]]]], [([[[1.0]]], [[[0.75, 0.25]]])])
    built = model("encoder-decoder", num_layers=1, num_heads=1)
    assert flow(built, (torch.zeros(1, 2), torch.zeros(1, 1))).tolist() == [[0.25, 0.25, 0.5]]


@pytest.mark.parametrize("architecture", ["decoder", "encoder"])
def test_rollout_is_that_of_attention(trained: Callable[[str], Path], architecture: str):
    run = load_run(trained(architecture))
    inputs = read_text(run, TEXTS[architecture][0])
    [record] = attention_on(run, inputs)
    np.testing.assert_allclose(
        flow(run.model, inputs.tensors(run.device)), rollout(record).weights[-1, 0], rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize(
    "variant",
    [{"num_heads": 4, "num_kv_heads": 2, "attention_bias": True, "head_dim": 6}, {"attention_score": "parameter_free"}],
    ids=["grouped", "parameter-free"],
)
def test_value_norms_by_a_loop(variant: dict[str, Any]):
    """Two query heads share keys and values: ‖Σ over heads α (x Wᵛ + bᵛ) Wᵒ‖, token by token."""
    built = model("decoder", norm="layernorm", **variant)
    sides = [inputs("decoder")[0][:1]]
    with torch.no_grad():
        for layer, one in zip(built.stack.layers, record_model(built, sides).last.layers, strict=True):
            attention, passed = layer.attention, one.attention
            size, heads, count = attention.head_dim, attention.num_heads, len(passed.x)
            norms = np.zeros((count, count))
            for query, key in product(range(count), repeat=2):
                written = torch.zeros(built.section.d_model, dtype=torch.float64)
                for head in range(heads):
                    shared = head // (heads // attention.num_kv_heads)
                    rows = slice(shared * size, (shared + 1) * size)
                    columns = slice(head * size, (head + 1) * size)
                    x = passed.value_source[key]
                    if isinstance(attention.value, nn.Identity):
                        own = torch.zeros_like(x)
                        own[columns] = x[rows]
                    else:
                        value = attention.value.weight[rows] @ x + attention.value.bias[rows]
                        own = attention.output.weight[:, columns] @ value
                    written += passed.weights[head, query, key] * own
                norms[query, key] = float(written.norm())
            expected = norms / norms.sum(1, keepdims=True)
            np.testing.assert_allclose(value_norms(attention, passed).numpy(), expected, atol=1e-10)


def ranks(row: np.ndarray) -> list[float]:
    """From 1; equal numbers share the mean of their places."""
    ordered = sorted(row.tolist())
    return [1 + ordered.index(one) + (ordered.count(one) - 1) / 2 for one in row.tolist()]


def test_agreement_is_the_correlation_of_ranks(trained: Callable[[str], Path]):
    record = input_attribution(load_run(trained("encoder-decoder")), "o gato e o livro", "the cat and")
    own = ~np.isnan(record.values).any(0)
    assert own.sum() == len(record.counts) - 1
    expected = np.corrcoef([ranks(row) for row in record.values[:, own]])
    np.testing.assert_allclose(record.agreement, expected, atol=1e-12)
    assert (np.abs(record.agreement) < 0.99).any()
    assert record.unrelated == pytest.approx(min(1.0, 1.96 / (own.sum() - 1) ** 0.5))
    assert set(record.sides) == {"source", "target"} and len(record.sides) == len(record.read) == record.values.shape[1]


def test_what_unrelated_orders_stay_within():
    """Of seven tokens, 95 % of all 5,040 orders: 1.96 / √6 = 0.80 cuts off 3 to 6 %."""
    first = np.arange(7)
    rhos = [abs(np.corrcoef(first, order)[0, 1]) for order in permutations(range(7), 7)][::7]
    assert 0.03 < np.mean(np.array(rhos) > 1.96 / 6**0.5) < 0.06


def planted(trained: Callable[[str], Path], decider: str) -> LoadedRun:
    """A decoder whose one head looks everywhere alike and copies: token `x` is predicted from the `decider` alone."""
    run = load_run(trained("decoder"))
    label = run.tokenizer.labels(range(run.tokenizer.vocab_size))
    size = 16
    wanted = section(
        "decoder", vocab_size=run.config.model.vocab_size, d_model=size, num_layers=1, num_heads=1,
        positions="none", tie_embeddings=False, max_seq_len=64,
    )  # fmt: skip
    built = build_model(wanted).double().eval()
    with torch.no_grad():
        for parameter in built.parameters():
            if parameter.ndim == 2:
                parameter.zero_()
        rows = torch.randn(len(label), size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        rows[:, 0] = 0.0
        rows[label.index(decider)] = torch.eye(size)[0] * 4
        built.embedding.weight.copy_(rows)
        attention = built.stack.layers[0].attention
        attention.value.weight.copy_(torch.eye(size))
        attention.output.weight.copy_(torch.eye(size))
        built.head.weight[label.index("x"), 0] = 3.0
    return replace(run, model=built)


@pytest.mark.parametrize("place", [2, 11, 20])
def test_the_deciding_token_is_found(trained: Callable[[str], Path], place: int):
    """One q among thirty other letters, at any place: what changes the text finds it, and better than random orders do;
    attention, which looks everywhere alike, does not, and is told so."""
    text = "abcdefghijklmnoprstuabcdefghij"
    text = f"{text[:place]}q{text[place + 1 :]}"
    record = input_attribution(planted(trained, "q"), text, token="x", against="y")
    where = record.read.index("q")
    assert record.read[1:] == tuple(text) and where == place + 1
    for number, method in enumerate(record.methods):
        finds = method in ("gradient", "integrated-gradients", "occlusion")
        assert (np.nanargmax(record.values[number]) == where) == finds, method
        assert (record.as_good[:, number] <= 0.05).all() == finds, method
    assert record.gaps[-1] <= 0.01


def test_a_text_without_effect_finds_nothing(trained: Callable[[str], Path]):
    """Nothing in it is the decider: F does not move, up to rounding, and no order is better than chance."""
    record = input_attribution(planted(trained, "q"), "abcdefgh", token="x", against="y")
    assert (record.as_good == 1.0).all()
    assert np.nanmax(np.abs(record.values[:3])) < 1e-9 and record.gaps == (pytest.approx(0.0, abs=1e-6),)


def test_a_decoder_reads_up_to_the_position(trained: Callable[[str], Path]):
    run = load_run(trained("decoder"))
    early, short = input_attribution(run, "the cat", position=3), input_attribution(run, "the")
    assert early.read == short.read == ("<s>", "t", "h", "e")
    np.testing.assert_allclose(early.values, short.values, atol=1e-5)
    [single] = input_attribution(run, "the", None, ("rollout",)).values
    np.testing.assert_array_equal(single, short.values[3])


@pytest.mark.parametrize("family", ["gpt2", "bert", "bart", "t5"])
def test_imported_models(family: str, tmp_path: Path):
    import_run(str(save_checkpoint(tmp_path / "theirs", family)), tmp_path / "run")
    record = input_attribution(load_run(tmp_path / "run"), "the cat sat", position=1)
    assert np.isfinite(record.values[[0, 3, 4]]).all() and record.gaps[-1] <= 0.01
    assert record.values[3:].sum(1) == pytest.approx(1.0, abs=1e-5)
    total = np.nansum(record.values[1])
    assert total == pytest.approx(record.value - record.of_baseline, rel=0.011, abs=1e-5)


def test_what_cannot_be_asked(trained: Callable[[str], Path]):
    run = load_run(trained("decoder"))
    with pytest.raises(
        UsageError, match="Position 0 is predicted from special tokens alone; choose a later --position"
    ):
        input_attribution(run, "the", position=0)
    with pytest.raises(UsageError, match="Both answers are 'a'"):
        input_attribution(run, "the", token="a", against="a")


def test_a_model_without_residuals_has_no_parts_and_shares_by_its_weights_alone(tmp_path: Path):
    """Rollout is then the product of the layers' mean weights. The sum of parts is refused, and what works is named."""
    bare = tiny_recipe("decoder", {"model": {"residuals": False, "num_layers": 2}, "train": {"steps": 2}})
    train_tiny(bare, tmp_path / "run")
    run = load_run(tmp_path / "run")
    found = input_attribution(run, "the cat")
    assert (
        found.direct.parts == () and found.methods == get_args(InputMethod) and np.isfinite(found.values[:3, 1:]).all()
    )
    one, two = (layer.attention.weights.double().mean(0) for layer in passed(run, "the cat"))
    np.testing.assert_allclose(found.values[3], (two @ one)[found.direct.position].numpy(), atol=1e-7)
    with pytest.raises(UsageError, match=r"residuals = false has none; choose a --method that needs none, such as occ"):
        attribution(run, "the cat")


def passed(run: LoadedRun, text: str) -> Any:
    with torch.inference_mode():
        return record_model(run.model, read_text(run, text).tensors(run.device)).last.layers
