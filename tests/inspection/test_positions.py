"""Positional encodings against their formulas, and similarity against a loop over all pairs."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.small import model
from tests.support.runs import weights
from tfcli.errors import UsageError
from tfcli.inspection.positions import ENCODINGS, positions_table, run_positions, similarity_by_distance
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


@pytest.mark.parametrize("encoding", ENCODINGS)
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
    "no position": (("sinusoidal", 0, 4, 100.0), "A table of 0 positions × 4 dimensions is empty"),
    "fewer than none": (("rotary", -3, 4, 100.0), "A table of -3 positions × 4 dimensions is empty"),
    "no dimension": (("sinusoidal", 4, 0, 100.0), "A table of 4 positions × 0 dimensions is empty"),
    "half a pair": (("rotary", 4, 5, 100.0), "Rotary positions turn pairs of dimensions, and 5 is odd"),
    "a base of one": (("sinusoidal", 4, 4, 1.0), "A base of 1 gives no growing wavelengths"),
    "a base that is no number": (("rotary", 4, 4, math.nan), "A base of nan gives no growing wavelengths"),
    "learned": (("learned", 4, 4, 100.0), "A learned embedding has no formula; name a run"),
    "unknown": (
        ("alibi", 4, 4, 100.0),
        "There is no positional encoding 'alibi'; choose sinusoidal, rotary or a run",
    ),
}


@pytest.mark.parametrize(("arguments", "words"), WRONG.values(), ids=WRONG)
def test_what_makes_no_table_is_refused(arguments: tuple[Any, ...], words: str):
    with pytest.raises(UsageError) as caught:
        positions_table(*arguments)
    assert words in str(caught.value)


def test_an_odd_sinusoidal_table_ends_on_a_sine():
    record = positions_table("sinusoidal", 3, 5, 100.0)
    assert record.table[2, 4] == pytest.approx(math.sin(2 / 100 ** (4 / 5)), abs=1e-6)


@pytest.mark.parametrize("length", [0, -1, 33])
def test_a_learned_table_has_no_other_positions(trained: Callable[[str], Path], length: int):
    with pytest.raises(UsageError, match=f"has learned 32 positions, and --length is {length}; choose 1 to 32"):
        run_positions(load_run(trained("encoder")).model, length)


@pytest.mark.parametrize("architecture", ["decoder", "encoder-decoder"])
def test_no_position_of_a_formula_is_refused_too(trained: Callable[[str], Path], architecture: str):
    with pytest.raises(UsageError, match="A table of 0 positions"):
        run_positions(load_run(trained(architecture)).model, 0)
