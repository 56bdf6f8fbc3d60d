"""Positions as the lectures write them, against numbers by hand and against what a run adds."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.small import model
from tfcli.inspection.explain import Matrix, PositionExplanation, Step
from tfcli.inspection.explain.positions import (
    SPELLINGS,
    embedded_by_run,
    explain_positions,
    left_by_turn,
    toy_embeddings,
    undefined_dimensions,
    worked,
)
from tfcli.layers.positions import sinusoidal_encoding
from tfcli.runs.load import load_run


def explained(size: int = 4, text: str = "Lucas will travel", **options: object) -> PositionExplanation:
    return explain_positions(toy_embeddings(text, size), **options)  # type: ignore[arg-type]


def step(found: PositionExplanation, title: str) -> Step:
    return next(one for one in found.explanation.steps if one.title.startswith(title))


def matrices(found: PositionExplanation, title: str) -> dict[str, Matrix]:
    return {one.name: one for one in step(found, title).matrices}


def test_the_table_by_hand():
    """D = 4, L = 10⁴: the angles of position 2 are 2 and 2/100."""
    table = matrices(explained(), "Sine in even")["R"]
    expected = [math.sin(2), math.cos(2), math.sin(0.02), math.cos(0.02)]
    np.testing.assert_allclose(table.values[2], expected, atol=1e-6)
    assert (table.rows, table.columns, table.axes) == (("0", "1", "2"), ("0", "1", "2", "3"), ("N", "D"))
    np.testing.assert_allclose(matrices(explained(), "Angles")["angles"].values[2], [2, 2, 0.02, 0.02], atol=1e-7)


@pytest.mark.parametrize(
    ("notation", "line"),
    [
        ("bishop", "r_2,3 = cos(2 / 10000^(2/4)) = cos 0.0200 = 0.9998"),
        ("udl", "π_3,2 = cos(2 / 10000^(2/4)) = cos 0.0200 = 0.9998"),
        ("cs224n", "p_2,3 = cos(2 / 10000^(2/4)) = cos 0.0200 = 0.9998"),
        ("inf721", "PE_(2,3) = cos(2 / 10000^(2·1/4)) = cos 0.0200 = 0.9998"),
    ],
)
def test_every_number_of_a_small_table_is_worked_out(notation: str, line: str):
    note = step(explained(name=notation), "Sine in even").note.splitlines()
    assert len(note) == 12
    assert note[-1] == line


def test_of_a_large_table_four_numbers_are_worked_out():
    note = step(explained(64, length=100), "Sine in even").note.splitlines()
    assert len(note) == 4
    assert note[0] == worked("bishop", 1, 0, 64, 10_000.0)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 9), st.sampled_from(["bishop", "udl", "cs224n", "inf721"]), st.floats(1.5, 1e6))
def test_every_notation_has_the_same_numbers(size: int, notation: str, base: float):
    sums = step(explained(size, name=notation, base=base), "Added").matrices
    plain = step(explained(size, base=base), "Added").matrices
    for one, other in zip(sums, plain, strict=True):
        values = one.values.T if notation == "udl" else one.values
        np.testing.assert_array_equal(values, other.values)
    x, p, both = (one.values for one in plain)
    np.testing.assert_allclose(x + p, both, atol=1e-6)


def test_concatenated_positions_have_a_symbol_and_a_width_of_their_own():
    """D = 8: two more dimensions, sin n and cos n, behind the words' own."""
    found = explained(8)
    own, both, apart, whole = step(found, "Or concatenated").matrices
    assert (own.name, own.values.shape, own.axes) == ("R′", (3, 2), ("N", "D′"))
    np.testing.assert_allclose(own.values, [[math.sin(n), math.cos(n)] for n in range(3)], atol=1e-6)
    assert (both.name, both.values.shape, both.axes) == ("[O E ; R′]", (3, 10), ("N", "(D + D′)"))
    embedded = matrices(found, "Added")["O E"].values
    np.testing.assert_array_equal(both.values, np.concatenate((embedded, own.values), axis=1))
    np.testing.assert_allclose(apart.values, whole.values, atol=1e-5)


@pytest.mark.parametrize("notation", ["bishop", "udl", "cs224n", "inf721"])
def test_every_symbol_of_positions_has_one_value(notation: str):
    found: dict[str, Matrix] = {}
    for one in (one for of in explained(8, name=notation).explanation.steps for one in of.matrices):
        known = found.setdefault(one.name, one)
        assert known.axes == one.axes
        np.testing.assert_array_equal(known.values, one.values)


def test_in_queries_and_keys_alone_values_stay():
    added, alone, after = (one.value for one in step(explained(), "Or into").measures)
    assert alone == 0
    assert added > 0.01
    assert after > 0.01


def test_one_token_cannot_change_places():
    found = step(explained(text="Lucas"), "Or into")
    assert [one.name for one in found.measures] == ["after the projection"]
    assert "two tokens at least: this text has one" in found.note
    assert "two tokens" not in step(explained(text="Lucas will"), "Or into").note


