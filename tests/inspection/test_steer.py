"""Steering vectors: their direction, separation and telling tokens by hand, their effect by a second implementation."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.utils.hooks import RemovableHandle

from tests.support.consoles import printed
from tests.support.runs import ARCHITECTURES
from tfcli.draw.tables import to_json
from tfcli.errors import UsageError
from tfcli.generation.generate import generate
from tfcli.generation.steering import steered
from tfcli.inspection.heads.find import Material
from tfcli.inspection.passes import framed, read_text, record_model
from tfcli.inspection.steer import FIGURES, Change, Steered, Steering, compute
from tfcli.inspection.steer.compute import STRENGTHS, Read, _separation, _telling, read_stream, steering
from tfcli.inspection.steer.view import SteeringView, _cell, steering_table
from tfcli.models.transformer import Transformer
from tfcli.recipe.loading import generation_settings
from tfcli.runs.load import LoadedRun, load_run

SETS = ["Tom was sad.", "Ada was sad all day."], ["Tom was happy.", "Mia ran to the river.", "Ned swam."]
PAIRS = ["o gato dorme", "a casa"], ["o livro", "ele não vende casas"]
DOCUMENTS = ["One day Tom ran.", "Mia was glad.", "The bank was wet, and cold."]


def texts(run: LoadedRun) -> tuple[list[str], list[str]]:
    return PAIRS if run.architecture == "encoder-decoder" else SETS


def read(run: LoadedRun, at: str) -> list[dict[str, Read]]:
    return [{text: read_stream(run, at, text) for text in one} for one in texts(run)]


def documents(run: LoadedRun, number: int = 3) -> Material:
    """Whole texts, or pairs, as their prepared dataset would have them."""
    tokenizer, two = run.tokenizer, run.architecture == "encoder-decoder"
    made = [framed(run, tokenizer.encode(one), tokenizer.encode("the cat") if two else ()) for one in DOCUMENTS]
    return Material("three texts", tuple(made[:number]), False, {})


def figures(row: Steered) -> dict[str, Change]:
    return {name: getattr(row, name) for name in FIGURES}


def record(run: LoadedRun, at: str = "0") -> Steering:
    return steering(run, at, read(run, at), documents(run))[0]


@pytest.mark.parametrize(
    ("architecture", "at"),
    [("decoder", "1"), ("encoder", "0"), ("encoder-decoder", "1"), ("encoder-decoder", "encoder.0")],
)
def test_the_direction_is_the_difference_of_the_recorded_means(
    trained: Callable[[str], Path], architecture: str, at: str
):
    """Of each text the mean over its own tokens, each text as much as every other, by the pass that pictures read."""
    run, means, norms = load_run(trained(architecture)), list[torch.Tensor](), list[float]()
    special = {*run.config.roles.ids()}  # unknown ones, too
    for one in texts(run):
        rows = []
        for text in one:
            inputs = read_text(run, text)
            with torch.inference_mode():
                passed = record_model(run.model, inputs.tensors(run.device))
            stack, ids = (passed.encoder, inputs.encoder) if "." in at else (passed.last, inputs.sides[-1])
            assert stack is not None and ids is not None
            own = [place for place, token in enumerate(ids) if token not in special]
            assert 0 < len(own) < len(ids)
            rows.append(stack.layers[int(at[-1])].after[own].double())
        means.append(torch.stack([row.mean(0) for row in rows]).mean(0))
        norms += [float(row.norm(dim=1).mean()) for row in rows]
    found, direction = steering(run, at, read(run, at), documents(run))
    torch.testing.assert_close(direction, means[1] - means[0], rtol=1e-4, atol=1e-5)
    assert found.norm == pytest.approx(float((means[1] - means[0]).norm()), rel=1e-4)
    assert found.stream_norm == pytest.approx(np.mean(norms), rel=1e-4)
    assert (found.texts, found.at) == (tuple(map(len, texts(run))), at)
    assert found.stack == ("encoder" if "." in at or architecture == "encoder" else "decoder")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_figures_are_those_of_steered_passes(trained: Callable[[str], Path], architecture: str):
    """Loss and shares, token by token; an encoder's every seventh own token is masked, from the fourth on."""
    run = load_run(trained(architecture))
    found, direction = steering(run, "1", read(run, "1"), documents(run))
    tokens = [[run.tokenizer.labels(range(run.tokenizer.vocab_size)).index(name) for name in of] for of in found.tokens]
    assert tokens[0] and tokens[1] and not {*tokens[0]} & {*tokens[1]}
    plain = next(row for row in found.strengths if row.strength == 0)
    for row in found.strengths:
        nats, shares = [], []
        for inputs in documents(run).texts:
            sides = inputs.tensors(run.device)
            answers, places = sides[-1][0, 1:].clone(), list(range(sides[-1].shape[1] - 1))
            if architecture == "encoder":
                places = list(range(1, sides[0].shape[1] - 1))[3::7]
                answers = sides[0][0, places].clone()
                sides[0][0, places] = run.config.roles.mask  # type: ignore[assignment]
            with torch.inference_mode(), steered(run.model, direction, "1", row.strength):
                logits = run.model(*sides)[0, places].double()
            nats += F.cross_entropy(logits, answers, reduction="none").tolist()
            shares += [[p[one].sum().item() for one in tokens] for p in logits.softmax(-1)]
        away, to = np.mean(shares, axis=0)
        values = {name: one.value for name, one in figures(row).items()}
        assert values == pytest.approx({"loss": np.mean(nats), "to_tokens": to, "from_tokens": away}, abs=1e-5)
        for name, one in figures(row).items():
            assert one.change == pytest.approx(one.value - figures(plain)[name].value, abs=1e-9)
            assert one.interval is None  # three texts
        settings = generation_settings(run.recipe, {"max_new_tokens": 32, "temperature": 0.0})
        with steered(run.model, direction, "1", row.strength):
            made = generate(run, found.prompt, settings)
        assert row.text == (made[0] if isinstance(made, list) else made).text  # type: ignore[union-attr]
    assert tuple(row.strength for row in found.strengths) == STRENGTHS
    assert found.prompt == ("<mask>" if architecture == "encoder" else texts(run)[0][0])


