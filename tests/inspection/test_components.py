"""Principal components: points by hand and by another program, rows of E, and one word in its contexts."""

import csv
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tfcli
from tests.cli.commands import tfcli as typed
from tests.support.consoles import printed
from tests.support.runs import ARCHITECTURES
from tfcli.corpora.labelled import BUILT_IN
from tfcli.draw.tables import to_csv, to_json
from tfcli.errors import UsageError
from tfcli.inspection.embeddings import Components
from tfcli.inspection.embeddings.compute import embeddings, principal_components
from tfcli.inspection.embeddings.view import ComponentsView, components_table
from tfcli.inspection.probe import Probe, ProbedLayer
from tfcli.inspection.probe.compute import labelled_places, probe, vectors
from tfcli.runs.load import load_run


def test_points_by_hand():
    """Around their mean (7, 1): along (−3, 4)/5 they lie at ±10, across it at ±1: squares of 200 and 2. The 4 is
    further from 0 than the −3, and stays positive; of (4, 3)/5 too."""
    along, across = np.array([-0.6, 0.8]), np.array([0.8, 0.6])
    rows = (np.array([7, 1]) + np.outer([10, -10, 0, 0], along) + np.outer([0, 0, 1, -1], across)).astype(np.float32)
    points, shares = principal_components(rows)
    np.testing.assert_allclose(points, [[10, 0], [-10, 0], [0, 1], [0, -1]], atol=1e-5)
    np.testing.assert_allclose(shares, [200 / 202, 2 / 202], atol=1e-6)
    np.testing.assert_allclose(principal_components(rows[:, ::-1].copy())[0], points, atol=1e-5)


def test_points_by_the_eigenvectors_of_the_covariance():
    rows = (np.random.default_rng(0).standard_normal((40, 6)) * [1, 5, 2, 1, 3, 1] + 4).astype(np.float32)
    points, shares = principal_components(rows)
    values, axes = np.linalg.eigh(np.cov(rows.T.astype(np.float64)))
    np.testing.assert_allclose(shares, values[[-1, -2]] / values.sum(), rtol=1e-5)
    for place, axis in enumerate((axes[:, -1], axes[:, -2])):
        own = (rows - rows.mean(0)) @ (axis * np.sign(axis[np.abs(axis).argmax()]))
        np.testing.assert_allclose(points[:, place], own, rtol=1e-3, atol=1e-4)


def test_rows_that_only_rounding_tells_apart_are_one_point():
    rows = np.full((4, 3), 100.0, np.float32)
    rows[0, 0] = np.nextafter(np.float32(100), np.float32(101))
    points, shares = principal_components(rows)
    assert not points.any() and not shares.any()
    rows[0, 0] = 101
    assert principal_components(rows)[1][0] == pytest.approx(1)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_tokens_are_rows_of_the_matrix_that_they_pick(trained: Callable[[str], Path], architecture: str):
    run = load_run(trained(architecture))
    words = ["o", "a", "."] if architecture == "encoder-decoder" else ["a", "e", "n", "t"]
    found = embeddings(run, *words)
    ids = [run.tokenizer.encode(word)[-1] for word in words]
    rows = run.model.embedding.weight.detach().numpy()[ids]  # type: ignore[union-attr, operator, index]
    points, shares = principal_components(rows)
    np.testing.assert_allclose(found.points, [points], atol=1e-6)
    np.testing.assert_allclose(found.shares, [shares], atol=1e-6)
    assert list(found.labels) == run.tokenizer.labels(ids) and found.maps == ("rows of E",) and found.probe is None
    with pytest.raises(UsageError, match=r"tokens: 2\) have no two components; name three tokens or more"):
        embeddings(run, *words[:2])


def test_without_tokens_they_are_the_commonest_of_the_text_that_the_model_reads(trained: Callable[[str], Path]):
    run = load_run(trained("encoder-decoder"))
    found, places = embeddings(run), labelled_places(run, "position")
    counts = Counter(run.tokenizer.labels([token for ids in places.ids for token in ids]))
    for special in run.tokenizer.labels(list(run.config.roles.ids())):
        counts.pop(special, None)
    assert places.source == "builtin:pt-en" and len(found.labels) == 26 == len({*found.labels})
    with pytest.raises(UsageError, match="53 tokens have no letter each; name at most 52"):
        embeddings(run, *[name for name, _ in counts.most_common(53)])
    assert min(counts[one] for one in found.labels) >= max(counts[one] for one in counts.keys() - {*found.labels})


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_word_has_a_map_behind_the_embedding_and_each_layer(trained: Callable[[str], Path], architecture: str):
    """With what the probe of its sense finds there."""
    run = load_run(trained(architecture))
    found, places = embeddings(run, word="bank"), labelled_places(run, "sense")
    assert found.maps == ("embedding", "layer 0", "layer 1") and found.labels == places.labels
    for points, shares, rows in zip(found.points, found.shares, vectors(run.model, places), strict=True):
        one = principal_components(rows)
        np.testing.assert_allclose(points, one[0], atol=1e-4)
        np.testing.assert_allclose(shares, one[1], atol=1e-5)
    assert found.probe == probe(run, "sense")
    assert {*found.labels} == {one.target for one, _ in zip(BUILT_IN["builtin:bank"](0), range(50), strict=False)}  # type: ignore[union-attr]


