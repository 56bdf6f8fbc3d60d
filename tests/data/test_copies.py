"""Validation documents that stand in training, too: counted whoever encodes which chunk, and left out when asked."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.commands import tfcli
from tests.support.fakes import FakeDivision, FakeTokenizer, as_any, pairs
from tests.tokenization.conftest import train as trained
from tfcli.data import chunks as pieces
from tfcli.data.dataset import PreparedDataset
from tfcli.data.prepare import Share, append, merge, prepare, prepare_share
from tfcli.errors import UsageError

TEXTS = st.lists(st.text("ab\n", min_size=1, max_size=9), min_size=1, max_size=12)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXTS, TEXTS, st.integers(1, 3), st.integers(1, 5), st.integers(1, 12))
def test_the_count_is_the_same_whoever_encodes_which_chunk(
    tmp_path_factory: pytest.TempPathFactory,
    train: list[str],
    validation: list[str],
    machines: int,
    piece: int,
    batch: int,
) -> None:
    """Documents in many pieces, which end in another chunk than they begin in."""
    tmp_path = tmp_path_factory.mktemp("copies")
    division, tokenizer = as_any(FakeDivision(train, validation, split="tail")), as_any(FakeTokenizer())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces.document_pieces, "__defaults__", (piece,))
        patch.setattr(pieces.batched, "__defaults__", (batch,))
        patch.setattr("tfcli.data.prepare.load_tokenizer", lambda _: tokenizer)
        for number in range(machines):
            prepare_share(division, tokenizer, tmp_path / str(number), Share(number, machines))
        record = merge([tmp_path / str(number) for number in range(machines)], tmp_path / "data")
    assert record.copies == sum(text in train for text in validation)
    values = json.loads((tmp_path / "data/manifest.json").read_text())
    assert values.get("copies") == (record.copies or None)
    assert values["format_version"] == (3 if record.copies else 2)
    assert PreparedDataset.open(tmp_path / "data").record().copies == record.copies


def test_a_pair_is_a_copy_when_both_sides_are(tmp_path: Path) -> None:
    train = pairs(("a", "b"), ("c", "d"), ("e", "f"))
    division = FakeDivision(train, pairs(("a", "b"), ("b", "a"), ("c", "e"), ("e", "f")), split="own")
    assert prepare(as_any(division), as_any(FakeTokenizer()), tmp_path / "data").copies == 2


def test_a_division_by_content_is_not_looked_at(tmp_path: Path) -> None:
    division = FakeDivision(["a"], ["a"])
    assert prepare(as_any(division), as_any(FakeTokenizer()), tmp_path / "data").copies == 0


def test_a_count_that_cannot_be_is_refused(tmp_path: Path) -> None:
    prepare(as_any(FakeDivision(["a"], ["a"], split="tail")), as_any(FakeTokenizer()), tmp_path / "data")
    path = tmp_path / "data/manifest.json"
    path.write_text(path.read_text().replace('"copies": 1', '"copies": 2'))
    with pytest.raises(Exception, match="damaged at copies, which is 2"):
        PreparedDataset.open(tmp_path / "data")


@pytest.fixture
def corpus(tmp_path: Path) -> list[str | Path]:
    """Of four documents that validate, one stands in training, twice."""
    texts = [f"document number {number} of some" for number in range(9)]
    held_out = ["a b c d e f g h i j k l", texts[3].upper(), texts[4], texts[4] + "."]
    for name, documents in (("a", [texts[4], *texts]), ("v", held_out)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
    trained("bpe", "document number of some\n" * 20, vocab_size=300).save(tmp_path / "tok.json")
    return [tmp_path / "a.jsonl", "--tokenizer", tmp_path / "tok.json", "--validation", tmp_path / "v.jsonl"]


def test_the_command_says_the_share_and_leaves_them_out_when_asked(corpus: list[str | Path], tmp_path: Path) -> None:
    plain = tfcli("prepare", *corpus, "--out", tmp_path / "plain")
    assert plain.exit_code == 0, plain.stderr
    assert "1 of 4 validation documents (25.0 %) stands in training, too; data" in " ".join(plain.stdout.split())
    for part, left in (("train", "2 documents"), ("validation", "1 document")):
        done = tfcli("prepare", *corpus, "--drop-duplicates", part, "--out", tmp_path / part, "--json")
        record = json.loads(done.stdout)
        assert (record["copies"], record["removed"]) == (0, {"in_both_parts": int(left[0])})
        again = tfcli("prepare", *corpus, "--drop-duplicates", part, "--out", tmp_path / part)
        assert f"Left out: {left} ({left[0]} that stand in both parts)." in again.stdout
        assert "reused" in again.stdout


@pytest.mark.parametrize("keys", [["data.deduplicate=exact", "data.min_characters=24"], ["data.drop_duplicates=train"]])
def test_workers_and_machines_leave_out_the_same(corpus: list[str | Path], tmp_path: Path, keys: list[str]) -> None:
    cleaned = [*corpus, *(word for key in keys for word in ("--set", key))]
    assert tfcli("prepare", *cleaned, "--out", tmp_path / "one").exit_code == 0
    assert tfcli("prepare", *cleaned, "--out", tmp_path / "two", "--workers", "2").exit_code == 0
    for number in (1, 2):
        assert tfcli("prepare", *cleaned, "--shard", f"{number}/2", "--out", tmp_path / f"s{number}").exit_code == 0
    assert tfcli("prepare", tmp_path / "s1", tmp_path / "s2", "--merge", "--out", tmp_path / "merged").exit_code == 0
    files = [
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two", "merged")
    ]
    assert files[0] == files[1] == files[2]
    assert not list(tmp_path.glob(".*"))
    removed = json.loads(files[0]["manifest.json"])["removed"]
    assert removed == ({"short": 1, "exact": 2} if len(keys) == 2 else {"in_both_parts": 2})


def test_what_was_left_out_adds_up_when_documents_are_added(tmp_path: Path) -> None:
    class Cleaned:
        removed = {"short": 3}  # noqa: RUF012
        compares = False

        def decided(self) -> dict[str, object]:
            return {}

    old, new = (FakeDivision([text], ["b"], name=text, cleaning=Cleaned()) for text in "ac")
    folder, tokenizer = tmp_path / "data", as_any(FakeTokenizer())
    first = prepare(as_any(old), tokenizer, folder)
    record = append(as_any(new), tokenizer, folder)
    assert (first.removed, record.removed) == ({"short": 3}, {"short": 6})
    assert PreparedDataset.open(folder, first.fingerprint).record().removed == {}
    Cleaned.compares = True
    with pytest.raises(UsageError, match=r"data\.deduplicate cannot compare"):
        append(as_any(FakeDivision(["d"], ["e"], cleaning=Cleaned())), tokenizer, folder)