def test_documents_are_resampled_from_ten_on(trained: Callable[[str], Path]):
    """Where all documents are one, every resample has the same difference."""
    run = load_run(trained("decoder"))
    ten = Material("ten", documents(run, 1).texts * 10, False, {})
    found, _ = steering(run, "0", read(run, "0"), ten)
    for row in found.strengths:
        for one in figures(row).values():
            assert one.interval == pytest.approx((one.change, one.change), abs=1e-12)


def test_chance_is_the_range_over_39_random_directions_as_long(
    trained: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
):
    """Every vector that is added is noted; those that are not the direction are measured a second time."""
    run, added = load_run(trained("decoder")), list[tuple[torch.Tensor, str, float]]()

    def noted(model: Transformer, vector: torch.Tensor, at: str, strength: float) -> RemovableHandle:
        added.append((vector, at, strength))
        return steered(model, vector, at, strength)

    monkeypatch.setattr(compute, "steered", noted)
    found, direction = steering(run, "0", read(run, "0"), documents(run))
    others = [vector for vector, at, strength in added if not torch.equal(vector, direction)]
    assert len(others) == 39
    assert all((at, strength) == ("0", 1.0) for vector, at, strength in added if not torch.equal(vector, direction))
    losses = [mean_loss(run, torch.zeros(16), 0.0)]
    for vector in others:
        assert float(vector.norm()) == pytest.approx(found.norm)
        assert abs(float(F.cosine_similarity(vector, direction, dim=0))) < 0.8
        losses.append(mean_loss(run, vector, 1.0))
    changes = [one - losses[0] for one in losses[1:]]
    assert found.chance["loss"] == pytest.approx((min(changes), max(changes)), abs=1e-6)
    assert all(low < high for low, high in found.chance.values())


