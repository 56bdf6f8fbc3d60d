"""Generation benchmark, the side of `transformers`: its `generate`, as it is meant to be called."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tfcli.bench.against_transformers import new_model, trained_parameters
from tfcli.bench.generation_work import ROLES, GenerationBench, GenerationWork
from tfcli.bench.machine import require_transformers
from tfcli.bench.opponent import opponent_of
from tfcli.recipe.recipe import Recipe


class TransformersGeneration(GenerationBench):
    """Greedy or with beams, keys and values cached, its own choice of attention kernel, in inference mode. A corpus is
    sorted by length and read in padded batches with their mask. No token ends a text.

    Args:
        folder: a checkpoint to load; None: a new model of the recipe's sizes.

    Raises:
        UsageError: `transformers` is not installed.
    """

    def __init__(self, recipe: Recipe, work: GenerationWork, precision: str, folder: str | None) -> None:
        super().__init__(recipe, work, precision)
        require_transformers()
        torch.manual_seed(recipe.train.seed)
        kind = getattr(torch, precision)
        model = _load(Path(folder), kind) if folder else new_model(opponent_of(recipe.model).config).to(kind)
        self.model = model.to(self.device).eval()
        self.parameters = trained_parameters(model)
        self.is_decoder = recipe.model.architecture == "decoder"
        self._all = self._batch(self.prompts)

    def generate(self, new_tokens: int) -> list[list[int]]:
        return self._generated(self._all, new_tokens)

    def translate(self) -> list[list[int]]:
        order = sorted(range(len(self.prompts)), key=lambda number: len(self.prompts[number]), reverse=True)
        found: dict[int, list[int]] = {}
        for first in range(0, len(order), self.work.batch):
            numbers = order[first : first + self.work.batch]
            batch = self._batch([self.prompts[number] for number in numbers])
            found |= zip(numbers, self._generated(batch, self.work.new_tokens), strict=True)
        return [found[number] for number in range(len(self.prompts))]

    def _batch(self, prompts: list[list[int]]) -> dict[str, Tensor]:
        framed = prompts if self.is_decoder else [ROLES.source(prompt) for prompt in prompts]
        longest = max(map(len, framed))
        padded = [row + [ROLES.pad] * (longest - len(row)) for row in framed]
        mask = [[1] * len(row) + [0] * (longest - len(row)) for row in framed]
        arrays = {"input_ids": padded, "attention_mask": mask}
        return {name: torch.tensor(array, device=self.device) for name, array in arrays.items()}

    @torch.inference_mode()
    def _generated(self, batch: dict[str, Tensor], new_tokens: int) -> list[list[int]]:
        """The new ids alone."""
        from transformers import GenerationConfig

        settings = GenerationConfig(
            max_new_tokens=new_tokens,
            do_sample=False,
            num_beams=self.work.beam,
            use_cache=True,
            eos_token_id=None,
            pad_token_id=ROLES.pad,
            bos_token_id=ROLES.bos,
            decoder_start_token_id=None if self.is_decoder else ROLES.bos,
        )
        # What a config leaves unsaid is taken from the model's own, and that has an end of its own.
        self.model.generation_config = settings
        ids = self.model.generate(**batch, generation_config=settings)
        read = batch["input_ids"].shape[1] if self.is_decoder else 1
        new: list[list[int]] = ids[:, read:].tolist()
        return new


def _load(folder: Path, kind: torch.dtype) -> Any:
    import transformers

    config = transformers.AutoConfig.from_pretrained(folder)
    transformers.utils.logging.disable_progress_bar()
    return getattr(transformers, config.architectures[0]).from_pretrained(folder, dtype=kind)
