"""Linear probes: the classifier by an independent program, planted labels where they stand, chance as it is said."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tfcli
from tests.cli.commands import tfcli as typed
from tests.support.consoles import printed
from tests.support.runs import ARCHITECTURES, tiny_recipe, train_tiny
from tfcli.errors import UsageError
from tfcli.inspection.evolution.compute import evolution
from tfcli.inspection.passes import framed, record_model
from tfcli.inspection.probe import Probe, ProbedLayer, compute
from tfcli.inspection.probe.compute import Places, fit, labelled_places, prepared, probed, probed_layer, vectors
from tfcli.inspection.probe.view import ProbeView, probe_table
from tfcli.runs.load import LoadedRun, load_run


def newton(x: np.ndarray, labels: np.ndarray, classes: int, l2: float) -> np.ndarray:
    """The same minimum by Newton's method, with the Hessian written out."""
    n, d = x.shape
    wide, penalty = np.column_stack((x, np.ones(n))), np.repeat([l2] * d + [0.0], classes)
    weights, truth = np.zeros((d + 1, classes)), np.eye(classes)[labels]
    for _ in range(40):
        logits = wide @ weights
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        slope = (wide.T @ (p - truth) / n).ravel() + penalty * weights.ravel()
        spread = np.einsum("nc,ce->nce", p, np.eye(classes)) - p[:, :, None] * p[:, None]
        bend = np.einsum("ni,nj,nce->icje", wide, wide, spread).reshape(slope.size, -1) / n + np.diag(penalty)
        weights -= np.linalg.lstsq(bend, slope, rcond=None)[0].reshape(weights.shape)
    return weights


@pytest.mark.parametrize("l2", [0.1, 0.01])
def test_the_probe_is_the_penalised_softmax_that_newtons_method_finds(l2: float):
    draw = np.random.default_rng(3)
    x, labels = draw.standard_normal((60, 4)), draw.integers(3, size=60)
    ours, theirs = fit(torch.from_numpy(x), torch.from_numpy(labels), 3, l2).numpy(), newton(x, labels, 3, l2)
    np.testing.assert_allclose(ours[:-1], theirs[:-1], atol=2e-3)
    # A number that is added to all classes changes no probability.
    np.testing.assert_allclose(ours[-1] - ours[-1].mean(), theirs[-1] - theirs[-1].mean(), atol=2e-3)


def test_the_penalty_is_chosen_without_the_held_out_texts(monkeypatch: pytest.MonkeyPatch):
    """All fits but the last leave the second quarter out, too; the last has the chosen penalty. Noise likes a strong
    one, where a weak one is equally good the strongest is taken."""
    draw, seen = np.random.default_rng(1), list[tuple[int, float]]()
    quarter = np.arange(400) % 4

    def noted(x: torch.Tensor, labels: torch.Tensor, classes: int, l2: float) -> torch.Tensor:
        seen.append((len(x), l2))
        return fit(x, labels, classes, l2)

    monkeypatch.setattr(compute, "fit", noted)
    of, labels = draw.standard_normal((400, 3)).astype(np.float32), draw.integers(2, size=400)
    of[:, 0] = 3 * labels
    assert probed(of, labels, quarter).all() and len(probed(of, labels, quarter)) == 100
    assert seen[:4] == [(200, 0.1), (200, 0.01), (200, 0.001), (300, 0.1)]


def test_the_second_quarter_chooses_though_another_penalty_suits_the_held_out(monkeypatch: pytest.MonkeyPatch):
    """A weak penalty says 1 everywhere, as the second quarter has it; a strong one 0, as the held-out texts have it."""

    def fixed(x: torch.Tensor, labels: torch.Tensor, classes: int, l2: float) -> torch.Tensor:
        return torch.tensor([[0.0, 0.0], [0.0, 1.0] if l2 < 0.01 else [1.0, 0.0]], dtype=x.dtype)

    monkeypatch.setattr(compute, "fit", fixed)
    quarter = np.arange(40) % 4
    found = probed(np.random.default_rng(0).standard_normal((40, 1)).astype(np.float32), (quarter == 1) * 1, quarter)
    assert len(found) == 10 and not found.any()


def test_features_that_are_only_rounding_say_nothing():
    """Equal numbers apart from the last bit: divided by their spread they would be as large as others."""
    labels, quarter = np.arange(80) % 2, np.arange(80) // 2 % 4
    of = np.full((80, 2), 100.0, np.float32)
    of[labels == 1, 0] = np.nextafter(np.float32(100), np.float32(101))
    assert 0.4 < probed(of, labels, quarter).mean() < 0.6
    of[labels == 1, 0] = 100.1
    assert probed(of, labels, quarter).all()