def mean_loss(run: LoadedRun, vector: torch.Tensor, strength: float) -> float:
    nats = list[float]()
    for [ids] in (one.tensors(run.device) for one in documents(run).texts):
        with torch.inference_mode(), steered(run.model, vector, "0", strength):
            nats += F.cross_entropy(run.model(ids)[0, :-1], ids[0, 1:], reduction="none").tolist()
    return float(np.mean(nats))


def test_separation_by_hand():
    """On a line, the first halves at 0 and 1, so that further along is further right. Of the second halves (0.2, 0.4)
    and (0.3, 0.5), three pairs of four are in order; the second halves point to the right, too, and 1 > 0."""
    means = np.array([[0.0], [0.2], [0.4], [1.0], [0.3], [0.5]])
    is_to = np.array([False] * 3 + [True] * 3)
    first = np.array([True, False, False, True, False, False])
    assert _separation(means, is_to, first) == (3 / 4 + 1) / 2
    assert _separation(-means, is_to, first) == (3 / 4 + 1) / 2
    equal = np.array([[0.0], [2.0], [1.0], [2.0]])
    assert _separation(equal, is_to[[0, 0, 3, 3]], np.array([True, False, True, False])) == 1 / 2


def test_telling_tokens_by_hand():
    """Shares of texts: 5 is in all of both, 6 in 2 of 2 and none of 1, 7 in one of 2, 8 in the one of the other set."""
    reads = [Read({5, 6, 7}, np.zeros(1), 1.0), Read({5, 6}, np.zeros(1), 1.0), Read({5, 8}, np.zeros(1), 1.0)]
    assert _telling(reads, np.array([False, False, True])) == ([6, 7], [8])
    assert _telling(reads[:1] * 2, np.array([False, True])) == ([], [])


def held_out(run: LoadedRun, sets: list[list[str]]) -> Steering:
    return steering(run, "0", [{text: read_stream(run, "0", text) for text in one} for one in sets], documents(run))[0]


def test_sets_that_differ_are_told_apart_in_held_out_texts_and_others_are_not(trained: Callable[[str], Path]):
    run, letters = load_run(trained("decoder")), "abdefghiklmnoprstuw"
    apart = [[f"{x}{x} {x}x {letter}" for letter in letters[:8]] for x in "zq"]
    found = held_out(run, apart)
    assert found.separation is not None and found.separation[0] > found.separation[1][1]
    draw = np.random.default_rng(1)
    mixed = [["".join(draw.choice([*letters], 12)) for _ in range(8)] for _ in range(2)]
    found = held_out(run, mixed)
    assert found.separation is not None and found.separation[0] <= found.separation[1][1]
    assert "no more than with texts shuffled" in " ".join(printed(SteeringView(found), 80).split())
    assert held_out(run, [apart[0][:5], apart[1]]).separation is None


def test_sets_of_one_mean_and_texts_without_tokens_are_refused(trained: Callable[[str], Path]):
    run = load_run(trained("decoder"))
    same = read_stream(run, "0", "Tom")
    with pytest.raises(UsageError, match="have the same mean; give sets that differ"):
        steering(run, "0", [{"a": same}, {"b": same}], documents(run))
    for empty in ("", "€"):
        with pytest.raises(UsageError, match="has only special and unknown tokens"):
            read_stream(run, "0", empty)
    with pytest.raises(UsageError, match="context holds 32"):
        read_stream(run, "0", "a" * 40)


@pytest.mark.parametrize("width", [60, 80, 140])
def test_the_view_says_what_was_measured_and_against_what(trained: Callable[[str], Path], width: int):
    found = record(load_run(trained("decoder")), "1")
    shown = printed(SteeringView(found), width)
    assert max(map(len, shown.splitlines())) <= width
    said = " ".join(shown.split())
    assert "Steering behind layer 1 of the decoder" in said
    assert "The mean residual stream on 3 texts of --to less that on 2 texts of --from." in said
    assert "Held-out texts: none with fewer than 6 texts in a set." in said and "few texts" in said
    assert said.count("Tom was sad.") >= 1 and "chance" in said
    plain = next(row for row in found.strengths if row.strength == 0)
    assert f"{plain.loss.value:.3f}" in said


