"""Heads: roles planted by hand and found, figures of real runs measured again from the weights that are shown."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tfcli.corpora.pt_en import pairs
from tfcli.errors import UsageError
from tfcli.inspection.attention import AttentionKind
from tfcli.inspection.attention.compute import attention
from tfcli.inspection.heads import NO_ROLE, HeadStatistics
from tfcli.inspection.heads.find import Material, given, sampled, surface
from tfcli.inspection.heads.roles import example, heads, heads_on
from tfcli.inspection.heads.statistics import Copies, kind_weights, repeated_sequences, spelled
from tfcli.inspection.passes import Inputs, framed
from tfcli.models.build import build_model
from tfcli.pipeline.datasets import dataset_of_run
from tfcli.runs.load import LoadedRun, load_run

TEXT = "Tom swam to the bank"
STORIES = [
    f"{who} {did}, near a {what}. It is."
    for who in ("Tom", "Mia")
    for did in ("sat", "ran")
    for what in ("cup", "drum", "kite")
] * 2

Sees = Callable[[str, int, int], bool]
"""Of a text with its special tokens as < and >: whether query t looks at key s."""


@pytest.fixture(scope="module")
def decoder(trained: Callable[[str], Path]) -> LoadedRun:
    return load_run(trained("decoder"))


@pytest.fixture(scope="module")
def encoder(trained: Callable[[str], Path]) -> LoadedRun:
    return load_run(trained("encoder"))


@pytest.fixture(scope="module")
def translator(trained: Callable[[str], Path]) -> LoadedRun:
    return load_run(trained("encoder-decoder"))


def validation(run: LoadedRun) -> Material:
    return sampled(run, dataset_of_run(run.directory, run.recipe, lambda event: None), "its validation part")


def named(
    run: LoadedRun, kind: AttentionKind, material: Material, weights: Callable[[int], NDArray[Any]]
) -> HeadStatistics:
    """The one head whose weights on text `number` are `weights(number)`, (T, S); nothing is where it must not look."""

    def read(number: int) -> Any:
        own = np.array(weights(number), float)
        causal = np.tri(*own.shape, dtype=bool) if kind == "decoder_self" else np.ones(own.shape, bool)
        passed = SimpleNamespace(weights=torch.tensor(own)[None], mask=torch.tensor(causal))
        return SimpleNamespace(attentions=lambda _: [passed])

    [head] = heads_on(run, [kind], material, read, Copies(None, 0, {}))
    return head


def planted(run: LoadedRun, kind: AttentionKind, sees: Sees) -> HeadStatistics:
    """A head that looks at what it `sees`, at all of it alike, and at everything alike where it sees nothing."""
    texts = tuple(framed(run, run.tokenizer.encode(story)) for story in STORIES)
    if kind == "encoder_self":
        texts = tuple(replace(one, encoder=(*one.encoder[:-1], run.config.roles.eos)) for one in texts if one.encoder)
    letters = [f"<{story}{'>' if kind == 'encoder_self' else ''}" for story in STORIES]

    def weights(number: int) -> NDArray[Any]:
        text, length = letters[number], len(letters[number])
        visible = np.tri(length) if kind == "decoder_self" else np.ones((length, length))
        rows = np.array([[sees(text, t, s) for s in range(length)] for t in range(length)]) * visible
        rows = np.where(rows.any(1, keepdims=True), rows, visible)
        return rows / rows.sum(1, keepdims=True)

    return named(run, kind, Material("stories", texts, True, {}), weights)


def last_word(*words: str) -> Sees:
    """At the last of these words that ends before the query's letter."""

    def sees(text: str, t: int, s: int) -> bool:
        ends = [(text.rfind(word, 0, t), word) for word in words if text.rfind(word, 0, t) >= 0]
        start, word = max(ends, default=(0, ""))
        return start <= s < start + len(word)

    return sees


