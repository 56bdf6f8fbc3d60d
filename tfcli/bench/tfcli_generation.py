"""The side of tfcli: the calls that `tfcli generate` and a translated corpus come down to."""

import time
from dataclasses import replace

import torch

from tfcli.bench.generation_work import ROLES, GenerationWork
from tfcli.bench.protocol import Answer
from tfcli.bench.synthetic_model import synthetic_model
from tfcli.generation.beam import prompt_beams
from tfcli.generation.decode import collect, prompt_tokens
from tfcli.generation.translate import translate
from tfcli.models.decoder import Decoder
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.models.inference import ready_to_predict
from tfcli.recipe.generate import GenerateSection
from tfcli.recipe.model import WeightPrecision
from tfcli.recipe.recipe import Recipe
from tfcli.training.precision import choose_device


class TfcliGeneration:
    """Greedy or with beams, on the recipe's model with random weights, laid out as those of a run are.

    Raises:
        UsageError: this machine does not multiply in that precision.
    """

    def __init__(self, recipe: Recipe, work: GenerationWork, precision: WeightPrecision) -> None:
        torch.set_num_threads(recipe.train.threads)
        self.device, self.work, self.precision = choose_device(recipe.train.device), work, precision
        section = recipe.model
        model = synthetic_model(section, recipe.train.seed).to(self.device)
        assert isinstance(model, Decoder | EncoderDecoder) and section.vocab_size is not None
        self.model, self.parameters = model, model.num_parameters()
        ready_to_predict(model, precision)
        self.prompts = work.prompts(section.architecture, section.vocab_size, section.max_seq_len)
        self.settings = GenerateSection(temperature=0.0, beam=work.beam, max_new_tokens=work.new_tokens)

    def about(self) -> Answer:
        """The model and its precision."""
        return {"model": type(self.model).__name__, "precision": self.precision, "parameters": self.parameters}

    def step(self) -> Answer:
        """All texts once, under "ids"; before that, how long one new token takes, under "prefill"."""
        if self.work.sentences:
            assert isinstance(self.model, EncoderDecoder)
            began = time.perf_counter()
            at_once = self.work.batch * self.work.beam
            texts = translate(self.model, self.prompts, ROLES, self.settings, batch_size=at_once)
            return {"prefill": None, "seconds": time.perf_counter() - began, "ids": texts}
        began = time.perf_counter()
        self._generate(1)
        first = time.perf_counter()
        ids = self._generate(self.work.new_tokens)
        return {"prefill": first - began, "seconds": time.perf_counter() - first, "ids": ids}

    def _generate(self, new_tokens: int) -> list[list[int]]:
        settings = replace(self.settings, max_new_tokens=new_tokens)
        if self.work.beam > 1:
            found = prompt_beams(self.model, self.prompts, ROLES, settings)
            return [list(best[0].token_ids) for best in found]
        tokens = prompt_tokens(self.model, self.prompts, ROLES, settings)
        return [list(text.token_ids) for text in collect(tokens, len(self.prompts))]
