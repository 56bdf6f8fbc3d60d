"""INF721's masked scores worked correctly, and one pass that predicts after every token."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.inspection.test_explain_attention import NOTATIONS, in_order, matrices
from tests.support.consoles import printed
from tfcli.draw.colors import SIGNED
from tfcli.errors import UsageError
from tfcli.inspection.explain import Explanation, NotationName
from tfcli.inspection.explain.attention import explain_masking, explain_scores, in_parallel
from tfcli.inspection.explain.own import square_scores
from tfcli.inspection.explain.subject import notation, of_run, toy
from tfcli.inspection.explain.view import ExplanationView
from tfcli.runs.load import load_run


def explain_lecture_masking(name: NotationName = "inf721") -> Explanation:
    scores, words, of_lecture = square_scores(None, None)
    return explain_scores(scores, 3, words, name, of_lecture)


def test_the_lectures_scores_give_these_weights():
    """By hand: row 1 is e^(27/√3) against e^(42/√3), 1 / (1 + e^(15/√3)) = 1 / (1 + e^8.660) = .000173."""
    shown = matrices(explain_lecture_masking())
    assert shown["QKᵀ"].tolist() == [[31, 27, 22], [27, 42, 31], [22, 31, 37]]
    expected = [[1, 0, 0], [0.0002, 0.9998, 0], [0.0002, 0.0303, 0.9695]]
    assert np.round(shown["softmax"], 4) == pytest.approx(np.array(expected), abs=1e-6)
    assert shown["softmax"][1, 0] == pytest.approx(1 / (1 + np.exp(15 / 3**0.5)), rel=1e-5)
    assert (shown["softmax"][np.triu_indices(3, 1)] == 0).all()


def test_it_says_that_the_lecture_prints_others():
    explanation = explain_lecture_masking()
    [printed_sum] = explanation.steps[3].measures
    assert printed_sum.value == pytest.approx(0.1)
    assert "first row sums to .1" in explanation.slips[0]
    assert matrices(explanation)["printed"][2].tolist() == pytest.approx([0.3, 0.3, 0.4])


@pytest.mark.parametrize("name", NOTATIONS)
def test_the_mask_hides_the_future_in_every_notation(name: NotationName):
    [mask] = [m for m in in_order(explain_lecture_masking(name)) if m.kind == "mask"]
    future = np.isneginf(mask.values.T if name == "udl" else mask.values)
    assert np.array_equal(future, np.triu(np.ones((3, 3), dtype=bool), 1))


def test_every_row_of_one_pass_predicts_the_next_token():
    """The loss is torch's own cross-entropy of the logits without the last row, on the ids without the first."""
    subject = toy("Lucas will travel to Rio", architecture="decoder", d_model=6, heads=2)
    explanation = explain_masking(subject)
    last = explanation.steps[-1]
    [predicted] = last.matrices
    loss, apart = last.measures
    ids = subject.inputs[0]
    with torch.inference_mode():
        logits = subject.model(ids)[0]
    assert loss.value == pytest.approx(float(F.cross_entropy(logits[:-1], ids[0, 1:])), rel=1e-5)
    assert (predicted.rows[0], predicted.columns[0]) == ("Lucas", "will")
    assert predicted.values[2, 2] == pytest.approx(float(torch.softmax(logits[2], 0)[ids[0, 3]]), rel=1e-5)
    assert apart.value < 1e-5
    assert "Lucas → will, will → travel, travel → to, …" in last.note


def test_without_the_mask_a_prediction_would_not_be_that_of_its_prefix():
    subject = toy("Lucas will travel", architecture="decoder")
    subject.attention.causal = False
    with torch.inference_mode():
        [step] = in_parallel(subject, notation("bishop"))
    assert step.measures[1].value > 1e-3


def test_a_run_and_what_has_no_mask(trained: Callable[[str], Path]):
    subject = of_run(load_run(trained("encoder-decoder")), "O gato dorme.", target="The cat sleeps")
    encoder = of_run(load_run(trained("encoder")), "Tom")
    explanation = explain_masking(subject, head=1)
    assert explanation.steps[-1].measures[1].value < 1e-5
    assert (matrices(explanation)["A₂"][np.triu_indices(len(subject.query_tokens), 1)] == 0).all()
    with pytest.raises(UsageError, match=r"There is no causal mask in .*encoder_self: every token sees the whole text"):
        explain_masking(encoder)


def test_a_score_keeps_its_colour_from_step_to_step():
    """QKᵀ reaches 42, which the mask leaves, and 31; divided by √3 all are smaller, and paler: 31 of 42 is level 28 of
    33, and 31 / √3 level 23. With its largest score masked, the first step's scale still holds."""
    explanation = explain_lecture_masking()
    text = printed(ExplanationView(explanation), 120, "truecolor")
    for number, level in (("31", 28), ("17.90", 23)):
        color = "48;2;{};{};{}".format(*SIGNED.table[level])
        assert set(re.findall(rf"(48;2;\d+;\d+;\d+)m +{re.escape(number)}\x1b", text)) == {color}, number
    masked = explain_scores(torch.tensor([[1.0, 9.0], [1.0, 2.0]]), 1, ("a", "b"))
    shown = printed(ExplanationView(masked), 120, "truecolor")
    assert len(set(re.findall(r"(48;2;\d+;\d+;\d+)m +2(?:\.00)?\x1b", shown))) == 1
