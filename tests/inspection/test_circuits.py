"""Circuits against a second, naive way: whole matrices over vocabulary and residual stream in float64, and NumPy."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from tests.inspection.test_built_heads import Built
from tests.models.small import lively
from tests.models.strategies import sections
from tfcli.errors import UsageError
from tfcli.inspection.circuits import Circuit, Circuits
from tfcli.inspection.circuits.compute import circuits
from tfcli.inspection.heads.find import Material
from tfcli.inspection.passes import read_text, record_model
from tfcli.models.build import build_model
from tfcli.recipe.model import ModelSection
from tfcli.runs.load import LoadedRun, load_run

SMALL = {"d_model": 24, "num_heads": 2, "num_layers": 2, "d_ff": 12}
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "decoder": ("decoder", {"positions": "rotary"}),
    "grouped": ("decoder", {"num_heads": 4, "num_kv_heads": 2, "norm": "layernorm", "attention_bias": True}),
    "attention-only": ("decoder", {"d_ff": 0, "positions": "alibi", "tie_embeddings": False}),
    "wide heads": ("decoder", {"head_dim": 30, "positions": "learned", "scale_logits": True, "head_bias": True}),
    "parallel": ("decoder", {"parallel_residual": True, "norm": "layernorm", "positions": "none"}),
    "encoder": ("encoder", {"norm": "layernorm", "norm_placement": "post", "embedding_norm": True, "token_types": 2}),
    "encoder-decoder": ("encoder-decoder", {"num_decoder_layers": 3, "norm": "layernorm", "share_embeddings": False}),
    "post encoder-decoder": ("encoder-decoder", {"norm_placement": "post", "positions": "sinusoidal"}),
    "free": ("decoder", {"attention_score": "parameter_free", "positions": "none"}),
}


def shaped(trained: Callable[[str], Path], shape: str, seed: int = 0, **more: Any) -> LoadedRun:
    """A run of a shape with random weights, large enough that everything has an effect."""
    architecture, settings = SHAPES[shape]
    run = load_run(trained(architecture))
    given = {"positions": "rotary", "position_merge": "add", "activation": "relu", "num_kv_heads": None, **SMALL}
    section = replace(run.config.model, **{**given, **settings, **more})
    model = build_model(section).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        weight.normal_(0.0, 0.3, generator=generator)
    return replace(run, model=model, config=replace(run.config, model=section))


def by(found: Circuits, name: str) -> dict[Any, Circuit]:
    """Its rows of a kind, by what they are of."""
    return {(row.of, row.other) if row.other else row.of: row for row in found.rows if row.by == name}


class Naive:
    """An attention's matrices a second time, (D, D) a head and way, out of the weights by their names."""

    def __init__(self, run: LoadedRun, kind: str, layer: int) -> None:
        model, section = run.model, run.config.model
        self.section, self.weights = section, {k: v.double().numpy() for k, v in model.state_dict().items()}
        side = "stack" if section.architecture != "encoder-decoder" else "encoder" if kind[0] == "e" else "decoder"
        name = f"{side}.layers.{layer}." + ("cross_attention" if kind == "cross" else "attention")
        pre = section.norm_placement == "pre"
        own = f"{name}_residual.norm" if pre else None
        source = "encoder.final_norm" if pre else None
        self.ids = sorted(run.tokenizer.ordinary_ids)
        table = "target_embedding" if side == "decoder" else "embedding"
        self.norms = (own, source if kind == "cross" else own)
        self.asking = self.normed(self.embedded(table), self.norms[0])
        self.read = self.normed(self.embedded("embedding" if kind == "cross" else table), self.norms[1])
        heads, size = section.num_heads, section.size_per_head
        inner = np.eye(section.d_model)

        def of(part: str) -> np.ndarray:
            return self.weights[f"{name}.{part}.weight"].T if f"{name}.{part}.weight" in self.weights else inner

        group = heads // section.kv_heads
        self.q = [of("query")[:, h * size : (h + 1) * size] for h in range(heads)]
        self.k = [of("key")[:, h // group * size : (h // group + 1) * size] for h in range(heads)]
        self.v = [of("value")[:, h // group * size : (h // group + 1) * size] for h in range(heads)]
        self.o = [of("output")[h * size : (h + 1) * size] for h in range(heads)]
        self.name = name
        gains = [self.gain(norm) for norm in self.norms]
        self.qk = [gains[0] @ q @ k.T @ gains[1].T for q, k in zip(self.q, self.k, strict=True)]
        self.ov = [gains[1] @ v @ o for v, o in zip(self.v, self.o, strict=True)]
        last = {"decoder": "stack", "encoder": "stack", "encoder-decoder": "decoder"}[section.architecture]
        unembedding = self.weights["head.weight"][self.ids].T * (section.d_model**-0.5 if section.scale_logits else 1)
        self.unembedding = self.gain(f"{last}.final_norm" if pre else None) @ unembedding

    def embedded(self, table: str) -> np.ndarray:
        x = self.weights[f"{table}.weight"][self.ids] * self.section.embedding_scale
        if self.section.token_types:
            x = x + self.weights[f"{table}.token_types"][0]
        return self.normed(x, f"{table}.norm") if self.section.embedding_norm else x

    def normed(self, x: np.ndarray, norm: str | None) -> np.ndarray:
        if norm is None:
            return x
        if self.section.norm == "layernorm":
            x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + self.section.norm_eps)
        return x * self.weights[f"{norm}.weight"] + self.weights.get(f"{norm}.bias", 0.0)

    def gain(self, norm: str | None) -> np.ndarray:
        size = self.section.d_model
        if norm is None:
            return np.eye(size)
        centring = np.eye(size) - (1 / size if self.section.norm == "layernorm" else 0)
        return centring @ np.diag(self.weights[f"{norm}.weight"])

    def part_of_bias(self, part: str, head: int, size: int) -> np.ndarray | float:
        bias = self.weights.get(f"{self.name}.{part}.bias")
        return 0.0 if bias is None else bias[head * size : (head + 1) * size]

    def copying(self, head: int) -> float:
        matrix = self.read @ self.v[head] @ self.o[head] @ self.unembedding
        matrix = matrix - matrix.mean(0, keepdims=True)
        matrix = matrix - matrix.mean(1, keepdims=True)
        values = np.linalg.eigvals(matrix)
        return float(values.real.sum() / np.abs(values).sum())


def places(run: LoadedRun) -> list[tuple[str, int]]:
    section = run.config.model
    if section.architecture != "encoder-decoder":
        return [(f"{section.architecture}_self", n) for n in range(section.num_layers)]
    decoder = [(kind, n) for kind in ("decoder_self", "cross") for n in range(section.decoder_layers)]
    return [("encoder_self", n) for n in range(section.num_layers)] + decoder


def participation(matrix: np.ndarray) -> float:
    powers = np.linalg.svd(matrix)[1] ** 2
    return float(powers.sum() ** 2 / (powers**2).sum())


@pytest.mark.parametrize("shape", SHAPES)
def test_ranks_copying_and_compositions_are_those_of_whole_matrices(trained: Callable[[str], Path], shape: str):
    run = shaped(trained, shape)
    found, heads = circuits(run), run.config.model.num_heads
    naive = {place: Naive(run, *place) for place in places(run)}
    names = [f"{kind}.{layer}.{head}" for kind, layer in naive for head in range(heads)]
    assert [*by(found, "QK")] == [*by(found, "OV")] == names
    scored = [name for name in names if "encoder_self" not in name or shape == "encoder"]
    assert [*by(found, "copying")] == scored
    for (kind, layer), one in naive.items():
        for head in range(heads):
            name = f"{kind}.{layer}.{head}"
            assert by(found, "QK")[name].value == pytest.approx(participation(one.qk[head]), rel=1e-3)
            assert by(found, "OV")[name].value == pytest.approx(participation(one.ov[head]), rel=1e-3)
            if name in scored:
                assert by(found, "copying")[name].value == pytest.approx(one.copying(head), abs=2e-3)
    expected = {}
    for (a, first), (b, second) in itertools.product(naive, naive):
        ways = "QKV"
        if a == "encoder_self" and b == "cross":
            ways = "KV"
        elif (a == "encoder_self") != (b == "encoder_self") or (first, a == "cross") >= (second, b == "cross"):
            continue
        elif b == "cross":
            ways = "Q"
        for way, i, j in itertools.product(ways, range(heads), range(heads)):
            ov, later = naive[a, first].ov[i], naive[b, second]
            matrix = {"Q": later.qk[j], "K": later.qk[j].T, "V": later.ov[j]}[way]
            share = np.linalg.norm(ov @ matrix) / np.linalg.norm(ov) / np.linalg.norm(matrix)
            expected[f"{way}-composition", f"{a}.{first}.{i}", f"{b}.{second}.{j}"] = share
    shares = {(row.by, row.of, row.other): row.value for row in found.rows if row.by.endswith("composition")}
    assert shares.keys() == expected.keys()
    for key, share in shares.items():
        assert share == pytest.approx(expected[key], rel=1e-3)


def test_chance_of_compositions_is_that_of_random_rotations(trained: Callable[[str], Path]):
    """Mean and standard deviation of ‖A R B‖ over 400 rotations R, drawn by a QR decomposition of Gaussian matrices."""
    run = shaped(trained, "decoder")
    naive, draw = {place: Naive(run, *place) for place in places(run)}, np.random.default_rng(0)
    turns = [np.linalg.qr(draw.standard_normal((24, 24)))[0] for _ in range(400)]
    for row in circuits(run).rows:
        if not row.by.endswith("composition"):
            continue
        ov, later = naive["decoder_self", 0].ov[int(row.of[-1])], naive["decoder_self", 1]
        head = int((row.other or "")[-1])
        matrix = {"Q": later.qk[head], "K": later.qk[head].T, "V": later.ov[head]}[row.by[0]]
        lengths = np.linalg.norm(ov) * np.linalg.norm(matrix)
        shares = [float(np.linalg.norm(ov @ turn @ matrix) / lengths) for turn in turns]
        assert row.chance == pytest.approx(np.mean(shares), rel=0.02)
        assert row.spread == pytest.approx(np.std(shares), rel=0.15)


def test_random_matrices_have_the_rank_that_stands_beside(trained: Callable[[str], Path]):
    run, draw = shaped(trained, "decoder"), np.random.default_rng(0)
    random = circuits(run).rows[0].chance
    ranks = []
    for _ in range(200):
        one, other = draw.standard_normal((2, 24, 12))
        ranks.append(participation(one @ other.T))
    assert random == 12 / (1 + 2 * 12 / 24) == pytest.approx(np.mean(ranks), rel=0.05)


@pytest.mark.parametrize("shape", SHAPES)
def test_what_a_token_seeks_and_writes_is_in_the_whole_matrices(trained: Callable[[str], Path], shape: str):
    """And the six highest and lowest are there; of tokens that are named every pair."""
    run = shaped(trained, shape)
    for kind, layer in places(run):
        naive, head = Naive(run, kind, layer), run.config.model.num_heads - 1
        found = circuits(run, head=(layer, head), kind=kind)
        assert found.of == f"{kind}.{layer}.{head}"
        names = run.tokenizer.labels(naive.ids)
        section = run.config.model
        size, size_of = section.size_per_head, head // (section.num_heads // section.kv_heads)
        query = naive.asking @ naive.q[head] + naive.part_of_bias("query", head, size)
        key = naive.read @ naive.k[head] + naive.part_of_bias("key", size_of, size)
        value = naive.read @ naive.v[head] + naive.part_of_bias("value", size_of, size)
        scale = size**-0.5 if section.attention_score == "scaled_dot" else 1.0
        wholes = {"seeks": query @ key.T * scale, "writes": value @ naive.o[head] @ naive.unembedding}
        written = kind != "encoder_self" or run.architecture == "encoder"
        assert {row.by for row in found.rows} == ({"seeks", "writes"} if written else {"seeks"})
        asked = list(dict.fromkeys(row.of for row in found.rows))
        assert len(asked) == 6
        for way in {row.by for row in found.rows}:
            whole = wholes[way] - wholes[way].mean(-1, keepdims=True)
            for name in asked:
                rows = {row.other: row for row in found.rows if row.by == way and row.of == name}
                values = whole[names.index(name)]
                ends = [names[at] for at in (*np.argsort(values)[:6], *np.argsort(values)[-6:])]
                assert rows.keys() == {*ends, *asked}
                for other, row in rows.items():
                    expected = float(values[names.index(other or "")])
                    assert row.value == pytest.approx(expected, abs=2e-3 * np.abs(values).max())
                    assert row.stands_out == (abs(row.value) > (row.chance or 0))


@pytest.mark.parametrize("more", [{}, {"query_key_norm": True, "attention_softcap": 2.0}, {"attention_bias": True}])
def test_scores_are_those_of_the_model_on_a_text(trained: Callable[[str], Path], more: dict[str, Any]):
    """Without positions, the score between two tokens is what layer 0 has for them in any text."""
    run = shaped(trained, "decoder", positions="none", norm="layernorm", **more)
    found = circuits(run, "e", "t", "a", head=(0, 1))
    ids = [run.tokenizer.token_id(name) for name in "eta"]
    scores = record_model(run.model, [torch.tensor([ids])]).last.layers[0].attention.scores[1]
    rows = {(row.of, row.other): row.value for row in found.rows if row.by == "seeks"}
    for at, name in enumerate("eta"):
        for n, other in enumerate("ta"):
            difference = float(scores[at, n + 1] - scores[at, 0])
            assert rows[name, other] - rows[name, "e"] == pytest.approx(difference, abs=1e-4)


def test_yarn_makes_scores_longer_by_the_square_of_its_gain(trained: Callable[[str], Path]):
    plain, longer = (
        circuits(shaped(trained, "decoder", position_scaling_kind="yarn", position_gain=gain), "e", head=(0, 0))
        for gain in (1.0, 1.5)
    )
    for one, other in zip(plain.rows, longer.rows, strict=True):
        factor = 2.25 if one.by == "seeks" else 1.0
        assert (other.value, other.chance) == pytest.approx((factor * one.value, factor * (one.chance or 0)), rel=1e-3)


@pytest.mark.parametrize("place", [(0, 1), (1, 2)])
def test_the_head_that_copies_is_the_one_that_stands_out(trained: Callable[[str], Path], place: tuple[int, int]):
    """Built by hand: it writes the token it reads; another, of the same parts, writes where no logit is read."""
    built = Built(load_run(trained("decoder")))
    built.head(place, "one back", built.answer)
    built.head((2, 0), "one back", built.before)
    found = by(circuits(built.run), "copying")
    copying = f"decoder_self.{place[0]}.{place[1]}"
    assert found[copying].value > 0.95 and [name for name, row in found.items() if row.stands_out] == [copying]
    shown = circuits(built.run, "e", "t", head=place)
    for row in shown.rows:
        if row.by == "writes":
            assert row.stands_out == (row.of == row.other)
        else:
            assert not row.stands_out


@pytest.mark.parametrize(("before", "place"), [((0, 1), (1, 2)), ((0, 3), (2, 0)), ((1, 0), (2, 3))])
def test_the_pair_of_induction_is_the_one_that_composes(
    trained: Callable[[str], Path], before: tuple[int, int], place: tuple[int, int]
):
    """Built by hand: the head of induction reads by its keys what the one that looks one back writes."""
    built = Built(load_run(trained("decoder")))
    built.head(before, "one back", built.before)
    built.head(place, "behind its like", built.answer)
    found = [row for row in circuits(built.run).rows if row.by.endswith("composition") and row.stands_out]
    best = max(found, key=lambda row: row.value)
    names = ["decoder_self.{}.{}".format(*one) for one in (before, place)]
    assert (best.by, best.of, best.other) == ("K-composition", *names)
    others = [row for row in found if row is not best]
    assert all(row.value < 0.75 * best.value for row in others)
    told = by(circuits(built.run), "copying")[names[1]]
    assert told.stands_out and told.value > 0.95
    seeks = [row for row in circuits(built.run, "e", "t", head=place).rows if row.by == "seeks"]
    assert not any(row.stands_out for row in seeks if row.of == row.other), "through embeddings alone it seeks nothing"


def test_random_models_have_nothing_that_stands_out_but_once_in_twenty(trained: Callable[[str], Path]):
    copying, pairs, tokens = 0, 0, []
    for seed in range(60):
        run = shaped(trained, "decoder", seed, num_heads=4)
        for name, weight in run.model.named_parameters():
            if "norm" in name:
                weight.fill_(1.0)
        rows = circuits(run).rows
        copying += any(row.stands_out for row in rows if row.by == "copying")
        pairs += any(row.stands_out for row in rows if row.by.endswith("composition"))
        rows = circuits(run, head=(1, 0)).rows
        asked = {row.of for row in rows}
        for way in ("seeks", "writes"):
            for token in asked:
                far = [row.stands_out for row in rows if (row.by, row.of) == (way, token) and row.other not in asked]
                tokens.append(any(far))
    assert copying <= 8 and pairs <= 8  # of 60; more than 8 at a rate of 0.05 once in 400 times
    assert np.mean(tokens) < 0.06  # 1 in 40


def texts(run: LoadedRun, count: int = 8) -> Material:
    """Short texts in which "t" is more or less frequent."""
    written = ["tom sat", "the tent", "a tree", "mia", "that hat", "not yet", "in a tin", "two boats"][:count]
    source = ["o livro", "a casa", "o gato", "a mesa"]
    if run.architecture == "encoder-decoder":
        pairs = itertools.islice(itertools.product(source, ("the book", "the cat")), count)
        return Material(
            "pairs", tuple(read_text(run, *pair, remark=False) for pair in pairs), stories=False, aligned={}
        )
    return Material("texts", tuple(read_text(run, text, remark=False) for text in written), stories=False, aligned={})


@pytest.mark.parametrize(("shape", "kind"), [("decoder", None), ("grouped", None), ("encoder", None)])
@pytest.mark.parametrize("activation", ["swiglu", "gelu"])
def test_a_neuron_is_measured_where_the_model_has_it(
    trained: Callable[[str], Path], shape: str, kind: Any, activation: str
):
    measured(shaped(trained, shape, activation=activation), kind)


@pytest.mark.parametrize("kind", [None, "encoder_self", "decoder_self", "cross"])
def test_a_neuron_of_either_side(trained: Callable[[str], Path], kind: Any):
    measured(shaped(trained, "encoder-decoder"), kind)


def measured(run: LoadedRun, kind: Any) -> None:
    """A neuron's figures against those of a recorded pass, and its hits against all ways in which they can fall."""
    found, special = circuits(run, neuron=(1, 5), kind=kind, material=texts(run)), run.config.roles.ids()
    side = "encoder" if run.architecture == "encoder" or kind == "encoder_self" else "decoder"
    assert found.of == f"{side}.1.5"
    every, tops, own = [], [], []
    for inputs in texts(run).texts:
        passed = record_model(run.model, inputs.tensors(run.device))
        stack, ids = getattr(passed, side), getattr(inputs, side)
        values = {n: float(v) for n, v in enumerate(stack.layers[1].inner[:, 5]) if ids[n] not in special}
        every += values.values()
        top = max(values, key=lambda n: values[n])
        tops.append((values[top], ids[top]))
        own.append([ids[n] for n in values])
    assert by(found, "mean")[found.of].value == pytest.approx(np.mean(every), abs=1e-6)
    assert by(found, "positive")[found.of].value == np.mean(np.array(every) > 0)
    active = [row for row in found.rows if row.by == "active"]
    assert [row.value for row in active] == pytest.approx(sorted((one for one, _ in tops), reverse=True)[:6], abs=1e-5)
    for row, (_, token) in zip(active, sorted(tops, key=lambda one: -one[0]), strict=False):
        marked = (row.other or "").split("[")[1].split("]")[0]
        assert marked.strip() == run.tokenizer.labels([token])[0].strip() or marked in run.tokenizer.labels([token])[0]
    chosen = [token for _, token in tops[::2]]
    best = max(dict.fromkeys(chosen), key=chosen.count)
    [first] = (row for row in found.rows if row.by == "first")
    held = [token == best for _, token in tops[1::2]]
    shares = [ids.count(best) / len(ids) for ids in own[1::2]]
    assert (first.other, first.value) == (run.tokenizer.labels([best])[0], np.mean(held))
    assert first.chance == pytest.approx(np.mean(shares))
    likely = 0.0
    for ways in itertools.product((0, 1), repeat=len(shares)):
        if sum(ways) >= sum(held):
            likely += float(np.prod([share if way else 1 - share for way, share in zip(ways, shares, strict=True)]))
    assert first.stands_out == (likely < 0.05)
    writes = [row for row in found.rows if row.by == "writes"]
    assert bool(writes) == (kind != "encoder_self")
    if writes and run.architecture != "encoder-decoder":
        naive = Naive(run, f"{run.architecture}_self", 1)
        row = run.model.state_dict()["stack.layers.1.feed_forward.output.weight"][:, 5].double().numpy()
        whole = row @ naive.unembedding
        names = run.tokenizer.labels(naive.ids)
        for one in writes:
            expected = whole[names.index(one.other or "")] - whole.mean()
            assert one.value == pytest.approx(expected, abs=1e-4)


def test_a_neuron_built_for_a_token_prefers_it_and_writes_it(trained: Callable[[str], Path]):
    run = shaped(trained, "decoder", d_model=64, tie_embeddings=False, num_heads=2, activation="relu")
    for weight in run.model.parameters():
        weight.mul_(0.02)
    model: Any = run.model
    token = run.tokenizer.token_id("t")
    block = model.stack.layers[0]
    for norm in (block.feed_forward_residual.norm, model.stack.final_norm):
        norm.weight.fill_(1.0)
    model.embedding.weight[token, 3] = 5.0
    block.feed_forward.up.weight[7, 3] = 1.0
    block.feed_forward.output.weight[4, 7] = 1.0
    model.head.weight[token, 4] = 1.0
    found = circuits(run, neuron=(0, 7), material=texts(run))
    [first] = (row for row in found.rows if row.by == "first")
    assert (first.other, first.stands_out) == ("t", True)
    assert [row.other for row in found.rows if row.by == "writes" and row.stands_out] == ["t"]


@settings(deadline=None, max_examples=40, suppress_health_check=[*HealthCheck])
@given(section=sections())
def test_every_variant_is_read_or_refused(trained: Callable[[str], Path], section: ModelSection):
    """Numbers are finite where there is something to measure, within their bounds, and stand beside their chance."""
    run = load_run(trained(section.architecture))
    section = replace(section, vocab_size=run.tokenizer.vocab_size)
    run = replace(run, model=lively(section), config=replace(run.config, model=section))
    if not section.residuals:
        with pytest.raises(UsageError, match="residual"):
            circuits(run)
        return
    found = [circuits(run, head=(0, 0)), circuits(run, neuron=(0, 0), material=texts(run))]
    found += [] if section.attention_score == "additive" else [circuits(run)]
    predicts = section.predicts_tokens and section.head == "linear"
    for one in found:
        assert ("headless" in one.notes) != predicts
        assert predicts or not any(row.by in ("writes", "copying") for row in one.rows)
        for row in one.rows:
            assert np.isfinite(row.value), row
            assert row.by != "copying" or abs(row.value) <= 1 + 1e-9
            assert not row.by.endswith("composition") or 0 <= row.value <= 1 + 1e-9
            assert row.by not in ("QK", "OV") or 1 - 1e-6 <= row.value <= section.size_per_head + 1e-6
