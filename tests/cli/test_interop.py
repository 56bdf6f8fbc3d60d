"""``tfcli import`` and ``tfcli export``, as a user types them."""

import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.cli.commands import snapshot, tfcli
from tests.support.checkpoints import FAMILIES, edit_json, save_checkpoint
from tests.support.runs import preset_recipe, train_tiny
from tfcli.generation.sampling import never_generated
from tfcli.interop import importing
from tfcli.runs.load import load_run

STORIES = Path(__file__).parents[3] / "shared/weights/stories260K"
AUTO = {
    "decoder": "AutoModelForCausalLM",
    "encoder": "AutoModelForMaskedLM",
    "encoder-decoder": "AutoModelForSeq2SeqLM",
}
SHORT = ["--set", "train.steps=2", "--set", "train.batch_size=2", "--threads", "1"]
TEXT = "the cat sat on the mat"

Checkpoints = Callable[[str], Path]


def done(*arguments: str | Path) -> str:
    """The stdout of a command that succeeds."""
    result = tfcli(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def refused(exit_code: int, *arguments: str | Path) -> str:
    """The one sentence with which a command is refused."""
    result = tfcli(*arguments)
    assert result.exit_code == exit_code, (result.exit_code, result.stderr)
    assert result.stdout == ""
    assert result.stderr.startswith("tfcli: ") and result.stderr.endswith(".\n")
    sentence = result.stderr[:-1]
    assert sentence.isprintable() and "tfcli has a fault" not in sentence, sentence
    return sentence


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoints:
    """A checkpoint of a family, made at the first call. Copy it to change it."""
    folder = tmp_path_factory.mktemp("checkpoints")

    def made(family: str) -> Path:
        path = folder / family
        return path if path.exists() else save_checkpoint(path, family)

    return made


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 of letters, whose vocabulary has no special token."""
    import transformers
    from tokenizers import Tokenizer, decoders, models

    folder = tmp_path_factory.mktemp("endless") / "letters"
    letters = {letter: number for number, letter in enumerate("abcdefghijklmnopqrstuvwxyz .O")}
    backend = Tokenizer(models.BPE(letters, []))
    backend.decoder = decoders.Fuse()
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 40, "vocab_size": len(letters)}
    torch.manual_seed(0)
    config = transformers.GPT2Config(**sizes, bos_token_id=None, eos_token_id=None, initializer_range=0.5)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    backend.save(str(folder / "tokenizer.json"))
    return folder


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


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts, and pairs of them."""
    folder = tmp_path_factory.mktemp("corpus")
    lines = [f"the cat sat on the mat {n}" for n in range(40)]
    (folder / "text.txt").write_text("\n".join(lines) * 4)
    (folder / "pairs.tsv").write_text("\n".join(["a\tb", *(f"{line}\t{line}" for line in lines)]) + "\n")
    return folder


def source_of(run: Path, corpus: Path) -> Path:
    return corpus / ("pairs.tsv" if load_run(run).architecture == "encoder-decoder" else "text.txt")


def their_ids(folder: Path, ids: list[int], new: int, **settings: Any) -> list[int]:
    """What `transformers` makes of some ids, greedily."""
    import transformers

    architecture = (
        "encoder-decoder" if json.loads((folder / "config.json").read_text()).get("is_encoder_decoder") else "decoder"
    )
    model = getattr(transformers, AUTO[architecture]).from_pretrained(folder).eval()
    out = model.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=new, **settings)[0].tolist()
    return out[len(ids) :] if architecture == "decoder" else out


def their_loss(folder: Path, texts: list[list[int]]) -> float:
    """What `transformers` makes of texts, a document at a time, the first token of each unscored."""
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        nats = [model(torch.tensor([ids]), labels=torch.tensor([ids])).loss * (len(ids) - 1) for ids in texts]
    return float(sum(nats)) / sum(len(ids) - 1 for ids in texts)


def their_best(folder: Path, ids: list[int], place: int, hidden: list[int]) -> list[float]:
    """The five best probabilities at a place, special tokens left out."""
    import transformers

    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    with torch.no_grad():
        probabilities = model(torch.tensor([ids])).logits[0, place].softmax(-1)
    probabilities[hidden] = 0
    return probabilities.topk(5).values.tolist()


def ours(run: Path, text: str, new: int) -> list[int]:
    answer = done("generate", run, text, "--temperature", "0", "--max-new-tokens", str(new), "--json")
    return json.loads(answer)["token_ids"]


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


