"""Generation benchmark, the side of tfcli: what `tfcli generate` and a translated corpus come down to."""

from dataclasses import replace

from tfcli.bench.generation_work import ROLES, GenerationBench, GenerationWork
from tfcli.bench.synthetic_model import synthetic_model
from tfcli.generation.beam import prompt_beams
from tfcli.generation.decode import collect, prompt_tokens
from tfcli.generation.translate import translate
from tfcli.models.inference import ready_to_predict
from tfcli.recipe.generate import GenerateSection
from tfcli.recipe.model import WeightPrecision
from tfcli.recipe.recipe import Recipe


class TfcliGeneration(GenerationBench):
    """Greedy or with beams, on the recipe's model with random weights, laid out as those of a run are.

    Raises:
        UsageError: this machine does not multiply in that precision.
    """

    def __init__(self, recipe: Recipe, work: GenerationWork, precision: WeightPrecision) -> None:
        super().__init__(recipe, work, precision)
        self.model = synthetic_model(recipe.model, recipe.train.seed).to(self.device)
        self.parameters = self.model.num_parameters()
        ready_to_predict(self.model, precision)
        self.settings = GenerateSection(temperature=0.0, beam=work.beam, max_new_tokens=work.new_tokens)

    def translate(self) -> list[list[int]]:
        at_once = self.work.batch * self.work.beam
        return translate(self.model, self.prompts, ROLES, self.settings, batch_size=at_once)

    def generate(self, new_tokens: int) -> list[list[int]]:
        settings = replace(self.settings, max_new_tokens=new_tokens)
        if self.work.beam > 1:
            found = prompt_beams(self.model, self.prompts, ROLES, settings)
            return [list(best[0].token_ids) for best in found]
        tokens = prompt_tokens(self.model, self.prompts, ROLES, settings)
        return [list(text.token_ids) for text in collect(tokens, len(self.prompts))]
