"""Whether the first row of a table is a header: one rule for text, pairs and labelled texts; said, set and recorded."""

import json
import shlex
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.commands import tfcli
from tests.corpora.helpers import read, refusal, write
from tfcli.corpora import Kind, Labelled, Pair, reading
from tfcli.corpora.headers import judge_first_row, role_of
from tfcli.corpora.open import looks_like_pairs, open_source
from tfcli.errors import Remark, UsageError
from tfcli.files import digest, file_digest
from tfcli.recipe.data import DataSection


def rows(*lines: str) -> list[list[str]]:
    return [line.split("|") for line in lines]


def notices(path: Path, kind: Kind = "text", **options: object) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        open_source(str(path), kind, **options)  # type: ignore[arg-type]
    return [str(one.message) for one in caught if issubclass(one.category, Remark)]


def labelled(path: Path, **options: object) -> list[tuple[str, str]]:
    found = read(path, "classify", **options)
    assert all(isinstance(one, Labelled) for one in found)
    return [(one.source, one.target) for one in found]  # type: ignore[union-attr]


HEADERS = [
    rows("text", "walk", "run"),
    rows("Source|TARGET", "hund|dog"),
    rows("label|text", "pos|A good film."),
    rows("id|text|stars", "1|A good film.|5"),
    rows("|text", "0|one two", "1|three"),
    rows("|source|target", "7|hund|dog", "3|katze|cat"),
    rows("Unnamed: 0|text", "0|one"),
    rows("text|label|text", "a b|x|c"),
]
LIKELY_HEADERS = [
    rows("review|sentiment", *(["A good film.|pos"] * 3)),
    rows("pt|en", "sim.|yes."),
    rows("en|it", "yes.|si."),
    rows("wort|bedeutung", "laufen|to go on foot", "sitzen|to be on a chair"),
    rows("urteil|kommentar", *(f"{n % 2}|Gut gemacht heute {n}" for n in range(8))),
    rows("apfel|anzahl", "birne|3", "nuss|4"),
    rows("mot|classe", *(f"mot{n}x|{('nom', 'verbe')[n % 2]}" for n in range(8))),
    rows("word", "walk", "run"),
]
LIKELY_DATA = [
    rows("hund|dog", "katze|cat", "maus|mouse"),
    rows("hund|dog"),
    rows("walk", "run", "sit"),
    rows("hi|salut", "yes|oui"),
    rows("answer|antwort", "question|frage"),
    rows("hund|noun", "laufen|verb", "katze|noun", "sitzen|verb", "maus|noun", "gehen|verb", "kuh|noun"),
]
DATA = [
    rows("Olá!|Hello!", "sim.|yes."),
    rows("bom dia|good morning", "sim|yes"),
    rows("1|2", "3|4"),
    rows("en|en", "sim.|yes."),
    rows("A good film.|pos", "Bad.|neg"),
]


@pytest.mark.parametrize(
    ("table", "is_header", "is_certain"),
    [
        *((table, True, True) for table in HEADERS),
        *((table, True, False) for table in LIKELY_HEADERS),
        *((table, False, False) for table in LIKELY_DATA),
        *((table, False, True) for table in DATA),
    ],
)
def test_names_decide_first_and_then_what_the_other_rows_look_like(table, is_header, is_certain):
    verdict = judge_first_row(table)
    assert (verdict.is_header, verdict.is_certain) == (is_header, is_certain)


def test_names_in_any_language_are_a_header_when_they_are_asked_for():
    table = rows("мнение|оценка", "хорошо|плюс", "плохо|минус")
    assert not judge_first_row(table).is_header
    assert judge_first_row(table, ["оценка", "мнение"]).is_header


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("reviewText", "text"),
        ("comment_text", "text"),
        ("Sentiment", "label"),
        ("toxic_label", "label"),
        ("user_id", "other"),
        ("translation.pt", "side"),
        ("hund", None),
    ],
)
def test_a_name_says_what_a_column_holds(name, role):
    assert role_of(name) == role


def test_a_word_list_without_a_header_loses_no_row(tmp_path):
    pairs = write(tmp_path / "pairs.tsv", "hund\tdog\nkatze\tcat\nmaus\tmouse\n")
    assert read(pairs, "pairs") == [Pair("hund", "dog"), Pair("katze", "cat"), Pair("maus", "mouse")]
    assert read(write(tmp_path / "words.csv", "walk\nrun\nsit\n")) == ["walk", "run", "sit"]
    assert read(write(tmp_path / "one.tsv.gz", "hund\tdog\n"), "pairs") == [Pair("hund", "dog")]
    assert notices(pairs, "pairs") == [
        f"{pairs}: first row read as data: hund, dog; use --set data.header=true if it names the columns."
    ]
    assert read(pairs, "pairs", header=True) == [Pair("katze", "cat"), Pair("maus", "mouse")]
    assert notices(pairs, "pairs", header=True) == []


