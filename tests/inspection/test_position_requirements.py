"""What a positional encoding should be, against encodings that are known to be it or not."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.small import model
from tfcli.errors import UsageError
from tfcli.inspection.positions import BeyondContext, LossBand, Requirements
from tfcli.inspection.positions.comparison import compared, formula, of_run
from tfcli.inspection.positions.compute import beyond_context, fitted, positions_table, run_positions, shift
from tfcli.pipeline.datasets import dataset_of_run
from tfcli.runs.load import load_run


def verdicts(found: Requirements) -> list[bool | None]:
    return [one.met for one in found.requirements]


def number(found: Requirements, name: str) -> Any:
    [one] = [one for one in found.requirements if one.name == name]
    return one.value


@pytest.mark.parametrize(
    ("encoding", "size", "expected"),
    [
        ("sinusoidal", 16, [True, True, None, True, True]),
        ("rotary", 16, [True, True, None, True, False]),
        ("alibi", 8, [False, True, None, True, False]),
    ],
)
def test_formulas(encoding: str, size: int, expected: list[bool]):
    """In the order bounded, unique, beyond its length, consistent distance, in the data. That a formula has numbers
    beyond its length does not say that they are of use."""
    found = formula(encoding, 32, **{"heads" if encoding == "alibi" else "d_model": size})[1]
    assert verdicts(found) == expected
    assert found.requirements[2].value is None
    assert "tfcli inspect positions RUN --loss" in found.requirements[2].measured


def test_a_run_is_told_how_its_loss_is_measured():
    named = of_run(model("decoder", positions="rotary"), "runs/my run")[1].requirements[2]
    assert (named.met, named.measured) == (None, "run `tfcli inspect positions 'runs/my run' --loss`")
    assert "an encoder's loss" in of_run(model("encoder", positions="rotary"), "small")[1].requirements[2].measured


def test_numbers_that_nothing_has_trained_are_not_measured():
    """Of a learned table all but what its construction says; T5's buckets are shared whatever their numbers."""
    found = {of.encoding: of for _, of in compared([])}
    assert verdicts(found["learned"]) == [None, None, False, None, True]
    assert verdicts(found["t5"]) == [None, False, None, True, False]
    assert found["learned"].requirements[0].measured.endswith("then `tfcli inspect positions RUN`")
    assert verdicts(formula("alibi", 1)[1])[1] is None


def test_learned_positions_are_bounded_unique_and_in_the_data():
    found = of_run(model("decoder", positions="learned"), "small")[1]
    assert verdicts(found) == [True, True, False, False, True]
    assert (number(found, "beyond its length"), found.origin) == (16, "small")
    assert found.joins == "added to the embedding"


def test_what_is_put_into_queries_and_keys_is_not_in_the_data():
    found = of_run(model("decoder", positions="sinusoidal", position_merge="query_key"), "small")[1]
    assert verdicts(found)[-1] is False
    assert found.joins == "added to queries and keys, every layer"


def test_t5_shares_buckets():
    found = of_run(model("decoder", positions="t5", position_buckets=4, position_max_distance=8), "small")[1]
    assert verdicts(found) == [True, False, None, True, False]
    assert number(found, "unique") == 0


@pytest.mark.parametrize("architecture", ["decoder", "encoder"])
def test_t5_is_bounded_however_far_its_buckets_reach(architecture: str):
    """Its biases may grow up to a distance of 512, which 10 times 16 positions do not show; buckets are 8 numbers a
    head, whatever the distance."""
    network = model(architecture, positions="t5", position_buckets=8, position_max_distance=512)
    with torch.no_grad():
        network.get_parameter("stack.positions.relative_bias.weight").copy_(torch.arange(8.0)[:, None] ** 3)
    found = of_run(network, "small")[1]
    assert (verdicts(found)[0], number(found, "bounded")) == (True, 7**3)