def test_a_layers_figures_are_those_of_the_sums():
    """Ten texts of four places, with equal differences. The accuracy is that of 40 answers, as sure as
    40 · (1.96 / 2.262)² = 30.03 for ten texts; Wilson's limits of 0.75 of these are 0.573 and 0.870."""
    one = probed_layer("layer 0", np.tile([4, 3, 1, 2, 2.0], (10, 1)))
    assert (one.low, one.high) == (pytest.approx(0.5731, abs=1e-4), pytest.approx(0.8702, abs=1e-4))
    expected = ProbedLayer("layer 0", "above all three", 0.75, 0.0, 0.0, 0.25, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25)
    assert replace(one, low=0.0, high=0.0) == expected
    passed = [(3, 3, 2, 2), (3, 2, 3, 2), (3, 2, 2, 3), (3, 3, 2, 3), (2, 3, 3, 3)]
    missed = [probed_layer("", np.tile([4.0, *row], (10, 1))).verdict.removeprefix("not above ") for row in passed]
    assert missed == ["majority", "control", "untrained", "majority, untrained", "majority, control, untrained"]


def test_what_is_above_is_above_in_the_resampled_texts():
    """The probe tells all of 20 texts; the control tells one text more than half of them, which resamples move."""
    sums = np.ones((20, 5))
    sums[:, 2:] = 0
    sums[:11, 3] = 1
    one = probed_layer("", sums)
    assert (
        one.verdict == "above all three"
        and one.above == pytest.approx(0.45)
        and one.above_low < 0.4 < 0.5 < one.above_high
    )
    sums[11:, 1] = 0  # right in the same texts
    same = probed_layer("", sums)
    assert (
        same.verdict == "not above control"
        and (same.above_low, same.above_high) == (0, 0)
        and same.low < 0.5 < same.high
    )


