"""Bahdanau's attention in an RNN: his formula by hand, the whole model in loops, gradients as autograd has them."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.cli.commands import tfcli
from tests.models.small import section
from tests.support.consoles import printed
from tfcli.data.batch import IGNORED, Batch
from tfcli.inspection.attention import AttentionRecord
from tfcli.inspection.recurrent import ComparedModel, RecurrentRecord, compute
from tfcli.inspection.recurrent.compute import RecurrentEncoderDecoder, gradients_by_distance
from tfcli.inspection.recurrent.view import RecurrentView, recurrent_table
from tfcli.models.transformer import AttentionWeights
from tfcli.recipe import loading
from tfcli.recipe.loading import read_recipe

Array = np.ndarray[Any, np.dtype[np.float64]]


def small(*, attends: bool = True, d_model: int = 3) -> RecurrentEncoderDecoder:
    """Of 12 words, in float64."""
    words = section(architecture="encoder-decoder", vocab_size=12)
    return RecurrentEncoderDecoder(words, d_model, attends=attends, seed=0).double()


def batch(*pairs: tuple[list[int], list[int]]) -> Batch:
    """Sources, and targets behind the token 1, padded with 0; what is predicted ends with 2."""
    sources, targets = (max(len(pair[side]) for pair in pairs) for side in (0, 1))
    ids = np.array([[*one, *[0] * (sources - len(one))] for one, _ in pairs])
    read = np.array([[1, *one, *[0] * (targets - len(one))] for _, one in pairs])
    labels = np.array([[*one, 2, *[IGNORED] * (targets - len(one))] for _, one in pairs])
    return Batch(ids, labels, np.array([[at < len(one) for at in range(sources)] for one, _ in pairs]), read)


def looked(model: RecurrentEncoderDecoder, given: Batch) -> tuple[Array, Array]:
    """Its logits and its weights."""
    weights: AttentionWeights = {}
    ids, read, mask = (torch.as_tensor(one) for one in (given.input_ids, given.decoder_input_ids, given.padding_mask))
    with torch.inference_mode():
        logits = model.head(model.hidden(ids, read, mask, weights=weights))
    return logits.numpy(), weights["cross"][0][:, 0].numpy() if weights else np.empty(0)


def gru(x: Array, h: Array, w_ih: Array, w_hh: Array) -> Array:
    """r and z are gates, n is new: h' = (1 − z) n + z h (Cho et al. 2014, with r outside the product, as PyTorch)."""
    (xr, xz, xn), (hr, hz, hn) = np.split(w_ih @ x, 3), np.split(w_hh @ h, 3)
    r, z = 1 / (1 + np.exp(-xr - hr)), 1 / (1 + np.exp(-xz - hz))
    new = np.tanh(xn + r * hn)
    result: Array = (1 - z) * new + z * h
    return result


def by_loops(model: RecurrentEncoderDecoder, source: list[int], read: list[int]) -> tuple[Array, Array]:
    """Equations 4 to 6 and A.1.2, word by word and without a batch: logits (T, Vocab) and weights (T, S)."""
    w = {name: values.detach().numpy() for name, values in model.named_parameters()}
    head, size = w["embedding.weight"], model.section.d_model
    embedding = head * size**0.5
    states: dict[str, list[Array]] = {}
    for suffix, words in (("l0", source), ("l0_reverse", source[::-1])):
        states[suffix] = [np.zeros(size)]
        for word in words:
            of_this = w[f"encoder.weight_ih_{suffix}"], w[f"encoder.weight_hh_{suffix}"]
            states[suffix].append(gru(embedding[word], states[suffix][-1], *of_this))
    backward = states["l0_reverse"][1:][::-1]
    h = [np.concatenate(both) for both in zip(states["l0"][1:], backward, strict=True)]
    s = np.tanh(w["start.weight"] @ backward[0] + w["start.bias"])
    logits, alphas = [], []
    for word in read:
        step = embedding[word]
        if model.attends:
            e = [(w["score.weight"][0] * np.tanh(w["query.weight"] @ s + w["key.weight"] @ one)).sum() for one in h]
            alphas.append(np.exp(e) / np.exp(e).sum())
            step = np.concatenate([step, sum(a * one for a, one in zip(alphas[-1], h, strict=True))])
        s = gru(step, s, w["decoder.weight_ih"], w["decoder.weight_hh"])
        output = np.tanh(w["output.weight"] @ np.concatenate([s, step]) + w["output.bias"])
        logits.append(head @ output)
    return np.array(logits), np.array(alphas)


