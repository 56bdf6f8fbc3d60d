"""The benchmark of patching: what it counts, and that its two ways agree."""

import json
import re

import pytest

from tests.bench.test_train import tiny
from tests.cli.commands import tfcli
from tests.support.consoles import printed
from tfcli.bench import Machine, PatchingSpeed, Spread
from tfcli.bench import patch as module
from tfcli.bench.patch import bench_patching
from tfcli.bench.view import PatchingSpeedView
from tfcli.errors import UsageError
from tfcli.inspection.interventions import Part
from tfcli.models.build import meta_model


@pytest.mark.parametrize(
    ("architecture", "patches"),
    [("decoder", 2 * (3 * 7 + 2 * 3)), ("encoder", 2 * (3 * 7 + 2 * 3)), ("encoder-decoder", 2 * (7 * 7 + 3 * 2 * 3))],
)
def test_every_patch_is_made_in_both_ways(architecture: str, patches: int):
    """Two layers, two heads and 7 tokens: three places of a position and three of a head; of an encoder-decoder twice,
    and cross-attention."""
    told: list[str] = []
    recipe = tiny({"model": {"architecture": architecture}}, {"model": {"num_layers": 2}})
    speed = bench_patching(recipe, 7, 2, told.append)
    assert (speed.patches, speed.length, speed.rounds, told[-1]) == (patches, 7, 2, "round 3 of 3")
    assert 0 < speed.apart < 1e-4, "not by the same sums, and not another thing"
    assert speed.ratio == pytest.approx(speed.naive.p50 / speed.seconds.p50) and speed.most > 0


def test_weights_behind_a_part():
    """D 16, F 64, a layer: 4 · 16² of attention and 2 · 16 · 64 behind it; W^o alone behind its heads."""
    settings = {"activation": "relu", "num_layers": 2, "d_ff": 64}
    attention, output, network = 4 * 256, 256, 2 * 1024
    layer = attention + network
    model = meta_model(tiny({"model": {}}, {"model": settings}).resolved().model)
    behind = {"residual": layer, "heads": output + network, "attention": network, "feed_forward": 0}
    for place, own in behind.items():
        assert module._behind(model, Part("decoder", 1, place)) == own  # type: ignore[arg-type]
        assert module._behind(model, Part("decoder", 0, place)) == own + layer  # type: ignore[arg-type]
    both = meta_model(tiny({"model": {"architecture": "encoder-decoder"}}, {"model": settings}).resolved().model)
    assert module._behind(both, Part("encoder", 1, "feed_forward")) == 2 * (layer + attention)
    assert module._behind(both, Part("decoder", 1, "residual")) == layer + attention - 2 * 256, "the memory is known"
    assert module._behind(both, Part("decoder", 1, "cross_heads")) == output + network


SPEED = PatchingSpeed(
    *("quickstart", "decoder", 2, 128, 4, 1024, 30, 204, 5, Machine("EPYC", 2, 1, "cpu", "2.13.0")),
    seconds=Spread(0.05, 0.06, 0.07),
    naive=Spread(0.5, 0.6, 0.9),
    ratio=10.0,
    ratio_p10=9.0,
    ratio_p90=11.0,
    most=12.5,
    apart=1.2e-6,
)


def test_a_row_a_way_in_eighty_columns():
    lines = printed(PatchingSpeedView(SPEED)).splitlines()
    assert lines[0] == "Patching speed · quickstart" and max(map(len, lines)) <= 80
    assert re.match(r"tfcli +3.4 k +60.0", lines[6]) and re.match(r"one whole pass a patch +340 +600 +10.00×", lines[8])
    text = " ".join(lines)
    assert "204 patches between two texts of 30 tokens" in text and "1e-06 logits apart" in text
    assert re.search(r"would be 12.50×: +tfcli has 80.0 % of that", text)


def test_the_command_gives_the_same_as_json():
    made = tfcli("bench", "patch", "--size", "tiny", "--tokens", "5", "--rounds", "1", "--threads", "1", "--json")
    found = json.loads(made.stdout)
    assert (found["length"], found["rounds"], found["machine"]["threads"]) == (5, 1, 1)
    refused = tfcli("bench", "patch", "--tokens", "1")
    assert refused.exit_code == 2 and "--tokens" in refused.stderr


def test_more_threads_than_cores_are_refused():
    with pytest.raises(UsageError, match="processor cores there are"):
        bench_patching(tiny({"train": {}}, {"train": {"threads": 1000}}), 5, 1)