def test_the_forms_say_the_same(trained: Callable[[str], Path]):
    found = record(load_run(trained("decoder")))
    as_json = to_json(found)
    assert as_json["strengths"][0].keys() == {"strength", "text", "loss", "to_tokens", "from_tokens", "finish"}
    assert as_json["strengths"][0]["loss"].keys() == {"value", "change", "interval"}
    table = steering_table(found)
    expected = [
        [row.strength, name, one.value, one.change, None, None, row.text]
        for row in found.strengths
        for name, one in figures(row).items()
    ]
    assert [[*row] for row in table.rows] == expected and len(table.columns) == 7


def test_what_is_beyond_chance_is_said_and_what_is_not_different_from_0_is_dim():
    """At strength 1 the loss lies within the random directions, to-tokens above them and from-tokens below."""
    unsteered, none = Change(0.7, 0.0, (0.0, 0.0)), Change(0.05, 0.0, (0.0, 0.0))
    plain = Steered(0.0, "a", unsteered, none, none)
    found = [Change(0.71, 0.01, (-0.01, 0.03)), Change(0.09, 0.04, (0.03, 0.05)), Change(0.03, -0.02, (-0.03, -0.01))]
    chance = {"loss": (0.0, 0.02), "to_tokens": (-0.01, 0.01), "from_tokens": (-0.015, 0.01)}
    made = Steering(
        *("1", "decoder", (6, 7), 1.5, 10.0, (("x",), (" y",)), "texts", "Tom"),
        strengths=(plain, Steered(1.0, "b", *found)),
        chance=chance,
        separation=(0.8, (0.3, 0.6)),
    )
    said = " ".join(printed(SteeringView(made), 140).split())
    assert "at strength 1; beyond all of them: to-tokens, from-tokens. Held-out texts: in 80.0 % of pairs" in said
    assert "further along, more than with texts shuffled between the sets (30.0 % to 60.0 %)" in said
    assert "0 0.700 5.00 5.00 +1 (+0.010) +4.00 -2.00 -0.010, +0.030 +3.00, +5.00 -3.00, -1.00" in said
    assert "Its norm: 1.5, 15.0 % of the stream's." in said and "to-tokens: ·y" in said
    assert [str(_cell(made.strengths[1], name).style) for name in FIGURES] == ["dim", "", ""]


def test_a_change_that_is_beyond_chance_is_written_so_that_one_sees_it():
    """Of 0.0102 and 0.0098 the third digit says nothing; a text that was cut says so."""
    none = Change(0.0, 0.0, (0.0, 0.0))
    steered_at = Steered(1.0, "b and c", Change(0.7102, 0.0102, (0.01, 0.02)), none, none, finish="length")
    made = Steering(
        *("1", "decoder", (1, 1), 1.5, 10.0, (("x",), (" y",)), "texts", "Tom"),
        strengths=(Steered(0.0, "a", Change(0.7, 0.0, (0.0, 0.0)), none, none, finish="end"), steered_at),
        chance={"loss": (0.002, 0.0098), "to_tokens": (0.0, 0.0), "from_tokens": (0.0, 0.0)},
        separation=None,
    )
    said = " ".join(printed(SteeringView(made), 140).split())
    assert "+1 +0.0102 " in said and "chance +0.0020, +0.0098 " in said and "beyond all of them: loss." in said
    assert said.endswith("greedily 0 a +1 b and c …")


def test_the_middle_layer_is_one_that_a_layer_reads_behind(trained: Callable[[str], Path]):
    run = load_run(trained("decoder"))
    assert run.config.model.num_layers == 2 and compute.chosen_layer(run, None) == "0"
