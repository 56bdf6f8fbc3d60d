"""A whole recipe: tokenizer, data, training, evaluation, samples, and a look inside."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tfcli.errors import TfcliError, UsageError, shortened
from tfcli.evaluation.bleu_tokenization import require_bleu_tokenize
from tfcli.evaluation.evaluate import evaluate
from tfcli.evaluation.windows import EvaluationSettings
from tfcli.files import digest, file_digest, read_versioned, validated, write_json
from tfcli.generation.generate import generate
from tfcli.inspection.attention.choice import focused
from tfcli.inspection.attention.compute import attention
from tfcli.inspection.positions.compute import run_positions
from tfcli.models.device import choose_device
from tfcli.pipeline.datasets import Report, dataset_of_run, original_targets
from tfcli.pipeline.training import ShouldStop, train_recipe
from tfcli.recipe.evaluate import BleuTokenize
from tfcli.recipe.loading import to_toml
from tfcli.recipe.recipe import CheckSection, Recipe
from tfcli.records.evaluation import Scores
from tfcli.records.heads import HeadPlace, require_head
from tfcli.records.roles import MASK
from tfcli.records.runs import CheckResult, StageStarted
from tfcli.runs.load import LoadedRun, load_run

_SCORES_FORMAT = 2  # 1 had percentiles for all intervals, and BLEU with 13a alone
_WHOLE = "the whole validation part"


def run_recipe(recipe: Recipe, out: Path | None, report: Report, should_stop: ShouldStop) -> list[CheckResult]:
    """Run every stage, reporting what each one makes; ends after training where that was interrupted. Return the
    recipe's limits with what was measured; empty where it has none, or was interrupted. Refuse, before any work, an
    [inspect] that wants a layer, a head or a position that the model will not have."""
    require_showable(recipe)
    if recipe.objective == "seq2seq":
        require_bleu_tokenize(recipe.evaluate.bleu_tokenize)
    began = time.perf_counter()
    finished = train_recipe(recipe, out, report, should_stop)
    if finished.reason == "interrupted":
        return []
    trained = time.perf_counter()
    run = load_run(finished.run, device=choose_device(recipe.train.device), precision="float32")
    scores = _evaluation(run, recipe.evaluate.bleu_tokenize, report)
    for event in _looked_at(run, recipe):
        report(event)
    now = time.perf_counter()
    seconds = max(now - began, finished.seconds + now - trained)  # a resumed run took longer than this process
    return list(check_results(recipe.check, scores, seconds / 60))


def require_showable(recipe: Recipe) -> None:
    """Refuse an [inspect] section that shows what the model does not have.

    A mask that the recipe's tokenizer may spell differently is checked later.
    """
    wanted, model = recipe.inspect, recipe.model
    has_cross = model.architecture == "encoder-decoder"  # whose cross-attention is shown, which the decoder has
    num_layers = model.decoder_layers if has_cross else model.num_layers
    layer, head = wanted.place
    require_head(HeadPlace(layer or 0, head), num_layers, model.num_heads, "inspect.head")
    if model.positions == "none" and wanted.positions:
        problem = f"inspect.positions = {wanted.positions}, and model.positions = 'none' leaves none to show"
        raise UsageError(problem, "leave inspect.positions out")
    if model.positions == "learned" and wanted.positions > model.max_seq_len:
        problem = f"inspect.positions = {wanted.positions}, and the model learns {model.max_seq_len}"
        raise UsageError(problem, "choose no more")
    if model.architecture != "encoder" or recipe.tokenizer.path is not None or recipe.train.task is not None:
        return
    for prompt in recipe.generate.prompts:
        if MASK not in prompt:
            raise UsageError(f"The prompt {shortened(prompt)!r} has no {MASK}", "put it where a word is missing")


def check_results(check: CheckSection, scores: Scores, minutes: float) -> Iterator[CheckResult]:
    """Compare every limit that is set with its figure."""
    for name, limit in vars(check).items():
        if limit is not None:
            most, _, figure = name.partition("_")
            value = minutes if figure == "minutes" else getattr(scores, figure)
            passed = value is not None and (value <= limit if most == "max" else value >= limit)
            yield CheckResult(name, limit, value, passed)


def _evaluation(run: LoadedRun, bleu_tokenize: BleuTokenize, report: Report) -> Scores:
    """The scores of a run, which are kept with it for as long as its weights and its recipe are the same."""
    file = run.directory.scores
    scored = digest(file_digest(run.directory.weights), to_toml(run.recipe), bleu_tokenize)
    with suppress(TfcliError):
        values = read_versioned(file, _SCORES_FORMAT, remedy="")[1]
        if values.get("of") == scored:
            kept: Scores = validated(Scores, values.get("scores"), file, "")
            report(StageStarted("evaluation", _WHOLE, reused=True))
            report(scores := replace(kept, run=str(run.directory.path)))
            return scores
    report(StageStarted("evaluation", _WHOLE))
    data = dataset_of_run(run.directory, run.recipe, report)
    settings = EvaluationSettings(bleu_tokenize=bleu_tokenize)
    scores = evaluate(run, data, settings, targets=lambda: original_targets(run, ()))
    with suppress(TfcliError):  # what cannot be kept is measured again
        write_json(file, {"format_version": _SCORES_FORMAT, "of": scored, "scores": asdict(scores)})
    report(scores)
    return scores


def _looked_at(run: LoadedRun, recipe: Recipe) -> Iterator[Any]:
    """Positions, samples and attention, as far as the recipe asks for them; each behind the word of its beginning."""
    wanted = recipe.inspect
    if wanted.positions:
        yield StageStarted("inspection", "positions")
        yield run_positions(run.model, wanted.positions)
    from_nothing = run.architecture == "decoder" and recipe.train.task is None
    prompts = recipe.generate.prompts or (("",) if from_nothing else ())
    if prompts:
        yield StageStarted("generation", f"{len(prompts)} prompt{'s' * (len(prompts) > 1)}")
    for prompt in prompts:
        yield generate(run, prompt, recipe.generate)
    if wanted.attention is not None:
        yield StageStarted("inspection", "attention")
        record = attention(run, wanted.attention, wanted.target)[-1]  # of an encoder-decoder, the cross-attention
        yield focused(record, *wanted.place)
