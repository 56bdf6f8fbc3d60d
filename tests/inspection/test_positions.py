"""Positional encodings against their formulas, and similarity against a loop over all pairs."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.layers.references import whole_rotation
from tests.models.small import model
from tests.support.runs import weights
from tfcli.errors import UsageError
from tfcli.inspection.positions.comparison import requirements
from tfcli.inspection.positions.compute import positions_table, run_positions, shift, similarity_by_distance
from tfcli.layers.attention import Span
from tfcli.layers.rotary import rotate
from tfcli.runs.load import load_run


def test_the_sinusoidal_table_is_its_formula():
    """sin(n / L^(i/D)) in even dimensions, cos(n / L^((i−1)/D)) in odd ones."""
    record = positions_table("sinusoidal", 40, 6, 100.0)
    for n in range(40):
        for i in range(6):
            angle = n / 100 ** ((i - i % 2) / 6)
            assert record.table[n, i] == pytest.approx(math.cos(angle) if i % 2 else math.sin(angle), abs=1e-6)
    assert (record.encoding, record.base, record.length, record.d_model) == ("sinusoidal", 100.0, 40, 6)


def test_the_rotary_table_has_the_cosine_and_the_sine_of_each_pair_s_angle():
    """Pair i of position n is turned by n · L^(−2i/Dh): cosine in column 2i, sine in column 2i + 1."""
    record = positions_table("rotary", 30, 8, 10_000.0)
    for n in range(30):
        for i in range(4):
            angle = n * 10_000 ** (-2 * i / 8)
            assert record.table[n, 2 * i] == pytest.approx(math.cos(angle), abs=1e-6)
            assert record.table[n, 2 * i + 1] == pytest.approx(math.sin(angle), abs=1e-6)


def test_half_sines_and_half_cosines_by_hand():
    """D = 4, L = 10⁴: the angles of position 1 are 1 and 1/100; Marian has both sines first. Halved, 1/2 and 1/200."""
    one = [math.sin(1), math.sin(0.01), math.cos(1), math.cos(0.01)]
    record = positions_table("sinusoidal", 2, 4, 10_000.0, layout="halves")
    np.testing.assert_allclose(record.table, [[0, 0, 1, 1], one], atol=1e-7)
    assert record.layout == "halves"
    halved = positions_table("sinusoidal", 3, 4, 10_000.0, layout="halves", scaling=2.0)
    np.testing.assert_allclose(halved.table[2], one, atol=1e-7)
    assert positions_table("sinusoidal", 2, 4).layout == "interleaved"


@pytest.mark.parametrize(("layout", "pair"), [("interleaved", (4, 5)), ("halves", (2, 6))])
def test_the_rotary_table_says_how_a_layout_turns_its_pairs(layout: Any, pair: tuple[int, int]):
    """Pair 2 of 8 dimensions is 4 with 5 among neighbours, and 2 with 6 half a head apart. The unit vector of its first
    dimension, turned, is its cosine there and its sine in the other: columns 4 and 5 of the table, in both layouts."""
    record = positions_table("rotary", 9, 8, 100.0, layout=layout)
    first, second = pair
    unit = torch.eye(8)[first].expand(1, 1, 9, 8)
    turned = rotate(unit, whole_rotation(torch.arange(9), 8, 100.0, layout=layout))[0, 0].numpy()
    np.testing.assert_allclose(turned[:, [first, second]], record.table[:, [4, 5]], atol=1e-7)
    assert np.abs(np.delete(turned, pair, axis=1)).max() == 0
    assert record.layout == layout


def test_alibi_by_hand():
    """Two heads have the slopes 2⁻⁴ and 2⁻⁸; a third takes 2⁻², the first one of four heads."""
    record = positions_table("alibi", 3, 2)
    assert record.table.tolist() == [[0, 0], [-1 / 16, -1 / 256], [-2 / 16, -2 / 256]]
    assert not np.signbit(record.table[0]).any()
    assert (record.rows, record.columns, record.first) == ("distance", "head", 0)
    assert (record.encoding, record.base, record.length, record.d_model) == ("alibi", None, 3, None)
    assert record.similarity is None
    assert positions_table("alibi", 2, 3).table[1].tolist() == [-1 / 16, -1 / 256, -1 / 4]


@pytest.mark.parametrize("encoding", ["sinusoidal", "rotary"])
def test_similarity_is_the_mean_over_all_pairs_at_a_distance(encoding: str):
    record = positions_table(encoding, 17, 6, 50.0)
    table = record.table.astype(np.float64)
    for k in range(17):
        cosines = [
            table[n] @ table[n + k] / (np.linalg.norm(table[n]) * np.linalg.norm(table[n + k])) for n in range(17 - k)
        ]
        assert record.similarity[k] == pytest.approx(np.mean(cosines), abs=1e-6)
    assert record.similarity[0] == pytest.approx(1.0)


def test_similarity_of_any_table_is_the_mean_over_all_pairs():
    """Where rows have different lengths and one is all zeros, which is like nothing, itself included."""
    table = np.random.default_rng(0).normal(size=(9, 4)) * np.arange(1, 10)[:, None]
    table[3] = 0
    found = similarity_by_distance(table)
    for k in range(9):
        pairs = []
        for n in range(9 - k):
            lengths = np.linalg.norm(table[n]) * np.linalg.norm(table[n + k])
            pairs.append(float(table[n] @ table[n + k]) / lengths if lengths else 0.0)
        assert found[k] == pytest.approx(np.mean(pairs), abs=1e-9)
    assert found[0] == pytest.approx(8 / 9)


def test_similarity_by_hand():
    """Rows (1,0), (0,2), (−3,0): at distance 0 all are alike; at 1 all are at right angles; at 2 opposite."""
    assert similarity_by_distance(np.array([[1, 0], [0, 2], [-3, 0]])) == pytest.approx([1, 0, -1], abs=1e-12)
    assert similarity_by_distance(np.array([[5.0]])) == pytest.approx([1.0])


def test_for_sinusoids_the_dot_product_depends_on_the_distance_alone():
    """Σ cos(k / L^(2j/D)) over the D/2 wavelengths, over D/2: the formula of the similarity without any
    table."""
    record = positions_table("sinusoidal", 12, 8, 10_000.0)
    for k in range(12):
        expected = sum(math.cos(k / 10_000 ** (2 * j / 8)) for j in range(4)) / 4
        assert record.similarity[k] == pytest.approx(expected, abs=1e-6)


def test_a_learned_table_is_the_run_s_own(trained: Callable[[str], Path]):
    run = load_run(trained("encoder"))
    own = weights(trained("encoder") / "model.safetensors")["embedding.positions"].numpy()
    record = run_positions(run.model)
    assert np.array_equal(record.table, own)
    assert (record.encoding, record.base, record.length, record.d_model) == ("learned", None, 32, 16)
    assert np.array_equal(run_positions(run.model, 5).table, own[:5])


def test_a_run_s_formula_has_the_run_s_sizes(trained: Callable[[str], Path]):
    """Rotary: the size of a head, 16 / 2; sinusoidal: d_model. As many positions as the context, or as
    asked for."""
    rotary = run_positions(load_run(trained("decoder")).model)
    assert (rotary.encoding, rotary.table.shape, rotary.base) == ("rotary", (32, 8), 10_000.0)
    added = run_positions(load_run(trained("encoder-decoder")).model, 50)
    assert (added.encoding, added.table.shape) == ("sinusoidal", (50, 16))


def test_the_table_is_what_the_model_adds(trained: Callable[[str], Path]):
    run = load_run(trained("encoder-decoder"))
    added = dict(run.model.named_buffers())["embedding.positions"]
    np.testing.assert_array_equal(run_positions(run.model).table, added.numpy())


def test_the_base_of_the_run_is_taken():
    network = model("decoder", positions="sinusoidal", position_base=50.0).float()
    record = run_positions(network, 4)
    assert record.base == 50.0
    np.testing.assert_array_equal(record.table, positions_table("sinusoidal", 4, 16, 50.0).table)


def test_a_record_cannot_be_changed():
    record = positions_table("sinusoidal", 3, 4, 10.0)
    for array in (record.table, record.similarity):
        assert array.dtype == np.float32
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


WRONG: dict[str, tuple[tuple[Any, ...], str]] = {
    "half a pair": (("rotary", 4, 5, 100.0), "Rotary positions turn pairs of dimensions, and 5 is odd"),
    "learned": (("learned", 4, 4, 100.0), "Positions that are learned (learned) have no formula; name a run"),
    "t5": (("t5", 4, 4), "Positions that are learned (t5) have no formula; name a run"),
    "none": (("none", 4, 4), "Without positions there is nothing to show; choose sinusoidal, rotary, alibi or a run"),
}


@pytest.mark.parametrize(("arguments", "words"), WRONG.values(), ids=WRONG)
def test_what_makes_no_table_is_refused(arguments: tuple[Any, ...], words: str):
    with pytest.raises(UsageError) as caught:
        positions_table(*arguments)
    assert words in str(caught.value)


def test_an_odd_size_has_no_halves():
    with pytest.raises(UsageError, match=r"need an even size, and 5 is odd; .*interleaved"):
        positions_table("sinusoidal", 4, 5, layout="halves")


def test_an_odd_sinusoidal_table_ends_on_a_sine():
    record = positions_table("sinusoidal", 3, 5, 100.0)
    assert record.table[2, 4] == pytest.approx(math.sin(2 / 100 ** (4 / 5)), abs=1e-6)


def test_a_learned_table_has_no_other_positions(trained: Callable[[str], Path]):
    with pytest.raises(UsageError, match="has learned 32 positions, and --length is 33; choose 1 to 32"):
        run_positions(load_run(trained("encoder")).model, 33)


def parameters(network: Any) -> dict[str, np.ndarray[Any, Any]]:
    return {name: p.detach().float().numpy() for name, p in network.named_parameters()}


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("settings", [{}, {"position_merge": "concat", "position_dim": 6, "tie_embeddings": False}])
def test_vectors_are_those_from_the_first_position_on(positions: str, settings: dict[str, Any]):
    """The model reads its table from row 2 on, so that is where ours begins; 16 of its 18 rows are ever used."""
    network = model("decoder", positions=positions, position_offset=2, **settings)
    own = network.get_submodule("embedding").positions.detach().float().numpy()  # type: ignore[operator]
    record = run_positions(network)
    np.testing.assert_array_equal(record.table, own[2:])
    assert (record.first, record.length, record.d_model) == (2, 16, settings.get("position_dim", 16))
    assert record.merge == settings.get("position_merge", "add")
    np.testing.assert_array_equal(run_positions(network, 3).table, own[2:5])


def test_a_run_s_layout_and_scaling_are_taken():
    network = model("encoder-decoder", positions="sinusoidal", position_layout="halves", position_scaling=4.0)
    record = run_positions(network, side="target")
    own = network.get_submodule("target_embedding").positions.float().numpy()  # type: ignore[operator]
    np.testing.assert_array_equal(record.table, own)
    assert (record.layout, record.scaling, record.side) == ("halves", 4.0, None)
    rotary = run_positions(model("decoder", positions="rotary", position_layout="interleaved", position_scaling=4.0))
    assert (rotary.layout, rotary.merge) == ("interleaved", None)
    np.testing.assert_allclose(rotary.table[4], positions_table("rotary", 2, 8).table[1], atol=1e-7)


@pytest.mark.parametrize("kind", ["llama3", "yarn", "dynamic"])
def test_a_stretched_run_is_shown_as_it_turns(kind: str):
    """The table is the model's own, and the rotation by k that carries it is made of its angles."""
    network = model("decoder", positions="rotary", position_scaling_kind=kind, position_scaling=4.0, position_dim=4)
    record = run_positions(network)
    own = network.get_submodule("stack.positions")
    np.testing.assert_array_equal(record.table[:, 0::2], own.cosines[:, :2].float().numpy())  # type: ignore[index]
    assert (record.d_model, record.stretching, record.scaling) == (4, kind, 4.0)
    assert shift(record, 3).residual < 1e-6
    consistent = requirements(record, lambda n: run_positions(network, n)).requirements[3]
    assert (consistent.name, consistent.met) == ("consistent distance", True)


