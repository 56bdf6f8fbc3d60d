"""Heads that are built by hand for a task, in a decoder whose other weights are noise: patching and ablation name them.

The residual stream has a slot each for the token, its position, the token before it, and the answer:
[token | position | before | answer], one-hot; the head of the model reads the last.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tfcli.inspection.ablation import AblatedPart
from tfcli.inspection.ablation.compute import ablate
from tfcli.inspection.interventions import stack_of
from tfcli.inspection.patching.compute import patch
from tfcli.models.build import build_model
from tfcli.runs.load import LoadedRun, load_run

LAYERS, HEADS, LENGTH = 3, 4, 32
NOISE = 0.004
SHARP = 5.0  # scores of what a head looks at and of what it does not are more than 20 apart


class Built:
    """A run whose model is made here."""

    def __init__(self, run: LoadedRun) -> None:
        self.words = run.tokenizer.vocab_size
        section = replace(
            run.config.model,
            vocab_size=self.words,
            max_seq_len=LENGTH,
            d_model=3 * self.words + LENGTH,
            num_layers=LAYERS,
            num_heads=HEADS,
            num_kv_heads=None,
            head_dim=max(self.words, LENGTH),
            d_ff=16,
            positions="learned",
            tie_embeddings=False,
        )
        self.model = build_model(section).eval().requires_grad_(False)
        generator = torch.Generator().manual_seed(0)
        for name, weight in self.model.named_parameters():
            if "norm" not in name:
                weight.normal_(0.0, NOISE, generator=generator)
        self.token, self.position, self.before, self.answer = (
            0,
            self.words,
            self.words + LENGTH,
            2 * self.words + LENGTH,
        )
        embedding = self.model.get_submodule("embedding")
        self._write(embedding.weight.T, self.token, 0, self.words, 1 / section.embedding_scale)
        self._write(embedding.positions.T, self.position, 0, LENGTH)
        self._write(self.model.get_submodule("head").weight, 0, self.answer, self.words)
        self.run = replace(run, model=self.model, config=replace(run.config, model=section))

    @staticmethod
    def _write(matrix: Tensor, row: int, column: int, count: int, size: float = 1.0) -> None:
        matrix[row : row + count, column : column + count] += size * torch.eye(count)

    def head(self, place: tuple[int, int], looks: str, writes: int) -> None:
        """A head that looks one back, at position 3, or behind where the token stood before, and writes the token that
        stands there into a slot."""
        layer, number = place
        attention = stack_of(self.model, "decoder").layers[layer].attention
        first = number * attention.head_dim
        query, key, value = (
            one.weight[first:] for one in (attention.query, attention.key, attention.value)
        )  # (Dh …, D): all of the head's rows and those of later heads
        if looks == "behind its like":
            self._write(query, 0, self.token, self.words, SHARP)
            self._write(key, 0, self.before, self.words)
        else:
            if looks == "one back":
                self._write(query, 0, self.position + 1, LENGTH - 1, SHARP)
            else:
                query[3, self.position : self.position + LENGTH] += SHARP
            self._write(key, 0, self.position, LENGTH)
        self._write(value, 0, self.token, self.words)
        self._write(attention.output.weight[:, first:], writes, 0, self.words)


@pytest.fixture
def built(trained: Callable[[str], Path]) -> Built:
    return Built(load_run(trained("decoder")))


def heads_of(built: Built, clean: str, corrupt: str, *, noising: bool) -> dict[str, np.ndarray]:
    """Effects by layer and head of outputs, patterns and values; the rest is that the texts are answered rightly."""
    found = patch(built.run, clean, corrupt, noising=noising)
    return {one.part: one.effects for one in found.grids if one.kind is not None}


def largest(parts: tuple[AblatedPart, ...], count: int) -> dict[tuple[int, int | None], float]:
    heads = sorted((one for one in parts if one.part == "head"), key=lambda one: -abs(one.difference or 0.0))
    assert abs(heads[count].difference or 0.0) < 0.1 * abs(heads[count - 1].difference or 0.0)
    return {(one.layer, one.head): one.difference or 0.0 for one in heads[:count]}


def only(effects: np.ndarray, *places: tuple[int, int]) -> bool:
    """Whether each of the heads by itself is all of the change, and no other head is much."""
    named = np.zeros(effects.shape, bool)
    named[tuple(zip(*places, strict=True))] = True
    return bool((np.abs(effects[named] - 1) < 0.15).all() and (np.abs(effects[~named]) < 0.1).all())


@pytest.mark.parametrize("noising", [False, True])
@pytest.mark.parametrize("place", [(0, 0), (1, 2), (2, 3)])
def test_the_head_that_looks_one_back_is_named(built: Built, place: tuple[int, int], noising: bool):
    """The answer is the token before the last; three others differ as well."""
    built.head(place, "one back", built.answer)
    clean, corrupt = "Tom sat on the mat", "Tim ran at the mut"
    found = patch(built.run, clean, corrupt, noising=noising)
    assert (found.token, found.against) == ("a", "u")
    effects = heads_of(built, clean, corrupt, noising=noising)
    assert only(effects["heads"], place) and only(effects["values"], place)
    assert (np.abs(effects["patterns"]) < 0.05).all(), "it looks one back in either text"
    [(named, difference)] = largest(ablate(built.run, clean, token="a", against="u").parts, 1).items()
    assert named == place and difference < 0


@pytest.mark.parametrize("place", [(0, 1), (2, 0)])
def test_the_head_that_copies_a_place_is_named(built: Built, place: tuple[int, int]):
    built.head(place, "at 3", built.answer)
    clean, corrupt = "Tom sat on the mat", "Tin ran at the mut"
    found = patch(built.run, clean, corrupt)
    assert (found.token, found.against) == ("m", "n")
    effects = heads_of(built, clean, corrupt, noising=False)
    assert only(effects["heads"], place) and only(effects["values"], place)
    assert list(largest(ablate(built.run, clean, token="m", against="n").parts, 1)) == [place]


@pytest.mark.parametrize(("before", "place"), [((0, 1), (1, 2)), ((0, 3), (2, 0)), ((1, 0), (2, 3))])
def test_the_head_of_induction_is_named_and_the_one_that_it_reads(
    built: Built, before: tuple[int, int], place: tuple[int, int]
):
    """ "x" stood before "b", or before "d": what it stood before is the answer. Where the two texts exchange what "x"
    stands before, the values decide; where they exchange the place of "x", the pattern does, by way of the head that
    looks one back."""
    built.head(before, "one back", built.before)
    built.head(place, "behind its like", built.answer)
    other = heads_of(built, "Tom had xb, not a cat, x", "Tim had xd, now a cot, x", noising=False)
    assert only(other["heads"], place) and only(other["values"], place)
    assert (np.abs(other["patterns"]) < 0.1).all()
    moved = heads_of(built, "xb yd on the mat, x", "yb xd at the mut, x", noising=False)
    assert only(moved["patterns"], place) and only(moved["values"], before) and only(moved["heads"], before, place)
    named = largest(ablate(built.run, "Tom had xb, not a cat, x", token="b", against="d").parts, 2)
    assert set(named) == {before, place}
    path = patch(built.run, "xb yd on the mat, x", "yb xd at the mut, x", path=before)
    assert path.direct == pytest.approx(0, abs=0.05)
    receivers = path.grids[0].effects[:, :HEADS]
    assert np.unravel_index(np.nanargmax(np.abs(receivers)), receivers.shape) == place
    assert receivers[place] == pytest.approx(1, abs=0.15)
