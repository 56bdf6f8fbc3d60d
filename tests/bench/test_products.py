"""Which products are the model's largest, and which is the machine's fastest."""

import pytest

from tfcli.bench import MatrixPeak
from tfcli.bench.machine import Products, best_peaks, largest_products
from tfcli.recipe.model import ModelSection

SIZES = {"d_model": 8, "num_layers": 1, "num_heads": 2, "max_seq_len": 4}


def test_the_two_largest_products_of_a_decoder():
    """Over 10 tokens with D 8, F 32 and 100 in the vocabulary: the head 10 · 8 · 100, up and down 10 · 8 · 32."""
    section = ModelSection(**SIZES, activation="relu", vocab_size=100)
    largest, second = largest_products(section, 10, 10)
    assert largest == (10, 8, 100)
    assert second in {(10, 8, 32), (10, 32, 8)}


def test_a_head_that_reads_few_positions_is_small():
    section = ModelSection(**SIZES, activation="relu", vocab_size=100)
    assert set(largest_products(section, 10, 1)) == {(10, 8, 32), (10, 32, 8)}


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_round_names_the_fastest_of_its_shapes(monkeypatch: pytest.MonkeyPatch, precision: str):
    """A product of 1 × 1 matrices is all overhead: hundreds of times slower than one of 64 × 64."""
    monkeypatch.setattr("tfcli.bench.machine._SECONDS", 0.0)
    products = Products([(1, 1, 1), (64, 64, 64)], [precision], "cpu", 1)
    ((named, speed, shape),) = products.step()["peaks"]
    assert (named, shape) == (precision, (64, 64, 64))
    assert speed > 1e6


def test_the_seconds_of_a_product_are_those_of_one(monkeypatch: pytest.MonkeyPatch):
    """A clock that moves 0.5 s at every look: each product takes 0.5 s, so (2, 3, 4) reaches 2 · 24 / 0.5."""
    ticks = iter(range(1000))
    monkeypatch.setattr("tfcli.bench.machine.time.perf_counter", lambda: next(ticks) * 0.5)
    ((_, speed, _),) = Products([(2, 3, 4)], ["float32"], "cpu", 1).step()["peaks"]
    assert speed == 96.0


def test_the_best_of_all_rounds_of_each_precision():
    rounds = [
        {"peaks": [["float32", 5.0, [1, 2, 3]], ["bfloat16", 7.0, [4, 5, 6]]]},
        {"peaks": [["float32", 6.0, [7, 8, 9]], ["bfloat16", 2.0, [1, 1, 1]]]},
    ]
    assert best_peaks(rounds) == (MatrixPeak("float32", 6.0, 7, 8, 9), MatrixPeak("bfloat16", 7.0, 4, 5, 6))