def test_the_header_of_labels_is_no_text(tmp_path):
    body = "".join(f'"Film {n}, seen today.",{"pn"[n % 2]}\n' for n in range(20))
    path = write(tmp_path / "reviews.csv", "review,sentiment\n" + body)
    assert labelled(path) == [(f"Film {n}, seen today.", "pn"[n % 2]) for n in range(20)]
    assert notices(path, "classify") == [
        f"{path}: first row read as header: review, sentiment; use --set data.header=false if it is data."
    ]
    assert labelled(path, header=False)[0] == ("review", "sentiment")
    assert labelled(path, columns=["1", "2"]) == labelled(path, columns=["review", "sentiment"]) == labelled(path)


@pytest.mark.parametrize("header", ["sentiment,review\n", "label,text\n", "", "x,y\n"])
def test_labels_may_come_first(tmp_path, header):
    body = "".join(f"{('good', 'bad')[n % 2]},Film {n} was seen today\n" for n in range(12))
    found = labelled(write(tmp_path / "a.csv", header + body))
    assert found == [(f"Film {n} was seen today", ("good", "bad")[n % 2]) for n in range(12)]
    said = any(
        "labels read from column 1, texts from column 2" in one for one in notices(tmp_path / "a.csv", "classify")
    )
    assert said == (header in ("", "x,y\n"))


def test_the_nameless_index_of_pandas_is_no_column(tmp_path):
    text = write(tmp_path / "text.csv", ",text\n0,hello there\n1,second line\n2,third\n")
    assert read(text) == ["hello there", "second line", "third"] and notices(text) == []
    pairs = write(tmp_path / "pairs.csv", ",source,target\n0,hund,dog\n1,katze,cat\n")
    assert read(pairs, "pairs") == [Pair("hund", "dog"), Pair("katze", "cat")] and notices(pairs, "pairs") == []
    assert read(write(tmp_path / "two.csv", ",wort,word\n0,hund,dog\n1,kuh,cow\n"), "pairs")[0] == Pair("hund", "dog")


def test_a_name_that_two_columns_have_is_chosen_by_number(tmp_path):
    path = write(tmp_path / "a.csv", "text,label,text\na b,x,c d\n")
    sentence = refusal(UsageError, 2, path)
    assert f"{path} has 2 columns called 'text'" in sentence and "by its number in data.columns: 1 or 3" in sentence
    assert read(path, columns=["3"]) == ["c d"]


def test_files_of_a_source_that_agree_share_a_notice(tmp_path):
    for number in range(3):
        write(tmp_path / f"part-{number}.tsv", "hund\tdog\nkatze\tcat\n")
    name = tmp_path / "*.tsv"
    assert notices(name, "pairs") == [
        f"{name} (3 files): first row read as data: hund, dog; use --set data.header=true if it names the columns."
    ]


@pytest.mark.parametrize("name", ["reviews.csv", "reviews.jsonl"])
def test_columns_that_are_not_read_are_said_and_labels_are_offered(tmp_path, name):
    if name == "reviews.csv":
        path = write(tmp_path / name, "id,text,label\n1,A good film.,pos\n2,A bad film.,neg\n")
    else:
        records = [{"id": 1, "text": "A good film.", "label": 1}, {"id": 2, "text": "A bad film.", "label": 0}]
        path = write(tmp_path / name, "".join(f"{json.dumps(one)}\n" for one in records))
    assert sorted(" ".join(notices(path)).replace(",", "").split()) == sorted(
        f"{path}: only the column text is read not id label. "
        f"To learn the column label as labels: tfcli train {path} --task classify".split()
    )
    assert notices(path, columns=["text"]) == []
    assert not looks_like_pairs([str(path)], None)


def test_the_offered_command_names_the_columns_that_it_would_not_find(tmp_path):
    path = write(tmp_path / "a.csv", "review,stars,sentiment\nA good film.,5,pos\nA bad film.,1,neg\n")
    offered = notices(path)[-1].partition(": ")[2]
    assert offered == f"""tfcli train {path} --task classify --set 'data.columns=["review", "stars"]'"""
    columns = json.loads(shlex.split(offered)[-1].removeprefix("data.columns="))
    assert [one.target for one in read(path, "classify", columns=columns)] == ["5", "1"]
    refusal(UsageError, 2, path, "classify")


def test_the_remedy_for_a_table_with_too_few_columns_is_another_table(tmp_path):
    path = write(tmp_path / "a.csv", "A good film.\nA bad film.\n")
    sentence = refusal(UsageError, 2, path, "classify")
    assert "and classify needs text, label; name a table with these columns" in sentence


