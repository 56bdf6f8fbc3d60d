"""Pictures, archives and the limit of what JSON holds."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.cli.commands import tfcli
from tfcli.inspection.attention.choice import focused
from tfcli.inspection.attention.compute import attention
from tfcli.runs.load import load_run


def test_files_are_written_beside_the_result(trained: Callable[[str], Path], tmp_path: Path):
    svg, html, npz = (tmp_path / f"heads.{kind}" for kind in ("svg", "html", "npz"))
    run = trained("encoder-decoder")
    result = tfcli(
        *("inspect", "attention", run, "O gato dorme.", "--target", "The cat sleeps."),
        *("--svg", svg, "--html", html, "--npz", npz, "--json"),
    )
    assert result.exit_code == 0, result.stderr
    shown = json.loads(result.stdout)
    assert shown["npz"] == str(npz)
    assert svg.read_text().startswith("<svg")
    assert "<html" in html.read_text()
    arrays = np.load(npz)
    for record in shown["records"]:
        assert record.keys() == {"kind", "query_tokens", "key_tokens"}, "the weights are in the file"
        assert record["key_tokens"] == arrays[f"{record['kind']}.key_tokens"].tolist()
    assert [record["kind"] for record in shown["records"]] == ["encoder_self", "decoder_self", "cross"]
    weights = arrays["cross.weights"]
    assert weights.shape[2:] == (len(arrays["cross.query_tokens"]), len(arrays["cross.key_tokens"]))
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


def test_layer_and_head_choose_what_json_holds(trained: Callable[[str], Path]):
    everything = json.loads(tfcli("inspect", "attention", trained("decoder"), "Tom", "--json").stdout)
    one = tfcli("inspect", "attention", trained("decoder"), "Tom", "--layer", "1", "--head", "0", "--json")
    [record] = json.loads(one.stdout)["records"]
    assert record["weights"] == [[everything["records"][0]["weights"][1][0]]]


def test_more_numbers_than_json_should_hold_are_refused_and_nothing_written(
    trained: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """ "Tom" is 4 tokens with <s>, so 2 layers × 2 heads × 4 × 4 = 64 numbers."""
    monkeypatch.setattr("tfcli.inspection.attention.view.MOST_NUMBERS", 63)
    command = ("inspect", "attention", trained("decoder"), "Tom", "--json", "--svg", tmp_path / "x.svg")
    refused = tfcli(*command)
    assert refused.exit_code == 2
    assert "64 weights are too many for JSON (at most 63); choose --head, or --rows" in refused.stderr
    assert list(tmp_path.iterdir()) == []
    assert tfcli(*command, "--layer", "0").exit_code == 0


def test_a_page_holds_every_head_while_it_can_and_else_those_that_are_chosen(
    trained: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """2 layers × 2 heads × 4 × 4 = 64 numbers."""
    page = tmp_path / "page.html"
    command = ("inspect", "attention", trained("decoder"), "Tom", "--layer", "1", "--head", "0", "--html", page)

    def held() -> tuple[int, int, int]:
        data = json.loads(page.read_text().partition('id="data">')[2].partition("</script>")[0])
        [record] = data["records"]
        assert data["focus"] == [0, 1 - record["layer"], 0], "it opens on the chosen head"
        return len(record["weights"]), len(record["weights"][0]), record["layer"]

    assert tfcli(*command).exit_code == 0
    assert held() == (2, 2, 0)
    monkeypatch.setattr("tfcli.inspection.attention.view.MOST_NUMBERS", 63)
    assert tfcli(*command).exit_code == 0
    assert held() == (1, 1, 1)
    refused = tfcli("inspect", "attention", trained("decoder"), "Tom", "--html", page)
    assert refused.exit_code == 2
    assert "64 weights are too many for a page" in refused.stderr


def test_two_pictures_in_one_file_are_refused(tmp_path: Path):
    result = tfcli("inspect", "positions", "--svg", tmp_path / "x", "--html", tmp_path / "y" / ".." / "x")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "are both" in result.stderr and "name two files" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("option", "name"), [("--svg", "slide.PNG"), ("--svg", "a.html"), ("--html", "page.pdf")])
def test_a_picture_under_the_name_of_another_kind_is_refused(option: str, name: str, tmp_path: Path):
    result = tfcli("inspect", "positions", option, tmp_path / name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert (
        f"would be {option[2:].upper()} under the name of another kind; name it {name.split('.')[0]}." in result.stderr
    )
    assert list(tmp_path.iterdir()) == []


def test_positions_as_csv_are_a_position_a_line():
    """PE(1) of d_model 2 is (sin 1, cos 1) = (0.841471, 0.540302)."""
    result = tfcli("inspect", "positions", "--length", "2", "--d-model", "2", "--csv")
    rows = [[float(number) for number in line.split(",")] for line in result.stdout.splitlines()]
    assert rows[0] == [0.0, 1.0]
    assert rows[1] == pytest.approx([0.841471, 0.540302], abs=1e-6)


def test_the_table_is_of_the_head_that_says_most_unless_one_is_asked_for(trained: Callable[[str], Path]):
    command = ("inspect", "attention", trained("decoder"), "Tom swam across")
    run = load_run(trained("decoder"))
    [record] = attention(run, "Tom swam across")
    layer, head = record.focus

    shown = tfcli(*command).stdout
    assert "every head" in shown
    assert f"layer {layer}, head {head}" in shown

    other = (1 - layer, 1 - head)
    asked = tfcli(*command, "--layer", str(other[0]), "--head", str(other[1])).stdout
    assert "every head" not in asked
    assert f"layer {other[0]}, head {other[1]}" in asked


def test_one_layer_is_shown_by_all_of_its_heads_and_the_one_that_says_most_in_it(trained: Callable[[str], Path]):
    [record] = attention(load_run(trained("decoder")), "Tom swam across")
    for layer in (0, 1):
        shown = tfcli("inspect", "attention", trained("decoder"), "Tom swam across", "--layer", str(layer)).stdout
        assert f"layer {layer}, head {focused(record, layer).focus[1]}" in shown
        heads = record.weights.shape[1]
        assert f"layer {layer}, every head\n{heads} heads (H); " in shown
        assert [word for word in shown.split() if word in ("L0", "L1")] == [f"L{layer}"] * heads


def test_the_newline_that_ends_stdin_is_no_part_of_the_text(trained: Callable[[str], Path]):
    command = ("inspect", "attention", trained("decoder"))
    typed = tfcli(*command, "Tom", "--json").stdout
    assert tfcli(*command, "-", "--json", stdin="Tom\n").stdout == typed
    assert tfcli(*command, "-", "--json", stdin="Tom\r\n").stdout == typed
    assert tfcli(*command, "-", "--json", stdin="Tom\n\n").stdout != typed


def test_a_file_has_a_cell_for_every_number_of_the_table(tmp_path: Path):
    """In a terminal of 80 columns one position of 2 is drawn, and one pair in four. In the file, cells of 8 × 9 pixels
    begin behind a margin of 16, the numbers of the positions and a blank; a line stands between sines and cosines."""
    typed = ("inspect", "positions", "--length", "100", "--d-model", "260", "--svg", tmp_path / "a.svg")
    assert "drawn: one position of 2; one pair of dimensions of 4" in " ".join(tfcli(*typed).stdout.split())
    drawn = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "drawn:" not in drawn
    cells = re.findall(r"<rect x='(\d+)' y='(\d+)' width='(\d+)' height='9'", drawn)
    assert len({top for _, top, _ in cells}) == 100 / 2
    assert max(int(left) + int(width) for left, _, width in cells) == 16 + 8 * (3 + 130 + 1 + 130)


@pytest.mark.parametrize("base", ["0", "1", "-5"])
def test_a_base_that_makes_no_wavelengths_is_refused(base: str):
    result = tfcli("inspect", "positions", "--base", base)
    assert result.exit_code == 2
    assert f"--base {base} gives no growing wavelengths" in result.stderr


def test_a_table_has_one_form():
    result = tfcli("inspect", "positions", "--csv", "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--csv and --json" in result.stderr


def test_attention_follows_the_chosen_beam(trained: Callable[[str], Path]):
    """The target is the text that `tfcli generate` finds with as many beams."""
    run, text = trained("encoder-decoder"), "O gato dorme."
    search = ("--beam", "3", "--max-new-tokens", "4")
    found = json.loads(tfcli("generate", run, text, *search, "--json").stdout)
    shown = tfcli("inspect", "attention", run, text, *search, "--kind", "decoder_self", "--json")
    [record] = json.loads(shown.stdout)["records"]
    loaded = load_run(run)
    new = [token for token in found["token_ids"] if token != loaded.config.roles.eos]
    assert record["query_tokens"] == ["<s>", *loaded.tokenizer.labels(new)]


def test_a_limit_without_a_beam_is_refused(trained: Callable[[str], Path]):
    refused = tfcli("inspect", "attention", trained("decoder"), "Tom", "--max-new-tokens", "4")
    assert refused.exit_code == 2
    assert "--max-new-tokens is for the text that --beam finds; add --beam N" in refused.stderr
