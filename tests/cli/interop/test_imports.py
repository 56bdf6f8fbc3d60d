"""Runs that ``tfcli import`` has made, as a user types it."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.cli.commands import snapshot, tfcli
from tests.cli.interop.support import (
    SHORT,
    STORIES,
    TEXT,
    Checkpoints,
    changed,
    done,
    ours,
    refused,
    source_of,
    their_best,
    their_ids,
    their_loss,
)
from tests.support.checkpoints import FAMILIES, edit_json
from tfcli.generation.sampling import never_generated
from tfcli.runs.load import load_run


def test_a_vocabulary_without_special_tokens(endless: Path, corpus: Path, tmp_path: Path):
    """Nothing begins a text and nothing ends it, whatever id comes: the first letter's too."""
    run, texts = tmp_path / "run", ("a cat", "One day", "z")
    record = json.loads(done("import", endless, "--out", run, "--json"))
    assert (record["begins"], record["ends"], record["pads"], record["never"]) == ([], [], "", [])
    shown = done("import", endless, "--out", tmp_path / "shown")
    assert re.search("begins with +nothing  a text; an empty prompt is refused", shown)
    assert re.search("ends with +nothing  a text; generation stops at its limit", shown)
    assert re.search("pads with +nothing", shown)
    for text in texts:
        ids = load_run(run).tokenizer.encode(text)
        read = {"attention_mask": torch.ones(1, len(ids)), "pad_token_id": 0, "eos_token_id": None}
        assert ours(run, text, 30) == their_ids(endless, ids, 30, **read)
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in (*texts, "aaaa")))
    found = json.loads(done("evaluate", run, tmp_path / "texts.jsonl", "--json"))
    assert (found["tokens"], found["unscored"]) == (4 + 6 + 0 + 3, 4)
    assert found["loss"] == pytest.approx(
        their_loss(endless, [load_run(run).tokenizer.encode(t) for t in texts[:2]] + [[0] * 4])
    )
    done("verify", run)
    assert "The prompt is empty" in refused(2, "generate", run, "")
    assert "'z' is no special token" in refused(2, "import", endless, "--out", tmp_path / "begun", "--bos", "z")
    for looked in ("inspect attention", "inspect attribution", "inspect lens", "embed"):
        assert "The text is empty, and no token of this run begins a text" in refused(2, *looked.split(), run, "")
    done("train", "--init", run, "--data", corpus / "text.txt", "--out", tmp_path / "tuned", *SHORT)
    done("export", run, "--out", tmp_path / "hf")
    written = json.loads((tmp_path / "hf/config.json").read_text())
    assert [written[f"{role}_token_id"] for role in ("bos", "eos", "pad")] == [None, None, None]
    assert json.loads((tmp_path / "hf/special_tokens_map.json").read_text()) == {}
    assert ours(run, "z", 30) == their_ids(tmp_path / "hf", load_run(run).tokenizer.encode("z"), 30)
    assert done("tokenize", "encode", endless, "a cat") == done("tokenize", "encode", run, "a cat")


def test_what_begins_a_text_stands_there_once(checkpoint: Checkpoints, tmp_path: Path):
    """Whether it is typed or not."""
    done("import", checkpoint("llama"), "--out", tmp_path / "run")
    greedily = ["--temperature", "0", "--max-new-tokens", "12", "--special-tokens"]
    typed, plain = (done("generate", tmp_path / "run", text, *greedily) for text in ("<s> the cat", " the cat"))
    assert typed.removeprefix("<s>") == plain