def test_numbers_by_hand():
    """D = 2: neighbours lie on the unit circle one radian apart, 2 sin(1/2) the chord; with three positions 0, 1 and 2
    that is the smallest. Two slopes 1/16 and 1/256: neighbouring distances differ by their length; 300 positions are
    looked at, and the last is 299 away."""
    circle = formula("sinusoidal", 3, 2)[1]
    assert number(circle, "unique") == pytest.approx(2 * math.sin(0.5), abs=1e-6)
    assert number(circle, "bounded") == pytest.approx(1)
    alibi = formula("alibi", 5, heads=2)[1]
    assert number(alibi, "unique") == pytest.approx(math.hypot(1 / 16, 1 / 256))
    assert number(alibi, "bounded") == 299 / 16
    assert number(alibi, "consistent distance") == 0


def test_a_bias_that_depends_on_more_than_the_distance_is_found():
    from tfcli.inspection.positions.comparison import requirements

    record = positions_table("alibi", 4, 1)
    biases = np.zeros((1, 4, 4), dtype=np.float32)
    biases[0, 3, 2] = 0.5
    found = requirements(record, lambda n: positions_table("alibi", n, 1), biases=biases)
    assert (number(found, "consistent distance"), verdicts(found)[3]) == (0.5, False)


def test_a_run_s_loss_decides_about_longer_texts():
    network = model("decoder", positions="rotary")
    for far, met in ((2.1, True), (2.3, False)):
        bands = LossBand(0, 16, 2.0), LossBand(16, 32, 2.05), LossBand(32, 64, far)
        beyond = BeyondContext(16, 1, bands, 1, np.zeros(1, np.float32))
        found = of_run(network, "small", beyond=beyond)[1]
        assert verdicts(found)[2] is met
        assert number(found, "beyond its length") == far / 2
        assert found.requirements[2].measured.startswith(f"loss up to 1× the context 2.00, to 2× 2.05, to 4× {far:.2f}")


def test_the_rotation_by_one_position_by_hand():
    """D = 4, L = 10⁴: the pairs turn by 1 and by 1/100."""
    found = shift(positions_table("sinusoidal", 20, 4), 1)
    c, s, d, t = math.cos(1), math.sin(1), math.cos(0.01), math.sin(0.01)
    expected = [[c, s, 0, 0], [-s, c, 0, 0], [0, 0, d, t], [0, 0, -t, d]]
    np.testing.assert_allclose(found.matrix, expected, atol=1e-7)
    assert found.angles is not None and found.angles.tolist() == pytest.approx([1, 0.01])
    assert found.residual < 1e-6


def test_halves_and_rotary_turn_their_own_pairs():
    """Halves: 0 with 2 and 1 with 3. A rotary table has the cosine first, so that the signs change."""
    c, s, d, t = math.cos(2), math.sin(2), math.cos(0.02), math.sin(0.02)
    halves = shift(positions_table("sinusoidal", 20, 4, layout="halves"), 2)
    np.testing.assert_allclose(halves.matrix, [[c, 0, s, 0], [0, d, 0, t], [-s, 0, c, 0], [0, -t, 0, d]], atol=1e-7)
    rotary = shift(positions_table("rotary", 20, 4), 2)
    np.testing.assert_allclose(rotary.matrix, [[c, -s, 0, 0], [s, c, 0, 0], [0, 0, d, -t], [0, 0, t, d]], atol=1e-7)
    assert max(halves.residual, rotary.residual) < 1e-6


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 12), st.integers(1, 20), st.floats(2, 1e5), st.sampled_from([1.0, 3.0]), st.sampled_from([0, 2]))
def test_any_sinusoidal_table_is_carried_by_its_rotation(pairs: int, k: int, base: float, scaling: float, offset: int):
    record = positions_table("sinusoidal", 30, 2 * pairs, base, scaling=scaling, offset=offset)
    found = shift(record, k)
    table = record.table.astype(np.float64)
    np.testing.assert_allclose(table[:-k] @ found.matrix.T.astype(np.float64), table[k:], atol=2e-6)
    assert found.residual < 1e-6