def test_what_inf721_leaves_undefined():
    """Pairs 0, 2 … give their sine (0, 4 …) and pairs 1, 3 … their cosine (3, 7 …)."""
    assert undefined_dimensions(8) == [1, 2, 5, 6]
    assert undefined_dimensions(1) == []
    slips = explain_positions(toy_embeddings("a b c", 8), "inf721").explanation.slips
    assert any("4 of 8 dimensions get no number (1, 2, 5, 6)" in slip for slip in slips)


@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_counting_dimensions_from_one_breaks_the_pairs(size: int):
    assert left_by_turn(size, 10_000.0) < 1e-5
    assert left_by_turn(size, 10_000.0, 1) > 0.05


def test_an_odd_size_is_said_to_end_on_a_sine():
    assert explained(5).explanation.slips[-1].endswith("here dimension 4.")
    assert not explained(4).explanation.slips[-1].endswith("here dimension 4.")


def test_every_lecture_is_there():
    found = [one.notation for one in SPELLINGS]
    assert found == ["bishop", "udl", "cs224n", "inf721", "encoder"]


def test_a_run_s_own_positions_are_those_it_adds(trained: Callable[[str], Path]):
    """X + P is what the first layer reads of the source: o livro."""
    run = load_run(trained("encoder-decoder"))
    found = embedded_by_run(run, "o livro")
    ids = [run.tokenizer.encode("o livro")]
    with torch.inference_mode():
        entering = run.model.get_submodule("embedding")(torch.tensor([run.config.roles.source(ids[0])]))[0]
    assert found.added is not None
    torch.testing.assert_close(found.vectors + found.added, entering)
    assert found.remark == "These are the run's own positions: sinusoidal."


def test_a_run_that_adds_none_is_said_to(trained: Callable[[str], Path]):
    found = embedded_by_run(load_run(trained("decoder")), "Tom")
    assert found.added is None
    assert found.remark == (
        "The run has rotary positions, which turn queries and keys: the formula's numbers stand in for them."
    )


@pytest.mark.parametrize(
    ("settings_", "words"),
    [
        ({"positions": "none"}, "none at all"),
        ({"positions": "learned", "position_merge": "concat", "tie_embeddings": False}, "concatenated"),
        ({"positions": "learned", "position_merge": "query_key"}, "in queries and keys alone"),
        ({"positions": "alibi"}, "added to the scores"),
    ],
)
def test_where_other_positions_come_in(trained: Callable[[str], Path], settings_: dict[str, object], words: str):
    run = load_run(trained("decoder"))
    wanted = replace(run.config.model, **settings_)  # type: ignore[arg-type]
    network = model("decoder", **{**settings_, "vocab_size": wanted.vocab_size, "max_seq_len": 32})
    found = embedded_by_run(replace(run, model=network, config=replace(run.config, model=network.section)), "Tom")
    assert (found.added, words in found.remark) == (None, True)


@pytest.mark.parametrize(("notation", "line"), [("bishop", "row"), ("udl", "column"), ("inf721", "row")])
def test_a_word_s_vector_is_a_line_of_the_table_as_the_notation_has_it(notation: str, line: str):
    note = step(explained(name=notation), "Added").note
    assert f"each word's vector, a {line} of " in note


@pytest.mark.parametrize("notation", ["bishop", "udl", "cs224n", "inf721", "encoder"])
def test_a_prime_after_positions_means_one_thing(notation: str):
    """P′ is what is concatenated; positions in other places are called shifted, and the note says what that is."""
    explanation = explained(name=notation).explanation
    last = next(one for one in explanation.steps if one.title.startswith("Or into"))
    words = last.note + "".join(one.name for one in last.matrices) + "".join(one.meaning for one in last.measures)
    assert "′" not in words
    assert any("shifted" in one.name for one in last.matrices) and "In shifted " in last.note


def test_angles_are_those_of_the_model_and_the_page_says_in_which_precision():
    """At position 9,999 a float32 angle is wrong in its fourth digit after the point, and so is its sine."""
    page = explained(6, length=10_000)
    table = matrices(page, "Sine in even")
    positions = next(iter(table.values())).values
    model = sinusoidal_encoding(10_000, 6).numpy()
    np.testing.assert_array_equal(positions, model)
    by_hand = [math.sin(9_999 / 10_000 ** (2 * pair / 6)) for pair in range(3)]
    np.testing.assert_allclose(positions[-1, ::2], by_hand, atol=1e-7)
    angles = next(iter(matrices(page, "Angles").values())).values
    np.testing.assert_allclose(angles[-1, ::2], [9_999 / 10_000 ** (2 * pair / 6) for pair in range(3)], rtol=1e-7)
    assert "Angles are computed in float64" in step(page, "Angles").note