@pytest.mark.parametrize("attends", [True, False])
def test_the_whole_model_is_that_of_the_paper_word_by_word(attends: bool):
    """Beside a longer sentence, so that there is padding on both sides."""
    model = small(attends=attends)
    logits, weights = looked(model, batch(([5, 6, 7, 2], [8, 9]), ([4, 5, 6, 7, 8, 9, 2], [6, 7, 8, 9])))
    for row, source, read in ((0, [5, 6, 7, 2], [1, 8, 9]), (1, [4, 5, 6, 7, 8, 9, 2], [1, 6, 7, 8, 9])):
        expected, alphas = by_loops(model, source, read)
        assert logits[row, : len(read)] == pytest.approx(expected, abs=1e-9)
        if attends:
            assert weights[row, : len(read), : len(source)] == pytest.approx(alphas, abs=1e-9)
            assert weights[row].sum(-1) == pytest.approx(1)
            assert (weights[row, :, len(source) :] == 0).all(), "padding gets exactly nothing"


def test_without_attention_the_source_tells_by_the_first_state_alone():
    model = small(attends=False)
    with torch.no_grad():
        model.start.weight.zero_()
    logits, _ = looked(model, batch(([5, 6, 7, 2], [8, 9]), ([9, 8, 2], [8, 9])))
    assert logits[0] == pytest.approx(logits[1])


@pytest.mark.parametrize("attends", [True, False])
def test_the_gradient_over_distance_is_that_of_the_jacobian(attends: bool, monkeypatch: pytest.MonkeyPatch):
    """Source words j = 0, 1, 2 and output words t = 0, 1, without the two ends: distances j + t + 1 = 1 … 4."""
    model, given = small(attends=attends), batch(([5, 6, 7, 2], [8, 9]))
    ids = torch.tensor([[5, 6, 7, 2]])
    own = model.embedding(ids).detach()
    tokens = model.embedding.weight

    def logits_of_labels(vectors: torch.Tensor) -> torch.Tensor:
        """With the source's embeddings given: the model, its GRUs run by PyTorch's own functions."""
        annotations, last = model.encoder(vectors)
        state, found = torch.tanh(model.start(last[1])), []
        for word, label in ((1, 8), (8, 9)):
            step = tokens[[word]] * 3**0.5
            if model.attends:
                e = torch.tanh(model.query(state) + model.key(annotations[0])) @ model.score.weight[0]
                step = torch.cat([step, e.softmax(0)[None] @ annotations[0]], -1)
            state = model.decoder(step, state)
            found.append(tokens[label] @ torch.tanh(model.output(torch.cat([state, step], -1)))[0])
        return torch.stack(found)

    assert looked(model, given)[0][0, [0, 1], [8, 9]] == pytest.approx(logits_of_labels(own).detach().numpy())
    slopes = torch.autograd.functional.jacobian(logits_of_labels, own)[:, 0].norm(dim=-1).numpy()  # type: ignore[no-untyped-call]
    monkeypatch.setattr(compute, "_FEWEST", 1)
    found = gradients_by_distance(model, [given])
    assert [distance for distance, _ in found] == [1, 2, 3, 4]
    for distance, value in found:
        there = [slopes[t, j] for t in range(2) for j in range(3) if t + j + 1 == distance]
        assert value == pytest.approx(np.sqrt(np.mean(np.square(there))))


@pytest.mark.parametrize("attends", [True, False])
def test_it_learns_pairs_by_heart(attends: bool):
    model, given = small(attends=attends, d_model=16), batch(([5, 6, 7, 2], [8, 9]), ([4, 5, 6, 7, 2], [6, 7, 8, 9]))
    ids, read, mask = (torch.as_tensor(one) for one in (given.input_ids, given.decoder_input_ids, given.padding_mask))
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=2e-2), []
    for _ in range(12):
        loss = F.cross_entropy(model(ids, read, mask).flatten(0, 1), torch.as_tensor(given.labels).flatten())
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert losses[-1] < 0.5 * losses[0]


def record() -> RecurrentRecord:
    weights = np.array([[[[0.75, 0.25], [0.5, 0.5]]]], dtype=np.float32)
    looked = AttentionRecord("cross", ("<s>", "the"), ("o", "livro"), weights, next_tokens=("the", "book"))
    figures = [
        ("RNN", 300860, 1.368, (1.357, 1.379), 0.02, (0.4, 0.1)),
        ("RNN with attention", 298234, 0.063, (0.061, 0.065), 0.03, (0.3, 0.27)),
        ("transformer", 298880, 0.036, (0.033, 0.039), 0.025, (0.5, 0.45)),
    ]
    models = [
        ComparedModel(
            name,
            parameters,
            loss,
            interval,
            step_seconds=seconds,
            gradient=tuple((at, near if at <= 4 else far) for at in range(1, 9)),
            alignment=None if name == "RNN" else looked,
        )
        for name, parameters, loss, interval, seconds, (near, far) in figures
    ]
    return RecurrentRecord(600, 0, 1, 5586, tuple(models))