def test_the_last_sine_of_an_odd_size_stands_alone():
    found = shift(positions_table("sinusoidal", 20, 5), 1)
    assert found.alone == 1
    assert not found.matrix[4].any()
    assert found.residual < 1e-6


def test_a_fitted_map_is_the_one_behind_the_table():
    """r_{n+1} = 2 r_n in dimension 0, −r_n in dimension 1. A random table has none: what is left is about as long as
    what was to be explained."""
    n = np.arange(8)
    matrix, residual = fitted(np.stack((2.0**n, (-1.0) ** n), axis=1), 1)
    np.testing.assert_allclose(matrix, [[2, 0], [0, -1]], atol=1e-9)
    assert residual < 1e-9
    assert fitted(np.random.default_rng(0).normal(size=(200, 8)), 1)[1] > 0.9


def test_a_learned_table_s_map_is_fitted():
    found = shift(run_positions(model("decoder", positions="learned")), 1)
    assert (found.angles, found.matrix.shape) == (None, (16, 16))
    assert found.residual > 0.5


@pytest.mark.parametrize(
    ("encoding", "size", "k", "words"),
    [
        ("alibi", 2, 1, "alibi adds numbers to scores, and has no vectors to carry"),
        ("sinusoidal", 4, 8, "A shift of 8 leaves no pairs of 10 positions; choose 1 to 7"),
    ],
)
def test_what_cannot_be_carried_is_refused(encoding: str, size: int, k: int, words: str):
    with pytest.raises(UsageError, match=words):
        shift(positions_table(encoding, 10, size), k)


def test_all_five_stand_side_by_side():
    run = of_run(model("decoder", positions="learned"), "mine")
    found = compared([run], 16, 8, 2, 10_000.0)
    assert [one.encoding for one, _ in found] == ["sinusoidal", "learned", "rotary", "alibi", "t5"]
    assert [one.origin for _, one in found] == ["formula", "mine", "formula", "formula", "untrained"]
    assert found[1][0] is run[0]


def test_two_runs_with_one_encoding_are_refused():
    one, other = (of_run(model("decoder", positions="rotary"), name) for name in ("runs/a", "runs/b"))
    with pytest.raises(UsageError, match="runs/a and runs/b both have rotary positions; name one of the two"):
        compared([one, other])


def test_what_nobody_says_is_usual():
    assert [one.length for one, _ in compared([])] == [64] * 5
    assert [one.table.shape[1] for one, _ in compared([])] == [64, 64, 8, 8, 8]
    assert formula("rotary", d_model=32, heads=4)[0].table.shape == (64, 8)
    assert formula("sinusoidal", 5)[0].table.shape == (5, 64)
    assert formula("alibi")[0].table.shape == (64, 8)


def test_the_loss_by_position(trained: Callable[[str], Path]):
    """A context of 32: bands end at 32, 64 and 128. The first is what the model says of windows of 32 tokens."""
    run = load_run(trained("decoder"))
    data = dataset_of_run(run.directory, run.recipe, lambda event: None)
    found = beyond_context(run, data)
    assert [(band.first, band.last) for band in found.bands] == [(0, 32), (32, 64), (64, 128)]
    assert (found.context, found.bin, len(found.curve), found.learned) == (32, 2, 64, False)
    view = data.text("validation")
    starts = np.linspace(0, len(view) - 129, found.texts).astype(np.int64)
    tokens = torch.from_numpy(view.padded(starts, np.full(found.texts, 33), 0))
    with torch.inference_mode():
        log_probabilities = run.model(tokens[:, :-1]).log_softmax(-1)
    losses = -log_probabilities.gather(2, tokens[:, 1:, None])[..., 0]
    kept = tokens[:, 1:] != run.config.roles.bos
    assert found.bands[0].loss == pytest.approx(float(losses[kept].mean()), abs=1e-4)


def test_only_a_decoder_goes_on(trained: Callable[[str], Path]):
    run = load_run(trained("encoder"))
    data = dataset_of_run(run.directory, run.recipe, lambda event: None)
    with pytest.raises(UsageError, match="loss does not go on with a text"):
        beyond_context(run, data)
