"""Windows with a stride: every token once, each with the left context that it should have."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.checkpoints import save_checkpoint
from tfcli.data.batch import IGNORED
from tfcli.data.dataset import TokenStreamView
from tfcli.evaluation.evaluate import evaluate
from tfcli.evaluation.windows import EvaluationSettings, SlidingWindows
from tfcli.interop.importing import import_run
from tfcli.pipeline.datasets import dataset_for_evaluation
from tfcli.records.roles import TokenRoles
from tfcli.runs.load import load_run

ROLES = TokenRoles(pad=0, bos=1, eos=2)


def view(*documents: int) -> TokenStreamView:
    """Documents of so many tokens, <s> and </s> among them; the ordinary one at place p is 10 + p."""
    tokens, offsets = [], [0]
    for length in documents:
        first = len(tokens) + 1
        tokens += [1, *range(10 + first, 10 + first + length - 2), 2]
        offsets.append(len(tokens))
    return TokenStreamView([np.array(tokens, np.uint16)], [np.array(offsets)])


def scored(windows: SlidingWindows) -> dict[int, tuple[int, list[int]]]:
    """Of every place that is scored its label, and the inputs that it is predicted from."""
    found: dict[int, tuple[int, list[int]]] = {}
    for placed in windows:
        labels, inputs = placed.batch.labels, placed.batch.input_ids
        for row, column in np.argwhere(labels != IGNORED).tolist():
            place = int(placed.places[row, column])
            assert place not in found, "scored twice"
            found[place] = int(labels[row, column]), inputs[row, : column + 1].tolist()
    return found


def windows(text: TokenStreamView, context: int, stride: int, *, documents: bool = False) -> SlidingWindows:
    return SlidingWindows(text, ROLES, context, stride, documents, tokens=16)


def test_a_stride_of_two_in_a_context_of_four_by_hand():
    """<s> 11 12 13 14 15 16 17 </s>, predicted as in the drawing at the head of the module."""
    assert scored(windows(view(9), 4, 2)) == {
        1: (11, [1]),
        2: (12, [1, 11]),
        3: (13, [1, 11, 12]),
        4: (14, [1, 11, 12, 13]),
        5: (15, [12, 13, 14]),
        6: (16, [12, 13, 14, 15]),
        7: (17, [14, 15, 16]),
        8: (2, [14, 15, 16, 17]),
    }


def test_side_by_side_every_window_begins_anew():
    assert scored(windows(view(9), 4, 4)) == {
        1: (11, [1]),
        2: (12, [1, 11]),
        3: (13, [1, 11, 12]),
        4: (14, [1, 11, 12, 13]),
        5: (15, [14]),
        6: (16, [14, 15]),
        7: (17, [14, 15, 16]),
        8: (2, [14, 15, 16, 17]),
    }


def test_windows_keep_to_their_document_where_training_did():
    """Two documents of five: <s> 11 12 13 </s> <s> 16 17 18 </s>. The last token of the first is no context."""
    assert scored(windows(view(5, 5), 3, 1, documents=True)) == {
        1: (11, [1]),
        2: (12, [1, 11]),
        3: (13, [1, 11, 12]),
        4: (2, [11, 12, 13]),
        6: (16, [1]),
        7: (17, [1, 16]),
        8: (18, [1, 16, 17]),
        9: (2, [16, 17, 18]),
    }


@given(st.lists(st.integers(2, 40), min_size=1, max_size=5), st.integers(1, 12), st.data(), st.booleans())
def test_every_token_once_with_enough_before_it(lengths: list[int], context: int, data: st.DataObject, documents: bool):
    stride = data.draw(st.integers(1, context))
    text = view(*lengths)
    stream = text.padded(np.array([0]), np.array([len(text)]), 0)[0].tolist()
    found = scored(windows(text, context, stride, documents=documents))
    assert sorted(found) == [place for place in range(1, len(stream)) if stream[place] != ROLES.bos]
    begins = text.offsets if documents else np.array([0])
    for place, (label, before) in found.items():
        begin = int(begins[begins <= place].max())
        assert label == stream[place]
        assert before == stream[place - len(before) : place], "what stands before it, and nothing else"
        assert min(context - stride + 1, place - begin) <= len(before) <= context


@pytest.mark.parametrize("stride", [1, 7, 12])
def test_a_gpt2_as_transformers_own_guide_scores_it(stride: int, tmp_path: Path):
    """The loop of the guide "Perplexity of fixed-length models", over the ids of two documents, ended each. Its windows
    hold one token more than ours read, for it predicts none from the last."""
    transformers = pytest.importorskip("transformers")
    folder, text = save_checkpoint(tmp_path / "gpt2", "gpt2"), tmp_path / "text.jsonl"
    import_run(str(folder), tmp_path / "run")
    run = load_run(tmp_path / "run")
    run = replace(run, recipe=replace(run.recipe, train=replace(run.recipe.train, context=12)))
    documents = ["The cat sat on the mat and the dog ran to the river.", "Tom swam across: don't stop!"]
    text.write_text("".join(f'{{"text": "{one}"}}\n' for one in documents))
    model, end = transformers.GPT2LMHeadModel.from_pretrained(folder).eval(), run.config.roles.eos
    ids = torch.tensor([[one for text in documents for one in (*run.tokenizer.encode(text), end)]])
    nats, tokens, scored_up_to = 0.0, 0, 1
    for begin in range(0, ids.size(1), stride):
        stop = min(begin + 13, ids.size(1))
        new = stop - scored_up_to
        labels = ids[:, begin:stop].clone()
        labels[:, :-new] = -100
        with torch.no_grad():
            nats += model(ids[:, begin:stop], labels=labels).loss.item() * new
        tokens, scored_up_to = tokens + new, stop
        if stop == ids.size(1):
            break
    data = dataset_for_evaluation(run, (str(text),), lambda event: None)
    scores = evaluate(run, data, EvaluationSettings(stride=stride, windows="stream"))
    assert (scores.tokens, scores.context, scores.stride) == (tokens, 12, stride)
    assert scores.loss == pytest.approx(nats / tokens, rel=1e-5)
    unread = run.tokenizer.decode(ids[0, :1].tolist())  # which nothing stands before
    read = sum(map(len, documents)) - len(unread)
    assert scores.bits_per_byte == pytest.approx(nats / math.log(2) / read, rel=1e-5)
    assert scores.unknown == 0, "GPT-2's unknown token is the one that ends a text"
