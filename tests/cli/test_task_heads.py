"""Task heads as they are typed: trained, asked, evaluated, looked into, and refused."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import tfcli
from tests.support.runs import weights

QUICK = ["--steps", "3", "--size", "tiny", "--batch-size", "4", "--quiet"]
TEXTS = "".join(f"text number {n}\t{'even' if n % 2 == 0 else 'odd'}\n" for n in range(120))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A labelled file, and a run of each task."""
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "texts.tsv").write_text(TEXTS)
    (folder / "tags.tsv").write_text("".join(f"Ann\tB-PER\nran\tO\nno{n}\tO\n\n" for n in range(120)))
    asked = {"context": "Ann ran home.", "question": "Who ran?", "answer": "Ann"}
    (folder / "asked.jsonl").write_text("".join(f"{json.dumps(asked | {'id': n})}\n" for n in range(40)))
    for task, source in (("classify", "texts.tsv"), ("tag", "tags.tsv"), ("span", "asked.jsonl")):
        result = tfcli("train", "--task", task, folder / source, *QUICK, "--out", folder / task)
        assert result.exit_code == 0, result.stderr
    return folder


def asked(*arguments: str | Path) -> list[dict[str, object]]:
    result = tfcli(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_generate_tells_labels(folder: Path) -> None:
    first, _ = asked("generate", folder / "classify", "text number 7", "text number 8")
    assert first["prompt"] == "text number 7"
    labels = first["labels"]
    assert isinstance(labels, list)
    assert {one["label"] for one in labels} == {"even", "odd"}
    assert [labels[0]["label"], labels[0]["probability"]] == [first["label"], first["probability"]]
    [tagged] = asked("generate", folder / "tag", "Ann ran, now.")
    assert [one["word"] for one in tagged["words"]] == ["Ann", "ran", ",", "now", "."]  # type: ignore[attr-defined]
    [answer] = asked("generate", folder / "span", "Ann ran home.", "--question", "Who ran?")
    text, start = answer["answer"], answer["start"]
    assert isinstance(text, str) and isinstance(start, int)
    assert "Ann ran home."[start:].startswith(text)
    shown = tfcli("generate", folder / "tag", "Ann ran").stdout
    assert len(shown.splitlines()) == 2


def test_each_text_gets_what_it_gets_alone(folder: Path) -> None:
    texts = ["text number 7", "a", "a much longer text than the others are"]
    together = asked("generate", folder / "classify", *texts)
    for text, one in zip(texts, together, strict=True):
        [alone] = asked("generate", folder / "classify", text)
        assert alone["probability"] == pytest.approx(one["probability"], abs=1e-5)


def test_evaluate_has_the_scores_of_the_task(folder: Path) -> None:
    [scores] = asked("evaluate", folder / "classify")
    confusion = scores["confusion"]
    assert isinstance(confusion, list)
    assert (scores["labels"], sum(map(sum, confusion))) == (["even", "odd"], scores["tokens"])
    assert scores["macro_f1"] is not None and scores["entity_f1"] is None
    [tags] = asked("evaluate", folder / "tag", folder / "tags.tsv")
    assert tags["entity_f1"] is not None and tags["documents"] == 120
    [spans] = asked("evaluate", folder / "span")
    assert spans["exact_match"] is not None and spans["span_f1"] is not None
    shown = tfcli("evaluate", folder / "classify").stdout
    assert "always the most frequent label" in shown and "true \\ predicted" in shown
    [compared] = asked("evaluate", folder / "classify", "--compare", folder / "classify")
    differences = compared["comparison"]["differences"]  # type: ignore[index]
    assert {one["score"] for one in differences} >= {"loss", "accuracy", "macro_f1"}


def test_adapters_are_trained_beside_a_new_head(folder: Path) -> None:
    lora = ["--task", "classify", folder / "texts.tsv", "--init", folder / "plain", "--set", "train.adapter=lora"]
    for name, how in (("plain", ["--arch", "encoder"]), ("adapted", lora)):
        result = tfcli("train", *how, *QUICK, "--out", folder / name)
        assert result.exit_code == 0, result.stderr
    before, after = (weights(folder / name / "model.safetensors") for name in ("plain", "adapted"))
    assert after["head.weight"].shape[0] == 2 and after["head.bias"].abs().min() > 0, "it begins at 0"
    changed = {name for name in before if not name.startswith("head.") and not before[name].equal(after[name])}
    assert changed and all(name.endswith(".weight") and name.startswith("stack.layers.") for name in changed), changed
    [made], [scores] = asked("generate", folder / "adapted", "text number 7"), asked("evaluate", folder / "adapted")
    assert made["label"] in ("even", "odd") and scores["labels"] == ["even", "odd"]


@pytest.mark.parametrize("what", ["attention", "tokens", "heads"])
def test_inspect_looks_inside(folder: Path, what: str) -> None:
    result = tfcli("inspect", what, folder / "tag", "Ann ran home")
    assert result.exit_code == 0, result.stderr


def test_what_the_model_is_says_its_labels(folder: Path) -> None:
    assert tfcli("inspect", "model", folder / "tag").exit_code == 0
    assert "classify: even, odd" in (folder / "classify" / "README.md").read_text()
    assert tfcli("inspect", "heads", folder / "classify").exit_code == 0
    assert tfcli("verify", folder / "classify").exit_code == 0


NO_TOKENS = "tells labels, and predicts no tokens; use `tfcli generate`"
REFUSED: list[tuple[str, str, int]] = [
    ("inspect predictions classify x", NO_TOKENS, 2),
    ("inspect lens classify x", NO_TOKENS, 2),
    ("inspect losses classify x", NO_TOKENS, 2),
    ("inspect attribution classify x", NO_TOKENS, 2),
    ("export classify --format hf --out out", "a task head (train.task) is written for no other library", 2),
    ("generate classify x --temperature 1", "A task head tells labels, and --temperature changes nothing", 2),
    ("generate classify x --question y", "This run answers nothing; leave --question out", 2),
    ("generate span x", "no question is asked; add --question TEXT", 2),
    ("generate tag", "A task head needs a prompt", 2),
    ("evaluate classify --windows stream", "read labelled texts", 2),
    ("evaluate classify --pseudo", "this one tells labels", 2),
    ("evaluate classify other.tsv", "has the label 'odder', and the model tells even, odd", 2),
    ("evaluate classify --compare tag", "do not mean the same", 2),
    ("train --task span --out out", "There is no built-in text for train.task = 'span'", 2),
    ("train --task classify same.tsv --out out", "there is nothing to tell apart", 2),
    ("train --task classify hf:imdb --out out", "Labelled texts are read from files", 2),
    ("train --task classify builtin:stories --out out", "builtin:stories holds text, not classify", 2),
    ("train builtin:bank --out out", "or --task classify", 2),
    ("train --task classify broken.tsv --out out", "has 1 fields, where the first has 2", 1),
    ("train --task classify texts.tsv --arch encoder-decoder --out out", "is for an encoder or a decoder", 2),
    ("train --init classify --set train.adapter=lora --out out", "has no head for tokens, and train.adapter", 2),
    ("plan texts.tsv --minutes 1 --set train.task=classify", "A plan is for a training that predicts tokens", 2),
]


@pytest.mark.parametrize(("line", "said", "code"), REFUSED)
def test_what_does_not_go_is_said_in_a_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, line: str, said: str, code: int
) -> None:
    monkeypatch.chdir(folder)
    (folder / "other.tsv").write_text("text one\teven\ntext two\todder\n")
    (folder / "same.tsv").write_text("".join(f"text {n}\tsame\n" for n in range(120)))
    (folder / "broken.tsv").write_text("one\teven\ntwo\n")
    result = tfcli(*line.split(), *(["--quiet"] if line.startswith("train") else []))
    assert (result.exit_code, said in " ".join(result.stderr.split())) == (code, True), result.stderr
    assert "Traceback" not in result.stderr
    assert not (folder / "out").exists()
    assert not list(folder.glob(".out*"))


def test_a_dry_run_shows_the_model(folder: Path) -> None:
    result = tfcli("train", "--task", "classify", folder / "texts.tsv", "--dry-run")
    assert result.exit_code == 0, result.stderr


def test_short_texts_are_batched_however_long_the_context_is(tmp_path: Path):
    text = tmp_path / "words.tsv"
    text.write_text("".join(f"w{n}\t{'ab'[n % 2]}\n" for n in range(200)))
    settings = ("--size", "tiny", "--steps", "2", "--set", "model.max_seq_len=256", "--out", tmp_path / "run")
    done = tfcli("train", "--task", "classify", text, *settings)
    assert done.exit_code == 0, done.stderr


def test_a_list_that_is_written_as_text_is_refused(tmp_path: Path):
    table = tmp_path / "tags.csv"
    table.write_text("words,tags\n\"['a', 'b']\",\"['X', 'O']\"\n")
    refused = tfcli("train", "--task", "tag", table, "--size", "tiny", "--out", tmp_path / "run")
    assert refused.exit_code == 1 and "Line 2 of" in refused.stderr and "has a list as text" in refused.stderr
