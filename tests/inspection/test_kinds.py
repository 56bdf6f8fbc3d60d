"""Kinds of attention, by architecture and by side."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tfcli.errors import UsageError
from tfcli.inspection.attention import AttentionKind
from tfcli.inspection.passes import Inputs, chosen_kinds, key_ids, query_ids
from tfcli.runs.load import load_run


def test_a_model_has_its_kinds_and_refuses_others(trained: Callable[[str], Path]):
    translator, decoder = load_run(trained("encoder-decoder")), load_run(trained("decoder"))
    assert chosen_kinds(translator, None) == ("encoder_self", "decoder_self", "cross")
    assert chosen_kinds(translator, "cross") == ("cross",)
    with pytest.raises(UsageError, match="This decoder has no cross attention; choose decoder_self"):
        chosen_kinds(decoder, "cross")


@pytest.mark.parametrize(
    ("kind", "queries", "keys"),
    [("encoder_self", (1, 2), (1, 2)), ("decoder_self", (3,), (3,)), ("cross", (3,), (1, 2))],
)
def test_cross_attention_looks_from_the_target_at_the_source(
    kind: AttentionKind, queries: tuple[int, ...], keys: tuple[int, ...]
):
    inputs = Inputs(encoder=(1, 2), decoder=(3,))
    assert (query_ids(kind, inputs), key_ids(kind, inputs)) == (queries, keys)
