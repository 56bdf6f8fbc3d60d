"""What each architecture sees and what it must not see: the future and padding."""

from itertools import chain, product

import pytest
import torch

from tfcli.errors import UsageError

from .small import ARCHITECTURES, LENGTH, VOCAB, ids, inputs, model

NUM_LAYERS, NUM_HEADS = 2, 2


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_shapes(architecture: str):
    built = model(architecture)
    weights: dict[str, list[torch.Tensor]] = {}
    batch = inputs(architecture)
    assert built(*batch, weights=weights).shape == (2, batch[-1].shape[1], VOCAB)
    assert built.hidden(*batch).shape == (2, batch[-1].shape[1], 16)
    expected = {
        "decoder": {"decoder_self": (LENGTH, LENGTH)},
        "encoder": {"encoder_self": (LENGTH, LENGTH)},
        "encoder-decoder": {"encoder_self": (LENGTH, LENGTH), "decoder_self": (5, 5), "cross": (5, LENGTH)},
    }[architecture]
    assert {kind: [w.shape for w in layers] for kind, layers in weights.items()} == {
        kind: [(2, NUM_HEADS, *lengths)] * NUM_LAYERS for kind, lengths in expected.items()
    }


VARIANTS = [
    {"positions": p, "norm": n, "norm_placement": where, "activation": a}
    for p, n, where, a in product(
        ("sinusoidal", "learned", "rotary"), ("layernorm", "rmsnorm"), ("pre", "post"), ("relu", "gelu", "swiglu")
    )
]
OTHER_VARIANTS = [
    {"num_heads": 4, "num_kv_heads": 2},
    {"head_dim": 10},
    {"attention_bias": True, "feed_forward_bias": True},
    {"attention_bias": True, "attention_output_bias": False},
    {"tie_embeddings": False, "scale_embeddings": True},
    {"positions": "none"},
    {"positions": "alibi"},
    {"positions": "alibi", "num_heads": 4, "num_kv_heads": 1, "sliding_window": 2},
    {"positions": "t5", "attention_score": "dot", "position_buckets": 8, "position_max_distance": 6},
    {"positions": "rotary", "position_layout": "interleaved", "position_scaling": 2.0},
    {"positions": "learned", "position_merge": "query_key", "position_offset": 2},
    {"positions": "sinusoidal", "position_merge": "query_key", "position_layout": "halves"},
    {"positions": "learned", "position_merge": "concat", "position_dim": 5, "tie_embeddings": False},
    {"positions": "sinusoidal", "position_merge": "concat", "position_scaling": 2.0, "tie_embeddings": False},
    {"sliding_window": 1},
    {"sliding_window": 3, "norm_placement": "post"},
    {"attention_score": "dot"},
    {"attention_score": "additive", "positions": "learned"},
    {"attention_score": "additive", "positions": "alibi", "num_heads": 4, "num_kv_heads": 2},
    {"attention_score": "parameter_free"},
    {"attention_score": "parameter_free", "positions": "t5", "sliding_window": 2},
    {"attention_softcap": 1.0},
    {"attention_softcap": 1.0, "positions": "t5", "query_key_norm": True},
    {"query_key_norm": True},
    {"query_key_norm": True, "norm": "layernorm", "num_heads": 4, "num_kv_heads": 2},
    {"norm": "layernorm", "norm_bias": False},
    {"norm": "layernorm", "norm_affine": False},
    {"norm": "rmsnorm", "norm_affine": False, "query_key_norm": True},
    {"embedding_norm": True, "norm_placement": "post"},
    {"activation": "relu2"},
    {"activation": "gelu_tanh"},
    {"activation": "silu"},
    {"activation": "geglu", "feed_forward_bias": True},
    {"activation": "geglu_tanh"},
    {"head": "transform", "head_bias": True},
    {"head": "transform", "activation": "gelu", "norm": "layernorm", "tie_embeddings": False},
    {"scale_logits": True},
]


@pytest.mark.parametrize("variant", [*VARIANTS, *OTHER_VARIANTS], ids=lambda v: "-".join(map(str, v.values())))
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_asking_for_the_weights_changes_no_logits(architecture: str, variant: dict[str, object]):
    """The explicit path equals the fused one in every combination, on a padded batch; its rows sum to 1. Queries in the
    padding see nothing where their window holds padding alone: 0."""
    built = model(architecture, **variant)
    batch = inputs(architecture)
    padding = torch.ones(2, LENGTH, dtype=torch.bool)
    padding[1, 4:] = False
    weights: dict[str, list[torch.Tensor]] = {}
    for mask in (None, padding):
        weights.clear()
        with torch.no_grad():
            explicit = built(*batch, padding_mask=mask, weights=weights)
            torch.testing.assert_close(built(*batch, padding_mask=mask), explicit, atol=1e-9, rtol=0)
        for layer in chain.from_iterable(weights.values()):
            sums = layer.sum(-1)
            if mask is not None and "sliding_window" in variant:
                sums[1, :, 4:] += (sums[1, :, 4:] == 0).double()
            torch.testing.assert_close(sums, torch.ones(layer.shape[:-1]).double())


