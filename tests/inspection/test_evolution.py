"""A head, its figures and what is lost without it, at every checkpoint of a run."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.commands import tfcli
from tests.support.consoles import printed
from tests.support.runs import tiny_recipe, train_tiny
from tfcli.errors import UsageError
from tfcli.inspection.ablation.compute import ablate
from tfcli.inspection.attention.choice import AttentionChoice, focused
from tfcli.inspection.attention.compute import attention, evolution
from tfcli.inspection.attribution.compute import attribution
from tfcli.inspection.attribution.inputs import input_attribution
from tfcli.inspection.evolution import Evolution, Evolved
from tfcli.inspection.evolution.compute import evolution as evolution_of
from tfcli.inspection.evolution.view import EvolutionView
from tfcli.inspection.heads.find import given
from tfcli.inspection.heads.roles import heads
from tfcli.inspection.passes import read_text
from tfcli.inspection.patching import Patching
from tfcli.inspection.patching.compute import patch
from tfcli.runs.load import LoadedRun, load_run


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A run of 12 steps with a checkpoint every fourth."""
    out = tmp_path_factory.mktemp("evolution") / "run"
    train_tiny(tiny_recipe("decoder", {"train": {"keep_checkpoints": 3}}), out)
    return out


def test_every_checkpoint_shows_its_own_weights(kept: Path):
    run = load_run(kept)
    found = evolution(run, read_text(run, "a cat"), "decoder_self", AttentionChoice(layer=0, head=1))
    assert [step.step for step in found.steps] == [4, 8, 12]
    for index, step in enumerate(found.steps):
        [record] = attention(load_run(kept, str(step.step)), "a cat")
        assert np.array_equal(found.weights[index], record.weights[0, 1])
    assert not np.array_equal(found.weights[0], found.weights[2]), "training moved it"


def test_its_figures_are_those_of_its_weights(kept: Path):
    run = load_run(kept)
    found = evolution(run, read_text(run, "a cat"), "decoder_self", AttentionChoice(layer=0, head=0))
    rows = found.weights[1].astype(float)
    nats = [-sum(w * np.log(w) for w in row if w > 0) for row in rows]
    assert found.steps[1].entropy == pytest.approx(sum(nats) / len(nats), abs=1e-5)
    step = found.steps[1]
    # <s> and "a", the first word, say nothing of the text.
    candidates = {(q, k): rows[q, k] for q in range(1, 6) for k in range(2, 6) if abs(q - k) > 1}
    assert (step.row, step.column) == max(candidates, key=lambda cell: candidates[cell])
    assert step.strongest == pytest.approx(max(candidates.values()))


def test_the_telling_head_is_that_of_the_loaded_weights(kept: Path):
    run = load_run(kept)
    [record] = attention(run, "a cat")
    found = evolution(run, read_text(run, "a cat"), "decoder_self", AttentionChoice())
    assert (found.layer, found.head) == focused(record).focus


def test_a_run_that_keeps_one_checkpoint_is_told_how_to_keep_more(tmp_path: Path):
    train_tiny(tiny_recipe("decoder", {"train": {"steps": 2}}), tmp_path / "run")
    run = load_run(tmp_path / "run")
    said = r"keeps one checkpoint, of step 2.*needs three.*--set train.keep_every=STEPS.*train.keep_checkpoints=8"
    with pytest.raises(UsageError, match=said):
        evolution(run, read_text(run, "a"), "decoder_self", AttentionChoice())
    for command in (("heads",), ("ablate", "a")):
        result = tfcli("inspect", command[0], tmp_path / "run", *command[1:], "--evolution")
        assert result.exit_code == 2 and "train.keep_every=STEPS" in " ".join(result.stderr.split())
    for folder in (tmp_path / "run" / "checkpoints").iterdir():
        folder.rename(tmp_path / folder.name)
    with pytest.raises(UsageError, match="keeps no checkpoints"):
        evolution(run, read_text(run, "a"), "decoder_self", AttentionChoice())


TEXT = "a cat and a dog sat on a mat"