def test_a_word_in_plain_lines_is_marked_by_the_word_before(trained: Callable[[str], Path], tmp_path: Path):
    """The five commonest, the rest together; of few texts nothing is measured."""
    run = load_run(trained("decoder"))
    befores = [*"aabbccddee", "f", "g"]
    (tmp_path / "a.txt").write_text("".join(f"{number} {one} bank\n" for number, one in enumerate(befores)))
    found = embeddings(run, word="bank", on=[str(tmp_path / "a.txt")])
    assert found.labels == (*"aabbccddee", "other", "other") and found.probe is None
    assert "no measure of what is apart" in printed(ComponentsView(found), 80)


LAYERS = (
    ProbedLayer("embedding", "not above majority, control, untrained", *[0.5] * 10),
    ProbedLayer("layer 0", "above all three", 0.95, *[0.5] * 9),
)
RECORD = Components(
    run="runs/e",
    what="'bank' in 4 texts of x\n",
    labels=("river", "money", "river", "money"),
    maps=("embedding", "layer 0"),
    points=np.array([[[0, 0]] * 4, [[-4, 1], [4, 1], [-4, -1], [4, -1]]], np.float32),
    shares=np.array([[0, 0], [0.6, 0.25]], np.float32),
    probe=Probe("runs/e", "sense", "x", "c", ("money", "river"), 4, 1, 1, LAYERS),
)


@pytest.mark.parametrize("width", [80, 140])
def test_letters_stand_where_the_points_are(width: int):
    lines = printed(ComponentsView(RECORD), width).splitlines()
    assert lines[:3] == ["Principal components · runs/e", "'bank' in 4 texts of x⏎", ""]
    text = "\n".join(lines)
    assert "layer 0, 60.0 % across, 25.0 % up" in text and "held out 95.0 %: above all three" in text
    assert "held out 50.0 %: not above majority" in text and max(map(len, lines)) <= width
    second = [line[38:].rstrip() for line in lines if "┤" in line[38:] or "│" in line[38:]]
    drawn = [row.split("│")[-1].split("┤")[-1] for row in second if set("rm") & {*row}]
    assert len(drawn) == 2 and all(row.startswith("r") and row.endswith("m") for row in drawn)
    assert "-4" in text and "r river   m money" in text


def test_labels_that_begin_alike_get_other_letters():
    from dataclasses import replace

    text = printed(ComponentsView(replace(RECORD, labels=("sun", "sea", "sun", "sea"), probe=None)), 80)
    assert "a sun   b sea" in text and "s sun" not in text


def test_csv_and_json():
    assert to_csv(components_table(RECORD)).splitlines()[:1] == ["map,label,first,second"]
    assert to_csv(components_table(RECORD)).splitlines()[6] == "layer 0,money,4.0,1.0"
    found = to_json(RECORD)
    assert found["points"][1][0] == [-4, 1] and found["probe"]["layers"][1]["verdict"] == "above all three"


def test_the_command_and_the_python_api(trained: Callable[[str], Path], tmp_path: Path):
    """The same twice; a map that is a picture in a notebook."""
    run = trained("decoder")
    files = ("--svg", tmp_path / "a.svg", "--html", tmp_path / "a.html")
    result = typed("inspect", "embeddings", run, "a", "e", "n", "--json", *files)
    assert result.exit_code == 0, result.stderr
    found = tfcli.inspect(load_run(run), "embeddings", "a", "e", "n")
    assert json.loads(result.stdout) == {**to_json(found), "threads": 1} and "rows of E" in printed(
        ComponentsView(found), 80
    )
    assert "components" in (tmp_path / "a.svg").read_text() and "components" in (tmp_path / "a.html").read_text()
    assert "Principal" in found._repr_html_()
    result = typed("inspect", "embeddings", run, "--word", "bank", "--csv")
    assert result.exit_code == 0 and next(csv.DictReader(result.stdout.splitlines()))["map"] == "embedding"


def test_what_cannot_be_drawn_is_refused_in_words(trained: Callable[[str], Path], tmp_path: Path):
    (tmp_path / "a.txt").write_text("no such word\n")
    (tmp_path / "one.txt").write_text("a bank\n")
    for options, said in {
        ("a", "--word", "bank"): "TOKENs are rows of E, and --word and --on are of texts; leave one of the two out",
        ("--word", "bank", "--on", tmp_path / "a.txt"): "a.txt has 'bank'; name others with --on",
        ("--word", "bank", "--on", tmp_path / "one.txt"): "'bank' in 1 texts of",
        ("--word", "bank", "--on", "missing.txt"): "There is no file 'missing.txt'",
        ("a", "e", "§"): "is not in the vocabulary",
    }.items():
        result = typed("inspect", "embeddings", trained("encoder"), *options)
        assert result.exit_code == 2 and said in " ".join(result.stderr.split()), result.stderr
