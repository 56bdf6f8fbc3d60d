"""Presets against their papers: every value that a paper gives, by its section."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import tfcli
from tfcli.console.settings import Asked, recipe_from
from tfcli.models.presets import APART, PRESETS, SIZES, preset
from tfcli.recipe.loading import build_recipe, to_toml
from tfcli.recipe.recipe import Recipe

SEQUENCES = "sequences of a batch"

PAPERS: dict[str, dict[str, tuple[Any, str]]] = {
    # Vaswani et al. 2017, Attention Is All You Need
    "vaswani2017": {
        "model.num_layers": (6, "3.1"),
        "model.d_model": (512, "3.1"),
        "model.d_ff": (2048, "3.3"),
        "model.num_heads": (8, "3.2.2"),
        "model.tie_embeddings": (True, "3.4"),
        "model.scale": (512**0.5, "3.4"),
        "model.positions": ("sinusoidal", "3.5"),
        "model.norm_placement": ("post", "3.1"),
        "model.dropout": (0.1, "5.4: sublayers, and the sums of embeddings and encodings"),
        "model.attention_dropout": (0.0, "5.4 names no other place"),
        "train.steps": (100_000, "5.2"),
        "train.learning_rate": (pytest.approx(512**-0.5 * 4000**-0.5, rel=2e-3), "5.3, equation 3 at its peak"),
        "train.schedule": ("inverse_sqrt", "5.3"),
        "train.warmup_steps": (4000, "5.3"),
        "train.beta1": (0.9, "5.3"),
        "train.beta2": (0.98, "5.3"),
        "train.adam_eps": (1e-9, "5.3"),
        "train.weight_decay": (0.0, "5.4 names none"),
        "train.label_smoothing": (0.1, "5.4"),
    },
    # Radford et al. 2019, Language Models are Unsupervised Multitask Learners; Brown et al. 2020 where it is silent
    "gpt2": {
        "model.num_layers": (12, "table 2"),
        "model.d_model": (768, "table 2"),
        "model.max_seq_len": (1024, "2.3"),
        "model.norm_placement": ("pre", "2.3"),
        "model.initialization": ("gpt2", "2.3: 1/√N of the residual layers"),
        SEQUENCES: (512, "2.3"),
        "train.learning_rate": (6e-4, "Brown et al. 2020, table 2.1"),
        "train.warmup_steps": (pytest.approx(375e6 / 524_288, rel=0.03), "Brown et al. 2020, appendix B: 375 M tokens"),
        "train.schedule": ("cosine", "Brown et al. 2020, appendix B"),
        "train.final_learning_rate": (0.1, "Brown et al. 2020, appendix B"),
        "train.beta1": (0.9, "Brown et al. 2020, appendix B"),
        "train.beta2": (0.95, "Brown et al. 2020, appendix B"),
        "train.adam_eps": (1e-8, "Brown et al. 2020, appendix B"),
        "train.weight_decay": (0.1, "Brown et al. 2020, appendix B"),
        "train.clip_norm": (1.0, "Brown et al. 2020, appendix B"),
        "model.dropout": (0.1, "Radford et al. 2018, 4.1"),
    },
    # Brown et al. 2020, Language Models are Few-Shot Learners
    "gpt3": {
        "model.num_layers": (96, "table 2.1"),
        "model.d_model": (12_288, "table 2.1"),
        "model.num_heads": (96, "table 2.1"),
        "model.size_per_head": (128, "table 2.1"),
        "model.inner_size": (4 * 12_288, "2.1: four times d_model"),
        "model.max_seq_len": (2048, "2.1"),
        "model.norm_placement": ("pre", "2.1: as GPT-2"),
        SEQUENCES: (pytest.approx(3.2e6 / 2048, rel=0.01), "table 2.1: 3.2 M tokens"),
        "train.steps": (pytest.approx(300e9 / 3.2e6, rel=0.01), "table 2.1: 300 G tokens"),
        "train.learning_rate": (0.6e-4, "table 2.1"),
        "train.warmup_steps": (pytest.approx(375e6 / 3.2e6, rel=0.01), "B: 375 M tokens"),
        "train.schedule": ("cosine", "B"),
        "train.final_learning_rate": (0.1, "B"),
        "train.beta1": (0.9, "B"),
        "train.beta2": (0.95, "B"),
        "train.adam_eps": (1e-8, "B"),
        "train.weight_decay": (0.1, "B"),
        "train.clip_norm": (1.0, "B"),
        "model.dropout": (0.0, "none"),
    },
    # Le Scao et al. 2022, BLOOM
    "bloom": {
        "model.num_layers": (70, "table 3"),
        "model.d_model": (14_336, "table 3"),
        "model.num_heads": (112, "table 3"),
        "model.max_seq_len": (2048, "table 3"),
        "model.positions": ("alibi", "3.2.2"),
        "model.embedding_norm": (True, "3.2.2"),
        "model.tie_embeddings": (True, "table 3"),
        "model.activation": ("gelu_tanh", "table 3: GELU; by tanh in the release"),
        SEQUENCES: (2048, "table 3"),
        "train.steps": (pytest.approx(366e9 / 2048**2, rel=1e-3), "table 3: 366 G tokens"),
        "train.learning_rate": (6e-5, "table 3"),
        "train.warmup_steps": (pytest.approx(375e6 / 2048**2, rel=0.01), "table 3: 375 M tokens"),
        "train.schedule": ("cosine", "table 3"),
        "train.final_learning_rate": (0.1, "table 3: 6e-6"),
        "train.beta1": (0.9, "table 3"),
        "train.beta2": (0.95, "table 3"),
        "train.weight_decay": (0.1, "table 3"),
        "train.clip_norm": (1.0, "table 3"),
        "model.dropout": (0.1, "train/tr11-176B-ml of bigscience-workshop/bigscience"),
        "model.init_std": (0.0048, "train/tr11-176B-ml: √(1 / (3 D))"),
    },
    # Devlin et al. 2019, BERT
    "bert": {
        "model.num_layers": (12, "3"),
        "model.d_model": (768, "3"),
        "model.num_heads": (12, "3"),
        "model.d_ff": (3072, "3: 4H"),
        "model.max_seq_len": (512, "A.2"),
        "model.activation": ("gelu", "A.2"),
        "model.dropout": (0.1, "A.2: on all layers"),
        "attention_dropout": (0.1, "A.2: on all layers"),
        "train.mask_probability": (0.15, "3.1"),
        "train.steps": (1_000_000, "A.2"),
        SEQUENCES: (256, "A.2"),
        "train.learning_rate": (1e-4, "A.2"),
        "train.beta1": (0.9, "A.2"),
        "train.beta2": (0.999, "A.2"),
        "train.weight_decay": (0.01, "A.2"),
        "train.warmup_steps": (10_000, "A.2"),
        "train.schedule": ("linear", "A.2"),
        "train.final_learning_rate": (0.0, "A.2: linear decay"),
        "train.adam_eps": (1e-6, "optimization.py of google-research/bert"),
        "train.clip_norm": (1.0, "optimization.py of google-research/bert"),
        "train.label_smoothing": (0.0, "none"),
    },
    # Touvron et al. 2023, LLaMA
    "llama": {
        "model.d_model": (4096, "table 2"),
        "model.num_heads": (32, "table 2"),
        "model.num_layers": (32, "table 2"),
        "model.d_ff": (11_008, "2.2: 2/3 · 4d, made a multiple of 256"),
        "model.norm": ("rmsnorm", "2.2"),
        "model.activation": ("swiglu", "2.2"),
        "model.positions": ("rotary", "2.2"),
        "model.dropout": (0.0, "none"),
        SEQUENCES: (2048, "table 2: 4 M tokens of 2,048"),
        "train.steps": (250_000, "table 2: 1.0 T tokens, 4 M a batch"),
        "train.learning_rate": (3e-4, "table 2"),
        "train.schedule": ("cosine", "2.3"),
        "train.final_learning_rate": (0.1, "2.3"),
        "train.warmup_steps": (2000, "2.3"),
        "train.beta1": (0.9, "2.3"),
        "train.beta2": (0.95, "2.3"),
        "train.weight_decay": (0.1, "2.3"),
        "train.clip_norm": (1.0, "2.3"),
    },
    # Lewis et al. 2020, BART
    "bart": {
        "model.num_layers": (6, "2.1"),
        "model.d_model": (768, "4: the size of BERT base"),
        "model.activation": ("gelu", "2.1"),
        "model.initialization": ("bert", "2.1: N(0, 0.02)"),
        "model.init_std": (0.02, "2.1"),
        "train.steps": (1_000_000, "4.1"),
        "train.label_smoothing": (0.1, "5.3"),
    },
    # The options of Marian's --task transformer-base
    "marian": {
        "model.num_layers": (6, "Tiedemann and Thottingal 2020, 2"),
        "model.num_heads": (8, "Tiedemann and Thottingal 2020, 2"),
        "model.d_ff": (2048, "transformer-dim-ffn"),
        "model.dropout": (0.1, "transformer-dropout"),
        "model.attention_dropout": (0.0, "transformer-dropout-attention"),
        "train.learning_rate": (3e-4, "learn-rate"),
        "train.schedule": ("inverse_sqrt", "lr-decay-inv-sqrt"),
        "train.warmup_steps": (16_000, "lr-warmup"),
        "train.beta1": (0.9, "optimizer-params"),
        "train.beta2": (0.98, "optimizer-params"),
        "train.adam_eps": (1e-9, "optimizer-params"),
        "train.clip_norm": (5.0, "clip-norm"),
        "train.weight_decay": (0.0, "none"),
        "train.label_smoothing": (0.1, "label-smoothing"),
    },
    # Raffel et al. 2020, T5
    "t5": {
        "model.num_layers": (6, "3.7, Small"),
        "model.d_model": (512, "3.7, Small"),
        "model.d_ff": (2048, "3.7, Small"),
        "model.num_heads": (8, "3.7, Small"),
        "model.positions": ("t5", "2.1"),
        "model.position_buckets": (32, "2.1"),
        "model.position_max_distance": (128, "2.1"),
        "model.dropout": (0.1, "2.1"),
        "attention_dropout": (0.1, "2.1"),
        "model.activation_dropout": (0.1, "2.1"),
        "train.steps": (524_288, "3.1.2"),
        SEQUENCES: (128, "3.1.2"),
        "train.schedule": ("inverse_sqrt", "3.1.2"),
        "train.warmup_steps": (10_000, "3.1.2"),
        "train.weight_decay": (0.0, "3.1.2 names none"),
        "train.label_smoothing": (0.0, "3.1.2: the standard likelihood"),
    },
}


def resolved(recipe: Recipe, key: str) -> Any:
    if key == SEQUENCES:
        return recipe.train.rows * recipe.train.grad_accumulation
    if key == "attention_dropout":
        return recipe.model.attention_dropout_rate
    if key == "model.scale":
        return recipe.model.embedding_scale
    section, name = key.split(".")
    return getattr(getattr(recipe, section), name)


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, table in PAPERS.items() for key in table])
def test_a_preset_has_the_value_of_its_paper(name: str, key: str):
    value, section = PAPERS[name][key]
    assert resolved(build_recipe(preset(name)).resolved(), key) == value, section


def test_every_preset_is_in_the_table_or_is_of_a_book_that_trains_nothing():
    assert set(PRESETS) - set(PAPERS) == {"modern", "portable", "udl", "bishop-pre", "cs224n"}
    assert set(APART) == set(PAPERS)


def test_what_is_not_the_papers_is_said_before_a_training_and_in_the_docs():
    page = " ".join((Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8").split())
    for name, ones in APART.items():
        assert f"- `{name}`: {'; '.join(ones)}." in page
    done = tfcli("train", "--preset", "bert", "--size", "tiny", "--dry-run")
    assert done.exit_code == 0
    told = [line for line in done.stderr.splitlines() if "apart from the paper" in line]
    assert len(told) == 1 + len(APART["bert"]) and "--size tiny" in told[0]
    assert "apart from" not in tfcli("train", "--preset", "modern", "--size", "tiny", "--dry-run").stderr
    said = json.loads(tfcli("train", "--preset", "t5", "--size", "tiny", "--dry-run", "--json").stdout)
    assert said["apart"][1:] == list(APART["t5"])


@pytest.mark.parametrize("size", SIZES)
def test_a_size_takes_the_batch_back_too(size: str):
    sized = build_recipe(preset("bert"), SIZES[size]).train
    assert (sized.grad_accumulation, sized.steps) == (1, 1000)


def test_a_new_encoder_decoder_is_portable_and_a_recorded_one_what_it_was(tmp_path: Path):
    """Rotary positions were the default when runs were recorded; these name every setting."""
    said = {"model": {"architecture": "encoder-decoder"}}
    (tmp_path / "old.toml").write_text(to_toml(build_recipe(said).resolved()), encoding="utf-8")
    (tmp_path / "brief.toml").write_text('[model]\narchitecture = "encoder-decoder"\n', encoding="utf-8")
    modern, portable = build_recipe(said).model, build_recipe(preset("portable")).model
    assert (modern.positions, portable.positions) == ("rotary", "t5")
    assert recipe_from(Asked(recipe=str(tmp_path / "old.toml"))).model == modern
    assert recipe_from(Asked(arch="encoder-decoder", preset="modern")).model == modern
    assert recipe_from(Asked(recipe=str(tmp_path / "brief.toml"))).model == portable
    assert recipe_from(Asked(assignments=["model.architecture=encoder-decoder"])).model == portable
