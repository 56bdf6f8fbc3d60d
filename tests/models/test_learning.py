"""Each architecture can learn: it overfits one small batch, and only through what it is allowed to see."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tfcli.models.build import build_model

from .small import section

VOCAB, MASK, START = 20, 18, 19
BATCH, LENGTH = 4, 10


def sequences() -> Tensor:
    return torch.randint(0, 18, (BATCH, LENGTH), generator=torch.Generator().manual_seed(3))


def batch(architecture: str) -> tuple[tuple[Tensor, ...], Tensor]:
    """Inputs and labels. Labels that are not asked for are −100."""
    tokens = sequences()
    started = torch.cat([torch.full((BATCH, 1), START), tokens[:, :-1]], dim=1)
    if architecture == "decoder":
        # The first token is the sequence's number: the start token alone would not tell the four apart.
        started[:, 0] = torch.arange(BATCH)
        return (started,), tokens
    if architecture == "encoder":
        hidden = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
        hidden[:, ::4] = True
        return (tokens.masked_fill(hidden, MASK),), tokens.masked_fill(~hidden, -100)
    return (tokens.flip(1), started), tokens


VARIANTS = [
    ("decoder", {}),
    ("decoder", {"positions": "learned", "norm": "layernorm", "activation": "gelu", "num_kv_heads": 1}),
    ("encoder", {}),
    ("encoder", {"positions": "learned", "norm": "layernorm", "norm_placement": "post", "activation": "gelu"}),
    ("encoder-decoder", {}),
    (
        "encoder-decoder",
        {"positions": "sinusoidal", "norm": "layernorm", "norm_placement": "post", "activation": "relu"},
    ),
    ("decoder", {"positions": "alibi", "attention_score": "additive", "activation": "geglu"}),
    ("decoder", {"query_key_norm": True, "attention_softcap": 5.0, "activation": "relu2", "position_layout": "halves"}),
    (
        "encoder",
        {
            "positions": "learned",
            "norm": "layernorm",
            "norm_placement": "post",
            "activation": "gelu",
            "head": "transform",
            "head_bias": True,
            "token_types": 2,
            "embedding_norm": True,
            "initialization": "bert",
        },
    ),
    (
        "encoder-decoder",
        {
            "positions": "t5",
            "attention_score": "dot",
            "activation": "relu",
            "initialization": "t5",
            "scale_logits": True,
        },
    ),
    (
        "encoder-decoder",
        {
            "positions": "learned",
            "position_merge": "concat",
            "tie_embeddings": False,
            "share_embeddings": False,
            "initialization": "vaswani2017",
        },
    ),
    ("encoder-decoder", {"positions": "learned", "position_merge": "query_key", "norm_affine": False}),
]


@pytest.mark.parametrize(("architecture", "variant"), VARIANTS, ids=str)
def test_one_batch_is_learned_by_heart(architecture: str, variant: dict[str, object]):
    """From ln 20 = 3.0 to a loss below 0.05 in at most 600 steps of AdamW."""
    torch.manual_seed(0)
    model = build_model(section(architecture, vocab_size=VOCAB, d_model=48, **variant))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    ids, labels = batch(architecture)
    for _ in range(600):
        loss = F.cross_entropy(model(*ids).flatten(0, 1), labels.flatten(), ignore_index=-100)
        if loss.item() < 0.05:
            return
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    pytest.fail(f"the loss is still {loss.item():.3f}")


def test_a_decoder_cannot_learn_what_only_the_future_tells():
    """Labels equal to the next input are free for a leaking model. Fresh random tokens each step, so that
    nothing can be learned by heart: the loss stays at that of guessing, ln 18 = 2.89."""
    model = build_model(section("decoder", vocab_size=VOCAB, d_model=48))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    generator = torch.Generator().manual_seed(0)
    losses = []
    for _ in range(60):
        tokens = torch.randint(0, 18, (8, LENGTH), generator=generator)
        loss = F.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-10:]) / 10 > 2.8
