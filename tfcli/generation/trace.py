"""How texts come about: the trace of one that is drawn, a step a token, and the tree of a beam search."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tfcli.generation.batch import PromptBatch
from tfcli.generation.decode import DecodingStages
from tfcli.generation.sampling import ruled_out
from tfcli.generation.settings import settled
from tfcli.recipe.generate import GenerateSection
from tfcli.records.generation import BeamNode, BeamTree, Generated, Option, Trace, TraceStep
from tfcli.records.roles import TokenRoles
from tfcli.runs.load import LoadedRun

OPTIONS = 8
"""Candidates of every step; the more of them, the wider the terminal that shows them all."""

Labels = Callable[[Sequence[int]], list[str]]
"""A tokenizer's labels of token ids."""


def trace(run: LoadedRun, prompt: str, settings: GenerateSection, *, sample: bool | None = None) -> Trace:
    """The first text that `generate` makes without beams, with what else could have come at each of its steps.

    Raises:
        UsageError: as `generate`.
    """
    settings = replace(settled(run.model, run.tokenizer, settings, sample), num_samples=1, beam=1, beam_groups=1)
    batch = PromptBatch(run.model, run.tokenizer, [prompt], settings)
    roles, labels = run.tokenizer.roles, run.tokenizer.labels
    text, steps = batch.text(0), list[TraceStep]()
    for token in batch.tokens(lambda stages: steps.append(trace_step(stages, roles, labels))):
        text.push(token.token_id, token.log_probability)
        if text.stopped:
            break
    return Trace(text.finished(), tuple(steps))


def trace_step(stages: DecodingStages, roles: TokenRoles, labels: Labels, options: int = OPTIONS) -> TraceStep:
    """A step of one text: its likeliest tokens under the model itself, the chosen one in the last place if it is none
    of them. Ids that no token has are left out."""
    logits, probabilities, chosen = stages.logits[0], stages.logits.softmax(-1)[0], int(stages.token_ids[0])
    nameless = roles.without_token(len(logits))
    best = (logits + ruled_out(nameless, logits)).topk(min(options, len(logits) - len({*nameless}))).indices.tolist()
    if chosen not in best:
        best[-1] = chosen
    found = zip(best, labels(best), probabilities[best].tolist(), stages.probabilities[0, best].tolist(), strict=True)
    shown = {token_id: Option(token_id, *of_it) for token_id, *of_it in found}
    taken = shown[chosen]
    return TraceStep(chosen, taken.token, taken.probability, taken.chance, tuple(shown.values()))


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


def beam_tree(
    prompt: str, nodes: Sequence[BeamNode], texts: Sequence[Generated], labels: Labels, settings: GenerateSection
) -> BeamTree:
    """The whole tree with its tokens' labels and the way to the best text: to its best end, where two groups have found
    the same.

    Args:
        nodes: in the order in which `beam_search` gave them to its `observe`.
        texts: what the search found, the best first.
    """
    ids = [*texts[0].token_ids]
    ways = [_ancestry(nodes, number) for number, node in enumerate(nodes) if node.step == len(ids) - 1]
    best = [way for way in ways if [nodes[n].token_id for n in reversed(way)] == ids]
    chosen = max(best, key=lambda way: (nodes[way[0]].fate == "ended", nodes[way[0]].ranking), default=[])
    named = zip(nodes, labels([node.token_id for node in nodes]), strict=True)
    drawn = tuple(replace(node, token=label, chosen=n in chosen) for n, (node, label) in enumerate(named))
    return BeamTree(prompt, settings.beam, settings.length_penalty, drawn, tuple(texts))


def _ancestry(nodes: Sequence[BeamNode], number: int | None) -> list[int]:
    """The numbers of a node and of all that lead to it, itself first."""
    ancestry = []
    while number is not None:
        ancestry.append(number)
        number = nodes[number].parent
    return ancestry
