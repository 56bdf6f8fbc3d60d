"""How alike texts are, as numbers on colour; and one vector as a strip."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.consoles import printed
from tfcli.draw.tables import to_csv
from tfcli.inspection.embeddings import EmbeddingsRecord
from tfcli.inspection.embeddings.view import EmbeddingsView, embedding_lines, embeddings_table

RECORD = EmbeddingsRecord(
    run="runs/e",
    architecture="encoder-decoder",
    pool="mean",
    layer=1,
    texts=("Tom swam.", "The bank\n", "日本"),
    tokens=np.array([4, 3, 2]),
    vectors=np.array([[3.0, 4.0], [4.0, 3.0], [-4.0, 3.0]], np.float32),
)


def test_the_table_at_60_columns():
    """3·4 + 4·3 = 24 of 5 · 5; 3 · −4 + 4 · 3 = 0; −16 + 9 = −7 of 25."""
    assert printed(EmbeddingsView(RECORD), 60).splitlines() == [
        "3 texts as vectors · runs/e",
        "the mean over a text's tokens, out of the encoder's layer 1;",
        "2 dimensions, not normalised",
        "                 1    2    3",
        " 1 Tom swam.  1.00  .96  .00",
        " 2 The bank⏎   .96 1.00 -.28",
        " 3 日本        .00 -.28 1.00",
        "cosine u·v / ‖u‖‖v‖; 1: one direction; 0: at right angles",
        "Closest: 1 and 2, cosine 0.960.",
    ]


def test_numbers_stand_on_colour_where_there_is_some():
    assert "\x1b[38;5;" in printed(EmbeddingsView(RECORD), 80, "truecolor")


def test_many_texts_become_a_map():
    count = 30
    many = replace(RECORD, texts=("a",) * count, tokens=np.ones(count), vectors=np.ones((count, 2), np.float32))
    text = printed(EmbeddingsView(many), 80)
    assert " 1.00 " not in text
    assert "█" * 60 in text


def test_one_text_is_a_strip():
    one = replace(RECORD, texts=RECORD.texts[:1], tokens=RECORD.tokens[:1], vectors=RECORD.vectors[:1], layer=None)
    text = printed(EmbeddingsView(one), 80)
    assert "Tom swam.: 4 tokens, length 5" in text
    assert "the encoder's last layer, behind its norm" in text


@pytest.mark.parametrize("width", [60, 80, 140])
def test_nothing_is_wider_than_the_terminal(width: int):
    long = replace(RECORD, texts=("word " * 60, "b", "c"))
    assert max(map(len, printed(EmbeddingsView(long), width).splitlines())) <= width


def test_csv_and_json():
    assert to_csv(embeddings_table(RECORD)).splitlines()[:2] == ["text,v0,v1", "Tom swam.,3.0,4.0"]
    assert list(embedding_lines(RECORD))[2] == {"text": "日本", "vector": [-4.0, 3.0]}
