"""``tfcli inspect attention``: parts, scores, means, comparisons and their forms, as a user types them."""

import csv
import io
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.commands import tfcli
from tests.support.runs import tiny_recipe, train_tiny
from tfcli.inspection.attention import AttentionDifference
from tfcli.inspection.attention.choice import AttentionChoice, rollout
from tfcli.inspection.attention.compute import attention
from tfcli.inspection.passes import Inputs, read_text
from tfcli.inspection.predictions.compute import predictions
from tfcli.runs.load import LoadedRun, load_run

TEXT = "Tom swam"
Trained = Callable[[str], Path]


def shown(run: Path, *options: str | Path, text: str = TEXT) -> str:
    result = tfcli("inspect", "attention", run, text, *options)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def loaded(run: Path, *options: str | Path, text: str = TEXT) -> Any:
    return json.loads(shown(run, *options, "--json", text=text))


def refused(run: Path, *options: str | Path, text: str = TEXT) -> str:
    result = tfcli("inspect", "attention", run, text, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr


def test_csv_is_the_json_s_weights_and_scores(trained: Trained):
    choice = ("--layer", "1", "--head", "0", "--scores")
    [record] = loaded(trained("decoder"), *choice)["records"]
    rows = list(csv.DictReader(io.StringIO(shown(trained("decoder"), *choice, "--csv"))))
    count = len(record["query_tokens"])
    assert len(rows) == count * count
    for row in rows:
        query, key = int(row["query"]), int(row["key"])
        assert (row["kind"], row["layer"], row["head"]) == ("decoder_self", "1", "0")
        assert (row["query_token"], row["key_token"]) == (record["query_tokens"][query], record["key_tokens"][key])
        assert float(row["weight"]) == record["weights"][0][0][query][key]
        assert float(row["score"]) == record["scores"][0][0][query][key]


def test_json_holds_scores_only_when_they_are_asked_for(trained: Trained):
    [record] = loaded(trained("decoder"))["records"]
    assert list(record) == ["kind", "query_tokens", "next_tokens", "next_predicted", "key_tokens", "weights"]


def test_a_part_of_the_text(trained: Trained):
    [whole] = loaded(trained("decoder"))["records"]
    [part] = loaded(trained("decoder"), "--rows", "-3:", "--columns", "4:6", "--first", "1")["records"]
    count = len(whole["query_tokens"])
    assert part["query_positions"] == [count - 3, count - 2, count - 1]
    assert part["key_positions"] == [0, 4, 5]
    expected = np.array(whole["weights"])[:, :, -3:][..., [0, 4, 5]]
    assert np.array_equal(np.array(part["weights"]), expected)
    text = shown(trained("decoder"), "--rows", "-3:", "--columns", "4:6", "--first", "1", "--head", "0.0")
    assert f"{count - 1} " in text
    assert "│" in text


def test_a_part_of_a_translation_is_one_of_the_cross_attention(trained: Trained):
    [record] = loaded(trained("encoder-decoder"), "--target", "The cat .", "--rows", "0:2", text="O gato dorme .")[
        "records"
    ]
    assert record["kind"] == "cross"
    assert len(record["weights"][0][0]) == 2


def test_the_strongest_weights(trained: Trained):
    found = loaded(trained("decoder"), "--top-k", "3", "--layer", "0", "--head", "1")
    [record] = loaded(trained("decoder"), "--layer", "0", "--head", "1")["records"]
    assert found["place"] == "layer 0, head 1"
    largest = np.sort(np.array(record["weights"]).ravel())[::-1][:3]
    np.testing.assert_allclose([edge["weight"] for edge in found["edges"]], largest, atol=1e-6)
    count = len(record["query_tokens"])
    assert (found["possible"], found["masked"]) == (count * (count + 1) // 2, count * (count - 1) // 2)
    assert "Strongest attention weights" in shown(trained("decoder"), "--top-k", "3")


def test_means_and_rollout(trained: Trained):
    run = trained("decoder")
    [record] = attention(load_run(run), TEXT)
    [mean] = loaded(run, "--average", "layer", "--layer", "1")["records"]
    assert mean["names"] == ["layer 1, mean of 2 heads"]
    np.testing.assert_allclose(mean["weights"][0][0], record.weights[1].mean(axis=0), atol=1e-6)
    [rolled] = loaded(run, "--rollout")["records"]
    np.testing.assert_allclose(rolled["weights"], rollout(record).weights, atol=1e-6)
    assert "rollout through layers 0 to 1" in shown(run, "--rollout")
    assert "mean of 2 layers × 2 heads" in shown(run, "--average", "all")


def test_a_rollout_of_an_encoder_decoder_leaves_cross_attention_out(trained: Trained):
    run = trained("encoder-decoder")
    kinds = [record["kind"] for record in loaded(run, "--target", "The", "--rollout", text="O gato")["records"]]
    assert kinds == ["encoder_self", "decoder_self"]
    assert "cross-attention looks into another one" in refused(run, "--rollout", "--kind", "cross", text="O gato")


def test_two_heads_compared(trained: Trained):
    run = trained("decoder")
    [record] = loaded(run)["records"]
    found = loaded(run, "--layer", "0", "--head", "1", "--against-head", "1.0", "--top-k", "2")
    assert found["names"] == ["layer 0, head 1", "layer 1, head 0"]
    assert (found["weights"], found["other_weights"]) == (record["weights"][0][1], record["weights"][1][0])
    assert len(found["largest"]) == 2


def test_two_texts_compared(trained: Trained):
    run = trained("decoder")
    found = loaded(run, "--head", "0", "--layer", "0", "--against-text", "Ann sat!")
    assert found["names"] == ["“Tom swam”", "“Ann sat!”"]
    assert found["other_weights"] == loaded(run, text="Ann sat!")["records"][0]["weights"][0][0]
    assert found["other_query_tokens"][1] == "A"
    counts = refused(run, "--against-text", "Ann")
    assert "“Tom swam” has 9 tokens and “Ann” 4 tokens" in counts


@pytest.mark.parametrize("options", [["--target", "The cat"], ["--beam", "2", "--max-new-tokens", "3"]], ids=" ".join)
def test_the_other_text_is_read_with_the_same_target_or_beam(trained: Trained, options: list[str]):
    """Its own translation would be another target, of another length."""
    run = trained("encoder-decoder")
    found = loaded(run, *options, "--layer", "0", "--head", "0", "--against-text", "O rato", text="O gato")
    cross = loaded(run, *options, text="O rato")["records"][-1]
    assert found["other_query_tokens"] == cross["query_tokens"]
    assert found["other_weights"] == cross["weights"][0][0]
    plain = loaded(run, text="O rato")["records"][-1]
    assert plain["query_tokens"] != cross["query_tokens"], "else nothing was told apart"


def test_a_run_of_another_tokenizer_reads_with_the_same_beam(trained: Trained, monkeypatch: pytest.MonkeyPatch):
    from tfcli.inspection.attention import compute as module

    ours, theirs = load_run(trained("encoder-decoder")), load_run(trained("encoder-decoder"))
    theirs = replace(theirs, config=replace(theirs.config, tokenizer_fingerprint="another"))
    asked = []

    def read(choice: AttentionChoice, run: LoadedRun, text: str) -> Inputs:
        asked.append((run, text))
        return read_text(run, text, beam=choice.beam, max_new_tokens=choice.max_new_tokens)

    monkeypatch.setattr(AttentionChoice, "read", read)
    monkeypatch.setattr(module, "load_run", lambda *asked_for: theirs)
    choice = AttentionChoice(against_run=Path("b"), beam=2, max_new_tokens=3)
    found = module.inspect_attention(ours, "O gato", choice)
    assert asked == [(ours, "O gato"), (theirs, "O gato")]
    assert isinstance(found, AttentionDifference) and found.largest == ()


def test_two_runs_compared(trained: Trained, tmp_path: Path):
    run = trained("decoder")
    settings = {"model": {"num_layers": 1}, "train": {"steps": 2}}
    train_tiny(tiny_recipe("decoder", settings), tmp_path / "other")
    found = loaded(run, "--layer", "0", "--head", "1", "--against-run", tmp_path / "other")
    assert found["names"] == [str(run), str(tmp_path / "other")]
    assert found["other_weights"] == loaded(tmp_path / "other")["records"][0]["weights"][0][1]
    missing = refused(run, "--layer", "1", "--against-run", tmp_path / "other")
    assert "There is no layer 1: the model has 1" in missing
    shutil.copytree(run, tmp_path / "same")
    assert "No difference" in shown(run, "--against-run", tmp_path / "same")
    other_words = refused(run, "--against-run", trained("encoder-decoder"), text="o gato")
    assert "reads other tokens: token 1 is" in other_words
    assert "compare runs with one tokenizer" in other_words
    assert "no decoder_self attention" in refused(run, "--against-run", trained("encoder"))


def test_two_checkpoints_compared(trained: Trained):
    run = trained("encoder-decoder")
    assert "No difference" in shown(run, "--against-checkpoint", "80", "--checkpoint", "last", text="O gato")
    assert "step 7" in refused(run, "--against-checkpoint", "7", text="O gato").replace("checkpoint '7'", "step 7")


def test_a_run_with_one_checkpoint_has_no_evolution(trained: Trained):
    assert "keeps one checkpoint, of step 80, and an evolution needs three" in refused(
        trained("decoder"), "--evolution"
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--rollout", "--average", "all"], "--rollout takes the mean of each layer's heads already"),
        (
            ["--rollout", "--head", "0.0"],
            "--rollout takes all heads of a layer together; leave --head or --rollout out",
        ),
        (["--average", "layer", "--head", "0.0"], "--average takes all heads together"),
        (["--average", "all", "--layer", "0"], "--average all takes all layers together"),
        (["--scores", "--rollout"], "--scores is before the softmax, and those are after it"),
        (["--scores", "--top-k", "3"], "--scores shows one head's numbers; leave --top-k or --scores out"),
        (["--evolution", "--rows", "0:2"], "--evolution shows the whole text, small"),
        (["--evolution", "--against-head", "0.0"], "--evolution shows one head at every checkpoint"),
        (["--against-head", "0.1", "--rollout"], "--against-head is one head less another"),
        (["--against-head", "0.1", "--against-text", "x"], "--against-head and --against-text are two comparisons"),
        (
            ["--against-head", "1"],
            "--against-head 1 is not a head; write LAYER.HEAD, both counted from 0, such as --against-head 1.0",
        ),
        (["--against-head", "7.0"], "There is no layer 7: the model has 2"),
        (["--rows", "0:99"], "--rows 0:99 lies outside the 9 there are; choose within 0:9"),
        (["--columns", "3:3"], "--columns 3:3 holds nothing: there are 9"),
        (["--scores", "--words"], "--scores is before the softmax, where the pieces of a word do not add up"),
        (["--query", "Tom", "--rows", "0:2"], "--query shows one row of weights; leave --rows or --query out"),
        (["--query", "m"], "--query 'm' is there 2 times; choose m:1 (position 3), m:2 (position 8)"),
        (["--query", "m:3"], "The text has 'm' 2 times, and no m:3; choose m:1 (position 3), m:2 (position 8)"),
        (["--query", "cat"], "--query 'cat' is no word of the text; choose one of <s>, Tom, swam"),
        (["--csv", "--json"], "--csv and --json are two forms of one result"),
    ],
)
def test_what_means_nothing_is_refused_in_a_sentence(trained: Trained, options: list[str], sentence: str):
    message = refused(trained("decoder"), *options)
    assert sentence in message
    assert len(message.splitlines()) == 1


def test_words_are_entries_in_every_form(trained: Trained, tmp_path: Path):
    """Every letter is a token; the space goes with the word behind it."""
    [whole] = loaded(trained("decoder"))["records"]
    [record] = loaded(trained("decoder"), "--words")["records"]
    assert record["query_tokens"] == record["key_tokens"] == ["<s>", "Tom", "swam"]
    pieces = np.array(whole["weights"])
    by_hand = pieces[:, :, 4:9, 1:4].sum(-1).mean(-1)  # what " swam" gives to "Tom"
    np.testing.assert_allclose(np.array(record["weights"])[:, :, 2, 1], by_hand, atol=1e-6)
    rows = shown(trained("decoder"), "--words", "--csv", "--svg", tmp_path / "f.svg", "--html", tmp_path / "f.html")
    assert len(rows.splitlines()) == 1 + pieces.shape[0] * pieces.shape[1] * 9
    assert ">swam</text>" in (tmp_path / "f.svg").read_text()
    assert '"swam"' in (tmp_path / "f.html").read_text()
    assert len(loaded(trained("decoder"), "--words", "--rollout")["records"][0]["query_tokens"]) == 3


def test_one_word_s_row_with_what_is_predicted_behind_it(trained: Trained):
    seen = loaded(trained("decoder"), "--words", "--query", "swam")
    [record] = seen["records"]
    assert (record["query_tokens"], record["query_positions"]) == (["swam"], [2])
    expected = predictions(load_run(trained("decoder")), TEXT, top_k=5).predictions[-1].candidates
    assert [one["token"] for one in seen["predicted"]] == [one.token for one in expected]
    page = shown(trained("decoder"), "--words", "--query", "swam", "--layer", "0", "--head", "1")
    likeliest = expected[0].token.replace(" ", "·")
    for line in (f"where swam → {likeliest}? (2) looks, of 3 keys", "Predicted behind swam (2)", "layer 0, head 1"):
        assert line in page
    assert len(page.splitlines()) == 2 + 3 + 2 + 5, "a line a key and a candidate"
    assert loaded(trained("decoder"), "--query", "m:2")["records"][0]["query_positions"] == [8]
    masked = loaded(trained("encoder"), "--words", "--query", "<mask>", text="Tom <mask>")
    assert masked["predicted"] == [], "an encoder predicts nothing behind a token"


def test_npz_is_not_for_comparisons(trained: Trained, tmp_path: Path):
    message = refused(trained("decoder"), "--against-head", "0.1", "--npz", tmp_path / "x.npz")
    assert "--npz writes one text's weights as they are" in message


@pytest.mark.parametrize(
    "options",
    [[], ["--scores"], ["--rollout"], ["--top-k", "4"], ["--head", "0.0", "--against-head", "0.1"]],
    ids=" ".join,
)
def test_every_view_is_a_picture_and_a_page(trained: Trained, tmp_path: Path, options: list[str]):
    files = ("--svg", tmp_path / "a.svg", "--html", tmp_path / "a.html")
    first = shown(trained("decoder"), *options, *files).splitlines()[0]
    svg, page = (tmp_path / "a.svg").read_text(), (tmp_path / "a.html").read_text()
    assert svg.startswith("<svg")
    assert first.split(" · ")[0] in svg
    assert "<html" in page
    assert "http://www.w3.org/2000/svg" in svg
    assert "https://" not in svg + page


def test_without_colour_nothing_is_lost(trained: Trained):
    """A dumb terminal, NO_COLOR and a pipe read the same numbers; colour adds none."""
    import re

    command = ("inspect", "attention", trained("decoder"), TEXT, "--scores")
    plain = tfcli(*command).stdout
    colored = re.sub(r"\x1b\[[0-9;]*m", "", tfcli(*command, "--color", "always").stdout)
    numbers = re.compile(r"[+-]\d+\.\d+|\.\d\d")
    assert numbers.findall(plain)
    assert set(numbers.findall(plain)) <= set(numbers.findall(colored))


def test_thumbnails_share_a_colour_scale_or_have_each_their_own(trained: Trained):
    """Which of the two a reader sees stands under them."""
    one, own = shown(trained("encoder")), shown(trained("encoder"), "--scale", "each")
    assert "each map on its own scale" not in one
    assert "colours: each map on its own scale" in own
    assert one.splitlines()[-5:] == own.splitlines()[-5:], "the table is the same"
    assert own.splitlines()[2:12] != one.splitlines()[2:12]
    assert own.count("█") > one.count("█"), "every head reaches the darkest shade"


def test_help_shows_the_groups_of_options():
    page = tfcli("inspect", "attention", "--help").stdout
    places = [page.index(f"─ {panel} ─") for panel in ("What", "Which head", "Against what", "Output")]
    assert places == sorted(places)
    assert "--find" not in page
