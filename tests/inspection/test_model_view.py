"""The diagram: stacks beside each other where there is room, and every box whole."""

import pytest

from tests.models.small import section
from tests.support.consoles import fixed_console, printed
from tfcli.inspection.model import ModelRecord
from tfcli.inspection.model.compute import model_diagram
from tfcli.inspection.model.view import ModelView, model_table


def drawn(record: ModelRecord, width: int) -> list[str]:
    return printed(ModelView(record), width).splitlines()


def test_a_pre_norm_decoder_at_sixty_columns():
    lines = drawn(model_diagram(section(num_layers=3, d_ff=40, activation="relu")), 60)
    start = next(i for i, line in enumerate(lines) if "decoder · × 3" in line)
    assert lines[start : start + 13] == [
        "╔═ decoder · × 3 layers ═══════════════════════ 3 × 2,336 ═╗",
        "║ ╭─▶ ⊕ Add                                                ║",
        "║ │  ╭─ Feed-forward ───────────────────────── 1,280 ─╮    ║",
        "║ │  │ relu(X W₁) W₂                                  │    ║",
        "║ │  │ W₁  16 × 40                                640 │    ║",
        "║ │  │ W₂  40 × 16                                640 │    ║",
        "║ │  ╰────────────────────────▲───────────────────────╯    ║",
        "║ │                           │                            ║",
        "║ │  ╭─ Norm ──────────────────────────────────── 16 ─╮    ║",
        "║ │  │ gain  16                                    16 │    ║",
        "║ │  ╰────────────────────────▲───────────────────────╯    ║",
        "║ ╰───────────────────────────┤                            ║",
        "║ ╭─▶ ⊕ Add                                                ║",
    ]
    assert "E of the embeddings is also the matrix of the head: counted once." in " ".join(lines)


@pytest.mark.parametrize(
    ("placement", "order"), [("pre", ["Feed-forward", "Norm"]), ("post", ["Norm", "Feed-forward"])]
)
def test_without_residuals_nothing_is_added(placement: str, order: list[str]):
    lines = drawn(model_diagram(section(norm_placement=placement, residuals=False)), 60)
    assert not any("⊕" in line or "─┤" in line for line in lines)
    titles = [line.split()[2] for line in lines if line.startswith("║    ╭─ ")]
    assert titles[:2] == order
    assert {len(line) for line in lines if line.startswith("║")} == {60}


def test_a_post_norm_adds_and_normalises():
    lines = drawn(model_diagram(section(norm_placement="post", norm="layernorm")), 60)
    assert sum("⊕ Add & Norm  gain 16, bias 16" in line for line in lines) == 2
    assert not any("╭─ Norm" in line for line in lines)


def test_encoder_and_decoder_stand_beside_each_other_where_there_is_room():
    record = model_diagram(section("encoder-decoder"))
    [together] = [line for line in drawn(record, 140) if "╔═ encoder" in line]
    assert "║" in together.split("╗")[1]  # within the decoder, which is higher
    [bridge] = [line for line in drawn(record, 140) if "▶║" in line]
    assert "Cross-attention" in bridge
    apart = drawn(record, 80)
    order = [next(i for i, line in enumerate(apart) if f"╔═ {side}" in line) for side in ("decoder", "encoder")]
    assert order[0] < order[1]
    assert not any("▶║" in line for line in apart)


@pytest.mark.parametrize("width", [60, 80, 110, 140, 200])
@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder-decoder"])
def test_nothing_is_cut_at_any_width(architecture: str, width: int):
    wide = section(architecture, d_model=4096, num_heads=32, d_ff=11_008, vocab_size=50_000, positions="t5")
    lines = drawn(model_diagram(wide), width)
    assert not any("…" in line for line in lines)
    assert max(map(len, lines)) <= width
    assert any("W gate  4096 × 11008" in line for line in lines)
    assert len({len(line) for line in lines if line.endswith(("║", "╗", "╝", "╮", "╯"))}) == 1  # sides stand in line


def test_where_the_encoding_has_no_lines_they_are_drawn_with_signs():
    console = fixed_console(60)
    options = console.options.update()
    options.encoding = "ascii"
    shown = "".join(segment.text for segment in console.render(ModelView(model_diagram(section())), options))
    assert "+= decoder . x 2 layers ===" in shown
    assert "| +-> + Add" in shown
    assert not {*"╭│║▲×"} & {*shown.split("part")[0].split("Read it from below.")[1]}


def test_the_csv_has_a_row_a_matrix():
    rows = [list(row) for row in model_table(model_diagram(section("encoder-decoder"))).rows]
    assert ["encoder attention", 2, "W^q", "16x16", False, 256] in rows
    assert ["decoder cross_attention norm", 2, "gain", "16", False, 16] in rows
    assert sum(row[1] * row[5] for row in rows) == model_diagram(section("encoder-decoder")).parameters
