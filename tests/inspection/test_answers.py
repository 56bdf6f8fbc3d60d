"""Two answers that are compared: ablation, patching and attribution choose and refuse them alike."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tfcli.errors import UsageError
from tfcli.inspection.ablation.compute import ablate
from tfcli.inspection.attribution.compute import attribution
from tfcli.inspection.attribution.inputs import input_attribution
from tfcli.inspection.patching.compute import patch
from tfcli.inspection.predictions.compute import answer
from tfcli.runs.load import load_run

PICTURES: dict[str, Callable[..., Any]] = {
    "ablate": lambda run, **how: ablate(run, "Tom swam", **how),
    "patch": lambda run, **how: patch(run, "Tom swam", "Tom flew", **how),
    "attribution": lambda run, **how: attribution(run, "Tom swam", **how),
    "input attribution": lambda run, **how: input_attribution(run, "Tom swam", None, ("occlusion",), **how),
}
REFUSED = [
    ({"token": "Tom", "against": "a"}, "'Tom' is 3 tokens and has no vector of its own: 'T' 'o' 'm'; name one of them"),
    ({"token": "a", "against": "Tom"}, "'Tom' is 3 tokens and has no vector of its own"),
    ({"token": "a", "against": "a"}, "Both answers are 'a'; name two that differ with --token and --against"),
    ({"token": "<pad>", "against": "a"}, "'<pad>' is a token that this model never answers with; name another one"),
    ({"token": "a", "against": "<s>"}, "'<s>' is a token that this model never answers with"),
    ({"token": "", "against": "a"}, "'' is no token"),
]


@pytest.mark.parametrize("picture", PICTURES)
@pytest.mark.parametrize(("how", "message"), REFUSED, ids=[message[:20] for _, message in REFUSED])
def test_they_are_refused_in_the_same_words(trained: Callable[[str], Path], picture: str, how: dict, message: str):
    with pytest.raises(UsageError, match=message):
        PICTURES[picture](load_run(trained("decoder")), **how)


def test_the_likeliest_is_one_that_the_model_answers_with(trained: Callable[[str], Path]):
    """Neither padding nor a row that no token has, though their logits are the largest; the end of a text may come."""
    run = load_run(trained("decoder"))
    run = replace(run, config=replace(run.config, roles=replace(run.config.roles, known=run.tokenizer.vocab_size)))
    logits = torch.zeros(run.tokenizer.vocab_size + 2)
    logits[[run.config.roles.pad, run.tokenizer.vocab_size + 1]] = 9.0
    [wanted] = run.tokenizer.encode("a")
    logits[wanted] = 2.0
    assert answer(run, logits) == wanted
    assert answer(run, logits, "</s>") == run.config.roles.eos
    with pytest.raises(UsageError, match="Both answers are 'a'"):
        answer(run, logits, beside=wanted)


def test_spaces_and_special_tokens_have_their_names(trained: Callable[[str], Path]):
    run = load_run(trained("decoder"))
    logits = torch.zeros(run.tokenizer.vocab_size)
    assert answer(run, logits, " ") == answer(run, logits, "·") == run.tokenizer.encode(" ")[0]
