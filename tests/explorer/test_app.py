"""The explorer, driven by keys and the mouse."""

import threading
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.support.explorer import decoder_reading, explorer, play, translation_reading
from tfcli.errors import UsageError
from tfcli.explorer.keys import KEYS
from tfcli.explorer.reading import Reading
from tfcli.explorer.state import Place


def test_every_key_has_an_action():
    app = explorer(decoder_reading())
    for key in KEYS:
        assert hasattr(app, f"action_{key.action.partition('(')[0]}"), key


def test_arrows_move_the_cursor_and_the_row_is_told():
    app = explorer(decoder_reading())
    shown = play(app, "home", "pageup", "down", "down", "right")
    assert (app.view.row, app.view.column) == (2, 1)
    assert "where ·swam looks" in shown
    value = app.scene.record.weights[1, 2, 2, 1]
    assert f"·swam → Tom  {value:.4f}" in shown
    play(app := explorer(decoder_reading()), "end", "pagedown", "up")
    assert (app.view.row, app.view.column) == (4, 5)


@pytest.mark.parametrize(
    ("keys", "place"), [("h", (1, 1)), ("l.", (1, 1)), (",", (1, 1)), ("j", (0, 2)), ("[", (0, 2)), ("k]", (1, 2))]
)
def test_keys_of_layers_and_heads(keys: str, place: tuple[int, int]):
    app = explorer(decoder_reading())
    names = {".": "full_stop", ",": "comma", "[": "left_square_bracket", "]": "right_square_bracket"}
    shown = play(app, *(names.get(key, key) for key in keys))
    assert app.view.place == Place("decoder_self", *place)
    assert f"layer {place[0]} of 2 · head {place[1]} of 3" in shown
    assert f"--layer {place[0]} --head {place[1]}" in shown


def test_kinds_come_round():
    app = explorer(translation_reading())
    kinds = []
    for keys in ([], ["t"], ["t", "tab"], ["t", "t", "t"]):
        play(app := explorer(translation_reading()), *keys)
        kinds.append(app.view.place.kind)
    assert kinds == ["cross", "encoder_self", "decoder_self", "cross"]
    assert "one kind" in play(explorer(decoder_reading()), "t")


def test_scale_colours_order_and_zoom():
    app = explorer(decoder_reading())
    shown = play(app, "s", "c", "o", "z", size=(120, 30))
    assert (app.view.scale, app.view.palette, app.view.sorted, app.view.zoomed) == ("log", "viridis", True, True)
    assert "log, viridis" in shown
    assert "logarithmic" in shown


def test_bars_come_with_the_largest_first_when_asked():
    app = explorer(decoder_reading())
    shown = play(app, "o")
    row = app.scene.record.weights[1, 2, 5]
    by_weight = [app.scene.keys[key] for key in sorted(range(6), key=lambda key: -row[key])]
    panel = [line.rpartition("││")[2].lstrip(" ▸") for line in shown.splitlines()[2:8]]
    assert [line.split()[0] for line in panel] == by_weight


def test_scores_stand_beside_their_weights():
    app = explorer(decoder_reading())
    assert "score before the softmax" in play(app, "w")
    assert app.scene.values.signed
    assert f"score {app.scene.record.scores[1, 2, 5, 1]:+.3g}" in play(explorer(decoder_reading()))


def test_mean_and_rollout():
    shown = play(explorer(decoder_reading()), "r", size=(120, 30))
    assert "layer 1, mean of its heads" in shown
    assert "--layer 1 --average layer" in shown
    shown = play(explorer(decoder_reading()), "r", "r", size=(120, 30))
    assert "rollout through layers 0 to 1" in shown
    assert "--layer 1 --rollout" in shown


def test_the_difference_between_two_heads():
    app = explorer(decoder_reading())
    assert "Marked" in play(app, "d")
    app = explorer(decoder_reading())
    shown = play(app, "d", "h", "d", size=(120, 30))
    weights = app.scene.record.weights
    assert f"{weights[1, 1, 5, 1] - weights[1, 2, 5, 1]:+.4f}" in shown
    assert "--layer 1 --head 1 --against-head 1.2" in shown


def test_clicks_choose_cells_tokens_and_heads():
    async def click(pilot: Pilot[Any]) -> None:
        thumbnails = pilot.app.query_one("#heads")
        # Frame 1, numbers of layers 4, numbers of heads 1: a point of the first thumbnail.
        await pilot.click(thumbnails, offset=(6, 3))

    app = explorer(decoder_reading())
    play(app, click)
    assert app.view.place == Place("decoder_self", 0, 0)

    async def click_token(pilot: Pilot[Any]) -> None:
        await pilot.click("#tokens", offset=(8, 0))  # behind "query "
        await pilot.click("#tokens", offset=(13, 1))  # the second key

    app = explorer(decoder_reading())
    play(app, click_token)
    assert (app.view.row, app.view.column) == (0, 1)