def test_what_the_model_does_not_need_is_left_over(checkpoint: Checkpoints, tmp_path: Path):
    """Other heads, metadata, and settings that the user says to be without effect."""
    folder, run = tmp_path / "llama", tmp_path / "run"
    shutil.copytree(checkpoint("llama"), folder)
    tensors = load_file(folder / "model.safetensors")
    extra = {"v_head.summary.weight": torch.zeros(1, 16), "medusa.0.weight": torch.zeros(2)}
    save_file(tensors | extra, folder / "model.safetensors", {"format": "pt"})
    odd = {"my_app": {"a": 1}, "scale_depth": 1.4}
    edit_json(folder / "config.json", _model_name_or_path="x", _any={"of": "mine"}, eos_token_ids=[2, 5], **odd)
    for name in odd:
        assert refused(2, "import", folder, "--out", run).endswith(f"--ignore-setting {name}.") or name != "my_app"
    assert "no setting 'nope' to ignore" in refused(2, "import", folder, "--out", run, "--ignore-setting", "nope")
    ignoring = ["--ignore-setting", "my_app", "--ignore-setting", "scale_depth"]
    record = json.loads(done("import", folder, "--out", run, *ignoring, "--json"))
    assert record["left_over"] == ["medusa.0.weight", "v_head.summary.weight"]
    assert load_run(run).recipe.origin.ignored == ("my_app", "scale_depth")
    assert "| read without | my_app, scale_depth |" in (run / "README.md").read_text()
    save_file(tensors | {"lm_head.bias": torch.ones(269)}, folder / "model.safetensors", {"format": "pt"})
    assert "'lm_head.bias'" in refused(1, "import", folder, "--out", tmp_path / "other", *ignoring)


def test_a_setting_inside_another_is_ignored_by_its_path(checkpoint: Checkpoints, tmp_path: Path):
    shutil.copytree(checkpoint("llama"), tmp_path / "llama")
    rope = {"rope_theta": 500.0, "rope_type": "default", "mystery": 2}
    edit_json(tmp_path / "llama/config.json", rope_parameters=rope)
    key = "rope_parameters.mystery"
    assert f"--ignore-setting {key}." in refused(2, "import", tmp_path / "llama", "--out", tmp_path / "run")
    done("import", tmp_path / "llama", "--out", tmp_path / "run", "--ignore-setting", key)
    assert load_run(tmp_path / "run").config.model.position_base == 500


