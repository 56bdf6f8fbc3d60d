"""Tokens of every script and sort: shown safely, within the width, and in line, whatever they are."""

import re
import unicodedata
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.support.consoles import printed
from tfcli.inspection.attention import AttentionEvolution, AttentionRecord, AttentionStep
from tfcli.inspection.attention.choice import cropped
from tfcli.inspection.attention.compute import difference, strongest_edges
from tfcli.inspection.attention.matrix_view import attention_overview, weights_matrix
from tfcli.inspection.attention.page_view import matrices_svg
from tfcli.inspection.attention.view import (
    AttentionDifferenceView,
    AttentionEdgeList,
    AttentionScores,
    attention_view,
    evolution_view,
)
from tfcli.records.arrays import frozen

NASTY = (
    "日本語",
    "👨‍👩‍👧‍👦",  # a family, joined
    "🇧🇷",
    "👍🏽",
    "e\u0301",
    "\u0301\u0308",  # marks without a letter
    "שלום",
    "\u202eabc\u202c",
    "\x1b[2J\x1b]0;title\x07",
    "\n\r\t",
    "\u200b\u200d\ufeff",
    "각",
    "नि",
    "ﷺ",
    "1\ufe0f\u20e3",
    " ",
    "",
    "a" * 70,
)
tokens = st.one_of(
    st.sampled_from(NASTY),
    st.text(max_size=6),
    st.lists(st.sampled_from(NASTY), min_size=1, max_size=3).map("".join),
)
FORBIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def record(names: list[str], seed: int = 0) -> AttentionRecord:
    """A causal head of random scores and another of nearly as strong ones."""
    count = len(names)
    scores = np.random.default_rng(seed).normal(size=(1, 2, count, count)).astype(np.float32) * 8
    powers = np.where(np.tril(np.ones((count, count))) > 0, np.exp(scores), 0)
    weights = powers / powers.sum(axis=-1, keepdims=True)
    nexts = (*names[1:], names[0])
    return AttentionRecord(
        *("decoder_self", tuple(names), tuple(names), frozen(weights)),
        scores=frozen(scores),
        next_tokens=nexts,
        next_predicted=True,
    )


def views(one: AttentionRecord) -> dict[str, object]:
    """Every picture there is of a record."""
    step = AttentionStep(3, 1.0, 0.5, 0, 0)
    weights = one.weights[0]
    return {
        "table": attention_view(replace(one, focus=(0, 1))),
        "first keys": attention_view(replace(one, focus=(0, 1)), 2),
        "cropped": attention_view(cropped(one, "-1:", "-1:", 1), 1),
        "scores": AttentionScores(one),
        "overview": attention_overview(one),
        "edges": AttentionEdgeList(strongest_edges(one, 9)),
        "difference": AttentionDifferenceView(difference(one, one, ((0, 0), (0, 1)), ("layer 0, head 0", "head 1"))),
        "evolution": evolution_view(
            AttentionEvolution(**one.sides(), layer=0, head=0, weights=weights, mask=weights[0] > 0, steps=(step, step))
        ),
    }


@settings(max_examples=25, deadline=None)
@given(names=st.lists(tokens, min_size=1, max_size=30), width=st.sampled_from([60, 80, 140]))
@example(names=list(NASTY), width=80)
@example(names=list(NASTY) * 4, width=60)
def test_every_line_is_within_the_width_and_nothing_steers_the_terminal(names: list[str], width: int) -> None:
    for name, view in views(record(names)).items():
        text = printed(view, width)
        for line in text.splitlines():
            assert cell_len(line) <= width, (name, line)
            assert not {unicodedata.category(letter) for letter in line} & FORBIDDEN, (name, line)


@settings(max_examples=25, deadline=None)
@given(names=st.lists(tokens, min_size=2, max_size=12), width=st.sampled_from([80, 140]))
@example(names=list(NASTY[:12]), width=80)
def test_numbers_stand_under_each_other(names: list[str], width: int) -> None:
    """Whatever stands before them: the sums, 1.00, all end in one column, and so does every number of a column."""
    lines = printed(attention_view(record(names)), width).splitlines()
    rows = [line for line in lines if line.endswith(" 1.00")]
    assert len(rows) == len(names)
    ends = [[cell_len(line[: found.end()]) for found in re.finditer(r"(\.\d\d|1\.0|–)(?= )", line)] for line in rows]
    for column in zip(*(places[-len(names) :] for places in ends), strict=True):
        assert max(column) - min(column) <= 1, "a dash ends a cell before the numbers of its column"
    assert len({cell_len(line) for line in rows}) == 1


def test_a_map_of_long_labels_keeps_its_columns() -> None:
    names = [*NASTY, *NASTY]
    lines = printed(attention_view(record(names)), 60).splitlines()
    body = [line for line in lines if re.search(r" \d+ [ ░▒▓█–]*–$", line)]
    assert len(body) == len(names) - 1, "the last row has no masked cell"
    assert len({cell_len(line) for line in body}) == 1


@pytest.mark.parametrize("name", ["weights", "scores"])
def test_svg_of_any_token_is_well_formed_and_harmless(name: str) -> None:
    one = record([*NASTY, "</text><script>alert(1)</script>", "&amp;"])
    svg = matrices_svg([weights_matrix(one)]) if name == "weights" else AttentionScores(one).svg()
    root = ElementTree.fromstring(svg)
    texts = "".join(text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text"))
    assert not {unicodedata.category(letter) for letter in texts} & FORBIDDEN
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))