def test_each_side_has_learned_its_own():
    network = model("encoder-decoder", positions="learned")
    own = parameters(network)
    for side, name in (("source", "embedding"), ("target", "target_embedding"), (None, "embedding")):
        record = run_positions(network, 7, side)  # type: ignore[arg-type]
        np.testing.assert_array_equal(record.table, own[f"{name}.positions"][:7])
        assert record.side == (side or "source")


def test_what_is_added_to_queries_and_keys_is_a_table_of_the_stack():
    settings: dict[str, Any] = {"positions": "learned", "position_merge": "query_key"}
    decoder, pair = model("decoder", **settings), model("encoder-decoder", **settings)
    record = run_positions(decoder)
    np.testing.assert_array_equal(record.table, parameters(decoder)["stack.positions.table"])
    assert (record.merge, record.side) == ("query_key", None)
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        shown = run_positions(pair, side=side).table  # type: ignore[arg-type]
        np.testing.assert_array_equal(shown, parameters(pair)[f"{stack}.positions.table"])


def test_a_run_with_alibi_has_its_heads_and_any_length():
    network = model("decoder", positions="alibi", num_heads=4)
    record = run_positions(network, 40)
    np.testing.assert_array_equal(record.table, positions_table("alibi", 40, 4).table)
    assert run_positions(network).length == 16


