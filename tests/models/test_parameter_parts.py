"""What parameters are part of: each where everything that counts them has it."""

import pytest
from hypothesis import HealthCheck, given, settings

from tests.models.small import section
from tests.models.strategies import sections
from tfcli.inspection.cost.compute import part_parameters
from tfcli.inspection.model.compute import parameter_groups
from tfcli.models.build import meta_model
from tfcli.models.transformer import part_of_parameter
from tfcli.recipe.model import ModelSection
from tfcli.training.metrics import weight_groups


def count(wanted: ModelSection) -> dict[str, int]:
    """Numbers in each part."""
    found: dict[str, int] = {}
    for name, parameter in meta_model(wanted).named_parameters():
        found[part_of_parameter(name)] = found.get(part_of_parameter(name), 0) + parameter.numel()
    return found


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("embedding.weight", "embeddings"),
        ("target_embedding.positions", "embeddings"),
        ("embedding.norm.weight", "norms"),
        ("stack.positions.table", "embeddings"),
        ("stack.positions.relative_bias.weight", "attention"),
        ("stack.layers.0.attention.query_norm.weight", "norms"),
        ("decoder.layers.1.cross_attention.output.bias", "cross_attention"),
        ("decoder.layers.1.cross_attention_residual.norm.weight", "norms"),
        ("encoder.layers.0.feed_forward.gate.weight", "feed_forward"),
        ("head.transform.weight", "head"),
        ("head.norm.bias", "norms"),
    ],
)
def test_a_part_by_name(name: str, part: str):
    assert part_of_parameter(name) == part


def test_a_table_of_queries_and_keys_is_an_embedding_for_everyone():
    """16 positions of 16 numbers; 11 · 16 of the tokens."""
    wanted = section(positions="learned", position_merge="query_key", query_key_norm=True)
    groups = {name: sum(p.numel() for p in group) for name, group in weight_groups(meta_model(wanted)).items()}
    assert groups["embeddings"] == part_parameters(wanted)["embeddings"] == count(wanted)["embeddings"] == 432


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(sections())
def test_all_who_count_parameters_agree(wanted: ModelSection):
    parts, cost, model = count(wanted), part_parameters(wanted), meta_model(wanted)
    groups = {name: sum(p.numel() for p in group) for name, group in weight_groups(model).items()}
    for name in ("embeddings", "feed_forward", "norms", "head"):
        assert parts.get(name, 0) == cost.get(name, 0) == groups.get(name, 0), name
    attention = parts.get("attention", 0) + parts.get("cross_attention", 0)
    assert attention == groups.get("attention", 0)
    assert attention == sum(cost.get(name, 0) for name in ("projections", "scores", "output"))
    in_layers = {group.name.rpartition(" ")[2]: 0 for group in parameter_groups(model)}
    for group in parameter_groups(model):
        in_layers[group.name.rpartition(" ")[2]] += group.parameters
    assert in_layers.get("cross-attention", 0) == parts.get("cross_attention", 0)
    assert in_layers.get("feed-forward", 0) == parts.get("feed_forward", 0)