def target_logits(architecture: str, built, target: torch.Tensor) -> torch.Tensor:
    return built(ids(seed=9), target) if architecture == "encoder-decoder" else built(target)


CAUSAL = ("decoder", "encoder-decoder")
POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "t5")


@pytest.mark.parametrize("positions", [*POSITIONS, "none"])
@pytest.mark.parametrize("architecture", CAUSAL)
def test_changing_a_token_changes_nothing_before_it(architecture: str, positions: str):
    """And something at it and after it, or the test could not fail."""
    built = model(architecture, positions=positions)
    target = ids()
    before = target_logits(architecture, built, target)
    for position in range(LENGTH):
        changed = target.clone()
        changed[:, position] = (changed[:, position] + 1) % VOCAB
        after = target_logits(architecture, built, changed)
        torch.testing.assert_close(after[:, :position], before[:, :position], atol=0, rtol=0)
        for later in range(position, LENGTH):
            assert not torch.allclose(after[:, later], before[:, later]), f"{position} never reaches {later}"


@pytest.mark.parametrize("architecture", CAUSAL)
@pytest.mark.parametrize("explicit", [False, True], ids=["fused", "explicit"])
def test_no_gradient_comes_from_the_future(architecture: str, explicit: bool):
    """The derivative of the logits at t by the embeddings after t is exactly 0, and by those up to t it is
    not."""
    built = model(architecture, tie_embeddings=False, positions="learned")
    target = torch.arange(LENGTH)[None]  # every token once, so that a row of the embedding matrix is a position
    source = torch.full((1, 3), VOCAB - 1)
    weights: dict[str, list[torch.Tensor]] | None = {} if explicit else None
    batch = (source, target) if architecture == "encoder-decoder" else (target,)
    logits = built(*batch, weights=weights)
    for position in range(LENGTH):
        (gradient,) = torch.autograd.grad(logits[0, position].pow(2).sum(), built.embedding.weight, retain_graph=True)
        rows = gradient[:LENGTH].abs().sum(-1)
        assert rows[position + 1 :].count_nonzero() == 0
        assert (rows[: position + 1] > 0).all()


@pytest.mark.parametrize("positions", POSITIONS)
def test_an_encoder_sees_both_sides(positions: str):
    built, tokens = model("encoder", positions=positions), ids()
    before = built(tokens)
    changed = tokens.clone()
    changed[:, 3] = (changed[:, 3] + 1) % VOCAB
    for position in range(LENGTH):
        assert not torch.allclose(built(changed)[:, position], before[:, position])


@pytest.mark.parametrize("positions", POSITIONS)
def test_padding_changes_nothing_in_an_encoder(positions: str):
    """Four tokens alone give what they give with two more that are marked as padding, whichever these are."""
    built, tokens = model("encoder", positions=positions), ids(1)
    mask = torch.tensor([[True] * 4 + [False] * 2])
    torch.testing.assert_close(built(tokens, mask)[:, :4], built(tokens[:, :4]), atol=1e-12, rtol=0)
    assert not torch.allclose(built(tokens)[:, :4], built(tokens[:, :4]))


def test_padding_at_the_end_changes_nothing_in_a_decoder():
    built, tokens = model("decoder"), ids(1)
    mask = torch.tensor([[True] * 4 + [False] * 2])
    torch.testing.assert_close(built(tokens, mask)[:, :4], built(tokens[:, :4]), atol=1e-12, rtol=0)


@pytest.mark.parametrize("positions", POSITIONS)
def test_source_padding_changes_nothing_in_an_encoder_decoder(positions: str):
    """In the encoder's self-attention and in cross-attention alike."""
    built, source, target = model("encoder-decoder", positions=positions), ids(1), ids(1, 5, seed=1)
    mask = torch.tensor([[True] * 4 + [False] * 2])
    torch.testing.assert_close(built(source, target, mask), built(source[:, :4], target), atol=1e-12, rtol=0)
    assert not torch.allclose(built(source, target), built(source[:, :4], target))


def test_the_target_of_an_encoder_decoder_sees_the_whole_source():
    built, target = model("encoder-decoder"), ids(1, 5, seed=1)
    source = ids(1)
    before = built(source, target)
    for position in range(LENGTH):
        changed = source.clone()
        changed[:, position] = (changed[:, position] + 1) % VOCAB
        assert not torch.allclose(built(changed, target)[:, 0], before[:, 0])


ORDER = torch.tensor([3, 1, 5, 0, 2, 4])


