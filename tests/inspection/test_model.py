"""The diagram of a model: every parameter in one box, and the shapes of the formula."""

import json

import pytest
from hypothesis import HealthCheck, given, settings

from tests.cli.commands import tfcli
from tests.models.small import section
from tests.models.strategies import sections
from tfcli.inspection.model import Block, ModelRecord
from tfcli.inspection.model.compute import model_diagram
from tfcli.models.build import meta_model
from tfcli.models.presets import PRESETS, PUBLISHED, preset
from tfcli.recipe.loading import build_recipe
from tfcli.recipe.model import ModelSection


def shapes(block: Block) -> dict[str, tuple[int, ...]]:
    return {matrix.name: matrix.shape for matrix in block.matrices}


def in_boxes(record: ModelRecord) -> int:
    """The parameters of all boxes."""
    blocks = sum(block.parameters for block in (*record.embeddings, record.head))
    for stack in record.stacks:
        own = (stack.positions, stack.final_norm)
        blocks += stack.num_layers * stack.layer_parameters + sum(
            block.parameters for block in own if block is not None
        )
    return blocks


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(sections())
def test_the_boxes_hold_every_parameter_once(wanted: ModelSection):
    record = model_diagram(wanted)
    assert in_boxes(record) == record.parameters == meta_model(wanted).num_parameters()
    assert sum(group.parameters for group in record.groups) == record.parameters


def layer(d: int) -> int:
    """Four D × D and two D × 4D matrices, with their biases and two norms."""
    return 12 * d**2 + (4 + 5 + 4) * d


PUBLISHED_COUNTS = {
    "gpt2": (50_257 + 1024) * 768 + 12 * layer(768) + 2 * 768,
    "gpt3": (50_257 + 2048) * 12_288 + 96 * layer(12_288) + 2 * 12_288,
    # no positions; a norm behind the embeddings
    "bloom": 250_880 * 14_336 + 2 * 14_336 + 70 * layer(14_336) + 2 * 14_336,
    # two segments, a norm behind the embeddings and none at the end; dense, norm and bias of the head for masks
    # 18 attentions without biases, 12 feed-forwards, 30 norms
    "vaswani2017": 37_000 * 512 + 18 * 4 * 512**2 + 12 * (8 * 512**2 + 5 * 512) + 30 * 2 * 512,
    "bert": (30_522 + 512 + 2) * 768 + 2 * 768 + 12 * layer(768) + 768**2 + 3 * 768 + 30_522,
}


@pytest.mark.parametrize(
    ("name", "released"),
    [
        ("gpt2", 124_439_808),
        ("llama", 6_738_415_616),
        ("gpt3", None),
        ("bloom", 176_247_271_424),
        ("bert", 109_482_240 - 590_592 + 622_650),
        ("bart", 139_420_416),
        ("t5", 60_506_624),
        ("vaswani2017", None),
    ],
)
def test_a_preset_alone_is_the_published_model(name: str, released: int | None):
    """With the vocabulary of its release, and nothing of it allocated. BERT's release has a pooler, and no head."""
    done = tfcli("inspect", "model", "--preset", name, "--json")
    record = json.loads(done.stdout)
    assert {record["parameters"]} == {released, PUBLISHED_COUNTS.get(name)} - {None}
    assert record["about"][-1][0] == "published"
    assert f"{PUBLISHED[name]['vocab_size']:,} ids" in done.stderr


def test_the_cost_of_a_preset_alone_is_that_of_the_published_model():
    """GPT-2 on its 1,024 tokens: the head's 2 N D V FLOPs take V = 50,257."""
    record = json.loads(tfcli("inspect", "cost", "--preset", "gpt2", "--json").stdout)
    [head] = [part["flops"] for part in record["parts"] if part["name"] == "head"]
    assert (record["parameters"], head) == (124_439_808, 2 * 1024 * 768 * 50_257)