def bucketed(architecture: str, buckets: int) -> Any:
    """A model whose head h has learned 10 · bucket + h."""
    network = model(architecture, positions="t5", position_buckets=buckets, position_max_distance=8)
    values = 10.0 * torch.arange(buckets)[:, None] + torch.arange(2)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith("relative_bias.weight"):
                parameter.copy_(values)
    return network


def test_t5_one_way_by_hand():
    """Four buckets up to distance 8: 0 and 1 have their own; from 2 on, bucket 2 + ⌊2 · log(k/2) / log(8/2)⌋, which is
    2 for 2 and 3, and 3 from 4 on."""
    record = run_positions(bucketed("decoder", 4), 6)
    assert record.table.tolist() == [[10 * b, 10 * b + 1] for b in (0, 1, 2, 2, 3, 3)]
    assert (record.rows, record.columns, record.first) == ("distance", "head", 0)
    assert (record.encoding, record.base, record.length, record.d_model) == ("t5", None, 6, None)
    assert record.similarity is None


def test_t5_both_ways_by_hand():
    """Eight buckets, halved: a key before its query falls into 0 … 3 as above, one after it into 4 … 7."""
    record = run_positions(bucketed("encoder", 8), 5)
    assert record.table.tolist() == [[10 * b, 10 * b + 1] for b in (7, 6, 6, 5, 0, 1, 2, 2, 3)]
    assert (record.first, record.length, record.table.shape) == (-4, 5, (9, 2))