def planted(texts: int, classes: int, types: int, draw: np.random.Generator) -> Places:
    """Five places a text, each with a random label and type."""
    count = 5 * texts
    labels, kinds = draw.integers(classes, size=count), draw.integers(types, size=count)
    rows = tuple(n // 5 for n in range(count))
    return Places("planted", ((0,),) * texts, rows, (0,) * count, tuple(map(str, labels)), tuple(map(str, kinds)))


def measure(
    run: LoadedRun, places: Places, depths: list[np.ndarray], monkeypatch: pytest.MonkeyPatch, task: Any = "word-class"
) -> Probe:
    """The probe of vectors that stand at the places, noise in the untrained model."""
    draw = np.random.default_rng(9)
    of = {True: [np.stack(depths).astype(np.float32)], False: []}
    noise = draw.standard_normal(of[True][0].shape).astype(np.float32)
    monkeypatch.setattr(compute, "vectors", lambda model, places: of[True][0] if model is run.model else noise)
    return prepared(run, places, task)(run)


@pytest.fixture(scope="module")
def run(trained: Callable[[str], Path]) -> LoadedRun:
    return load_run(trained("decoder"))


def test_a_label_that_stands_in_one_layer_is_found_there_and_only_there(
    run: LoadedRun, monkeypatch: pytest.MonkeyPatch
):
    draw = np.random.default_rng(0)
    places = planted(160, 3, 30, draw)
    held, noise = np.eye(3)[np.array(places.labels, int)], draw.standard_normal((3, 800, 8))
    noise[1, :, :3] += 3 * held
    found = measure(run, places, [*noise], monkeypatch)
    assert [one.verdict for one in found.layers] == [
        "not above majority, control, untrained",
        "above all three",
        "not above majority, control, untrained",
    ]
    assert found.layers[1].accuracy > 0.9 and found.layers[0].accuracy < 0.45 > found.layers[2].accuracy
    assert (found.texts, found.held_out, found.places, found.classes) == (160, 40, 200, ("0", "1", "2"))
    # What the untrained model tells as well is no finding.
    monkeypatch.setattr(compute, "vectors", lambda model, places: noise.astype(np.float32))
    assert prepared(run, places, "word-class")(run).layers[1].verdict == "not above untrained"


def test_what_a_probe_remembers_of_a_word_it_remembers_of_a_random_label_too(
    run: LoadedRun, monkeypatch: pytest.MonkeyPatch
):
    """Vectors that are nothing but the word's name: the classes of words are told, and so is the control."""
    draw = np.random.default_rng(0)
    places = planted(160, 3, 12, draw)
    kinds = np.array(places.types, int)
    places = places._replace(labels=tuple(str(kind % 3) for kind in kinds))
    names, parts = np.eye(12)[kinds], np.eye(12)[kinds % 3]
    words, classes = measure(run, places, [names, parts], monkeypatch).layers
    assert (words.accuracy, words.control, words.selectivity) == (1, 1, 0) and words.verdict == "not above control"
    assert classes.accuracy == 1 and classes.selectivity > 0.3 and classes.verdict == "above all three"
    found = measure(run, places, [names, parts], monkeypatch, "position").layers[1]
    assert found.control == 1, "of positions the control is what the token alone tells, by no probe"


def test_random_labels_pass_as_rarely_as_it_is_said(run: LoadedRun, monkeypatch: pytest.MonkeyPatch):
    """1 in 40 may pass one of the three, and it must pass all."""
    passed, alone = 0, 0
    for seed in range(120):
        draw = np.random.default_rng(seed)
        places = planted(60, 2, 300, draw)
        [layer] = measure(run, places, [draw.standard_normal((300, 2))], monkeypatch).layers
        passed += "not" not in layer.verdict
        alone += "majority" not in layer.verdict
    assert passed <= 4 and alone <= 9  # of 120: 3 are expected at most, of one alone as well


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_vectors_are_those_of_the_recorded_pass(trained: Callable[[str], Path], architecture: str):
    run = load_run(trained(architecture))
    places = labelled_places(run, "word-class")
    found = vectors(run.model, places)
    for number, ids in enumerate(places.ids[:3]):
        inputs = framed(run, run.tokenizer.encode("a"), ())
        sides = [torch.tensor([ids]), *inputs.tensors(run.device)[1:]]
        with torch.inference_mode():
            passed = record_model(run.model, sides)
        stack = passed.encoder or passed.last
        rows = [n for n, text in enumerate(places.texts) if text == number]
        for depth, of in enumerate((stack.embedded, *(layer.after for layer in stack.layers))):
            np.testing.assert_allclose(found[depth, rows], of[[places.at[n] for n in rows]].numpy(), atol=1e-5)
    assert len(found) == 3 and found.shape[1] == len(places.labels)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_words_place_is_its_last_token(trained: Callable[[str], Path], tmp_path: Path, architecture: str):
    """A letter is a token but in the encoder-decoder, where a word is; its texts begin with no special token."""
    run = load_run(trained(architecture))
    (tmp_path / "a.tsv").write_text(
        "text\tlabel\nShe saw a bank.\triver\nThe Bank is a bank\tmoney\nNo bankers\tmoney\n"
    )
    places = labelled_places(run, "sense", [str(tmp_path / "a.tsv")])
    letters = architecture != "encoder-decoder"
    assert places.at == ((14, 8, 18) if letters else (3, 1, 4))
    assert (places.labels, places.texts) == (("river", "money", "money"), (0, 1, 1))
    assert places.types == ("she", "the", "the") and len(places.ids) == 2
    if letters:
        assert [run.tokenizer.labels([places.ids[t][at]]) for t, at in zip(places.texts, places.at, strict=True)] == [
            ["k"]
        ] * 3
    tagged = tmp_path / "a.txt"
    tagged.write_text("Tom\tWHO\nran\tVERB\n\nTom\tWHO\nran\tVERB\n\n" + "Mia\tWHO\n" * 40)
    places = labelled_places(run, "word-class", [str(tagged)])
    assert places.labels[:3] == ("WHO", "VERB", "WHO") and places.types[:3] == ("Tom", "ran", "Mia")
    assert places.at[:2] == ((3, 7) if letters else (0, 1)) and len(places.ids) == 2, "the same text counts once"
    assert max(places.at) < 32, "what is beyond the context is left out"


def test_positions_count_from_the_first_token_of_the_text(trained: Callable[[str], Path], tmp_path: Path):
    for architecture, begin in (("decoder", 1), ("encoder-decoder", 0)):
        run = load_run(trained(architecture))
        (tmp_path / "a.txt").write_text("a b c\n\nd e\n")
        (tmp_path / "a.tsv").write_text("pt\ten\na b c\tx\nd e\ty\n")
        places = labelled_places(run, "position", [str(tmp_path / ("a.txt" if begin else "a.tsv"))])
        lengths = [5, 3] if begin else [3, 2]
        assert places.at == tuple(begin + n for length in lengths for n in range(length))
        assert places.labels == tuple(str(n) for length in lengths for n in range(length))
        assert places.types == tuple(str(places.ids[t][at]) for t, at in zip(places.texts, places.at, strict=True))


def test_a_long_text_is_begun_anywhere_for_texts_begin_alike(run: LoadedRun, tmp_path: Path):
    """Each of 40 lines begins with the alphabet, whose letters would tell their positions."""
    (tmp_path / "a.txt").write_text("".join(f"abcdefghijklmnopqrstuvwxyz{n:02}\n" for n in range(40)))
    places = labelled_places(run, "position", [str(tmp_path / "a.txt")])
    first = [kind for kind, label in zip(places.types, places.labels, strict=True) if label == "0"]
    letters = "".join(run.tokenizer.labels(list(map(int, first))))
    assert len(first) == 40 and 8 <= len({*letters}) <= 12 and {*letters} <= {*"abcdefghijklm"}
    assert places.labels[:16] == tuple(map(str, range(16))) and places.at[:16] == tuple(range(1, 17))
    read = run.tokenizer.decode(list(places.ids[0][1:]))
    assert read[:10] in "abcdefghijklmnopqrstuvwxyz" and read[0] == letters[0]


def test_plain_lines_have_the_word_before_as_label(run: LoadedRun, tmp_path: Path):
    (tmp_path / "a.txt").write_text("The river bank\nBank of a boat\n")
    places = labelled_places(run, "sense", [str(tmp_path / "a.txt")], plain=True)
    assert places.labels == ("river", "–")
    with pytest.raises(UsageError, match="no table of labelled texts"):
        labelled_places(run, "sense", [str(tmp_path / "a.txt")])


def test_a_built_in_source_has_other_texts_than_a_run_was_trained_on(run: LoadedRun):
    from tfcli.corpora.labelled import BUILT_IN

    known = {one.source for one, _ in zip(BUILT_IN["builtin:bank"](run.recipe.data.seed), range(300), strict=False)}  # type: ignore[union-attr]
    places = labelled_places(run, "sense")
    texts = [run.tokenizer.decode(list(ids[1:])) for ids in places.ids]
    assert all(text.endswith("bank") for text in texts), "of a long text what stands up to the word"
    assert sum(not any(text in one for one in known) for text in texts) > len(texts) / 4


def by_hand(trained: Callable[[str], Path], size: float) -> LoadedRun:
    """The tiny encoder, whose positions are learned: position n adds to number n."""
    run = load_run(trained("encoder"))
    with torch.no_grad():
        table = run.model.embedding.positions  # type: ignore[union-attr]
        table.zero_()  # type: ignore[union-attr, operator]
        rows = torch.arange(16)
        table[rows + 1, rows] = size  # type: ignore[index]
    return run


def test_positions_that_are_embedded_are_told_without_a_miss(trained: Callable[[str], Path]):
    found = compute.probe(by_hand(trained, 50.0), "position")
    assert found.layers[0].accuracy == 1 and found.classes == tuple(map(str, range(16)))
    assert found.layers[0].control < 0.6 < found.layers[0].accuracy
    without = compute.probe(by_hand(trained, 0.0), "position").layers[0]
    assert "control" in without.verdict and abs(without.accuracy - without.control) < 0.1


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("task", ["position", "word-class", "sense"])
def test_every_architecture_is_probed_for_every_label(
    trained: Callable[[str], Path], architecture: str, task: Any, monkeypatch: pytest.MonkeyPatch
):
    """The same twice, by the command as by the Python API."""
    monkeypatch.setattr(compute, "_PLACES", 900)
    monkeypatch.setattr(compute, "_TEXTS", 60)
    found = tfcli.inspect(load_run(trained(architecture)), "probe", task)
    result = typed("inspect", "probe", trained(architecture), "--for", task, "--json")
    assert result.exit_code == 0, result.stderr
    said = json.loads(result.stdout)
    assert said["layers"][1]["accuracy"] == found.layers[1].accuracy and len(said["layers"]) == 3
    assert said["layers"][2]["selectivity"] == pytest.approx(found.layers[2].accuracy - found.layers[2].control)
    assert found.source == {"word-class": "builtin:word-classes", "sense": "builtin:bank"}.get(task, found.source)
    assert "Linear probe" in found._repr_html_()


RECORD = Probe(
    *("runs/d", "word-class", "builtin:word-classes", "a random class for each word"),
    classes=("A", "B\n"),
    texts=1200,
    held_out=300,
    places=4100,
    layers=(
        ProbedLayer("embedding", "not above control", 0.9, 0.88, 0.92, 0.5, 0.91, 0.8, -0.01, -0.01, -0.02, 0.01),
        ProbedLayer("layer 0", "above all three", 0.95, 0.94, 0.96, 0.5, 0.7, 0.8, 0.25, 0.15, 0.1, 0.2),
    ),
)


@pytest.mark.parametrize("width", [80, 140])
def test_what_cannot_be_told_from_chance_is_said_to_be_so(width: int):
    text = printed(ProbeView(RECORD), width)
    assert "1,200 texts, 300 of them held out, with 4,100 places" in text and "A, B⏎" in text
    assert "above all three: layer 0\nnot above control: embedding" in text
    row = next(line for line in text.splitlines() if line.startswith("layer 0 "))
    assert row.split() == ["layer", "0", "50.0", "80.0", "70.0", "25.0", "95.0", "94.0", "–", "96.0"]
    assert max(map(len, text.splitlines())) <= width and "control: a random class for each word" in " ".join(
        text.split()
    )
    none = replace(RECORD, layers=RECORD.layers[:1])
    assert "above all three" not in printed(ProbeView(none), width)


def test_csv_svg_and_html(run: LoadedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compute, "_TEXTS", 60)
    files = ("--svg", tmp_path / "a.svg", "--html", tmp_path / "a.html")
    result = typed("inspect", "probe", run.directory.path, "--for", "sense", "--csv", *files)
    assert result.exit_code == 0, result.stderr
    rows = list(csv.DictReader(result.stdout.splitlines()))
    assert [row["name"] for row in rows] == ["embedding", "layer 0", "layer 1"]
    assert list(rows[0]) == list(probe_table(RECORD).columns) and float(rows[1]["low"]) <= float(rows[1]["accuracy"])
    assert all("selectivity" in (tmp_path / file).read_text() for file in ("a.svg", "a.html"))


def test_a_probe_at_every_checkpoint_is_that_of_its_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compute, "_TEXTS", 60)
    train_tiny(tiny_recipe("decoder", {"train": {"keep_checkpoints": 3}}), tmp_path / "run")
    result = typed("inspect", "probe", tmp_path / "run", "--for", "sense", "--evolution", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["steps"] == [4, 8, 12] and [part["name"] for part in found["parts"]] == ["embedding", "layer 0"]
    for number, step in enumerate(found["steps"]):
        alone = compute.probe(load_run(tmp_path / "run", str(step)), "sense").layers
        for part, one in zip(found["parts"], alone, strict=True):
            assert part["values"][number] == one.above
            assert part["intervals"][number] == [one.above_low, one.above_high]
    run = load_run(tmp_path / "run")
    evolved = evolution(run, lambda one: replace(RECORD, run="x"))
    assert evolved.parts[0].told() == (0, 0, 0) and evolved.parts[1].told() == (0.15, 0.15, 0.15)


def test_what_cannot_be_probed_is_refused_in_words(run: LoadedRun, tmp_path: Path):
    few, one = tmp_path / "few.csv", tmp_path / "one.csv"
    few.write_text("text,label\n" + "".join(f"a bank {n},{n % 2}\n" for n in range(39)))
    one.write_text("text,label\n" + "".join(f"a bank {n},x\n" for n in range(50)))
    for options, said in {
        ("--for", "sense", "--word", "zebra"): "No text of builtin:bank has 'zebra'; name others",
        (
            "--for",
            "sense",
            "--on",
            few,
        ): "has 39 texts with 2 different labels, and a probe takes 40 with 2; name other",
        ("--for", "sense", "--on", one): "has 50 texts with 1 different labels, and a probe takes 40 with 2",
        ("--for", "position", "--word", "bank"): "--word is the word whose sense is read; leave it out, or choose",
        ("--for", "sense", "--evolution"): "an evolution needs three",
        ("--for", "sense", "--evolution", "--word", "zebra"): "an evolution needs three",
        ("--for", "word-class", "--on", few): "tag needs words, tags",
        ("--for", "gender"): "'gender' is not one of",
    }.items():
        result = typed("inspect", "probe", run.directory.path, *options)
        assert result.exit_code == 2 and said in " ".join(result.stderr.split()), result.stderr
