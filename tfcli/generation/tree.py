"""A beam search over one prompt as a record, from what the search told of itself."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tfcli.recipe.generate import GenerateSection
from tfcli.records.generation import BeamNode, BeamTree, Generated


def beam_tree(
    prompt: str,
    nodes: Sequence[BeamNode],
    texts: Sequence[Generated],
    labels: Callable[[Sequence[int]], list[str]],
    settings: GenerateSection,
) -> BeamTree:
    """The whole tree with its tokens' labels and the way to the best text.

    Args:
        nodes: in the order in which `beam_search` told them to its `observe`.
        texts: what the search found, the best first.
        labels: of token ids, a tokenizer's.
    """
    chosen = _way(nodes, texts[0].token_ids)
    named = zip(nodes, labels([node.token_id for node in nodes]), strict=True)
    drawn = tuple(replace(node, token=label, chosen=n in chosen) for n, (node, label) in enumerate(named))
    return BeamTree(prompt, settings.beam, settings.length_penalty, drawn, tuple(texts))


def _way(nodes: Sequence[BeamNode], token_ids: Sequence[int]) -> set[int]:
    """The numbers of the nodes that lead to a text: to its best end, where two groups have found the same."""
    ends = [n for n in range(len(nodes)) if _ids(nodes, n) == [*token_ids]]
    best = max(ends, key=lambda n: (nodes[n].fate == "ended", nodes[n].ranking), default=None)
    return set(_ancestry(nodes, best))


def _ids(nodes: Sequence[BeamNode], number: int) -> list[int]:
    return [nodes[n].token_id for n in _ancestry(nodes, number)][::-1]


def _ancestry(nodes: Sequence[BeamNode], number: int | None) -> list[int]:
    ancestry = []
    while number is not None:
        ancestry.append(number)
        number = nodes[number].parent
    return ancestry
