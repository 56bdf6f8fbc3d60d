"""Training and generation benchmarks, the side of `transformers`: the same shape, in the loop that people write."""

import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tfcli.bench import Difference
from tfcli.bench.measure import Answer
from tfcli.bench.work import ROLES, GenerationBench, GenerationWork, ModelSide
from tfcli.data.batch import Batch
from tfcli.interop.families import KNOWN_FAMILIES
from tfcli.interop.families.layout import UnsupportedVariantError
from tfcli.models.device import choose_device, synchronize
from tfcli.models.presets import preset
from tfcli.recipe.loading import build_recipe
from tfcli.recipe.model import ModelSection
from tfcli.recipe.recipe import Recipe
from tfcli.training.memory import synthetic_batches

_FAMILIES = {"decoder": "gpt2", "encoder": "bert", "encoder-decoder": "bart"}  # what people take unless told
_SIZES = ("vocab_size", "max_seq_len", "d_model", "num_layers", "num_decoder_layers", "num_heads")
_DROPOUTS = ("dropout", "embedding_dropout", "attention_dropout", "activation_dropout")
_WITHOUT_COST = (  # settings that change what is computed, hardly how long it takes, and the shown parameters
    *("initialization", "init_std", "norm_eps", "position_offset", "position_layout", "scale_embeddings"),
    *("tie_embeddings", "share_embeddings"),
)
_FOLLOWS = {"norm_bias": "norm", "attention_output_bias": "attention_bias"}  # not mentioned where another differs


class Opponent(NamedTuple):
    """A family's config.json, the section it says, and how that differs from the recipe's."""

    config: dict[str, Any]
    section: ModelSection
    differences: tuple[Difference, ...]


def opponent_of(section: ModelSection) -> Opponent:
    """The same model in the first family that has it; else GPT-2, BERT or BART of the same sizes, which must fit."""
    if (config := _written(section)) is not None:
        return Opponent(config, section, ())
    family = build_recipe(preset(_FAMILIES[section.architecture]), {"model": {"d_ff": None}}).model
    alike = replace(family, **{name: getattr(section, name) for name in (*_SIZES, *_DROPOUTS)})
    if not section.is_gated:
        alike = replace(alike, d_ff=section.d_ff)
    config = _written(alike)
    assert config is not None, "a preset is a family's own shape"
    return Opponent(config, alike, tuple(_differences(section, alike)))


def _written(section: ModelSection) -> dict[str, Any] | None:
    for layout in KNOWN_FAMILIES:
        try:
            return layout.write(section, ROLES)
        except UnsupportedVariantError:
            continue
    return None


def _differences(ours: ModelSection, theirs: ModelSection) -> Iterator[Difference]:
    """Settings, by what they come to: a default is worth what it stands for."""
    for name in (field.name for field in fields(ModelSection)):
        leader = _FOLLOWS.get(name)
        if name in _WITHOUT_COST or (leader and getattr(ours, leader) != getattr(theirs, leader)):
            continue
        here, there = (getattr(section, _STANDS_FOR.get(name, name)) for section in (ours, theirs))
        if here != there:
            yield Difference(name, str(here), str(there))


_STANDS_FOR = {"num_decoder_layers": "decoder_layers", "num_kv_heads": "kv_heads", "head_dim": "size_per_head"}
_STANDS_FOR |= {"d_ff": "inner_size", "norm_bias": "has_norm_bias", "attention_output_bias": "has_output_bias"}
_STANDS_FOR |= {f"{name}_dropout": f"{name}_dropout_rate" for name in ("embedding", "attention")}


