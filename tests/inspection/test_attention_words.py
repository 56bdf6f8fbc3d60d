"""Attention between words: the weights of their pieces added up, in every picture, and named pairs."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.commands import tfcli
from tests.support.explorer import explorer, watch
from tfcli.errors import UsageError
from tfcli.explorer.scene import TextReader
from tfcli.inspection.attention import AttentionRecord
from tfcli.inspection.attention.compute import attention, named_pairs
from tfcli.inspection.embeddings import Word
from tfcli.inspection.words import attention_in_words
from tfcli.records.arrays import frozen
from tfcli.runs.load import load_run

Trained = Callable[[str], Path]
FOX = "The quick brown fox jumps"


@settings(max_examples=40, deadline=None)
@given(
    queries=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    keys=st.lists(st.integers(1, 4), min_size=1, max_size=5),
)
def test_rows_of_words_are_means_and_columns_sums_so_that_rows_sum_to_one(queries: list[int], keys: list[int]) -> None:
    """As matrices: M_q W M_kᵀ, where M_k has 1 at the pieces of a word, and M_q 1 / their number."""
    weights = np.random.default_rng(sum(queries)).dirichlet(np.ones(sum(keys)), (2, 3, sum(queries)))

    def words(sizes: list[int]) -> tuple[Word, ...]:
        ends = np.cumsum(sizes).tolist()
        return tuple(Word(f"w{end}", tuple(range(end - size, end))) for end, size in zip(ends, sizes, strict=True))

    def pieces(sizes: list[int]) -> np.ndarray:
        return np.repeat(np.eye(len(sizes)), sizes, axis=1)

    names = [tuple(f"t{n}" for n in range(sum(sizes))) for sizes in (queries, keys)]
    record = AttentionRecord(*("cross", *names, frozen(weights)), query_words=words(queries), key_words=words(keys))
    found = attention_in_words(record).weights
    by_hand = (pieces(queries) / np.array(queries)[:, None]) @ weights @ pieces(keys).T
    np.testing.assert_allclose(found, by_hand, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=-1), 1.0, atol=1e-5)


def test_words_stand_in_the_table_the_svg_the_page_and_the_explorer(trained: Trained, tmp_path: Path) -> None:
    """Every letter is a token of this run; <s> and </s> stay apart. What every picture has are the numbers of JSON."""
    run, svg, page = trained("encoder"), tmp_path / "a.svg", tmp_path / "a.html"
    command = ("inspect", "attention", run, FOX, "--words", "--layer", 1, "--head", 0)
    [record] = json.loads(tfcli(*command, "--json").stdout)["records"]
    words, weights = record["key_tokens"], np.array(record["weights"])[0, 0]
    assert words == ["<s>", "The", "quick", "brown", "fox", "jumps", "</s>"]
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=1e-5)

    shown = tfcli(*command, "--svg", svg, "--html", page).stdout
    assert "a word's column is the sum over its pieces, its row their mean" in shown
    for word, row in zip(words, weights, strict=True):
        [line] = [line for line in shown.splitlines() if line.split()[:1] == [word] and line.endswith("1.00")]
        numbers = [float(number) for number in re.findall(r"1\.0\b|\.\d\d", line)[: len(words)]]
        np.testing.assert_allclose(numbers, row, atol=0.0051)
    texts = [one.text for one in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert [text for text in texts if text in words] == [*words, *words], "columns, then rows"
    data = json.loads(page.read_text().partition('id="data">')[2].partition("</script>")[0])["records"][0]
    np.testing.assert_allclose(np.array(data["weights"])[1, 0], weights, atol=1e-4)

    app = explorer(TextReader(load_run(run)).read(FOX))
    pieces, merged, apart = watch(app, ["end"], ["p"], ["p"])
    assert ("--words" in pieces, "--words" in merged, "--words" in apart) == (False, True, False)
    assert "keys   <s>  The  quick  brown  fox  jumps  </s>" in merged
    assert (app.view.row, app.view.column) == (len(FOX) + 1,) * 2, "the last piece of the word that the cursor was on"


def test_scores_are_of_pieces(trained: Trained) -> None:
    app = explorer(TextReader(load_run(trained("encoder"))).read(FOX))
    merged, scores = watch(app, ["p"], ["w"])
    assert "--words" in merged
    assert ("--words" in scores, "--scores" in scores) == (False, True)


WORDS = (Word("<s>", (0,), "special"), Word("fox", (1, 2)), Word("jumps", (3,)))
WEIGHTS = np.array([
    [[0.4, 0.1, 0.1, 0.4], [0.2, 0.2, 0.2, 0.4], [0.1, 0.1, 0.2, 0.6], [0.1, 0.3, 0.5, 0.1]],
    [[0.7, 0.1, 0.1, 0.1], [0.7, 0.1, 0.1, 0.1], [0.9, 0.0, 0.1, 0.0], [0.2, 0.2, 0.2, 0.4]],
])  # fmt: skip
TOKENS = ("<s>", "fo", "x", " jumps")


def test_a_pair_has_its_mean_and_largest_weight_beside_chance() -> None:
    """fox gives jumps (.4 + .6) / 2 in the first head and (.1 + 0) / 2 in the second, whose mean is .275; it may look
    at 4 tokens alike, one of which is jumps. jumps gives fox .3 + .5 and .2 + .2, and 2 of 4 tokens are fox."""
    record = AttentionRecord(
        "encoder_self", TOKENS, TOKENS, frozen(WEIGHTS[None]), query_words=WORDS, key_words=WORDS,
        mask=frozen(np.ones((4, 4)), np.bool_),
    )  # fmt: skip
    there, back = named_pairs(record, "fox jumps").pairs
    assert [(one.query_token, one.key_token, one.row_label) for one in (there, back)] == [
        ("fox", "jumps", "fox"),
        ("jumps", "fox", "jumps"),
    ]
    np.testing.assert_allclose([there.weight, there.largest, there.chance], [0.275, 0.5, 0.25], rtol=1e-6)
    assert (there.layer, there.head, there.rank, there.others) == (0, 0, 1, 1)
    np.testing.assert_allclose([back.weight, back.largest, back.chance], [0.6, 0.8, 0.5], rtol=1e-6)
    np.testing.assert_allclose(there.weights, [[0.5, 0.05]], rtol=1e-6)


def test_a_decoder_s_pair_is_masked_one_way(trained: Trained) -> None:
    """One of the 21 letters and <s> that "quick" may look at up to its end is … : as large as the mean over its letters
    of what each may look at alike."""
    [record] = attention(load_run(trained("decoder")), FOX)
    there, back = named_pairs(record, "The quick").pairs
    assert (there.chance, there.weight, there.weights.any()) == (0.0, 0.0, False)
    assert (there.rank, there.others, there.layer, there.head) == (None,) * 4
    quick = next(word.places for word in record.query_words if word.text == "quick")
    the = next(word.places for word in record.query_words if word.text == "The")
    assert back.chance == pytest.approx(np.mean([len(the) / (at + 1) for at in quick]))
    assert back.weight == pytest.approx(record.weights[:, :, list(quick)][..., list(the)].sum(-1).mean(), abs=1e-6)
    shown = tfcli("inspect", "attention", trained("decoder"), FOX, "--pairs", "The quick").stdout
    assert "masked: exactly 0" in next(line for line in shown.splitlines() if line.startswith("The → quick"))


def test_three_pairs_of_a_sentence_in_every_form(trained: Trained, tmp_path: Path) -> None:
    command = ("inspect", "attention", trained("encoder"), FOX, "--pairs", "fox jumps, brown fox,quick jumps")
    found = json.loads(tfcli(*command, "--json").stdout)
    assert (found["kind"], found["heads"], len(found["pairs"])) == ("encoder_self", 4, 6)
    [words] = attention(load_run(trained("encoder")), FOX)
    means = attention_in_words(words).weights.mean(axis=(0, 1))
    assert [one["weight"] for one in found["pairs"]] == pytest.approx(
        [means[at] for at in ((4, 5), (5, 4), (3, 4), (4, 3), (2, 5), (5, 2))], abs=1e-6
    )
    rows = list(csv.DictReader(io.StringIO(tfcli(*command, "--csv").stdout)))
    assert [row["query_token"] for row in rows] == ["fox", "jumps", "brown", "fox", "quick", "jumps"]
    assert tfcli(*command, "--svg", tmp_path / "a.svg", "--html", tmp_path / "a.html").exit_code == 0
    assert "jumps" in (tmp_path / "a.svg").read_text()


def test_cross_attention_has_a_pair_one_way(trained: Trained) -> None:
    record = attention(load_run(trained("encoder-decoder")), "O livro", "The book", kind="cross")[0]
    [pair] = named_pairs(record, "book livro").pairs
    assert (pair.row_label, pair.key_token) == ("The → book", "livro")
    assert pair.chance == pytest.approx(1 / len(record.key_tokens))


@pytest.mark.parametrize(
    ("pairs", "options", "problem"),
    [
        ("fox", [], "--pairs 'fox' is not two words; write two words a pair and a comma between pairs"),
        ("fox jumps, fox wolf", [], "--pairs 'wolf' is no word of the text; choose one of"),
        ("fox fox", [], "--pairs 'fox fox' is one word, and no pair; name two of the text"),
        ("fox jumps,", [], "--pairs '' is not two words"),
        ("fox jumps", ["--head", "0"], "--pairs is of whole words over all heads; leave --head or --pairs out"),
        ("fox jumps", ["--scores"], "leave --scores or --pairs out"),
        ("fox jumps", ["--npz", "x.npz"], "--npz writes one text's weights as they are"),
    ],
)
def test_what_is_no_pair_is_refused(trained: Trained, pairs: str, options: list[str], problem: str) -> None:
    refused = tfcli("inspect", "attention", trained("encoder"), FOX, "--pairs", pairs, *options)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert problem in refused.stderr


def test_a_word_that_is_there_twice_is_numbered(trained: Trained) -> None:
    [record] = attention(load_run(trained("encoder")), "the cat the dog")
    with pytest.raises(UsageError, match="--pairs 'the' is there 2 times"):
        named_pairs(record, "the dog")
    assert [one.query for one in named_pairs(record, "the:2 dog").pairs] == [3, 4]
    assert replace(record, words=True).words