@pytest.mark.parametrize("preset", ["gpt2", "llama", "bart", "marian", "t5", "bert", None])
def test_an_exported_run_generates_the_same_under_transformers(
    preset: str | None, trained: Callable[[str], Path], tmp_path: Path
):
    """Tokenizer, framing and the settings of generation come from the folder alone."""
    transformers = pytest.importorskip("transformers", reason="the dev extra brings transformers")
    run, folder = tmp_path / "run", tmp_path / "hf"
    if preset is None:
        run = trained("decoder")
    else:
        train_tiny(preset_recipe(preset), run)
    record = json.loads(done("export", run, "--out", folder, "--json"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    text = "Tom swam <mask> the river" if preset == "bert" else "Tom swam"
    ids = tokenizer(text)["input_ids"]
    if preset == "bert":
        wanted = their_best(folder, ids, ids.index(tokenizer.mask_token_id), tokenizer.all_special_ids)
        answer = json.loads(done("generate", run, text, "--json"))
        assert [one["probability"] for one in answer["predictions"][0]] == pytest.approx(wanted, abs=1e-5)
        return
    assert record["auto_class"] == AUTO[load_run(run).architecture]
    found = ours(run, text, 10)
    roles = load_run(run).config.roles
    start = list(roles.target_prefix) if preset in ("bart", "marian", "t5") else []
    assert their_ids(folder, ids, 10) == start + found


def test_a_forced_first_token_survives_export(checkpoint: Checkpoints, tmp_path: Path):
    """BART's targets begin with </s> <s>; <s> is ruled out nowhere, as in the checkpoint."""
    done("import", checkpoint("bart"), "--out", tmp_path / "run")
    done("export", tmp_path / "run", "--out", tmp_path / "hf")
    generation = json.loads((tmp_path / "hf/generation_config.json").read_text())
    assert generation["forced_bos_token_id"] == 0
    assert not {"bad_words_ids", "suppress_tokens"} & generation.keys()
    loaded = load_run(tmp_path / "run")
    assert loaded.config.model.vocab_size is not None
    hidden = [token for token in never_generated(loaded.config.roles, loaded.config.model.vocab_size) if token]
    ids, ruled_out = [0, *loaded.tokenizer.encode(TEXT), 2], {"suppress_tokens": hidden, "bad_words_ids": [[0]]}
    assert their_ids(tmp_path / "hf", ids, 11, **ruled_out) == [2, 0, *ours(tmp_path / "run", TEXT, 10)]


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


@pytest.fixture
def headless(checkpoint: Checkpoints, tmp_path: Path) -> Path:
    """A run of BERT as the base class saves it: without a head, names without their prefix."""
    folder = tmp_path / "headless"
    shutil.copytree(checkpoint("bert"), folder)
    tensors = load_file(folder / "model.safetensors")
    prefix = "bert."
    save_file(
        {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)},
        folder / "model.safetensors",
    )
    result = tfcli("import", folder, "--out", tmp_path / "run")
    assert result.exit_code == 0 and "inspect attention" in result.stderr and "none" in result.stdout
    return tmp_path / "run"


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


def changed(
    folder: Path, to: Path, config: Mapping[str, Any] | None = None, tensors: Mapping[str, Tensor | None] | None = None
) -> Path:
    """A copy of a checkpoint with other settings and tensors; None removes one."""
    shutil.copytree(folder, to)
    edit_json(to / "config.json", **(config or {}))
    if tensors:
        kept = {
            name: tensor
            for name, tensor in (load_file(to / "model.safetensors") | tensors).items()
            if tensor is not None
        }
        save_file(kept, to / "model.safetensors")
    return to


def refused_import(exit_code: int, folder: Path, *parts: str) -> str:
    """Refuse a checkpoint, name what the parts say, and leave nothing behind."""
    before = sorted(folder.parent.rglob("*"))
    sentence = refused(exit_code, "import", folder, "--out", folder.parent / "runs" / "run")
    assert sorted(folder.parent.rglob("*")) == before
    for part in parts:
        assert part in sentence, sentence
    return sentence


UP = "model.layers.1.mlp.up_proj.weight"
NORM = "model.norm.weight"
BAD_TENSORS: dict[str, tuple[Mapping[str, Tensor | None], str]] = {
    "missing": ({UP: None}, f"lacks the tensor '{UP}'"),
    "extra": ({"model.layers.0.mlp.more": torch.ones(2)}, "has a tensor 'model.layers.0.mlp.more' that a llama model"),
    "a layer more": ({"model.layers.2.mlp.up_proj.weight": torch.ones(24, 16)}, "'model.layers.2.mlp.up_proj.weight'"),
    "wrongly shaped": ({NORM: torch.ones(17)}, f"tensor '{NORM}' has the shape (17,), not (16,)"),
    "transposed": ({UP: torch.ones(16, 24)}, f"tensor '{UP}' has the shape (16, 24), not (24, 16)"),
    "scalar": ({NORM: torch.tensor(1.0)}, f"tensor '{NORM}' has the shape (), not (16,)"),
    "empty": ({NORM: torch.ones(0)}, f"tensor '{NORM}' has the shape (0,), not (16,)"),
    "whole numbers": ({NORM: torch.ones(16, dtype=torch.int64)}, f"tensor '{NORM}' is of the type torch.int64"),
    "NaN": ({NORM: torch.full((16,), float("nan"))}, f"tensor '{NORM}' holds a value that is not finite"),
    "infinite": ({UP: torch.full((24, 16), float("-inf"))}, f"tensor '{UP}' holds a value that is not finite"),
    "control characters": ({"model.\x1b[2J\n\u202eb": torch.ones(1)}, r"has a tensor 'model.\x1b[2J\n\u202eb'"),
    "a very long name": ({"model." + "x" * 9999: torch.ones(1)}, f"has a tensor 'model.{'x' * 73}…"),
}


@pytest.mark.parametrize("name", BAD_TENSORS)
def test_tensors_that_do_not_make_the_model(name: str, checkpoint: Checkpoints, tmp_path: Path):
    tensors, part = BAD_TENSORS[name]
    folder = changed(checkpoint("llama"), tmp_path / "mine", tensors=tensors)
    refused_import(1, folder, str(folder / "model.safetensors"), part)


def test_two_tensors_of_one_name(checkpoint: Checkpoints, tmp_path: Path):
    """Old files say gamma where today's say weight; neither may silently win."""
    name = "bert.encoder.layer.0.output.LayerNorm.gamma"
    refused_import(1, changed(checkpoint("bert"), tmp_path / "mine", tensors={name: torch.ones(16)}), f"'{name}'")


HUGE = 10**6
BAD_CONFIGS: dict[str, tuple[str, Mapping[str, Any], int, str]] = {
    "fewer layers than tensors": ("llama", {"num_hidden_layers": 1}, 1, "'model.layers.1.input_layernorm.weight'"),
    "another width": ("llama", {"intermediate_size": 25}, 1, "has the shape (24, 16), not (25, 16)"),
    "another head size": ("llama", {"head_dim": 2}, 1, "'model.layers.0.self_attn.q_proj.weight' has the shape"),
    "tied, with two matrices": ("llama", {"tie_word_embeddings": True}, 1, "'lm_head.weight' is not 'model.embed"),
    "not tied, with one matrix": ("bert", {"tie_word_embeddings": False}, 1, "lacks the tensor 'cls.predictions.dec"),
    "a million layers": ("llama", {"num_hidden_layers": HUGE}, 2, "model.num_layers = 1000000 is out of range"),
    "too many layers": ("llama", {"num_hidden_layers": 4000}, 1, "holds 21 tensors, too few for the 4000 layers"),
    "too many decoder layers": ("t5", {"num_decoder_layers": 4000}, 1, "too few for the 4000 layers"),
    "a vocabulary without end": ("llama", {"vocab_size": 10**30}, 2, "has vocab_size = 1000000000"),
    "a large vocabulary": ("llama", {"vocab_size": HUGE}, 1, "has the shape (269, 16), not (1000000, 16)"),
    "positions without end": ("marian", {"max_position_embeddings": 10**12}, 2, "max_position_embeddings = 1000000"),
    "unknown family": ("llama", {"model_type": "mpt"}, 2, "is of model_type 'mpt', which tfcli does not read"),
    "a list of families": ("llama", {"model_type": ["llama"]}, 2, "is of model_type ['llama']"),
    "no family": ("llama", {"model_type": None}, 2, "says no model_type; choose one of gpt2"),
    "unknown setting": ("llama", {"a\x1bb": 1}, 2, r"has a\x1bb = 1, and tfcli does not know this setting"),
    "a long value": ("llama", {"new": list(range(99999))}, 2, "has new = [0, 1, 2"),
    "scaling of another kind": (
        "llama",
        {"rope_parameters": {"rope_type": "longrope"}},
        2,
        "has rope_type = 'longrope'",
    ),
    "nested nonsense": ("llama", {"rope_parameters": {"a": [{"b": None}]}}, 2, "has a = [{'b': None}]"),
    "quantized": ("llama", {"quantization_config": {"bits": 4}}, 2, "has quantization_config = {'bits': 4}"),
    "gpt2 that scales by layer": (
        "gpt2",
        {"scale_attn_by_inverse_layer_idx": True},
        2,
        "scale_attn_by_inverse_layer_idx",
    ),
    "relative BERT": (
        "bert",
        {"position_embedding_type": "relative_key"},
        2,
        "position_embedding_type = 'relative_key'",
    ),
    "dropout of all": ("gpt2", {"resid_pdrop": 1.0}, 2, "model.dropout = 1.0 is out of range"),
    "eps 0": ("llama", {"rms_norm_eps": 0}, 2, "model.norm_eps = 0.0 is out of range"),
    "eps beyond all numbers": ("llama", {"rms_norm_eps": 10**400}, 2, "a number of 0 or more is needed"),
    "one position": ("llama", {"max_position_embeddings": 1}, 2, "model.max_seq_len = 1 is out of range"),
    "odd heads": ("llama", {"head_dim": 3}, 2, "the head size 3 is odd"),
    "groups that do not divide": ("llama", {"num_key_value_heads": 3}, 2, "not divisible by model.num_kv_heads = 3"),
    "a size in words": ("llama", {"hidden_size": "16"}, 2, "has hidden_size = '16', and a whole number"),
    "no size": ("llama", {"hidden_size": None}, 2, "does not say 'hidden_size'"),
    "a token in words": ("llama", {"eos_token_id": "x"}, 1, "has eos_token_id = 'x', and the id of a token is needed"),
}


@pytest.mark.parametrize("name", BAD_CONFIGS)
def test_a_config_that_makes_no_such_model(name: str, checkpoint: Checkpoints, tmp_path: Path):
    family, values, exit_code, part = BAD_CONFIGS[name]
    folder = changed(checkpoint(family), tmp_path / "mine", config=values)
    file = "model.safetensors" if exit_code == 1 and "token_id" not in part else "config.json"
    sentence = refused_import(exit_code, folder, str(folder / file), part)
    assert len(sentence) < 800


def test_a_config_with_a_setting_said_twice_means_the_last(checkpoint: Checkpoints, tmp_path: Path):
    """As everyone reads JSON."""
    folder = changed(checkpoint("llama"), tmp_path / "mine")
    text = (folder / "config.json").read_text().rstrip("}")
    (folder / "config.json").write_text(text + ', "hidden_size": 17, "hidden_size": 16}')
    done("import", folder, "--out", tmp_path / "run")
    (folder / "config.json").write_text(text + ', "hidden_size": 20}')
    refused_import(1, folder, "has the shape (269, 16), not (269, 20)")


class Code:
    """Unpickled, it would make a file."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("made-by-the-pickle",)


def test_a_pickle_with_code(checkpoint: Checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = changed(checkpoint("llama"), tmp_path / "mine")
    (folder / "model.safetensors").unlink()
    torch.save({"a": Code()}, folder / "pytorch_model.bin")
    monkeypatch.chdir(tmp_path)
    refused_import(
        1, folder, "pytorch_model.bin is damaged, or a pickle that holds more than tensors and could run code"
    )


@pytest.mark.parametrize(
    ("entry", "part"),
    [
        ("../model-1.safetensors", "names '../model-1.safetensors', which is no .safetensors file of its folder"),
        ("link.safetensors", "names 'link.safetensors', a link that leaves its folder"),
        ("loop.safetensors", "names 'loop.safetensors', and there is no such file beside it"),
        ("m" * 5000 + ".safetensors", "names 'mmm"),
        (5, "in 5, and the name of a file is needed"),
    ],
)
def test_an_index_that_leads_elsewhere(entry: Any, part: str, checkpoint: Checkpoints, tmp_path: Path):
    folder = changed(checkpoint("llama"), tmp_path / "mine")
    (folder / "model.safetensors").rename(tmp_path / "model-1.safetensors")
    (folder / "link.safetensors").symlink_to(tmp_path / "model-1.safetensors")
    (folder / "loop.safetensors").symlink_to("loop.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"model.norm.weight": entry}}))
    assert len(refused_import(1, folder, str(index), part)) < 600


def test_tokenizers_that_do_not_fit(checkpoint: Checkpoints, tmp_path: Path):
    rows = {name: torch.ones(100, 16) for name in ("model.embed_tokens.weight", "lm_head.weight")}
    folder = changed(checkpoint("llama"), tmp_path / "a/mine", {"vocab_size": 100}, rows)
    refused_import(2, folder, "has a tokenizer of 266 ids, and the embedding of", "has 100 rows", "--tokenizer FILE")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (folder / file).unlink()
    refused_import(2, folder, f"{folder} holds no tokenizer", "--tokenizer FILE")
    (folder / "tokenizer.model").write_bytes(b"\n\x0e")
    refused_import(1, folder, f"{folder / 'tokenizer.model'} is no SentencePiece model")
    state = json.loads((checkpoint("bert") / "tokenizer.json").read_text())
    replacement = {"type": "Replace", "pattern": {"String": "e"}, "content": "ee"}
    state["normalizer"] = {"type": "Sequence", "normalizers": [replacement] * 40}
    (folder / "tokenizer.json").write_text(json.dumps(state))
    refused_import(1, folder, f"{folder / 'tokenizer.json'} is no tokenizer that can be read", "characters of 2,0")
    (folder / "tokenizer.json").write_text("{")
    refused_import(1, folder, f"{folder / 'tokenizer.json'} is not valid JSON")
    (folder / "tokenizer.json").unlink()
    missing = refused(2, "import", folder, "--out", tmp_path / "run", "--tokenizer", tmp_path / "none.json")
    assert "none.json" in missing


def test_sources_that_are_no_checkpoint(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    refused_import(2, tmp_path / "nowhere", "There is no folder")
    refused_import(2, tmp_path / "empty", "is no checkpoint, it has no config.json")
    refused_import(2, tmp_path / "file", "is a file, not a folder")
    refused_import(2, tmp_path / "a\x1b[2J\nb", "There is no folder", r"a\x1b[2J⏎b")
    (tmp_path / "loop").symlink_to("loop")
    refused_import(2, tmp_path / "loop", "There is no folder")
    os.mkfifo(tmp_path / "empty/config.json")
    refused_import(2, tmp_path / "empty", "config.json is no file that can be read")
    for name in ("hf:", "hf:one", "hf:a/b/c", "hf:a/b@", "hf:../b", "hf:a/b@../c"):
        assert "is no model name" in refused(2, "import", name, "--out", tmp_path / "run")


@pytest.mark.parametrize("content", [b"", b"{", (1 << 62).to_bytes(8, "little") + b"{}", "folder", "pipe"])
def test_weights_that_are_no_tensors(content: Any, checkpoint: Checkpoints, tmp_path: Path):
    folder = changed(checkpoint("llama"), tmp_path / "mine")
    file = folder / "model.safetensors"
    file.unlink()
    if content == "folder":
        file.mkdir()
    elif content == "pipe":
        os.mkfifo(file)
    else:
        file.write_bytes(content)
    refused_import(1 if isinstance(content, bytes) else 2, folder, str(file))


@pytest.mark.parametrize("command", ["import", "export"])
def test_an_output_that_is_taken_or_cannot_be(
    command: str, checkpoint: Checkpoints, trained: Callable[[str], Path], tmp_path: Path
):
    source = checkpoint("llama") if command == "import" else trained("decoder")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/mine").touch()
    shutil.copytree(trained("decoder"), tmp_path / "run")
    before = snapshot(tmp_path)
    for taken in ("file", "folder", "run"):
        assert "choose another --out" in refused(2, command, source, "--out", tmp_path / taken)
    assert "is a file, not a folder" in refused(2, command, source, "--out", tmp_path / "file/inside")
    if os.geteuid():  # the administrator may write anywhere
        (tmp_path / "folder").chmod(0o500)
        assert "is not writable" in refused(2, command, source, "--out", tmp_path / "folder/inside")
        (tmp_path / "folder").chmod(0o700)
    assert snapshot(tmp_path) == before


def test_a_full_disk_leaves_nothing(checkpoint: Checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(importing, "save_tensors", full)
    assert "No space left on device; free the disk" in refused(
        1, "import", checkpoint("llama"), "--out", tmp_path / "run"
    )
    assert list(tmp_path.iterdir()) == []


def test_export_names_the_field_in_the_way(trained: Callable[[str], Path], tmp_path: Path):
    sentence = refused(2, "export", trained("encoder-decoder"), "--out", tmp_path / "hf")
    assert "model.norm = 'rmsnorm' is not in bart, marian" in sentence
    assert "model.positions = 'sinusoidal' is not in t5" in sentence
    assert list(tmp_path.iterdir()) == []
    assert "no run" in refused(2, "export", tmp_path / "nothing", "--out", tmp_path / "hf")


def test_verify_passes_what_a_checkpoint_is_like(headless: Path):
    """A class of transformers without a language-model head has a pooler, and draws one where the run has none."""
    answer = json.loads(done("verify", headless, "--json"))
    noted = {check["name"]: check["reason"] for check in answer["checks"] if check["status"] == "noted"}
    assert answer["passed"] and list(noted) == ["exported = original"]
    assert "pooler.dense.weight" in noted["exported = original"]
    assert "pooler.dense.weight" in done("export", headless, "--out", headless.parent / "out")