@pytest.mark.parametrize("width", [60, 80, 140])
def test_the_picture_says_what_was_measured_at_every_width(width: int):
    shown = printed(RecurrentView(record()), width)
    assert max(map(len, shown.splitlines())) <= width
    together = " ".join(shown.split())
    for words in (
        *("v_aᵀ tanh(W s_(i−1) + U h_j)", "q_i · k_j / √D_k", "5,586 held-out pairs", "<s> → the .75 .25"),
        *("300,860 1.368 1.357–1.379 20", "298,234 0.063 0.061–0.065 30", "298,880 0.036 0.033–0.039 25"),
        *("multiplied by 0.25 in the RNN, by 0.90 in the RNN with attention, and by 0.90 in the transformer",),
    ):
        assert words in together, words


def test_the_csv_has_a_row_a_model_and_distance():
    table = recurrent_table(record())
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert len(rows) == 3 * 8
    at = {"distance": 8, "gradient": 0.45}
    told = {"loss": 0.036, "loss_from": 0.033, "loss_to": 0.039, "step_seconds": 0.025}
    assert rows[-1] == {"model": "transformer", "parameters": 298880, **told, **at}


@pytest.fixture
def few_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute, "_EVERY", 1)
    monkeypatch.setattr(compute, "_FEWEST", 1)
    recipe = read_recipe("pt-en")
    recipe["data"]["max_documents"] = 1500
    monkeypatch.setattr(loading, "read_recipe", lambda name: recipe)


@pytest.mark.usefixtures("few_pairs")
def test_the_command_trains_the_same_models_from_a_seed():
    first, again, other = (
        json.loads(tfcli("inspect", "recurrent", "--steps", "2", "--seed", seed, "--json").stdout)["models"]
        for seed in "001"
    )
    for one in (*first, *again):
        assert one.pop("step_seconds") > 0
    assert first == again
    assert first[0]["loss"] != other[0]["loss"]
    assert [one["parameters"] / first[2]["parameters"] for one in first] == pytest.approx([1, 1, 1], rel=0.02)
    assert first[0]["alignment"] is None
    for one in first:
        assert one["interval"][0] < one["loss"] < one["interval"][1]
        if looked := one["alignment"]:
            assert looked["key_tokens"][-3:] == ["Rio", ".", "</s>"]
            assert looked["query_tokens"][0] == "<s>"
            assert looked["query_tokens"][1:] == looked["next_tokens"][:-1]
            assert np.array(looked["weights"]).sum(-1) == pytest.approx(1, abs=1e-5)


@pytest.mark.usefixtures("few_pairs")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([""], "The text is empty; give a few words"),
        (["O zebu dorme."], "The text has 4 tokens, 2 of them unknown"),
        ([" ".join(["Lucas"] * 48)], "The text has 48 tokens, 0 of them unknown; the models read 1 to 47 known ones"),
        (["--steps", "0"], "--steps"),
    ],
)
def test_what_cannot_be_translated_is_refused_before_any_training(arguments: list[str], words: str):
    result = tfcli("inspect", "recurrent", *arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.replace("│", " ").split())
    assert not result.stdout


@pytest.mark.slow
def test_attention_finds_the_words_and_the_state_alone_does_not():
    """The row's claim, trained: with attention the loss is a fraction, gradients do not fall with distance, and what
    looks is the next word: `Rio` and `December` at their own, whose order differs."""
    models = json.loads(tfcli("inspect", "recurrent", "--json").stdout)["models"]
    plain, attending, transformer = (one["loss"] for one in models)
    assert attending < 0.2 * plain
    assert transformer < 0.2 * plain
    assert models[0]["interval"][0] > 5 * models[1]["interval"][1], "far beyond the chance of the pairs"
    gradient = np.array([[value for _, value in one["gradient"]] for one in models]).T
    kept = gradient[-4:].mean(0) / gradient[:4].mean(0)
    assert kept[0] < 0.4 < 0.6 < kept[1:].min()
    for looked in (one["alignment"] for one in models[1:]):
        weights = dict(
            zip(looked["next_tokens"], looked["weights"][looked["focus"][0]][looked["focus"][1]], strict=True)
        )
        for word, source in (("Rio", ("Rio", "ao")), ("December", ("Dezembro",))):
            assert looked["key_tokens"][int(np.argmax(weights[word]))] in source