def test_without_positions_an_encoder_would_not_know_the_order_and_with_them_it_does():
    """Learned positions of 0 are none: permuting the tokens then permutes the logits (Bishop, section
    12.1.9)."""
    built, tokens = model("encoder", positions="learned"), ids(1)
    assert not torch.allclose(built(tokens[:, ORDER]), built(tokens)[:, ORDER])
    with torch.no_grad():
        built.embedding.positions.zero_()
    torch.testing.assert_close(built(tokens[:, ORDER]), built(tokens)[:, ORDER])


@pytest.mark.parametrize("score", ["scaled_dot", "dot", "additive", "parameter_free"])
def test_no_positions_are_none(score: str):
    built, tokens = model("encoder", positions="none", attention_score=score), ids(1)
    torch.testing.assert_close(built(tokens[:, ORDER]), built(tokens)[:, ORDER])


JOINED = [*product(("sinusoidal", "learned"), ("add", "concat", "query_key"))]


@pytest.mark.parametrize(("positions", "merge"), [*JOINED, ("rotary", "add"), ("alibi", "add"), ("t5", "add")])
def test_every_kind_of_positions_tells_the_order(positions: str, merge: str):
    built = model("encoder", positions=positions, position_merge=merge, tie_embeddings=merge != "concat")
    tokens = ids(1)
    assert not torch.allclose(built(tokens[:, ORDER]), built(tokens)[:, ORDER])


@pytest.mark.parametrize("positions", ["alibi", "t5", "none", "rotary"])
def test_relative_positions_do_not_know_where_a_text_begins(positions: str):
    """A window of 2 in one layer sees the token and the one before it: the same two tokens later in a text answer
    alike."""
    built = model("decoder", positions=positions, sliding_window=2, num_layers=1)
    tokens = torch.tensor([[1, 2, 3, 7, 8, 1, 2, 3]])
    logits = built(tokens)[0]
    torch.testing.assert_close(logits[1:3], logits[6:8], atol=1e-6, rtol=0)


@pytest.mark.parametrize("explicit", [False, True], ids=["fused", "explicit"])
@pytest.mark.parametrize("architecture", ["decoder", "encoder"])
def test_a_window_reaches_further_with_every_layer(architecture: str, explicit: bool):
    """Two layers of a window of 2: a change at position 3 of 9 reaches 2 positions on, and in an encoder 2 back."""
    built, tokens = model(architecture, sliding_window=2, num_layers=2), ids(1, 9)
    changed = tokens.clone()
    changed[:, 3] = (changed[:, 3] + 1) % VOCAB
    before, after = (built(t, weights={} if explicit else None)[0] for t in (tokens, changed))
    reached = [position for position in range(9) if not torch.equal(before[position], after[position])]
    assert reached == ([3, 4, 5] if architecture == "decoder" else [1, 2, 3, 4, 5])


def test_a_window_of_an_encoder_decoder_leaves_cross_attention_open():
    """The first target token sees itself alone in the target, and through one layer of each stack the whole source."""
    built = model("encoder-decoder", sliding_window=1, num_layers=1)
    weights: dict[str, list[torch.Tensor]] = {}
    built(*inputs("encoder-decoder"), weights=weights)
    own = torch.eye(LENGTH).double().expand(2, 2, -1, -1)
    torch.testing.assert_close(weights["encoder_self"][0], own)
    torch.testing.assert_close(weights["decoder_self"][0], own[:, :, :5, :5])
    assert (weights["cross"][0] > 0).all()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_segments_are_told_apart_by_an_encoder_alone(architecture: str):
    if architecture != "encoder":
        with pytest.raises(UsageError, match=r"model\.token_types = 2 .* model\.architecture = 'encoder'"):
            model(architecture, token_types=2)
        return
    built, tokens = model(architecture, token_types=2), ids()
    first, second = torch.zeros_like(tokens), torch.ones_like(tokens)
    torch.testing.assert_close(built(tokens, token_type_ids=first), built(tokens), atol=0, rtol=0)
    assert not torch.allclose(built(tokens, token_type_ids=second), built(tokens))


def test_a_decoder_may_be_deeper_than_its_encoder():
    built = model("encoder-decoder", num_layers=1, num_decoder_layers=3)
    assert (len(built.encoder.layers), len(built.decoder.layers)) == (1, 3)
    weights: dict[str, list[torch.Tensor]] = {}
    built(*inputs("encoder-decoder"), weights=weights)
    assert {kind: len(layers) for kind, layers in weights.items()} == {"encoder_self": 1, "decoder_self": 3, "cross": 3}


def test_each_side_of_an_encoder_decoder_has_its_own_positions():
    """Source and target stand at positions of their own tables; T5's biases are both-way and one-way ones."""
    built = model("encoder-decoder", positions="learned")
    assert built.embedding.positions is not built.target_embedding.positions
    built = model("encoder-decoder", positions="t5")
    assert built.encoder.positions.relative_bias.bidirectional
    assert not built.decoder.positions.relative_bias.bidirectional
