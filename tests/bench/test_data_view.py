"""A benchmark of tokenization on a fixed console."""

from tests.support.consoles import printed
from tfcli.bench import DataSide, DataSpeed, Machine, Spread
from tfcli.bench.view import DataSpeedView

SPEED = DataSpeed(
    sources=("a\x1b[2J.txt",),
    lines=20_000,
    bytes=8_230_000,
    tokens=1_840_000,
    algorithm="bpe",
    vocab_size=1310,
    context=256,
    rounds=5,
    warmup=1,
    machine=Machine("EPYC", 2, 1, "cpu", "2.13.0", "5.23.0"),
    sides=(
        DataSide("prepare", 4_710_000, 1_060_000, Spread(1.704, 1.745, 1.75), 90_400_000),
        DataSide("datasets.map", 2_740_000, 613_000, Spread(2.909, 3.008, 3.011), 257_000_000, 1.72, 1.71, 1.73),
    ),
)


def test_a_row_a_side_in_eighty_columns():
    lines = printed(DataSpeedView(SPEED)).splitlines()
    assert lines[:9] == [
        "Data speed · a\\x1b[2J.txt",
        "20,000 texts, 8.23 MB, 1.84 M tokens · bpe, vocabulary 1,310",
        "EPYC · 2 cores, 1 thread · torch 2.13.0",
        "",
        "               tokens/s  bytes/s    ms in all   memory   tfcli is",
        "tfcli prepare    1.06 M  4.71 MB        1,745  90.4 MB",
        "                                  1,704–1,750",
        "datasets.map      613 k  2.74 MB        3,008   257 MB      1.72×",
        "                                  2,909–3,011           1.71–1.73",
    ]
    text = " ".join(lines)
    assert "5 rounds after 1 to warm up" in text and "windows of 256" in text
    assert max(map(len, lines)) <= 80
