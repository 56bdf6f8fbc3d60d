"""Every symbol of a size has one value on a page: of all explanations, notations, kinds of attention and toys."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from tests.inspection.test_explain_attention import NOTATIONS
from tfcli.inspection.explain import Explanation, NotationName, ShapeTrace
from tfcli.inspection.explain.attention import explain_attention, explain_masking, explain_scores
from tfcli.inspection.explain.layer import explain_layer, trace_shapes
from tfcli.inspection.explain.positions import explain_positions, toy_embeddings
from tfcli.inspection.explain.subject import Subject, drawn, of_run, toy
from tfcli.recipe.model import ModelSection
from tfcli.runs.load import load_run

Sizes = Iterator[tuple[str, int]]


def sizes(page: Explanation | ShapeTrace) -> Sizes:
    """Every axis of every matrix or tensor, and how long it is."""
    if isinstance(page, ShapeTrace):
        for tensor in page.tensors:
            yield from zip(tensor.axes, tensor.shape, strict=True)
    else:
        for step in page.steps:
            for matrix in step.matrices:
                yield from zip(matrix.axes, matrix.values.shape, strict=True)


def value(symbol: str, known: dict[str, int]) -> int | None:
    """What a number, a product, a difference or a sum of known symbols comes to; None: one of them is not known."""
    if symbol.isdecimal():
        return int(symbol)
    parts = re.split(r"(·| \+ |−)", symbol.strip("()") if " + " in symbol else symbol)
    if len(parts) == 1:
        return known.get(symbol)
    first, second = (value(part.strip("()") if "/" in part else part, known) for part in (parts[0], parts[2]))
    if first is None or second is None:
        return None
    return {"·": first * second, " + ": first + second, "−": first - second}[parts[1]]


def assert_one_value_each(page: Explanation | ShapeTrace) -> None:
    known: dict[str, int] = {}
    for symbol, size in sizes(page):
        assert known.setdefault(symbol, size) == size, (
            f"{page.title} in {page.notation}: {symbol} = {known[symbol]}, {size}"
        )
    for symbol, size in known.items():
        assert value(symbol, known) in (size, None), f"{page.title} in {page.notation}: {symbol} = {size} of {known}"
    for ratio in ("d/k",):
        if {ratio, "d", "k"} <= known.keys():
            assert known[ratio] * known["k"] == known["d"]


def pages(subject: Subject, name: NotationName) -> Iterator[Explanation | ShapeTrace]:
    for head in range(subject.attention.num_heads):
        yield explain_attention(subject, name, head=head, with_cosines=True)
    if subject.attention.causal:
        yield explain_masking(subject, name)
    yield explain_layer(subject, name)
    yield trace_shapes(subject, name)


TOYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "one head": {"d_model": 4, "heads": 1},
    "full-size heads": {"d_model": 4, "heads": 2, "head_dim": 4},
    "values": {"d_model": 5, "heads": 2, "head_dim": 3, "value_dim": 2},
    "narrow values": {"d_model": 6, "heads": 2, "value_dim": 1, "bias": True},
    "decoder": {"architecture": "decoder", "norm_placement": "pre"},
    "integers": {"integers": True, "d_model": 4, "heads": 2},
    "additive": {"score": "additive", "bias": True},
    "dot": {"score": "dot"},
    "parameter-free": {"d_model": 4, "heads": 1, "score": "parameter_free"},
}
TEXTS = ("Lucas will travel to Rio in December", "will", "will will")


@pytest.mark.parametrize("options", TOYS.values(), ids=TOYS)
def test_symbols_of_a_toy(options: dict[str, Any]):
    for text in TEXTS[: None if not options else 1]:
        for name in NOTATIONS:
            for page in pages(toy(text, **options), name):
                assert_one_value_each(page)


def test_symbols_where_heads_share_keys():
    section = ModelSection(vocab_size=2, d_model=8, num_layers=1, num_heads=4, num_kv_heads=2, head_dim=6)
    section = ModelSection(**{**section.__dict__, "positions": "learned"})
    for name in NOTATIONS:
        for page in pages(drawn(section, ("a", "b", "a"), ("a", "b"), "a model"), name):
            assert_one_value_each(page)


@pytest.mark.parametrize("name", get_args(NotationName))
def test_symbols_of_scores_and_positions(name: NotationName):
    assert_one_value_each(explain_scores(torch.ones(4, 4), 3, "abcd", name))
    assert_one_value_each(explain_positions(toy_embeddings("Lucas will travel", 5), name).explanation)


@cache
def read(path: Path, kind: str) -> Subject:
    texts = {"target": "The cat"} if kind in ("encoder_self", "decoder_self", "cross") else {}
    return of_run(load_run(path), "O gato dorme.", kind=kind if texts else None, **texts)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["decoder", "encoder", "encoder_self", "decoder_self", "cross"])
def test_symbols_of_a_run(kind: str, trained: Callable[[str], Path]):
    subject = read(trained(kind if kind in ("decoder", "encoder") else "encoder-decoder"), kind)
    for name in NOTATIONS:
        for page in pages(subject, name):
            assert_one_value_each(page)


def test_a_source_has_a_length_of_its_own(trained: Callable[[str], Path]):
    """Cross-attention looks from target to source; the whole of it is traced, and the encoder-decoder's decoder reads
    T_y tokens."""
    subject = read(trained("encoder-decoder"), "cross")
    targets, sources = len(subject.query_tokens), len(subject.key_tokens)
    assert targets != sources
    for name, target, source in (("bishop", "N", "M"), ("cs224n", "n", "m"), ("inf721", "T_y", "T_x")):
        tensors = trace_shapes(subject, name).tensors  # type: ignore[arg-type]
        known = dict(
            zip((a for one in tensors for a in one.axes), (s for one in tensors for s in one.shape), strict=True)
        )
        assert (known[target], known[source]) == (targets, sources)
        scores = [one.axes[1:] for one in tensors if one.name == "scores"]
        assert scores == [(target, target), (target, source)]
        weights = next(step for step in explain_attention(subject, name).steps if step.title == "Weights")  # type: ignore[arg-type]
        assert weights.matrices[0].axes == (target, source)
    names = [one.name for one in trace_shapes(subject, "bishop").tensors]
    across = names[names.index("X_enc") :]
    expected = ["X_enc", "W⁽q⁾", "Q", "W⁽k⁾", "K", "W⁽v⁾", "V", "reshape Q", "transpose Q", "reshape K", "transpose K"]
    assert across[:11] == expected
    assert across[13:20] == ["scores", "A", "H", "H", "W⁽o⁾", "Cross(LN(Z))", "Z"]


def test_a_wrong_symbol_is_found():
    trace = trace_shapes(toy(), "bishop")
    wrong = type(trace)("t", "s", "bishop", (*trace.tensors, type(trace.tensors[0])("x", "", ("N",), (99,))))
    with pytest.raises(AssertionError, match="N = 3, 99"):
        assert_one_value_each(wrong)
    odd = type(trace)("t", "s", "bishop", (*trace.tensors, type(trace.tensors[0])("x", "", ("C·N",), (8,))))
    with pytest.raises(AssertionError, match="C·N = 8"):
        assert_one_value_each(odd)
