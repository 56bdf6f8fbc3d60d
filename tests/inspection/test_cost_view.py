"""The pictures of what things cost: whole at every width, and the sums that they show."""

from dataclasses import replace

import pytest

from tests.support.consoles import printed
from tfcli.inspection.cost import (
    AgainstAtLength,
    AgainstRecord,
    CostAtLength,
    CostPart,
    CostRecord,
    HeadCosts,
    HeadCount,
    MixerCost,
)
from tfcli.inspection.cost.view import AgainstView, CostView, HeadsView, against_table, cost_table, heads_table

LENGTHS = (
    CostAtLength(128, 400, 300, 100, 200, visible_flops=950, bytes_made=4000, cache_bytes=512),
    CostAtLength(256, 800, 600, 400, 400, visible_flops=2000, bytes_made=9000, cache_bytes=1024),
)
RECORD = CostRecord(
    architecture="decoder",
    d_model=16,
    num_layers=2,
    num_decoder_layers=0,
    num_heads=2,
    num_kv_heads=2,
    head_dim=8,
    d_ff=64,
    is_gated=False,
    has_projections=True,
    sequences=1,
    length=128,
    parameters=5000,
    parts=(CostPart("projections", 400, 3000, 2000), CostPart("scores", 600, 0, 2000)),
    counted_flops=1000,
    lengths=LENGTHS,
    flops_a_token=12288,
    flops_a_pair=128,
)


def test_the_parts_at_eighty_columns():
    assert printed(CostView(RECORD), 80).splitlines()[:10] == [
        "Cost of a forward pass · decoder · 1 sequence of 128 tokens",
        "D 16 · 2 layers · 2 heads of 8 · F 64 · 5,000 parameters (20 kB in float32)",
        "",
        " part        grows as  FLOPs    share  parameters  made",
        " ──────────────────────────────────────────────────────",
        " Q, K, V     N · D²      400   40.0 %       3,000  2 kB",
        " scores QKᵀ  N² · D      600   60.0 %           0  2 kB",
        "",
        " all                   1,000  100.0 %       5,000  4 kB",
        "",
    ]


def test_shares_are_letters_and_what_a_mask_hides_a_percentage():
    """Of 1000 at 128: P 40 %, F 30 %, S 10 %, H 20 %, in 29 cells: 12, 8 or 9, 3 and 6; 5 % masked."""
    [line] = [line for line in printed(CostView(RECORD), 80).splitlines() if line.strip().startswith("128 ")]
    assert line.split()[:7] == ["128", "1", "k", "4", "kB", "512", "B"]
    assert line.split()[7:9] == ["5.0", "%"]
    bar = line.split()[-1]
    assert [bar.count(letter) for letter in "PFSH"] == [12, 8, 3, 6]
    assert bar == "".join(sorted(bar, key="PFSH".index))


def test_the_crossover_is_derived():
    shown = " ".join(printed(CostView(RECORD), 140).split())
    assert "N* = a / b = 96 tokens" in shown
    for a, number in ((4608 * 128, "4,608"), (320, "2.5")):
        assert f"N* = a / b = {number} tokens" in printed(CostView(replace(RECORD, flops_a_token=a)), 80)
    assert "a = 4 D Dh (H + Hkv) + 4 D F a token and layer = 4·16·8·(2 + 2) + 4·16·64 = 6,144" in shown
    assert "b = 4 H Dh a pair of tokens and layer = 4·2·8 = 64" in shown
    assert "the second cost 133.3 % of the first: N / N*" in shown
    assert "flop_counter on the explicit path: 1,000, the same." in shown


def test_a_count_that_differs_is_said():
    assert "1,001, NOT the same" in printed(CostView(replace(RECORD, counted_flops=1001)), 80)


def test_measured_times_stand_beside_predicted_ones():
    measured = (replace(LENGTHS[0], predicted_seconds=0.001, seconds=0.0025), LENGTHS[1])
    shown = printed(CostView(replace(RECORD, lengths=measured, products_a_second=1e9)), 80)
    assert ["128", "1", "ms", "2.5", "ms", "2.50", "█" * 16] in [line.split() for line in shown.splitlines()]
    assert "1 GFLOP/s" in shown
    assert "Measured" not in printed(CostView(RECORD), 80)


@pytest.mark.parametrize("width", [60, 80, 140])
def test_nothing_is_cut_at_any_width(width: int):
    heads = HeadCosts(768, 1024, 2, (HeadCount(1, 768, 2_362_368, 8_053_063_680, 2_097_152, 0.2),) * 2)
    mixer = MixerCost(17_180_000_000, 34_000_000_000, 1024, 1023, False)
    against = AgainstRecord("dense", 768, 12, (AgainstAtLength(32, mixer, mixer), AgainstAtLength(1024, mixer, mixer)))
    large = replace(
        RECORD,
        parameters=6_541_807_616,
        parts=(CostPart("feed_forward", 28_858_959_003_648, 4_330_000_000, 29_500_000_000),),
        counted_flops=28_858_959_003_648,
    )
    for view in (CostView(RECORD), CostView(large), HeadsView(heads), AgainstView(against)):
        shown = printed(view, width)
        assert "…" not in shown
        assert max(map(len, shown.splitlines())) <= width


def test_heads_and_other_layers_say_what_to_see():
    one = HeadCount(1, 64, 100, 5000, 256, 0.001)
    record = HeadCosts(64, 16, 1, (one, replace(one, num_heads=4, head_dim=16, exponentials=1024, seconds=0.002)))
    shown = " ".join(printed(HeadsView(record), 80).split())
    assert "See: 4 heads cost the matrix products of 1, 4 × the exponentials, and 2.00 × the time." in shown
    assert next(iter(heads_table(record).rows)) == [1, 64, 100, 5000, 256, 0.001]
    mixer = MixerCost(100, 200, 1, 1, True)
    against = AgainstRecord("rnn", 64, 2, (AgainstAtLength(32, mixer, replace(mixer, steps=32, path=31)),) * 2)
    lines = [line.split() for line in printed(AgainstView(against), 80).splitlines()]
    assert ["recurrent", "100", "200", "32", "31", "yes"] in lines
    assert next(iter(against_table(against).rows)) == [32, "attention", 100, 200, 1, 1, True]


def test_the_csv_has_a_row_a_length():
    table = cost_table(RECORD)
    assert next(list(row) for row in table.rows) == [128, 400, 300, 100, 200, 1000, 950, 4000, 512, None, None]
