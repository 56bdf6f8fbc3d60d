"""Cutting long documents and grouping short ones."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes import pairs
from tfcli.corpora import batched
from tfcli.data.chunks import Piece, document_pieces


@given(st.lists(st.text(alphabet="ab \n", max_size=40), max_size=4), st.integers(1, 12))
def test_pieces_join_to_the_documents(texts: list[str], limit: int) -> None:
    joined: list[str] = []
    open_document = False
    for piece in document_pieces((("train", text) for text in texts), limit):
        assert len(piece.text) <= limit
        assert (piece.number == 0) is not open_document
        if piece.number == 0:
            joined.append("")
        joined[-1] += piece.text
        open_document = not piece.last
    assert joined == texts and not open_document


def test_pairs_give_the_source_first() -> None:
    assert list(document_pieces([("train", pairs(("a", "b"))[0])])) == [
        Piece("train", "source", "a", number=0, last=True),
        Piece("train", "target", "b", number=0, last=True),
    ]


def test_batches_end_once_they_are_full() -> None:
    # Each piece counts its characters and one: 3 + 3 reach 6; 5 is alone in the last batch.
    stream = document_pieces([("train", text) for text in ("ab", "cd", "abcd")])
    assert [[piece.text for piece in batch] for batch in batched(stream, lambda piece: piece.text, characters=6)] == [
        ["ab", "cd"],
        ["abcd"],
    ]
