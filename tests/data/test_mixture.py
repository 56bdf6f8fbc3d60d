"""Mixed sources: shares at every point, whole passes and one prefix, caps; and the same bytes whoever encodes them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from numpy.typing import NDArray

from tests.support.fakes import FakeDivision, FakeTokenizer, as_any, pairs
from tfcli.corpora import Document, Pair
from tfcli.corpora.split import WeightedSplit, open_split
from tfcli.data import chunks
from tfcli.data.chunks import Share
from tfcli.data.dataset import PreparedDataset
from tfcli.data.mixture import expected_epochs, mixed_order
from tfcli.data.prepare import merge, prepare, prepare_share
from tfcli.errors import Remark, UsageError
from tfcli.recipe.data import DataSection, WeightedSource
from tfcli.recipe.loading import build_recipe, parse_assignments


def deviations(lengths: Sequence[NDArray[np.int64]], weights: Sequence[float], order: Sequence[int]) -> Iterator[float]:
    """How many tokens the source farthest from its share is away from it, behind each document of an order in which no
    source is retired."""
    shares = np.array(weights, float) / sum(weights)
    tokens, documents = np.zeros(len(lengths)), [0] * len(lengths)
    for source in order:
        tokens[source] += lengths[source][documents[source] % len(lengths[source])]
        documents[source] += 1
        yield float(np.abs(tokens - shares * tokens.sum()).max())


SOURCES = some.lists(some.lists(some.integers(1, 60), min_size=1, max_size=30), min_size=1, max_size=5)


@settings(deadline=None)
@given(SOURCES, some.data())
def test_every_source_is_within_one_document_of_its_share_at_every_point(
    lengths: list[list[int]], data: some.DataObject
):
    weight = some.floats(0.05, 20)
    weights = data.draw(some.lists(weight, min_size=len(lengths), max_size=len(lengths)))
    arrays = [np.array(one) for one in lengths]
    mixed = mixed_order(arrays, weights)
    longest = max(map(max, lengths))
    assert max(deviations(arrays, weights, mixed.order.tolist())) <= longest
    largest = max(range(len(lengths)), key=lambda source: sum(lengths[source]))
    assert mixed.documents[largest] == len(lengths[largest])
    assert mixed.order[-1] == largest
    assert mixed.documents == tuple(np.bincount(mixed.order, minlength=len(lengths)))


def test_a_capped_source_gives_its_share_to_the_others() -> None:
    """Two, one and one: once the second is read twice, the first has two tokens of three."""
    lengths = [np.full(100, 1), np.full(5, 1), np.full(90, 1)]
    mixed = mixed_order(lengths, [2, 1, 1], [None, 2, None])
    assert mixed.documents[1] == 10
    assert mixed.retired[1] is not None and abs(mixed.retired[1] - 40) <= 2
    late = mixed.order[mixed.retired[1] :]
    assert abs((late == 0).mean() - 2 / 3) < 0.03
    assert (mixed.documents[0], mixed.retired[0]) == (100, None)


def test_a_mixture_ends_where_nothing_may_be_read_on() -> None:
    mixed = mixed_order([np.full(4, 1), np.full(9, 1)], [1, 1], [1, 1])
    assert mixed.documents == (4, 9)


@settings(deadline=None)
@given(SOURCES, some.data())
def test_the_length_of_a_mixture_is_known_before_it_is_made(lengths: list[list[int]], data: some.DataObject) -> None:
    """To within one document of each source."""
    size = len(lengths)
    weights = data.draw(some.lists(some.floats(0.05, 20), min_size=size, max_size=size))
    caps = data.draw(some.lists(some.none() | some.integers(1, 4), min_size=size, max_size=size))
    arrays = [np.array(one) for one in lengths]
    totals = [int(one.sum()) for one in arrays]
    longest = max(map(max, lengths))
    mixed = mixed_order(arrays, weights, caps)
    epochs = expected_epochs(totals, weights, caps)
    for source in range(size):
        share = weights[source] / weights[int(np.argmax(totals))]
        tolerance = longest * (1 + share) + longest
        assert abs(mixed.tokens[source] - epochs[source] * totals[source]) <= tolerance


def test_how_often_a_source_is_read_by_hand() -> None:
    """1,000 tokens at weight 1 beside 10 at weight 3: 3,000 tokens of the second, 300 times its own."""
    assert expected_epochs([1000, 10], [1, 3], [None, None]) == [1.0, 300.0]
    assert expected_epochs([1000, 10], [1, 3], [None, 7]) == [1.0, 7.0]
    assert expected_epochs([1000, 10], [1e300, 1e-300], [None, None]) == [1.0, 0.0]


def test_weights_that_read_a_source_more_than_100_times_are_refused_before_a_shard_is_written(
    tmp_path: Path,
) -> None:
    """One document of 1 + 1 tokens against 100 of 1 + 1: at equal weights it is read 100 times."""
    many = FakeDivision(["a"] * 100, ["v"], name="many.txt")
    few = FakeDivision(["x"], ["w"], name="few.txt")
    at_most = mixture(many, few, weights=(1, 1))
    with pytest.warns(Remark, match=r"about 400 training tokens: many.txt 1.0 times, few.txt 100 times"):
        record = prepare(as_any(at_most), as_any(FakeTokenizer()), tmp_path / "at_most")
    assert record.mixture[1].documents in (99, 100, 101)

    for weight, times in ((1.02, "102 times"), (1e12, "100,000,000,000,000 times"), (1e300, "endlessly often")):
        beyond = mixture(many, few, weights=(1, weight))
        with pytest.raises(UsageError) as refused:
            prepare(as_any(beyond), as_any(FakeTokenizer()), tmp_path / "beyond")
        assert f"The weights read few.txt {times} while many.txt is read once" in str(refused.value)
        written = (
            f'data.sources=[{{source="many.txt", weight=1}}, {{source="few.txt", weight={weight!r}, max_epochs=100}}]'
        )
        assert written.replace("weight=1}", "weight=1.0}") in str(refused.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["at_most"]

    allowed = mixture(many, few, weights=(1, 5), caps=(None, 300))
    record = prepare(as_any(allowed), as_any(FakeTokenizer()), tmp_path / "allowed")
    assert record.mixture[1].documents == 300


def test_the_sources_that_allow_a_mixture_name_the_columns_of_its_tables(tmp_path: Path) -> None:
    many = tmp_path / "many.csv"
    many.write_text("id,body,note\n" + "".join(f"{number},a cat sat here,x\n" for number in range(200)))
    few = tmp_path / "few.csv"
    few.write_text("id,remark,note\n1,a bird,x\n2,a dog,x\n")
    sources = (
        WeightedSource(source=str(many), weight=0.001, text_field="body"),
        WeightedSource(source=str(few), weight=1.0, text_field="remark"),
    )
    division = open_split(DataSection(sources=sources, split="tail"), "text")
    with pytest.raises(UsageError) as refused:
        prepare(division, as_any(FakeTokenizer()), tmp_path / "refused")

    option = re.search(r"--set '(.*)' in their place", str(refused.value))
    assert option is not None
    allowed = build_recipe(parse_assignments([option[1]])).data.sources
    assert allowed == (sources[0], replace(sources[1], max_epochs=100))


def mixture(*sources: FakeDivision, weights: tuple[float, ...], caps: tuple[int | None, ...] = ()) -> FakeDivision:
    whole: list[list[Document]] = [[], []]
    for one in sources:
        whole[0] += one.train
        whole[1] += one.validation
    shares = [
        WeightedSplit(as_any(one), weight, cap)
        for one, weight, cap in zip(sources, weights, caps or (None,) * len(sources), strict=True)
    ]
    return replace(FakeDivision(*whole), mixture=shares)


LETTERS = mixture(
    FakeDivision(["aa", "bbb", "c", "dd", "ee"], ["v"], name="one"),
    FakeDivision(["x", "yy"], ["w"], name="two"),
    weights=(1, 1),
)


def texts(folder: Path, part: str = "train") -> list[str]:
    view = PreparedDataset.open(folder).text(as_any(part))
    alphabet = FakeTokenizer().alphabet
    ids = view.padded(np.array([0]), np.array([len(view)]), 0)[0]
    return ["".join(alphabet[one - 5] for one in ids[begin + 1 : end - 1]) for begin, end in view.documents.T]


def test_each_source_is_whole_passes_and_a_prefix_in_order(tmp_path: Path) -> None:
    record = prepare(as_any(LETTERS), as_any(FakeTokenizer()), tmp_path / "data")
    found = texts(tmp_path / "data")
    assert [one for one in found if one[0] < "f"] == ["aa", "bbb", "c", "dd", "ee"]
    repeated = [one for one in found if one[0] > "f"]
    assert repeated == ["x", "yy", "x", "yy", "x", "yy"][: len(repeated)]
    assert texts(tmp_path / "data", "validation") == ["v", "w"]
    one, two = record.mixture
    assert (one.source, one.documents, one.tokens, one.epochs) == ("one", 5, 15, 1.0)
    assert abs(two.share - 0.5) < 4 / record.train.tokens
    assert record.train.tokens == one.tokens + two.tokens == sum(len(text) + 1 for text in found)
    assert (record.train.characters, record.train.documents) == (sum(map(len, found)), len(found))


def test_no_weights_no_mixture_in_the_manifest(tmp_path: Path) -> None:
    record = prepare(as_any(FakeDivision(["a"], ["b"])), as_any(FakeTokenizer()), tmp_path / "data")
    assert record.mixture == ()
    manifest = (tmp_path / "data/manifest.json").read_text()
    assert '"mixture"' not in manifest and '"format_version": 2' in manifest


def test_pairs_mix_both_sides_together(tmp_path: Path) -> None:
    one = FakeDivision(pairs(("a", "bb"), ("cc", "d"), ("e", "f")), pairs(("v", "v")), name="one")
    two = FakeDivision(pairs(("x", "yyyy")), pairs(("w", "w")), name="two")
    prepare(as_any(mixture(one, two, weights=(1, 1))), as_any(FakeTokenizer()), tmp_path / "data")
    view = PreparedDataset.open(tmp_path / "data").pairs("train")
    alphabet = FakeTokenizer().alphabet
    found = [
        tuple(
            "".join(alphabet[token - 5] for token in side.sequence(number) if token > 4) for side in vars(view).values()
        )
        for number in range(len(view))
    ]
    assert [pair for pair in found if pair != ("x", "yyyy")] == [("a", "bb"), ("cc", "d"), ("e", "f")]
    assert found.count(("x", "yyyy")) >= 1


WORDS = some.text("abcdef \n", max_size=12)


@settings(deadline=None, max_examples=25)
@given(some.lists(WORDS, min_size=1, max_size=12), some.integers(1, 5), some.integers(2, 9), some.booleans())
def test_shares_of_several_machines_make_the_same_dataset(
    tmp_path_factory: pytest.TempPathFactory, train: list[str], machines: int, size: int, is_mixture: bool
) -> None:
    """Documents that are cut into pieces, and pieces into chunks, at odd places."""
    folder = tmp_path_factory.mktemp("shares")
    first, second = FakeDivision(["a", *train], ["b"], name="one"), FakeDivision(["ee", "f"], ["c"], name="two")
    division = as_any(mixture(first, second, weights=(3, 1)) if is_mixture else first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks.document_pieces, "__defaults__", (3,))
        patch.setattr(chunks.batched, "__defaults__", (size,))
        whole = prepare(division, as_any(FakeTokenizer()), folder / "whole", shard_tokens=8)
        for number in range(machines):
            prepare_share(division, as_any(FakeTokenizer()), folder / str(number), Share(number, machines))
        with pytest.MonkeyPatch.context() as loading:
            loading.setattr("tfcli.data.prepare.load_tokenizer", lambda _: FakeTokenizer())
            merged = merge([folder / str(number) for number in range(machines)], folder / "merged", shard_tokens=8)
    assert merged == replace(whole, path=str(folder / "merged"))
    names = sorted(path.name for path in (folder / "whole").iterdir())
    assert sorted(path.name for path in (folder / "merged").iterdir()) == names
    for name in names:
        assert (folder / "merged" / name).read_bytes() == (folder / "whole" / name).read_bytes()


def test_a_missing_a_foreign_and_a_doubled_share_are_refused(tmp_path: Path) -> None:
    division, other = FakeDivision(["a", "b"], ["c"]), FakeDivision(["a", "d"], ["c"])
    for number in range(2):
        prepare_share(as_any(division), as_any(FakeTokenizer()), tmp_path / str(number), Share(number, 2))
    prepare_share(as_any(other), as_any(FakeTokenizer()), tmp_path / "foreign", Share(1, 2))
    with pytest.raises(UsageError, match=r"The share 2/2 is missing \(1 of 2 are there\)"):
        merge([tmp_path / "0"], tmp_path / "out")
    with pytest.raises(UsageError, match="are shares of different datasets"):
        merge([tmp_path / "0", tmp_path / "foreign"], tmp_path / "out")
    with pytest.raises(UsageError, match="is no share of a dataset"):
        merge([tmp_path / "0", tmp_path / "nothing"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_pair_knows_its_sides() -> None:
    assert vars(Pair("a", "b")) == {"source": "a", "target": "b"}