class TransformersLoop(ModelSide):
    """Forward, backward, clip_grad_norm_, AdamW as PyTorch has it, zero_grad; float32, or under bfloat16 autocast."""

    def __init__(self, recipe: Recipe, precision: str) -> None:
        self.train, self.precision = recipe.train, precision
        torch.set_num_threads(recipe.train.threads)
        self.device = choose_device(recipe.train.device)
        torch.manual_seed(recipe.train.seed)
        # Training needs no cache of keys and values; the library's own Trainer makes none.
        self.model = _new_model({**opponent_of(recipe.model).config, "use_cache": False}).to(self.device)
        self.parameters = _trained(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=recipe.train.learning_rate)
        self.batches = synthetic_batches(recipe)

    def step(self) -> Answer:
        """One optimizer step on the batches that tfcli gets."""
        began, losses = time.perf_counter(), list[Tensor]()
        for _ in range(self.train.grad_accumulation):
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
                loss = self.model(**_inputs(next(self.batches), self.device)).loss / self.train.grad_accumulation
            loss.backward()
            losses.append(loss.detach())
        if self.train.clip_norm:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.train.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        loss = float(torch.stack(losses).sum())
        synchronize(self.device)
        return {"seconds": time.perf_counter() - began, "loss": loss}


def _trained(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def _new_model(config: dict[str, Any]) -> Any:
    """Of the class that a config.json names."""
    import transformers

    settings = {key: value for key, value in config.items() if key != "model_type"}
    built = transformers.AutoConfig.for_model(config["model_type"], **settings)
    return getattr(transformers, config["architectures"][0])(built)


def _inputs(batch: Batch, device: torch.device) -> dict[str, Tensor]:
    """The arguments that people give: a causal model shifts the labels itself, so it gets its own input."""
    arrays = {"input_ids": batch.input_ids, "labels": batch.labels}
    if batch.decoder_input_ids is not None:
        arrays["decoder_input_ids"] = batch.decoder_input_ids
    elif batch.target_tokens == batch.labels.size:
        arrays["labels"] = batch.input_ids
    return {name: torch.as_tensor(array).to(device) for name, array in arrays.items()}


class TransformersGeneration(GenerationBench):
    """Greedy or with beams, keys and values cached, its own choice of attention kernel. `folder` is a checkpoint to
    load; None: a new model of the recipe's sizes."""

    def __init__(self, recipe: Recipe, work: GenerationWork, precision: str, folder: str | None) -> None:
        super().__init__(recipe, work, precision)
        torch.manual_seed(recipe.train.seed)
        kind = getattr(torch, precision)
        model = _load(Path(folder), kind) if folder else _new_model(opponent_of(recipe.model).config).to(kind)
        self.model = model.to(self.device).eval()
        self.parameters, self.is_decoder = _trained(model), recipe.model.architecture == "decoder"
        prompts = self.prompts if self.is_decoder else [ROLES.source(prompt) for prompt in self.prompts]
        self._ids = torch.tensor(prompts, device=self.device)
        self._mask = torch.ones_like(self._ids)

    @torch.inference_mode()
    def generate(self, new_tokens: int) -> list[list[int]]:  # noqa: D102
        from transformers import GenerationConfig

        how = {"max_new_tokens": new_tokens, "do_sample": False, "num_beams": self.work.beam, "use_cache": True}
        roles = {"eos_token_id": None, "pad_token_id": ROLES.pad, "bos_token_id": ROLES.bos}
        settings = GenerationConfig(**how, **roles, decoder_start_token_id=None if self.is_decoder else ROLES.bos)
        # What a config leaves unsaid is taken from the model's own, and that has an end of its own.
        self.model.generation_config = settings
        ids: Tensor = self.model.generate(input_ids=self._ids, attention_mask=self._mask, generation_config=settings)
        return ids[:, self._ids.shape[1] if self.is_decoder else 1 :].tolist()


def _load(folder: Path, kind: torch.dtype) -> Any:
    import transformers

    config = transformers.AutoConfig.from_pretrained(folder)
    transformers.utils.logging.disable_progress_bar()
    return getattr(transformers, config.architectures[0]).from_pretrained(folder, dtype=kind)
