"""The explorer, driven by keys and the mouse."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from textual.pilot import Pilot

from tests.draw.test_pooling_and_colors import contrast
from tests.support.explorer import decoder_reading, explorer, play, translation_reading, watch
from tfcli.errors import UsageError
from tfcli.explorer.app import Explorer
from tfcli.explorer.map import AttentionMap
from tfcli.explorer.panels import KEYS
from tfcli.explorer.scene import CURSOR, ReadText, TextReader
from tfcli.inspection.heads import Head
from tfcli.runs.load import load_run


def test_every_key_has_an_action():
    app = explorer(decoder_reading())
    for key in KEYS:
        assert hasattr(app, f"action_{key.action.partition('(')[0]}"), key


def test_arrows_move_the_cursor_and_the_row_is_told():
    app = explorer(decoder_reading())
    weights = app.scene.record.weights[1, 2]
    first, second = watch(app, ["home", "pageup", "down", "down", "right"], ["end", "pagedown", "up", "left"])
    assert "where ·swam looks" in first
    assert f"·swam at Tom  {weights[2, 1]:.4f}" in first
    assert f"·the at ·the  {weights[4, 4]:.4f}" in second
    assert (app.view.row, app.view.column) == (4, 4)


def test_keys_of_layers_and_heads():
    app = explorer(decoder_reading())
    keys = ["h", "l", "full_stop", "comma", "j", "k", "left_square_bracket", "right_square_bracket"]
    places = [(1, 1), (1, 2), (1, 0), (1, 2), (0, 2), (1, 2), (0, 2), (1, 2)]
    for (layer, head), shown in zip(places, watch(app, *([key] for key in keys)), strict=True):
        assert f"layer {layer} of 2 · head {head} of 3" in shown
        assert f"─ layer {layer}, head {head} · weights" in shown
        assert f"--head {layer}.{head}" in shown


def test_kinds_come_round():
    names = ("encoder self-attention", "decoder self-attention", "cross-attention")
    screens = watch(explorer(translation_reading()), ["t"], ["tab"], ["t"])
    assert [name in shown for name, shown in zip(names, screens, strict=True)] == [True] * 3
    assert "one kind" in play(explorer(decoder_reading()), "t")


def test_scale_and_zoom_are_told():
    app = explorer(decoder_reading())
    shown = play(app, "s", "z")
    assert (app.view.scale, app.view.zoomed) == ("log", True)
    assert "log, cividis" in shown
    assert "logarithmic" in shown


def test_bars_come_with_the_largest_first_when_asked():
    app = explorer(decoder_reading())
    row = app.scene.record.weights[1, 2, 5]
    for shown, keys in zip(watch(app, [], ["o"]), (range(6), sorted(range(6), key=lambda key: -row[key])), strict=True):
        panel = [line.rpartition("││")[2].lstrip(" ▸").split() for line in shown.splitlines()[2:8]]
        assert [line[0] for line in panel] == [app.scene.keys[key] for key in keys]


def test_scores_stand_beside_their_weights():
    app = explorer(decoder_reading())
    score = app.scene.record.scores
    assert score is not None
    before, after = watch(app, [], ["w"])
    assert f"score {score[1, 2, 5, 1]:+.3g}" in before
    assert f"at Tom  {score[1, 2, 5, 1]:+.4f}  weight {app.scene.record.weights[1, 2, 5, 1]:.4f}" in after
    assert "score before the softmax" in after


def test_mean_and_rollout():
    mean, rollout, head = watch(explorer(decoder_reading()), ["r"], ["r"], ["r"])
    assert "─ layer 1, mean of its heads" in mean
    assert "--layer 1 --average layer" in mean
    assert "─ rollout through layers 0 to 1" in rollout
    assert "--layer 1 --rollout" in rollout
    assert "─ layer 1, head 2 · weights" in head


def test_the_difference_between_two_heads():
    app = explorer(decoder_reading())
    marked, different, neither = watch(app, ["d"], ["h", "d"], ["d"])
    assert "Marked" in marked
    weights = app.scene.record.weights
    assert f"{weights[1, 1, 5, 1] - weights[1, 2, 5, 1]:+.4f}" in different
    assert "--head 1.1 --against-head 1.2" in different
    assert "marked" not in neither


def test_clicks_choose_heads_tokens_and_cells_and_pointing_at_a_cell_only_tells_it():
    app = explorer(decoder_reading())

    def cell(row: int, column: int) -> tuple[int, int]:
        grid = app.query_one(AttentionMap)._grid
        assert grid is not None
        return 1 + grid.gutter + column * grid.cell_width, 1 + grid.header + row * grid.cell_height

    async def point(pilot: Pilot[Any]) -> None:
        await pilot.hover("#map", offset=cell(2, 2))

    async def click_cell(pilot: Pilot[Any]) -> None:
        await pilot.click("#map", offset=cell(3, 2))

    async def click_token(pilot: Pilot[Any]) -> None:
        await pilot.click("#tokens", offset=(8, 0))  # the first query, behind "query "
        await pilot.click("#tokens", offset=(13, 1))  # the second key

    async def click_head(pilot: Pilot[Any]) -> None:
        await pilot.click("#heads", offset=(6, 3))  # in the frame, behind "L0", under the numbers of heads

    pointed, clicked, token, head = watch(app, point, click_cell, click_token, click_head)
    assert "·swam at ·swam" in pointed
    assert "where ·bank looks" in pointed, "the cursor is where it was"
    assert "where ·to looks" in clicked
    assert "·to at ·swam" in clicked
    assert "where <s> looks" in token
    assert "<s> may not look at Tom: exactly 0" in token
    assert "layer 0 of 2 · head 0 of 3" in head


def test_an_edited_text_is_read_again_off_the_screens_thread():
    threads: list[int] = []

    def read(text: str, target: str | None) -> ReadText:
        threads.append(threading.get_ident())
        return decoder_reading("<s>", *text.split(" "))

    app = explorer(decoder_reading("<s>", "Tom"), read)
    shown = play(app, "e", *"!x", "enter")
    assert app.scene.reading.text == "Tom!x"
    assert "Tom!x" in shown
    assert threads
    assert threads[0] != threading.get_ident()


def test_escape_leaves_the_text_and_letters_in_the_prompt_are_no_keys():
    app = explorer(decoder_reading())
    typed, left = watch(app, ["e", "q", "tab"], ["escape", "j"])
    assert "Tom swam to the bankq" in typed
    assert "bankq" not in left
    assert app.view.place == Head("decoder_self", 0, 2), "keys are keys again"


def test_a_line_break_is_edited_as_a_sign():
    texts: list[str] = []

    def read(text: str, target: str | None) -> ReadText:
        texts.append(text)
        return decoder_reading()

    play(explorer(decoder_reading("<s>", "a\nb\t"), read), "e", "c", "enter")
    assert texts == ["a\nb\tc"]


def test_a_target_is_given_and_taken_back():
    asked: list[tuple[str, str | None]] = []

    def read(text: str, target: str | None) -> ReadText:
        asked.append((text, target))
        return translation_reading()

    watch(explorer(translation_reading(), read), ["E", *"cat", "enter"], ["E", "enter"])
    assert asked == [("O gato dorme", "cat"), ("O gato dorme", None)]
    assert "only an encoder-decoder has a target" in play(explorer(decoder_reading()), "E")


def test_a_text_that_cannot_be_read_is_a_sentence_and_the_old_one_stays():
    def read(text: str, target: str | None) -> ReadText:
        raise UsageError("The text has 99 tokens and the context holds 32", "shorten the text")

    app = explorer(decoder_reading(), read)
    refused, later = watch(app, ["e", "x", "enter"], ["up"])
    assert "The text has 99 tokens and the context holds 32; shorten the text." in refused
    assert app.scene.reading.text == decoder_reading().text
    assert "The text has" not in later


def test_search_goes_from_one_token_to_the_next():
    app = explorer(decoder_reading("<s>", "the", "cat", "the", "dog"))
    rows = []

    async def note(pilot: Pilot[Any]) -> None:
        rows.append(app.view.row)

    *_, none = watch(app, ["slash", *"the", "enter"], note, ["n"], note, ["n"], note, ["slash", *"xyz", "enter"])
    assert rows == [1, 3, 1], "behind the last row, where the cursor began, come the first ones"
    assert "No token contains “thexyz”." in none
    app = explorer(translation_reading())
    play(app, "slash", *"gato", "enter")
    assert app.view.column == 1, "a key, where no query is called so"


def test_files_are_written_and_what_cannot_be_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    written, refused = watch(explorer(decoder_reading()), ["x", "enter"], ["x", "backspace", "enter"])
    assert "Written: decoder_self-layer1-head2.svg" in written
    assert (tmp_path / "decoder_self-layer1-head2.svg").read_text().startswith("<svg")
    assert "does not say what to write; let it end in .svg .html .csv or .json." in refused
    assert [path.name for path in tmp_path.iterdir()] == ["decoder_self-layer1-head2.svg"]


def test_help_names_every_key_and_any_key_leaves_it():
    app = explorer(decoder_reading())
    shown, left = watch(app, ["question_mark"], ["j"], size=(80, 24))
    for key in KEYS:
        assert key.written.split("  ")[0] in shown, key
        assert key.words in shown, key
    assert "any key goes back" not in left
    assert app.view == decoder_reading().first_view(), "the key that leaves the help does nothing else"


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_leaving_gives_the_plain_command(key: str):
    app = explorer(decoder_reading("<s>", "a"))
    play(app, "h", key)
    assert app.return_value == "tfcli inspect attention runs/tiny-1 a --head 1.1"


def test_a_fault_ends_the_app_without_a_traceback(capsys: pytest.CaptureFixture[str]):
    def read(text: str, target: str | None) -> ReadText:
        raise RuntimeError("a fault")

    app = explorer(decoder_reading(), read)

    async def press(pilot: Pilot[Any]) -> None:
        await pilot.press("e", "x", "enter")

    app.run(headless=True, auto_pilot=press)
    assert app.fault is not None
    assert "a fault" in str(app.fault)
    printed = capsys.readouterr()
    assert "Traceback" not in printed.out + printed.err


def test_tokens_with_brackets_are_no_markup():
    tokens = ("[CLS]", "[bold]", "[/b]", "[", "@click", "\\[")
    screens = watch(explorer(decoder_reading(*tokens)), ["pageup"], *(["down"] for _ in tokens[1:]))
    for token, shown in zip(tokens, screens, strict=True):
        assert f"where {token} looks" in shown


def test_a_text_that_has_been_read_while_the_help_was_open_is_there_behind_it():
    go_on = threading.Event()

    def read(text: str, target: str | None) -> ReadText:
        go_on.wait(10)
        return decoder_reading("<s>", *text.split(" "))

    async def help_then_read(pilot: Pilot[Any]) -> None:
        await pilot.press("e", "x", "enter", "question_mark")
        go_on.set()

    shown, behind = watch(explorer(decoder_reading("<s>", "Tom"), read), help_then_read, ["tab"])
    assert "any key goes back" in shown
    assert "any key goes back" not in behind
    assert "where Tomx looks" in behind


@pytest.mark.parametrize("light", [False, True])
def test_b_changes_between_a_light_and_a_dark_background(light: bool):
    """Words and marks can be read on both."""
    app = Explorer(lambda text, target: decoder_reading(), decoder_reading(), "run", "best", "truecolor", light=light)
    seen = []

    async def look(pilot: Pilot[Any]) -> None:
        paper, ink = app.screen.styles.background, app.screen.styles.color
        seen.append((paper.hex, contrast(ink.rgb, paper.rgb), contrast(CURSOR, paper.rgb)))

    watch(app, look, ["b"], look, ["b"], look)
    dark, white = "#0D1117", "#FFFFFF"
    assert [paper for paper, *_ in seen] == ([white, dark, white] if light else [dark, white, dark])
    assert min(min(contrasts) for _, *contrasts in seen) > 4


def test_the_small_maps_are_on_their_own_scales_or_on_one():
    """Which of the two is in the frame; from 0 to 1 at first. No head of the cross-attention has a weight of 1."""
    one, own = watch(explorer(translation_reading(), color_system=None), [], ["a"], size=(120, 30))
    assert "own scales" in own and "0 to 1" not in own
    assert "0 to 1" in one and "own scales" not in one
    assert own.count("█") > one.count("█"), "on its own scale every head has a darkest cell"


def test_a_head_is_cut_out_under_the_cursor(trained: Callable[[str], Path]):
    """What the model predicts at the cursor's query without the head, by a pass with a hook of its own; of words, too;
    a mean of heads is none."""
    run = load_run(trained("decoder"))
    reading = TextReader(run).read("Tom swam")
    app = explorer(reading)
    view = app.view
    attention = run.model.transformer_layers[view.place.layer].attention
    own = slice(view.place.head * attention.head_dim, (view.place.head + 1) * attention.head_dim)

    def silence(_: object, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        mixed = inputs[0].clone()
        mixed[..., own] = 0.0
        return (mixed,)

    ids = torch.tensor([run.config.roles.prompt(run.tokenizer.encode("Tom swam"))])
    with torch.inference_mode():
        before = run.model(ids)[0, view.row].softmax(-1)
        with attention.output.register_forward_pre_hook(silence):
            after = run.model(ids)[0, view.row].softmax(-1)
    best = int(before.argmax())
    shares = f"{before[best]:.3f} → {after[best]:.3f}"
    for shown in watch(app, ["c"], ["p", "c"]):
        assert f"Without decoder head {view.place.layer}.{view.place.head}: p(" in shown and shares in shown
    assert "Choose one head first" in play(explorer(reading), "r", "c")
