"""Bars, in the pictures that have them: on a terminal without Unicode, of number signs."""

import io

import pytest
from rich.console import Console, RenderableType

from tests.inspection.test_explain_decoding_view import RECORD as DECODING
from tfcli.draw.tables import bar
from tfcli.generation.view import FilledView
from tfcli.inspection.explain.decoding_view import DecodingView
from tfcli.inspection.model.compute import model_diagram
from tfcli.inspection.model.view import ModelView
from tfcli.recipe.model import ModelSection
from tfcli.records.generation import Candidate, Filled

PICTURES: dict[str, RenderableType] = {
    "model": ModelView(model_diagram(ModelSection(vocab_size=100, d_model=16, num_layers=1, num_heads=2))),
    "decoding": DecodingView(DECODING),
    "masks": FilledView(Filled("a <mask>", ((Candidate(" b", 0.75),),), "a b")),
}


def drawn(view: RenderableType, encoding: str) -> str:
    """On a terminal of that encoding, 120 columns wide."""
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace", write_through=True)
    Console(file=file, width=120, color_system=None, force_terminal=False, _environ={}).print(view)
    raw = file.detach()
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().decode(encoding)


def test_bars_have_eighths():
    assert [bar(share, 1) for share in (0.0, 0.125, 0.5, 1.0, 2.0)] == ["", "▏", "▌", "█", "█"]


def test_without_unicode_they_are_whole_cells():
    assert [bar(share, 4, ascii_only=True) for share in (-1.0, 0.1, 0.5, 1.0, 2.0)] == ["", "", "##", "####", "####"]


@pytest.mark.parametrize("name", PICTURES)
def test_no_picture_has_blocks_where_there_is_no_unicode(name: str):
    assert "##" in drawn(PICTURES[name], "ascii")
    assert "█" in drawn(PICTURES[name], "utf-8")
