"""A prefix that is read both ways: the mask by hand, and the same numbers on every path."""

import pytest
import torch
from torch import Tensor

from tfcli.generation.decoding import prefill
from tfcli.layers.attention import attention_mask
from tfcli.models.build import build_model
from tfcli.models.transformer import Decoder
from tfcli.recipe.model import ModelSection
from tfcli.recipe.recipe import GenerateSection
from tfcli.records.roles import TokenRoles

POSITIONS = ["rotary", "learned", "alibi", "t5"]


def decoder(positions: str = "rotary", **settings: object) -> Decoder:
    torch.manual_seed(1)
    sizes = {"d_model": 16, "num_layers": 2, "num_heads": 2, "max_seq_len": 16, "vocab_size": 30}
    model = build_model(ModelSection(positions=positions, **sizes, **settings))  # type: ignore[arg-type]
    assert isinstance(model, Decoder)
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model.double().eval()


def test_the_mask_by_hand() -> None:
    # Figure 4 of the T5 paper (right): two tokens see each other, the others those before them.
    mask = attention_mask(None, 4, 4, causal=True, prefix=torch.tensor([2, 1]), device=torch.device("cpu"))
    assert mask is not None
    first, second = mask[:, 0].int().tolist()
    assert first == [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    assert second == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]


def hidden(model: Decoder, ids: Tensor, prefix: list[int]) -> Tensor:
    return model.hidden(ids, prefix=torch.tensor(prefix))


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_prefix_sees_itself_and_nothing_behind_it(positions: str) -> None:
    model = decoder(positions)
    ids = torch.arange(20).view(2, 10)
    ours = hidden(model, ids, [4, 7])
    assert torch.allclose(hidden(model, ids, [1, 1]), model.hidden(ids))
    for row, prefix in enumerate([4, 7]):
        for place in range(10):
            other = ids.clone()
            other[row, place] = 29
            differs = (hidden(model, other, [4, 7])[row] - ours[row]).abs().amax(-1) > 1e-12
            seeing = [place <= query or (place < prefix and query < prefix) for query in range(10)]
            assert differs.tolist() == seeing


@pytest.mark.parametrize("positions", POSITIONS)
def test_every_path_gives_the_same(positions: str) -> None:
    model, ids = decoder(positions, sliding_window=5), torch.arange(20).view(2, 10)
    weights: dict[str, list[Tensor]] = {}
    ours = hidden(model, ids, [4, 7])
    explicit = model.hidden(ids, prefix=torch.tensor([4, 7]), weights=weights)
    assert torch.allclose(ours, explicit)
    assert (weights["decoder_self"][0][0, 0, :4, :4] > 0).all()
    assert (weights["decoder_self"][0][0, 0].triu(1)[:, 4:] == 0).all()
    model.use_in_training("rows")
    assert torch.allclose(ours, hidden(model.train(), ids, [4, 7]))


@torch.inference_mode()
def test_a_prompt_is_read_as_a_prefix_where_texts_grow_side_by_side() -> None:
    model = decoder()
    model.reads_prefix = True
    roles, prompts = TokenRoles(pad=0, bos=1, eos=2), [[1, 5, 6, 7], [1, 8]]
    state = prefill(model, prompts, roles, GenerateSection(max_new_tokens=4), rows=2)
    texts = [list(prompt) for prompt in prompts]
    for new in ([9, 10], [11, 12], [13, 14]):
        for row, (text, prompt) in enumerate(zip(texts, prompts, strict=True)):
            alone = model.head(hidden(model, torch.tensor([text]), [len(prompt)]))[0, -1]
            assert torch.allclose(state.logits[row], alone)
        state.read(torch.tensor(new))
        texts = [[*text, one] for text, one in zip(texts, new, strict=True)]
