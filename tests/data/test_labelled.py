"""Labelled texts as they are stored, in batches, and the weights of their labels."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.test_completion import side
from tests.support.fakes import ROLES
from tfcli.corpora import Kind
from tfcli.corpora.split import open_split
from tfcli.data.batch import IGNORED
from tfcli.data.dataset import PairsView, PreparedDataset
from tfcli.data.labelled import class_weights, pieces_of
from tfcli.data.loader import LabelBatches
from tfcli.data.prepare import prepare
from tfcli.errors import BrokenInputError, UsageError
from tfcli.recipe.data import DataSection, TokenizerSection
from tfcli.tokenization.train import train_tokenizer


def prepared(folder: Path, kind: Kind, train: list[object], held_out: list[object], algorithm: str) -> PreparedDataset:
    for name, records in (("train", train), ("held_out", held_out)):
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in records))
    section = DataSection(source=str(folder / "train.jsonl"), validation=str(folder / "held_out.jsonl"))
    split = open_split(section, kind)
    texts = ["ab cd ef who", "a b c d e f w h o"]
    tokenizer, _ = train_tokenizer(lambda: iter(texts), TokenizerSection(algorithm=algorithm, min_frequency=1))  # type: ignore[arg-type]
    prepare(split, tokenizer, folder / "out")
    return PreparedDataset.open(folder / "out")


def stored(data: PreparedDataset) -> list[list[int]]:
    return [data.pairs("train").target.sequence(number).tolist() for number in range(len(data.pairs("train")))]


def test_the_label_of_a_text_is_beside_every_token(tmp_path: Path) -> None:
    records = [{"text": "ab cd", "label": "no"}, {"text": "ef", "label": "yes"}, {"text": "cd", "label": "no"}]
    data = prepared(tmp_path, "classify", records, records[1:], "word")
    assert data.manifest.labels == ("no", "yes")
    assert stored(data) == [[1, 1, 1, 1], [2, 2, 2], [1, 1, 1]]
    assert data.record().train.documents == 3
    roles = data.manifest.roles
    first = data.pairs("train").source.sequence(0)
    assert (first[0], first[-1]) == (roles.bos, roles.eos)


def test_a_tag_is_beside_the_first_piece_of_its_word(tmp_path: Path) -> None:
    # In letters: <s> a b _ c d </s>, with a blank that belongs to no word.
    records = [{"words": ["ab", "cd"], "tags": ["X", "Y"]}]
    data = prepared(tmp_path, "tag", records, records, "char")
    assert stored(data) == [[0, 1, 0, 0, 2, 0, 0]]


def test_the_context_and_the_ends_of_the_answer_are_marked(tmp_path: Path) -> None:
    records = [
        {"question": "who", "context": "ab cd ef", "answer": "cd ef"},
        {"question": "who", "context": "ab cd", "answer": "ab"},
    ]
    data = prepared(tmp_path, "span", records, records, "word")
    # <s> who, the line end, and then the context.
    assert stored(data) == [[0, 0, 0, 1, 2, 3, 0], [0, 0, 0, 4, 1, 0]]


def test_a_label_that_training_never_has_is_refused(tmp_path: Path) -> None:
    train, held_out = [{"text": "ab", "label": "x"}], [{"text": "ab", "label": "x"}, {"text": "cd", "label": "y"}]
    with pytest.raises(BrokenInputError, match=r"Line 2 of .*held_out.jsonl has the label 'y', which the training"):
        prepared(tmp_path, "classify", [*train], [*held_out], "word")
    assert not (tmp_path / "out").exists()


def batches(rows: list[tuple[list[int], list[int]]], task: str, architecture: str, **more: int) -> LabelBatches:
    view = PairsView(side([source for source, _ in rows]), side([beside for _, beside in rows]))
    how = {"batch_size": 4, "context": 8, "seed": 0} | more
    numbers = np.array([IGNORED, 0, 1, 2])
    return LabelBatches(view, ROLES, task=task, architecture=architecture, numbers=numbers, **how)


ROWS = [([1, 10, 2], [2, 2, 2]), ([1, 11, 12, 13, 2], [1, 1, 1, 1, 1])]


def test_an_encoder_reads_the_first_vector_and_a_decoder_the_last() -> None:
    no = IGNORED
    [batch] = batches(ROWS, "classify", "encoder").whole()
    assert batch.labels.tolist() == [[1, no, no, no, no], [0, no, no, no, no]]
    assert batch.padding_mask is not None
    assert batch.padding_mask.sum(1).tolist() == [3, 5]
    [batch] = batches(ROWS, "classify", "decoder").whole()
    assert batch.labels.tolist() == [[no, no, 1, no, no], [no, no, no, no, 0]]
    assert (batch.padding_mask, batch.target_tokens) == (None, 2)


@pytest.mark.parametrize(("architecture", "at"), [("encoder", 0), ("decoder", 3)])
def test_a_text_that_is_too_long_is_cut_and_keeps_its_end(architecture: str, at: int) -> None:
    made = batches(ROWS, "classify", architecture, context=4)
    [batch] = made.whole()
    assert (batch.input_ids.tolist(), made.left_out) == ([[1, 10, 2, 0], [1, 11, 12, 2]], 0)
    assert batch.labels[1, at] == 0
    assert batch.row_tokens is not None
    assert batch.row_tokens.tolist() == [3, 4]


def test_sentences_that_are_too_long_take_no_part() -> None:
    made = batches([([1, 10, 2], [0, 2, 0]), ([1, 11, 12, 13, 2], [0, 1, 0, 3, 0])], "tag", "encoder", context=4)
    [batch] = made.whole()
    assert (batch.labels.tolist(), made.left_out) == ([[IGNORED, 1, IGNORED]], 1)
    with pytest.raises(UsageError, match=r"Every text is longer than the context of 2 tokens \(the shortest has 3"):
        batches(ROWS, "tag", "encoder", context=2)


def test_an_answer_is_sought_in_the_context_alone() -> None:
    rows = [([1, 9, 10, 11, 12, 2], [0, 0, 1, 2, 3, 0]), ([1, 9, 10, 11, 2], [0, 0, 4, 1, 0])]
    [batch] = batches(rows, "span", "decoder").whole()
    assert batch.answerable is not None
    assert batch.labels.tolist() == [[2, 2], [3, 4]]
    assert batch.answerable.astype(int).tolist() == [[0, 0, 1, 1, 0, 0], [0, 0, 1, 1, 1, 0]]


def test_balanced_weights() -> None:
    # Three of label 0, one of label 1, none of label 2: 4 / (2 · 3) and 4 / (2 · 1); on average 1.
    rows = [([1, 10, 2], [0, 1, 0]), ([1, 10, 11, 12, 2], [0, 1, 1, 2, 0])]
    view = PairsView(side([source for source, _ in rows]), side([beside for _, beside in rows]))
    weights = class_weights(view, np.array([IGNORED, 0, 1, 2]), 3, "tag")
    assert weights == pytest.approx([2 / 3, 2, 0])
    whole = PairsView(side([[1, 10, 2]] * 3), side([[1, 1, 1], [1, 1, 1], [2, 2, 2]]))
    assert class_weights(whole, np.array([IGNORED, 0, 1]), 2, "classify") == pytest.approx([3 / 4, 3 / 2])


@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), st.data())
def test_pieces_have_a_part_in_the_characters(lengths: list[int], data: st.DataObject) -> None:
    ends = np.cumsum(lengths).tolist()
    spans = [*zip([0, *ends[:-1]], ends, strict=True)]
    start = data.draw(st.integers(0, ends[-1] - 1))
    end = data.draw(st.integers(start + 1, ends[-1]))
    covered = {place for place, (a, b) in enumerate(spans) if {*range(a, b)} & {*range(start, end)}}
    assert pieces_of(spans, start, end) == sorted(covered)
