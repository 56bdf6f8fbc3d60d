"""From ids to vectors: scale, positions that join the embeddings, token types, and the norm after them."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tfcli.layers.attention import Span
from tfcli.layers.embedding import TokenEmbedding
from tfcli.layers.positions import sinusoidal_encoding
from tfcli.recipe.model import ModelSection

from .references import randomize


def embedding(**settings: Any) -> TokenEmbedding:
    section = ModelSection(vocab_size=5, d_model=4, num_heads=2, max_seq_len=6, **settings)
    module = TokenEmbedding(section)
    randomize(module)
    return module


IDS = torch.tensor([[3, 0, 3], [4, 1, 2]])


def test_an_embedding_is_the_one_hot_product():
    module = embedding(positions="rotary", scale_embeddings=False)
    torch.testing.assert_close(module(IDS), F.one_hot(IDS, 5).float() @ module.weight)


@pytest.mark.parametrize(
    ("positions", "scale_embeddings", "scale"),
    [
        ("sinusoidal", None, 2.0),  # √4
        ("sinusoidal", False, 1.0),
        ("learned", None, 2.0),  # attention begins by copying
        ("learned", False, 1.0),
        ("rotary", None, 2.0),
        ("rotary", False, 1.0),
        ("alibi", None, 2.0),
        ("t5", False, 1.0),
        ("none", False, 1.0),
    ],
)
def test_embeddings_are_scaled_where_the_recipe_says_and_positions_never(positions, scale_embeddings, scale):
    base = {"position_base": 100.0} if positions == "sinusoidal" else {}
    module = embedding(positions=positions, scale_embeddings=scale_embeddings, **base)
    added = {"sinusoidal": sinusoidal_encoding(6, 4, 100.0)[:3]}
    if positions == "learned":
        added["learned"] = module.positions[:3]
    torch.testing.assert_close(module(IDS), scale * module.weight[IDS] + added.get(positions, 0))


@pytest.mark.parametrize("initialization", ["gpt2", "bert", "vaswani2017", "t5"])
def test_without_copying_only_sinusoidal_positions_ask_for_the_scale(initialization: str):
    """Section 3.4 of Vaswani et al. 2017; BERT, GPT-2 and T5 leave embeddings as they are."""
    for positions, scale in (("sinusoidal", 2.0), ("learned", 1.0), ("rotary", 1.0)):
        assert embedding(positions=positions, initialization=initialization).scale == scale


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("merge", ["add", "concat"])
def test_an_offset_goes_on_where_the_cache_ended(positions: str, merge: str):
    module = embedding(positions=positions, position_merge=merge, tie_embeddings=False)
    torch.testing.assert_close(module(IDS[:, 2:], Span(2, 3)), module(IDS)[:, 2:])


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize(("offset", "length"), [(6, 1), (5, 3), (0, 7)])
def test_a_position_beyond_the_table_is_never_made_up(positions: str, first: int, offset: int, length: int):
    """The context is of 6, whatever the number of its first position. Slices beyond the table are short, and 0 rows
    or 1 row would broadcast without a word."""
    module = embedding(positions=positions, position_offset=first)
    with pytest.raises(AssertionError, match="beyond the context"):
        module(torch.zeros(2, length, dtype=torch.long), Span(offset, offset + length))
    assert module(torch.zeros(2, 6, dtype=torch.long)).shape == (2, 6, 4)


def test_a_fixed_table_is_neither_trained_nor_saved_and_a_learned_one_is_both():
    assert [*embedding(positions="sinusoidal").state_dict()] == ["weight"]
    assert {*embedding(positions="learned").state_dict()} == {"weight", "positions"}
    assert {name for name, _ in embedding(positions="learned").named_parameters()} == {"weight", "positions"}


def test_positions_are_read_from_the_row_of_the_first():
    """BART's first token reads row 2 of a table of 6 + 2."""
    learned = embedding(positions="learned", position_offset=2, scale_embeddings=False)
    assert learned.positions.shape == (8, 4)
    torch.testing.assert_close(learned(IDS), learned.weight[IDS] + learned.positions[2:5])
    fixed = embedding(positions="sinusoidal", position_offset=2, scale_embeddings=False)
    torch.testing.assert_close(fixed(IDS), fixed.weight[IDS] + sinusoidal_encoding(5, 4)[2:])


