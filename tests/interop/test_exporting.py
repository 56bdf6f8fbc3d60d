"""Runs under `transformers`: the same ids, the same probabilities, and nothing lost on the way back."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cli.commands import tfcli
from tests.support.checkpoints import edit_json, save_checkpoint
from tests.support.runs import Settings, preset_recipe, same, tiny_recipe, train_tiny, weights
from tfcli.errors import TfcliError, UsageError
from tfcli.generation.sampling import never_generated
from tfcli.interop import exporting
from tfcli.interop.exporting import export_run
from tfcli.interop.importing import import_run
from tfcli.models.presets import usual_preset
from tfcli.recipe.recipe import Recipe
from tfcli.runs.load import LoadedRun, load_run
from tfcli.runs.weights import model_tensors

transformers = pytest.importorskip("transformers", reason="the dev extra brings transformers")

SHORT: Settings = {
    "data": {"max_documents": 60},
    "train": {"steps": 4, "evaluate_every": 4, "save_every": 4, "warmup_steps": 1},
}
PLAIN = {"query_key_norm": False, "scale_embeddings": False}
TEXT = "The cat, swam  é\n 2"
ENCODER_DECODER = {"model": {"architecture": "encoder-decoder"}}
ENCODER = {"positions": "rotary", "norm": "rmsnorm", "norm_placement": "pre", "query_key_norm": False}


def tokens(algorithm: str) -> Settings:
    return {"tokenizer": {"algorithm": algorithm, "vocab_size": 300}}


RECIPES: dict[str, tuple[Callable[[], Recipe], str]] = {
    "gpt2": (lambda: preset_recipe("gpt2", SHORT, tokens("bpe")), "gpt2"),
    "llama": (lambda: preset_recipe("llama", SHORT, tokens("unigram")), "llama"),
    "bert": (lambda: preset_recipe("bert", SHORT, tokens("wordpiece")), "bert"),
    "bart": (lambda: preset_recipe("bart", SHORT, tokens("bpe")), "bart"),
    "marian": (lambda: preset_recipe("marian", SHORT, tokens("unigram")), "marian"),
    "t5": (lambda: preset_recipe("t5", SHORT, tokens("word")), "t5"),
    # What `tfcli train --arch encoder-decoder` is: its scales are multiplied into matrices.
    "default encoder-decoder": (
        lambda: tiny_recipe("encoder-decoder", usual_preset(ENCODER_DECODER), SHORT, tokens("bpe")),
        "t5",
    ),
    # Sines and cosines by turns: Marian has all sines first.
    "vaswani2017": (lambda: preset_recipe("vaswani2017", SHORT, tokens("bpe")), "marian"),
    # Embeddings are scaled: Granite says so, the others get the factor multiplied into the matrix.
    "modern decoder": (lambda: tiny_recipe("decoder", SHORT), "granite"),
    "decoder with query-key norm": (
        lambda: tiny_recipe("decoder", SHORT, {"model": {"query_key_norm": True}}),
        "qwen3",
    ),
    "modern encoder": (lambda: tiny_recipe("encoder", SHORT, {"model": ENCODER}, tokens("bpe")), "eurobert"),
    "scaled learned decoder": (
        lambda: tiny_recipe(
            "decoder",
            SHORT,
            {"model": {"query_key_norm": False, "positions": "learned", "norm": "layernorm", "activation": "relu"}},
        ),
        "gpt2",
    ),
    # A GPT-2 with its table of positions written out; norms behind the sublayers make it the first GPT.
    "bishop-pre": (lambda: preset_recipe("bishop-pre", SHORT, tokens("bpe")), "gpt2"),
    "udl": (lambda: preset_recipe("udl", SHORT, tokens("bpe")), "openai-gpt"),
    "decoder without positions": (
        lambda: tiny_recipe(
            "decoder", SHORT, {"model": {**PLAIN, "positions": "none", "norm": "layernorm", "activation": "gelu"}}
        ),
        "gpt2",
    ),
    "T5's positions, scaled scores": (
        lambda: preset_recipe("t5", SHORT, {"model": {"attention_score": "scaled_dot"}}, tokens("word")),
        "t5",
    ),
    "scaled BERT": (lambda: preset_recipe("bert", SHORT, {"model": {"scale_embeddings": True}}), "bert"),
    # Of Qwen2's variant, but `AutoTokenizer` puts Qwen2's own rules in the place of the folder's.
    "biases of queries, keys and values": (
        lambda: tiny_recipe(
            "decoder",
            SHORT,
            {"model": {**PLAIN, "attention_bias": True, "attention_output_bias": False}},
            tokens("bpe"),
        ),
        "llama",
    ),
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[LoadedRun, Path]]:
    """A trained run and the folder it was exported to, made at the first call."""
    folder = tmp_path_factory.mktemp("exported")

    def both(name: str) -> tuple[LoadedRun, Path]:
        run, out = folder / name / "run", folder / name / "hf"
        if not out.exists():
            train_tiny(RECIPES[name][0](), run)
            assert export_run(load_run(run), out).layout == RECIPES[name][1]
        return load_run(run), out

    return both


def framed(run: LoadedRun, text: str) -> list[int]:
    """A text as the run reads it, said in one's own words."""
    roles, ids = run.config.roles, run.tokenizer.encode(text)
    return {
        "decoder": [roles.bos, *ids],
        "encoder": [roles.bos, *ids, roles.eos],
        "encoder-decoder": [*ids, roles.eos],
    }[run.architecture]