@pytest.mark.parametrize(
    ("role", "kind", "sees"),
    [
        ("previous token", "decoder_self", lambda text, t, s: s == t - 1),
        ("3 tokens before", "decoder_self", lambda text, t, s: s == t - 3),
        ("next token", "encoder_self", lambda text, t, s: s == t + 1),
        ("2 tokens after", "encoder_self", lambda text, t, s: s == t + 2),
        ("itself", "decoder_self", lambda text, t, s: s == t),
        ("first token", "decoder_self", lambda text, t, s: s == 0),
        ("end mark", "encoder_self", lambda text, t, s: text[s] == ">" and s != t),
        ("same token", "decoder_self", lambda text, t, s: text[s] == text[t] and s != t),
        ("after the same token", "decoder_self", lambda text, t, s: 0 < s < t and text[s - 1] == text[t]),
        ("punctuation", "encoder_self", lambda text, t, s: text[s] in ".," and s != t),
        ("end of a sentence", "encoder_self", lambda text, t, s: text[s] == "." and s != t),
        ("space", "decoder_self", lambda text, t, s: text[s] == " " and s != t),
        ("who acts", "decoder_self", last_word("Tom", "Mia")),
        ("verb", "decoder_self", last_word("sat", "ran")),
        ("where", "decoder_self", last_word("near")),
        ("thing", "decoder_self", last_word("cup", "drum", "kite")),
    ],
)
def test_a_planted_role_is_found(decoder: LoadedRun, encoder: LoadedRun, role: str, kind: AttentionKind, sees: Sees):
    head = planted(decoder if kind == "decoder_self" else encoder, kind, sees)
    assert head.role == role
    assert head.does is not None and head.at == ()
    assert head.does.share == pytest.approx(1.0)
    assert head.does.low == pytest.approx(1.0)
    assert head.does.chance < 0.35
    assert head.example.weight > 0.15


def test_a_head_that_looks_at_everything_alike_has_no_role(decoder: LoadedRun):
    head = planted(decoder, "decoder_self", lambda text, t, s: True)
    assert (head.role, head.does, head.beside) == (NO_ROLE, None, None)
    assert head.entropy_share == pytest.approx(1.0)
    previous = head.of("previous token")
    assert previous is not None and previous.share == pytest.approx(previous.chance)


def test_a_head_at_random_has_no_role(decoder: LoadedRun):
    texts = tuple(framed(decoder, decoder.tokenizer.encode(story)) for story in STORIES)

    def weights(number: int) -> NDArray[Any]:
        scores = np.random.default_rng(number).normal(0, 3, (len(STORIES[number]) + 1,) * 2)
        shown = np.exp(scores) * np.tri(len(scores))
        return shown / shown.sum(1, keepdims=True)

    assert named(decoder, "decoder_self", Material("stories", texts, True, {}), weights).role == NO_ROLE


def test_a_role_at_some_words_alone_names_them(decoder: LoadedRun):
    head = planted(decoder, "decoder_self", lambda text, t, s: s == t - 1 if text[t] in "ia" else True)
    assert (head.role, set(head.at)) == ("previous token", {"i", "a"})
    assert head.does is not None and head.does.share == pytest.approx(1.0)
    rows = [letter in "ia" for story in STORIES[1::2] for letter in f"<{story}"]
    assert head.does.rows == sum(rows)
    assert head.does.coverage == pytest.approx(np.mean(rows))


def test_a_role_is_measured_on_other_texts_than_it_was_chosen_on(decoder: LoadedRun):
    """Texts 0, 2, 4 … show a head that looks at the token before; the others know nothing of it."""
    texts = tuple(framed(decoder, decoder.tokenizer.encode(story)) for story in STORIES)

    def weights(number: int) -> NDArray[Any]:
        length = len(STORIES[number]) + 1
        visible = np.eye(length, k=-1) if number % 2 == 0 else np.tri(length)
        visible[0, 0] = 1
        return visible / visible.sum(1, keepdims=True)

    head = named(decoder, "decoder_self", Material("stories", texts, False, {}), weights)
    assert (head.role, head.does) == (NO_ROLE, None)


def test_a_head_that_looks_for_something_rests_on_the_first_token(decoder: LoadedRun):
    """Its role is what it looks for, though most of its rows have no such thing."""
    head = planted(
        decoder, "decoder_self", lambda text, t, s: s == (text.rfind("near", 0, t) if "near" in text[:t] else 0)
    )
    assert head.role == "where"
    head = planted(decoder, "decoder_self", lambda text, t, s: s == (t - 1 if t % 3 else 0))
    assert (head.role, head.beside) == ("previous token", "first token")


