"""Training and generation benchmarks, the side of tfcli: what `tfcli train` and `tfcli generate` do."""

import time
from dataclasses import replace

from tfcli.bench.measure import Answer, Side
from tfcli.bench.work import ROLES, GenerationBench, GenerationWork, synthetic_model
from tfcli.generation.beam_search import prompt_beams
from tfcli.generation.decoding import collect, prompt_tokens
from tfcli.generation.generate import translate
from tfcli.models.inference import prepare_for_inference
from tfcli.recipe.generate import GenerateSection
from tfcli.recipe.model import WeightPrecision
from tfcli.recipe.recipe import Recipe
from tfcli.training.job import open_step_benchmark


class TfcliSteps(Side):
    """Trains a recipe's model on random ids."""

    def __init__(self, recipe: Recipe) -> None:
        self.trial = open_step_benchmark(recipe)
        self.device = self.trial.parts.device

    def about(self) -> Answer:
        """The model and its precision."""
        model, train = self.trial.parts.model, self.trial.recipe.train
        return {"model": type(model).__name__, "precision": train.precision, "parameters": model.num_parameters()}

    def step(self) -> Answer:
        """One optimizer step, with its batches."""
        began = time.perf_counter()
        loss = float(self.trial.step())
        self.trial.wait()
        return {"seconds": time.perf_counter() - began, "loss": loss, "tokens": self.trial.tokens}


class TfcliGeneration(GenerationBench):
    """Greedy or with beams, on the recipe's model with random weights, laid out as those of a run are."""

    def __init__(self, recipe: Recipe, work: GenerationWork, precision: WeightPrecision) -> None:
        super().__init__(recipe, work, precision)
        self.model = synthetic_model(recipe.model, recipe.train.seed).to(self.device)
        self.parameters = self.model.num_parameters()
        prepare_for_inference(self.model, precision)
        self.settings = GenerateSection(temperature=0.0, beam=work.beam, max_new_tokens=work.new_tokens)

    def translate(self) -> list[list[int]]:  # noqa: D102
        at_once = self.work.batch * self.work.beam
        return translate(self.model, self.prompts, ROLES, self.settings, batch_size=at_once)

    def generate(self, new_tokens: int) -> list[list[int]]:  # noqa: D102
        settings = replace(self.settings, max_new_tokens=new_tokens)
        if self.work.beam > 1:
            found = prompt_beams(self.model, self.prompts, ROLES, settings)
            return [list(best[0].token_ids) for best in found]
        tokens = prompt_tokens(self.model, self.prompts, ROLES, settings)
        return [list(text.token_ids) for text in collect(tokens, len(self.prompts))]