def theirs(run: LoadedRun, folder: Path) -> tuple[Any, Any]:
    """Model and tokenizer as the automatic classes load them; no tensor may be missing or left over."""
    record_class = {"decoder": "CausalLM", "encoder": "MaskedLM", "encoder-decoder": "Seq2SeqLM"}[run.architecture]
    auto = getattr(transformers, f"AutoModelFor{record_class}")
    model, info = auto.from_pretrained(folder, output_loading_info=True)
    assert not any(info.values()), info
    return model.eval(), transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("name", RECIPES)
def test_transformers_computes_what_tfcli_does(name: str, exported: Callable[[str], tuple[LoadedRun, Path]]):
    run, folder = exported(name)
    model, tokenizer = theirs(run, folder)
    ids = framed(run, TEXT)
    assert tokenizer(TEXT)["input_ids"] == ids
    batch = torch.tensor([ids])
    with torch.no_grad():
        if run.architecture == "encoder-decoder":
            ours, other = run.model(batch, batch), model(input_ids=batch, decoder_input_ids=batch).logits
        else:
            ours, other = run.model(batch), model(batch).logits
    torch.testing.assert_close(ours, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", RECIPES)
def test_export_import_export_is_the_identity(
    name: str, exported: Callable[[str], tuple[LoadedRun, Path]], tmp_path: Path
):
    _, folder = exported(name)
    import_run(str(folder), tmp_path / "run")
    export_run(load_run(tmp_path / "run"), tmp_path / "again")
    assert same(weights(folder / "model.safetensors"), weights(tmp_path / "again/model.safetensors"))
    files = {file.name for file in folder.iterdir()}
    assert files == {file.name for file in (tmp_path / "again").iterdir()}
    for file in files - {"model.safetensors"}:
        assert (folder / file).read_text() == (tmp_path / "again" / file).read_text(), file


def test_the_exported_files_say_what_they_are(exported: Callable[[str], tuple[LoadedRun, Path]]):
    run, folder = exported("marian")
    settings = json.loads((folder / "config.json").read_text())
    assert (settings["model_type"], settings["architectures"]) == ("marian", ["MarianMTModel"])
    generation = json.loads((folder / "generation_config.json").read_text())
    roles = run.config.roles
    assert generation["decoder_start_token_id"] == roles.bos
    assert set(generation["suppress_tokens"]) == {roles.pad, roles.bos, roles.unk, roles.mask} - {None}
    names = json.loads((folder / "special_tokens_map.json").read_text())
    assert names["eos_token"] == "</s>"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--arch", "encoder-decoder"], "T5 (transformers, CTranslate2)"),
        (["--arch", "decoder"], "Granite (transformers)"),
        (["--recipe", "pt-en"], "nothing: model.norm = 'rmsnorm' is not in bart"),
        (["--recipe", "pt-en", "--set", "model.positions=t5"], "T5 (transformers, CTranslate2)"),
        (["--arch", "encoder-decoder", "--preset", "modern"], "model.positions = 'rotary' is not in t5, mt5"),
        (["--preset", "gpt2", "--size", "mini"], "GPT2 (transformers, CTranslate2)"),
        (["--preset", "vaswani2017", "--size", "mini"], "Marian (transformers)"),
    ],
    ids=" ".join,
)
def test_a_dry_run_says_where_the_model_can_go(words: list[str], said: str):
    result = tfcli("train", *words, "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert said in " ".join(result.stdout.split()), result.stdout


def test_every_tokenizer_names_what_stands_for_the_unknown(exported: Callable[[str], tuple[LoadedRun, Path]]):
    """CTranslate2 refuses a folder without; bytes are all known, and then it is what ends a text."""
    for name, token in (("default encoder-decoder", "</s>"), ("t5", "<unk>")):
        _, folder = exported(name)
        assert json.loads((folder / "tokenizer_config.json").read_text())["unk_token"] == token


@pytest.mark.parametrize("name", ["modern encoder", "bert"])
def test_a_mask_stands_where_it_stood_in_training(name: str, exported: Callable[[str], tuple[LoadedRun, Path]]):
    """Byte-level words carry the space before them, and so does the mask; words of WordPiece do not."""
    run, folder = exported(name)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    roles = run.config.roles
    for text in ("the <mask> sat", "<mask> a <mask> <mask>", "x<mask>y"):
        assert tokenizer(text)["input_ids"] == [roles.bos, *run.tokenizer.encode_masked(text), roles.eos]


def test_scaled_embeddings_become_part_of_the_matrix(exported: Callable[[str], tuple[LoadedRun, Path]]):
    """d_model is 16, so the factor is 4, and multiplying by it rounds nothing. The head has the matrix without it."""
    run, folder = exported("scaled learned decoder")
    matrix, out = model_tensors(run.model)["embedding.weight"], weights(folder / "model.safetensors")
    assert torch.equal(out["transformer.wte.weight"], 4 * matrix)
    assert torch.equal(out["lm_head.weight"], matrix)
    assert json.loads((folder / "config.json").read_text())["tie_word_embeddings"] is False


@pytest.mark.parametrize(
    ("architecture", "model", "obstacles"),
    [
        (
            "decoder",
            {"positions": "alibi"},
            [
                "model.positions = 'alibi' is not in gpt2, openai-gpt, llama, mistral, qwen3, granite, gpt_neox, opt, "
                "gemma, qwen2"
            ],
        ),
        (
            "encoder",
            {"norm": "layernorm", "positions": "sinusoidal", "embedding_norm": True},
            ["model.positions = 'sinusoidal' is not in bert, roberta, distilbert, eurobert"],
        ),
        (
            "encoder-decoder",
            {"positions": "rotary", "norm": "rmsnorm"},
            ["model.norm = 'rmsnorm' is not in bart, marian", "model.positions = 'rotary' is not in t5, mt5"],
        ),
    ],
)
def test_a_variant_that_no_family_has_is_refused_with_the_field_in_the_way_of_each(
    architecture: str, model: dict[str, Any], obstacles: list[str], tmp_path: Path
):
    train_tiny(tiny_recipe(architecture, SHORT, {"model": model}), tmp_path / "run")
    with pytest.raises(UsageError) as caught:
        export_run(load_run(tmp_path / "run"), tmp_path / "hf")
    # Families of other architectures are no way out, and go unmentioned.
    assert f"{tmp_path / 'run'}: {'; '.join(obstacles)}; train with a preset" in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_the_obstacle_that_is_named_is_a_setting_of_the_run_itself(tmp_path: Path):
    """Not one of the model of the same function that was tried in its place, whose embeddings are not tied."""
    train_tiny(
        tiny_recipe("decoder", SHORT, {"model": {"attention_softcap": 5.0, "query_key_norm": False}}), tmp_path / "run"
    )
    with pytest.raises(UsageError, match=r"model.attention_softcap = 5.0 is not in .*granite") as caught:
        export_run(load_run(tmp_path / "run"), tmp_path / "hf")
    assert "tie_embeddings" not in str(caught.value)


@pytest.mark.parametrize("own", [{}, {"suppress_tokens": [7], "bad_words_ids": [[9], [3, 4]]}], ids=str)
def test_an_export_rules_out_what_its_checkpoint_did_and_no_more(own: dict[str, Any], tmp_path: Path):
    folder = save_checkpoint(tmp_path / "checkpoint", "gpt2")
    edit_json(folder / "generation_config.json", **own)
    import_run(str(folder), tmp_path / "run")
    run = load_run(tmp_path / "run")
    export_run(run, tmp_path / "out")
    said = json.loads((tmp_path / "out/generation_config.json").read_text())
    assert said.get("suppress_tokens", []) == ([7, 9] if own else [])
    assert {7, 9} <= set(never_generated(run.config.roles, 303)) or not own


@pytest.mark.parametrize("what", ["file", "folder", "run", "pipe", "link"])
def test_a_taken_folder_is_left_alone(what: str, trained: Callable[[str], Path], tmp_path: Path):
    run = load_run(trained("decoder"))
    out = tmp_path / "out"
    if what == "file":
        out.write_text("mine")
    elif what == "pipe":
        os.mkfifo(out)
    elif what == "link":
        out.symlink_to("nowhere")
    elif what == "run":
        out = trained("decoder")
    else:
        out.mkdir()
        (out / "mine").touch()
    before = sorted(out.parent.rglob("*"))
    with pytest.raises(UsageError, match=r"is (a file|not empty); choose another --out"):
        export_run(run, out)
    assert sorted(out.parent.rglob("*")) == before


def test_an_empty_folder_is_filled(trained: Callable[[str], Path], tmp_path: Path):
    (tmp_path / "out").mkdir()
    record = export_run(load_run(trained("decoder")), tmp_path / "out")
    assert record.files == tuple(sorted(file.name for file in (tmp_path / "out").iterdir()))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_full_disk_leaves_nothing(trained: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exporting, "save_tensors", full)
    with pytest.raises(TfcliError, match=r"Cannot write .*/hf: No space left on device; free the disk"):
        export_run(load_run(trained("decoder")), tmp_path / "hf")
    assert list(tmp_path.iterdir()) == []


def _odd_rotation(folder: Path, **rope: Any) -> tuple[LoadedRun, Path]:
    rope_parameters = {"rope_theta": 123.0, "rope_type": "default", **rope}
    import_run(str(save_checkpoint(folder / "mine", "llama", rope_parameters=rope_parameters)), folder / "run")
    export_run(run := load_run(folder / "run"), folder / "hf")
    return run, folder / "hf"


def test_the_rotary_base_is_written_in_both_spellings(tmp_path: Path):
    """Readers before version 5 know `rope_theta` and `rope_scaling` alone, and `type` and `factor` in that."""
    run, folder = _odd_rotation(tmp_path, rope_type="linear", factor=3.0)
    settings = json.loads((folder / "config.json").read_text())
    assert settings["rope_parameters"] == {"rope_theta": 123.0, "rope_type": "linear", "factor": 3.0}
    assert (settings["rope_theta"], settings["rope_scaling"]) == (123.0, {"type": "linear", "factor": 3.0})
    assert import_run(str(folder), tmp_path / "again") and load_run(tmp_path / "again").config.model == run.config.model
    for spelling in ("rope_parameters", "rope_theta", "rope_scaling"):
        edit_json(folder / "config.json", **settings | dict.fromkeys(("rope_theta", "rope_parameters", "rope_scaling")))
        kept = {k: v for k, v in settings.items() if k == spelling or (spelling, k) == ("rope_scaling", "rope_theta")}
        edit_json(folder / "config.json", **kept)
        import_run(str(folder), tmp_path / spelling)
        section = load_run(tmp_path / spelling).config.model
        assert (section.position_base, section.position_scaling) == (123.0, 1.0 if spelling == "rope_theta" else 3.0)
    edit_json(folder / "config.json", **settings | {"rope_scaling": {"type": "linear", "factor": 2.0}})
    with pytest.raises(UsageError, match="rope_parameters says otherwise"):
        import_run(str(folder), tmp_path / "contradiction")


OLD = os.environ.get("TFCLI_OLD_TRANSFORMERS")
"""A folder into which an old version was installed: pip install --target FOLDER transformers==4.37.2."""
_READ_BY_OLD = """
import sys, json, torch, transformers
assert transformers.__version__.startswith("4."), transformers.__version__
model = transformers.LlamaForCausalLM.from_pretrained(sys.argv[1]).eval()
print(json.dumps(model(torch.arange(5, 27)[None])[0].tolist()))
"""


@pytest.mark.skipif(OLD is None, reason="TFCLI_OLD_TRANSFORMERS names no folder with an old version of transformers")
@pytest.mark.parametrize("rope", [{}, {"rope_type": "linear", "factor": 3.0}], ids=["base", "scaling"])
def test_old_versions_compute_what_tfcli_does(rope: dict[str, Any], tmp_path: Path):
    run, folder = _odd_rotation(tmp_path, **rope)
    where = {"PYTHONPATH": os.pathsep.join([str(OLD), str(Path(torch.__file__).parents[1])])}
    command = [sys.executable, "-S", "-c", _READ_BY_OLD, str(folder)]
    told = subprocess.run(command, env=os.environ | where, capture_output=True, text=True, check=True)
    theirs = torch.tensor(json.loads(told.stdout))
    torch.testing.assert_close(run.model(torch.arange(5, 27)[None]), theirs, rtol=1e-5, atol=1e-5)