@pytest.mark.parametrize("role", ["aligned word", "same place"])
def test_roles_of_cross_attention(translator: LoadedRun, role: str):
    own = [
        pair
        for pair, _ in zip(pairs(), range(80), strict=False)
        if len(spelled(translator.tokenizer, pair.target).ids) > 6
    ][:24]
    words = [(spelled(translator.tokenizer, pair.source), spelled(translator.tokenizer, pair.target)) for pair in own]
    texts = tuple(framed(translator, source.ids, target.ids) for source, target in words)

    def weights(number: int) -> NDArray[Any]:
        (source, target), pair = words[number], own[number]
        found = np.full((1 + len(target.ids), 1 + len(source.ids)), 1e-9)
        if role == "same place":  # query t of T stands where key t · S / T does
            for t in range(len(found)):
                found[t, round(t * (found.shape[1] - 1) / (len(found) - 1))] = 1
        for i, j in pair.alignment if role == "aligned word" else ():
            if target.places[j]:
                found[target.places[j][0], source.places[i][0]] = 1
        return found / found.sum(1, keepdims=True)

    head = named(translator, "cross", Material("pairs", texts, False, dict(enumerate(own))), weights)
    assert head.role == role
    assert head.does is not None and head.does.share > 0.95 and head.does.low is not None
    assert head.example.source is not None


def test_statistics_are_those_of_the_weights_shown(decoder: LoadedRun):
    [shown] = attention(decoder, TEXT)
    record = heads(decoder, given(decoder, TEXT, None))
    assert [(head.layer, head.head) for head in record.heads] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert (record.measured_on, record.texts, record.chosen_apart) == ("the text", 1, False)
    for head in record.heads:
        weights = shown.weights[head.layer, head.head].astype(np.float64)
        rows = range(1, len(weights))
        shares = {
            "previous token": [weights[t, t - 1] for t in rows],
            "first token": [weights[t, 0] for t in rows],
            "itself": [weights[t, t] for t in rows],
        }
        for role, expected in shares.items():
            found = head.of(role)
            assert found is not None and (found.low, found.rows) == (None, len(rows))
            assert found.share == pytest.approx(np.mean(expected), abs=1e-6)
            assert found.chance == pytest.approx(np.mean([1 / (t + 1) for t in rows]))
        assert head.sharpness == pytest.approx(np.mean(weights.max(axis=1)), abs=1e-6)
        assert (head.of("next token"), head.in_order, head.at) == (None, None, ())
        one = head.example
        query, key = (
            surface(decoder.tokenizer, framed(decoder, decoder.tokenizer.encode(TEXT)).decoder or ()).spans.index(at)
            for at in (one.query, one.key)
        )
        assert one.weight == pytest.approx(weights[query, key], abs=1e-6), "the number shown is the weight itself"


def test_copies_are_measured_on_random_tokens_read_twice(decoder: LoadedRun):
    """32 positions hold <s> and two copies of 15 tokens; query 16 + i is the second copy of token 1 + i."""
    period, _, sequences = repeated_sequences(decoder)
    first = sequences[0].decoder
    assert first is not None
    assert (len(first), period) == (31, 15)
    assert first[1:16] == first[16:]
    assert len(set(first[1:16])) == 15
    assert sequences == repeated_sequences(decoder)[2], "always the same"
    expected = []
    for sequence in sequences:
        weights = kind_weights(decoder, sequence, "decoder_self")[1, 0]
        expected.append(np.mean([weights[16 + i, 2 + i] for i in range(15)]))
    [head] = heads(decoder, given(decoder, TEXT, None), place=(1, 0)).heads
    assert head.induction == pytest.approx(np.mean(expected), abs=1e-6)


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder-decoder"])
def test_the_runs_own_validation_text_is_sampled_always_alike(trained: Callable[[str], Path], architecture: str):
    run = load_run(trained(architecture))
    data = dataset_of_run(run.directory, run.recipe, lambda event: None)
    material = validation(run)
    assert material.texts == validation(run).texts
    longest = run.config.model.max_seq_len
    assert all(2 <= len(side) <= longest for one in material.texts for side in (one.encoder, one.decoder) if side)
    if architecture == "encoder-decoder":
        view = data.pairs("validation")
        known = {tuple(view.target.sequence(n)[:longest].tolist()) for n in range(len(view))}
        assert all(one.decoder in known for one in material.texts)
        assert len(material.aligned) == len(material.texts), "the grammar knows every pair"
    else:
        stream = data.text("validation")
        text = " ".join(map(str, stream.padded(np.array([0]), np.array([len(stream)]), 0)[0]))
        assert all(" ".join(map(str, one.encoder or one.decoder or ())) in text for one in material.texts)
        assert material.stories
    record = heads(run, material)
    assert record.chosen_apart and record.heads
    for head in record.heads:
        assert (head.role == NO_ROLE) == (head.does is None)
        assert all(0 <= one.chance <= 1 and -1e-6 <= one.share <= 1 + 1e-6 for one in head.shares)
        assert 0 < head.example.weight <= 1 + 1e-6


