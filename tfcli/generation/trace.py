"""How texts come about: every step of one that is drawn, or every beginning that a beam search looked at."""

from dataclasses import replace

from tfcli.generation.batch import PromptBatch
from tfcli.generation.decode import NewToken
from tfcli.generation.settings import settled
from tfcli.generation.tree import beam_tree
from tfcli.recipe.generate import GenerateSection
from tfcli.records.generation import BeamNode, BeamTree, Option, Trace, TraceStep
from tfcli.runs.load import LoadedRun
from tfcli.tokenization.tokenizer import Tokenizer

OPTIONS = 8
"""Candidates told at every step; the more of them, the wider the terminal that shows them all."""


def trace(run: LoadedRun, prompt: str, settings: GenerateSection, *, sample: bool | None = None) -> Trace:
    """The first text that `generate` makes without beams, with what else could have come at each of its steps.

    Raises:
        UsageError: as `generate`.
    """
    settings = replace(settled(run.model, run.tokenizer, settings, sample), num_samples=1, beam=1, beam_groups=1)
    batch = PromptBatch(run.model, run.tokenizer, [prompt], settings)
    text, tokens = batch.text(0), []
    for token in batch.tokens(OPTIONS):
        tokens.append(token)
        text.push(token.token_id, token.log_probability)
        if text.stopped:
            break
    return Trace(text.finished(), tuple(_step(run.tokenizer, token) for token in tokens))


def beams(run: LoadedRun, prompt: str, settings: GenerateSection) -> BeamTree:
    """The beam search that `generate` makes its texts with.

    Raises:
        UsageError: as `generate`.
    """
    settings = settled(run.model, run.tokenizer, settings, sample=False)
    batch = PromptBatch(run.model, run.tokenizer, [prompt], settings)
    nodes: list[BeamNode] = []
    [found] = batch.beams(lambda _, node: nodes.append(node))
    texts = [batch.record(0, continuation) for continuation in found]
    return beam_tree(prompt, nodes, texts, run.tokenizer.labels, settings)


def _step(tokenizer: Tokenizer, token: NewToken) -> TraceStep:
    labels = tokenizer.labels(option.token_id for option in token.options)
    options = tuple(
        Option(option.token_id, label, option.probability, option.chance)
        for option, label in zip(token.options, labels, strict=True)
    )
    chosen = next(option for option in options if option.token_id == token.token_id)
    return TraceStep(token.token_id, chosen.token, chosen.probability, chosen.chance, options)