def test_scaled_and_halved_tables_reach_the_tokens():
    module = embedding(positions="sinusoidal", position_layout="halves", position_scaling=2.0, scale_embeddings=False)
    added = sinusoidal_encoding(3, 4, layout="halves", scaling=2.0)
    torch.testing.assert_close(module(IDS), module.weight[IDS] + added)


@pytest.mark.parametrize(("position_dim", "of_tokens"), [(None, 3), (2, 2), (3, 1)])
def test_concatenated_positions_stand_behind_the_token(position_dim: int | None, of_tokens: int):
    """[s·E; P]: a quarter of 4 unless told otherwise, and s = √4 of the whole size."""
    settings = {"position_merge": "concat", "position_dim": position_dim, "tie_embeddings": False}
    module = embedding(positions="learned", scale_embeddings=True, **settings)
    assert module.weight.shape == (5, of_tokens) and module.positions.shape == (6, 4 - of_tokens)
    output = module(IDS)
    torch.testing.assert_close(output[..., :of_tokens], 2 * module.weight[IDS])
    torch.testing.assert_close(output[..., of_tokens:], module.positions[:3].expand(2, -1, -1))
    fixed = embedding(positions="sinusoidal", **settings)
    torch.testing.assert_close(fixed(IDS)[0, :, of_tokens:], sinusoidal_encoding(3, 4 - of_tokens))


def test_positions_for_queries_and_keys_do_not_join_the_tokens():
    module = embedding(positions="learned", position_merge="query_key", scale_embeddings=False)
    torch.testing.assert_close(module(IDS), module.weight[IDS])
    assert [*module.state_dict()] == ["weight"]


def test_token_types_tell_segments_apart():
    """Of three types each has a row; without types all tokens are of the first. The scale is the tokens' alone."""
    module = embedding(positions="none", token_types=3, architecture="encoder", scale_embeddings=True)
    types = torch.tensor([[0, 1, 2], [2, 2, 0]])
    plain = 2 * module.weight[IDS]
    torch.testing.assert_close(module(IDS, token_type_ids=types), plain + module.token_types[types])
    torch.testing.assert_close(module(IDS), plain + module.token_types[0])


@pytest.mark.parametrize("merge", ["add", "concat"])
def test_the_norm_comes_after_the_sum_of_all_embeddings(merge: str):
    """As in BERT: tokens + types + positions, normalised by PyTorch's own LayerNorm."""
    settings = {"architecture": "encoder", "token_types": 2, "norm": "layernorm", "positions": "learned"}
    settings |= {"position_merge": merge, "tie_embeddings": False}
    module = embedding(**settings, embedding_norm=True)
    plain = embedding(**settings)
    plain.load_state_dict({name: t for name, t in module.state_dict().items() if "norm" not in name})
    reference = nn.LayerNorm(4, eps=1e-5)
    reference.load_state_dict(module.norm.state_dict())
    torch.testing.assert_close(module(IDS), reference(plain(IDS)))


def test_dropout_has_a_rate_of_its_own():
    """embedding_dropout, or dropout where there is none; in training alone, and after everything else."""
    assert embedding(dropout=0.3).dropout == 0.3
    module = embedding(dropout=0.3, embedding_dropout=0.5, positions="none")
    assert module.dropout == 0.5
    torch.manual_seed(0)
    kept = (module(IDS.repeat(50, 20)) != 0).float().mean().item()
    assert kept == pytest.approx(0.5, abs=0.03)
    torch.testing.assert_close(module.eval()(IDS), module.weight[IDS] * 2)


def test_the_gradient_of_an_embedding_counts_how_often_a_token_occurs():
    module = embedding(positions="learned", scale_embeddings=True)
    module(IDS).sum().backward()
    assert module.weight.grad[:, 0].tolist() == [2, 2, 2, 4, 2], "√4 for every time; token 3 occurs twice"
    assert module.positions.grad[:, 0].tolist() == [2, 2, 2, 0, 0, 0], "two rows a position"