@pytest.mark.parametrize(
    ("architecture", "side", "stack"),
    [
        ("decoder", None, "stack"),
        ("encoder", None, "stack"),
        ("encoder-decoder", "source", "encoder"),
        ("encoder-decoder", "target", "decoder"),
    ],
)
@pytest.mark.parametrize("positions", ["alibi", "t5"])
def test_biases_are_what_the_stack_adds_to_its_scores(positions: str, architecture: str, side: Any, stack: str):
    network = model(architecture, positions=positions)
    record = run_positions(network, 6, side)
    bias = network.get_submodule(f"{stack}.positions")(Span(0, 6)).bias[0].detach().float().numpy()
    causal = stack == "decoder" or architecture == "decoder"
    for query in range(6):
        for key in range(query + 1 if causal else 6):
            distance = query - key if positions == "t5" else abs(query - key)
            np.testing.assert_array_equal(record.table[distance - record.first], bias[:, query, key])


def test_a_run_in_half_precision_can_be_shown():
    network = model("decoder", positions="learned").bfloat16()
    assert run_positions(network, 2).table.dtype == np.float32


def test_a_run_without_positions_or_without_that_side_is_refused():
    with pytest.raises(UsageError, match="Without positions there is nothing to show"):
        run_positions(model("decoder", positions="none"))
    with pytest.raises(UsageError, match="is no encoder-decoder, and has no target side; leave --side out"):
        run_positions(model("decoder", positions="learned"), side="target")
