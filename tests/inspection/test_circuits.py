"""Circuits against a second, naive way: whole matrices over vocabulary and residual stream in float64, and NumPy."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tfcli.inspection.circuits import Circuit, Circuits
from tfcli.inspection.circuits.compute import circuits
from tfcli.models.build import build_model
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

        def bias(part: str) -> np.ndarray | float:
            return self.weights.get(f"{name}.{part}.bias", np.zeros(1))

        group = heads // section.kv_heads
        self.q = [of("query")[:, h * size : (h + 1) * size] for h in range(heads)]
        self.k = [of("key")[:, h // group * size : (h // group + 1) * size] for h in range(heads)]
        self.v = [of("value")[:, h // group * size : (h // group + 1) * size] for h in range(heads)]
        self.o = [of("output")[h * size : (h + 1) * size] for h in range(heads)]
        self.bias = bias
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
    names = [f"{kind} {layer}.{head}" for kind, layer in naive for head in range(heads)]
    assert [*by(found, "QK")] == [*by(found, "OV")] == names
    scored = [name for name in names if "encoder_self" not in name or shape == "encoder"]
    assert [*by(found, "copying")] == scored
    for (kind, layer), one in naive.items():
        for head in range(heads):
            name = f"{kind} {layer}.{head}"
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
            expected[f"{way}-composition", f"{a} {first}.{i}", f"{b} {second}.{j}"] = share
    shares = {(row.by, row.of, row.other): row.value for row in found.rows if row.by.endswith("composition")}
    assert shares.keys() == expected.keys()
    for key, share in shares.items():
        assert share == pytest.approx(expected[key], rel=1e-3)