def test_the_figures_of_heads_are_those_of_each_checkpoint_alone(kept: Path):
    """And the loss is that of metrics.jsonl."""
    result = tfcli("inspect", "heads", kept, TEXT, "--evolution", "--sort", "entropy", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["steps"] == [4, 8, 12]
    for number, step in enumerate(found["steps"]):
        run = load_run(kept, str(step))
        alone = heads(run, given(run, TEXT, None)).heads
        assert [part["name"] for part in found["parts"]] == [one.place for one in alone] == ["0.0", "0.1"]
        assert [part["values"][number] for part in found["parts"]] == pytest.approx([one.entropy for one in alone])
        assert [part["said"][number] for part in found["parts"]] == [one.role for one in alone]
    lines = [json.loads(line) for line in (kept / "metrics.jsonl").read_text().splitlines()]
    assert found["training"] == [[one["step"], one["loss"]] for one in lines if one["event"] == "step"]
    assert [step for step, _ in found["validation"]] == [4, 8, 12]


def test_what_is_lost_without_a_part_is_asked_of_the_same_tokens_at_every_checkpoint(kept: Path):
    """Those that the best weights find likeliest, though earlier ones may find others."""
    result = tfcli("inspect", "ablate", kept, TEXT, "--evolution", "--csv")
    assert result.exit_code == 0, result.stderr
    rows = list(csv.DictReader(result.stdout.splitlines()))
    asked = ablate(load_run(kept), TEXT).text
    assert asked is not None
    for step in ("4", "8", "12"):
        alone = ablate(load_run(kept, step), TEXT, token=asked.token, against=asked.against)
        own = [float(row["value"]) for row in rows if row["step"] == step]
        assert own == pytest.approx([part.difference for part in alone.parts])
    assert rows[0]["part"] == "head 0.0" and len(rows) == 3 * 4


def test_many_texts_have_an_interval_at_every_checkpoint(kept: Path):
    result = tfcli("inspect", "ablate", kept, "--evolution", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert "the loss" in found["what"] and "validation part" in found["measured_on"]
    for part in found["parts"]:
        for value, (low, high) in zip(part["values"], part["intervals"], strict=True):
            assert low <= value <= high


def test_what_cannot_be_told_from_0_is_drawn_as_0_and_named():
    one = Evolved("head 0.0", (0.5, 0.2, -0.4), ((0.3, 0.6), (-0.1, 0.4), (-0.6, -0.2)))
    assert one.told() == (0.5, 0.0, -0.4) and one.largest == 0.5
    none = Evolved("head 0.1", (0.1, 0.2, 0.3), ((-1, 1), (-1, 1), (-1, 1)))
    roles = Evolved("head 0.2", (0.1, None, 0.3), said=("first token", "first token", "previous token"))
    record = Evolution("r", "the loss", "texts", (0, 10, 20), (none, one, roles), ((5, 3.0), (15, 2.0)), ((20, 2.1),))
    for width in (80, 140):
        text = printed(EvolutionView(record), width)
        assert "at no checkpoint to be told from 0: head 0.1" in text
        assert "first token from 0 → previous token from 20" in " ".join(text.split())
        assert max(map(len, text.splitlines())) <= width
    assert printed(EvolutionView(record), 80).index("head 0.0  ") < printed(EvolutionView(record), 80).index(
        "head 0.2  "
    )


PAIR = ("a cat sat", "a dog sat")


def test_what_patching_moves_at_every_checkpoint_is_what_it_moves_there_alone(kept: Path):
    """In logits, of the tokens and places that the run's own weights choose; the first part is all that there is."""
    texts = ("--clean", PAIR[0], "--corrupt", PAIR[1], "--token", "a", "--against", "e")
    result = tfcli("inspect", "patch", kept, *texts, "--evolution", "--json")
    assert result.exit_code == 0, result.stderr
    found, chosen = json.loads(result.stdout), patch(load_run(kept), *PAIR, token="a", against="e")
    [residual] = (one for one in chosen.grids if one.part == "residual")
    place = int(np.abs(residual.effects[0]).argmax())
    name = f"residual 0 at {place} {chosen.sides[0].clean[place]!r}"
    [moved] = (part["values"] for part in found["parts"] if part["name"] == name)
    heads = [part["name"].split() for part in found["parts"] if part["name"].startswith("head ")]
    assert [one[2] for one in heads] == ["output", "pattern", "values"] and heads[0][1] in ("0.0", "0.1")
    for at, step in enumerate(found["steps"]):
        try:
            alone = patch(load_run(kept, str(step)), *PAIR, token="a", against="e")
        except UsageError:
            assert moved[at] is None
            continue
        assert found["parts"][0]["values"][at] == pytest.approx(alone.clean - alone.corrupt)
        assert moved[at] == pytest.approx(float(alone.grids[0].effects[0, place]) * (alone.clean - alone.corrupt))


def test_a_checkpoint_that_answers_both_texts_alike_has_no_value(kept: Path):
    asked: list[LoadedRun] = []

    def alike(run: LoadedRun, *texts: str, **how: Any) -> Patching:
        asked.append(run)
        if len(asked) == 2:  # the run's own weights come first
            raise UsageError("Both texts give the same", "give others")
        return patch(run, *texts, **how)

    found = evolution_of(load_run(kept), alike, *PAIR, token="a", against="e")
    assert all(part.values[0] is None and part.values[1] is not None for part in found.parts)
    assert "the whole other text" in printed(EvolutionView(found), 80)


def test_what_a_logit_owes_to_each_part_at_every_checkpoint(kept: Path):
    result = tfcli("inspect", "attribution", kept, TEXT, "--evolution", "--json")
    assert result.exit_code == 0, result.stderr
    found, chosen = json.loads(result.stdout), attribution(load_run(kept), TEXT)
    for at, step in enumerate(found["steps"]):
        alone = attribution(load_run(kept, str(step)), TEXT, token=chosen.token)
        assert [part["values"][at] for part in found["parts"]] == pytest.approx([one.value for one in alone.parts])
    assert found["chance"] is None and repr(chosen.token) in found["what"]


def test_the_words_shares_at_every_checkpoint_where_they_are_told_from_chance(kept: Path):
    """Beside the even share; where random orders do as well there is a gap."""
    run = load_run(kept)
    found, chosen = evolution_of(run, input_attribution, TEXT, methods=("occlusion",)), input_attribution(run, TEXT)
    assert found.chance == 1 / len(found.parts) and len(found.parts) == int(np.isfinite(chosen.values[2]).sum())
    token = chosen.direct.token
    for at, step in enumerate(found.steps):
        alone = input_attribution(load_run(kept, str(step)), TEXT, None, ("occlusion",), token=token)
        shares = alone.values[0][np.isfinite(alone.values[0])] / np.nansum(abs(alone.values[0]))
        is_told = (alone.as_good <= 0.05).any()
        assert [part.values[at] for part in found.parts] == (pytest.approx(shares) if is_told else [None] * len(shares))
    with pytest.raises(UsageError, match="An evolution follows one method; name it with --method"):
        evolution_of(run, input_attribution, TEXT)


def test_translations_have_one_target_for_all(trained: Callable[[str], Path]):
    run = load_run(trained("encoder-decoder"))
    for picture, texts in ((patch, ("o livro", "a mesa")), (ablate, ("o livro",)), (attribution, ("o livro",))):
        with pytest.raises(UsageError, match="Every checkpoint has a translation of its own; give one for all: --targ"):
            evolution_of(run, picture, *texts)


def test_a_share_of_attention_has_its_chance_as_a_line(kept: Path):
    result = tfcli("inspect", "heads", kept, TEXT, "--evolution", "--sort", "previous", "--json")
    found, run = json.loads(result.stdout), load_run(kept)
    shares = [one.of("previous token") for one in heads(run, given(run, TEXT, None)).heads]
    assert found["chance"] == pytest.approx(np.mean([one.chance for one in shares if one]))
    record = Evolution("r", "shares", "texts", (0, 10, 20), (Evolved("head 0.0", (0.1, 0.2, 0.9)),), (), (), 0.25)
    for width in (80, 140):
        text = printed(EvolutionView(record), width)
        assert "━ chance" in text and "━ chance" not in printed(EvolutionView(replace(record, chance=None)), width)


def test_paths_have_the_names_of_their_picture_and_what_goes_to_the_logits(kept: Path):
    """Of one layer the MLP alone is behind a head; a row without any receiver is none."""
    run, how = load_run(kept), {"token": "a", "against": "e", "path": (0, 1)}
    found, alone = evolution_of(run, patch, *PAIR, **how), patch(load_run(kept, "12"), *PAIR, **how)  # type: ignore[arg-type]
    assert [part.name for part in found.parts] == ["the whole other text", "to the logits by no later part", "MLP 0"]
    assert found.parts[1].values[-1] == pytest.approx((alone.direct or 0.0) * (alone.clean - alone.corrupt))
    assert "what decoder head 0.1 moves by way of the largest part of each layer" in found.what


def test_the_one_token_that_differs_is_not_drawn_beside_the_whole_text(kept: Path):
    for texts, both in ((("bat", "cat"), False), (("bat", "cot"), True)):
        found = evolution_of(load_run(kept), patch, *texts, token="a", against="e")
        assert any(part.name.startswith("residual 0 at") for part in found.parts) == both
    found = replace(found, parts=(Evolved("residual 0 at 2 ' cat'", (0.1, 0.2, 0.3)),), tokens=(" cat",))
    assert "residual 0 at 2 ·cat" in printed(EvolutionView(found), 80)


def test_a_step_that_is_not_told_is_a_gap_of_its_curve():
    record = Evolution("r", "shares", "texts", (0, 10, 20), (Evolved("a", (0.5, None, 0.5)),), (), ())
    joined = replace(record, parts=(Evolved("a", (0.5, 0.5, 0.5)),))
    gap, line = (printed(EvolutionView(one), 80).splitlines()[2:12] for one in (record, joined))
    dots = [sum("\u2800" < sign <= "\u28ff" for row in rows for sign in row) for rows in (gap, line)]
    assert dots[0] < 4 and dots[1] > 50


def test_too_few_documents_for_an_interval_are_said():
    record = Evolution("r", "loss", "1 document", (0, 10, 20), (Evolved("a", (0.1, 0.2, 0.3), (None,) * 3),), (), ())
    shown = printed(EvolutionView(record), 80)
    assert "too few documents for an interval" in shown and "95 %" not in shown


def test_induction_is_measured_on_random_tokens_beside_an_even_share(kept: Path):
    """A decoder's query t sees t + 1 keys."""
    result = tfcli("inspect", "heads", kept, TEXT, "--evolution", "--json")
    found, run = json.loads(result.stdout), load_run(kept)
    alone = heads(run, given(run, TEXT, None))
    period, start = alone.repeated or 0, len(run.config.roles.text_prefix)
    assert found["measured_on"] == f"4 sequences of {period} random tokens, read twice in a row; roles: on the text"
    queries = np.arange(start + period, start + 2 * period)
    assert found["chance"] == pytest.approx(np.mean(1 / (queries + 1)))