def test_a_text_with_its_label_is_no_pair(tmp_path):
    path = write(tmp_path / "reviews.csv", "review,sentiment\nA good film today.,pos\nA bad film today.,neg\n")
    assert not looks_like_pairs([str(path)], None)
    assert read(path) == ["A good film today.", "A bad film today."]
    assert looks_like_pairs([str(write(tmp_path / "pairs.csv", ",de,en\n0,Ja.,Yes.\n"))], None)


def test_the_first_line_of_tags_is_no_word_when_it_names_them(tmp_path):
    path = write(tmp_path / "a.tsv", "Token\tTag\nAnn\tB-PER\nran\tO\n\nRome\tB-LOC\n")
    assert [one.source for one in read(path, "tag")] == ["Ann ran", "Rome"]
    assert [one.source for one in read(path, "tag", header=False)] == ["Token Ann ran", "Rome"]


def test_what_is_read_as_before_keeps_its_fingerprint(tmp_path):
    """The formula is that of the version before `data.header`."""
    same = write(tmp_path / "same.tsv", "source\ttarget\nhund\tdog\n")
    assert open_source(str(same), "pairs").fingerprint() == digest(
        "files", "pairs", None, [f".tsv:{file_digest(same)}"]
    )
    other = write(tmp_path / "other.tsv", "hund\tdog\nkatze\tcat\n")
    before = digest("files", "pairs", None, [f".tsv:{file_digest(other)}"])
    assert open_source(str(other), "pairs").fingerprint() != before
    again = open_source(str(other), "pairs", as_before=True)
    assert again.fingerprint() == before and list(again.documents()) == [Pair("katze", "cat")]
    assert open_source(str(other), "pairs", header=True).fingerprint() == before


def prepared(folder: Path, name: str, *more: str | Path) -> dict:
    tokenizer = folder / "tok.json"
    if not tokenizer.exists():
        made = tfcli("tokenize", "train", "builtin:stories", "--out", tokenizer, "--vocab-size", "300")
        assert made.exit_code == 0, made.stderr
    result = tfcli("prepare", folder / "pairs.tsv", "--pairs", "--tokenizer", tokenizer, *more, "--out", folder / name)
    assert result.exit_code == 0, result.stderr
    return {"stderr": result.stderr, **json.loads((folder / name / "manifest.json").read_text())}


def test_the_decision_is_in_the_manifest_and_said_once(tmp_path):
    path = write(tmp_path / "pairs.tsv", "hund\tdog\n" + "".join(f"wort {n}\tword {n}\n" for n in range(150)))
    read_as_data = {"source": str(path), "files": 1, "header": False, "columns": ["1", "2"]}
    found = prepared(tmp_path, "p")
    assert found["tables"] == [read_as_data]
    assert found["stderr"].count("first row read as data: hund, dog") == 1
    workers = prepared(tmp_path, "w", "--workers", "2")
    assert workers["tables"] == [read_as_data] and workers["fingerprint"] == found["fingerprint"]
    assert workers["stderr"].count("first row read as data") == 1
    named = prepared(tmp_path, "h", "--set", "data.header=true")
    assert named["tables"] == [{**read_as_data, "header": True, "columns": ["hund", "dog"]}]
    assert named["fingerprint"] != found["fingerprint"] and "first row" not in named["stderr"]
    shown = tfcli("prepare", path, "--pairs", "--tokenizer", tmp_path / "tok.json", "--out", tmp_path / "j", "--json")
    assert json.loads(shown.stdout)["tables"][0]["header"] is False
    drawn = tfcli("prepare", path, "--pairs", "--tokenizer", tmp_path / "tok.json", "--out", tmp_path / "p")
    assert "first row is data; columns 1, 2" in " ".join(drawn.stdout.split())


def test_shares_and_what_is_appended_have_their_decision(tmp_path):
    path = write(tmp_path / "pairs.tsv", "hund\tdog\n" + "".join(f"wort {n}\tword {n}\n" for n in range(150)))
    whole = prepared(tmp_path, "p")
    for number in (1, 2):
        share = ("--shard", f"{number}/2", "--out", tmp_path / f"share{number}")
        result = tfcli("prepare", path, "--pairs", "--tokenizer", tmp_path / "tok.json", *share)
        assert result.exit_code == 0, result.stderr
    merged = tfcli("prepare", tmp_path / "share1", tmp_path / "share2", "--merge", "--out", tmp_path / "m")
    assert merged.exit_code == 0, merged.stderr
    manifest = tmp_path / "m" / "manifest.json"
    assert json.loads(manifest.read_text())["tables"] == whole["tables"]
    more = write(tmp_path / "more.csv", ",source,target\n0,kuh,cow\n1,maus,mouse\n")
    added = tfcli("prepare", more, "--pairs", "--split", "hash", "--append", "--out", tmp_path / "m")
    assert added.exit_code == 0, added.stderr
    last = {"source": str(more), "files": 1, "header": True, "columns": ["source", "target"]}
    assert json.loads(manifest.read_text())["tables"] == [*whole["tables"], last]