@pytest.mark.parametrize("kind", ["endless", "headless", "gpt2", "llama", "bert", "eurobert", "bart", "marian", "t5"])
def test_the_commands_of_its_readme_work(
    kind: str, request: pytest.FixtureRequest, checkpoint: Checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Training is looked at as far as --dry-run goes; the builtin sources take their time."""
    if kind == "headless":
        request.getfixturevalue(kind)  # which imports it
    else:
        folder = request.getfixturevalue(kind) if kind == "endless" else checkpoint(kind)
        done("import", folder, "--out", tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    page = Path("README.md").read_text()
    commands = [shlex.split(line)[1:] for line in page.split("```")[1].splitlines() if line.startswith("tfcli ")]
    assert [words[0] for words in commands] == ["generate"] * (kind != "headless") + ["inspect", "train"]
    for words in commands:
        done(*words, *(["--dry-run"] if words[0] == "train" else []))


@pytest.mark.parametrize("family", FAMILIES)
def test_everything_works_on_an_imported_run(
    family: str, checkpoint: Checkpoints, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    record = json.loads(done("import", checkpoint(family), "--out", "run", "--json"))
    assert record["layout"] == family
    assert record["vocab_size"] == record["tokens"] + 3
    source, pairs = source_of(Path("run"), corpus), record["architecture"] == "encoder-decoder"

    evaluated = json.loads(done("evaluate", "run", source, "--json"))
    assert evaluated["loss"] > 0
    seen = json.loads(done("inspect", "attention", "run", TEXT, "--json"))
    assert {one["kind"] for one in seen["records"]} >= ({"cross"} if pairs else set())
    # Rotary and sinusoidal positions can be drawn, learned ones and those of T5 shown.
    done("inspect", "positions", "run", "--length", "6", "--json")
    done("train", "--init", "run", "--data", source, "--out", "further", *SHORT)
    assert ("One [MASK] day" in Path("further/README.md").read_text()) == ("bert" in family)
    done("export", "further", "--out", "hf", "--format", "hf")
    assert done("export", "run", "--out", "back").startswith("back · from run")
    shift = 1.0 if family == "gemma" else 0.0  # What its norms multiply by is equal, and not what is left of that.
    theirs = load_file(checkpoint(family) / "model.safetensors")
    for name, tensor in load_file("back/model.safetensors").items():
        assert torch.equal(tensor + shift, theirs.get(name, tensor) + shift), name


@pytest.mark.parametrize("family", [family for family in FAMILIES if "bert" not in family])
def test_greedy_ids_are_those_of_transformers(family: str, checkpoint: Checkpoints, tmp_path: Path):
    """On the very checkpoint, not an export of it; both may choose from the same tokens."""
    folder, run = checkpoint(family), tmp_path / "run"
    done("import", folder, "--out", run)
    loaded = load_run(run)
    roles, ids = loaded.config.roles, loaded.tokenizer.encode(TEXT)
    assert loaded.config.model.vocab_size is not None
    hidden = never_generated(roles, loaded.config.model.vocab_size)
    start: dict[str, Any] = {}
    if family == "bart":
        # </s> <s>, as BART was trained, around a source <s> … </s>: the ids of its vocabulary.
        ids, prefix, start = [0, *ids, 2], [2, 0], {"forced_bos_token_id": 0, "bad_words_ids": [[0]]}
        hidden.remove(0)
    elif family in ("t5", "marian"):
        ids, prefix = [*ids, roles.eos], [roles.pad]
        assert roles.pad == (0 if family == "t5" else loaded.tokenizer.vocab_size - 1)
    else:
        ids, prefix = [*roles.text_prefix, *ids], []
    wanted = their_ids(folder, ids, 12 + len(prefix[1:]), suppress_tokens=hidden, **start)
    assert prefix + ours(run, TEXT, 12) == wanted


@pytest.mark.parametrize("family", ["bert", "eurobert"])
def test_masks_are_filled_as_by_transformers(family: str, checkpoint: Checkpoints, tmp_path: Path):
    done("import", checkpoint(family), "--out", tmp_path / "run")
    loaded = load_run(tmp_path / "run")
    before, after = loaded.tokenizer.encode("the cat"), loaded.tokenizer.encode("on the mat")
    ids, size = [2, *before, 4, *after, 3], loaded.tokenizer.vocab_size
    wanted = their_best(checkpoint(family), ids, 1 + len(before), [0, 1, 2, 3, 4, size, size + 1, size + 2])
    answer = json.loads(done("generate", tmp_path / "run", "the cat [MASK] on the mat", "--json"))
    assert [one["probability"] for one in answer["predictions"][0]] == pytest.approx(wanted, abs=1e-5)


def test_the_published_stories_model(tmp_path: Path):
    if not STORIES.is_dir():
        pytest.skip(f"there is no folder {STORIES}: this test needs the weights that lie beside the repository")
    expected = json.loads((STORIES / "expected.json").read_text())
    shown = done("import", STORIES, "--out", tmp_path / "run")
    assert "llama" in shown and "512" in shown
    prompt, wanted = expected["prompt"], expected["greedy_ids"][len(expected["prompt_ids"]) :]
    greedily = ["--temperature", "0", "--max-new-tokens", str(len(wanted)), "--json"]
    answer = json.loads(done("generate", tmp_path / "run", prompt, *greedily))
    assert answer["token_ids"] == wanted
    assert prompt + answer["text"] == expected["greedy_text"]
    with torch.no_grad():
        logits = load_run(tmp_path / "run").model(torch.tensor([expected["prompt_ids"]]))[0, -1]
    best = logits.topk(5)
    assert best.indices.tolist() == [token for token, _ in expected["last_position_top5"]]
    assert best.values.tolist() == pytest.approx([value for _, value in expected["last_position_top5"]], abs=1e-4)


def test_what_is_shown(checkpoint: Checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    folder = changed(checkpoint("llama"), tmp_path / "mine", tensors={"score.weight": torch.ones(2, 16)})
    result = tfcli("import", folder.name)
    assert "runs/mine-1 · from mine" in result.stdout
    assert "score.weight" in result.stdout
    assert "3 rows of the embedding have no token" in result.stdout
    assert result.stderr == "Next: tfcli generate runs/mine-1 TEXT\n"
    assert {path.name for path in Path("runs/mine-1").iterdir()} == {
        *("README.md", "config.json", "model.safetensors", "recipe.toml", "tokenizer.json")
    }
    assert "imported from | mine" in Path("runs/mine-1/README.md").read_text()
    assert Path("runs").is_dir() and tfcli("import", "mine").exit_code == 0
    assert Path("runs/mine-2").is_dir()


def test_another_tokenizer(checkpoint: Checkpoints, tmp_path: Path):
    """The ids of BERT's fit into Llama's embedding; ids that it does not know are never chosen."""
    file = checkpoint("bert") / "tokenizer.json"
    record = json.loads(done("import", checkpoint("llama"), "--out", tmp_path / "run", "--tokenizer", file, "--json"))
    assert (record["tokens"], record["vocab_size"]) == (55, 269)
    assert max(ours(tmp_path / "run", TEXT, 20)) < 55
    sentence = refused(
        2, "import", checkpoint("bert"), "--out", tmp_path / "no", "--tokenizer", checkpoint("llama") / "tokenizer.json"
    )
    assert "has a tokenizer of 266 ids, and the embedding of" in sentence and "58 rows" in sentence
    assert not (tmp_path / "no").exists()


def test_an_encoder_without_a_head(headless: Path, corpus: Path, tmp_path: Path):
    transformers = pytest.importorskip("transformers", reason="the dev extra brings transformers")
    assert "head" in refused(2, "generate", headless, "the [MASK] sat")
    assert "head" in refused(2, "evaluate", headless, corpus / "text.txt", "--quiet")
    done("inspect", "attention", headless, TEXT, "--json")
    record = json.loads(done("export", headless, "--out", tmp_path / "hf", "--json"))
    assert record["auto_class"] == "AutoModel"
    theirs, info = transformers.AutoModel.from_pretrained(
        tmp_path / "hf", output_loading_info=True, add_pooling_layer=False
    )
    assert not any(info.values())
    run, ids = load_run(headless), torch.tensor([[2, 9, 8, 7, 3]])
    with torch.no_grad():
        torch.testing.assert_close(run.model.hidden(ids), theirs.eval()(ids).last_hidden_state, rtol=1e-5, atol=1e-5)
    done("import", tmp_path / "hf", "--out", tmp_path / "again")
    done("export", tmp_path / "again", "--out", tmp_path / "hf2")
    assert (tmp_path / "hf/model.safetensors").read_bytes() == (tmp_path / "hf2/model.safetensors").read_bytes()


def test_a_headless_run_gets_a_new_head_in_training(headless: Path, corpus: Path, tmp_path: Path):
    out = tmp_path / "further"
    begin = ["train", "--init", headless, "--data", corpus / "text.txt", "--out", out, *SHORT]
    assert "model.head" in refused(2, *begin, "--quiet")
    assert not out.exists()
    done(*begin, "--set", "model.head=transform")
    answer = json.loads(done("generate", out, "the [MASK] sat", "--json"))
    assert len(answer["predictions"][0]) == 5


def test_an_imported_run_has_no_stages_to_repeat(checkpoint: Checkpoints, tmp_path: Path):
    run = tmp_path / "run"
    done("import", checkpoint("llama"), "--out", run)
    before = snapshot(tmp_path)
    for command in (
        ["evaluate", run],
        ["train", "--resume", run],
        ["run", run / "recipe.toml", "--out", tmp_path / "again"],
    ):
        assert "import" in refused(2, *command)
    assert snapshot(tmp_path) == before


def test_verify_passes_what_a_checkpoint_is_like(headless: Path):
    """A class of transformers without a language-model head has a pooler, and draws one where the run has none."""
    answer = json.loads(done("verify", headless, "--json"))
    noted = {check["name"]: check["reason"] for check in answer["checks"] if check["status"] == "noted"}
    assert answer["passed"] and list(noted) == ["exported = original"]
    assert "pooler.dense.weight" in noted["exported = original"]
    assert "pooler.dense.weight" in done("export", headless, "--out", headless.parent / "out")