def test_an_encoders_favourite_tokens_hold_shares_of_its_weight(encoder: LoadedRun):
    """One text of three tokens: what each gets in the mean over the three rows."""
    [shown] = attention(encoder, "T")
    head = heads(encoder, given(encoder, "T", None)).heads[0]
    received = dict(zip(shown.key_tokens, shown.weights[0, 0].mean(axis=0).tolist(), strict=True))
    assert dict(head.favourites) == pytest.approx(received, abs=1e-6)
    assert [token for token, _ in head.favourites] == sorted(received, key=lambda token: -received[token])
    assert head.of("next token") is not None


@pytest.mark.parametrize(("query", "key"), [(31, 3), (30, 0)])
def test_what_an_example_gives_to_type_fits_into_the_context(decoder: LoadedRun, query: int, key: int):
    """A piece from the middle of a document fills all 32 places, and read again it gets an <s> before it."""
    text = "a house and a barn and a red mill"
    ids = tuple(decoder.tokenizer.encode(text)[:32])
    one = example(decoder, "decoder_self", Inputs(decoder=ids), query, key, 0.5)
    assert (one.text[slice(*one.query)], one.text[slice(*one.key)]) == (text[query], text[key])
    [read] = given(decoder, one.prompt, None).texts
    assert len(read.decoder or ()) <= 32


def test_what_cannot_be_measured_is_refused(decoder: LoadedRun):
    with pytest.raises(UsageError, match="This decoder has no cross attention"):
        heads(decoder, given(decoder, "Tom", None), "cross")
    with pytest.raises(UsageError, match="The text has one token"):
        given(decoder, "", None)
    with pytest.raises(UsageError, match="There is no layer 2: the model has 2; choose 0 to 1"):
        heads(decoder, given(decoder, "Tom", None), place=(2, 0))


def test_a_window_of_one_token_leaves_nothing_to_share(decoder: LoadedRun):
    """Every query sees itself alone: there is no chance to be better than, and no role."""
    config = replace(decoder.config, model=replace(decoder.config.model, sliding_window=1))
    alone = replace(decoder, config=config, model=build_model(config.model).eval())
    for head in heads(alone, given(alone, TEXT, None)).heads:
        assert (head.entropy, head.entropy_share, head.sharpness) == (0.0, None, 1.0)
        assert (head.role, head.shares) == (NO_ROLE, ())


def test_the_search_for_a_head_is_offered_where_it_can_be_had(decoder: LoadedRun, translator: LoadedRun):
    assert heads(decoder, given(decoder, TEXT, None)).finder is None, "no sentence with a bank fits into 32 tokens"
    config = replace(decoder.config, model=replace(decoder.config.model, max_seq_len=400))
    longer = replace(decoder, config=config, model=build_model(config.model).eval())
    assert heads(longer, given(decoder, TEXT, None)).finder == "bank"
    assert heads(translator, given(translator, "O gato", "The cat")).finder == "alignment"
    other = replace(translator, recipe=replace(translator.recipe, data=replace(translator.recipe.data, source="a.tsv")))
    assert heads(other, given(translator, "O gato", "The cat")).finder is None