def test_standard_input_is_read_by_the_same_rule(tmp_path):
    prepared_from = ("prepare", "-", "--pairs", "--tokenizer", tmp_path / "tok.json", "--out", tmp_path / "p")
    made = tfcli("tokenize", "train", "builtin:stories", "--out", tmp_path / "tok.json", "--vocab-size", "300")
    assert made.exit_code == 0, made.stderr
    reading.standard_input.cache_clear()
    result = tfcli(*prepared_from, stdin="hund\tdog\nkatze\tcat\nmaus\tmouse\n")
    reading.standard_input.cache_clear()
    assert result.exit_code == 0, result.stderr
    assert "Standard input: first row read as data: hund, dog" in result.stderr
    assert json.loads((tmp_path / "p" / "manifest.json").read_text())["tables"][0]["source"] == "-"


def test_a_manifest_without_the_decision_is_read(tmp_path):
    write(tmp_path / "pairs.tsv", "source\ttarget\n" + "".join(f"wort {n}\tword {n}\n" for n in range(150)))
    found = prepared(tmp_path, "p")
    manifest = tmp_path / "p" / "manifest.json"
    older = {name: value for name, value in found.items() if name not in ("tables", "stderr")}
    manifest.write_text(json.dumps({**older, "format_version": 2}))
    again = prepared(tmp_path, "p")
    assert again["fingerprint"] == found["fingerprint"] and "tables" not in again


QUICK = ["--steps", "2", "--size", "tiny", "--batch-size", "4", "--quiet"]


def test_a_run_of_an_older_version_goes_on_with_the_rows_that_it_read(tmp_path, monkeypatch):
    """Such a run has no `data.header`, and the first row of single words was lost."""
    path = write(tmp_path / "pairs.tsv", "hund\tdog\n" + "".join(f"wort {n}\tword {n}\n" for n in range(30)))
    monkeypatch.setenv("TFCLI_CACHE", str(tmp_path / "cache"))
    run = tmp_path / "run"
    asked = ["train", path, *QUICK, "--set", "data.header=true", "--out", run]
    assert tfcli(*asked).exit_code == 0
    recipe = run / "recipe.toml"
    recipe.write_text("".join(line for line in recipe.read_text().splitlines(True) if not line.startswith("header")))
    for state in run.glob("checkpoints/*/state.json"):
        assert '"header"' in state.read_text()
    (tmp_path / "cache").rename(tmp_path / "gone")
    scores = tfcli("evaluate", run, "--json")
    assert scores.exit_code == 0, scores.stderr
    assert "first row" not in scores.stderr


def test_one_row_of_two_words_is_a_pair_to_score(tmp_path):
    path = write(tmp_path / "pairs.tsv", "".join(f"wort {n}\tword {n}\n" for n in range(30)))
    assert tfcli("train", path, *QUICK, "--out", tmp_path / "run").exit_code == 0
    one = write(tmp_path / "one.tsv", "hund\tdog\n")
    result = tfcli("evaluate", tmp_path / "run", one, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["tokens"] > 0
    assert result.stderr.count("first row read as data: hund, dog") == 1
    asked = tfcli("evaluate", tmp_path / "run", one, "--set", "data.header=true")
    assert asked.exit_code == 2 and "no pair with text on both sides" in asked.stderr


def test_training_on_labels_has_two_classes_and_a_dry_run_offers_it(tmp_path):
    body = "".join(f'"Film {n}, seen today.",{("bad", "good")[n % 2]}\n' for n in range(30))
    path = write(tmp_path / "reviews.csv", "review,sentiment\n" + body)
    result = tfcli("train", path, "--task", "classify", *QUICK, "--out", tmp_path / "run")
    assert result.exit_code == 0, result.stderr
    assert json.loads((tmp_path / "run" / "config.json").read_text())["model"]["labels"] == ["bad", "good"]
    dry = tfcli("train", path, "--size", "tiny", "--dry-run")
    assert dry.exit_code == 0, dry.stderr
    assert "only the column review is read, not sentiment" in dry.stderr
    assert f"tfcli train {path} --task classify" in dry.stderr.replace("\n", "")


def test_the_key_is_true_false_or_auto(tmp_path):
    path = write(tmp_path / "a.csv", "walk\nrun\n")
    wrong = tfcli("data", "report", path, "--set", "data.header=maybe")
    assert wrong.exit_code == 2 and "choose 'auto', true or false" in wrong.stderr
    assert replace(DataSection(), header=False).reading["header"] is False
    tokens = tfcli("tokenize", "train", path, "--set", "data.header=true", "--out", tmp_path / "t.json", "--json")
    assert tokens.exit_code == 0, tokens.stderr
    assert json.loads(tokens.stdout)["documents"] == 1
