"""What each architecture sees and what it must not see: the future and padding."""

from itertools import chain, product

import pytest
import torch

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
        ("sinusoidal", "learned", "rotary"),
        ("layernorm", "rmsnorm"),
        ("pre", "post"),
        ("relu", "gelu", "swiglu"),
    )
]
OTHER_VARIANTS = [
    {"num_heads": 4, "num_kv_heads": 2},
    {"head_dim": 10},
    {"attention_bias": True, "feed_forward_bias": True},
    {"tie_embeddings": False, "scale_embeddings": True},
]


@pytest.mark.parametrize("variant", [*VARIANTS, *OTHER_VARIANTS], ids=lambda v: "-".join(map(str, v.values())))
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_asking_for_the_weights_changes_no_logits(architecture: str, variant: dict[str, object]):
    """The explicit path equals the fused one in every combination, on a padded batch; its rows sum to 1."""
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
            torch.testing.assert_close(layer.sum(-1), torch.ones(layer.shape[:-1]).double())


def target_logits(architecture: str, built, target: torch.Tensor) -> torch.Tensor:
    return built(ids(seed=9), target) if architecture == "encoder-decoder" else built(target)


CAUSAL = ("decoder", "encoder-decoder")


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
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


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_an_encoder_sees_both_sides(positions: str):
    built, tokens = model("encoder", positions=positions), ids()
    before = built(tokens)
    changed = tokens.clone()
    changed[:, 3] = (changed[:, 3] + 1) % VOCAB
    for position in range(LENGTH):
        assert not torch.allclose(built(changed)[:, position], before[:, position])


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
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


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
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


def test_without_positions_an_encoder_would_not_know_the_order_and_with_them_it_does():
    """Learned positions of 0 are none: permuting the tokens then permutes the logits (Bishop, section
    12.1.9)."""
    built, tokens, order = model("encoder", positions="learned"), ids(1), torch.tensor([3, 1, 5, 0, 2, 4])
    assert not torch.allclose(built(tokens[:, order]), built(tokens)[:, order])
    with torch.no_grad():
        built.embedding.positions.zero_()
    torch.testing.assert_close(built(tokens[:, order]), built(tokens)[:, order])