def test_a_click_on_a_cell_moves_the_cursor_and_pointing_at_one_only_tells_it():
    def cell(app: Any) -> tuple[int, int]:
        grid = app.query_one("#map")._grid
        return 1 + grid.gutter + 1, 1 + grid.header

    async def click(pilot: Pilot[Any]) -> None:
        await pilot.click("#map", offset=cell(pilot.app))

    async def point(pilot: Pilot[Any]) -> None:
        await pilot.hover("#map", offset=cell(pilot.app))

    app = explorer(decoder_reading())
    assert "<s> → <s>  1.0000" in play(app, point)
    assert (app.view.row, app.view.column) == (5, 1)
    play(app := explorer(decoder_reading()), click)
    assert (app.view.row, app.view.column) == (0, 0)


def test_an_edited_text_is_read_again_off_the_screens_thread():
    threads: list[int] = []

    def read(text: str, target: str | None) -> Reading:
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
    assert "Tom swam to the bankq" in play(app, "e", "q", "tab")
    app = explorer(decoder_reading())
    shown = play(app, "e", "q", "tab", "escape", "j")
    assert "bankq" not in shown
    assert app.view.place == Place("decoder_self", 0, 2), "keys are keys again"


def test_a_line_break_is_edited_as_a_sign():
    texts: list[str] = []

    def read(text: str, target: str | None) -> Reading:
        texts.append(text)
        return decoder_reading()

    play(explorer(decoder_reading("<s>", "a\nb\t"), read), "e", "c", "enter")
    assert texts == ["a\nb\tc"]


def test_a_target_is_given_and_taken_back():
    asked: list[tuple[str, str | None]] = []

    def read(text: str, target: str | None) -> Reading:
        asked.append((text, target))
        return translation_reading()

    play(explorer(translation_reading(), read), "E", *"cat", "enter")
    play(explorer(translation_reading(), read), "E", "enter")
    assert asked == [("O gato dorme", "cat"), ("O gato dorme", None)]
    assert "only an encoder-decoder has a target" in play(explorer(decoder_reading()), "E", size=(120, 30))


def test_a_text_that_cannot_be_read_is_a_sentence_and_the_old_one_stays():
    def read(text: str, target: str | None) -> Reading:
        raise UsageError("The text has 99 tokens and the context holds 32", "shorten the text")

    app = explorer(decoder_reading(), read)
    shown = play(app, "e", "x", "enter")
    assert "The text has 99 tokens and the context holds 32; shorten the text." in shown
    assert app.scene.reading.text == decoder_reading().text
    assert "The text has" not in play(explorer(decoder_reading(), read), "e", "x", "enter", "up")


def test_search_goes_from_one_token_to_the_next():
    app = explorer(decoder_reading("<s>", "the", "cat", "the", "dog"))
    play(app, "slash", *"the", "enter")
    assert app.view.row == 1, "behind the last row come the first ones"
    app = explorer(decoder_reading("<s>", "the", "cat", "the", "dog"))
    play(app, "slash", *"the", "enter", "n")
    assert app.view.row == 3
    app = explorer(translation_reading())
    play(app, "slash", *"gato", "enter")
    assert app.view.column == 1, "a key, where no query is called so"
    assert "No token contains “xyz”." in play(explorer(decoder_reading()), "slash", *"xyz", "enter")


def test_files_are_written_and_what_cannot_be_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert "Written: decoder_self-layer1-head2.svg" in play(explorer(decoder_reading()), "x", "enter", size=(120, 30))
    assert (tmp_path / "decoder_self-layer1-head2.svg").read_text().startswith("<svg")
    refused = play(explorer(decoder_reading()), "x", "backspace", "enter", size=(120, 30))
    assert "does not say what to write; let it end in .svg .html .csv or .json." in refused
    assert [path.name for path in tmp_path.iterdir()] == ["decoder_self-layer1-head2.svg"]


def test_help_names_every_key_and_any_key_leaves_it():
    shown = play(explorer(decoder_reading()), "question_mark", size=(80, 24))
    for key in KEYS:
        assert key.written.split("  ")[0] in shown, key
        assert key.words in shown, key
    app = explorer(decoder_reading())
    assert "any key goes back" not in play(app, "question_mark", "j")
    assert app.view == decoder_reading().first_view(), "the key that leaves the help does nothing else"


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_leaving_gives_the_plain_command(key: str):
    app = explorer(decoder_reading("<s>", "a"))
    play(app, "h", key)
    assert app.return_value == "tfcli inspect attention runs/tiny-1 a --layer 1 --head 1"


def test_a_fault_ends_the_app_without_a_traceback(capsys: pytest.CaptureFixture[str]):
    def read(text: str, target: str | None) -> Reading:
        raise RuntimeError("a fault")

    app = explorer(decoder_reading(), read)

    async def press(pilot: Pilot[Any]) -> None:
        await pilot.press("e", "x", "enter")

    app.run(headless=True, auto_pilot=press)
    assert app.fault is not None
    assert "a fault" in str(app.fault)
    printed = capsys.readouterr()
    assert "Traceback" not in printed.out + printed.err
