"""Attribution on runs: parts against the model's own logit, and how tokens are chosen."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.support.checkpoints import save_checkpoint
from tests.support.runs import ARCHITECTURES
from tfcli.errors import UsageError
from tfcli.inspection.attribution import Part
from tfcli.inspection.attribution.compute import attribution
from tfcli.inspection.passes import read_text
from tfcli.interop.importing import import_run
from tfcli.runs.load import load_run

TEXTS = {"decoder": ("the cat s", None), "encoder": ("the c<mask>t", None), "encoder-decoder": ("o gato", "the cat")}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_parts_sum_to_the_models_own_logit(trained: Callable[[str], Path], architecture: str):
    run = load_run(trained(architecture))
    text, target = TEXTS[architecture]
    found = attribution(run, text, target)
    with torch.inference_mode():
        logits = run.model(*read_text(run, text, target).tensors(run.device))[0, found.position]
    never = [run.config.roles.pad, run.config.roles.bos, run.config.roles.mask, run.config.roles.unk]
    ranked = logits.argsort(descending=True).tolist()
    best = [one for one in ranked if one not in never]
    assert found.best == tuple(run.tokenizer.labels(ranked[:2]))
    assert (found.token, found.rank) == (run.tokenizer.labels(best[:1])[0], 1 + ranked.index(best[0]))
    assert found.probability == pytest.approx(float(logits.softmax(-1)[best[0]]), abs=1e-6)
    assert found.logit == pytest.approx(float(logits[best[0]]), abs=1e-5)
    assert sum(one.value for one in found.parts) == pytest.approx(found.logit, abs=1e-4)
    assert {one.part.kind for one in found.parts} >= {"token", "head", "feed_forward"}
    assert ("cross_head" in {one.part.kind for one in found.parts}) == (architecture == "encoder-decoder")
    both = attribution(run, text, target, against=run.tokenizer.labels(best[:2])[1])
    assert both.logit == pytest.approx(float(logits[best[0]] - logits[best[1]]), abs=1e-5)
    assert sum(one.value for one in both.parts) == pytest.approx(both.logit, abs=1e-4)


@pytest.mark.parametrize("family", ["gpt2", "bert", "bart", "t5"])
def test_the_parts_of_imported_models_sum_too(family: str, tmp_path: Path):
    """GPT-2: norms before, with biases; BERT: norms after, and a head with an activation; BART: both sides."""
    import_run(str(save_checkpoint(tmp_path / "theirs", family)), tmp_path / "run")
    found = attribution(load_run(tmp_path / "run"), "the cat sat", position=1)
    assert sum(one.value for one in found.parts) == pytest.approx(found.logit, abs=1e-4)
    assert found.gated == (family == "bert")
    segments = [one for one in found.parts if one.part == Part("segment")]
    assert len(segments) == (1 if family == "bert" else 0)


def test_a_token_is_named_by_its_text_or_as_tables_show_it(trained: Callable[[str], Path]):
    run = load_run(trained("decoder"))
    for written in (" ", "·"):
        assert attribution(run, "the", token=written).token == " "
    worst = attribution(run, "the", token="t", against=" ")
    assert (worst.token, worst.against) == ("t", " ")
    assert attribution(run, "the", token="</s>").token == "</s>"
    with pytest.raises(UsageError, match="'cat' is 3 tokens and has no vector of its own: 'c' 'a' 't'"):
        attribution(run, "the", token="cat")
    with pytest.raises(UsageError, match="'' is no token"):
        attribution(run, "the", against="")


def test_a_position_that_is_not_there(trained: Callable[[str], Path]):
    with pytest.raises(UsageError, match="There is no position 4: the model reads 4 tokens; choose one from 0 to 3"):
        attribution(load_run(trained("decoder")), "the", position=4)
