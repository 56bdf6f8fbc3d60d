"""Rows of a decoder and of cross-attention: an input, and the token behind it, for which it looks."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.cli.commands import tfcli
from tests.support.consoles import printed
from tests.support.runs import tiny_recipe, train_tiny
from tfcli.inspection.attention import AttentionRecord
from tfcli.inspection.attention.choice import cropped
from tfcli.inspection.attention.compute import attention
from tfcli.inspection.attention.view import attention_view
from tfcli.inspection.passes import read_text
from tfcli.inspection.words import attention_in_words
from tfcli.records.arrays import frozen
from tfcli.runs.load import load_run

Trained = Callable[[str], Path]
SOURCE, TARGET = "O livro está em cima da mesa .", "The book is on the table ."


def by_kind(records: list[AttentionRecord]) -> dict[str, AttentionRecord]:
    return {record.kind: record for record in records}


@torch.no_grad()
def likeliest(run: Any, *text: str) -> str:
    """The token that the fused path, which knows no weights, finds likeliest behind the text."""
    logits = run.model(*read_text(run, *text, remark=False).tensors(run.device))[0, -1]
    [label] = run.tokenizer.labels([int(logits.argmax())])
    return label


@pytest.mark.parametrize(("architecture", "text"), [("decoder", ("Tom ran",)), ("encoder-decoder", (SOURCE, TARGET))])
def test_what_looks_is_the_next_token_and_the_last_row_has_the_model_s_own(
    trained: Trained, architecture: str, text: tuple[str, ...]
):
    run = load_run(trained(architecture))
    for kind, record in by_kind(attention(run, *text)).items():
        if kind == "encoder_self":
            assert (record.next_tokens, record.next_predicted, record.asking) == ((), False, record.query_tokens)
            continue
        assert record.next_tokens == (*record.query_tokens[1:], likeliest(run, *text))
        assert record.next_predicted
        assert record.asking[0] == f"{record.query_tokens[0]} → {record.query_tokens[1]}"
        assert record.asking[-1] == f"{record.query_tokens[-1]} → {record.next_tokens[-1]}?"
        part = cropped(record, "1:3")
        assert (part.next_tokens, part.next_predicted) == (record.query_tokens[2:4], False)
        assert cropped(record, "-1:").asking == record.asking[-1:]


def test_an_encoder_predicts_no_next_token(trained: Trained):
    [record] = attention(load_run(trained("encoder")), "Tom ran")
    assert (record.next_tokens, record.asking) == ((), record.query_tokens)
    assert "→" not in printed(attention_view(record), 140)


def run_of(trained: Trained, *options: object) -> str:
    shown = tfcli("inspect", "attention", trained("encoder-decoder"), SOURCE, "--target", TARGET, *options)
    assert shown.exit_code == 0, shown.stderr
    return shown.stdout


def test_cross_attention_shows_beside_each_next_word_what_it_looked_at(trained: Trained, tmp_path: Path):
    """In the table, the SVG, the page, JSON and CSV, row t is the input t, the word t + 1, and the weights of query t:
    the queries come from the target, and the keys, which the columns are, from the source."""
    head = ("--kind", "cross", "--layer", 1, "--head", 0)
    [record] = json.loads(run_of(trained, *head, "--json"))["records"]
    target, source = record["query_tokens"], record["key_tokens"]
    assert (target, source) == (["<s>", *TARGET.split()], [*SOURCE.split(), "</s>"])
    assert (record["next_tokens"][:-1], record["next_predicted"]) == (target[1:], True)
    labels = [f"{one} → {after}" for one, after in zip(target, record["next_tokens"], strict=True)]
    labels[-1] += "?"
    weights = np.array(record["weights"])[0, 0]

    lines = run_of(trained, *head).splitlines()
    for label, row in zip(labels, weights, strict=True):
        [line] = [line for line in lines if line.lstrip().startswith(f"{label} ")]
        shown = [float(number) for number in re.findall(r"1\.0|\.\d\d", line.partition(label)[2])]
        np.testing.assert_allclose(shown[: len(row)], row, atol=0.0051)
    assert any("rows: input → next token (target), columns: keys (source)" in line for line in lines)

    rows = list(csv.DictReader(io.StringIO(run_of(trained, *head, "--csv"))))
    assert [row["next_token"] for row in rows[:: len(source)]] == record["next_tokens"]
    assert {row["query"] for row in rows if row["next_predicted"] == "True"} == {str(len(target) - 1)}

    svg, page = tmp_path / "a.svg", tmp_path / "a.html"
    run_of(trained, *head, "--svg", svg, "--html", page)
    texts = [one.text for one in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert [text for text in texts if text in labels] == labels
    data = json.loads(page.read_text().partition('id="data">')[2].partition("</script>")[0])
    assert data["records"][0]["asking"] == labels


def test_a_query_is_still_named_by_its_input(trained: Trained):
    """One row, in which "book" looks for "is"; a word that is only predicted is no query."""
    page = run_of(trained, "--kind", "cross", "--query", "book")
    assert "where book → is (2) looks" in page
    assert "Predicted behind book (2)" in page
    refused = tfcli("inspect", "attention", trained("encoder-decoder"), SOURCE, "--target", "The", "--query", "book")
    assert refused.exit_code == 2


@pytest.mark.parametrize(("width", "label"), [(80, "travelling → December"), (52, "trave… → Decem…"), (40, "trav…")])
def test_where_labels_have_little_room_both_sides_are_cut_and_then_the_arrow_goes(width: int, label: str):
    tokens = ("travelling", "December", *(f"word{n}" for n in range(14)))
    record = AttentionRecord(
        *("decoder_self", tokens, tokens, frozen([[np.tri(16) / np.arange(1, 17)[:, None]]])),
        next_tokens=(*tokens[1:], "Rio"),
        next_predicted=True,
    )
    text = printed(attention_view(record), width)
    assert f"{label} " in text
    words = " ".join(text.split())
    assert ("Rio?" in words, "stands in the row below it; that of the last: Rio?" in words) == (True, width == 40)
    assert "“?”: the model's likeliest next token, where the text ends" in words


def test_next_words_are_those_behind_the_whole_word(trained: Trained):
    """Every letter is a token of this run; behind the last word stands the token that comes next."""
    run = load_run(trained("decoder"))
    [record] = attention(run, "Tom ran on")
    words = attention_in_words(record)
    assert words.next_tokens == ("Tom", "ran", "on", likeliest(run, "Tom ran on"))
    assert words.asking[:2] == ("<s> → Tom", "Tom → ran")


def test_a_comparison_names_the_next_token_of_both_sides(trained: Trained):
    shown = run_of(trained, "--kind", "cross", "--layer", 0, "--head", 0, "--against-head", "0.1")
    assert "book → is (2) at " in shown or "The → book (1) at " in shown or "<s> → The (0) at " in shown
    assert "rows: input → next token (target)" in shown


@pytest.mark.slow
def test_in_a_trained_translator_the_next_word_looks_at_its_own_source_word(tmp_path: Path):
    """The same English for two Portuguese word orders: the rows that predict "Rio" and "December" look at "Rio" and
    "Dezembro", wherever these stand, and the rows that read them do not."""
    sizes = {"model": {"d_model": 96, "num_layers": 2, "num_heads": 4, "positions": "rotary", "max_seq_len": 48}}
    steps = {"train": {"steps": 500, "batch_size": 96, "learning_rate": 3e-3, "warmup_steps": 50}}
    recipe = tiny_recipe("encoder-decoder", sizes, steps, {"data": {"max_documents": None}})
    train_tiny(recipe, tmp_path / "run")
    run, target = load_run(tmp_path / "run"), "Lucas is travelling to Rio in December."
    for source in ("Em Dezembro, Lucas irá viajar ao Rio.", "Lucas irá viajar ao Rio em Dezembro."):
        cross = by_kind(attention(run, source, target))["cross"]
        for word, key in (("Rio", "Rio"), ("December", "Dezembro")):
            column = cross.key_tokens.index(key)
            looking, reading = cross.next_tokens.index(word), cross.query_tokens.index(word)
            best = cross.weights[..., looking, column].max(), cross.weights[..., reading, column].max()
            assert best[0] > 0.5, (source, word, best)
            assert cross.weights[..., looking, column].mean() > 2 * cross.weights[..., reading, column].mean()
    assert replace(cross, next_tokens=()).asking == cross.query_tokens
