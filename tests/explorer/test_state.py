"""Moves from one view to the next."""

from dataclasses import replace

from tests.support.explorer import decoder_reading, translation_reading
from tfcli.explorer.state import View
from tfcli.inspection.heads import Head

DECODER = decoder_reading("<s>", "a", "b", "c")
[RECORD] = DECODER.records
VIEW = View(Head("decoder_self", 1, 2))


def test_the_cursor_stays_on_the_map():
    assert VIEW.moved(RECORD, 2, 1).moved(RECORD, 9, -9) == replace(VIEW, row=3, column=0)


def test_behind_the_last_head_and_layer_come_the_first():
    assert VIEW.to_head(RECORD, 3).place == Head("decoder_self", 1, 0)
    assert VIEW.to_layer(RECORD, -1).place == Head("decoder_self", 1, 2)
    assert VIEW.to_layer(RECORD, 2).place == Head("decoder_self", 0, 2)


def test_another_kind_is_seen_on_its_telling_head_with_the_cursor_on_its_map():
    reading = translation_reading()
    view = View(Head("encoder_self", 0, 0), row=3, column=3, marked=Head("encoder_self", 0, 0), compared=True)
    moved = view.to_kind(reading.record("cross"))
    assert moved == View(Head("cross", 1, 2), row=3, column=3)


def test_scales_come_round_and_signed_values_have_no_logarithm():
    scales = [VIEW.scale]
    view = VIEW
    for _ in range(3):
        view = view.rescaled()
        scales.append(view.scale)
    assert scales == ["linear", "log", "row", "linear"]
    scores = VIEW.requantified()
    assert [scores.scale, scores.rescaled().scale, scores.rescaled().rescaled().scale] == ["linear", "row", "linear"]
    assert replace(VIEW, scale="log").requantified().scale == "linear"


def test_a_difference_is_marked_then_shown_then_left():
    marked = VIEW.differing()
    assert (marked.marked, marked.compared) == (VIEW.place, False)
    other = marked.to_head(RECORD, 0)
    shown = other.differing()
    assert (shown.marked, shown.compared, shown.signed) == (VIEW.place, True, True)
    assert shown.to_layer(RECORD, 0).compared, "other heads are compared with the same mark"
    assert (shown.differing().marked, shown.differing().compared) == (None, False)
    assert marked.differing().marked is None, "a head and itself do not differ"
    back = shown.to_head(RECORD, VIEW.place.head)
    assert (back.place, back.against, back.signed) == (VIEW.place, None, False), "the marked head is shown as it is"
    away = replace(back, scale="log").to_head(RECORD, other.place.head)
    assert (away.against, away.scale) == (VIEW.place, "linear"), "a difference has no logarithm"


def test_cross_attention_has_a_mean_and_no_rollout():
    ways = [VIEW.recombined().combined, VIEW.recombined().recombined().combined]
    assert ways == ["mean", "rollout"]
    cross = View(Head("cross", 0, 0)).recombined()
    assert (cross.combined, cross.recombined().combined) == ("mean", "head")


def test_choosing_a_head_leaves_the_mean():
    assert VIEW.recombined().to_head(RECORD, 1).combined == "head"


def test_a_new_text_keeps_the_view_and_brings_the_cursor_back_onto_the_map():
    long = replace(VIEW, row=3, column=3, scale="log")
    assert decoder_reading("<s>", "a").kept_view(long) == replace(long, row=1, column=1)


def test_the_first_view_is_the_telling_head_with_the_cursor_on_the_last_rows_strongest_key():
    view = DECODER.first_view()
    assert view.place == Head("decoder_self", 1, 2)
    assert (view.row, view.column) == (3, int(RECORD.weights[1, 2, 3].argmax()))


def test_scores_leave_a_difference_and_d_comes_back_to_it():
    """A map of scores that called itself a difference showed neither."""
    shown = VIEW.differing().to_head(RECORD, 0).differing()
    scores = shown.requantified()
    assert (scores.quantity, scores.compared, scores.marked) == ("scores", False, VIEW.place)
    assert scores.differing() == shown