@pytest.mark.parametrize(
    "more",
    [
        ["--size", "mini"],
        ["--set", "tokenizer.vocab_size=2048"],
        ["--set", "model.vocab_size=2048"],
        ["--recipe", "heads"],
    ],
)
def test_a_size_or_a_vocabulary_of_its_own_takes_the_published_one_back(more: list[str]):
    assert json.loads(tfcli("inspect", "model", "--preset", "gpt2", *more, "--json").stdout)["vocab_size"] <= 2048


@pytest.mark.parametrize(
    ("preset", "words"),
    [
        (
            "gpt2",
            ["12 layers; a token sees itself and those before it", "(pre-norm)", "learned, 1,024", "clm: the next"],
        ),
        (
            "bert",
            [
                "12 layers; every token sees the whole text",
                "(post-norm)",
                "learned, 512",
                "mlm: tokens that were masked",
            ],
        ),
    ],
)
def test_a_case_study_says_who_sees_whom_its_norms_positions_and_training(preset: str, words: list[str]):
    about = dict(json.loads(tfcli("inspect", "model", "--preset", preset, "--json").stdout)["about"])
    for name, one in zip(("stack", "norms", "positions", "trained"), words, strict=True):
        assert one in about[name]


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_drawn(name: str):
    record = model_diagram(build_recipe(preset(name), {"model": {"vocab_size": 100}}).model)
    assert in_boxes(record) == record.parameters


def test_matrices_have_the_shapes_of_the_formula():
    """D = 16, two heads of 12 with one of keys and values, F = 40: X W^q is D × 24, W^k and W^v are D × 12, W^o is 24 ×
    D, however PyTorch stores them."""
    record = model_diagram(section(head_dim=12, num_kv_heads=1, d_ff=40, attention_bias=True, tie_embeddings=False))
    attention, feed_forward = (sublayer.block for sublayer in record.stacks[0].sublayers)
    assert shapes(attention) == {"W^q": (16, 24), "W^k": (16, 12), "W^v": (16, 12), "W^o": (24, 16)}
    assert [matrix.parameters for matrix in attention.matrices] == [408, 204, 204, 400]
    assert attention.notes[0] == "2 heads of 12, 1 of K and V"
    assert shapes(feed_forward) == {"W gate": (16, 40), "V": (16, 40), "W₂": (40, 16)}
    assert shapes(record.head) == {"U": (16, 11)}


def test_a_tied_matrix_stands_in_one_box_and_is_named():
    record = model_diagram(section("encoder-decoder"))
    source, target = record.embeddings
    assert shapes(source) == {"E tokens": (11, 16)}
    assert (target.matrices, record.head.matrices) == ((), ())
    assert "E: that of the source's embeddings" in target.notes
    assert record.ties == (
        "E of the embeddings is also the matrix of the target's embeddings and of the head: counted once.",
    )
    apart = model_diagram(section("encoder-decoder", share_embeddings=False))
    assert apart.ties == ("E of the target is also the matrix of the head: counted once.",)


def test_norms_stand_where_the_recipe_places_them():
    pre, post = (model_diagram(section(norm_placement=placement)).stacks[0] for placement in ("pre", "post"))
    assert [sublayer.placement for sublayer in pre.sublayers] == ["pre", "pre"]
    assert pre.final_norm is not None and pre.final_norm.parameters == 16
    assert [sublayer.placement for sublayer in post.sublayers] == ["post", "post"]
    assert post.final_norm is None
    assert [one.block.kind for one in model_diagram(section("encoder-decoder")).stacks[1].sublayers] == [
        "attention",
        "cross_attention",
        "feed_forward",
    ]


def test_without_a_causal_mask_a_window_is_on_both_sides():
    """A window of w tokens: w − 1 before, oneself and, where the future is not hidden, w − 1 after."""
    for architecture, seen in (("decoder", 3), ("encoder", 5)):
        attention = model_diagram(section(architecture, sliding_window=3)).stacks[0].sublayers[0].block
        assert f"window: the {seen} nearest tokens alone" in attention.notes
